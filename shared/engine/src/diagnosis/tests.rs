//! One case per cause, and near misses.

use std::collections::BTreeMap;
use std::sync::Arc;

use stemma_store::env::{Env, Millis};
use stemma_store::failure::FailureRecord;
use stemma_store::key::{JobId, Priority, RunId, TaskKey};
use stemma_store::model_status::ModelStatus;
use stemma_store::port_monitor::{PortTrouble, TroubleKind};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::dead_letter::DeadLetter;
use crate::heartbeat::{
    HEARTBEAT_INTERVAL, Heartbeat, HeartbeatExtras, HeartbeatReporter, JobProgress, LaneStatus,
    StageStatus, TaskStatus, send_heartbeats,
};
use crate::jobs::{CancelReason, Cancelled, EntryCounts, JobControl, JobWait, PauseReason, Paused};
use crate::ledger::{OpenTask, Retry};
use crate::message::RunOutcome;
use crate::ports::Ports;
use crate::queue::{Depth, Lane, QueueName};

const NOW: Millis = 1_000_000_000;

fn key(n: u64) -> TaskKey {
    TaskKey::builder("test", 1).number(n).finish()
}

fn heartbeat(process: &str, service: &str) -> Heartbeat {
    Heartbeat {
        process: process.into(),
        service: service.into(),
        version: "1".into(),
        since_ms: NOW - 600_000,
        at_ms: NOW - 500,
        draining: false,
        lanes: Vec::new(),
        tasks: Vec::new(),
        stages: BTreeMap::from([(
            "summarize".into(),
            StageStatus {
                p95_ms: 2_000,
                ..StageStatus::default()
            },
        )]),
        models: BTreeMap::new(),
        troubles: Vec::new(),
        unfinished: Vec::new(),
    }
}

/// A worker with 8 call slots, `busy` of them taken.
fn worker(process: &str, busy: u16) -> Heartbeat {
    let lane = |lane, slots, busy| LaneStatus {
        lane,
        priority: Priority::Bulk,
        slots,
        busy,
        taken_ms: None,
    };
    let model = ModelStatus {
        requests_limit: 600,
        tokens_limit: 200_000,
        requests_last_minute: 100,
        p50_ms: 800,
        p95_ms: 2_000,
        calling: busy.into(),
        ..ModelStatus::default()
    };
    Heartbeat {
        lanes: vec![lane(Lane::Llm, 8, busy), lane(Lane::Cpu, 2, 0)],
        models: BTreeMap::from([("gpt-x".into(), model)]),
        ..heartbeat(process, "worker")
    }
}

fn task(n: u64) -> OpenTask {
    OpenTask {
        key: key(n),
        stage: "summarize".into(),
        lane: Lane::Llm,
        published_ms: NOW - 3_000,
        due_ms: NOW + 57_000,
        attempts: 0,
        lease: None,
        retry: None,
    }
}

/// A task that `holder` has been working on since `since_ms`.
fn leased(n: u64, holder: &str) -> OpenTask {
    OpenTask {
        lease: Some((holder.into(), NOW + 40_000)),
        ..task(n)
    }
}

fn running_task(n: u64, run: &str, age_ms: Millis) -> TaskStatus {
    TaskStatus {
        run: RunId(run.into()),
        key: key(n),
        stage: "summarize".into(),
        since_ms: NOW - age_ms,
    }
}

fn progress(job: &str, open: u64, runs: &[&str]) -> JobProgress {
    JobProgress {
        job: JobId(job.into()),
        coordinator: "c".into(),
        at_ms: NOW,
        entries: 100,
        counts: EntryCounts {
            done: 10,
            ..EntryCounts::default()
        },
        open,
        tasks_present: 50,
        tasks_missing: 5,
        runs: runs.iter().map(|run| RunId((*run).into())).collect(),
        waiting: None,
    }
}

