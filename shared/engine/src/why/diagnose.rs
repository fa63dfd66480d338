//! The rules. Each open task of a run has one reason to be open; of these the one that is the hardest to get over is the
//! cause. Reasons that pass by themselves in seconds never outweigh one that does not.

use super::{Cause, Diagnosis, Facts, JobFacts, RunFacts};
use crate::env::Millis;
use crate::jobs::{CancelReason, Close, PauseReason};
use crate::ledger::OpenTask;
use crate::message::Ending;
use crate::presence::{Beat, LaneBeat, ModelBeat};
use crate::queue::Lane;

/// A message that no one has taken after this long on an empty lane was lost.
const LOST_AFTER_MS: Millis = 5_000;
/// A call is slow when it takes longer than three times what 95 of 100 take, and than this.
const SLOW_AFTER_MS: Millis = 10_000;
/// A provider whose typical call takes this long is slow.
const SLOW_TYPICAL_MS: u64 = 20_000;
/// Outcomes a run has at least before its last tasks count as stragglers.
const MANY: u64 = 4;

/// Says why the run, or else the job, is not done.
pub fn diagnose(facts: &Facts) -> Diagnosis {
    let found = match (&facts.run, &facts.job) {
        (Some(run), job) => over(run)
            .or_else(|| job.as_ref().and_then(said))
            .unwrap_or_else(|| open(facts, run)),
        (None, Some(job)) => closed(job)
            .or_else(|| said(job))
            .unwrap_or_else(|| waiting(facts, job)),
        (None, None) => Found::new(
            Cause::Queued,
            "nothing of it was opened",
            "a coordinator takes it up",
        ),
    };
    Diagnosis {
        not_the_cause: in_order(facts, found.cause),
        ..found.diagnosis()
    }
}

/// A cause on its way to a diagnosis.
#[derive(Clone)]
struct Found {
    cause: Cause,
    says: String,
    since_ms: Option<Millis>,
    owner: Option<String>,
    next: String,
    next_ms: Option<Millis>,
    remedy: Option<String>,
}

impl Found {
    fn new(cause: Cause, says: impl Into<String>, next: impl Into<String>) -> Self {
        let says = says.into();
        let next = next.into();
        Self {
            cause,
            says,
            since_ms: None,
            owner: None,
            next,
            next_ms: None,
            remedy: None,
        }
    }

    fn since(mut self, at_ms: Millis) -> Self {
        self.since_ms = Some(at_ms);
        self
    }

