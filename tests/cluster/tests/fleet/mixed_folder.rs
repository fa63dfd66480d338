//! A folder of mixed filings (PDF, HTML, submissions of HTML and of text, notes) goes in as it lies: by `stemma ingest` in one
//! process and by `stemma submit` on a cluster, with the same trees, exhibits and facets.
#![expect(clippy::unwrap_used, reason = "tests and their helpers")]

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use stemma_cluster::compare::{bucket_trees, differences, trees};
use stemma_cluster::{ServiceFleet, ServiceRole, TestServers, binary};
use stemma_document::Collection;
use stemma_filings::edgar::{SubmissionHeader, html_page, submission_document};
use stemma_filings::{FilingKind, Spec, TextKind, generate, markdown, plain_text};
use stemma_store::blobs::FolderBlobs;

const BUCKET: &str = "mixed";
const READY_TIMEOUT: Duration = Duration::from_secs(90);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(240);
/// Documents of [`write_filings`]: images, viewer pages, index files and the submission next to its parts are not documents.
const DOCUMENTS: usize = 12;

/// A page that tags a figure.
fn tagged_page(title: &str, text: &str) -> String {
    format!(
        r#"<html xmlns:ix="http://www.xbrl.org/2013/inlineXBRL" xmlns:xbrli="http://www.xbrl.org/2003/instance"><body><div style="display:none">
<ix:header><ix:resources><xbrli:context id="c"><xbrli:entity><xbrli:identifier scheme="x">0000000077</xbrli:identifier></xbrli:entity>
<xbrli:period><xbrli:instant>2023-09-30</xbrli:instant></xbrli:period></xbrli:context><xbrli:unit id="usd">
<xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit></ix:resources></ix:header></div><p><b>{title}</b></p><p>{text}</p><p>It holds
<ix:nonFraction name="us-gaap:Inventory" contextRef="c" unitRef="usd" scale="3">1234</ix:nonFraction> of iron.</p></body></html>
"#
    )
}

/// What the company calls the concept of that figure.
const LABELS: &str = "<linkbase><labelLink><loc href=\"x.xsd#us-gaap_Inventory\" label=\"l\"/><labelArc from=\"l\" to=\"t\"/>\
    <label label=\"t\">Iron in the yard</label></labelLink></linkbase>\n";

const OLD_REPORT: &str = "PART I\n\nItem 1. Business\n\nWe make anvils and hammers for the shops of the land, and we sell them there.\n\n\
    Item 2. Properties\n\nWe own one forge and the land under it, and we lease the other one.\n";

/// Writes the folder: what EDGAR mirrors, and what people add to it.
fn write_filings(root: &Path) {
    let write = |name: &str, bytes: Vec<u8>| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    for (seed, kind) in (1..).zip([
        FilingKind::EarningsRelease,
        FilingKind::ALL[0],
        FilingKind::ALL[1],
    ]) {
        let spec = Spec {
            pages: 8,
            ..Spec::new(kind, seed)
        };
        write(&format!("pdf/{seed}.pdf"), generate(&spec).pdf);
    }
    write("notes/guide.md", markdown(1, 8).0.into());
    write(
        "notes/plain.txt",
        plain_text(1, TextKind::ALL[0].0, 8).0.into(),
    );
    let annual = "edgar/data/77/000000007723000012";
    let submission = [
        SubmissionHeader {
            accession: "0000000077-23-000012",
            form: "10-K",
            period: "20230930",
            company: "ACME ANVILS INC",
            cik: "0000000077",
            filed: "20240105",
        }
        .text(),
        submission_document(
            "10-K",
            "acme.htm",
            &html_page("Item 1. Business", "We make anvils."),
        ),
        submission_document(
            "EX-21.1",
            "ex211.htm",
            &html_page("Subsidiaries", "Hammer Ltd"),
        ),
    ]
    .concat();
    let listed = submission.replace('<', "&lt;").replace('>', "&gt;");
    for (name, text) in [
        (
            "0000000077-23-000012-index-headers.html",
            format!("<html><pre>{listed}</pre></html>"),
        ),
        ("0000000077-23-000012.txt", submission),
        (
            "acme.htm",
            tagged_page(
                "Item 1. Business",
                "We make anvils for the shops of the land.",
            ),
        ),
        (
            "ex211.htm",
            html_page(
                "Subsidiaries",
                "The subsidiary of the company is Hammer Ltd.",
            ),
        ),
        ("R1.htm", html_page("Cover", "noise")),
        ("acme_lab.xml", LABELS.into()),
        ("logo.jpg", "x".into()),
    ] {
        write(&format!("{annual}/{name}"), text.into());
    }
    let old = [
        SubmissionHeader {
            accession: "0000000088-96-000002",
            form: "10-K405",
            period: "19960630",
            company: "HAMMER TRUST",
            cik: "0000000088",
            filed: "20240105",
        }
        .text(),
        submission_document("10-K405", "a.txt", OLD_REPORT),
        submission_document("EX-27", "b.txt", "<TABLE>\n<S> <C>\n<CASH> 12\n</TABLE>"),
        submission_document("GRAPHIC", "c.jpg", "begin 644 c.jpg\nM1TE&.#EA\nend"),
    ]
    .concat();
    write("edgar/data/88/0000000088-96-000002.txt", old.clone().into());
    let feed = old.replace("0000000088-96-000002", "0000000088-96-000009");
    write(
        "feed/0000000088-96-000009.nc",
        feed.replace('\n', "\r").into(),
    );
    let web = [
        SubmissionHeader {
            accession: "0000000099-24-000001",
            form: "8-K",
            period: "20240103",
            company: "FORGE CORP",
            cik: "0000000099",
            filed: "20240105",
        }
        .text(),
        submission_document(
            "8-K",
            "d8k.htm",
            &html_page("Item 8.01. Other Events", "The forge burned down."),
        ),
        submission_document(
            "EX-99.1",
            "ex991.htm",
            &html_page("Press release", "The bellows were saved."),
        ),
    ]
    .concat();
    write("edgar/data/99/0000000099-24-000001.txt", web.into());
    write(
        "web/letter.html",
        html_page("To our shareholders", "It was a year of iron.").into(),
    );
    write(
        "web/other.htm",
        html_page("Quarterly letter", "It was a quarter of coal.").into(),
    );
}