/// A healthy system with a run that has these open tasks.
fn facts(tasks: Vec<OpenTask>) -> DiagnosisContext {
    DiagnosisContext {
        now_ms: NOW,
        job: Some(JobFacts {
            job: JobId("j-1".into()),
            submitted_ms: NOW - 60_000,
            control: JobControl::default(),
            report: None,
            untaken: None,
        }),
        run: Some(RunFacts {
            scope: "c/x/d/doc".into(),
            run: RunId("doc-1".into()),
            priority: Priority::Bulk,
            outcome: None,
            tasks,
            present: 20,
            dead: Vec::new(),
            untaken: None,
        }),
        processes: vec![
            heartbeat("coordinator-1", "coordinator"),
            worker("worker-1", 2),
            worker("worker-2", 3),
        ],
        jobs: vec![
            progress("j-1", 5, &["doc-1"]),
            progress("j-2", 50, &["doc-7"]),
        ],
        depths: BTreeMap::from([(
            (Lane::Llm, Priority::Bulk),
            Depth {
                ready: 40,
                unacked: 5,
                delayed: 0,
                consumers: 2,
            },
        )]),
        troubles: Vec::new(),
    }
}

fn check(name: &str, facts: &DiagnosisContext, cause: Cause) -> Diagnosis {
    let actual = diagnose(facts);
    assert_eq!(actual.cause, cause, "{name}: {actual:#?}");
    assert!(
        !actual.says.is_empty() && !actual.next.is_empty(),
        "{name}: {actual:#?}"
    );
    actual
}

fn with_models(mut facts: DiagnosisContext, change: impl Fn(&mut ModelStatus)) -> DiagnosisContext {
    facts
        .processes
        .iter_mut()
        .flat_map(|heartbeat| heartbeat.models.values_mut())
        .for_each(change);
    facts
}

fn full(mut facts: DiagnosisContext, run: &str) -> DiagnosisContext {
    for heartbeat in facts
        .processes
        .iter_mut()
        .filter(|heartbeat| heartbeat.service == "worker")
    {
        heartbeat.lanes[0].busy = 8;
        heartbeat.tasks = (0..8).map(|n| running_task(100 + n, run, 500)).collect();
        heartbeat
            .models
            .values_mut()
            .for_each(|model| model.calling = 8);
    }
    facts
}

fn with_control(standing: JobControl) -> DiagnosisContext {
    let mut facts = facts(vec![leased(1, "worker-1")]);
    facts.job.as_mut().unwrap().control = standing;
    facts
}

#[test]
fn diagnoses_lane_without_worker() {
    let mut alone = facts(vec![task(1)]);
    alone.processes.truncate(1);
    let diagnosis = check("no worker", &alone, Cause::NoWorker);
    assert!(
        diagnosis.says.contains("llm") && diagnosis.remedy.unwrap().contains("stemma worker"),
        "{}",
        diagnosis.says
    );

    let mut draining = facts(vec![task(1)]);
    draining
        .processes
        .iter_mut()
        .for_each(|heartbeat| heartbeat.draining = heartbeat.service == "worker");
    check("all drain", &draining, Cause::NoWorker);

    let mut other = facts(vec![task(1)]);
    other
        .processes
        .iter_mut()
        .for_each(|heartbeat| heartbeat.lanes.retain(|lane| lane.lane != Lane::Llm));
    check("workers of another lane", &other, Cause::NoWorker);

    let page = OpenTask {
        lane: Lane::Ocr,
        stage: "recognize".into(),
        ..task(1)
    };
    let diagnosis = check("no lane ocr", &facts(vec![page.clone()]), Cause::NoWorker);
    assert_eq!(diagnosis.says, "no worker serves the lane ocr");
    assert_eq!(
        diagnosis.remedy.as_deref(),
        Some("start one where tesseract is installed: stemma worker --lanes ocr")
    );
    let mut served = facts(vec![page]);
    served.processes[1].lanes.push(LaneStatus {
        lane: Lane::Ocr,
        priority: Priority::Bulk,
        slots: 2,
        busy: 2,
        taken_ms: None,
    });
    served.depths.insert(
        (Lane::Ocr, Priority::Bulk),
        Depth {
            ready: 7,
            ..Depth::default()
        },
    );
    let diagnosis = check("lane ocr is full", &served, Cause::WorkersBusy);
    assert_eq!(
        diagnosis.says,
        "all workers of the lane ocr are busy; 7 tasks wait"
    );

    let publish = OpenTask {
        lane: Lane::Publish,
        stage: "publish".into(),
        ..task(1)
    };
    let diagnosis = check("no assembler", &facts(vec![publish]), Cause::NoWorker);
    assert!(diagnosis.remedy.unwrap().contains("stemma assembler"));

    let mut headless = facts(vec![task(1)]);
    headless.processes.remove(0);
    assert!(
        check("no coordinator", &headless, Cause::NoWorker)
            .says
            .contains("coordinator")
    );
}

