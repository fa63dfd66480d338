//! Jobs are admitted fairly, quickly, and whatever the ports do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stemma_engine::heartbeat::JobProgress;
use stemma_engine::jobs::{self, PauseReason};
use stemma_engine::ledger::StatusTopic;
use stemma_engine_testing::fault::{FaultPlan, FaultRates, Outage, SlowCalls};
use stemma_store::blobs::Blobs;
use stemma_store::key::{JobId, Priority};

use super::cluster::ProbeCluster;

fn slow_documents(job: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("slow {job} {n}")).collect()
}

/// D1 of the engine review: the open runs of a paused job held every slot.
#[tokio::test(start_paused = true)]
async fn paused_jobs_take_no_slots() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator_with_slots(2);
    let waiting = cluster
        .submit_as("a", Priority::Bulk, &slow_documents("a", 3))
        .await;
    cluster.env.sleep(Duration::from_secs(2)).await;
    jobs::pause(&cluster.ports, &waiting, PauseReason::Person)
        .await
        .unwrap();
    cluster.env.sleep(Duration::from_secs(3)).await;
    // No worker runs yet, so the runs of the paused job stay open.
    let other = cluster
        .submit_as("b", Priority::Bulk, &["other".into()])
        .await;
    cluster.env.sleep(Duration::from_secs(2)).await;
    assert!(cluster.is_claimed("other").await);
    let _worker = cluster.worker("worker", 4);
    let report = cluster.report(&other, Duration::from_secs(30)).await;
    assert_eq!(report.counts.done, 1);
    jobs::resume(&cluster.ports, &waiting).await.unwrap();
    let report = cluster.report(&waiting, Duration::from_secs(120)).await;
    assert_eq!(report.counts.done, 3);
}

/// D11 of the engine review: a person waited behind all bulk documents that were open.
#[tokio::test(start_paused = true)]
async fn bulk_jobs_leave_slots_to_interactive_ones() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator_with_slots(8);
    cluster
        .submit_as("bulk", Priority::Bulk, &slow_documents("bulk", 20))
        .await;
    cluster.env.sleep(Duration::from_secs(5)).await;
    cluster
        .submit_as("person", Priority::Interactive, &["person".into()])
        .await;
    cluster.env.sleep(Duration::from_secs(2)).await;
    // No worker runs, so no slot of the bulk job was freed.
    assert!(cluster.is_claimed("person").await);
}

/// D12 of the engine review: one unreadable object of a job stopped admission for all jobs.
#[tokio::test(start_paused = true)]
async fn an_unreadable_object_of_a_job_stops_no_other_job() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let control = "jobs/a/control/0000000000001-0-paused.json";
    cluster.ports.blobs.put(control, "{}".into()).await.unwrap();
    cluster
        .submit_as("a", Priority::Bulk, &["unreadable".into()])
        .await;
    cluster
        .ports
        .blobs
        .put("jobs/c/report.json", "{".into())
        .await
        .unwrap();
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 4);
    let other = cluster
        .submit_as("b", Priority::Bulk, &["other".into()])
        .await;
    let report = cluster.report(&other, Duration::from_secs(60)).await;
    assert_eq!(report.counts.done, 1);
}

// Every call of a port takes 25 ms on average.
fn distant_ports() -> FaultPlan {
    let rates = FaultRates {
        delay: 1_000,
        max_delay: Duration::from_millis(50),
        ..FaultRates::default()
    };
    FaultPlan::random(1, rates)
}

/// The table of jobs was locked while entries were read, so that nothing else happened to any job.
#[tokio::test(start_paused = true)]
async fn a_slow_chunk_of_a_job_stops_no_other_job() {
    let plan = FaultPlan {
        slow: vec![SlowCalls {
            operation: "blobs.get",
            about: "jobs/b/entries/",
            delay: Duration::from_secs(20),
        }],
        ..FaultPlan::default()
    };
    let (cluster, _) = ProbeCluster::new(plan);
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 4);
    let one = cluster
        .submit_as("a", Priority::Bulk, &slow_documents("a", 1))
        .await;
    cluster.env.sleep(Duration::from_secs(5)).await;
    let began_ms = cluster.env.now_ms();
    let slow = cluster.submit_as("b", Priority::Bulk, &["b".into()]).await;
    // Its document takes ten seconds, and ends while the chunk of the other job is read.
    let report = cluster.report(&one, Duration::from_secs(60)).await;
    assert_eq!(report.counts.done, 1);
    let other = cluster.submit_as("c", Priority::Bulk, &["c".into()]).await;
    cluster.report(&other, Duration::from_secs(60)).await;
    let seconds = (cluster.env.now_ms() - began_ms) / 1_000;
    assert!(seconds < 15, "{seconds} s");
    let report = cluster.report(&slow, Duration::from_secs(60)).await;
    assert_eq!(report.counts.done, 1);
}

