//! The line in the call log of each reply: who asked, and what it cost.

use std::sync::Arc;

use bytes::Bytes;
use stemma_engine::blobs::Blobs;
use stemma_engine::port::ask;
use stemma_engine::stage::Task;
use stemma_engine::{Env, Failure, RunId, TaskKey};
use stemma_llm::calls::CallRecord;
use stemma_llm::request::{Request, Usage};

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

    /// The line of a reply, and the blob key it is kept under.
    pub(crate) fn record(
        &self,
        request: &Request,
        usage: Usage,
        took_ms: u64,
        useful: bool,
    ) -> Result<(String, Bytes), Failure> {
        let record = CallRecord {
            at_ms: self.env.now_ms(),
            run: self.run.clone(),
            task: self.task,
            stage: self.stage.into(),
            attempt: self.attempt,
            request: request.digest(),
            model: request.model.clone(),
            usage,
            took_ms,
            useful,
        };
        Ok((record.key(&self.collection, self.env.random()), encoded(&record)?))
    }

    /// Writes the line of a reply.
    pub(crate) async fn write(
        &self,
        request: &Request,
        usage: Usage,
        took_ms: u64,
        useful: bool,
    ) -> Result<(), Failure> {
        let (key, bytes) = self.record(request, usage, took_ms, useful)?;
        self.put(&key, bytes).await
    }

    /// Writes a line that was not written yet, of a reply that turned out to be no answer.
    pub(crate) async fn correct(&self, (key, bytes): (String, Bytes)) -> Result<(), Failure> {
        let mut record: CallRecord = serde_json::from_slice(&bytes).map_err(|error| broken(&error))?;
        record.useful = false;
        self.put(&key, encoded(&record)?).await
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<(), Failure> {
        ask(&self.env, || self.blobs.put(key, bytes.clone())).await?;
        Ok(())
    }
}

fn encoded(record: &CallRecord) -> Result<Bytes, Failure> {
    serde_json::to_vec(record).map(Bytes::from).map_err(|error| broken(&error))
}

fn broken(error: &serde_json::Error) -> Failure {
    Failure::permanent("model.call_record", error.to_string())
}
