//! Takes the requests that wait, sends them in batches, and brings the replies.
//!
//! One process at a time looks after the batches of a model, under a lease of the ledger. The lease only saves work: what
//! must not happen twice is prevented by objects that are created once (see [`store`]), so two processes that both
//! believe to be the one do no harm. Every step can be repeated after a crash.

mod collect;
mod plan;
mod queue;
mod runners;
mod store;
mod submit;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stemma_engine::Ports;
use stemma_engine::ledger::{DeliveryKind, Lease, Ledger};
use stemma_llm::batch::BatchProvider;
use stemma_llm::client::ModelClient;
use stemma_llm::request::LlmError;
use stemma_store::env::Millis;
use stemma_store::model_status::ModelBatch;
use stemma_store::spend::{CallReservation, SpendAmount};
use stemma_store::{Failure, JobId, PortError, RunId, RunRef, TaskKey};
use tokio_util::sync::CancellationToken;

use self::queue::BatchQueue;

pub use self::runners::run_batches;
pub(crate) use self::store::{BatchItem, BatchStore, StoredResult, item_id};

/// Settings of a runner. They change when requests are asked, never what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSettings {
    /// Most requests in one batch; the provider's limit if that is lower.
    pub max_requests: usize,
    /// A batch is sent when no request has arrived for this long, or at the latest ten times later.
    pub gather: Duration,
    /// How often a batch is asked for.
    pub poll: Duration,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self {
            max_requests: 10_000,
            gather: Duration::from_secs(60),
            poll: Duration::from_secs(60),
        }
    }
}

/// Most bytes of the lines of one batch: below every provider's limit, and what a worker can hold.
const MAX_BATCH_BYTES: usize = 64 << 20;
// How long the lease of a runner is valid, and how often it is renewed.
const LEASE_DURATION: Duration = Duration::from_secs(60);
const LEASE_RENEWAL: Duration = Duration::from_secs(15);
// Providers end a batch within a day. What it holds on accounts is given back some hours later at the latest.
const RESERVATION_TIMEOUT: Duration = Duration::from_secs(30 * 3_600);
// Concurrent calls to the store for the items of a batch.
const CALLS_AT_ONCE: usize = 16;

/// Who pays for a batch.
#[async_trait]
pub(crate) trait BatchPayer: Send + Sync {
    /// Reserves the highest cost of a request on the jobs that wait for a run.
    ///
    /// # Errors
    /// A [`Failure`] if a budget does not cover it; the request then waits.
    async fn reserve(&self, run: &RunRef, request: &CallReservation) -> Result<(), Failure>;

    /// Replaces a reservation by the actual cost.
    async fn settle(&self, run: &RunRef, request: &CallReservation, used: SpendAmount);

    /// The jobs that wait for a run.
    ///
    /// # Errors
    /// A [`Failure`] if that is not known now.
    async fn jobs(&self, run: &RunRef) -> Result<Vec<JobId>, Failure>;

    /// Pauses the jobs that wait for a run, because the provider takes no batches of theirs.
    async fn pause(&self, run: &RunRef);
}

/// Runs the batches of one model.
pub(crate) struct BatchRunner {
    ports: Ports,
    client: Arc<ModelClient>,
    payer: Arc<dyn BatchPayer>,
    settings: BatchSettings,
    process: String,
}

