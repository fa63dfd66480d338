//! Pages that text recognition reads have a lane of their own on a cluster: `why` says that no worker serves it, and one that does gives
//! the trees of a run in one process.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their helpers")]

use std::time::{Duration, Instant};

use serde_json::Value;
use stemma_cluster::compare::{bucket_trees, differences, trees};
use stemma_cluster::{ServiceFleet, ServiceRole, TestServers, binary};
use stemma_document::Collection;
use stemma_store::blobs::FolderBlobs;

const BUCKET: &str = "scans";
const READY_TIMEOUT: Duration = Duration::from_secs(90);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(240);
const LINES: [&str; 5] = [
    "The company makes anvils and sells them in nine countries.",
    "Sales rose in each of the four quarters of the year.",
    "Two new plants began to work in the spring.",
    "The board proposes the same dividend as last year.",
    "No other event is known that readers should hear of.",
];

/// A low page with a few lines, because text recognition takes seconds for a whole one, at low priority.
fn page() -> String {
    let lines = LINES.map(|line| format!("T* ({line}) Tj ")).concat();
    let content = format!("BT /F1 24 Tf 72 160 Td (Overview) Tj /F1 12 Tf 24 TL {lines}ET");
    format!(
        "%PDF-1.7\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n\
         2 0 obj\n<</Type/Pages/Count 1/Kids[3 0 R]>>\nendobj\n\
         3 0 obj\n<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 200]/Contents 4 0 R/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>\nendobj\n\
         4 0 obj\n<</Length {}>>stream\n{content}\nendstream\nendobj\ntrailer\n<</Root 1 0 R>>\nstartxref\n0\n%%EOF\n",
        content.len()
    )
}

async fn ask(fleet: &ServiceFleet, arguments: &[&str]) -> Value {
    let output = fleet.run(arguments, COMMAND_TIMEOUT).await.unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_wait_for_a_worker_of_their_lane_and_give_the_same_trees() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let filings = folder.path().join("filings");
    std::fs::create_dir(&filings).unwrap();
    std::fs::write(filings.join("scan.pdf"), page()).unwrap();
    let filings = filings.to_str().unwrap();

    let local_store = folder.path().join("store");
    let laptop = ServiceFleet::new(binary().unwrap(), local_store.to_str().unwrap(), Vec::new());
    let doctor = ask(laptop.as_ref().unwrap(), &["--json", "doctor"]).await;
    if !doctor.to_string().contains("tesseract 5") {
        println!("skipped: tesseract is not installed");
        return;
    }
    let ingest = ["ingest", filings, "--ocr", "always"];
    let ingest = laptop.unwrap().run(&ingest, COMMAND_TIMEOUT).await.unwrap();
    assert!(ingest.status.success(), "{ingest:?}");

    servers.make_bucket(BUCKET).await.unwrap();
    let mut settings = servers.settings(&[]).unwrap();
    let prefix = format!("scans-{}", std::process::id());
    settings.extend(
        ["BROKER", "REDIS"].map(|server| (format!("STEMMA_{server}__PREFIX"), prefix.clone())),
    );
    let store = format!("s3://{BUCKET}/{prefix}");
    let mut cluster = ServiceFleet::new(binary().unwrap(), &store, settings).unwrap();
    let services: [(ServiceRole, &[&str]); 3] = [
        (ServiceRole::Coordinator, &[]),
        (ServiceRole::Worker, &["--lanes", "cpu"]),
        (ServiceRole::Assembler, &[]),
    ];
    for (role, arguments) in services {
        let name = cluster.spawn(role, arguments).unwrap();
        cluster
            .wait_until_ready(&name, READY_TIMEOUT)
            .await
            .unwrap();
    }
    let submit = ["--json", "submit", filings, "--ocr", "always"];
    let job = ask(&cluster, &submit).await["job"]
        .as_str()
        .unwrap()
        .to_owned();
    let started = Instant::now();
    let why = loop {
        let why = ask(&cluster, &["--json", "why", &job]).await["diagnosis"].clone();
        if why["cause"] == "no_worker" {
            break why;
        }
        assert!(started.elapsed() < READY_TIMEOUT, "{why}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert!(
        why.to_string().contains("stemma worker --lanes ocr"),
        "{why}"
    );

    let worker = cluster.spawn(ServiceRole::Worker, &["--lanes", "ocr"]);
    let ready = cluster
        .wait_until_ready(&worker.unwrap(), READY_TIMEOUT)
        .await;
    ready.unwrap();
    let submit = ["submit", filings, "--ocr", "always", "--wait"];
    let submit = cluster.run(&submit, COMMAND_TIMEOUT).await.unwrap();
    assert!(submit.status.success(), "{submit:?}");
    let collection = Collection::default();
    let blobs = FolderBlobs::open(&local_store).unwrap();
    let expected = trees(&blobs, &collection).await.unwrap();
    assert_eq!(expected.len(), 1);
    let actual = bucket_trees(&servers.s3(), BUCKET, &prefix, &collection).await;
    assert_eq!(differences(&expected, &actual.unwrap()), [""; 0]);
}