/// Each paused job cost two listings a second, for as long as it was paused.
#[tokio::test(start_paused = true)]
async fn paused_jobs_are_seldom_looked_at_and_resumed_at_once() {
    let (cluster, faults) = ProbeCluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator();
    let job = cluster
        .submit_as("a", Priority::Bulk, &slow_documents("a", 2))
        .await;
    cluster.env.sleep(Duration::from_secs(5)).await;
    let env = &cluster.env;
    let ports = &cluster.ports;
    jobs::pause(ports, &job, PauseReason::Person).await.unwrap();
    cluster.env.sleep(Duration::from_secs(5)).await;
    let listings = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&listings);
    faults.set_listener(Box::new(move |_, operation, about, _| {
        let is_listing = matches!(operation, "blobs.list" | "blobs.children");
        if is_listing && about.contains("jobs/a/") {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    }));
    cluster.env.sleep(Duration::from_secs(600)).await;
    let per_minute = listings.load(Ordering::SeqCst) / 10;
    assert!(per_minute <= 15, "{per_minute} listings a minute");
    let _worker = cluster.worker("worker", 4);
    jobs::resume(ports, &job).await.unwrap();
    let resumed_ms = env.now_ms();
    let report = cluster.report(&job, Duration::from_secs(60)).await;
    assert_eq!(report.counts.done, 2);
    // A document takes ten seconds.
    let seconds = (env.now_ms() - resumed_ms) / 1_000;
    assert!(seconds <= 14, "{seconds} s");
}

/// D27 of the engine review: the only lock was held until all unchanged documents of a job had been passed over.
#[tokio::test(start_paused = true)]
async fn a_person_does_not_wait_for_unchanged_documents() {
    let (cluster, _) = ProbeCluster::new(distant_ports());
    let _coordinator = cluster.coordinator();
    let unchanged: Vec<_> = (0..10_000).map(|n| format!("unchanged {n}")).collect();
    let nightly = cluster
        .submit_as("nightly", Priority::Bulk, &unchanged)
        .await;
    cluster.env.sleep(Duration::from_secs(1)).await;
    cluster
        .submit_as("person", Priority::Interactive, &["person".into()])
        .await;
    let began_ms = cluster.env.now_ms();
    while !cluster.is_claimed("person").await {
        cluster.env.sleep(Duration::from_millis(50)).await;
    }
    let waited_ms = cluster.env.now_ms() - began_ms;
    assert!(waited_ms <= 2_000, "{waited_ms} ms");
    let report = cluster.report(&nightly, Duration::from_secs(600)).await;
    assert_eq!(report.counts.unchanged, 10_000);
}

/// D2 and D3 of the engine review: each admitted document cost a listing per job, one after the other.
#[tokio::test(start_paused = true)]
async fn hundreds_of_small_jobs_end_in_seconds() {
    let (cluster, _) = ProbeCluster::new(distant_ports());
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 256);
    let submissions = (0..500).map(|n| {
        let cluster = &cluster;
        async move {
            let document = [format!("document {n}")];
            cluster
                .submit_as(&format!("job-{n}"), Priority::Bulk, &document)
                .await
        }
    });
    let submitted = futures::future::join_all(submissions).await;
    let began_ms = cluster.env.now_ms();
    let reports = submitted
        .iter()
        .map(|job| cluster.report(job, Duration::from_secs(600)));
    futures::future::join_all(reports).await;
    let seconds = (cluster.env.now_ms() - began_ms) / 1_000;
    assert!(seconds <= 20, "{seconds} s");
}

