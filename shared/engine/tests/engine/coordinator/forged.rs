//! What a message makes coordinators do: it says what to look at. Where the run is follows from its id, how it ended is in
//! the store, and with a message key only a job may be told of without a signature.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use stemma_engine::dead_letter::{self, DeadLetter};
use stemma_engine::queue::{Message, Queue, QueueName};
use stemma_engine::{MessageKeys, Ports, jobs, settings};
use stemma_engine_testing::fault::FaultPlan;
use stemma_store::Secret;
use stemma_store::blobs::{Blobs, list_all};
use stemma_store::key::{JobId, Priority, RunHeader, RunId, RunRef};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::cluster::{ProbeCluster, ProbeWork};

const KEY: &str = "0123456789abcdef0123456789abcdef";
const VICTIM: &str = "victim";

fn new_cluster(keys: MessageKeys) -> ProbeCluster {
    let (mut cluster, _) = ProbeCluster::new(FaultPlan::default());
    cluster.ports.message_keys = keys;
    cluster
}

fn keys() -> MessageKeys {
    MessageKeys::new(&Secret::from(KEY), &Secret::default(), false).unwrap()
}

/// The run of a document of a collection.
fn run_of(collection: &str, document: &str) -> RunRef {
    let scope = format!("c/{collection}/d/{document}");
    RunRef {
        run: RunId(document.into()),
        header: format!("{scope}/header"),
        scope,
    }
}

/// Stores a header below `key` that says that it is of the run `at`.
async fn store_header(cluster: &ProbeCluster, key: &str, at: &RunRef) {
    let text = "s".to_string();
    let settings = settings::freeze::<ProbeWork>(&cluster.ports.blobs, &text);
    let header = RunHeader {
        at: at.clone(),
        settings: settings.await.unwrap(),
        flow_revision: 1,
        priority: Priority::Bulk,
        opened_by: JobId("job".into()),
        input: VICTIM.into(),
    };
    let json = serde_json::to_vec(&header).unwrap();
    cluster.ports.blobs.put(key, json.into()).await.unwrap();
}

/// Publishes messages as somebody who has no key, and waits until they are handled.
async fn send(cluster: &ProbeCluster, messages: &[Value]) {
    let messages = messages
        .iter()
        .map(|message| Message::new(message.to_string()));
    let queue = QueueName::flow_for(VICTIM);
    let sent = cluster.ports.queue.publish(queue, messages.collect());
    sent.await.unwrap();
    cluster.env.sleep(Duration::from_secs(20)).await;
}

/// One message of each kind that names a run.
fn messages_about(at: &RunRef) -> [Value; 3] {
    [
        json!({ "completed": at }),
        json!({ "wake": at }),
        json!({ "abandoned": { "job": "job", "run": at } }),
    ]
}

