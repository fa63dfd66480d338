//! Reindex messages against a fake bucket.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use stemma_engine::flow::{ClaimOutcome, Flow};
use stemma_engine::jobs;
use stemma_engine::message::RunOutcome;
use stemma_engine::objects::{ObjectLookup, ObjectMeta};
use stemma_pipeline::FilingFlow;
use stemma_store::blobs::Blobs;
use stemma_store::{Env, FailureRecord, RunHeader};

use super::*;

/// A bucket: keys with their ETags.
#[derive(Clone, Default)]
struct FakeBucket(Arc<Mutex<BTreeMap<String, String>>>);

impl FakeBucket {
    fn put(&self, key: &str, etag: &str) {
        self.0.lock().unwrap().insert(key.into(), etag.into());
    }
}

#[async_trait]
impl ObjectLookup for FakeBucket {
    async fn head(&self, _bucket: &str, key: &str) -> PortResult<Option<ObjectMeta>> {
        let etag = self.0.lock().unwrap().get(key).cloned();
        Ok(etag.map(|etag: String| ObjectMeta {
            key: key.into(),
            size_bytes: 1,
            etag,
            modified_ms: 7,
            version: None,
        }))
    }

    async fn list(&self, bucket: &str, prefix: &str) -> PortResult<Vec<ObjectMeta>> {
        let keys: Vec<String> = self.0.lock().unwrap().keys().cloned().collect();
        let mut found = Vec::new();
        for key in keys.iter().filter(|key| key.starts_with(prefix)) {
            found.extend(self.head(bucket, key).await?);
        }
        Ok(found)
    }

    // The content of an object is its ETag.
    async fn read(&self, _bucket: &str, key: &str, _max_bytes: u64) -> PortResult<Option<Bytes>> {
        Ok(self.0.lock().unwrap().get(key).cloned().map(Bytes::from))
    }

    async fn read_start(&self, _bucket: &str, key: &str, _bytes: u64) -> PortResult<Bytes> {
        let text = self.0.lock().unwrap().get(key).cloned();
        Ok(text.unwrap_or_default().into())
    }
}

struct ReindexFixture {
    bucket: FakeBucket,
    reindex: Reindex,
}

impl ReindexFixture {
    fn new() -> Self {
        let bucket = FakeBucket::default();
        let source = |prefix: &str, name: &str| ReindexSource {
            collection: name.parse().unwrap(),
            bucket: "filings".into(),
            prefix: prefix.into(),
        };
        let env = Env::simulated(1);
        let ports = Ports::memory(&env).with_objects(Arc::new(bucket.clone()));
        let sources = vec![source("in/", "all"), source("in/3m/", "3m")];
        let reindex = Reindex::new(ports, sources, RunSettings::default());
        Self { bucket, reindex }
    }

    async fn send(&self, body: &str) -> Disposition {
        self.reindex.ports.env.sleep(Duration::from_millis(2)).await; // job ids sort by submission time
        self.reindex
            .handle(&Message::new(body.to_string()), 0)
            .await
    }

    async fn notify_created(&self, key: &str) -> Disposition {
        self.send(&created(key)).await
    }

    async fn job_count(&self) -> usize {
        let blobs = &self.reindex.ports.blobs;
        jobs::list(blobs, None, 100).await.unwrap().len()
    }

    /// Claims the entries of all jobs, like a coordinator.
    async fn claim_entries(&self) -> Vec<(String, ClaimOutcome)> {
        let ports = &self.reindex.ports;
        let mut claims = Vec::new();
        for id in jobs::list(&ports.blobs, None, 100).await.unwrap() {
            let manifest = jobs::manifest(&ports.blobs, &id).await.unwrap().unwrap();
            for entry in jobs::entries(&ports.blobs, &manifest, 0).await.unwrap() {
                claims.push((
                    manifest.collection.clone(),
                    FilingFlow::claim(ports, &manifest, &entry).await.unwrap(),
                ));
            }
        }
        claims
    }

    /// Claims the entries of the newest job first, and ends their runs.
    async fn claim_jobs_backwards(&self) -> Vec<(String, ClaimOutcome)> {
        let ports = &self.reindex.ports;
        let mut claims = Vec::new();
        let ids = jobs::list(&ports.blobs, None, 100).await.unwrap();
        for id in ids.iter().rev() {
            let manifest = jobs::manifest(&ports.blobs, id).await.unwrap().unwrap();
            for entry in jobs::entries(&ports.blobs, &manifest, 0).await.unwrap() {
                let claim = FilingFlow::claim(ports, &manifest, &entry).await.unwrap();
                if let ClaimOutcome::Run(run) = &claim {
                    self.fail_run(run, "test.ended").await;
                }
                claims.push((manifest.collection.clone(), claim));
            }
        }
        claims
    }

