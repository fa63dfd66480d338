//! What the engine counts and times, all in one place: `docs/METRICS.md` says what each name means. Where no recorder is
//! installed, nothing is counted. Labels are few and bounded: never a document, run, job or task.

use std::time::Duration;

use metrics::{counter, gauge, histogram};

use crate::env::Millis;
use crate::key::Priority;
use crate::message::RunOutcome;
use crate::port_error::PortError;
use crate::queue::{Lane, QueueName};

/// How a delivery of a task was answered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryOutcome {
    /// It has an outcome now.
    Done,
    /// Its artifact was there already.
    Reused,
    /// It failed for good.
    Failed,
    /// It failed, and is tried again.
    Retried,
    /// It was too early; tried again, uncounted.
    Throttled,
    /// Someone else works on it.
    LeasedElsewhere,
    /// It had ended before.
    Ended,
    /// It runs right here.
    Duplicate,
    /// It needs a stage or settings that this process does not have.
    Elsewhere,
    /// A port was away.
    PortUnavailable,
    /// It takes its workers down.
    Poison,
    /// The grace period cut it off.
    CutOff,
}

impl DeliveryOutcome {
    /// The label.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DeliveryOutcome::Done => "done",
            DeliveryOutcome::Reused => "reused",
            DeliveryOutcome::Failed => "failed",
            DeliveryOutcome::Retried => "retried",
            DeliveryOutcome::Throttled => "throttled",
            DeliveryOutcome::LeasedElsewhere => "held",
            DeliveryOutcome::Ended => "ended",
            DeliveryOutcome::Duplicate => "duplicate",
            DeliveryOutcome::Elsewhere => "elsewhere",
            DeliveryOutcome::PortUnavailable => "port_away",
            DeliveryOutcome::Poison => "poison",
            DeliveryOutcome::CutOff => "cut_off",
        }
    }
}

/// Counts a delivery of a task; a name that is no stage of this process is `unknown`.
pub(crate) fn task(stage: Option<&str>, outcome: DeliveryOutcome) {
    let stage = stage.unwrap_or("unknown").to_string();
    counter!("stemma_tasks_total", "stage" => stage, "outcome" => outcome.name()).increment(1);
}

/// Times an attempt that ended by itself.
pub(crate) fn attempt(stage: &str, spent_ms: Millis) {
    histogram!("stemma_task_seconds", "stage" => stage.to_string()).record(seconds(spent_ms));
}

/// Counts a failed attempt by the family of its code: `pdf` of `pdf.truncated`.
pub(crate) fn failure(stage: &str, code: &str) {
    let family = code.split('.').next().unwrap_or_default().to_string();
    counter!("stemma_task_failures_total", "stage" => stage.to_string(), "family" => family)
        .increment(1);
}

/// Times the way of a task from its publication to the first hands it came into.
pub(crate) fn queue_time(stage: &str, class: Priority, waited_ms: Millis) {
    let stage = stage.to_string();
    let class = class_name(class);
    histogram!("stemma_queue_wait_seconds", "stage" => stage, "class" => class)
        .record(seconds(waited_ms));
}

/// A message in the hands of a handler, counted until dropped.
pub(crate) struct InFlightMessage(&'static str);

impl InFlightMessage {
    /// Counts a delivery from `queue`.
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

/// Counts a call that a port did not answer as it should.
pub(crate) fn port_error(error: &PortError) {
    counter!("stemma_port_errors_total", "port" => error.port, "operation" => error.operation)
        .increment(1);
}

/// Counts tasks that were published, again where they were overdue.
pub(crate) fn published(queue: QueueName, tasks: usize, again: bool) {
    let again = if again { "true" } else { "false" };
    counter!("stemma_tasks_published_total", "queue" => family(queue), "again" => again)
        .increment(tasks as u64);
}

/// Times a replay of a flow.
pub(crate) fn replay(took_ms: Millis) {
    histogram!("stemma_replay_seconds").record(seconds(took_ms));
}

/// Notes how many jobs and runs a coordinator has open.
pub(crate) fn open(jobs: usize, runs: usize) {
    gauge!("stemma_jobs_open").set(jobs as f64);
    gauge!("stemma_open_runs").set(runs as f64);
}

/// Counts an entry of a job that ended.
pub(crate) fn entry_ended(ending: &RunOutcome) {
    counter!("stemma_documents_total", "outcome" => ending.name()).increment(1);
}

/// Counts a message that no one could handle.
pub(crate) fn dead_letter() {
    counter!("stemma_dead_letters_total").increment(1);
}

fn seconds(millis: Millis) -> f64 {
    Duration::from_millis(millis).as_secs_f64()
}

fn class_name(class: Priority) -> &'static str {
    match class {
        Priority::Bulk => "bulk",
        Priority::Interactive => "interactive",
    }
}

/// A queue's name without the number of a flow queue.
fn family(queue: QueueName) -> &'static str {
    match queue {
        QueueName::Lane(Lane::Cpu, Priority::Bulk) => "cpu.bulk",
        QueueName::Lane(Lane::Cpu, Priority::Interactive) => "cpu.interactive",
        QueueName::Lane(Lane::Llm, Priority::Bulk) => "llm.bulk",
        QueueName::Lane(Lane::Llm, Priority::Interactive) => "llm.interactive",
        QueueName::Lane(Lane::Publish, Priority::Bulk) => "publish.bulk",
        QueueName::Lane(Lane::Publish, Priority::Interactive) => "publish.interactive",
        QueueName::Flow(_) => "flow",
        QueueName::Dead => "dead",
        QueueName::Reindex => "reindex",
    }
}
