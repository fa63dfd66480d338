//! The diagnosis rules. Each open task of a run has one reason; the cause is the reason that is hardest to overcome.
//! Reasons that pass by themselves within seconds never outrank one that does not.

use super::{Cause, Diagnosis, DiagnosisContext, JobFacts, RunFacts};
use crate::env::Millis;
use crate::heartbeat::{Heartbeat, LaneStatus, ModelStatus};
use crate::jobs::{CancelReason, JobEndReason, PauseReason};
use crate::key::Lane;
use crate::ledger::OpenTask;
use crate::message::RunOutcome;

// A message that nobody took from an empty lane for this long was lost.
const LOST_AFTER_MS: Millis = 5_000;
// A call is slow when it takes longer than three times the p95, and longer than this.
const SLOW_AFTER_MS: Millis = 10_000;
// A provider is slow when its median call takes this long.
const SLOW_TYPICAL_MS: u64 = 20_000;
// With fewer outcomes than this, the last open tasks do not count as stragglers.
const MIN_OUTCOMES: u64 = 4;

/// Explains why the run, or else the job, is not done.
pub fn diagnose(facts: &DiagnosisContext) -> Diagnosis {
    let draft = match (&facts.run, &facts.job) {
        (Some(run), job) => ended_run(run)
            .or_else(|| job.as_ref().and_then(controlled_job))
            .unwrap_or_else(|| unfinished_run(facts, run)),
        (None, Some(job)) => ended_job(job)
            .or_else(|| controlled_job(job))
            .unwrap_or_else(|| unopened_job(facts, job)),
        (None, None) => Diagnosis::new(
            Cause::Queued,
            "it has not been opened yet",
            "a coordinator will open it",
        ),
    };
    Diagnosis {
        not_the_cause: ruled_out(facts, draft.cause),
        ..draft
    }
}

