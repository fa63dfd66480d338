//! Which tasks workers execute first.

use std::time::Duration;

use stemma_engine_testing::fault::FaultPlan;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;

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
