//! The call log: one write-once record per provider reply, usable or not. Spending is summed from it. Records never
//! contain text of prompts or replies.
//!
//! The name of a record says what budgets need to know, so that spending is summed from listings, a thousand replies a
//! request, and no record is read (`spend.rs`).

mod pages;
mod spend;
mod sums;
#[cfg(test)]
mod test_records;

use serde::{Deserialize, Serialize};
use stemma_store::env::Millis;
use stemma_store::spend::SpendAmount;
use stemma_store::{JobId, RunId, TaskKey};

pub use spend::job_spend;
pub use sums::{CallSum, MIN_RECORD_DAYS, count_day, days_to_sum, read_sums, sum_day};

use crate::request::TokenUsage;

/// One reply of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// Time of the reply.
    pub at_ms: Millis,
    /// The run that made the call.
    pub run: RunId,
    pub task: TaskKey,
    pub stage: String,
    /// 1-based.
    pub attempt: u32,
    /// Digest of the request.
    pub request: String,
    pub model: String,
    pub usage: TokenUsage,
    pub took_ms: u64,
    /// Whether the reply was used, not rejected.
    pub useful: bool,
    /// The jobs that share the cost.
    #[serde(default)]
    pub jobs: Vec<JobId>,
    /// Whether it came in a batch, at the price of batches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub batch: bool,
}

// Longest name of an object, in bytes.
const MAX_NAME: usize = 255;

impl CallRecord {
    /// Blob key of the record, ordered by minute. `collection` is the tenant's blob
    /// prefix without a trailing slash. `cost` and the jobs become part of the name, unless it would be too long. Who may write a
    /// record again must know its cost and its jobs from the first time, or leave out the cost, so that it is written once.
    pub fn key(&self, collection: &str, random: u64, cost: Option<SpendAmount>) -> String {
        let minute = self.at_ms / 60_000;
        let id = format!("{}-{}-{random:016x}", self.run, self.task);
        let named = cost.map(|cost| {
            let nanodollars = cost.nanodollars.map(|amount| amount.to_string());
            let jobs: String = self.jobs.iter().map(|job| format!("~{job}")).collect();
            let nanodollars = nanodollars.unwrap_or_default();
            format!("{id}~{}~{nanodollars}{jobs}", cost.tokens)
        });
        let is_readable = self.jobs.iter().all(|job| !job.0.contains('~'));
        let named = named.filter(|name| name.len() + ".json".len() <= MAX_NAME && is_readable);
        let name = named.unwrap_or(id);
        format!("{collection}/calls/{minute:010}/{name}.json")
    }
}

const PAGE_SIZE: usize = 1_000;
const CONCURRENT_READS: usize = 32;