    fn by(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    fn at(mut self, next_ms: Millis) -> Self {
        self.next_ms = Some(next_ms);
        self
    }

    fn do_this(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    fn diagnosis(self) -> Diagnosis {
        let Self {
            cause,
            says,
            since_ms,
            owner,
            next,
            next_ms,
            remedy,
        } = self;
        Diagnosis {
            cause,
            says,
            since_ms,
            owner,
            next,
            next_ms,
            not_the_cause: Vec::new(),
            remedy,
        }
    }
}

/// A run that ended needs no other reason.
fn over(run: &RunFacts) -> Option<Found> {
    let nothing = "nothing: it is over";
    Some(match run.ending.as_ref()? {
        Ending::Done | Ending::Unchanged => Found::new(Cause::Done, "it is done", nothing),
        Ending::DoneWithGaps(gaps) => Found::new(
            Cause::Done,
            format!("it is done, with {gaps} gaps"),
            nothing,
        ),
        Ending::Cancelled => Found::new(
            Cause::Cancelled,
            "the job that asked for it was cancelled",
            nothing,
        )
        .do_this("submit it again: what was made is kept"),
        Ending::Failed(record) => {
            let says = format!(
                "{} failed: {}: {}",
                record.stage, record.code, record.message
            );
            match run.dead.first() {
                Some(letter) => dead(&letter.id, &says).since(letter.at_ms),
                None if record.code == "engine.poison" => dead("", &says).since(record.at_ms),
                None => {
                    let found = Found::new(Cause::Failed, says, nothing).since(record.at_ms);
                    Found {
                        remedy: record.next.clone(),
                        ..found
                    }
                }
            }
        }
    })
}

fn dead(id: &str, says: &str) -> Found {
    let replay = if id.is_empty() {
        "stemma dead-letters list".into()
    } else {
        format!("stemma dead-letters replay {id}")
    };
    Found::new(
        Cause::DeadLetter,
        format!("a task of it is a dead letter: {says}"),
        "nothing, until it is replayed",
    )
    .by("whoever reads the workers' logs")
    .do_this(format!(
        "look for crashes in the workers' logs, then: {replay}"
    ))
}

fn closed(job: &JobFacts) -> Option<Found> {
    let report = job.report.as_ref()?;
    let failed = report.counts.failed;
    let cancelled = report.counts.cancelled;
    let nothing = "nothing: it is over";
    let found = match report.close {
        Close::Finished if failed > 0 => Found::new(
            Cause::Done,
            format!("it has ended; {failed} documents failed"),
            nothing,
        )
        .do_this(format!("stemma failures {} --by reason", job.job)),
        Close::Finished => Found::new(Cause::Done, "it has ended", nothing),
        Close::Cancelled => Found::new(
            Cause::Cancelled,
            format!("it was cancelled; {cancelled} documents were not done"),
            nothing,
        )
        .do_this("submit again: what was made is kept"),
        Close::TooManyFailed => Found::new(
            Cause::Failed,
            format!("it was stopped: {failed} documents failed, more than it allows"),
            nothing,
        )
        .do_this(format!("stemma failures {} --by reason", job.job)),
    };
    Some(found.since(report.ended_ms))
}

/// What people, or the engine for them, said about the job.
fn said(job: &JobFacts) -> Option<Found> {
    let standing = &job.standing;
    if let Some(cancelled) = standing.cancelled {
        let why = match cancelled.reason {
            CancelReason::Person => "was cancelled",
            CancelReason::TooManyFailed => "was stopped: more documents failed than it allows",
        };
        let next = "what is under way is finished and kept";
        return Some(
            Found::new(Cause::Cancelled, format!("{} {why}", job.job), next).since(cancelled.at_ms),
        );
    }
    let paused = standing.paused?;
    let resume = format!("stemma job resume {}", job.job);
    let (cause, why, owner, remedy) = match paused.reason {
        PauseReason::Budget => (
            Cause::Budget,
            "has used up its budget",
            "whoever sets the budget",
            format!("raise the budget, then: {resume}"),
        ),
        PauseReason::Credentials => (
            Cause::Paused,
            "is paused: the provider refused the key or the configuration",
            "whoever keeps the keys",
            format!("put the key right, then: {resume}"),
        ),
        PauseReason::Person => (Cause::Paused, "was paused", "whoever paused it", resume),
    };
    let found = Found::new(
        cause,
        format!("{} {why}", job.job),
        "nothing, until it is resumed",
    );
    Some(found.since(paused.since_ms).by(owner).do_this(remedy))
}

fn no_coordinator(facts: &Facts) -> Option<Found> {
    let coordinates =
        |beat: &&Beat| matches!(beat.service.as_str(), "coordinator" | "all") && !beat.draining;
    let alive = facts.processes.iter().any(|beat| coordinates(&beat));
    (!alive).then(|| {
        Found::new(
            Cause::NoWorker,
            "no coordinator is alive",
            "it goes on when one is started",
        )
        .by("whoever runs the services")
        .do_this("start one: stemma coordinator")
    })
}

/// A job that has not ended, of which no run is known to be open.
fn waiting(facts: &Facts, job: &JobFacts) -> Found {
    if let Some(found) = no_coordinator(facts) {
        return found;
    }
    let Some(progress) = facts
        .jobs
        .iter()
        .find(|progress| progress.job == job.job && progress.entries > 0)
    else {
        return Found::new(
            Cause::Queued,
            "no coordinator has taken it up yet",
            "one does within a minute",
        )
        .since(job.submitted_ms);
    };
    if progress.open > 0 {
        let open = progress.open;
        let ended = progress.counts.ended();
        return Found::new(
            Cause::Long,
            format!(
                "{open} documents are in work, {ended} of {} ended",
                progress.entries
            ),
            "it goes on",
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
    let says = format!("none of its documents is opened yet; {others} of other jobs are open");
    let found = Found::new(Cause::Queued, says, "its turn comes when one of them ends")
        .since(job.submitted_ms);
    match busiest {
        Some(other) => found
            .by(other.job.to_string())
            .do_this(format!("stemma job priority {} interactive", job.job)),
        None => found,
    }
}

/// A run that has not ended: the hardest reason of its open tasks.
fn open(facts: &Facts, run: &RunFacts) -> Found {
    if let Some(found) = no_coordinator(facts) {
        return found;
    }
    if run.tasks.is_empty() {
        if let Some(letter) = run.dead.first() {
            return dead(&letter.id, &letter.reason).since(letter.at_ms);
        }
        let admitted = facts.jobs.iter().any(|job| job.runs.contains(&run.run));
        let (cause, says) = match admitted {
            true => (Cause::Long, "what it wants next is being worked out"),
            false => (
                Cause::Queued,
                "it is claimed, and its first task has not been asked for",
            ),
        };
        return Found::new(cause, says, "a coordinator looks at it within a minute");
    }
    let reasons = run.tasks.iter().map(|task| reason(facts, run, task));
    let hardest = reasons.min_by_key(|found| (found.cause, found.since_ms));
    match hardest {
        Some(found) if found.cause == Cause::Long => at_work(facts, run, found),
        Some(found) => found,
        None => Found::new(Cause::Long, "it is in work", "it goes on"),
    }
}

/// Why one task is open.
fn reason(facts: &Facts, run: &RunFacts, task: &OpenTask) -> Found {
    let now = facts.now_ms;
    if let Some((holder, until_ms)) = task.lease.as_ref().filter(|(_, until_ms)| *until_ms > now) {
        return match facts.processes.iter().find(|beat| beat.process == *holder) {
            Some(beat) => in_hand(facts, task, beat),
            None if facts.processes.is_empty() => working(task, holder, task.published_ms),
            None => silent(task, holder, *until_ms),
        };
    }
    if let Some(retry) = task.retry.as_ref().filter(|retry| retry.next_ms > now) {
        let provider = (task.lane == Lane::Llm)
            .then(|| provider(facts, &lanes(facts, run, task), true))
            .flatten();
        if !retry.counted
            && let Some(found) = provider
        {
            return found;
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
        return Found::new(cause, says, "it is tried again")
            .at(retry.next_ms)
            .since(task.published_ms);
    }
    in_line(facts, run, task)
}

fn silent(task: &OpenTask, holder: &str, until_ms: Millis) -> Found {
    let says = format!("{holder} holds {} and has gone silent", task.stage);
    Found::new(
        Cause::SilentWorker,
        says,
        "its lease runs out, and another worker takes the task up",
    )
    .by(holder)
    .at(until_ms)
    .since(task.published_ms)
    .do_this(format!(
        "see whether {holder} is alive; nothing is lost either way"
    ))
}

fn working(task: &OpenTask, holder: &str, since_ms: Millis) -> Found {
    Found::new(
        Cause::Long,
        format!("{} is in work at {holder}", task.stage),
        "it ends",
    )
    .by(holder)
    .since(since_ms)
}

/// A task that a living worker holds.
fn in_hand(facts: &Facts, task: &OpenTask, beat: &Beat) -> Found {
    let since_ms = since(beat, task).unwrap_or(task.published_ms);
    let found = working(task, &beat.process, since_ms);
    if task.lane != Lane::Llm {
        return found;
    }
    if let Some(provider) = provider(facts, &[beat], false) {
        return provider.since(since_ms);
    }
    slow(facts, task, Some(since_ms)).unwrap_or(found)
}

fn since(beat: &Beat, task: &OpenTask) -> Option<Millis> {
    beat.tasks
        .iter()
        .find(|other| other.key == task.key)
        .map(|other| other.since_ms)
}

/// Whether calls as a whole are slow: one that is, among others that are not, is a straggler. A task that waits in line
/// waits for all of them, whatever their stage.
fn slow(facts: &Facts, task: &OpenTask, since_ms: Option<Millis>) -> Option<Found> {
    let models = || facts.processes.iter().flat_map(|beat| beat.models.iter());
    let typical = models().map(|(_, model)| model.p50_ms).max().unwrap_or(0);
    let p95 = models().map(|(_, model)| model.p95_ms).max().unwrap_or(0);
    let limit = SLOW_AFTER_MS.max(3 * p95);
    let ages = || {
        let tasks = facts
            .processes
            .iter()
            .filter(|beat| !beat.models.is_empty())
            .flat_map(|beat| &beat.tasks);
        let alike = tasks.filter(|other| since_ms.is_none() || other.stage == task.stage);
        alike.map(|other| facts.now_ms.saturating_sub(other.since_ms))
    };
    let all = ages().count();
    let old = ages().filter(|age| *age > limit).count();
    let this_one = since_ms.is_none_or(|since_ms| facts.now_ms.saturating_sub(since_ms) > limit);
    if typical < SLOW_TYPICAL_MS && !(this_one && 2 * old > all) {
        return None;
    }
    let name = models()
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
    let found = Found::new(
        Cause::ProviderSlow,
        says,
        "the call ends, or its deadline does",
    )
    .by(name);
    let found = Found { since_ms, ..found };
    Some(found.do_this("look at the provider's status; stemma status shows its p95"))
}

/// What keeps the provider from being asked at all.
fn provider(facts: &Facts, beats: &[&Beat], held_back: bool) -> Option<Found> {
    let models: Vec<(&String, &ModelBeat)> =
        beats.iter().flat_map(|beat| beat.models.iter()).collect();
    let breaker = |model: &ModelBeat| {
        model
            .breaker_open_until_ms
            .filter(|until| *until > facts.now_ms)
    };
    if let Some((name, model, until)) = models
        .iter()
        .find_map(|(name, model)| Some((name, model, breaker(model)?)))
    {
        let error = model.last_error.as_deref().unwrap_or("calls fail");
        let says = format!("the breaker of {name} is open: {error}");
        let found = Found::new(Cause::BreakerOpen, says, "one call is tried then")
            .by(name.as_str())
            .at(until);
        return Some(
            found
                .do_this("see whether the provider can be reached from the workers: stemma doctor"),
        );
    }
    let waits = |model: &ModelBeat| {
        held_back || (model.waiting > 0 && model.calling == 0) || model.waiting > model.calling
    };
    let paused = |model: &ModelBeat| model.paused_until_ms.filter(|until| *until > facts.now_ms);
    models.iter().find_map(|(name, model)| {
        let (requests, tokens) = used(facts, name);
        let used_up = share(requests, model.requests_limit) >= 90 || share(tokens, model.tokens_limit) >= 90;
        // Where nothing is limited, who waits for a permit has it in a moment.
        let limited = model.requests_limit > 0 || model.tokens_limit > 0;
        if !(paused(model).is_some() || (waits(model) && limited && (used_up || model.waiting > 0))) {
            return None;
        }
        let says = match paused(model) {
            Some(_) => format!("{name} asked everyone to wait"),
            None => format!(
                "rate limit of {name}: {requests} of {} requests, {tokens} of {} tokens in the last minute",
                model.requests_limit, model.tokens_limit
            ),
        };
        let found = Found::new(Cause::RateLimit, says, "its share comes").by(name.as_str());
        let found = Found { next_ms: paused(model), ..found };
        Some(found.do_this("raise the limit if your plan allows, or give another job a lower priority"))
    })
}

/// Requests and tokens of a model in the last minute, of all processes.
fn used(facts: &Facts, name: &str) -> (u64, u64) {
    let models = facts
        .processes
        .iter()
        .filter_map(|beat| beat.models.get(name));
    models.fold((0, 0), |(requests, tokens), model| {
        (
            requests + model.requests_last_minute,
            tokens + model.tokens_last_minute,
        )
    })
}

fn share(used: u64, limit: u32) -> u64 {
    if limit == 0 {
        0
    } else {
        100 * used / u64::from(limit)
    }
}

fn lane_of<'a>(beat: &'a Beat, run: &RunFacts, task: &OpenTask) -> Option<&'a LaneBeat> {
    beat.lanes
        .iter()
        .find(|lane| lane.lane == task.lane && lane.class == run.class && lane.slots > 0)
}

/// The processes that take tasks like this one.
fn lanes<'a>(facts: &'a Facts, run: &RunFacts, task: &OpenTask) -> Vec<&'a Beat> {
    facts
        .processes
        .iter()
        .filter(|beat| !beat.draining && lane_of(beat, run, task).is_some())
        .collect()
}

/// A task that no one holds and that is due: it waits in its lane.
fn in_line(facts: &Facts, run: &RunFacts, task: &OpenTask) -> Found {
    let lane = task.lane.name();
    let serving = lanes(facts, run, task);
    if serving.is_empty() {
        let service = if task.lane == Lane::Publish {
            "assembler"
        } else {
            "worker"
        };
        return Found::new(
            Cause::NoWorker,
            format!("no {service} takes the lane {lane}"),
            "it goes on when one is started",
        )
        .by("whoever runs the services")
        .since(task.published_ms)
        .do_this(format!("start one: stemma {service}"));
    }
    let sums = serving
        .iter()
        .filter_map(|beat| lane_of(beat, run, task))
        .fold((0u32, 0u32), |(busy, slots), lane| {
            (busy + u32::from(lane.busy), slots + u32::from(lane.slots))
        });
    let depth = facts
        .depths
        .get(&(task.lane, run.class))
        .copied()
        .unwrap_or_default();
    if sums.0 >= sums.1 {
        return behind(facts, run, task, &serving, depth.ready).since(task.published_ms);
    }
    let waited = facts.now_ms.saturating_sub(task.published_ms);
    if depth.ready == 0 && depth.delayed == 0 && waited > LOST_AFTER_MS {
        let says = format!(
            "no one has {}, and its lane is empty: its message was lost",
            task.stage
        );
        return Found::new(Cause::LostMessage, says, "it is published again")
            .at(task.due_ms)
            .since(task.published_ms);
    }
    let says = format!("{} is next on the lane {lane}", task.stage);
    Found::new(Cause::Long, says, "a worker takes it").since(task.published_ms)
}

/// All slots are taken: by calls that wait for the provider, or by work.
fn behind(facts: &Facts, run: &RunFacts, task: &OpenTask, serving: &[&Beat], ready: u64) -> Found {
    if task.lane == Lane::Llm
        && let Some(found) = provider(facts, serving, false).or_else(|| slow(facts, task, None))
    {
        return found;
    }
    let tasks = || serving.iter().flat_map(|beat| &beat.tasks);
    let of_run = tasks().filter(|other| other.run == run.run).count();
    let own = facts.jobs.iter().find(|job| job.runs.contains(&run.run));
    let whose = |job: &&crate::presence::JobProgress| {
        tasks()
            .filter(|other| job.runs.contains(&other.run))
            .count()
    };
    let busiest = facts.jobs.iter().max_by_key(|job| (whose(job), job.open));
    let says = format!(
        "all workers of the lane {} are busy; {ready} tasks wait",
        task.lane.name()
    );
    let next = if of_run > 0 {
        "it goes on when its own tasks end"
    } else {
        "its turn comes"
    };
    let found = Found::new(Cause::WorkersBusy, says, next);
    match (busiest, own) {
        (Some(busy), Some(own)) if busy.job == own.job => {
            found.by(format!("{}, this job", busy.job))
        }
        (Some(busy), _) => found
            .by(busy.job.to_string())
            .do_this("add workers, or give that job a lower priority"),
        (None, _) => found,
    }
}

/// Everything open is in work or next in line: a straggler that all else waits for, or simply much to do.
fn at_work(facts: &Facts, run: &RunFacts, found: Found) -> Found {
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
            let beat = facts
                .processes
                .iter()
                .find(|beat| beat.process == *holder)?;
            Some((since(beat, task)?, task, beat))
        });
    let Some((since_ms, task, beat)) = oldest.min_by_key(|(since_ms, ..)| *since_ms) else {
        return described(run, found);
    };
    let usual = facts
        .processes
        .iter()
        .filter_map(|beat| beat.stages.get(&task.stage))
        .map(|stage| stage.p95_ms)
        .max();
    let age = facts.now_ms.saturating_sub(since_ms);
    if run.present >= MANY
        && 10 * open <= run.present.max(10)
        && age > usual.unwrap_or(0).max(1_000)
    {
        let says = format!(
            "all else is done; it waits for {open} of {} tasks: {}",
            run.present + open,
            task.stage
        );
        return Found::new(
            Cause::SiblingStage,
            says,
            "its next stage begins when that ends",
        )
        .by(beat.process.as_str())
        .since(since_ms);
    }
    let usual = usual
        .map(|p95| format!(" (95 of 100 take {:.1} s at most)", p95 as f64 / 1e3))
        .unwrap_or_default();
    let says = format!("{}{usual}", described(run, found.clone()).says);
    Found { says, ..found }
}

