//! The line in the call log of each reply: who asked, and what it cost; and who pays for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use stemma_engine::flow::Manifest;
use stemma_engine::jobs::{Amount, Ledgered, PauseReason, Payer, Purses};
use stemma_engine::port::keep;
use stemma_engine::stage::Task;
use stemma_engine::{Env, Failure, PortError, Ports, RunRef, TaskKey};
use stemma_llm::calls::{self, CallRecord};
use stemma_llm::gate::{Gate, Replied};
use stemma_llm::inquiry::Journal;
use stemma_llm::prices::Purse;
use stemma_llm::request::Request;

use crate::Filings;

/// Writes the call log for one task. It borrows nothing of the task, for a reply may come when that has gone.
#[derive(Clone)]
pub(crate) struct Log {
    env: Env,
    ports: Ports,
    purses: Arc<Purses>,
    models: BTreeMap<String, Arc<Gate>>,
    /// Who pays, as far as that was asked.
    payers: Arc<Mutex<Arc<Vec<Payer>>>>,
    /// Blob prefix of the tenant.
    collection: String,
    run: RunRef,
    task: TaskKey,
    stage: &'static str,
    attempt: u32,
}

impl Log {
    /// The log of a task of `stage`.
    pub(crate) fn of(task: &Task<'_, Filings>, stage: &'static str) -> Self {
        // `c/{collection}/d/{doc}`: the log is the tenant's.
        let collection = task
            .run
            .scope
            .split("/d/")
            .next()
            .unwrap_or(&task.run.scope)
            .to_string();
        let env = task.env.clone();
        let ports = task.ports.clone();
        let run = task.run.clone();
        let attempt = task.attempt;
        let purses = Arc::clone(&task.tools.purses);
        let models = task.tools.models.clone();
        Self {
            env,
            ports,
            purses,
            models,
            payers: Arc::default(),
            collection,
            run,
            task: task.key,
            stage,
            attempt,
        }
    }

    /// The line of a reply to `request`, and the blob key it is kept under.
    pub(crate) fn record(
        &self,
        request: &Request,
        reply: &Replied,
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
            jobs: self
                .paying()
                .iter()
                .map(|payer| payer.job.job.clone())
                .collect(),
        };
        let json = serde_json::to_vec(&record)
            .map_err(|error| Failure::permanent("model.call_record", error.to_string()))?;
        Ok((record.key(&self.collection, self.env.random()), json.into()))
    }

    /// Writes the line of a reply.
    pub(crate) async fn write(
        &self,
        request: &Request,
        reply: &Replied,
        useful: bool,
    ) -> Result<(), Failure> {
        let (key, bytes) = self.record(request, reply, useful)?;
        keep(&self.env, || self.ports.blobs.put(&key, bytes.clone())).await?;
        Ok(())
    }
}

impl Log {
    /// What happens to a task whose inquiry failed: where the provider serves no one, its jobs are paused, once.
    pub(crate) async fn failed(&self, failure: Failure) -> Failure {
        if failure.code == "model.configuration" {
            let paused = self
                .purses
                .pause(
                    &self.env,
                    &self.ports,
                    &self.paying(),
                    PauseReason::Credentials,
                )
                .await;
            if let Err(error) = paused {
                tracing::warn!(run = %self.run.run, %error, "a job that no provider serves could not be paused");
            }
        }
        failure
    }

    fn paying(&self) -> Arc<Vec<Payer>> {
        Arc::clone(&self.payers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Purse for Log {
    async fn reserve(&self, most: Amount) -> Result<(), Failure> {
        let payers = self
            .purses
            .payers(&self.env, &self.ports, &self.run)
            .await?;
        *self.payers.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&payers);
        self.purses
            .reserve(&self.env, &self.ports, &payers, most, self)
            .await
    }

    async fn settle(&self, most: Amount, used: Amount) {
        self.purses
            .settle(&self.env, &self.ports, &self.paying(), most, used)
            .await;
    }
}

#[async_trait]
impl Ledgered for Log {
    async fn spent(&self, job: &Manifest) -> Result<Amount, PortError> {
        let mut tokens = 0_u64;
        let mut nanodollars = Some(0_u64);
        calls::read(
            self.ports.blobs.as_ref(),
            &self.collection,
            job.submitted_ms,
            |record: CallRecord| {
                if record.jobs.contains(&job.job) {
                    let cost = self
                        .models
                        .get(&record.model)
                        .map(|gate| gate.cost(record.usage))
                        .unwrap_or_default();
                    tokens += u64::from(record.usage.total());
                    nanodollars = nanodollars
                        .zip(cost.nanodollars)
                        .map(|(sum, more)| sum + more);
                }
            },
        )
        .await?;
        Ok(Amount {
            nanodollars,
            tokens,
        })
    }
}

#[async_trait]
impl Journal for Log {
    async fn useless(&self, request: &Request, reply: &Replied) -> Result<(), Failure> {
        self.write(request, reply, false).await
    }
}
