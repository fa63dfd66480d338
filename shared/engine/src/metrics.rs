//! All metrics of the engine; `docs/OBSERVING.md` documents each name. Without a recorder nothing is counted. Labels are
//! few and bounded: never a document, run, job or task.

use std::time::Duration;

use metrics::{counter, gauge, histogram};
use stemma_store::env::Millis;
use stemma_store::key::Priority;

use crate::queue::{Depth, Lane, QueueName};

/// Metric label: how a delivery of a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryOutcome {
    Done,
    /// Its artifact existed already.
    Reused,
    Failed,
    Retried,
    /// Too early; retried without counting an attempt.
    Throttled,
    /// Waits until it is published again.
    Waiting,
    /// Its job is paused.
    Parked,
    /// Another worker has the lease.
    LeasedElsewhere,
    /// The task had ended before.
    Ended,
    /// The task already runs in this process.
    Duplicate,
    /// Needs a stage or settings that this process does not have.
    Elsewhere,
    PortUnavailable,
    /// Crashed too many workers.
    Poison,
    /// Interrupted at the end of the grace period.
    CutOff,
    /// Not signed by a coordinator.
    Refused,
}

impl DeliveryOutcome {
    pub(crate) const ALL: [DeliveryOutcome; 13] = [
        DeliveryOutcome::Done,
        DeliveryOutcome::Reused,
        DeliveryOutcome::Failed,
        DeliveryOutcome::Retried,
        DeliveryOutcome::Throttled,
        DeliveryOutcome::Parked,
        DeliveryOutcome::LeasedElsewhere,
        DeliveryOutcome::Ended,
        DeliveryOutcome::Duplicate,
        DeliveryOutcome::Elsewhere,
        DeliveryOutcome::PortUnavailable,
        DeliveryOutcome::Poison,
        DeliveryOutcome::CutOff,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            DeliveryOutcome::Done => "done",
            DeliveryOutcome::Reused => "reused",
            DeliveryOutcome::Failed => "failed",
            DeliveryOutcome::Retried => "retried",
            DeliveryOutcome::Throttled => "throttled",
            DeliveryOutcome::Waiting => "waiting",
            DeliveryOutcome::Parked => "parked",
            DeliveryOutcome::LeasedElsewhere => "held",
            DeliveryOutcome::Ended => "ended",
            DeliveryOutcome::Duplicate => "duplicate",
            DeliveryOutcome::Elsewhere => "elsewhere",
            DeliveryOutcome::PortUnavailable => "port_away",
            DeliveryOutcome::Poison => "poison",
            DeliveryOutcome::CutOff => "cut_off",
            DeliveryOutcome::Refused => "refused",
        }
    }
}

/// The fill level of a lane, and how old its oldest unfinished task is.
pub(crate) fn lane(lane: Lane, priority: Priority, depth: Depth, slots: u64, oldest_ms: Millis) {
    let lane = lane.name();
    let priority = priority.name();
    gauge!("stemma_lane_messages", "lane" => lane, "class" => priority).set(depth.ready as f64);
    gauge!("stemma_lane_slots", "lane" => lane, "class" => priority).set(slots as f64);
    gauge!("stemma_lane_oldest_seconds", "lane" => lane, "class" => priority)
        .set(seconds(oldest_ms));
}

// Names that are not a stage of this process share one label, so that foreign messages cannot add labels.
pub(crate) fn task(stage: Option<&str>, outcome: DeliveryOutcome) {
    let stage = stage.unwrap_or("unknown").to_string();
    counter!("stemma_tasks_total", "stage" => stage, "outcome" => outcome.name()).increment(1);
}

pub(crate) fn attempt(stage: &str, spent_ms: Millis) {
    histogram!("stemma_task_seconds", "stage" => stage.to_string()).record(seconds(spent_ms));
}

// Counted by the family of the code, e.g. `pdf` of `pdf.truncated`, to keep the labels few.
pub(crate) fn failure(stage: &str, code: &str) {
    let family = code.split('.').next().unwrap_or_default().to_string();
    counter!("stemma_task_failures_total", "stage" => stage.to_string(), "family" => family)
        .increment(1);
}