/// Why a step was not completed. It is repeated.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Port(#[from] PortError),
    #[error(transparent)]
    Provider(#[from] LlmError),
    #[error(transparent)]
    Payer(#[from] Failure),
}

impl BatchRunner {
    /// Runs until `stop`. A step that has begun is completed, unless that takes longer than `grace`.
    async fn run(self, stop: CancellationToken, grace: Duration) {
        if self.client.batches().is_none() {
            return;
        }
        let mut queues = BTreeMap::new();
        let every = self.settings.poll.min(self.settings.gather);
        while !stop.is_cancelled() {
            tokio::select! {
                biased;
                () = async { stop.cancelled().await; self.ports.env.sleep(grace).await } => return,
                () = self.round(&mut queues) => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.ports.env.sleep(every) => {}
            }
        }
    }

    // One round over all collections, if this process is the one that does it.
    async fn round(&self, queues: &mut BTreeMap<String, BatchQueue>) {
        match self.lease().await {
            Ok(Lease::Granted { .. }) => {}
            // Whoever takes over has to learn the state from the store.
            Ok(_) | Err(_) => {
                queues.clear();
                return self.client.report_batches(Vec::new());
            }
        }
        let steps = async {
            if let Err(error) = self.advance(queues).await {
                tracing::warn!(bucket = self.client.bucket(), %error, "batches interrupted; they continue next time");
            }
        };
        tokio::select! {
            biased;
            () = steps => {}
            () = self.keep_lease() => {}
        }
    }

    async fn advance(&self, queues: &mut BTreeMap<String, BatchQueue>) -> Result<(), StepError> {
        let bucket = self.client.bucket();
        for collection in store::collections(&self.ports.blobs, bucket).await? {
            let queue = queues.entry(collection).or_insert_with_key(|collection| {
                BatchQueue::new(BatchStore::new(&self.ports.blobs, collection, bucket))
            });
            // One collection whose batches cannot go on does not stop the others.
            if let Err(error) = self.advance_queue(queue).await {
                tracing::warn!(bucket, collection = queue.store.collection, %error, "a batch is interrupted; it continues next time");
            }
        }
        let open: Vec<ModelBatch> = queues.values().flat_map(BatchQueue::status).collect();
        self.client.report_batches(open);
        Ok(())
    }

    async fn advance_queue(&self, queue: &mut BatchQueue) -> Result<(), StepError> {
        queue.load(self.ports.env.now_ms()).await?;
        for seq in queue.open.keys().copied().collect::<Vec<u64>>() {
            self.advance_batch(queue, seq).await?;
        }
        while let Some(seq) = self.plan_batch(queue).await? {
            self.advance_batch(queue, seq).await?;
        }
        Ok(())
    }

    async fn advance_batch(&self, queue: &mut BatchQueue, seq: u64) -> Result<(), StepError> {
        let Some(batch) = queue.open.get(&seq) else {
            return Ok(());
        };
        if batch.submission.is_none() {
            self.submit_batch(queue, seq).await
        } else {
            self.poll_batch(queue, seq).await
        }
    }

    fn provider(&self) -> Result<&dyn BatchProvider, LlmError> {
        self.client.batches().ok_or(LlmError::Configuration {
            status: 404,
            message: "the provider has no batches".into(),
        })
    }

    // What a request holds on the accounts of its jobs.
    fn reservation(&self, item: &BatchItem) -> CallReservation {
        CallReservation {
            id: request_number(&item.id),
            max: self.client.batch_cost(item.most),
            timeout: RESERVATION_TIMEOUT,
        }
    }

    async fn lease(&self) -> Result<Lease, PortError> {
        let key = TaskKey::builder("batches", 1)
            .text(self.client.bucket())
            .finish();
        let run = RunId("batches".into());
        let now = self.ports.env.now_ms();
        let until = now + as_millis(LEASE_DURATION);
        let ledger = &self.ports.ledger;
        ledger
            .lease(
                &run,
                &key,
                &self.process,
                now,
                until,
                DeliveryKind::Published,
            )
            .await
    }

    async fn keep_lease(&self) {
        loop {
            self.ports.env.sleep(LEASE_RENEWAL).await;
            if let Err(error) = self.lease().await {
                tracing::warn!(%error, "cannot renew the lease of the batches");
            }
        }
    }
}

/// A number for a request that is the same in each process.
fn request_number(item: &str) -> u64 {
    item.get(..16)
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .unwrap_or_default()
}

fn as_millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX / 2)
}
