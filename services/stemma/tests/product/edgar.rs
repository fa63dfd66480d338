//! Folders mirrored from EDGAR, and full submissions, through `stemma ingest`.

use serde_json::Value;
use stemma_filings::edgar::{SubmissionHeader, html_page, submission_document};

use crate::facts;
use crate::support::{TestEnv, codes, trees};

const TEN_K: &str = "edgar/data/77/000000007723000012";
const EIGHT_K: &str = "edgar/data/88/000000008820000003";

const REPORT: &str = "PART I\n\nItem 1. Business\n\nWe make anvils and hammers for the shops of the land, and we sell them there.\n\n\
    Item 1A. Risk Factors\n\nIron may become dear, and fewer people may want to buy the anvils that we make.\n\n\
    Item 2. Properties\n\nWe own one forge and the land under it, and we lease the other one.\n";

// A mirrored folder of a 10-K and of an 8-K, and two full submissions.
fn mirror(lab: &TestEnv) {
    let submission = [
        SubmissionHeader {
            accession: "0000000077-23-000012",
            form: "10-K",
            period: "20230930",
            filed: "20231110",
            company: "ACME ANVILS INC",
            cik: "0000000077",
        }
        .text(),
        submission_document(
            "10-K",
            "acme-20230930.htm",
            &html_page("Item 1. Business", "We make anvils."),
        ),
        submission_document(
            "EX-21.1",
            "ex211.htm",
            &html_page("Subsidiaries", "Hammer Ltd"),
        ),
    ]
    .concat();
    let in_page = submission.replace('<', "&lt;").replace('>', "&gt;");
    for (name, text) in [
        (
            "0000000077-23-000012-index-headers.html",
            format!("<html><pre>{in_page}</pre></html>"),
        ),
        ("0000000077-23-000012.txt", submission),
        ("index.json", "{}".into()),
        (
            "acme-20230930.htm",
            html_page(
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
        ("FilingSummary.xml", "<x/>".into()),
        ("acme-20230930.xsd", "<x/>".into()),
        ("acme-20230930_lab.xml", "<x/>".into()),
        ("logo.jpg", "x".into()),
    ] {
        lab.put(&format!("{TEN_K}/{name}"), text);
    }
    lab.put(
        &format!("{EIGHT_K}/d8k.htm"),
        html_page(
            "Item 8.01. Other Events",
            "The forge burned down in the night.",
        ),
    );
    let index = "<div id=\"formName\">Form 8-K - Current report</div><div>Filing Date</div><div>2020-01-09</div><div>Period of Report</div>\
        <div>2020-01-08</div><table><tr><td>1</td><td>8-K</td><td>d8k.htm</td><td>8-K</td><td>9</td></tr></table>\
        <span>HAMMER TRUST (Filer) CIK: 0000000088 (see all)</span>";
    lab.put(&format!("{EIGHT_K}/0000000088-20-000003-index.htm"), index);
    let old = [
        SubmissionHeader {
            accession: "0000000077-01-000002",
            form: "10-K405",
            period: "20000930",
            filed: "20001220",
            company: "ACME IRON WORKS",
            cik: "0000000077",
        }
        .text(),
        submission_document("10-K405", "a.txt", REPORT),
        submission_document("EX-27", "b.txt", "<TABLE>\n<S> <C>\n<CASH> 12\n</TABLE>"),
        submission_document("GRAPHIC", "c.jpg", "begin 644 c.jpg\nM1TE&.#EA\nend"),
    ]
    .concat();
    lab.put("edgar/data/77/0000000077-01-000002.txt", &old);
    lab.put(
        "feed.nc",
        old.replace("0000000077-01-000002", "0000000077-02-000009")
            .replace('\n', "\r"),
    );
}

fn paths(answer: &Value) -> Vec<String> {
    let documents = answer["documents"].as_array().cloned().unwrap_or_default();
    let mut paths: Vec<String> = documents
        .iter()
        .map(|document| {
            let path = document["path"].as_str().unwrap_or_default();
            path.rsplit('/').next().unwrap_or_default().to_owned()
        })
        .collect();
    paths.sort();
    paths
}

fn fact(lab: &TestEnv, document: &str, name: &str) -> String {
    let answer = lab
        .stemma("store", ["--json", "stat", document])
        .run()
        .json();
    let value = &answer["document"]["facts"][name]["value"];
    value.as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_mirrored_folder_is_read_as_it_lies() {
    let lab = TestEnv::new();
    mirror(&lab);
    let answer = lab.ingest("store", &[]);
    let expected = [
        "0000000077-01-000002.txt",
        "acme-20230930.htm",
        "d8k.htm",
        "ex211.htm",
        "feed.nc",
    ];
    assert_eq!(paths(&answer), expected, "{answer:#}");
    assert_eq!(answer["counts"]["failed"], 0, "{answer:#}");
    let edgar = &answer["edgar"];
    assert_eq!(edgar["folders"], 2);
    let skipped =
        serde_json::json!({ "graphic": 1, "index": 3, "submission": 1, "viewer": 2, "xbrl": 1 });
    assert_eq!(edgar["skipped"], skipped);
    for (document, facts) in [
        (
            "acme-20230930",
            [
                "ACME ANVILS INC",
                "10-K",
                "2023",
                "2023-09-30",
                "2023-11-10",
                "77",
                "0000000077-23-000012",
                "3420",
                "10-K",
            ],
        ),
        (
            "ex211",
            [
                "ACME ANVILS INC",
                "EX-21.1",
                "2023",
                "2023-09-30",
                "2023-11-10",
                "77",
                "0000000077-23-000012",
                "3420",
                "EX-21.1",
            ],
        ),
        (
            "d8k",
            [
                "HAMMER TRUST",
                "8-K",
                "",
                "2020-01-08",
                "2020-01-09",
                "88",
                "0000000088-20-000003",
                "",
                "8-K",
            ],
        ),
        (
            "0000000077-01-000002",
            [
                "ACME IRON WORKS",
                "10-K405",
                "2000",
                "2000-09-30",
                "2000-12-20",
                "77",
                "0000000077-01-000002",
                "3420",
                "",
            ],
        ),
        (
            "feed",
            [
                "ACME IRON WORKS",
                "10-K405",
                "2000",
                "2000-09-30",
                "2000-12-20",
                "77",
                "0000000077-02-000009",
                "3420",
                "",
            ],
        ),
    ] {
        let names = [
            "company",
            "form",
            "fiscal_year",
            "period_end",
            "filed",
            "cik",
            "accession",
            "sic",
            "document_type",
        ];
        let found = names.map(|name| match name {
            "company" => fact(&lab, document, "issuer"),
            name => fact(&lab, document, name),
        });
        assert_eq!(found, facts, "{document}");
    }
    let again = lab.ingest("store", &[]);
    assert_eq!(again["counts"]["unchanged"], 5, "{again:#}");
    let text = lab.stemma("store", ["ingest", "filings"]).run();
    let line =
        "EDGAR: 2 folders; files left out: 1 XBRL, 1 graphic, 2 viewer, 3 index, 1 full submission";
    assert!(text.err.contains(line), "{}", text.err);
}

#[test]
fn documents_of_a_filing_are_listed_by_its_accession_number() {
    let lab = TestEnv::new();
    mirror(&lab);
    lab.ingest("store", &[]);
    let listed = |scope: &str| {
        let answer = lab.stemma("store", ["--json", "ls", scope]).run().json();
        answer.to_string()
    };
    let filing = listed("/@accession/0000000077-23-000012");
    assert!(
        filing.contains("acme-20230930.htm") && filing.contains("ex211.htm"),
        "{filing}"
    );
    assert!(!filing.contains("d8k.htm"), "{filing}");
    let annual = listed("/@form/10-K");
    assert!(
        annual.contains("acme-20230930.htm") && !annual.contains("ex211.htm"),
        "{annual}"
    );
    let year = listed("/@fiscal_year/2000");
    assert!(
        year.contains("feed.nc") && !year.contains("acme-20230930.htm"),
        "{year}"
    );
}

#[test]
fn filters_choose_filings_before_they_are_read() {
    let lab = TestEnv::new();
    mirror(&lab);
    lab.put("note.md", "# A note\n\nNothing says whose it is.\n");
    let chosen = |store: &str, options: &[&str]| {
        let answer = lab.ingest(store, options);
        (paths(&answer), answer["edgar"]["filtered"].clone())
    };
    let (paths, filtered) = chosen("forms", &["--forms", "10-K,8-K"]);
    assert_eq!(paths, ["acme-20230930.htm", "d8k.htm", "ex211.htm"]);
    assert_eq!(filtered, serde_json::json!({ "form": 2, "unknown": 1 }));
    let (paths, filtered) = chosen("since", &["--since", "2023-01-01"]);
    assert_eq!(paths, ["acme-20230930.htm", "ex211.htm"]);
    assert_eq!(filtered, serde_json::json!({ "filed": 3, "unknown": 1 }));
    let (paths, _) = chosen("cik", &["--cik", "0000000088,99"]);
    assert_eq!(paths, ["d8k.htm"]);
    let nothing = lab
        .stemma("none", ["ingest", "filings", "--forms", "20-F"])
        .run();
    assert!(
        nothing.err.contains("no document is chosen"),
        "{}",
        nothing.err
    );
}

#[test]
fn a_submission_is_a_tree_of_its_documents() {
    let lab = TestEnv::new();
    mirror(&lab);
    lab.ingest("store", &["--cik", "77"]);
    let tree = lab.stemma("store", ["tree", "0000000077-01-000002"]).run();
    let tree = &tree.out;
    for title in ["10-K405", "Item 1A. Risk Factors", "EX-27"] {
        assert!(tree.contains(title), "{tree}");
    }
    assert!(!tree.contains("GRAPHIC"), "{tree}");
    let items = lab
        .stemma("store", ["--json", "items", "0000000077-01-000002"])
        .run()
        .json();
    assert!(items.to_string().contains("Risk Factors"), "{items:#}");
}

#[test]
fn a_submission_with_html_has_the_items_of_its_primary_document() {
    let lab = TestEnv::new();
    let filler =
        "The anvil is a block of iron on which the smith works, and we make many of them. "
            .repeat(60);
    let items = [
        ("Item 1. Business", "We make anvils."),
        ("Item 1A. Risk Factors", "Iron may become dear."),
        ("Item 2. Properties", "We own a forge."),
    ];
    let pages: String = items
        .iter()
        .map(|(title, text)| {
            format!(
                "<p><b>{title}</b></p><p>{text} {filler}</p><hr style='page-break-after:always'>"
            )
        })
        .collect();
    let agreement = format!(
        "<html><body><p><b>Item 1. Scope</b></p><p>The parties agree. {filler}</p></body></html>"
    );
    let submission = [
        SubmissionHeader {
            accession: "0000000077-23-000012",
            form: "10-K",
            period: "20230930",
            filed: "20231110",
            company: "ACME ANVILS INC",
            cik: "0000000077",
        }
        .text(),
        submission_document(
            "10-K",
            "a.htm",
            &format!("<XBRL>\n<html><body>{pages}</body></html>\n</XBRL>"),
        ),
        submission_document("EX-10.1", "b.htm", &agreement),
        submission_document("EX-101.INS", "c.xml", "<XBRL>\n<xbrl>NOISE</xbrl>\n</XBRL>"),
    ]
    .concat();
    lab.put("filing.txt", submission);
    let answer = lab.ingest("store", &[]);
    assert_eq!(answer["counts"]["failed"], 0, "{answer:#}");
    assert_eq!(fact(&lab, "filing", "form"), "10-K");
    let answer = lab
        .stemma("store", ["--json", "tree", "filing"])
        .run()
        .json()
        .to_string();
    assert!(
        answer.contains("\"10-K\"") && answer.contains("\"EX-10.1\""),
        "{answer}"
    );
    assert!(!answer.contains("NOISE"), "{answer}");
    let answer = lab
        .stemma("store", ["--json", "items", "filing"])
        .run()
        .json();
    let business = answer["items"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|item| item["item"] == "1");
    let business = business.unwrap_or_else(|| panic!("{answer:#}"));
    assert_eq!(business["title"], "Business", "{answer:#}");
    assert_eq!(business["status"], "full", "{answer:#}");
}

fn linkbase(label: &str) -> String {
    format!(
        "<linkbase><labelLink><loc href=\"x.xsd#us-gaap_Revenues\" label=\"l\"/><labelArc from=\"l\" to=\"t\"/>\
         <label label=\"t\">{label}</label></labelLink></linkbase>"
    )
}

#[test]
fn labels_next_to_a_filing_name_its_facts() {
    let lab = TestEnv::new();
    let labels = format!("{TEN_K}/seven-20241231_lab.xml");
    lab.put(
        &format!("{TEN_K}/seven-20241231.htm"),
        facts::filing(2024, "1,500", "1,150"),
    );
    let found = |words: &str| {
        let arguments = ["--json", "facts", "seven-20241231", "--concept", words];
        let list = lab.stemma("store", arguments).run().json();
        let facts = list["facts"].as_array().cloned().unwrap_or_default();
        let rows = facts.iter().map(|fact| (&fact["label"], &fact["value"]));
        rows.map(|(label, value)| format!("{label} {value}"))
            .collect::<Vec<_>>()
    };
    let is_unchanged = || {
        let answer = lab.ingest("store", &[]);
        assert_eq!(answer["counts"]["failed"], 0, "{answer:#}");
        answer["counts"]["unchanged"] == 1
    };
    assert!(!is_unchanged());
    assert!(found("net sales").is_empty());
    // A linkbase that comes later makes a new version, and so does another one.
    lab.put(&labels, linkbase("Net sales"));
    assert!(!is_unchanged());
    let expected = [r#""Net sales" "1500000000""#, r#""Net sales" "1150000000""#];
    assert_eq!(found("net sales"), expected);
    // It is an original, which gc keeps.
    let gc = lab.stemma("store", ["--json", "gc", "--yes"]).run();
    assert_eq!((gc.code, &gc.json()["objects"]), (Some(0), &0.into()));
    assert!(is_unchanged());
    lab.put(&labels, linkbase("Turnover"));
    assert!(!is_unchanged());
    assert!(found("net sales").is_empty());
    assert_eq!(found("turnover").len(), 2);
    // A damaged one is a defect, not a failure.
    lab.put(&labels, "<html>404</html>");
    assert!(!is_unchanged());
    let tree = trees(&lab.path("store")).into_values().next_back().unwrap();
    let gaps = codes(&tree.tree.gaps);
    assert!(gaps.contains(&("xbrl.labels", None)), "{gaps:?}");
    assert_eq!(found("Revenues").len(), 2);
    // Without it the filing is what it was at first.
    std::fs::remove_file(lab.filings().join(&labels)).unwrap();
    assert!(!is_unchanged());
    assert!(found("turnover").is_empty());
}
