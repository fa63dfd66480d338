//! The call log: one create-only record per reply of a provider, useful or not (rule 12). What was spent is summed from
//! it; it never holds text of prompts or replies.

use serde::{Deserialize, Serialize};
use stemma_engine::env::Millis;
use stemma_engine::{RunId, TaskKey};

use crate::request::Usage;

/// One reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// When it came.
    pub at_ms: Millis,
    /// The run that asked first.
    pub run: RunId,
    /// The task.
    pub task: TaskKey,
    /// Its stage.
    pub stage: String,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Digest of the request.
    pub request: String,
    /// The model.
    pub model: String,
    /// What it cost.
    pub usage: Usage,
    /// How long the call took, in milliseconds.
    pub took_ms: u64,
    /// Whether it became an answer.
    pub useful: bool,
}

impl CallRecord {
    /// Blob key of the record: by minute, so that the log of a job can be read from its beginning. `collection` is the
    /// blob prefix of the tenant, without a slash at its end.
    pub fn key(&self, collection: &str, random: u64) -> String {
        let minute = self.at_ms / 60_000;
        format!("{collection}/calls/{minute:010}/{}-{}-{random:016x}.json", self.run, self.task)
    }
}
