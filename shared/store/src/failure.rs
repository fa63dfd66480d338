//! Failures of stages, and the records that are kept of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::env::Millis;
use crate::port_error::{PortError, PortErrorKind};

// Delay before a task is retried after a port was unavailable.
const PORT_RETRY_DELAY: Duration = Duration::from_secs(5);
// Delay before a task is retried after a port refused access: a person has to act first.
const REFUSAL_RETRY_DELAY: Duration = Duration::from_secs(30);

/// Why a stage produced no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Failure {
    pub kind: FailureKind,
    /// Stable code, e.g. `pdf.encrypted_password`.
    pub code: String,
    /// One sentence, lower case, no full stop, naming what failed.
    pub message: String,
    /// The next step: a command or a sentence.
    pub next: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// May succeed later: retried after a delay, counted as an attempt.
    Transient,
    /// Too early: retried after at least `after_ms`, not counted as an attempt.
    Throttled { after_ms: u64 },
    /// An artifact that the flow has seen is gone: counted like a transient failure, and the run is loaded again from
    /// the blobs, which makes the artifact anew.
    InputMissing,
    /// Waits for something that takes hours: whoever brings it publishes the task again, and until then nobody runs it.
    /// Not counted as an attempt. Expected within `within_ms`.
    Waiting { within_ms: u64 },
    /// Will fail again: recorded as the outcome of the task.
    Permanent,
    /// Crashes or defeats every worker that takes the message.
    Poison,
}

impl Failure {
    fn new(kind: FailureKind, code: &str, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: code.into(),
            message: message.into(),
            next: None,
        }
    }

    pub fn transient(code: &str, message: impl Into<String>) -> Self {
        Self::new(FailureKind::Transient, code, message)
    }

    pub fn input_missing(code: &str, message: impl Into<String>) -> Self {
        Self::new(FailureKind::InputMissing, code, message)
    }

    pub fn permanent(code: &str, message: impl Into<String>) -> Self {
        Self::new(FailureKind::Permanent, code, message)
    }

    pub fn throttled(code: &str, message: impl Into<String>, after: Duration) -> Self {
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        Self::new(FailureKind::Throttled { after_ms }, code, message)
    }

    /// See [`FailureKind::Waiting`]. The caller must have made durable what will wake the task.
    pub fn waiting(code: &str, message: impl Into<String>, within: Duration) -> Self {
        let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        Self::new(FailureKind::Waiting { within_ms }, code, message)
    }

    #[must_use]
    pub fn with_next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

impl From<PortError> for Failure {
    // What a service or its permissions do is not counted as an attempt: an outage of an hour must not fail a document.
    fn from(error: PortError) -> Self {
        let message = error.to_string();
        match error.kind {
            PortErrorKind::Transient => {
                Failure::throttled("engine.port", message, PORT_RETRY_DELAY)
            }
            PortErrorKind::Refused => {
                Failure::throttled("engine.port_refused", message, REFUSAL_RETRY_DELAY)
            }
            PortErrorKind::Permanent => {
                let next = "the object may be damaged: check the store, then run the failed documents again";
                Failure::permanent("engine.port", message).with_next(next)
            }
        }
    }
}

/// A failure as stored. It belongs to one run; a new run of the same document starts without it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRecord {
    pub code: String,
    pub message: String,
    pub next: Option<String>,
    pub stage: String,
    pub attempts: u32,
    pub at_ms: Millis,
}

impl FailureRecord {
    /// Code of the record that is stored for a cancelled run.
    pub const CANCELLED: &str = "engine.cancelled";

    /// Code of a run whose input changed before it was read.
    pub const INPUT_CHANGED: &str = "input.changed";

    pub fn is_cancelled(&self) -> bool {
        self.code == Self::CANCELLED
    }

    /// The record of `failure`, clipped to fit in a message.
    pub fn new(failure: Failure, stage: &str, attempts: u32, at_ms: Millis) -> Self {
        let Failure {
            code,
            message,
            next,
            ..
        } = failure;
        Self {
            code,
            message,
            next,
            stage: stage.into(),
            attempts,
            at_ms,
        }
        .clipped()
    }

    /// Clips all texts so that the record fits in a message; control characters become spaces.
    #[must_use]
    pub fn clipped(self) -> Self {
        Self {
            code: clip(&self.code, 100),
            message: clip(&self.message, 1_000),
            next: self.next.map(|next| clip(&next, 400)),
            stage: clip(&self.stage, 100),
            ..self
        }
    }
}

// Control characters are replaced because JSON escapes each of them as six bytes.
fn clip(text: &str, bytes: usize) -> String {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    text[..end]
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