impl Diagnosis {
    fn new(cause: Cause, says: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            cause,
            says: says.into(),
            since_ms: None,
            owner: None,
            next: next.into(),
            next_ms: None,
            not_the_cause: Vec::new(),
            remedy: None,
        }
    }

    fn since(mut self, at_ms: Millis) -> Self {
        self.since_ms = Some(at_ms);
        self
    }

    fn owned_by(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    fn next_at(mut self, next_ms: Millis) -> Self {
        self.next_ms = Some(next_ms);
        self
    }

    fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

// The outcome of an ended run explains it.
fn ended_run(run: &RunFacts) -> Option<Diagnosis> {
    let nothing = "nothing: it has ended";
    Some(match run.outcome.as_ref()? {
        RunOutcome::Done | RunOutcome::Unchanged => {
            Diagnosis::new(Cause::Done, "it is done", nothing)
        }
        RunOutcome::DoneWithGaps(gaps) => Diagnosis::new(
            Cause::Done,
            format!("it is done, with {gaps} gaps"),
            nothing,
        ),
        RunOutcome::Cancelled => Diagnosis::new(
            Cause::Cancelled,
            "the job that asked for it was cancelled",
            nothing,
        )
        .with_remedy("submit it again; finished work is reused"),
        RunOutcome::Failed(record) => {
            let says = format!(
                "{} failed: {}: {}",
                record.stage, record.code, record.message
            );
            match run.dead.first() {
                Some(letter) => dead_letter(&letter.id, &says).since(letter.at_ms),
                None if record.code == "engine.poison" => {
                    dead_letter("", &says).since(record.at_ms)
                }
                None => {
                    let draft = Diagnosis::new(Cause::Failed, says, nothing).since(record.at_ms);
                    Diagnosis {
                        remedy: record.next.clone(),
                        ..draft
                    }
                }
            }
        }
    })
}

fn dead_letter(id: &str, says: &str) -> Diagnosis {
    let replay = if id.is_empty() {
        "stemma dead-letters list".into()
    } else {
        format!("stemma dead-letters replay {id}")
    };
    Diagnosis::new(
        Cause::DeadLetter,
        format!("a task of it is a dead letter: {says}"),
        "nothing until it is replayed",
    )
    .owned_by("the operator of the workers")
    .with_remedy(format!(
        "look for crashes in the workers' logs, then: {replay}"
    ))
}

fn ended_job(job: &JobFacts) -> Option<Diagnosis> {
    let report = job.report.as_ref()?;
    let failed = report.counts.failed;
    let cancelled = report.counts.cancelled;
    let nothing = "nothing: it has ended";
    let draft = match report.close {
        JobEndReason::Finished if failed > 0 => Diagnosis::new(
            Cause::Done,
            format!("it has ended; {failed} documents failed"),
            nothing,
        )
        .with_remedy(format!("stemma failures {} --by reason", job.job)),
        JobEndReason::Finished => Diagnosis::new(Cause::Done, "it has ended", nothing),
        JobEndReason::Cancelled => Diagnosis::new(
            Cause::Cancelled,
            format!("it was cancelled; {cancelled} documents were not done"),
            nothing,
        )
        .with_remedy("submit again; finished work is reused"),
        JobEndReason::TooManyFailed => Diagnosis::new(
            Cause::Failed,
            format!("it was stopped: {failed} documents failed, more than it allows"),
            nothing,
        )
        .with_remedy(format!("stemma failures {} --by reason", job.job)),
    };
    Some(draft.since(report.ended_ms))
}

fn controlled_job(job: &JobFacts) -> Option<Diagnosis> {
    let control = &job.control;
    if let Some(cancelled) = control.cancelled {
        let why = match cancelled.reason {
            CancelReason::Person => "was cancelled",
            CancelReason::TooManyFailed => "was stopped: more documents failed than it allows",
        };
        let next = "running tasks finish and their results are kept";
        return Some(
            Diagnosis::new(Cause::Cancelled, format!("{} {why}", job.job), next)
                .since(cancelled.at_ms),
        );
    }
    let paused = control.paused?;
    let resume = format!("stemma job resume {}", job.job);
    let (cause, why, owner, remedy) = match paused.reason {
        PauseReason::Budget => (
            Cause::Budget,
            "has used up its budget",
            "the owner of the budget",
            format!("raise the budget, then: {resume}"),
        ),
        PauseReason::Credentials => (
            Cause::Paused,
            "is paused: the provider refused the key or the configuration",
            "the owner of the provider key",
            format!("correct the key, then: {resume}"),
        ),
        PauseReason::Person => (
            Cause::Paused,
            "was paused",
            "the person who paused it",
            resume,
        ),
    };
    let draft = Diagnosis::new(
        cause,
        format!("{} {why}", job.job),
        "nothing until it is resumed",
    );
    Some(
        draft
            .since(paused.since_ms)
            .owned_by(owner)
            .with_remedy(remedy),
    )
}

fn no_coordinator(facts: &DiagnosisContext) -> Option<Diagnosis> {
    let alive = facts.processes.iter().any(|heartbeat| {
        matches!(heartbeat.service.as_str(), "coordinator" | "all") && !heartbeat.draining
    });
    (!alive).then(|| {
        Diagnosis::new(
            Cause::NoWorker,
            "no coordinator is alive",
            "continues when one is started",
        )
        .owned_by("the operator of the services")
        .with_remedy("start one: stemma coordinator")
    })
}

/// A job that has not ended and has no known open run.
fn unopened_job(facts: &DiagnosisContext, job: &JobFacts) -> Diagnosis {
    if let Some(draft) = no_coordinator(facts) {
        return draft;
    }
    let Some(progress) = facts
        .jobs
        .iter()
        .find(|progress| progress.job == job.job && progress.entries > 0)
    else {
        return Diagnosis::new(
            Cause::Queued,
            "no coordinator has opened it yet",
            "one will within a minute",
        )
        .since(job.submitted_ms);
    };
    if progress.open > 0 {
        let open = progress.open;
        let ended = progress.counts.ended();
        return Diagnosis::new(
            Cause::Long,
            format!(
                "{open} documents are in progress, {ended} of {} ended",
                progress.entries
            ),
            "it continues",
        );
    }
    let others: u64 = facts
        .jobs
        .iter()
        .filter(|other| other.job != job.job)
        .map(|other| other.open)
        .sum();
    let busiest = facts
        .jobs
        .iter()
        .filter(|other| other.job != job.job)
        .max_by_key(|other| other.open);
    let says = format!("none of its documents is open yet; {others} documents of other jobs are");
    let draft = Diagnosis::new(
        Cause::Queued,
        says,
        "a document is opened when one of them ends",
    )
    .since(job.submitted_ms);
    match busiest {
        Some(other) => draft
            .owned_by(other.job.to_string())
            .with_remedy(format!("stemma job priority {} interactive", job.job)),
        None => draft,
    }
}

/// An open run: the hardest reason among its open tasks.
fn unfinished_run(facts: &DiagnosisContext, run: &RunFacts) -> Diagnosis {
    if let Some(draft) = no_coordinator(facts) {
        return draft;
    }
    if run.tasks.is_empty() {
        if let Some(letter) = run.dead.first() {
            return dead_letter(&letter.id, &letter.reason).since(letter.at_ms);
        }
        let admitted = facts.jobs.iter().any(|job| job.runs.contains(&run.run));
        let (cause, says) = match admitted {
            true => (Cause::Long, "its next tasks are being determined"),
            false => (
                Cause::Queued,
                "it is claimed, but its first task has not been requested",
            ),
        };
        return Diagnosis::new(cause, says, "a coordinator checks it within a minute");
    }
    let reasons = run.tasks.iter().map(|task| open_task(facts, run, task));
    let hardest = reasons.min_by_key(|draft| (draft.cause, draft.since_ms));
    match hardest {
        Some(draft) if draft.cause == Cause::Long => straggler_or_busy(facts, run, draft),
        Some(draft) => draft,
        None => Diagnosis::new(Cause::Long, "it is in progress", "it continues"),
    }
}

fn open_task(facts: &DiagnosisContext, run: &RunFacts, task: &OpenTask) -> Diagnosis {
    let now = facts.now_ms;
    if let Some((holder, until_ms)) = task.lease.as_ref().filter(|(_, until_ms)| *until_ms > now) {
        return match facts
            .processes
            .iter()
            .find(|heartbeat| heartbeat.process == *holder)
        {
            Some(heartbeat) => leased_task(facts, task, heartbeat),
            None if facts.processes.is_empty() => running_task(task, holder, task.published_ms),
            None => silent_worker(task, holder, *until_ms),
        };
    }
    if let Some(retry) = task.retry.as_ref().filter(|retry| retry.next_ms > now) {
        let provider = (task.lane == Lane::Llm)
            .then(|| blocked_provider(facts, &serving_processes(facts, run, task), true))
            .flatten();
        if !retry.counted
            && let Some(draft) = provider
        {
            return draft;
        }
        let attempts = task.attempts;
        let (cause, says) = match (retry.counted, task.lane) {
            (false, Lane::Llm) => (
                Cause::RateLimit,
                format!("{} got no permit ({})", task.stage, retry.code),
            ),
            _ => (
                Cause::Retry,
                format!(
                    "{} failed {attempts} times, last with {}",
                    task.stage, retry.code
                ),
            ),
        };
        return Diagnosis::new(cause, says, "it is retried")
            .next_at(retry.next_ms)
            .since(task.published_ms);
    }
    queued_task(facts, run, task)
}

fn silent_worker(task: &OpenTask, holder: &str, until_ms: Millis) -> Diagnosis {
    let says = format!(
        "{holder} holds {} and has stopped sending heartbeats",
        task.stage
    );
    Diagnosis::new(
        Cause::SilentWorker,
        says,
        "its lease expires and another worker takes the task",
    )
    .owned_by(holder)
    .next_at(until_ms)
    .since(task.published_ms)
    .with_remedy(format!(
        "check whether {holder} is running; no work is lost either way"
    ))
}

fn running_task(task: &OpenTask, holder: &str, since_ms: Millis) -> Diagnosis {
    Diagnosis::new(
        Cause::Long,
        format!("{} is running on {holder}", task.stage),
        "it ends",
    )
    .owned_by(holder)
    .since(since_ms)
}

/// A task whose lease is held by a live worker.
fn leased_task(facts: &DiagnosisContext, task: &OpenTask, heartbeat: &Heartbeat) -> Diagnosis {
    let since_ms = task_since(heartbeat, task).unwrap_or(task.published_ms);
    let draft = running_task(task, &heartbeat.process, since_ms);
    if task.lane != Lane::Llm {
        return draft;
    }
    if let Some(provider) = blocked_provider(facts, &[heartbeat], false) {
        return provider.since(since_ms);
    }
    slow_provider(facts, task, Some(since_ms)).unwrap_or(draft)
}

fn task_since(heartbeat: &Heartbeat, task: &OpenTask) -> Option<Millis> {
    heartbeat
        .tasks
        .iter()
        .find(|other| other.key == task.key)
        .map(|other| other.since_ms)
}

// One slow call among fast ones is a straggler, not a slow provider. A task that waits for a permit waits for all calls
// of the model, whatever their stage.
fn slow_provider(
    facts: &DiagnosisContext,
    task: &OpenTask,
    since_ms: Option<Millis>,
) -> Option<Diagnosis> {
    let typical = models(facts)
        .map(|(_, model)| model.p50_ms)
        .max()
        .unwrap_or(0);
    let p95 = models(facts)
        .map(|(_, model)| model.p95_ms)
        .max()
        .unwrap_or(0);
    let limit = SLOW_AFTER_MS.max(3 * p95);
    let ages: Vec<Millis> = facts
        .processes
        .iter()
        .filter(|heartbeat| !heartbeat.models.is_empty())
        .flat_map(|heartbeat| &heartbeat.tasks)
        .filter(|other| since_ms.is_none() || other.stage == task.stage)
        .map(|other| facts.now_ms.saturating_sub(other.since_ms))
        .collect();
    let all = ages.len();
    let old = ages.iter().filter(|age| **age > limit).count();
    let this_one = since_ms.is_none_or(|since_ms| facts.now_ms.saturating_sub(since_ms) > limit);
    if typical < SLOW_TYPICAL_MS && !(this_one && 2 * old > all) {
        return None;
    }
    let name = models(facts)
        .max_by_key(|(_, model)| model.p50_ms)
        .map(|(name, _)| name.clone())
        .unwrap_or_default();
    let says = format!(
        "{name} answers slowly: half of its calls take {:.1} s or more",
        typical as f64 / 1e3
    );
    let says = if typical < SLOW_TYPICAL_MS {
        format!("{name} has not answered {old} of {all} calls in time")
    } else {
        says
    };
    let draft =
        Diagnosis::new(Cause::ProviderSlow, says, "the call ends or times out").owned_by(name);
    let draft = Diagnosis { since_ms, ..draft };
    Some(draft.with_remedy("look at the provider's status; stemma status shows its p95"))
}

fn models(facts: &DiagnosisContext) -> impl Iterator<Item = (&String, &ModelStatus)> {
    facts
        .processes
        .iter()
        .flat_map(|heartbeat| heartbeat.models.iter())
}

/// A cause that blocks all calls to the provider.
fn blocked_provider(
    facts: &DiagnosisContext,
    heartbeats: &[&Heartbeat],
    held_back: bool,
) -> Option<Diagnosis> {
    let models: Vec<(&String, &ModelStatus)> = heartbeats
        .iter()
        .flat_map(|heartbeat| heartbeat.models.iter())
        .collect();
    if let Some((name, model, until)) = models.iter().find_map(|(name, model)| {
        let until = model.breaker_open_until_ms?;
        (until > facts.now_ms).then_some((name, model, until))
    }) {
        let error = model.last_error.as_deref().unwrap_or("calls fail");
        let says = format!("the breaker of {name} is open: {error}");
        let draft = Diagnosis::new(Cause::BreakerOpen, says, "a trial call is made then")
            .owned_by(name.as_str())
            .next_at(until);
        return Some(
            draft.with_remedy(
                "check that the provider is reachable from the workers: stemma doctor",
            ),
        );
    }
    models.iter().find_map(|(name, model)| {
        let (requests, tokens) = last_minute_usage(facts, name);
        let paused_until = model.paused_until_ms.filter(|until| *until > facts.now_ms);
        let waits = held_back || (model.waiting > 0 && model.calling == 0) || model.waiting > model.calling;
        let used_up = percent_used(requests, model.requests_limit) >= 90 || percent_used(tokens, model.tokens_limit) >= 90;
        // Without a limit, a task that waits for a permit gets it at once.
        let limited = model.requests_limit > 0 || model.tokens_limit > 0;
        if !(paused_until.is_some() || (waits && limited && (used_up || model.waiting > 0))) {
            return None;
        }
        let says = match paused_until {
            Some(_) => format!("{name} asked all clients to wait"),
            None => format!(
                "rate limit of {name}: {requests} of {} requests, {tokens} of {} tokens in the last minute",
                model.requests_limit, model.tokens_limit
            ),
        };
        let draft = Diagnosis::new(Cause::RateLimit, says, "a permit is granted when the rate allows").owned_by(name.as_str());
        let draft = Diagnosis { next_ms: paused_until, ..draft };
        Some(draft.with_remedy("raise the limit if your plan allows, or give another job a lower priority"))
    })
}

/// Requests and tokens of a model in the last minute, over all processes.
fn last_minute_usage(facts: &DiagnosisContext, name: &str) -> (u64, u64) {
    let models = facts
        .processes
        .iter()
        .filter_map(|heartbeat| heartbeat.models.get(name));
    models.fold((0, 0), |(requests, tokens), model| {
        (
            requests + model.requests_last_minute,
            tokens + model.tokens_last_minute,
        )
    })
}

fn percent_used(used: u64, limit: u32) -> u64 {
    if limit == 0 {
        0
    } else {
        100 * used / u64::from(limit)
    }
}

fn lane_status<'a>(
    heartbeat: &'a Heartbeat,
    run: &RunFacts,
    task: &OpenTask,
) -> Option<&'a LaneStatus> {
    heartbeat
        .lanes
        .iter()
        .find(|lane| lane.lane == task.lane && lane.class == run.class && lane.slots > 0)
}

