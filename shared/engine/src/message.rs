//! What travels between processes: tasks to workers, news to coordinators. Never text of a document (I-6).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::env::Millis;
use crate::failure::FailureRecord;
use crate::key::{JobId, Priority, RunId, RunRef, TaskKey};
use crate::port_error::PortError;
use crate::queue::{MAX_MESSAGE_BYTES, Message, QueueName};

/// A task for a worker.
#[derive(Debug, Serialize, Deserialize)]
pub struct TaskMessage {
    /// The run that wants it.
    pub run: RunRef,
    /// Its key.
    pub key: TaskKey,
    /// The stage.
    pub stage: String,
    /// The stage's revision.
    pub revision: u32,
    /// Digest of the settings; workers load them by it.
    pub settings: String,
    /// Who waits.
    pub class: Priority,
    /// When it was published; 0 by programs that did not say.
    #[serde(default)]
    pub published_ms: Millis,
    /// The stage struct.
    pub payload: Box<RawValue>,
}

impl TaskMessage {
    /// Names the task: the same key in two runs is two tasks.
    pub(crate) fn id(&self) -> (RunId, TaskKey) {
        (self.run.run.clone(), self.key)
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// With everything.
    Done,
    /// With this many recorded gaps.
    DoneWithGaps(u32),
    /// There was nothing to do: the same version was finished before.
    Unchanged,
    /// Without a result.
    Failed(FailureRecord),
    /// Before its end: no job waited for it any more.
    Cancelled,
}

impl RunOutcome {
    /// Its stable word.
    pub fn name(&self) -> &'static str {
        match self {
            RunOutcome::Done => "done",
            RunOutcome::DoneWithGaps(_) => "done_with_gaps",
            RunOutcome::Unchanged => "unchanged",
            RunOutcome::Failed(_) => "failed",
            RunOutcome::Cancelled => "cancelled",
        }
    }

    /// The ending that the record of a run's failure stands for.
    pub fn from_record(record: FailureRecord) -> Self {
        if record.is_cancelled() {
            Self::Cancelled
        } else {
            Self::Failed(record)
        }
    }

    /// The record that is kept of an ending without a result.
    pub(crate) fn failure_record(&self, at_ms: Millis) -> Option<FailureRecord> {
        match self {
            Self::Failed(record) => Some(record.clone()),
            Self::Cancelled => Some(FailureRecord {
                code: FailureRecord::CANCELLED.into(),
                message: "the job that asked for it was cancelled".into(),
                next: Some("submit it again: what was made is kept".into()),
                stage: "submit".into(),
                attempts: 1,
                at_ms,
            }),
            Self::Done | Self::DoneWithGaps(_) | Self::Unchanged => None,
        }
    }
}

/// News for a coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoordinatorMessage {
    /// A task of a run has an outcome or a final failure.
    Completed(RunRef),
    /// Take up a run, and look whether anything it wants is overdue.
    Wake(RunRef),
    /// Take up a job, or look after it.
    Job(JobId),
    /// A run that a job waits for ended.
    Ended {
        /// The job.
        job: JobId,
        /// The run.
        run: RunId,
        /// How.
        ending: RunOutcome,
        /// Tasks it had outcomes of, where that is known.
        #[serde(default)]
        tasks: u64,
    },
    /// A job that waited for a run was cancelled: does anyone still?
    Abandoned {
        /// The job.
        job: JobId,
        /// The run.
        run: RunRef,
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
}

/// Writes a message body.
///
/// # Errors
/// A lasting [`PortError`] when it is over the limit.
pub fn encode(value: &impl Serialize) -> Result<Message, PortError> {
    let body = serde_json::to_vec(value)
        .map_err(|error| PortError::permanent("queue", "encode", error.to_string()))?;
    if body.len() > MAX_MESSAGE_BYTES {
        let message = format!(
            "a message of {} bytes is over the limit of {MAX_MESSAGE_BYTES}",
            body.len()
        );
        return Err(PortError::permanent("queue", "encode", message));
    }
    Ok(Message::new(body))
}
