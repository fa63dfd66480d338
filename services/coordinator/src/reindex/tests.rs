//! Reindex messages against a fake bucket.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stemma_engine::blobs::Blobs;
use stemma_engine::flow::{ClaimOutcome, Flow};
use stemma_engine::message::RunOutcome;
use stemma_engine::{FailureRecord, PortResult, RunHeader, jobs};
use stemma_pipeline::FilingFlow;

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
        let reindex = Reindex {
            ports: Ports::memory(&env),
            env,
            objects: Box::new(bucket.clone()),
            sources: vec![source("in/", "all"), source("in/3m/", "3m")],
            settings: RunSettings::default(),
        };
        Self { bucket, reindex }
    }

    async fn send(&self, body: &str) -> Disposition {
        self.reindex.env.sleep(Duration::from_millis(2)).await; // job ids sort by submission time
        self.reindex
            .handle(&Message::new(body.to_string()), 0)
            .await
    }

    async fn notify_created(&self, key: &str) -> Disposition {
        self.send(&format!(
            r#"{{"Records":[{{"eventName":"ObjectCreated:Put","s3":{{"bucket":{{"name":"filings"}},"object":{{"key":"{key}"}}}}}}]}}"#
        ))
        .await
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

    /// Fails a run.
    async fn fail_run(&self, run: &RunHeader) {
        let record = FailureRecord {
            code: "test.failed".into(),
            message: "on purpose".into(),
            next: None,
            stage: "paginate".into(),
            attempts: 1,
            at_ms: 0,
        };
        let key = stemma_engine::key::run_failure_key(&run.at.run);
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
        ClaimOutcome::Ended(ending) => panic!("{ending:?}"),
    }
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

#[tokio::test(start_paused = true)]
async fn duplicate_message_submits_one_job() {
    let scene = ReindexFixture::new();
    scene.bucket.put("in/a.pdf", "1");
    scene.notify_created("in/a.pdf").await;
    scene.notify_created("in/a.pdf").await;
    assert_eq!(scene.claim_entries().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_run_are_merged_into_one_run() {
    let scene = ReindexFixture::new();
    scene.bucket.put("in/a.pdf", "1");
    scene.notify_created("in/a.pdf").await;
    let first = header(&scene.claim_entries().await[0].1);
    for etag in ["2", "3", "4"] {
        scene.bucket.put("in/a.pdf", etag);
        let waits = Disposition::Retry {
            delay: RetryDelay::Short,
            attempts: 1,
        };
        assert_eq!(
            scene.notify_created("in/a.pdf").await,
            waits,
            "must wait while a run is open"
        );
    }
    scene.fail_run(&first).await;
    for _ in 0..3 {
        assert_eq!(
            scene.notify_created("in/a.pdf").await,
            Disposition::Ack,
            "must be retried later"
        );
    }
    let claims = scene.claim_entries().await;
    assert_eq!(claims.len(), 2, "three changes, one more job");
    assert_eq!(
        header(&claims[1].1).input["origin"]["object"]["etag"],
        "4",
        "must index the newest state"
    );
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
    scene.fail_run(&header(&claims[1].1)).await;
    scene.bucket.0.lock().unwrap().clear();
    scene.notify_created("in/a.pdf").await;
    let claims = scene.claim_entries().await;
    assert_eq!(header(&claims[2].1).input["origin"], "removed");
}

#[tokio::test(start_paused = true)]
async fn unlisted_source_is_ignored() {
    let scene = ReindexFixture::new();
    assert_eq!(
        scene.notify_created("elsewhere/a.pdf").await,
        Disposition::Ack,
        "notified of more than is indexed"
    );
    assert_eq!(
        scene.notify_created("in/picture.png").await,
        Disposition::Ack
    );
    let own = |place: &str| format!(r#"{{"source":"s3://{place}","collection":"all"}}"#);
    assert_eq!(
        scene.send(&own("secrets/a.pdf")).await,
        Disposition::DeadLetter,
        "asked for by name"
    );
    assert_eq!(scene.send("{}").await, Disposition::DeadLetter);
    assert!(scene.claim_entries().await.is_empty());
}