/// The processes that take tasks of this lane and class.
fn serving_processes<'a>(
    facts: &'a DiagnosisContext,
    run: &RunFacts,
    task: &OpenTask,
) -> Vec<&'a Heartbeat> {
    facts
        .processes
        .iter()
        .filter(|heartbeat| !heartbeat.draining && lane_status(heartbeat, run, task).is_some())
        .collect()
}

/// A task that is due and not leased: it waits in its lane.
fn queued_task(facts: &DiagnosisContext, run: &RunFacts, task: &OpenTask) -> Diagnosis {
    let lane = task.lane.name();
    let serving = serving_processes(facts, run, task);
    if serving.is_empty() {
        let service = if task.lane == Lane::Publish {
            "assembler"
        } else {
            "worker"
        };
        return Diagnosis::new(
            Cause::NoWorker,
            format!("no {service} serves the lane {lane}"),
            "continues when one is started",
        )
        .owned_by("the operator of the services")
        .since(task.published_ms)
        .with_remedy(format!("start one: stemma {service}"));
    }
    let sums = serving
        .iter()
        .filter_map(|heartbeat| lane_status(heartbeat, run, task))
        .fold((0u32, 0u32), |(busy, slots), lane| {
            (busy + u32::from(lane.busy), slots + u32::from(lane.slots))
        });
    let depth = facts
        .depths
        .get(&(task.lane, run.class))
        .copied()
        .unwrap_or_default();
    if sums.0 >= sums.1 {
        return busy_lane(facts, run, task, &serving, depth.ready).since(task.published_ms);
    }
    let waited = facts.now_ms.saturating_sub(task.published_ms);
    if depth.ready == 0 && depth.delayed == 0 && waited > LOST_AFTER_MS {
        let says = format!(
            "{} is not running and its lane is empty: its message was lost",
            task.stage
        );
        return Diagnosis::new(Cause::LostMessage, says, "it will be published again")
            .next_at(task.due_ms)
            .since(task.published_ms);
    }
    let says = format!("{} is next on the lane {lane}", task.stage);
    Diagnosis::new(Cause::Long, says, "a worker takes it").since(task.published_ms)
}

