//! What can go wrong, and the only place that decides what happens then.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::env::Millis;

/// Why a stage did not produce its outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Failure {
    /// What to do about it.
    pub kind: FailureKind,
    /// Stable code, e.g. `pdf.encrypted_password`.
    pub code: String,
    /// One sentence, lower case, no full stop, naming the thing.
    pub message: String,
    /// What a person can do about it: a command, or a sentence.
    pub next: Option<String>,
}

/// The kinds of failure (architecture §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// May pass: tried again after a pause, counted.
    Transient,
    /// Too early: tried again after at least `after_ms`, not counted.
    Throttled {
        /// Milliseconds.
        after_ms: u64,
    },
    /// Will not pass: becomes the run's outcome for this task.
    Permanent,
    /// The message could not be handled at all, again and again.
    Poison,
}

impl Failure {
    /// A failure that may pass.
    pub fn transient(code: &str, message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Transient,
            code: code.into(),
            message: message.into(),
            next: None,
        }
    }

    /// A failure that will not pass.
    pub fn permanent(code: &str, message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Permanent,
            code: code.into(),
            message: message.into(),
            next: None,
        }
    }

    /// Too early; not counted as an attempt.
    pub fn throttled(code: &str, message: impl Into<String>, after: Duration) -> Self {
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        Self {
            kind: FailureKind::Throttled { after_ms },
            code: code.into(),
            message: message.into(),
            next: None,
        }
    }

    /// The same with a next step.
    #[must_use]
    pub fn with_next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

/// A failure as it is kept: it belongs to a run, and a new run does not see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRecord {
    /// Stable code.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// What a person can do about it.
    pub next: Option<String>,
    /// The stage that failed.
    pub stage: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it became final.
    pub at_ms: Millis,
}

impl FailureRecord {
    /// The code under which a cancelled run keeps its record, where a failed one keeps its failure.
    pub(crate) const CANCELLED: &str = "engine.cancelled";

    /// Whether the run was cancelled, and did not fail.
    pub fn is_cancelled(&self) -> bool {
        self.code == Self::CANCELLED
    }

    /// The record of `failure`, cut to what fits in a message.
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

    /// The same, cut to what fits in a message beside the names it travels with; control characters become spaces.
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

/// At most `bytes` bytes of `text`, without control characters, which JSON would write in six bytes each.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_record_is_clipped_to_message_size() {
        let failure = Failure::permanent(&"c".repeat(5_000), "\u{1}\"é".repeat(5_000))
            .with_next("\\".repeat(5_000));
        let record = FailureRecord::new(failure, &"s".repeat(5_000), 1, 0);
        assert!(serde_json::to_vec(&record).unwrap().len() < crate::queue::MAX_MESSAGE_BYTES - 600);
    }
}
