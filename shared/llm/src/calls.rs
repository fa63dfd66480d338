//! The call log: one create-only record per reply of a provider, useful or not (rule 12). What was spent is summed from
//! it; it never holds text of prompts or replies.

use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;
use stemma_engine::{JobId, PortError, RunId, TaskKey};

use crate::request::TokenUsage;

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
    pub usage: TokenUsage,
    /// How long the call took, in milliseconds.
    pub took_ms: u64,
    /// Whether it became an answer.
    pub useful: bool,
    /// The jobs that waited for it, and paid.
    #[serde(default)]
    pub jobs: Vec<JobId>,
}

impl CallRecord {
    /// Blob key of the record: by minute, so that the log of a job can be read from its beginning. `collection` is the
    /// blob prefix of the tenant, without a slash at its end.
    pub fn key(&self, collection: &str, random: u64) -> String {
        let minute = self.at_ms / 60_000;
        format!(
            "{collection}/calls/{minute:010}/{}-{}-{random:016x}.json",
            self.run, self.task
        )
    }
}

/// Names listed at once, and records read at once.
const PAGE_SIZE: usize = 1_000;
const CONCURRENT_READS: usize = 32;

/// Reads the log of a collection from a time on, record by record in the order of their minutes, and hands each to `each`.
/// `collection` is as in [`CallRecord::key`]. Returns how many records could not be read.
///
/// # Errors
/// [`PortError`] when the store is away.
pub async fn read(
    blobs: &dyn Blobs,
    collection: &str,
    since_ms: Millis,
    mut each: impl FnMut(CallRecord) + Send,
) -> Result<u64, PortError> {
    let prefix = format!("{collection}/calls/");
    let mut after = format!("{prefix}{:010}", since_ms / 60_000);
    let mut unread = 0;
    loop {
        let names = blobs.list(&prefix, Some(&after), PAGE_SIZE).await?;
        let Some(last) = names.last() else {
            return Ok(unread);
        };
        after.clone_from(last);
        let reads = stream::iter(names)
            .map(|name| async move { blobs.get(&name).await })
            .buffered(CONCURRENT_READS);
        let records: Vec<_> = reads.try_collect().await?;
        for json in records.into_iter().flatten() {
            match serde_json::from_slice(&json) {
                Ok(record) => each(record),
                Err(_) => unread += 1,
            }
        }
    }
}