/// All slots are taken, by calls that wait for the provider or by other work.
fn busy_lane(
    facts: &DiagnosisContext,
    run: &RunFacts,
    task: &OpenTask,
    serving: &[&Heartbeat],
    ready: u64,
) -> Diagnosis {
    if task.lane == Lane::Llm
        && let Some(draft) =
            blocked_provider(facts, serving, false).or_else(|| slow_provider(facts, task, None))
    {
        return draft;
    }
    let tasks = || serving.iter().flat_map(|heartbeat| &heartbeat.tasks);
    let of_run = tasks().filter(|other| other.run == run.run).count();
    let own = facts.jobs.iter().find(|job| job.runs.contains(&run.run));
    let busiest = facts.jobs.iter().max_by_key(|job| {
        let running = tasks().filter(|other| job.runs.contains(&other.run));
        (running.count(), job.open)
    });
    let says = format!(
        "all workers of the lane {} are busy; {ready} tasks wait",
        task.lane.name()
    );
    let next = if of_run > 0 {
        "continues when its own running tasks end"
    } else {
        "a worker takes it when a slot is free"
    };
    let draft = Diagnosis::new(Cause::WorkersBusy, says, next);
    match (busiest, own) {
        (Some(busy), Some(own)) if busy.job == own.job => {
            draft.owned_by(format!("{}, this job", busy.job))
        }
        (Some(busy), _) => draft
            .owned_by(busy.job.to_string())
            .with_remedy("add workers, or give that job a lower priority"),
        (None, _) => draft,
    }
}