/// What the coordinator says about a job.
async fn progress(cluster: &ProbeCluster, job: &JobId) -> Option<JobProgress> {
    let now = cluster.env.now_ms();
    let records = cluster.ports.ledger.raw();
    let records = records.status_records(StatusTopic::Jobs, now).await.ok()?;
    let posted = records
        .iter()
        .filter_map(|record| serde_json::from_slice::<JobProgress>(&record.body).ok());
    JobProgress::merge(posted)
        .into_iter()
        .find(|posted| posted.job == *job)
}

/// D4 of the engine review: a password that was wrong for 30 seconds, or a bucket that refused, ended entries as failed.
#[tokio::test(start_paused = true)]
async fn refusals_while_admitting_make_the_job_wait_and_say_why() {
    for operations in ["blobs.put", "ledger.add_watcher", "blobs."] {
        let plan = FaultPlan {
            outages: vec![Outage {
                operations,
                during: 5_000..35_000,
                transient: false,
            }],
            ..distant_ports()
        };
        let (cluster, _) = ProbeCluster::new(plan);
        let _coordinator = cluster.coordinator_with_slots(64);
        let _worker = cluster.worker("worker", 64);
        let documents: Vec<_> = (0..1_500).map(|n| format!("document {n}")).collect();
        let began_ms = cluster.env.now_ms();
        let job = cluster.submit_as("job", Priority::Bulk, &documents).await;
        cluster.env.sleep(Duration::from_secs(20)).await;
        let waiting = progress(&cluster, &job).await.unwrap().waiting.unwrap();
        assert!(
            waiting.reason.ends_with("refused on purpose"),
            "{waiting:?}"
        );
        let report = cluster.report(&job, Duration::from_secs(200)).await;
        assert_eq!(
            (report.counts.done, report.counts.failed),
            (1_500, 0),
            "{operations}"
        );
        let seconds = (report.ended_ms - began_ms) / 1_000;
        assert!(seconds < 90, "{operations}: {seconds} s");
    }
}

/// A job that cannot even be loaded was logged, and shown nowhere.
#[tokio::test(start_paused = true)]
async fn unreadable_manifest_is_shown_as_a_reason_to_wait() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let manifest = "jobs/a/manifest.json";
    let torn = "{ torn".into();
    cluster.ports.blobs.put(manifest, torn).await.unwrap();
    let _coordinator = cluster.coordinator();
    cluster.env.sleep(Duration::from_secs(5)).await;
    let shown = progress(&cluster, &JobId("a".into())).await.unwrap();
    let reason = shown.waiting.unwrap().reason;
    assert!(reason.contains(manifest), "{reason}");
}

/// A collection whose documents take hours must not keep all slots from one that comes later.
#[tokio::test(start_paused = true)]
async fn another_collection_does_not_wait_for_slots() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator_with_slots(64);
    cluster
        .submit_as("a", Priority::Bulk, &slow_documents("a", 200))
        .await;
    cluster.env.sleep(Duration::from_secs(5)).await;
    let other = ["other".to_string()];
    cluster.submit_to("y", "b", Priority::Bulk, &other).await;
    cluster.env.sleep(Duration::from_secs(2)).await;
    // No worker runs, so no slot was freed.
    assert!(cluster.is_claimed("other").await);
}

/// D3 of the engine review: a coordinator admitted one document per few round trips, or a batch per slowest of sixteen.
#[tokio::test(start_paused = true)]
async fn one_coordinator_takes_up_hundreds_of_documents_a_second() {
    let (cluster, _) = ProbeCluster::new(distant_ports());
    let _coordinator = cluster.coordinator_with_slots(4_000);
    let documents: Vec<_> = (0..2_000).map(|n| format!("document {n}")).collect();
    let began_ms = cluster.env.now_ms();
    let job = cluster.submit_as("job", Priority::Bulk, &documents).await;
    let mut open = 0;
    while open < 2_000 {
        cluster.env.sleep(Duration::from_millis(100)).await;
        let seconds = (cluster.env.now_ms() - began_ms) / 1_000;
        assert!(seconds < 10, "{open} documents after {seconds} s");
        open = progress(&cluster, &job)
            .await
            .map_or(0, |posted| posted.open);
    }
}