    /// Fails a run.
    async fn fail_run(&self, run: &RunHeader, code: &str) {
        let record = FailureRecord {
            code: code.into(),
            message: "on purpose".into(),
            next: None,
            stage: "paginate".into(),
            attempts: 1,
            at_ms: 0,
        };
        let key = stemma_store::key::run_failure_key(&run.at.run);
        self.reindex
            .ports
            .blobs
            .put(&key, serde_json::to_vec(&record).unwrap().into())
            .await
            .unwrap();
    }
}

fn header(claim: &ClaimOutcome) -> RunHeader {
    match claim {
        ClaimOutcome::Run(header) => header.clone(),
        other => panic!("{other:?}"),
    }
}

fn created(key: &str) -> String {
    format!(
        r#"{{"Records":[{{"eventName":"ObjectCreated:Put","s3":{{"bucket":{{"name":"filings"}},"object":{{"key":"{key}"}}}}}}]}}"#
    )
}

fn etag(claim: &ClaimOutcome) -> serde_json::Value {
    header(claim).input["origin"]["object"]["etag"].clone()
}

#[tokio::test(start_paused = true)]
async fn notification_starts_run_in_matching_collection() {
    let scene = ReindexFixture::new();
    scene.bucket.put("in/3m/a.pdf", "1");
    assert_eq!(scene.notify_created("in/3m/a.pdf").await, Disposition::Ack);
    let claims = scene.claim_entries().await;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].0, "3m", "the longest matching prefix wins");
    assert_eq!(
        header(&claims[0].1).input["uri"],
        "s3://filings/in/3m/a.pdf"
    );
}