/// Every open task is running or next in line: either a straggler, or simply much to do.
fn straggler_or_busy(facts: &DiagnosisContext, run: &RunFacts, draft: Diagnosis) -> Diagnosis {
    let open = run.tasks.len() as u64;
    let oldest = run
        .tasks
        .iter()
        .filter(|task: &&OpenTask| {
            task.lease
                .as_ref()
                .is_some_and(|(_, until_ms)| *until_ms > facts.now_ms)
        })
        .filter_map(|task| {
            let (holder, _) = task.lease.as_ref()?;
            let heartbeat = facts
                .processes
                .iter()
                .find(|heartbeat| heartbeat.process == *holder)?;
            Some((task_since(heartbeat, task)?, task, heartbeat))
        });
    let Some((since_ms, task, heartbeat)) = oldest.min_by_key(|(since_ms, ..)| *since_ms) else {
        return with_progress(run, draft);
    };
    let usual = facts
        .processes
        .iter()
        .filter_map(|heartbeat| heartbeat.stages.get(&task.stage))
        .map(|stage| stage.p95_ms)
        .max();
    let age = facts.now_ms.saturating_sub(since_ms);
    if run.present >= MIN_OUTCOMES
        && 10 * open <= run.present.max(10)
        && age > usual.unwrap_or(0).max(1_000)
    {
        let says = format!(
            "everything else is done; waiting for {open} of {} tasks: {}",
            run.present + open,
            task.stage
        );
        return Diagnosis::new(
            Cause::SiblingStage,
            says,
            "its next stage begins when that ends",
        )
        .owned_by(heartbeat.process.as_str())
        .since(since_ms);
    }
    let usual = usual
        .map(|p95| format!(" (p95 {:.1} s)", p95 as f64 / 1e3))
        .unwrap_or_default();
    let says = format!("{}{usual}", with_progress(run, draft.clone()).says);
    Diagnosis { says, ..draft }
}

