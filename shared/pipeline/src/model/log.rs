//! The line in the call log of each reply: who asked, and what it cost.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use stemma_engine::blobs::Blobs;
use stemma_engine::port::ask;
use stemma_engine::stage::Task;
use stemma_engine::{Env, Failure, RunId, TaskKey};
use stemma_llm::calls::CallRecord;
use stemma_llm::gate::Replied;
use stemma_llm::inquiry::Journal;
use stemma_llm::request::Request;

use crate::Filings;

/// Writes the call log for one task. It borrows nothing of the task, for a reply may come when that has gone.
#[derive(Clone)]
pub(crate) struct Log {
    env: Env,
    blobs: Arc<dyn Blobs>,
    /// Blob prefix of the tenant.
    collection: String,
    run: RunId,
    task: TaskKey,
    stage: &'static str,
    attempt: u32,
}

impl Log {
    /// The log of a task of `stage`.
    pub(crate) fn of(task: &Task<'_, Filings>, stage: &'static str) -> Self {
        // `c/{collection}/d/{doc}`: the log is the tenant's.
        let collection = task.run.scope.split("/d/").next().unwrap_or(&task.run.scope).to_string();
        let (run, blobs) = (task.run.run.clone(), Arc::clone(&task.ports.blobs));
        Self { env: task.env.clone(), blobs, collection, run, task: task.key, stage, attempt: task.attempt }
    }

    /// The line of a reply to `request`, and the blob key it is kept under.
    pub(crate) fn record(&self, request: &Request, reply: &Replied, useful: bool) -> Result<(String, Bytes), Failure> {
        let record = CallRecord {
            at_ms: reply.at_ms,
            run: self.run.clone(),
            task: self.task,
            stage: self.stage.into(),
            attempt: self.attempt,
            request: request.digest(),
            model: request.model.clone(),
            usage: reply.usage,
            took_ms: reply.took_ms,
            useful,
        };
        let json =
            serde_json::to_vec(&record).map_err(|error| Failure::permanent("model.call_record", error.to_string()))?;
        Ok((record.key(&self.collection, self.env.random()), json.into()))
    }

    /// Writes the line of a reply.
    pub(crate) async fn write(&self, request: &Request, reply: &Replied, useful: bool) -> Result<(), Failure> {
        let (key, bytes) = self.record(request, reply, useful)?;
        ask(&self.env, || self.blobs.put(&key, bytes.clone())).await?;
        Ok(())
    }
}

#[async_trait]
impl Journal for Log {
    async fn useless(&self, request: &Request, reply: &Replied) -> Result<(), Failure> {
        self.write(request, reply, false).await
    }
}
