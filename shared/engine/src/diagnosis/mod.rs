//! Why something is not done yet, by rule: from what the ledger, the boards, the lanes and the records say, without
//! asking a model and without guessing. The rules read [`DiagnosisContext`] and nothing else.

mod context;
mod rules;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use context::{DiagnosisContext, JobFacts, RunFacts, gather_context, job_facts, run_facts};
pub use rules::diagnose;

use crate::env::Millis;

/// Why something is not done yet; or that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It is done.
    Done,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// A task of it is a dead letter.
    DeadLetter,
    /// Its job is paused.
    Paused,
    /// Its job has used up its budget.
    Budget,
    /// No living process takes what is next: no worker on the lane, or no coordinator.
    NoWorker,
    /// The worker that holds its task has gone silent.
    SilentWorker,
    /// Calls to the provider fail, so none are made for a while.
    BreakerOpen,
    /// The shared limit is used up, or the provider asked to wait.
    RateLimit,
    /// An attempt failed; the next is due later.
    Retry,
    /// Its message was lost; it is published again.
    LostMessage,
    /// It has not been opened: as many documents as may be are.
    Queued,
    /// All workers are busy.
    WorkersBusy,
    /// The provider answers slowly.
    ProviderSlow,
    /// Everything else of it is done; it waits for the last of its siblings.
    SiblingStage,
    /// It is in work, and moves.
    Long,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The cause.
    pub cause: Cause,
    /// The same in a sentence.
    pub says: String,
    /// Since when, where that is known.
    pub since_ms: Option<Millis>,
    /// Who has it in hand: a process, a job, a provider, a person.
    pub owner: Option<String>,
    /// What happens next.
    pub next: String,
    /// When, where that is known.
    pub next_ms: Option<Millis>,
    /// What was looked at and is in order.
    pub not_the_cause: Vec<String>,
    /// What a person can do about it.
    pub remedy: Option<String>,
}
