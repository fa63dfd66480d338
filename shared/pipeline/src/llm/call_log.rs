//! The call log of a task: one record per reply, with its cost and the job that pays for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use stemma_engine::Ports;
use stemma_engine::flow::JobManifest;
use stemma_engine::jobs::{BudgetOwner, BudgetRegistry, PauseReason, SpendLog};
use stemma_llm::calls::{self, CallRecord};
use stemma_llm::client::{ModelClient, ReplyStats};
use stemma_llm::prices::{CallBudget, Prices};
use stemma_llm::request::LlmRequest;
use stemma_llm::structured::CallLog;
use stemma_store::blobs::Blobs;
use stemma_store::env::Millis;
use stemma_store::spend::{CallReservation, SpendAmount, SpendMeasure};
use stemma_store::{Failure, PortResult, RunRef, TaskKey, artifact};

use crate::{FilingTask, WorkerDeps};

// Well below the deadline of a stage, which would count as a failed attempt.
const RECORD_TIMEOUT: Duration = Duration::from_secs(300);
// Delay before the task is tried again.
const RECORD_RETRY_DELAY: Duration = Duration::from_secs(5);

// A call that waited longer for its permit and reservation may have been made by another worker.
const MAX_UNCHECKED_WAIT_MS: Millis = 3_000;

// The clock of whoever submits a job may be ahead of the workers' clocks. Records name their job, so other jobs do not count.
const CLOCK_TOLERANCE_MS: Millis = 3_600_000;

/// The blob prefix of the collection in the scope of a run, `c/{collection}/d/{doc}`. Call logs belong to collections, not
/// to documents.
pub(super) fn collection_of(scope: &str) -> &str {
    scope.split("/d/").next().unwrap_or(scope)
}

/// Writes the call log of one task. Borrows nothing from the task, because a reply may arrive after it ended.
#[derive(Clone)]
pub(crate) struct TaskCallLog {
    ports: Ports,
    budgets: Arc<BudgetRegistry>,
    models: BTreeMap<String, Arc<ModelClient>>,
    // Known after the first reservation.
    owners: Arc<Mutex<Arc<Vec<BudgetOwner>>>>,
    // Blob prefix of the collection.
    collection: String,
    run: RunRef,
    task: TaskKey,
    stage: &'static str,
    attempt: u32,
    // When the artifact of the task was known to be missing; `None` for calls that answer several tasks.
    missing_at_ms: Option<Millis>,
}

impl TaskCallLog {
    pub(crate) fn for_task(task: &FilingTask<'_>, stage: &'static str) -> Self {
        Self {
            task: task.key,
            stage,
            attempt: task.attempt,
            missing_at_ms: Some(task.began_ms),
            ..Self::for_run(task.ports, task.tools, task.run)
        }
    }

    /// As [`Self::for_task`], for calls that answer other tasks as well.
    pub(super) fn for_batch(task: &FilingTask<'_>, stage: &'static str) -> Self {
        Self {
            missing_at_ms: None,
            ..Self::for_task(task, stage)
        }
    }

    /// The budgets of a run, for what is not charged by its tasks.
    pub(crate) fn for_run(ports: &Ports, deps: &WorkerDeps, run: &RunRef) -> Self {
        Self {
            ports: ports.clone(),
            budgets: Arc::clone(&deps.budgets),
            models: deps.models.clone(),
            owners: Arc::default(),
            collection: collection_of(&run.scope).into(),
            run: run.clone(),
            task: TaskKey::builder("batch", 1).finish(),
            stage: "batch",
            attempt: 1,
            missing_at_ms: None,
        }
    }

    /// The record of a reply to `request`, with its blob key.
    pub(crate) fn record(
        &self,
        request: &LlmRequest,
        reply: &ReplyStats,
        useful: bool,
    ) -> Result<(String, Bytes), Failure> {
        let record = CallRecord {
            at_ms: reply.at_ms,
            run: self.run.run.clone(),
            task: self.task,
            stage: self.stage.into(),
            attempt: self.attempt,
            request: request.digest(),
            model: request.model.clone(),
            usage: reply.usage,
            took_ms: reply.took_ms,
            useful,
            jobs: (self.budget_owners().iter())
                .map(|owner| owner.job.job.clone())
                .collect(),
            batch: false,
        };
        let json = serde_json::to_vec(&record)
            .map_err(|error| Failure::permanent("model.call_record", error.to_string()))?;
        let cost = self.prices(&record.model).cost(record.usage);
        let key = record.key(&self.collection, self.ports.env.random(), Some(cost));
        Ok((key, json.into()))
    }

