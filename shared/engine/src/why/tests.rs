//! One case per cause, and near misses: what looks like it and is not.

use std::collections::BTreeMap;

use super::*;
use crate::dead_letter::DeadLetter;
use crate::env::Millis;
use crate::failure::FailureRecord;
use crate::jobs::{CancelReason, Cancelled, Counts, PauseReason, Paused, Standing};
use crate::key::{Class, JobId, RunId, TaskKey};
use crate::ledger::{OpenTask, Retry};
use crate::message::Ending;
use crate::presence::{Beat, JobProgress, LaneBeat, ModelBeat, StageBeat, TaskBeat};
use crate::queue::{Depth, Lane};

const NOW: Millis = 1_000_000_000;

fn key(n: u64) -> TaskKey {
    TaskKey::identity("test", 1).number(n).finish()
}

fn beat(process: &str, service: &str) -> Beat {
    Beat {
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
            StageBeat {
                p95_ms: 2_000,
                ..StageBeat::default()
            },
        )]),
        models: BTreeMap::new(),
    }
}

/// A worker with 8 slots for calls, of which `busy` are taken.
fn worker(process: &str, busy: u16) -> Beat {
    let lane = |lane, slots, busy| LaneBeat {
        lane,
        class: Class::Bulk,
        slots,
        busy,
    };
    let model = ModelBeat {
        requests_limit: 600,
        tokens_limit: 200_000,
        requests_last_minute: 100,
        p50_ms: 800,
        p95_ms: 2_000,
        calling: busy.into(),
        ..ModelBeat::default()
    };
    Beat {
        lanes: vec![lane(Lane::Llm, 8, busy), lane(Lane::Cpu, 2, 0)],
        models: BTreeMap::from([("gpt-x".into(), model)]),
        ..beat(process, "worker")
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

/// A task that `holder` works on since `since_ms`.
fn held(n: u64, holder: &str) -> OpenTask {
    OpenTask {
        lease: Some((holder.into(), NOW + 40_000)),
        ..task(n)
    }
}

fn in_work(n: u64, run: &str, age_ms: Millis) -> TaskBeat {
    TaskBeat {
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
        counts: Counts {
            done: 10,
            ..Counts::default()
        },
        open,
        tasks_present: 50,
        tasks_missing: 5,
        runs: runs.iter().map(|run| RunId((*run).into())).collect(),
    }
}

/// A sound system with a run that has these tasks open.
fn facts(tasks: Vec<OpenTask>) -> Facts {
    Facts {
        now_ms: NOW,
        job: Some(JobFacts {
            job: JobId("j-1".into()),
            submitted_ms: NOW - 60_000,
            standing: Standing::default(),
            report: None,
        }),
        run: Some(RunFacts {
            run: RunId("doc-1".into()),
            class: Class::Bulk,
            ending: None,
            tasks,
            present: 20,
            dead: Vec::new(),
        }),
        processes: vec![
            beat("coordinator-1", "coordinator"),
            worker("worker-1", 2),
            worker("worker-2", 3),
        ],
        jobs: vec![
            progress("j-1", 5, &["doc-1"]),
            progress("j-2", 50, &["doc-7"]),
        ],
        depths: BTreeMap::from([(
            (Lane::Llm, Class::Bulk),
            Depth {
                ready: 40,
                unacked: 5,
                delayed: 0,
            },
        )]),
    }
}

fn check(name: &str, facts: &Facts, cause: Cause) -> Diagnosis {
    let found = diagnose(facts);
    assert_eq!(found.cause, cause, "{name}: {found:#?}");
    assert!(
        !found.says.is_empty() && !found.next.is_empty(),
        "{name}: {found:#?}"
    );
    found
}

fn with_models(mut facts: Facts, change: impl Fn(&mut ModelBeat)) -> Facts {
    facts
        .processes
        .iter_mut()
        .flat_map(|beat| beat.models.values_mut())
        .for_each(change);
    facts
}

fn full(mut facts: Facts, run: &str) -> Facts {
    for beat in facts
        .processes
        .iter_mut()
        .filter(|beat| beat.service == "worker")
    {
        beat.lanes[0].busy = 8;
        beat.tasks = (0..8).map(|n| in_work(100 + n, run, 500)).collect();
        beat.models.values_mut().for_each(|model| model.calling = 8);
    }
    facts
}

fn said(standing: Standing) -> Facts {
    let mut facts = facts(vec![held(1, "worker-1")]);
    facts.job.as_mut().unwrap().standing = standing;
    facts
}

#[test]
fn no_worker_on_the_lane() {
    let mut alone = facts(vec![task(1)]);
    alone.processes.truncate(1);
    let found = check("no worker", &alone, Cause::NoWorker);
    assert!(
        found.says.contains("llm") && found.remedy.unwrap().contains("stemma worker"),
        "{}",
        found.says
    );

    let mut draining = facts(vec![task(1)]);
    draining
        .processes
        .iter_mut()
        .for_each(|beat| beat.draining = beat.service == "worker");
    check("all drain", &draining, Cause::NoWorker);

    let mut other = facts(vec![task(1)]);
    other
        .processes
        .iter_mut()
        .for_each(|beat| beat.lanes.retain(|lane| lane.lane != Lane::Llm));
    check("workers of another lane", &other, Cause::NoWorker);

    let publish = OpenTask {
        lane: Lane::Publish,
        stage: "publish".into(),
        ..task(1)
    };
    let found = check("no assembler", &facts(vec![publish]), Cause::NoWorker);
    assert!(found.remedy.unwrap().contains("stemma assembler"));

    let mut headless = facts(vec![task(1)]);
    headless.processes.remove(0);
    assert!(
        check("no coordinator", &headless, Cause::NoWorker)
            .says
            .contains("coordinator")
    );
}

#[test]
fn workers_are_busy_and_with_whose_work() {
    let found = check(
        "busy with others",
        &full(facts(vec![task(1)]), "doc-7"),
        Cause::WorkersBusy,
    );
    assert_eq!(found.owner.as_deref(), Some("j-2"));
    let own = check(
        "busy with its own",
        &full(facts(vec![task(1)]), "doc-1"),
        Cause::WorkersBusy,
    );
    assert_eq!(own.owner.as_deref(), Some("j-1, this job"));
    check("a slot is free", &facts(vec![task(1)]), Cause::Long);
}

#[test]
fn the_rate_limit() {
    let waiting = |model: &mut ModelBeat| {
        (model.waiting, model.calling, model.requests_last_minute) = (8, 0, 300)
    };
    let limited = with_models(
        full(facts(vec![task(1), held(2, "worker-1")]), "doc-7"),
        waiting,
    );
    let found = check("600 of 600", &limited, Cause::RateLimit);
    assert!(found.says.contains("600 of 600 requests"), "{}", found.says);

    check(
        "tokens",
        &with_models(facts(vec![held(1, "worker-2")]), |model: &mut ModelBeat| {
            (model.waiting, model.tokens_last_minute) = (6, 99_000)
        }),
        Cause::RateLimit,
    );
    let asked = with_models(facts(vec![held(1, "worker-1")]), |model| {
        model.paused_until_ms = Some(NOW + 9_000)
    });
    assert_eq!(
        check("429", &asked, Cause::RateLimit).next_ms,
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

    let idle = with_models(facts(vec![held(1, "worker-1")]), |model| {
        model.requests_last_minute = 300
    });
    check("the limit is reached and no one waits", &idle, Cause::Long);
    let unlimited = with_models(facts(vec![held(1, "worker-1")]), |model| {
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
fn the_breaker() {
    let open = |model: &mut ModelBeat| model.breaker_open_until_ms = Some(NOW + 20_000);
    let found = check(
        "held",
        &with_models(facts(vec![held(1, "worker-1")]), open),
        Cause::BreakerOpen,
    );
    assert_eq!(found.next_ms, Some(NOW + 20_000));
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
        &with_models(facts(vec![held(1, "worker-1")]), |model: &mut ModelBeat| {
            model.breaker_open_until_ms = Some(NOW - 1)
        }),
        Cause::Long,
    );
    let reading = OpenTask {
        lane: Lane::Cpu,
        stage: "paginate".into(),
        ..held(1, "worker-1")
    };
    check(
        "not a call",
        &with_models(facts(vec![reading]), open),
        Cause::Long,
    );
}

#[test]
fn budget_pause_and_cancel() {
    let paused = |reason| Standing {
        paused: Some(Paused {
            reason,
            since_ms: NOW - 5_000,
        }),
        ..Standing::default()
    };
    let found = check("budget", &said(paused(PauseReason::Budget)), Cause::Budget);
    assert_eq!(found.since_ms, Some(NOW - 5_000));
    check(
        "credentials",
        &said(paused(PauseReason::Credentials)),
        Cause::Paused,
    );
    check(
        "a person",
        &said(paused(PauseReason::Person)),
        Cause::Paused,
    );
    let cancelled = Cancelled {
        reason: CancelReason::Person,
        at_ms: NOW - 1,
    };
    check(
        "cancelled",
        &said(Standing {
            cancelled: Some(cancelled),
            ..Standing::default()
        }),
        Cause::Cancelled,
    );

    let mut done = said(paused(PauseReason::Budget));
    done.run.as_mut().unwrap().ending = Some(Ending::Done);
    check("done before the pause", &done, Cause::Done);
}

#[test]
fn the_retry_clock() {
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
    let found = check(
        "an attempt failed",
        &facts(vec![waiting.clone(), held(2, "worker-1")]),
        Cause::Retry,
    );
    assert_eq!(found.next_ms, Some(NOW + 25_000));
    assert!(
        found.says.contains("3 times") && found.says.contains("provider.timeout"),
        "{}",
        found.says
    );
    let due = OpenTask {
        retry: Some(Retry {
            next_ms: NOW - 1,
            ..retry
        }),
        ..waiting
    };
    check("it is due", &facts(vec![due]), Cause::Long);
}

#[test]
fn a_silent_worker() {
    let found = check(
        "its holder is gone",
        &facts(vec![held(1, "worker-9")]),
        Cause::SilentWorker,
    );
    assert_eq!(
        (found.owner.as_deref(), found.next_ms),
        (Some("worker-9"), Some(NOW + 40_000))
    );
    let run_out = OpenTask {
        lease: Some(("worker-9".into(), NOW - 1)),
        ..task(1)
    };
    check("its lease ran out", &facts(vec![run_out]), Cause::Long);
    check(
        "its holder lives",
        &facts(vec![held(1, "worker-1")]),
        Cause::Long,
    );
}

#[test]
fn the_last_of_its_siblings() {
    let mut straggler = facts(vec![held(1, "worker-1")]);
    straggler.processes[1].tasks = vec![in_work(1, "doc-1", 9_000)];
    straggler.processes[2].tasks = (0..3).map(|n| in_work(50 + n, "doc-7", 400)).collect();
    check("one call takes long", &straggler, Cause::SiblingStage);

    let mut quick = straggler.clone();
    quick.processes[1].tasks = vec![in_work(1, "doc-1", 400)];
    check("it has only begun", &quick, Cause::Long);
    let mut many = straggler.clone();
    many.run
        .as_mut()
        .unwrap()
        .tasks
        .extend((2..20).map(|n| held(n, "worker-1")));
    check("much else is open", &many, Cause::Long);
}

#[test]
fn a_slow_provider() {
    let mut slow = facts(vec![held(1, "worker-1")]);
    slow.processes[1].tasks = vec![in_work(1, "doc-1", 30_000)];
    slow.processes[2].tasks = (0..3).map(|n| in_work(50 + n, "doc-7", 25_000)).collect();
    check("no call comes back", &slow, Cause::ProviderSlow);
    let mut behind = full(slow.clone(), "doc-7");
    behind.run.as_mut().unwrap().tasks = vec![
        held(1, "worker-1"),
        OpenTask {
            stage: "other".into(),
            ..task(2)
        },
    ];
    for beat in &mut behind.processes {
        beat.tasks
            .iter_mut()
            .for_each(|task| task.since_ms = NOW - 30_000);
    }
    check(
        "what waits in line waits for the same calls",
        &behind,
        Cause::ProviderSlow,
    );
    let typical = with_models(facts(vec![held(1, "worker-1")]), |model| {
        model.p50_ms = 45_000
    });
    check("all calls are slow", &typical, Cause::ProviderSlow);
    let mut one = slow.clone();
    one.processes[2].tasks = (0..3).map(|n| in_work(50 + n, "doc-7", 500)).collect();
    check("only this one is", &one, Cause::SiblingStage);
}

#[test]
fn a_dead_letter() {
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
    run.ending = Some(Ending::Failed(record("engine.poison")));
    check("poison", &dead, Cause::DeadLetter);
    dead.run.as_mut().unwrap().dead = vec![DeadLetter {
        id: "00ff".into(),
        at_ms: NOW - 10,
        run: None,
        key: Some(key(1)),
        stage: Some("summarize".into()),
        attempts: 20,
        reason: "no worker could handle it".into(),
        begins: String::new(),
    }];
    let found = check("with its letter", &dead, Cause::DeadLetter);
    assert!(
        found
            .remedy
            .unwrap()
            .contains("stemma dead-letters replay 00ff")
    );
    let mut failed = facts(Vec::new());
    failed.run.as_mut().unwrap().ending = Some(Ending::Failed(record("pdf.encrypted_password")));
    assert_eq!(
        check("failed for another reason", &failed, Cause::Failed)
            .remedy
            .as_deref(),
        Some("do this")
    );
}

#[test]
fn simply_long() {
    let many = (0..30).map(|n| held(n, "worker-1")).collect();
    let found = check("much to do", &facts(many), Cause::Long);
    assert!(
        found
            .not_the_cause
            .iter()
            .any(|fine| fine == "2 workers alive"),
        "{:?}",
        found.not_the_cause
    );
    assert!(
        found
            .not_the_cause
            .iter()
            .any(|fine| fine == "breaker closed"),
        "{:?}",
        found.not_the_cause
    );
    assert!(
        found.says.contains("20 of at least 50 tasks"),
        "{}",
        found.says
    );
    check("between two tasks", &facts(Vec::new()), Cause::Long);
    let mut embedded = facts(vec![held(1, "pid-1")]);
    embedded.processes = vec![beat("c", "coordinator"), worker("pid-1", 1)];
    check("one process", &embedded, Cause::Long);
}

#[test]
fn lost_and_queued() {
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
