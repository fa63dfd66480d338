//! Why an open task is not done.

use stemma_store::env::Millis;
use stemma_store::model_status::ModelBatch;

use super::provider::{blocked_provider, slow_provider};
use crate::diagnosis::{Cause, Diagnosis, DiagnosisContext, RunFacts};
use crate::heartbeat::{Heartbeat, LaneStatus};
use crate::ledger::OpenTask;
use crate::queue::Lane;

// A message that nobody took from an empty lane for this long was lost.
const LOST_AFTER_MS: Millis = 5_000;

pub(super) fn open_task(facts: &DiagnosisContext, run: &RunFacts, task: &OpenTask) -> Diagnosis {
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
        if task.waits_for_batch(now) {
            return waiting_for_batch(facts, run, task).next_at(retry.next_ms);
        }
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

// A task whose request waits for a batch, or is in one.
fn waiting_for_batch(facts: &DiagnosisContext, run: &RunFacts, task: &OpenTask) -> Diagnosis {
    let models = facts
        .processes
        .iter()
        .flat_map(|process| process.models.values());
    let batches: Vec<&ModelBatch> = models
        .flat_map(|model| &model.batches)
        .filter(|batch| {
            run.scope
                .strip_prefix("c/")
                .is_some_and(|scope| scope.split('/').next() == Some(batch.collection.as_str()))
        })
        .collect();
    let says = match batches.as_slice() {
        [] => format!("{} waits for the next batch of the provider", task.stage),
        [batch] => {
            let at = match batch.submitted_ms {
                Some(at_ms) => {
                    let minutes = facts.now_ms.saturating_sub(at_ms) / 60_000;
                    format!("submitted {minutes} min ago")
                }
                None => "not submitted yet".into(),
            };
            let ModelBatch {
                name,
                done,
                requests,
                ..
            } = batch;
            format!(
                "{} waits for batch {name}, {at}, {done} of {requests} done",
                task.stage
            )
        }
        several => {
            let sum =
                |part: fn(&ModelBatch) -> u64| several.iter().map(|batch| part(batch)).sum::<u64>();
            let done = sum(|batch| batch.done);
            let requests = sum(|batch| batch.requests);
            format!(
                "{} waits for one of {} batches, {done} of {requests} requests done",
                task.stage,
                several.len()
            )
        }
    };
    Diagnosis::new(
        Cause::Batch,
        says,
        "the provider answers a batch within a day",
    )
    .owned_by("the provider of the model")
    .since(task.published_ms)
    .with_remedy("submit the document without --batch to have it now, at the full price")
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

pub(super) fn task_since(heartbeat: &Heartbeat, task: &OpenTask) -> Option<Millis> {
    heartbeat
        .tasks
        .iter()
        .find(|other| other.key == task.key)
        .map(|other| other.since_ms)
}

fn lane_status<'a>(
    heartbeat: &'a Heartbeat,
    run: &RunFacts,
    task: &OpenTask,
) -> Option<&'a LaneStatus> {
    heartbeat
        .lanes
        .iter()
        .find(|lane| lane.lane == task.lane && lane.priority == run.priority && lane.slots > 0)
}

/// The processes that take tasks of this lane and priority.
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
        return unserved_lane(task);
    }
    let sums = serving
        .iter()
        .filter_map(|heartbeat| lane_status(heartbeat, run, task))
        .fold((0u32, 0u32), |(busy, slots), lane| {
            (busy + u32::from(lane.busy), slots + u32::from(lane.slots))
        });
    let depth = facts
        .depths
        .get(&(task.lane, run.priority))
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

fn unserved_lane(task: &OpenTask) -> Diagnosis {
    let lane = task.lane.name();
    let (service, remedy) = match task.lane {
        Lane::Publish => ("assembler", "start one: stemma assembler"),
        // One without tesseract would fail the pages.
        Lane::Ocr => (
            "worker",
            "start one where tesseract is installed: stemma worker --lanes ocr",
        ),
        Lane::Llm => (
            "worker",
            "start one where a model is configured: stemma worker --lanes llm",
        ),
        Lane::Cpu => ("worker", "start one: stemma worker"),
    };
    let says = format!("no {service} serves the lane {lane}");
    Diagnosis::new(Cause::NoWorker, says, "continues when one is started")
        .owned_by("the operator of the services")
        .since(task.published_ms)
        .with_remedy(remedy)
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