fn with_progress(run: &RunFacts, draft: Diagnosis) -> Diagnosis {
    let open = run.tasks.len() as u64;
    let says = format!(
        "{}; {} of at least {} tasks are done",
        draft.says,
        run.present,
        run.present + open
    );
    Diagnosis { says, ..draft }
}

/// Checks that passed.
fn ruled_out(facts: &DiagnosisContext, cause: Cause) -> Vec<String> {
    let mut fine = Vec::new();
    if matches!(cause, Cause::Done | Cause::Failed | Cause::Cancelled) {
        return fine;
    }
    let workers = facts
        .processes
        .iter()
        .filter(|heartbeat| matches!(heartbeat.service.as_str(), "worker" | "all"))
        .count();
    if workers > 0 && !matches!(cause, Cause::NoWorker | Cause::SilentWorker) {
        fine.push(format!("{workers} workers alive"));
    }
    if models(facts).next().is_some() {
        if models(facts).all(|(_, model)| {
            model
                .breaker_open_until_ms
                .is_none_or(|until| until <= facts.now_ms)
        }) {
            fine.push("breaker closed".into());
        }
        if cause != Cause::RateLimit {
            fine.extend(models(facts).next().map(|(name, model)| {
                format!(
                    "{name}: {} of {} requests in the last minute",
                    last_minute_usage(facts, name).0,
                    model.requests_limit
                )
            }));
        }
        if cause != Cause::ProviderSlow {
            let p95 = models(facts)
                .map(|(_, model)| model.p95_ms)
                .max()
                .unwrap_or(0);
            fine.push(format!("provider p95 {:.1} s", p95 as f64 / 1e3));
        }
    }
    let retrying = facts
        .run
        .iter()
        .flat_map(|run| &run.tasks)
        .any(|task| task.retry.is_some());
    if facts.run.is_some() && !retrying {
        fine.push("no retry pending".into());
    }
    if facts
        .job
        .as_ref()
        .is_some_and(|job| job.control.is_running())
    {
        fine.push("the job is neither paused nor cancelled".into());
    }
    fine
}
