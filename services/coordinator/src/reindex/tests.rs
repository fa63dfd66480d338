//! Messages against a bucket that the test holds in its hands.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stemma_engine::flow::{Claim, Flow};
use stemma_engine::message::Ending;
use stemma_engine::{FailureRecord, RunHeader, coordinate, jobs};
use stemma_pipeline::Filings;

use super::*;

/// A bucket: keys with their ETags.
#[derive(Clone, Default)]
struct Bucket(Arc<Mutex<BTreeMap<String, String>>>);

impl Bucket {
    fn put(&self, key: &str, etag: &str) {
        self.0.lock().unwrap().insert(key.into(), etag.into());
    }
}

#[async_trait]
impl Look for Bucket {
    async fn head(&self, _bucket: &str, key: &str) -> Result<Option<Entry>, PortError> {
        let etag = self.0.lock().unwrap().get(key).cloned();
        Ok(etag.map(|etag: String| Entry {
            key: key.into(),
            size_bytes: 1,
            etag,
            modified_ms: 7,
            version: None,
        }))
    }
}

struct Scene {
    bucket: Bucket,
    reindex: Reindex,
}

impl Scene {
    fn new() -> Self {
        let bucket = Bucket::default();
        let source = |prefix: &str, name: &str| Source {
            collection: name.parse().unwrap(),
            bucket: "filings".into(),
            prefix: prefix.into(),
        };
        let reindex = Reindex {
            env: Env::simulated(1),
            ports: Ports::memory(),
            objects: Box::new(bucket.clone()),
            sources: vec![source("in/", "all"), source("in/3m/", "3m")],
            settings: Settings::default(),
        };
        Self { bucket, reindex }
    }

    async fn say(&self, body: &str) -> Disposition {
        self.reindex.env.sleep(Duration::from_millis(2)).await; // jobs are listed by the time of their submission
        self.reindex
            .handle(&Message::new(body.to_string()), 0)
            .await
    }

    async fn created(&self, key: &str) -> Disposition {
        self.say(&format!(
            r#"{{"Records":[{{"eventName":"ObjectCreated:Put","s3":{{"bucket":{{"name":"filings"}},"object":{{"key":"{key}"}}}}}}]}}"#
        ))
        .await
    }

    /// Claims the entry of every job, as a coordinator would.
    async fn claims(&self) -> Vec<(String, Claim)> {
        let env = &self.reindex.env;
        let ports = &self.reindex.ports;
        let mut claims = Vec::new();
        for id in jobs::list(ports.blobs.as_ref(), None, 100).await.unwrap() {
            let manifest = jobs::manifest(ports.blobs.as_ref(), &id)
                .await
                .unwrap()
                .unwrap();
            for entry in jobs::entries(ports.blobs.as_ref(), &manifest, 0)
                .await
                .unwrap()
            {
                claims.push((
                    manifest.collection.clone(),
                    Filings::claim(env, ports, &manifest, &entry).await.unwrap(),
                ));
            }
        }
        claims
    }

    /// Ends a run the short way.
    async fn fail(&self, run: &RunHeader) {
        let record = FailureRecord {
            code: "test.failed".into(),
            message: "on purpose".into(),
            next: None,
            stage: "paginate".into(),
            attempts: 1,
            at_ms: 0,
        };
        let key = coordinate::run_failure_key(&run.at.run);
        self.reindex
            .ports
            .blobs
            .put(&key, serde_json::to_vec(&record).unwrap().into())
            .await
            .unwrap();
    }
}

fn header(claim: &Claim) -> RunHeader {
    match claim {
        Claim::Run(header) => header.clone(),
        Claim::Ended(ending) => panic!("{ending:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_notification_becomes_a_run_in_the_collection_that_lists_it() {
    let scene = Scene::new();
    scene.bucket.put("in/3m/a.pdf", "1");
    assert_eq!(scene.created("in/3m/a.pdf").await, Disposition::Ack);
    let claims = scene.claims().await;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].0, "3m", "the longest prefix");
    assert_eq!(
        header(&claims[0].1).input["uri"],
        "s3://filings/in/3m/a.pdf"
    );
}

#[tokio::test(start_paused = true)]
async fn the_same_message_twice_is_one_job() {
    let scene = Scene::new();
    scene.bucket.put("in/a.pdf", "1");
    scene.created("in/a.pdf").await;
    scene.created("in/a.pdf").await;
    assert_eq!(scene.claims().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn changes_while_in_work_wait_and_are_one_run() {
    let scene = Scene::new();
    scene.bucket.put("in/a.pdf", "1");
    scene.created("in/a.pdf").await;
    let first = header(&scene.claims().await[0].1);
    for etag in ["2", "3", "4"] {
        scene.bucket.put("in/a.pdf", etag);
        let waits = Disposition::Later {
            rung: Rung::Short,
            attempts: 1,
        };
        assert_eq!(scene.created("in/a.pdf").await, waits, "a run is open");
    }
    scene.fail(&first).await;
    for _ in 0..3 {
        assert_eq!(
            scene.created("in/a.pdf").await,
            Disposition::Ack,
            "they come back"
        );
    }
    let claims = scene.claims().await;
    assert_eq!(claims.len(), 2, "three changes, one more job");
    assert_eq!(
        header(&claims[1].1).input["origin"]["object"]["etag"],
        "4",
        "of the newest state"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_is_withdrawn_whatever_the_message_said() {
    let scene = Scene::new();
    scene.created("in/never.pdf").await;
    let claims = scene.claims().await;
    assert_eq!(
        claims[0].1,
        Claim::Ended(Ending::Unchanged),
        "nothing was there to be removed"
    );

    scene.bucket.put("in/a.pdf", "1");
    scene.created("in/a.pdf").await;
    let claims = scene.claims().await;
    scene.fail(&header(&claims[1].1)).await;
    scene.bucket.0.lock().unwrap().clear();
    scene.created("in/a.pdf").await;
    let claims = scene.claims().await;
    assert_eq!(header(&claims[2].1).input["origin"], "removed");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_listed_is_not_touched() {
    let scene = Scene::new();
    assert_eq!(
        scene.created("elsewhere/a.pdf").await,
        Disposition::Ack,
        "notified of more than is indexed"
    );
    assert_eq!(scene.created("in/picture.png").await, Disposition::Ack);
    let own = |place: &str| format!(r#"{{"source":"s3://{place}","collection":"all"}}"#);
    assert_eq!(
        scene.say(&own("secrets/a.pdf")).await,
        Disposition::Dead,
        "asked for by name"
    );
    assert_eq!(scene.say("{}").await, Disposition::Dead);
    assert!(scene.claims().await.is_empty());
}
