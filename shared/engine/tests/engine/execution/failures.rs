//! What counts as a failure of a document.

use std::time::Duration;

use stemma_engine::consumer::{Disposition, Handler};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::ledger::{DeliveryKind, Lease};
use stemma_engine::message::TaskMessage;
use stemma_engine::queue::{Lane, Message, Queue, QueueName};
use stemma_engine_testing::fault::{FaultPlan, Outage};
use stemma_store::key::{Priority, failures_prefix};

use super::cluster::Cluster;

// The message of the only task of a document, which no worker executes.
async fn first_task(cluster: &Cluster, document: &str) -> Message {
    cluster.submit(&[document]).await;
    let coordinator = cluster.coordinator();
    let lane = QueueName::Lane(Lane::Cpu, Priority::Bulk);
    let mut subscription = cluster.ports.queue.subscribe(lane, 1).await.unwrap();
    let message = subscription.next().await.unwrap().message;
    coordinator.abort(); // so that nobody requests the task again
    message
}

/// Operator's finding 8: a worker that had lost its lease logged and counted a failure that nobody recorded.
#[tokio::test(start_paused = true)]
async fn a_worker_that_lost_its_lease_records_and_counts_no_failure() {
    let cluster = Cluster::new(FaultPlan::default());
    let message = first_task(&cluster, "unreadable").await;
    let task: TaskMessage = serde_json::from_slice(&message.body).unwrap();
    let heartbeat = HeartbeatReporter::new(&cluster.env, "suspended", "worker");
    let executor = cluster.executor(&heartbeat);
    // Another worker takes the lease over while the stage runs: this one was suspended.
    let other = async {
        cluster.env.sleep(Duration::from_secs(1)).await;
        let ledger = cluster.ports.ledger.raw();
        let (run, key) = (&task.run.run, &task.key);
        let mut lease = Lease::Ended;
        for ahead_ms in [60_000, 70_000] {
            let now = cluster.env.now_ms() + ahead_ms;
            let taken = ledger.lease(
                run,
                key,
                "other",
                now,
                now + 600_000,
                DeliveryKind::Published,
            );
            lease = taken.await.unwrap();
        }
        lease
    };
    let (disposition, lease) = tokio::join!(executor.handle(&message, 0), other);
    assert!(matches!(lease, Lease::Granted { .. }), "{lease:?}");
    assert!(
        matches!(disposition, Disposition::Retry { attempts: 0, .. }),
        "{disposition:?}"
    );
    let failures = failures_prefix(&task.run.run);
    assert!(
        !cluster
            .store
            .snapshot()
            .keys()
            .any(|key| key.starts_with(&failures))
    );
    let report = heartbeat.heartbeat(cluster.env.now_ms(), Default::default());
    assert!(report.stages.values().all(|stage| stage.failed == 0));
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_cannot_be_recorded_is_not_counted() {
    let refused = FaultPlan {
        outages: vec![Outage {
            operations: "blobs.put",
            during: 3_000..u64::MAX,
            transient: false,
        }],
        ..FaultPlan::default()
    };
    let cluster = Cluster::new(refused);
    let message = first_task(&cluster, "unreadable").await;
    cluster.env.sleep(Duration::from_secs(3)).await;
    let heartbeat = HeartbeatReporter::new(&cluster.env, "worker", "worker");
    let disposition = cluster.executor(&heartbeat).handle(&message, 0).await;
    assert!(
        matches!(disposition, Disposition::Retry { attempts: 0, .. }),
        "{disposition:?}"
    );
    let report = heartbeat.heartbeat(cluster.env.now_ms(), Default::default());
    assert!(report.stages.values().all(|stage| stage.failed == 0));
}

/// D25 of the engine review: a crash counts for every task of its process, and ten make poison.
#[tokio::test(start_paused = true)]
async fn tasks_next_to_one_that_crashes_do_not_become_poison() {
    let cluster = Cluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator();
    let innocent = ["slow-1", "slow-2", "slow-3"];
    let job = cluster
        .submit(&["crasher-1", innocent[0], innocent[1], innocent[2]])
        .await;
    let mut crashes = 0;
    for life in 0..100 {
        let worker = cluster.worker(&format!("worker-{life}"));
        for _ in 0..3_000 {
            cluster.env.sleep(Duration::from_millis(100)).await;
            if cluster.runs.of("make", "crasher-1") > crashes {
                // The document kills the process soon after it is begun.
                cluster.env.sleep(Duration::from_secs(1)).await;
                crashes = cluster.runs.of("make", "crasher-1");
                break;
            }
        }
        worker.abort();
        if cluster.reported(&job).await {
            break;
        }
    }
    let _worker = cluster.worker("last");
    let report = cluster.report(&job, Duration::from_secs(600)).await;
    assert_eq!((report.counts.done, report.counts.failed), (3, 1));
    assert_eq!(report.failures[0].1.code, "engine.poison");
    for document in innocent {
        let runs = cluster.runs.of("make", document);
        assert!(runs <= 4, "{document} was begun {runs} times");
    }
}
