//! Which tasks workers execute first, and what they do with tasks of paused jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use stemma_engine::jobs::{self, PauseReason};
use stemma_engine::queue::{Depth, Lane, QueueName};
use stemma_engine_testing::fault::FaultPlan;
use stemma_store::key::Priority;
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;

const DOCUMENTS: u32 = 20;

fn names() -> Vec<String> {
    (0..DOCUMENTS).map(|n| format!("document-{n:02}")).collect()
}

fn sum(cluster: &Cluster, stage: &'static str) -> u32 {
    names()
        .iter()
        .map(|name| cluster.runs.of(stage, name))
        .sum()
}

/// Finding 10 of the operator review: the second stage of the first document waited behind the first stage of all others.
#[tokio::test(start_paused = true)]
async fn documents_finish_one_after_another() {
    let cluster = Cluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator();
    let names = names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let job = cluster.submit(&names).await;
    cluster.env.sleep(Duration::from_secs(2)).await;
    let _worker = cluster.worker_with_tasks("worker", 1, &CancellationToken::new());
    let mut begun = Vec::new();
    while sum(&cluster, "read") < DOCUMENTS {
        cluster.env.sleep(Duration::from_millis(100)).await;
        begun.push(sum(&cluster, "make") - sum(&cluster, "read"));
    }
    // One that is read, and one that was taken before the coordinator knew of it.
    let most = begun.into_iter().max().unwrap();
    assert!(most <= 2, "{most} documents were begun at once");
    let report = cluster.report(&job, Duration::from_secs(60)).await;
    assert_eq!(report.counts.done, u64::from(DOCUMENTS));
}

// Without its consumers.
async fn depth(cluster: &Cluster) -> Depth {
    let mut depth = Depth::default();
    for queue in QueueName::for_lane(Lane::Cpu, Priority::Bulk) {
        depth = depth.plus(cluster.ports.queue.raw().depth(queue).await.unwrap());
    }
    Depth {
        consumers: 0,
        ..depth
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_paused_job_are_handed_back_and_go_on_when_it_resumes() {
    let cluster = Cluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator();
    let names = names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let job = cluster.submit(&names).await;
    let _worker = cluster.worker_with_tasks("worker", 2, &CancellationToken::new());
    while sum(&cluster, "read") < 2 {
        cluster.env.sleep(Duration::from_millis(100)).await;
    }
    jobs::pause(&cluster.ports, &job, PauseReason::Person)
        .await
        .unwrap();
    cluster.env.sleep(Duration::from_secs(5)).await;
    let begun = sum(&cluster, "make");
    assert!(begun <= 8, "{begun} of {DOCUMENTS} were begun");
    assert_eq!(depth(&cluster).await, Depth::default(), "queues are empty");
    let published = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&published);
    cluster
        .faults
        .set_listener(Box::new(move |_, operation, about, _| {
            if operation.starts_with("queue.publish") && about.contains("Cpu") {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        }));
    cluster.env.sleep(Duration::from_secs(3_600)).await;
    assert_eq!(sum(&cluster, "make"), begun, "nothing is begun");
    assert_eq!(published.load(Ordering::SeqCst), 0, "no task is published");
    jobs::resume(&cluster.ports, &job).await.unwrap();
    // Three seconds a document, on two slots.
    let report = cluster.report(&job, Duration::from_secs(40)).await;
    assert_eq!(report.counts.done, u64::from(DOCUMENTS));
    for stage in ["make", "read"] {
        assert_eq!(sum(&cluster, stage), DOCUMENTS, "{stage} ran once each");
    }
}

/// Resumed by a coordinator that did not see the pause.
#[tokio::test(start_paused = true)]
async fn a_paused_job_survives_the_loss_of_its_coordinator() {
    let cluster = Cluster::new(FaultPlan::default());
    let first = cluster.coordinator();
    let names = names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let job = cluster.submit(&names).await;
    cluster.env.sleep(Duration::from_secs(2)).await;
    jobs::pause(&cluster.ports, &job, PauseReason::Person)
        .await
        .unwrap();
    cluster.env.sleep(Duration::from_secs(5)).await;
    let _worker = cluster.worker_with_tasks("worker", 2, &CancellationToken::new());
    cluster.env.sleep(Duration::from_secs(5)).await;
    assert_eq!(sum(&cluster, "make"), 0, "nothing is begun");
    first.abort();
    jobs::resume(&cluster.ports, &job).await.unwrap();
    let _second = cluster.coordinator();
    let report = cluster.report(&job, Duration::from_secs(180)).await;
    assert_eq!(report.counts.done, u64::from(DOCUMENTS));
}
