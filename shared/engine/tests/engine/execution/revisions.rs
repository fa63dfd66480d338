//! Programs of two revisions in one fleet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use stemma_engine::consumer::{Disposition, Handler};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::message::TaskMessage;
use stemma_engine::queue::{Message, RetryDelay};
use stemma_engine_testing::fault::FaultPlan;
use stemma_store::env::Millis;
use stemma_store::key::{Priority, RunId, RunRef, TaskKey};
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;

/// D20 of the engine review: an older coordinator acknowledged what it did not understand, and kept the queue.
#[tokio::test(start_paused = true)]
async fn an_older_coordinator_hands_runs_of_a_newer_one_over() {
    let cluster = Cluster::new(FaultPlan::default());
    let upgraded = CancellationToken::new();
    let _newer = cluster.coordinator_of_revision::<2>(upgraded.clone());
    let job = cluster.submit(&["a", "b", "c"]).await;
    while !cluster.is_claimed("c") {
        cluster.env.sleep(Duration::from_millis(100)).await;
    }
    // Rolled back: the older coordinator gets all queues, and keeps them when the newer one comes back.
    let _older = cluster.coordinator();
    cluster.env.sleep(Duration::from_secs(1)).await;
    upgraded.cancel();
    cluster.env.sleep(Duration::from_secs(60)).await;
    let _newer = cluster.coordinator_of_revision::<2>(CancellationToken::new());
    let _worker = cluster.worker("worker");
    let report = cluster.report(&job, Duration::from_secs(600)).await;
    assert_eq!(report.counts.done, 3);
}

#[tokio::test(start_paused = true)]
async fn runs_of_a_newer_coordinator_cause_few_messages() {
    let cluster = Cluster::new(FaultPlan::default());
    let published = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&published);
    let upgraded = CancellationToken::new();
    let newer = cluster.coordinator_of_revision::<2>(upgraded.clone());
    cluster.submit(&["a", "b", "c"]).await;
    while !cluster.is_claimed("c") {
        cluster.env.sleep(Duration::from_millis(100)).await;
    }
    let _worker = cluster.worker("worker");
    upgraded.cancel();
    newer.await.unwrap();
    let _older = cluster.coordinator();
    cluster
        .faults
        .set_listener(Box::new(move |_, operation, _, _| {
            if operation.starts_with("queue.publish") {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        }));
    cluster.env.sleep(Duration::from_secs(3_600)).await;
    let published = published.load(Ordering::SeqCst);
    // A wake-up a minute for each of three runs and the job.
    assert!(published <= 4 * 60 + 20, "{published} messages in an hour");
}

/// A task of an unknown stage came back every five seconds.
#[tokio::test(start_paused = true)]
async fn a_task_of_an_unknown_stage_comes_back_less_and_less_often() {
    let cluster = Cluster::new(FaultPlan::default());
    let heartbeat = HeartbeatReporter::new(&cluster.env, "worker", "worker");
    let executor = cluster.executor(&heartbeat);
    let published_ms: Millis = cluster.env.now_ms();
    let message = Message::new(
        serde_json::to_vec(&TaskMessage {
            run: RunRef {
                run: RunId("a".into()),
                header: "c/x/d/a/header".into(),
                scope: "c/x/d/a".into(),
            },
            key: TaskKey::builder("newer", 1).finish(),
            stage: "newer".into(),
            revision: 1,
            settings: "s".into(),
            priority: Priority::Bulk,
            published_ms,
            payload: serde_json::value::RawValue::from_string("{}".into()).unwrap(),
            signature: None,
        })
        .unwrap(),
    );
    for (age_s, expected) in [
        (0, RetryDelay::Short),
        (60, RetryDelay::Medium),
        (600, RetryDelay::Long),
    ] {
        let at_ms = published_ms + age_s * 1_000;
        let wait_ms = at_ms - cluster.env.now_ms();
        cluster.env.sleep(Duration::from_millis(wait_ms)).await;
        let disposition = executor.handle(&message, 0).await;
        let expected = Disposition::Retry {
            delay: expected,
            attempts: 0,
            retry_ms: None,
        };
        assert_eq!(disposition, expected, "after {age_s} s");
    }
}
