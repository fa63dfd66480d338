//! Runs that might wait forever must end, visibly, and with no more work than necessary.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use stemma_engine::consumer::{Disposition, Handler};
use stemma_engine::dead_letter::{self, ReplayOutcome};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::jobs;
use stemma_engine::ledger::MemoryLedger;
use stemma_engine::queue::{Lane, Message, Queue, QueueName};
use stemma_engine_testing::fault::{FaultPlan, PortFault};
use stemma_store::Retrying;
use stemma_store::blobs::Blobs;
use stemma_store::failure::FailureRecord;
use stemma_store::key::{Priority, RunId, run_failure_key};
use tokio_util::sync::CancellationToken;

use super::cluster::ProbeCluster;

/// The failure of a job with one document of this behavior, and how often its stage ran.
async fn failure_of(how: &str) -> (FailureRecord, u32) {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 4);
    let job = cluster.submit(&[how.into()]).await;
    let report = cluster.report(&job, Duration::from_secs(3 * 3600)).await;
    assert_eq!(report.counts.failed, 1);
    (
        report.failures[0].1.clone(),
        cluster.counter.runs.load(Ordering::SeqCst),
    )
}

#[tokio::test(start_paused = true)]
async fn oversized_task_message_fails_the_task() {
    let (failure, runs) = failure_of("too large").await;
    assert_eq!((failure.code.as_str(), runs), ("engine.message", 0));
}

#[tokio::test(start_paused = true)]
async fn oversized_failure_is_clipped() {
    let (failure, runs) = failure_of("fails at length").await;
    assert_eq!((failure.code.as_str(), runs), ("probe.long", 1));
    assert!(failure.message.len() <= 1_000);
}

#[tokio::test(start_paused = true)]
async fn panicking_flow_fails_the_run() {
    assert_eq!(failure_of("flow panics").await.0.code, "engine.flow_panic");
}

#[tokio::test(start_paused = true)]
async fn panicking_stage_fails_after_five_attempts() {
    let (failure, runs) = failure_of("panics").await;
    assert_eq!(
        (failure.code.as_str(), failure.attempts, runs),
        ("engine.panic", 5, 5)
    );
}

#[tokio::test(start_paused = true)]
async fn stage_past_deadline_fails_after_five_attempts() {
    let (failure, runs) = failure_of("never ends").await;
    assert_eq!((failure.code.as_str(), runs), ("engine.deadline", 5));
}