/// What readers see: the counts below each facet, and the documents in which exhibits are found.
async fn view(fleet: &ServiceFleet) -> Vec<Value> {
    let mut seen = Vec::new();
    for command in [
        ["ls", "/@company"],
        ["ls", "/@form"],
        ["ls", "/@fiscal_year"],
        ["ls", "/@accession/0000000077-23-000012"],
        ["search", "\"Hammer Ltd\""],
        ["search", "bellows"],
        ["facts", "acme"],
    ] {
        let arguments = ["--json", command[0], command[1]];
        let output = fleet.run(&arguments, COMMAND_TIMEOUT).await.unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = |list: &str, fields: [&str; 2]| {
            let rows = answer[list].as_array().cloned().unwrap_or_default();
            let row = |row: &Value| fields.map(|field| row[field].clone());
            rows.iter().map(row).collect::<Vec<_>>()
        };
        let lists = [
            rows("folders", ["name", "documents"]),
            rows("documents", ["name", "path"]),
            rows("hits", ["locator", "title"]),
            rows("facts", ["label", "value"]),
        ];
        assert!(
            lists.iter().any(|list| !list.is_empty()),
            "{command:?}: {answer}"
        );
        seen.push(serde_json::json!(lists));
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mixed_folder_gives_the_same_trees_on_a_laptop_and_on_a_cluster() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let filings = folder.path().join("filings");
    write_filings(&filings);
    let filings = filings.to_str().unwrap();

    let local_store = folder.path().join("store");
    let laptop = ServiceFleet::new(binary().unwrap(), local_store.to_str().unwrap(), Vec::new());
    let laptop = laptop.unwrap();
    let ingest = laptop.run(&["ingest", filings], COMMAND_TIMEOUT).await;
    let ingest = ingest.unwrap();
    assert!(ingest.status.success(), "{ingest:?}");

    servers.make_bucket(BUCKET).await.unwrap();
    let mut settings = servers.settings(&[]).unwrap();
    let prefix = format!("mixed-{}", std::process::id());
    settings.extend(
        ["BROKER", "REDIS"].map(|server| (format!("STEMMA_{server}__PREFIX"), prefix.clone())),
    );
    let store = format!("s3://{BUCKET}/{prefix}");
    let mut cluster = ServiceFleet::new(binary().unwrap(), &store, settings).unwrap();
    let roles = [
        ServiceRole::Coordinator,
        ServiceRole::Worker,
        ServiceRole::Assembler,
    ];
    let names = roles.map(|role| cluster.spawn(role, &[]).unwrap());
    for name in &names {
        cluster.wait_until_ready(name, READY_TIMEOUT).await.unwrap();
    }
    let submit = ["submit", filings, "--wait"];
    let submit = cluster.run(&submit, COMMAND_TIMEOUT).await.unwrap();
    assert!(submit.status.success(), "{submit:?}");

    let collection = Collection::default();
    let blobs = FolderBlobs::open(&local_store).unwrap();
    let expected = trees(&blobs, &collection).await.unwrap();
    assert_eq!(expected.len(), DOCUMENTS, "{:?}", expected.keys());
    let actual = bucket_trees(&servers.s3(), BUCKET, &prefix, &collection).await;
    assert_eq!(differences(&expected, &actual.unwrap()), [""; 0]);

    let seen = view(&laptop).await;
    let text = serde_json::to_string(&seen).unwrap();
    for name in [
        "ACME ANVILS INC",
        "HAMMER TRUST",
        "FORGE CORP",
        "10-K405",
        "EX-21.1",
        "8-K",
        "1996",
        "2023",
        "ex211",
        "0000000099-24-000001",
        "Iron in the yard",
    ] {
        assert!(text.contains(name), "{name} in {text}");
    }
    assert_eq!(seen, view(&cluster).await);
}