#[test]
fn diagnoses_a_queue_that_no_coordinator_takes() {
    let says = "the coordinator does not take its queue flow.03";
    let mut run = facts(vec![task(1)]);
    run.run.as_mut().unwrap().untaken = Some(QueueName::Flow(3));
    assert_eq!(check("run", &run, Cause::NoWorker).says, says);
    let mut job = facts(Vec::new());
    job.run = None;
    job.job.as_mut().unwrap().untaken = Some(QueueName::Flow(3));
    assert_eq!(check("job", &job, Cause::NoWorker).says, says);
    // Where no coordinator lives, that is why.
    job.processes.remove(0);
    let says = check("no coordinator", &job, Cause::NoWorker).says;
    assert_eq!(says, "no coordinator is alive");
}

#[test]
fn diagnoses_busy_workers_and_names_the_job() {
    let diagnosis = check(
        "busy with others",
        &full(facts(vec![task(1)]), "doc-7"),
        Cause::WorkersBusy,
    );
    assert_eq!(diagnosis.owner.as_deref(), Some("j-2"));
    let own = check(
        "busy with its own",
        &full(facts(vec![task(1)]), "doc-1"),
        Cause::WorkersBusy,
    );
    assert_eq!(own.owner.as_deref(), Some("j-1, this job"));
    check("a slot is free", &facts(vec![task(1)]), Cause::Long);
}

#[test]
fn diagnoses_rate_limit() {
    let waiting = |model: &mut ModelStatus| {
        (model.waiting, model.calling, model.requests_last_minute) = (8, 0, 300);
    };
    let limited = with_models(
        full(facts(vec![task(1), leased(2, "worker-1")]), "doc-7"),
        waiting,
    );
    let diagnosis = check("600 of 600", &limited, Cause::RateLimit);
    assert!(
        diagnosis.says.contains("600 of 600 requests"),
        "{}",
        diagnosis.says
    );

    check(
        "tokens",
        &with_models(
            facts(vec![leased(1, "worker-2")]),
            |model: &mut ModelStatus| (model.waiting, model.tokens_last_minute) = (6, 99_000),
        ),
        Cause::RateLimit,
    );
    let throttled = with_models(facts(vec![leased(1, "worker-1")]), |model| {
        model.paused_until_ms = Some(NOW + 9_000);
    });
    assert_eq!(
        check("429", &throttled, Cause::RateLimit).next_ms,
        Some(NOW + 9_000)
    );

    let retry = Retry {
        code: "llm.no_permit".into(),
        next_ms: NOW + 4_000,
        counted: false,
    };
    let handed_back = OpenTask {
        retry: Some(retry),
        ..task(1)
    };
    check(
        "no permit in time",
        &facts(vec![handed_back]),
        Cause::RateLimit,
    );

    let idle = with_models(facts(vec![leased(1, "worker-1")]), |model| {
        model.requests_last_minute = 300;
    });
    check("the limit is reached and no one waits", &idle, Cause::Long);
    let unlimited = with_models(facts(vec![leased(1, "worker-1")]), |model| {
        waiting(model);
        (model.requests_limit, model.tokens_limit) = (0, 0);
    });
    check(
        "nothing is limited, and some are between two calls",
        &unlimited,
        Cause::Long,
    );
}

#[test]
fn diagnoses_open_breaker() {
    let open = |model: &mut ModelStatus| model.breaker_open_until_ms = Some(NOW + 20_000);
    let diagnosis = check(
        "held",
        &with_models(facts(vec![leased(1, "worker-1")]), open),
        Cause::BreakerOpen,
    );
    assert_eq!(diagnosis.next_ms, Some(NOW + 20_000));
    check(
        "in line",
        &with_models(full(facts(vec![task(1)]), "doc-7"), open),
        Cause::BreakerOpen,
    );
    let retry = Retry {
        code: "provider.unreachable".into(),
        next_ms: NOW + 4_000,
        counted: false,
    };
    let back = OpenTask {
        retry: Some(retry),
        ..task(1)
    };
    check(
        "handed back",
        &with_models(facts(vec![back]), open),
        Cause::BreakerOpen,
    );

    check(
        "it was open",
        &with_models(
            facts(vec![leased(1, "worker-1")]),
            |model: &mut ModelStatus| model.breaker_open_until_ms = Some(NOW - 1),
        ),
        Cause::Long,
    );
    let reading = OpenTask {
        lane: Lane::Cpu,
        stage: "paginate".into(),
        ..leased(1, "worker-1")
    };
    check(
        "not a call",
        &with_models(facts(vec![reading]), open),
        Cause::Long,
    );
}

