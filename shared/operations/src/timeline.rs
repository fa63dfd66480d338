//! The attempts at one document: its versions, their tasks and failures.

use futures::future::try_join_all;
use serde::Serialize;
use stemma_archive::Archive;
use stemma_engine::flow::Flow;
use stemma_engine::jobs;
use stemma_engine::ledger::OpenTask;
use stemma_engine::message::RunOutcome;
use stemma_pipeline::FilingFlow;
use stemma_store::blobs::{get_json, list_all};
use stemma_store::env::Millis;
use stemma_store::key::{failures_prefix, run_failure_key};
use stemma_store::{Failure, FailureRecord, JobId, PortResult, RunId};

use crate::{Operations, OperationsError};

// Older versions than these tell nothing about the present one.
const MAX_VERSIONS: u64 = 5;
// A run has one failure in most cases, and one per window of pages in the worst.
const MAX_FAILURES: usize = 50;

/// The processing of one version of a document.
#[derive(Debug, Clone, Serialize)]
pub struct RunTimeline {
    pub run: RunId,
    /// Number of the version.
    pub version: u64,
    /// The job that opened it.
    pub job: JobId,
    /// When that job was submitted; `null` if it is not known any more.
    pub submitted_ms: Option<Millis>,
    /// `done`, `done_with_gaps`, `unchanged`, `failed`, `cancelled`; `null` while it has not ended.
    pub outcome: Option<&'static str>,
    /// Final failures of its tasks, oldest first; at most 50.
    pub failures: Vec<FailureRecord>,
    /// Tasks without an outcome.
    pub tasks: Vec<TaskTimeline>,
}

/// A task without an outcome.
#[derive(Debug, Clone, Serialize)]
pub struct TaskTimeline {
    pub stage: String,
    /// Failed attempts.
    pub attempts: u32,
    pub published_ms: Millis,
    /// The process that runs it.
    pub worker: Option<String>,
    /// Code of the failure of the last attempt.
    pub last_failure: Option<String>,
    /// Earliest time of the next attempt, after a failed one.
    pub next_attempt_ms: Option<Millis>,
}

impl From<OpenTask> for TaskTimeline {
    fn from(task: OpenTask) -> Self {
        let (last_failure, next_attempt_ms) =
            task.retry.map(|retry| (retry.code, retry.next_ms)).unzip();
        Self {
            stage: task.stage,
            attempts: task.attempts,
            published_ms: task.published_ms,
            worker: task.lease.map(|(worker, _)| worker),
            last_failure,
            next_attempt_ms,
        }
    }
}

impl Operations {
    /// The attempts at a document, newest version first.
    ///
    /// # Errors
    /// [`OperationsError`] when the locator names nothing, or a server does not answer.
    pub async fn document_timeline(
        &self,
        reader: &Archive,
        locator: &str,
    ) -> Result<Vec<RunTimeline>, OperationsError> {
        let (doc, newest) = reader.latest_version(locator).await?;
        let versions = (1..=newest).rev().take(MAX_VERSIONS as usize);
        let runs = versions.map(|version| {
            let run = stemma_pipeline::run_id(doc, version);
            self.run_timeline(run, version)
        });
        Ok(try_join_all(runs).await?.into_iter().flatten().collect())
    }

    // `None` for a version whose claim was removed.
    async fn run_timeline(&self, run: RunId, version: u64) -> PortResult<Option<RunTimeline>> {
        let Some(header) = self.run_header(&run).await? else {
            return Ok(None);
        };
        let job = header.opened_by.split().0;
        let submitted_ms = match jobs::manifest(self.blobs(), &job).await {
            Err(error) if error.is_permanent() => None,
            manifest => manifest?.map(|manifest| manifest.submitted_ms),
        };
        let outcome = FilingFlow::run_outcome(&self.ports, &header).await?;
        let tasks = match outcome {
            None => self.ports.ledger.raw().open_tasks(&run).await?,
            Some(_) => Vec::new(),
        };
        Ok(Some(RunTimeline {
            failures: self.run_failures(&run).await?,
            version,
            job,
            submitted_ms,
            outcome: outcome.as_ref().map(outcome_name),
            tasks: tasks.into_iter().map(Into::into).collect(),
            run,
        }))
    }

    async fn run_failures(&self, run: &RunId) -> PortResult<Vec<FailureRecord>> {
        let mut keys = list_all(self.blobs(), &failures_prefix(run)).await?;
        // The record of the whole run repeats the one of the task that failed.
        if keys.len() > 1 {
            keys.retain(|key| *key != run_failure_key(run));
        }
        let reads = keys
            .iter()
            .take(MAX_FAILURES)
            .map(|key| self.failure_record(key, run));
        let mut failures: Vec<_> = try_join_all(reads).await?.into_iter().flatten().collect();
        failures.sort_by_key(|failure| failure.at_ms);
        Ok(failures)
    }
}

impl Operations {
    // A record that cannot be read says so: the other attempts are known all the same.
    async fn failure_record(&self, key: &str, run: &RunId) -> PortResult<Option<FailureRecord>> {
        match get_json(self.blobs(), key).await {
            Err(error) if error.is_permanent() => {
                let message = format!("the record of a failure of {run} cannot be read");
                let failure = Failure::permanent("store.unreadable", message);
                Ok(Some(FailureRecord::new(failure, "", 0, 0)))
            }
            record => record,
        }
    }
}

fn outcome_name(outcome: &RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Done => "done",
        RunOutcome::DoneWithGaps(_) => "done_with_gaps",
        RunOutcome::Unchanged => "unchanged",
        RunOutcome::Failed(_) => "failed",
        RunOutcome::Cancelled => "cancelled",
    }
}