#[tokio::test(start_paused = true)]
async fn ledger_loss_does_not_duplicate_running_task() {
    let (mut cluster, _) = ProbeCluster::new(FaultPlan::default());
    let ledger = Arc::new(MemoryLedger::default());
    cluster.ports.ledger = Retrying::new(&cluster.env, ledger.clone());
    let coordinator = cluster.coordinator();
    cluster.submit(&["slow".into()]).await;
    let lane = QueueName::Lane(Lane::Cpu, Priority::Bulk);
    let message = cluster
        .ports
        .queue
        .subscribe(lane, 1)
        .await
        .unwrap()
        .next()
        .await
        .unwrap()
        .message;
    coordinator.abort(); // so that nobody requests the task again
    let performer =
        |name: &str| cluster.executor(&HeartbeatReporter::new(&cluster.env, name, "worker"));
    let first = performer("first");
    let second = performer("second");
    let cut_off = async {
        cluster.env.sleep(Duration::from_secs(1)).await;
        ledger.flush();
        second.handle(&message, 1).await
    };
    let (done, next) = tokio::join!(first.handle(&message, 0), cut_off);
    assert_eq!(done, Disposition::Ack);
    assert!(
        matches!(next, Disposition::Retry { attempts: 0, .. }),
        "{next:?}"
    );
    assert_eq!(cluster.counter.runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn task_that_crashes_workers_is_poison() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator();
    let job = cluster.submit(&["never ends".into()]).await;
    for life in 0..200 {
        let before = cluster.counter.runs.load(Ordering::SeqCst);
        let worker = cluster.worker(&format!("worker-{life}"), 4);
        cluster.env.sleep(Duration::from_secs(30)).await;
        if cluster.counter.runs.load(Ordering::SeqCst) > before {
            worker.abort(); // like an out-of-memory kill, right after it took the task
        } else {
            cluster.env.sleep(Duration::from_secs(60)).await;
            worker.abort();
        }
        if jobs::report(&cluster.ports.blobs, &job)
            .await
            .unwrap()
            .is_some()
        {
            break;
        }
    }
    let report = cluster.report(&job, Duration::from_secs(60)).await;
    assert_eq!(report.failures[0].1.code, "engine.poison");
    let runs = cluster.counter.runs.load(Ordering::SeqCst);
    assert!((5..=10).contains(&runs), "{runs} workers crashed on it");
}

// A run that continues without a poison task requests it again when its dead letter is replayed.
#[tokio::test(start_paused = true)]
async fn replayed_dead_letter_is_requested_again() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let blobs = cluster.ports.blobs.clone();
    let _coordinator = cluster.coordinator();
    let run_count = |how: &str| {
        cluster
            .counter
            .runs_by_task
            .lock()
            .unwrap()
            .get(how)
            .copied()
    };
    let job = cluster.submit(&["does without".into()]).await;
    for life in 0.. {
        assert!(life < 200, "it never became a dead letter");
        let worker = cluster.worker(&format!("worker-{life}"), 4);
        cluster.env.sleep(Duration::from_secs(90)).await;
        worker.abort();
        if dead_letter::count(&blobs, 10).await.unwrap() > 0 {
            break;
        }
    }
    let before = run_count("kills until repaired");
    let _worker = cluster.worker("worker", 4);
    while run_count("lasts until repaired").is_none() {
        cluster.env.sleep(Duration::from_secs(1)).await;
    }
    let letter = dead_letter::list(&blobs, 10).await.unwrap().remove(0);
    cluster.counter.recovered.store(true, Ordering::SeqCst);
    let replayed = dead_letter::replay(&cluster.ports, &letter).await.unwrap();
    assert_eq!(
        (replayed, letter.stage.as_deref()),
        (
            ReplayOutcome::Requested(letter.run.clone().unwrap()),
            Some("behave")
        )
    );
    let report = cluster.report(&job, Duration::from_secs(600)).await;
    assert_eq!(
        (report.counts.done, report.counts.done_with_gaps),
        (1, 0),
        "{report:?}"
    );
    assert_eq!(
        run_count("kills until repaired"),
        before.map(|runs| runs + 1)
    );
    assert_eq!(dead_letter::count(&blobs, 10).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn failed_port_call_does_not_rerun_the_stage() {
    for call in 1..160 {
        let (cluster, _) = ProbeCluster::new(FaultPlan::nth(call, PortFault::FailBefore));
        let _coordinator = cluster.coordinator();
        let _worker = cluster.worker("worker", 4);
        let job = cluster.submit(&["slow-1".into(), "slow-2".into()]).await;
        cluster.report(&job, Duration::from_secs(600)).await;
        assert_eq!(
            cluster.counter.runs.load(Ordering::SeqCst),
            2,
            "call {call}"
        );
    }
}

// An interrupted task is resumed by another worker at once: its lease was released without counting an attempt.
#[tokio::test(start_paused = true)]
async fn drained_task_is_resumed_immediately() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator();
    let stop = CancellationToken::new();
    let leaving = cluster.worker_until("leaving", 4, stop.clone());
    let job = cluster.submit(&["slow-1".into()]).await;
    while cluster.counter.runs.load(Ordering::SeqCst) == 0 {
        cluster.env.sleep(Duration::from_millis(100)).await;
    }
    stop.cancel();
    let _other = cluster.worker("other", 4);
    let stopped_ms = cluster.env.now_ms();
    tokio::time::timeout(Duration::from_secs(2), leaving)
        .await
        .expect("stops when the grace period is over")
        .unwrap();
    let report = cluster.report(&job, Duration::from_secs(60)).await;
    let took_ms = cluster.env.now_ms() - stopped_ms;
    assert_eq!(
        (
            report.counts.done,
            cluster.counter.runs.load(Ordering::SeqCst)
        ),
        (1, 2)
    );
    assert!(
        took_ms <= 13_000,
        "a second of grace, ten of work: {took_ms} ms"
    );
}

// A document listed twice is one run, and both entries end with it.
#[tokio::test(start_paused = true)]
async fn document_listed_twice_is_one_run_and_two_entries() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 4);
    let job = cluster
        .submit(&["slow-1".into(), "slow-1".into(), "slow-2".into()])
        .await;
    let report = cluster.report(&job, Duration::from_secs(600)).await;
    assert_eq!(
        (
            report.counts.done,
            cluster.counter.runs.load(Ordering::SeqCst)
        ),
        (3, 2)
    );
}