#[test]
fn diagnoses_budget_pause_and_cancellation() {
    let paused = |reason| JobControl {
        paused: Some(Paused {
            reason,
            since_ms: NOW - 5_000,
        }),
        ..JobControl::default()
    };
    let diagnosis = check(
        "budget",
        &with_control(paused(PauseReason::Budget)),
        Cause::Budget,
    );
    assert_eq!(diagnosis.since_ms, Some(NOW - 5_000));
    check(
        "credentials",
        &with_control(paused(PauseReason::Credentials)),
        Cause::Paused,
    );
    check(
        "a person",
        &with_control(paused(PauseReason::Person)),
        Cause::Paused,
    );
    let cancelled = Cancelled {
        reason: CancelReason::Person,
        at_ms: NOW - 1,
    };
    check(
        "cancelled",
        &with_control(JobControl {
            cancelled: Some(cancelled),
            ..JobControl::default()
        }),
        Cause::Cancelled,
    );

    let mut done = with_control(paused(PauseReason::Budget));
    done.run.as_mut().unwrap().outcome = Some(RunOutcome::Done);
    check("done before the pause", &done, Cause::Done);
}

#[test]
fn diagnoses_pending_retry() {
    let retry = Retry {
        code: "provider.timeout".into(),
        next_ms: NOW + 25_000,
        counted: true,
    };
    let waiting = OpenTask {
        retry: Some(retry.clone()),
        attempts: 3,
        ..task(1)
    };
    let diagnosis = check(
        "an attempt failed",
        &facts(vec![waiting.clone(), leased(2, "worker-1")]),
        Cause::Retry,
    );
    assert_eq!(diagnosis.next_ms, Some(NOW + 25_000));
    assert!(
        diagnosis.says.contains("3 times") && diagnosis.says.contains("provider.timeout"),
        "{}",
        diagnosis.says
    );
    let overdue = OpenTask {
        retry: Some(Retry {
            next_ms: NOW - 1,
            ..retry
        }),
        ..waiting
    };
    check("it is due", &facts(vec![overdue]), Cause::Long);
}

#[test]
fn diagnoses_silent_worker() {
    let diagnosis = check(
        "its holder is gone",
        &facts(vec![leased(1, "worker-9")]),
        Cause::SilentWorker,
    );
    assert_eq!(
        (diagnosis.owner.as_deref(), diagnosis.next_ms),
        (Some("worker-9"), Some(NOW + 40_000))
    );
    let run_out = OpenTask {
        lease: Some(("worker-9".into(), NOW - 1)),
        ..task(1)
    };
    check("its lease ran out", &facts(vec![run_out]), Cause::Long);
    check(
        "its holder lives",
        &facts(vec![leased(1, "worker-1")]),
        Cause::Long,
    );
}

#[test]
fn diagnoses_straggler_task() {
    let mut straggler = facts(vec![leased(1, "worker-1")]);
    straggler.processes[1].tasks = vec![running_task(1, "doc-1", 9_000)];
    straggler.processes[2].tasks = (0..3).map(|n| running_task(50 + n, "doc-7", 400)).collect();
    check("one call takes long", &straggler, Cause::SiblingStage);

    let mut quick = straggler.clone();
    quick.processes[1].tasks = vec![running_task(1, "doc-1", 400)];
    check("it has only begun", &quick, Cause::Long);
    let mut many = straggler.clone();
    many.run
        .as_mut()
        .unwrap()
        .tasks
        .extend((2..20).map(|n| leased(n, "worker-1")));
    check("much else is open", &many, Cause::Long);
}