fn described(run: &RunFacts, found: Found) -> Found {
    let open = run.tasks.len() as u64;
    let says = format!(
        "{}; {} of at least {} tasks are done",
        found.says,
        run.present,
        run.present + open
    );
    Found { says, ..found }
}

/// What was looked at and is in order.
fn in_order(facts: &Facts, cause: Cause) -> Vec<String> {
    let mut fine = Vec::new();
    if matches!(cause, Cause::Done | Cause::Failed | Cause::Cancelled) {
        return fine;
    }
    let workers = facts
        .processes
        .iter()
        .filter(|beat| matches!(beat.service.as_str(), "worker" | "all"))
        .count();
    if workers > 0 && !matches!(cause, Cause::NoWorker | Cause::SilentWorker) {
        fine.push(format!("{workers} workers alive"));
    }
    let models = || facts.processes.iter().flat_map(|beat| beat.models.iter());
    if models().next().is_some() {
        if models().all(|(_, model)| {
            model
                .breaker_open_until_ms
                .is_none_or(|until| until <= facts.now_ms)
        }) {
            fine.push("breaker closed".into());
        }
        if cause != Cause::RateLimit {
            fine.extend(models().next().map(|(name, model)| {
                format!(
                    "{name}: {} of {} requests in the last minute",
                    used(facts, name).0,
                    model.requests_limit
                )
            }));
        }
        if cause != Cause::ProviderSlow {
            let p95 = models().map(|(_, model)| model.p95_ms).max().unwrap_or(0);
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
        .is_some_and(|job| job.standing.is_running())
    {
        fine.push("the job is neither paused nor cancelled".into());
    }
    fine
}