// A backlog of ten times the republish interval causes at most one duplicate per hundred tasks.
#[tokio::test(start_paused = true)]
async fn backlog_is_not_republished() {
    let (cluster, faults) = ProbeCluster::new(FaultPlan::default());
    let published = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&published);
    faults.set_listener(Box::new(move |_, operation, about, _| {
        if operation == "queue.publish" && about.starts_with("cpu") {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    }));
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 4);
    let documents: Vec<String> = (0..300).map(|n| format!("slow-{n}")).collect();
    let job = cluster.submit(&documents).await;
    let report = cluster.report(&job, Duration::from_secs(3_600)).await;
    assert_eq!(report.counts.done, 300);
    assert!(
        cluster
            .counter
            .runs_by_task
            .lock()
            .unwrap()
            .values()
            .all(|runs| *runs == 1)
    );
    let published = published.load(Ordering::SeqCst);
    assert!(
        published <= 303,
        "{published} publications of 300 tasks over {} s",
        report.ended_ms / 1_000 % 86_400
    );
}

// Its failure was recorded, and cannot be read. One run finds that when it is loaded, the other when its job is told that it ended.
#[tokio::test(start_paused = true)]
async fn runs_whose_outcomes_cannot_be_read_have_failed() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let damage = async |run: &str| {
        let key = run_failure_key(&RunId(run.into()));
        let put = cluster.ports.blobs.put(&key, "{ torn".into());
        put.await.unwrap();
    };
    damage("loaded").await;
    let _coordinator = cluster.coordinator();
    let _worker = cluster.worker("worker", 4);
    let documents = ["loaded".into(), "lasts until repaired".into()];
    let job = cluster.submit(&documents).await;
    cluster.env.sleep(Duration::from_secs(10)).await;
    damage("lasts-until-repaired").await;
    let ended = json!({ "ended": { "job": job, "run": "lasts-until-repaired" } });
    let message = Message::new(ended.to_string());
    let queue = QueueName::flow_for(&job.0);
    let sent = cluster.ports.queue.publish(queue, vec![message]);
    sent.await.unwrap();
    let report = cluster.report(&job, Duration::from_secs(600)).await;
    assert_eq!(report.counts.failed, 2);
    assert_eq!(report.reasons, [("store.unreadable".into(), 2)].into());
}

// A store that lost an object must not make wake-ups pile up.
#[tokio::test(start_paused = true)]
async fn unreadable_job_does_not_accumulate_messages() {
    let (cluster, _) = ProbeCluster::new(FaultPlan::default());
    let broken = Bytes::from_static(b"{ torn");
    cluster
        .ports
        .blobs
        .put("jobs/broken/manifest.json", broken)
        .await
        .unwrap();
    let _coordinator = cluster.coordinator();
    cluster.env.sleep(Duration::from_secs(2 * 3600)).await;
    let depth = cluster
        .ports
        .queue
        .depth(QueueName::flow_for("broken"))
        .await
        .unwrap();
    assert!(
        depth.ready + depth.unacked + depth.delayed <= 8,
        "{depth:?}"
    );
}