#[test]
fn diagnoses_slow_provider() {
    let mut slow = facts(vec![leased(1, "worker-1")]);
    slow.processes[1].tasks = vec![running_task(1, "doc-1", 30_000)];
    slow.processes[2].tasks = (0..3)
        .map(|n| running_task(50 + n, "doc-7", 25_000))
        .collect();
    check("no call comes back", &slow, Cause::ProviderSlow);
    let mut behind = full(slow.clone(), "doc-7");
    behind.run.as_mut().unwrap().tasks = vec![
        leased(1, "worker-1"),
        OpenTask {
            stage: "other".into(),
            ..task(2)
        },
    ];
    for heartbeat in &mut behind.processes {
        heartbeat
            .tasks
            .iter_mut()
            .for_each(|task| task.since_ms = NOW - 30_000);
    }
    check(
        "what waits in line waits for the same calls",
        &behind,
        Cause::ProviderSlow,
    );
    let typical = with_models(facts(vec![leased(1, "worker-1")]), |model| {
        model.p50_ms = 45_000;
    });
    check("all calls are slow", &typical, Cause::ProviderSlow);
    let mut one = slow.clone();
    one.processes[2].tasks = (0..3).map(|n| running_task(50 + n, "doc-7", 500)).collect();
    check("only this one is", &one, Cause::SiblingStage);
}

#[test]
fn diagnoses_dead_letter() {
    let record = |code: &str| FailureRecord {
        code: code.into(),
        message: "no worker could handle it".into(),
        next: Some("do this".into()),
        stage: "summarize".into(),
        attempts: 20,
        at_ms: NOW - 9,
    };
    let mut dead = facts(Vec::new());
    let run = dead.run.as_mut().unwrap();
    run.outcome = Some(RunOutcome::Failed(record("engine.poison")));
    check("poison", &dead, Cause::DeadLetter);
    dead.run.as_mut().unwrap().dead = vec![DeadLetter {
        queue: Some("llm.bulk".into()),
        deliveries: 21,
        id: "00ff".into(),
        at_ms: NOW - 10,
        run: None,
        key: Some(key(1)),
        stage: Some("summarize".into()),
        attempts: 20,
        reason: "no worker could handle it".into(),
        begins: String::new(),
    }];
    let diagnosis = check("with its letter", &dead, Cause::DeadLetter);
    assert!(
        diagnosis
            .remedy
            .unwrap()
            .contains("stemma dead-letters replay 00ff")
    );
    let mut failed = facts(Vec::new());
    failed.run.as_mut().unwrap().outcome =
        Some(RunOutcome::Failed(record("pdf.encrypted_password")));
    assert_eq!(
        check("failed for another reason", &failed, Cause::Failed)
            .remedy
            .as_deref(),
        Some("do this")
    );
}

#[test]
fn diagnoses_long_running_work() {
    let many = (0..30).map(|n| leased(n, "worker-1")).collect();
    let diagnosis = check("much to do", &facts(many), Cause::Long);
    assert!(
        diagnosis
            .not_the_cause
            .iter()
            .any(|fine| fine == "2 workers alive"),
        "{:?}",
        diagnosis.not_the_cause
    );
    assert!(
        diagnosis
            .not_the_cause
            .iter()
            .any(|fine| fine == "breaker closed"),
        "{:?}",
        diagnosis.not_the_cause
    );
    assert!(
        diagnosis.says.contains("20 of at least 50 tasks"),
        "{}",
        diagnosis.says
    );
    check("between two tasks", &facts(Vec::new()), Cause::Long);
    let mut embedded = facts(vec![leased(1, "pid-1")]);
    embedded.processes = vec![heartbeat("c", "coordinator"), worker("pid-1", 1)];
    check("one process", &embedded, Cause::Long);
}

#[test]
fn diagnoses_lost_message_and_queued_job() {
    let mut lost = facts(vec![OpenTask {
        published_ms: NOW - 30_000,
        ..task(1)
    }]);
    lost.depths.clear();
    assert_eq!(
        check("its message is gone", &lost, Cause::LostMessage).next_ms,
        Some(NOW + 57_000)
    );
    let mut fresh = facts(vec![task(1)]);
    fresh.depths.clear();
    check("it may be on its way", &fresh, Cause::Long);

    let mut job = facts(Vec::new());
    job.run = None;
    check("documents are in work", &job, Cause::Long);
    job.jobs[0].open = 0;
    assert_eq!(
        check("others go first", &job, Cause::Queued)
            .owner
            .as_deref(),
        Some("j-2")
    );
    job.jobs.clear();
    check("not taken up", &job, Cause::Queued);
}

