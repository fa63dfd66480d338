//! Messages between processes: tasks for workers, notifications for coordinators. Never document text (I-6).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use stemma_store::env::Millis;
use stemma_store::failure::FailureRecord;
use stemma_store::key::{JobId, Priority, RunId, RunRef, TaskKey};
use stemma_store::port_error::{PortError, PortResult};

use crate::message_auth::MessageKeys;
use crate::queue::{MAX_MESSAGE_BYTES, Message, QueueName};

#[derive(Debug, Serialize, Deserialize)]
pub struct TaskMessage {
    pub run: RunRef,
    pub key: TaskKey,
    pub stage: String,
    pub revision: u32,
    /// Digest of the settings, by which workers load them.
    pub settings: String,
    #[serde(rename = "class")]
    pub priority: Priority,
    /// Publication time; 0 if the publisher did not set it.
    #[serde(default)]
    pub published_ms: Millis,
    /// The stage struct as JSON.
    pub payload: Box<RawValue>,
    /// Made by [`MessageKeys`] over all other fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl TaskMessage {
    // The same key in two runs is two tasks.
    pub(crate) fn id(&self) -> (RunId, TaskKey) {
        (self.run.run.clone(), self.key)
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    Done,
    /// Number of recorded gaps.
    DoneWithGaps(u32),
    /// The same version had been finished before.
    Unchanged,
    Failed(FailureRecord),
    /// No job waited for the run any more.
    Cancelled,
}

impl RunOutcome {
    /// Stable name, as in JSON and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            RunOutcome::Done => "done",
            RunOutcome::DoneWithGaps(_) => "done_with_gaps",
            RunOutcome::Unchanged => "unchanged",
            RunOutcome::Failed(_) => "failed",
            RunOutcome::Cancelled => "cancelled",
        }
    }

    /// Whether the entries of the run are to be claimed again: nobody waited for it any more, or it was of an input that
    /// changed before it was read.
    pub(crate) fn is_superseded(&self) -> bool {
        match self {
            Self::Cancelled => true,
            Self::Failed(record) => record.code == FailureRecord::INPUT_CHANGED,
            Self::Done | Self::DoneWithGaps(_) | Self::Unchanged => false,
        }
    }

    /// The outcome that a stored failure record describes.
    pub fn from_record(record: FailureRecord) -> Self {
        if record.is_cancelled() {
            Self::Cancelled
        } else {
            Self::Failed(record)
        }
    }

    /// The record to store for an outcome without a result.
    pub(crate) fn failure_record(&self, at_ms: Millis) -> Option<FailureRecord> {
        match self {
            Self::Failed(record) => Some(record.clone()),
            Self::Cancelled => Some(FailureRecord {
                code: FailureRecord::CANCELLED.into(),
                message: "the job that asked for it was cancelled".into(),
                next: Some("submit it again; finished work is reused".into()),
                stage: "submit".into(),
                attempts: 1,
                at_ms,
            }),
            Self::Done | Self::DoneWithGaps(_) | Self::Unchanged => None,
        }
    }
}

/// Notification for a coordinator. It says what to look at: where the run is follows from its id, and how it ended is in the
/// store. Only a figure of the report is believed, `tasks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoordinatorMessage {
    /// A task of a run has an outcome or a final failure.
    Completed(RunRef),
    /// Load the run if needed, and republish its overdue tasks.
    Wake(RunRef),
    /// Load the job if needed, and check it.
    Job(JobId),
    /// A run, or a part of the job, that the job waits for has ended.
    Ended {
        job: JobId,
        run: RunId,
        /// Only coordinators of older programs read it.
        #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
        ending: Option<RunOutcome>,
        /// Number of tasks of the run that have an outcome, for the report; 0 if unknown.
        #[serde(default)]
        tasks: u64,
    },
    /// A job that waited for the run was cancelled; check whether another still waits. Or it was `resumed`.
    Abandoned {
        job: JobId,
        run: RunRef,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        resumed: bool,
    },
}

impl CoordinatorMessage {
    /// The flow queue of the run or job that the message is addressed to.
    pub(crate) fn queue(&self) -> QueueName {
        match self {
            Self::Completed(run) | Self::Wake(run) | Self::Abandoned { run, .. } => {
                QueueName::for_run(&run.run)
            }
            Self::Job(job) | Self::Ended { job, .. } => QueueName::flow_for(&job.0),
        }
    }

    /// The job that it addresses or was sent for.
    pub(crate) fn job(&self) -> Option<&JobId> {
        match self {
            Self::Job(job) | Self::Ended { job, .. } | Self::Abandoned { job, .. } => Some(job),
            Self::Completed(_) | Self::Wake(_) => None,
        }
    }

    /// The run that it tells of.
    pub(crate) fn run(&self) -> Option<&RunRef> {
        match self {
            Self::Completed(run) | Self::Wake(run) | Self::Abandoned { run, .. } => Some(run),
            Self::Job(_) | Self::Ended { .. } => None,
        }
    }
}

/// Encodes a notification, and signs it if there is a key.
///
/// # Errors
/// As [`encode`].
pub(crate) fn encode_notification(
    keys: &MessageKeys,
    notification: &CoordinatorMessage,
) -> PortResult<Message> {
    let mut message = encode(notification)?;
    keys.sign_notification(&mut message);
    Ok(message)
}

/// Encodes a message body.
///
/// # Errors
/// A permanent [`PortError`] when the body is larger than [`MAX_MESSAGE_BYTES`].
pub fn encode(value: &impl Serialize) -> PortResult<Message> {
    let body = serde_json::to_vec(value)
        .map_err(|error| PortError::permanent("queue.encode", error.to_string()))?;
    if body.len() > MAX_MESSAGE_BYTES {
        let message = format!(
            "a message of {} bytes is over the limit of {MAX_MESSAGE_BYTES}",
            body.len()
        );
        return Err(PortError::permanent("queue.encode", message));
    }
    Ok(Message::new(body))
}

#[cfg(test)]
mod tests {
    use stemma_store::Failure;

    use super::*;

    #[test]
    fn failure_record_is_clipped_to_message_size() {
        let failure = Failure::permanent(&"c".repeat(5_000), "\u{1}\"é".repeat(5_000))
            .with_next("\\".repeat(5_000));
        let record = FailureRecord::new(failure, &"s".repeat(5_000), 1, 0);
        assert!(serde_json::to_vec(&record).unwrap().len() < MAX_MESSAGE_BYTES - 600);
    }
}