/// Finding 7 of the operator review: ten notifications were ten jobs, and most of them failed.
#[tokio::test(start_paused = true)]
async fn notifications_of_a_moment_become_one_job() {
    let scene = ReindexFixture::new();
    scene.bucket.put("in/a.pdf", "1");
    scene.bucket.put("in/b.pdf", "1");
    let keys = ["in/a.pdf", "in/b.pdf", "in/a.pdf", "in/a.pdf"];
    let sent = futures::future::join_all(keys.map(|key| scene.notify_created(key))).await;
    assert!(sent.iter().all(|sent| *sent == Disposition::Ack));
    assert_eq!(scene.job_count().await, 1);
    assert_eq!(scene.claim_entries().await.len(), 2, "two documents");
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_run_are_merged_into_one_run() {
    let scene = ReindexFixture::new();
    scene.bucket.put("in/a.pdf", "1");
    scene.notify_created("in/a.pdf").await;
    let first = header(&scene.claim_entries().await[0].1);
    for etag in ["2", "3", "4"] {
        scene.bucket.put("in/a.pdf", etag);
        assert_eq!(scene.notify_created("in/a.pdf").await, Disposition::Ack);
    }
    let claims = scene.claim_entries().await;
    for (_, claim) in &claims {
        let waits = ClaimOutcome::After(first.clone());
        assert_eq!(*claim, waits, "must wait while the run is open");
    }
    // The object was replaced before it was read.
    scene.fail_run(&first, FailureRecord::INPUT_CHANGED).await;
    let claims = scene.claim_entries().await;
    let runs: Vec<_> = claims.iter().map(|(_, claim)| header(claim)).collect();
    assert_eq!(runs.len(), 4);
    assert!(runs.iter().all(|run| *run == runs[0]), "one more run");
    assert_eq!(etag(&claims[0].1), "4", "must index the newest state");
}

/// D5 of the engine review: the state at the time of the message was indexed, over a newer one.
#[tokio::test(start_paused = true)]
async fn older_state_of_an_object_is_never_claimed_after_a_newer_one() {
    let scene = ReindexFixture::new();
    scene.bucket.put("in/a.pdf", "1");
    scene.notify_created("in/a.pdf").await;
    scene.bucket.put("in/a.pdf", "2");
    scene.notify_created("in/a.pdf").await;
    let claims = scene.claim_jobs_backwards().await;
    assert_eq!(etag(&claims[0].1), "2");
    assert!(matches!(claims[1].1, ClaimOutcome::Ended(_)), "{claims:?}");
}

#[tokio::test(start_paused = true)]
async fn missing_object_is_removed_even_if_message_says_index() {
    let scene = ReindexFixture::new();
    scene.notify_created("in/never.pdf").await;
    let claims = scene.claim_entries().await;
    assert_eq!(
        claims[0].1,
        ClaimOutcome::Ended(RunOutcome::Unchanged),
        "nothing was there to be removed"
    );

    scene.bucket.put("in/a.pdf", "1");
    scene.notify_created("in/a.pdf").await;
    let claims = scene.claim_entries().await;
    scene.fail_run(&header(&claims[1].1), "test.failed").await;
    scene.bucket.0.lock().unwrap().clear();
    scene.notify_created("in/a.pdf").await;
    let claims = scene.claim_entries().await;
    assert_eq!(header(&claims[2].1).input["origin"], "removed");
}

#[tokio::test(start_paused = true)]
async fn unlisted_sources_become_dead_letters_with_their_reason() {
    let scene = ReindexFixture::new();
    for key in ["elsewhere/a.pdf", "in/picture.png"] {
        let handled = scene.notify_created(key).await;
        assert_eq!(
            handled,
            Disposition::Ack,
            "notified of more than is indexed"
        );
    }
    let blobs = &scene.reindex.ports.blobs;
    assert_eq!(dead_letter::count(blobs, 10).await.unwrap(), 0);
    for (body, reason) in [
        (
            r#"{"source":"s3://secrets/a.pdf"}"#,
            "is in no configured source",
        ),
        (r#"{"source":"s3://filings/in/x.exe"}"#, "is not a .pdf"),
        (
            r#"{"source":"s3://filings/in/a.pdf","collection":"x"}"#,
            "of this collection",
        ),
        ("{}", "not a reindex message"),
    ] {
        assert_eq!(scene.send(body).await, Disposition::Ack);
        let letters = dead_letter::list(blobs, 10).await.unwrap();
        assert!(letters[0].reason.contains(reason), "{letters:?}");
    }
    assert_eq!(scene.job_count().await, 0);
}

// A replay of such a letter would make coordinators forget a failure and the state of that run.
#[tokio::test(start_paused = true)]
async fn a_task_on_the_reindex_queue_names_no_run_in_its_dead_letter() {
    let scene = ReindexFixture::new();
    let run = serde_json::json!({ "run": "r-1", "header": "c/x/d/r/header", "scope": "c/x/d/r" });
    let task = serde_json::json!({
        "run": run, "key": "0".repeat(32), "stage": "paginate", "revision": 1, "settings": "s",
        "class": "bulk", "payload": {},
    });
    for message in [task, serde_json::json!({ "wake": run })] {
        assert_eq!(scene.send(&message.to_string()).await, Disposition::Ack);
    }
    let letters = dead_letter::list(&scene.reindex.ports.blobs, 10)
        .await
        .unwrap();
    assert_eq!(letters.len(), 2);
    for letter in letters {
        assert_eq!((&letter.run, &letter.key), (&None, &None), "{letter:?}");
    }
}

fn uris(claims: &[(String, ClaimOutcome)]) -> Vec<(String, bool)> {
    let mut uris: Vec<(String, bool)> = claims
        .iter()
        .filter_map(|(_, claim)| match claim {
            ClaimOutcome::Run(header) => Some(header),
            _ => None,
        })
        .map(|header| {
            let uri = header.input["uri"].as_str().unwrap().to_owned();
            (uri, header.input["origin"] == "removed")
        })
        .collect();
    uris.sort();
    uris
}

#[tokio::test(start_paused = true)]
async fn documents_of_a_filing_replace_its_full_submission_once_all_are_there() {
    let fixture = ReindexFixture::new();
    let whole = "in/77/0000000077-23-000012.txt";
    let folder = "in/77/000000007723000012/";
    let text = "<SEC-DOCUMENT>0000000077-23-000012.txt\n\
        <SEC-HEADER>\nCONFORMED SUBMISSION TYPE: 10-K\n</SEC-HEADER>\n\
        <DOCUMENT>\n<TYPE>10-K\n<FILENAME>a.htm\n<TEXT>x\n</TEXT>\n</DOCUMENT>\n\
        <DOCUMENT>\n<TYPE>EX-21\n<FILENAME>b.htm\n<TEXT>x\n</TEXT>\n</DOCUMENT>\n";
    fixture.bucket.put(whole, text);
    fixture.notify_created(whole).await;
    let mut seen = fixture.claim_entries().await;
    let uri = |key: &str| format!("s3://filings/{key}");
    assert_eq!(uris(&seen), [(uri(whole), false)]);
    fixture.fail_run(&header(&seen[0].1), "test.ended").await;

    // One part is not all: the full submission stays the document, and pages of the viewer are not documents.
    for name in ["a.htm", "R1.htm"] {
        fixture.bucket.put(&format!("{folder}{name}"), "1");
        fixture.notify_created(&format!("{folder}{name}")).await;
    }
    seen = fixture.claim_entries().await;
    let runs = uris(&seen);
    assert!(
        runs.iter().all(|(uri, _)| uri.ends_with(".txt")),
        "{runs:?}"
    );

    fixture.bucket.put(&format!("{folder}b.htm"), "1");
    fixture.notify_created(&format!("{folder}b.htm")).await;
    let runs = uris(&fixture.claim_entries().await);
    let expected = [
        (uri(&format!("{folder}a.htm")), false),
        (uri(&format!("{folder}b.htm")), false),
        (uri(whole), true),
    ];
    for run in &expected {
        assert!(runs.contains(run), "{run:?} in {runs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn labels_of_a_filing_start_a_run_of_its_document() {
    let fixture = ReindexFixture::new();
    let folder = "in/77/000000007723000012/";
    for (name, labels) in [("a.htm", None), ("a_lab.xml", Some("a_lab.xml"))] {
        let key = format!("{folder}{name}");
        fixture.bucket.put(&key, "1");
        assert_eq!(fixture.notify_created(&key).await, Disposition::Ack);
        let claims = fixture.claim_entries().await;
        let run = header(&claims.last().unwrap().1);
        assert_eq!(run.input["uri"], format!("s3://filings/{folder}a.htm"));
        assert_eq!(run.input["labels"]["name"].as_str(), labels);
        let mut uris = uris(&claims);
        uris.dedup();
        assert_eq!(uris.len(), 1, "the labels are not a document");
        fixture.fail_run(&run, "test.ended").await;
    }
}

/// The labels at the time of the message were claimed, over newer ones, and the worker did not find them.
#[tokio::test(start_paused = true)]
async fn older_labels_of_a_filing_are_never_claimed_after_newer_ones() {
    let folder = "in/77/000000007723000012/";
    let labels = format!("{folder}a_lab.xml");
    for (before, after) in [(Some("1"), Some("2")), (None, Some("2")), (Some("1"), None)] {
        let fixture = ReindexFixture::new();
        fixture.bucket.put(&format!("{folder}a.htm"), "1");
        for state in [before, after] {
            match state {
                Some(etag) => fixture.bucket.put(&labels, etag),
                None => drop(fixture.bucket.0.lock().unwrap().remove(&labels)),
            }
            fixture.notify_created(&labels).await;
        }
        let claims = fixture.claim_jobs_backwards().await;
        let claimed = &header(&claims[0].1).input["labels"]["origin"]["object"]["etag"];
        assert_eq!(claimed.as_str(), after);
        assert!(matches!(claims[1].1, ClaimOutcome::Ended(_)), "{claims:?}");
    }
}

/// What index files said at the time of the message was claimed, over what they say now.
#[tokio::test(start_paused = true)]
async fn older_facts_of_a_filing_are_never_claimed_after_newer_ones() {
    let fixture = ReindexFixture::new();
    let folder = "in/77/000000007723000012/";
    fixture.bucket.put(&format!("{folder}a.htm"), "1");
    for form in ["10-Q", "10-K"] {
        let header = format!("<SEC-HEADER>\nCONFORMED SUBMISSION TYPE: {form}\n</SEC-HEADER>\n");
        let name = format!("{folder}0000000077-23-000012.hdr.sgml");
        fixture.bucket.put(&name, &header);
        fixture.notify_created(&format!("{folder}a.htm")).await;
    }
    let claims = fixture.claim_jobs_backwards().await;
    let run = header(&claims[0].1);
    assert_eq!(run.input["filing"]["form"], "10-K", "{:?}", run.input);
    assert!(matches!(claims[1].1, ClaimOutcome::Ended(_)), "{claims:?}");
}

/// A full submission came back next to its parts, and was withdrawn where a part was removed.
#[tokio::test(start_paused = true)]
async fn folder_at_the_time_of_the_claim_decides_what_is_a_document() {
    let fixture = ReindexFixture::new();
    let whole = "in/77/0000000077-23-000012.txt";
    let part = "in/77/000000007723000012/a.htm";
    fixture.bucket.put(whole, SUBMISSION_OF_ONE);
    fixture.notify_created(whole).await;
    fixture.bucket.put(part, "1");
    fixture.notify_created(part).await;
    let runs = uris(&fixture.claim_jobs_backwards().await);
    assert_eq!(runs, [(format!("s3://filings/{part}"), false)]);

    // The jobs before would withdraw it.
    fixture.bucket.0.lock().unwrap().remove(part);
    fixture.notify_created(part).await;
    let runs = uris(&fixture.claim_jobs_backwards().await);
    let expected = [whole, part].map(|key| (format!("s3://filings/{key}"), key == part));
    assert_eq!(runs, expected);
}

const SUBMISSION_OF_ONE: &str = "<SEC-DOCUMENT>0000000077-23-000012.txt\n\
    <SEC-HEADER>\nCONFORMED SUBMISSION TYPE: 10-K\n</SEC-HEADER>\n\
    <DOCUMENT>\n<TYPE>10-K\n<FILENAME>a.htm\n<TEXT>x\n</TEXT>\n</DOCUMENT>\n";