fn trouble(operation: &str, kind: TroubleKind, error: &str) -> PortTrouble {
    PortTrouble {
        operation: operation.into(),
        kind,
        since_ms: NOW - 25_000,
        error: error.into(),
    }
}

/// A healthy system but for the troubles that these processes report.
fn facts_with_troubles(troubles: &[(&str, PortTrouble)]) -> DiagnosisContext {
    let mut facts = facts(vec![task(1)]);
    for (process, trouble) in troubles {
        let beat = facts
            .processes
            .iter_mut()
            .find(|beat| beat.process == *process)
            .unwrap();
        beat.troubles.push(trouble.clone());
    }
    facts.troubles = servers::reported_troubles(&facts.processes);
    facts
}

#[test]
fn refused_writes_are_the_cause_with_owner_time_and_remedy() {
    let denied = trouble(
        "blobs.put",
        TroubleKind::Refused,
        "AccessDenied (status 403)",
    );
    let found = diagnose(&facts_with_troubles(&[
        ("worker-1", denied.clone()),
        ("worker-2", denied),
    ]));
    assert_eq!(found.cause, Cause::ServerTrouble, "{found:?}");
    assert_eq!(found.since_ms, Some(NOW - 25_000));
    assert!(found.says.contains("S3 refuses: AccessDenied"), "{found:?}");
    assert!(found.says.contains("worker-1 and 1 more"), "{found:?}");
    assert!(found.remedy.unwrap().contains("s3:PutObject"));
    assert_eq!(found.owner.as_deref(), Some("the operator of S3"));
}

#[test]
fn broker_that_blocks_publishers_is_the_cause_although_workers_are_busy() {
    let blocked = trouble("queue.publish", TroubleKind::Blocked, "low on memory");
    let found = diagnose(&facts_with_troubles(&[("coordinator-1", blocked)]));
    assert_eq!(found.cause, Cause::ServerTrouble, "{found:?}");
    assert!(found.says.contains("low on memory"), "{found:?}");
}

#[test]
fn absence_seen_by_one_of_three_processes_is_not_the_cause() {
    let away = trouble("blobs.get", TroubleKind::Away, "no response");
    let one = facts_with_troubles(&[("worker-1", away.clone())]);
    assert_ne!(diagnose(&one).cause, Cause::ServerTrouble);
    let two = facts_with_troubles(&[("worker-1", away.clone()), ("worker-2", away)]);
    assert_eq!(diagnose(&two).cause, Cause::ServerTrouble);
}

#[tokio::test(start_paused = true)]
async fn emptied_redis_is_asked_until_processes_have_posted_again() {
    let env = Env::simulated(1);
    let ports = Ports::memory(&env);
    let ledger = Arc::clone(ports.ledger.raw());
    let heartbeat = HeartbeatReporter::new(&env, "c-1", "coordinator");
    let posting = env.clone();
    env.spawn(async move {
        posting.sleep(HEARTBEAT_INTERVAL).await;
        let stop = CancellationToken::new();
        send_heartbeats(posting, ledger, heartbeat, HeartbeatExtras::default, stop).await;
    });
    let facts = gather_context(&ports).await;
    assert_eq!(facts.processes.len(), 1, "{facts:?}");
    assert_eq!(facts.troubles, []);
}

#[test]
fn refused_call_of_the_coordinator_is_why_a_job_waits() {
    let mut facts = facts(Vec::new());
    facts.run = None;
    facts.jobs[0].waiting = Some(JobWait {
        reason: "blobs.put: AccessDenied (status 403)".into(),
        since_ms: NOW - 20_000,
    });
    let found = diagnose(&facts);
    assert_eq!(found.cause, Cause::ServerTrouble, "{found:?}");
    assert!(found.says.contains("AccessDenied"), "{found:?}");
    assert_eq!(found.since_ms, Some(NOW - 20_000));
    assert_eq!(found.owner.as_deref(), Some("the operator of S3"));
}
