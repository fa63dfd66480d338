//! Explains by rule why a job or run is not done yet. The rules read only [`DiagnosisContext`]: facts from the ledger,
//! heartbeats, queues and records, never a model.

mod context;
mod rules;
mod servers;
#[cfg(test)]
mod tests;

use serde::Serialize;
use stemma_store::env::Millis;

pub use context::{
    DiagnosisContext, JobFacts, RunFacts, gather_context, gather_context_at_once, job_facts,
    run_facts,
};
pub use rules::diagnose;
pub use servers::{Server, ServerTrouble};

/// Why a job or run is not done, or that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    Done,
    Failed,
    Cancelled,
    /// One of its tasks is a dead letter.
    DeadLetter,
    /// A server does not answer or refuses, which stops every job.
    ServerTrouble,
    /// The job is paused.
    Paused,
    /// The job has used up its budget.
    Budget,
    /// No live process takes the next task: no worker on the lane, or no coordinator.
    NoWorker,
    /// The worker that holds a task has stopped sending heartbeats.
    SilentWorker,
    /// The circuit breaker is open: too many calls to the provider failed.
    BreakerOpen,
    /// The shared rate limit is used up, or the provider asked to wait.
    RateLimit,
    /// The question waits for a batch of the provider, or is in one.
    Batch,
    /// An attempt failed and the next is not due yet.
    Retry,
    /// A message was lost; it will be published again.
    LostMessage,
    /// Not opened yet: the limit of open documents is reached.
    Queued,
    WorkersBusy,
    ProviderSlow,
    /// Everything else is done; the last sibling tasks are running.
    SiblingStage,
    /// In progress.
    Long,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    pub cause: Cause,
    /// The cause in a sentence.
    pub says: String,
    /// Start of the cause, if known.
    pub since_ms: Option<Millis>,
    /// The process, job, provider or person that can act on it.
    pub owner: Option<String>,
    pub next: String,
    /// Time of the next event, if known.
    pub next_ms: Option<Millis>,
    /// Checks that passed.
    pub not_the_cause: Vec<String>,
    /// Next steps for a person.
    pub remedy: Option<String>,
}