    pub(crate) async fn write(
        &self,
        request: &LlmRequest,
        reply: &ReplyStats,
        useful: bool,
    ) -> Result<(), Failure> {
        let (key, bytes) = self.record(request, reply, useful)?;
        let blobs = self.ports.blobs.with_long_retries();
        match tokio::time::timeout(RECORD_TIMEOUT, blobs.put(&key, bytes)).await {
            Ok(put) => Ok(put.map(drop)?),
            Err(_) => {
                let message = "the call could not be recorded: the store is unavailable";
                Err(Failure::throttled(
                    "engine.port",
                    message,
                    RECORD_RETRY_DELAY,
                ))
            }
        }
    }

    /// Pauses the paying jobs if the provider rejects the configuration, since every further call would fail
    /// too.
    pub(crate) async fn handle_failure(&self, failure: Failure) -> Failure {
        if failure.code == "model.configuration" {
            let owners = self.budget_owners();
            let reason = PauseReason::Credentials;
            let paused = self.budgets.pause(&self.ports, &owners, reason);
            if let Err(error) = paused.await {
                tracing::warn!(run = %self.run.run, %error, "could not pause jobs whose provider configuration was rejected");
            }
        }
        failure
    }

    fn prices(&self, model: &str) -> Prices {
        let client = self.models.get(model);
        client.map(|client| client.prices()).unwrap_or_default()
    }

    fn budget_owners(&self) -> Arc<Vec<BudgetOwner>> {
        Arc::clone(&self.owners.lock())
    }
}

#[async_trait]
impl CallBudget for TaskCallLog {
    async fn reserve(&self, call: &CallReservation) -> Result<(), Failure> {
        let Self { ports, budgets, .. } = self;
        let owners = budgets.owners(ports, &self.run).await?;
        *self.owners.lock() = Arc::clone(&owners);
        let log = Arc::new(self.clone());
        budgets.reserve(ports, &owners, call, log).await?;
        let unchecked_ms = ports.env.now_ms().saturating_sub(MAX_UNCHECKED_WAIT_MS);
        if self
            .missing_at_ms
            .is_none_or(|checked_ms| checked_ms >= unchecked_ms)
        {
            return Ok(());
        }
        let missing = artifact::ensure_missing(&self.ports.blobs, &self.run.scope, &self.task);
        if let Err(failure) = missing.await {
            self.settle(call, SpendAmount::NOTHING).await;
            return Err(failure);
        }
        Ok(())
    }

    async fn settle(&self, call: &CallReservation, used: SpendAmount) {
        let owners = self.budget_owners();
        self.budgets.settle(&self.ports, &owners, call, used).await;
    }
}

#[async_trait]
impl SpendLog for TaskCallLog {
    async fn total_spend(
        &self,
        job: &JobManifest,
        measure: SpendMeasure,
    ) -> PortResult<SpendAmount> {
        let since_ms = job.submitted_ms.saturating_sub(CLOCK_TOLERANCE_MS);
        calls::job_spend(
            &self.ports.blobs,
            &self.collection,
            &job.job,
            (since_ms, self.ports.env.now_ms()),
            measure,
            |sum| sum.cost(self.prices(&sum.model)),
        )
        .await
    }
}

#[async_trait]
impl CallLog for TaskCallLog {
    async fn record_rejected(
        &self,
        request: &LlmRequest,
        reply: &ReplyStats,
    ) -> Result<(), Failure> {
        self.write(request, reply, false).await
    }
}

#[cfg(test)]
mod tests {
    use stemma_store::RunId;
    use stemma_store::artifact::Artifact;

    use stemma_store::Env;

    use super::*;

    // After a loss of the ledger two workers may execute a task, and one of them may wait for a permit.
    #[tokio::test(start_paused = true)]
    async fn a_call_that_waited_is_not_made_if_its_result_was_stored_meanwhile() {
        let env = Env::simulated(1);
        let ports = Ports::memory(&env);
        let run = RunRef {
            run: RunId("run".into()),
            header: "c/x/header".into(),
            scope: "c/x/d/1".into(),
        };
        let log = TaskCallLog {
            ports: ports.clone(),
            budgets: Arc::default(),
            models: BTreeMap::new(),
            owners: Arc::default(),
            collection: "c/x".into(),
            run: run.clone(),
            task: TaskKey::builder("summarize", 1).finish(),
            stage: "summarize",
            attempt: 1,
            missing_at_ms: Some(env.now_ms()),
        };
        let call = CallReservation {
            id: 1,
            max: SpendAmount::default(),
            timeout: Duration::from_secs(60),
        };
        env.sleep(Duration::from_secs(10)).await;
        log.reserve(&call).await.unwrap();

        let artifact = Artifact::new(b"1", &[]).unwrap();
        let stored = artifact.store(&ports.blobs, &run.scope, &log.task);
        stored.await.unwrap();
        let failure = log.reserve(&call).await.unwrap_err();
        assert_eq!(failure.code, "engine.already_stored");
    }
}