async fn letters(cluster: &ProbeCluster) -> Vec<DeadLetter> {
    dead_letter::list(&cluster.ports.blobs, 100).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_header_that_differs_from_the_message_is_lost_not_opened() {
    let cluster = new_cluster(MessageKeys::default());
    let at = run_of("x", VICTIM);
    store_header(&cluster, &at.header, &run_of("y", VICTIM)).await;
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 4);
    send(&cluster, &messages_about(&at)).await;
    assert_eq!(cluster.counter.runs.load(Ordering::SeqCst), 0);
    let open = cluster.ports.ledger.raw().open_tasks(&at.run).await;
    assert_eq!(open.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_names_a_header_elsewhere_is_refused() {
    let cluster = new_cluster(MessageKeys::default());
    let own = run_of("y", VICTIM);
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 4);
    let mut sent = 0;
    for header in ["c/x/originals/0", "c/x/d/mine/a/0", "settings/0"] {
        store_header(&cluster, header, &own).await;
        let at = RunRef {
            header: header.into(),
            ..own.clone()
        };
        send(&cluster, &messages_about(&at)).await;
        sent += 3;
    }
    assert_eq!(cluster.counter.runs.load(Ordering::SeqCst), 0);
    let letters = letters(&cluster).await;
    assert_eq!(letters.len(), sent, "{letters:?}");
    for letter in letters {
        assert!(letter.reason.contains("header or scope"), "{letter:?}");
        assert_eq!(letter.run, None, "its run is not believed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_alone_ends_no_job() {
    let cluster = new_cluster(MessageKeys::default());
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 4);
    let job = cluster.submit(&["lasts until repaired".into()]).await;
    cluster.env.sleep(Duration::from_secs(10)).await;
    let failed = json!({
        "failed": { "code": "x", "message": "x", "next": "x", "stage": "x", "attempts": 1, "at_ms": 0 },
    });
    let forged = ["done".into(), json!({ "done_with_gaps": 3 }), failed].map(|ending| {
        json!({ "ended": {
            "job": job,
            "run": "lasts-until-repaired",
            "ending": ending,
            "tasks": u64::MAX,
        } })
    });
    send(&cluster, &forged).await;
    assert_eq!(
        jobs::report(&cluster.ports.blobs, &job).await.unwrap(),
        None
    );
    cluster.counter.recovered.store(true, Ordering::SeqCst);
    let report = cluster.report(&job, Duration::from_secs(60)).await;
    assert_eq!((report.counts.done, report.counts.failed), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn with_a_key_only_a_job_may_be_told_of_without_a_signature() {
    let cluster = new_cluster(keys());
    let _coordinator = cluster.coordinator();
    let worker = cluster.worker("worker", 4);
    let submitter = ProbeCluster {
        env: cluster.env.clone(),
        ports: Ports {
            message_keys: MessageKeys::default(),
            ..cluster.ports.clone()
        },
        counter: Default::default(),
    };
    let job = submitter.submit(&["one".into()]).await;
    let report = cluster.report(&job, Duration::from_secs(60)).await;
    assert_eq!(report.counts.done, 1);
    assert_eq!(letters(&cluster).await, []);

    let mut unsigned = messages_about(&run_of("x", "one")).to_vec();
    unsigned.push(json!({ "ended": { "job": "job", "run": "one", "ending": "done" } }));
    send(&cluster, &unsigned).await;
    let letters = letters(&cluster).await;
    assert_eq!(letters.len(), unsigned.len(), "{letters:?}");
    for letter in letters {
        assert!(letter.reason.contains("not signed"), "{letter:?}");
    }
    worker.abort();
}

/// Counts log lines about errors.
#[derive(Clone, Default)]
struct ErrorCounter(Arc<AtomicUsize>);

impl Subscriber for ErrorCounter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }
    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn messages_without_end_are_not_logged_without_end() {
    let errors = ErrorCounter::default();
    let _logged = tracing::subscriber::set_default(errors.clone());
    let cluster = new_cluster(keys());
    let _coordinator = cluster.coordinator();
    let unsigned = json!({ "wake": run_of("x", VICTIM) });
    let no_job = json!({ "job": ".." });
    let unreadable = json!({ "unknown": 1 });
    for _ in 0..10 {
        send(
            &cluster,
            &[&unsigned, &no_job, &unreadable].map(Value::clone),
        )
        .await;
    }
    assert_eq!(letters(&cluster).await.len(), 3);
    // 30 messages in 200 s.
    let logged = errors.0.load(Ordering::SeqCst);
    assert!((1..=4).contains(&logged), "{logged} lines");
}

#[tokio::test(start_paused = true)]
async fn a_part_that_a_job_does_not_have_is_not_opened() {
    let cluster = new_cluster(MessageKeys::default());
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 4);
    let job = cluster.submit(&["lasts until repaired".into()]).await;
    cluster.env.sleep(Duration::from_secs(10)).await;
    let named = ["job+0", "job+7", "job+00", "job+18446744073709551615"];
    send(&cluster, &named.map(|name| json!({ "job": name }))).await;
    let parts = list_all(&cluster.ports.blobs, "jobs/job/parts/").await;
    assert_eq!(parts.unwrap(), [""; 0]);
    send(
        &cluster,
        &["..", "a/b", ""].map(|name| json!({ "job": name })),
    )
    .await;
    assert_eq!(letters(&cluster).await.len(), 3);
    cluster.counter.recovered.store(true, Ordering::SeqCst);
    let report = cluster.report(&job, Duration::from_secs(60)).await;
    assert_eq!(report.counts.done, 1);
}