/// Time from the publication of a task to its first delivery.
pub(crate) fn queue_time(stage: &str, priority: Priority, waited_ms: Millis) {
    let stage = stage.to_string();
    let priority = priority.name();
    histogram!("stemma_queue_wait_seconds", "stage" => stage, "class" => priority)
        .record(seconds(waited_ms));
}

/// Counts a message as in flight until dropped.
pub(crate) struct InFlightMessage(&'static str);

impl InFlightMessage {
    pub(crate) fn begin(queue: QueueName, redeliveries: u32) -> Self {
        let queue = family(queue);
        gauge!("stemma_messages_in_flight", "queue" => queue).increment(1.0);
        if redeliveries > 0 {
            counter!("stemma_redeliveries_total", "queue" => queue).increment(1);
        }
        Self(queue)
    }
}

impl Drop for InFlightMessage {
    fn drop(&mut self) {
        gauge!("stemma_messages_in_flight", "queue" => self.0).decrement(1.0);
    }
}

pub(crate) fn published(queue: QueueName, tasks: usize, again: bool) {
    let again = if again { "true" } else { "false" };
    counter!("stemma_tasks_published_total", "queue" => family(queue), "again" => again)
        .increment(tasks as u64);
}

pub(crate) fn replay(took_ms: Millis) {
    histogram!("stemma_replay_seconds").record(seconds(took_ms));
}

/// The states of open runs, by the job that opened them.
pub(crate) const RUN_STATES: [&str; 3] = ["active", "batch", "paused"];

pub(crate) fn jobs_open(jobs: usize) {
    gauge!("stemma_jobs_open").set(jobs as f64);
}

pub(crate) fn open_runs(state: &'static str, runs: usize) {
    gauge!("stemma_open_runs", "state" => state).set(runs as f64);
}

pub(crate) fn entry_ended(outcome: &'static str) {
    counter!("stemma_documents_total", "outcome" => outcome).increment(1);
}

pub(crate) fn dead_letter() {
    counter!("stemma_dead_letters_total").increment(1);
}

fn seconds(millis: Millis) -> f64 {
    Duration::from_millis(millis).as_secs_f64()
}

// All flow queues share one label.
pub(crate) fn family(queue: QueueName) -> &'static str {
    match queue {
        QueueName::Lane(Lane::Cpu, Priority::Bulk) => "cpu.bulk",
        QueueName::Lane(Lane::Cpu, Priority::Interactive) => "cpu.interactive",
        QueueName::Lane(Lane::Ocr, Priority::Bulk) => "ocr.bulk",
        QueueName::Lane(Lane::Ocr, Priority::Interactive) => "ocr.interactive",
        QueueName::Lane(Lane::Llm, Priority::Bulk) => "llm.bulk",
        QueueName::Lane(Lane::Llm, Priority::Interactive) => "llm.interactive",
        QueueName::Lane(Lane::Publish, Priority::Bulk) => "publish.bulk",
        QueueName::Lane(Lane::Publish, Priority::Interactive) => "publish.interactive",
        QueueName::Continuation(lane, priority) => match (lane, priority) {
            (Lane::Cpu, Priority::Bulk) => "cpu.bulk.continuation",
            (Lane::Cpu, Priority::Interactive) => "cpu.interactive.continuation",
            (Lane::Ocr, Priority::Bulk) => "ocr.bulk.continuation",
            (Lane::Ocr, Priority::Interactive) => "ocr.interactive.continuation",
            (Lane::Llm, Priority::Bulk) => "llm.bulk.continuation",
            (Lane::Llm, Priority::Interactive) => "llm.interactive.continuation",
            (Lane::Publish, _) => "publish.continuation",
        },
        QueueName::Flow(_) => "flow",
        QueueName::Dead => "dead",
        QueueName::Reindex => "reindex",
    }
}
