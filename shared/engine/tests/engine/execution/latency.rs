//! How well the cores are used while every call of a port takes 25 ms.

use std::time::Duration;

use stemma_engine_testing::fault::{FaultPlan, FaultRates};
use tokio_util::sync::CancellationToken;

use super::cluster::{CORES, Cluster, SMALL_WORK};

const DOCUMENTS: usize = 150;

// The share of the cores that is used from the first task of small documents to the last.
async fn share_used(tasks_per_core: u16) -> f64 {
    let rates = FaultRates {
        delay: 1_000,
        max_delay: Duration::from_millis(50),
        ..FaultRates::default()
    };
    let cluster = Cluster::new(FaultPlan::random(1, rates));
    let _coordinator = cluster.coordinator();
    let tasks = tasks_per_core * u16::try_from(CORES).unwrap();
    let _worker = cluster.worker_with_tasks("worker", tasks, &CancellationToken::new());
    let documents: Vec<_> = (0..DOCUMENTS).map(|n| format!("small-{n}")).collect();
    let documents: Vec<_> = documents.iter().map(String::as_str).collect();
    let job = cluster.submit(&documents).await;
    let report = cluster.report(&job, Duration::from_secs(600)).await;
    assert_eq!(report.counts.done, DOCUMENTS as u64);
    let work = SMALL_WORK * 2 * u32::try_from(DOCUMENTS).unwrap();
    work.as_secs_f64() / (cluster.runs.span().as_secs_f64() * CORES as f64)
}

/// D28 of the engine review: a core waited with its task for the store. The first and the last documents leave cores idle
/// however many tasks there are.
#[tokio::test(start_paused = true)]
async fn eight_tasks_per_core_use_most_of_the_cores() {
    let one = share_used(1).await;
    let eight = share_used(8).await;
    println!("cores used: {one:.2} with one task each, {eight:.2} with eight");
    assert!(one < 0.3, "{one:.2}");
    assert!(eight > 0.7, "{eight:.2}");
}
