//! Several coordinators share the flow queues, and with them the jobs.

use std::collections::BTreeSet;
use std::time::Duration;

use stemma_engine::heartbeat::JobProgress;
use stemma_engine::jobs::{self, CancelReason};
use stemma_engine::ledger::StatusTopic;
use stemma_engine_testing::fault::FaultPlan;
use stemma_store::key::{JobId, Priority};
use tokio_util::sync::CancellationToken;

use super::cluster::ProbeCluster;

// The coordinators that say how the jobs go on.
async fn owners(cluster: &ProbeCluster) -> Vec<(JobId, String)> {
    let now = cluster.env.now_ms();
    let ledger = cluster.ports.ledger.raw();
    let records = ledger.status_records(StatusTopic::Jobs, now).await.unwrap();
    let progress = records
        .iter()
        .filter_map(|record| serde_json::from_slice::<JobProgress>(&record.body).ok());
    progress
        .filter(|progress| progress.entries > 0)
        .map(|progress| (progress.job, progress.coordinator))
        .collect()
}

async fn submit_jobs(cluster: &ProbeCluster, prefix: &str, count: usize) -> Vec<JobId> {
    let mut submitted = Vec::new();
    for n in 0..count {
        let job = format!("{prefix}-{n}");
        let documents = [format!("slow {job}")];
        submitted.push(cluster.submit_as(&job, Priority::Bulk, &documents).await);
    }
    submitted
}

/// D10 of the engine review: the coordinator that was first consumed all flow queues, the others none.
#[tokio::test(start_paused = true)]
async fn coordinators_share_the_flow_queues() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let run = || CancellationToken::new();
    let _first = cluster.member("a", 1_000, run());
    cluster.env.sleep(Duration::from_secs(60)).await;
    let _second = cluster.member("b", 1_000, run());
    cluster.env.sleep(Duration::from_secs(60)).await;
    submit_jobs(&cluster, "job", 64).await;
    cluster.env.sleep(Duration::from_secs(5)).await;
    let owners = owners(&cluster).await;
    assert_eq!(owners.len(), 64);
    for name in ["a", "b"] {
        let share = owners.iter().filter(|(_, owner)| owner == name).count();
        assert!(share >= 16, "{name} has {share} of 64 jobs");
    }
}

/// A job of a coordinator that was stopped waited for its due time, which is up to a minute away.
#[tokio::test(start_paused = true)]
async fn jobs_of_a_drained_coordinator_go_on_at_once() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let stop = CancellationToken::new();
    let leaving = cluster.member("a", 1_000, stop.clone());
    let _other = cluster.member("b", 1_000, CancellationToken::new());
    cluster.env.sleep(Duration::from_secs(30)).await;
    let submitted = submit_jobs(&cluster, "job", 32).await;
    cluster.env.sleep(Duration::from_secs(5)).await;
    let before = owners(&cluster).await;
    assert!(before.iter().any(|(_, owner)| owner == "a"));
    stop.cancel();
    leaving.await.unwrap();
    cluster.env.sleep(Duration::from_secs(8)).await;
    let with_other: BTreeSet<JobId> = owners(&cluster)
        .await
        .into_iter()
        .filter(|(_, owner)| owner == "b")
        .map(|(job, _)| job)
        .collect();
    assert_eq!(with_other.len(), 32);
    let _worker = cluster.worker("worker", 64);
    for job in &submitted {
        let report = cluster.report(job, Duration::from_secs(120)).await;
        assert_eq!(report.counts.done, 1);
    }
}

/// D16 of the engine review: a coordinator that lost the queue of a job went on admitting it, and kept its slots.
#[tokio::test(start_paused = true)]
async fn lost_queues_take_no_slots() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let _first = cluster.member("a", 8, CancellationToken::new());
    cluster.env.sleep(Duration::from_secs(30)).await;
    submit_jobs(&cluster, "old", 32).await;
    cluster.env.sleep(Duration::from_secs(5)).await;
    // Takes over half of the queues, and the jobs on them.
    let _second = cluster.member("b", 1_000, CancellationToken::new());
    cluster.env.sleep(Duration::from_secs(30)).await;
    let now = cluster.env.now_ms();
    let ledger = cluster.ports.ledger.raw();
    let records = ledger.status_records(StatusTopic::Jobs, now).await.unwrap();
    let mut owned = BTreeSet::new();
    for record in &records {
        let progress: JobProgress = serde_json::from_slice(&record.body).unwrap();
        if progress.entries > 0 && progress.at_ms + 5_000 > now {
            assert!(
                owned.insert(progress.job.clone()),
                "{} has two owners",
                progress.job
            );
        }
    }
    let manifest = jobs::manifest(&cluster.ports.blobs, &JobId("old-0".into())).await;
    assert!(manifest.unwrap().is_some());
    let _worker = cluster.worker("worker", 64);
    for n in 0..32 {
        let job = JobId(format!("old-{n}"));
        let report = cluster.report(&job, Duration::from_secs(120)).await;
        assert_eq!(report.counts.done, 1);
    }
}

/// One coordinator admitted all documents of a job, however many there were.
#[tokio::test(start_paused = true)]
async fn parts_of_a_large_job_spread_over_the_coordinators() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let names = ["a", "b", "c"];
    let members = names.map(|name| cluster.member(name, 300, CancellationToken::new()));
    cluster.env.sleep(Duration::from_secs(30)).await;
    let documents: Vec<_> = (0..8_000).map(|n| format!("slow {n}")).collect();
    let job = cluster.submit(&documents).await;
    cluster.env.sleep(Duration::from_secs(10)).await;
    let now = cluster.env.now_ms();
    let ledger = cluster.ports.ledger.raw();
    let records = ledger.status_records(StatusTopic::Jobs, now).await.unwrap();
    let posted: Vec<JobProgress> = records
        .iter()
        .filter_map(|record| serde_json::from_slice(&record.body).ok())
        .collect();
    for name in names {
        let share = posted.iter().find(|posted| posted.coordinator == name);
        assert!(share.unwrap().open > 200, "{share:?}");
    }
    let merged = JobProgress::merge(posted);
    assert_eq!((merged.len(), merged[0].entries), (1, 8_000));
    assert!(merged[0].open > 650, "{merged:?}");
    // A crash of one of them delays its parts, and repeats none.
    members[0].abort();
    let _worker = cluster.worker("worker", 512);
    let report = cluster.report(&job, Duration::from_secs(600)).await;
    assert_eq!((report.counts.done, report.failures.len()), (8_000, 0));
}

#[tokio::test(start_paused = true)]
async fn cancelled_job_of_many_parts_counts_every_entry_once() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let _members = ["a", "b"].map(|name| cluster.member(name, 300, CancellationToken::new()));
    cluster.env.sleep(Duration::from_secs(30)).await;
    let _worker = cluster.worker("worker", 64);
    let documents: Vec<_> = (0..50_000).map(|n| format!("slow {n}")).collect();
    let job = cluster.submit(&documents).await;
    cluster.env.sleep(Duration::from_secs(60)).await;
    jobs::cancel(&cluster.ports, &job, CancelReason::Person)
        .await
        .unwrap();
    let report = cluster.report(&job, Duration::from_secs(200)).await;
    assert_eq!(report.counts.ended(), 50_000);
    assert!(report.counts.done >= 64, "{report:?}");
    assert!(report.counts.cancelled > 40_000, "{report:?}");
}
