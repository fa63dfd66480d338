//! Submission: a batch reaches its provider once, whoever dies meanwhile.
//!
//! A submission that was begun may have reached the provider, so nothing is submitted again before the provider was asked
//! for it, and before every request of the first attempt must have arrived.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use stemma_llm::batch::{BatchName, FoundBatch};
use stemma_llm::http::FILE_TIMEOUT;
use stemma_llm::request::LlmError;
use stemma_store::PortResult;
use stemma_store::blobs::{Blobs, PutOutcome};
use stemma_store::env::Millis;
use stemma_store::spend::SpendAmount;

use super::queue::BatchQueue;
use super::store::{BatchEnd, BatchItem, Submission};
use super::{BatchRunner, CALLS_AT_ONCE, StepError, as_millis};

// How long a submission may be under way: an upload and a request, and as long again.
const ATTEMPT_MS: Millis = 4 * FILE_TIMEOUT.as_millis() as Millis;
// A submission begins within this time after its record. A process that was frozen does not begin it.
const BEGIN_MS: Millis = 60_000;
// Delay after a provider has refused a batch; it doubles up to an hour.
const FIRST_HOLD: Duration = Duration::from_secs(60);
const MAX_HOLD_MS: Millis = 3_600_000;
// Rejections in a row after which the jobs are paused.
const MAX_REJECTIONS: u32 = 5;

impl BatchRunner {
    /// Brings a planned batch to the provider, or finds it there.
    pub(super) async fn submit_batch(
        &self,
        queue: &mut BatchQueue,
        seq: u64,
    ) -> Result<(), StepError> {
        let now = self.ports.env.now_ms();
        let needed = self.is_needed(queue, seq).await?;
        let Some(batch) = queue.open.get(&seq) else {
            return Ok(());
        };
        let name = BatchName {
            name: &batch.plan.name,
            lines: &batch.plan.items,
            since_ms: batch.plan.planned_ms,
        };
        if let Some((_, since_ms)) = batch.attempt {
            match self.provider()?.find(&name).await? {
                FoundBatch::Submitted(id) => return self.record_submission(queue, seq, id).await,
                FoundBatch::Missing if now >= since_ms + ATTEMPT_MS => {}
                FoundBatch::Missing | FoundBatch::Undecided => return Ok(()),
            }
        }
        if !needed {
            return self.abandon(queue, seq).await;
        }
        if now < queue.hold_until_ms {
            return Ok(());
        }
        let items = self.items(queue, seq).await?;
        if items.len() < batch.plan.items.len() {
            // Only a power loss before the barrier below removes items, so nothing was submitted.
            self.end(queue, seq, "items_missing").await?;
            self.release_reservations(&items).await;
            return Ok(());
        }
        let lines: Vec<String> = items.into_iter().map(|item| item.line).collect();
        let number = batch.attempt.map_or(1, |(number, _)| number + 1);
        let began_ms = self.ports.env.now_ms();
        let record = format!("attempt-{number}");
        if queue.store.write(seq, &record, &began_ms).await? == PutOutcome::Exists {
            queue.reload();
            return Ok(());
        }
        // Plan and attempt must outlive what they lead to.
        queue.store.blobs.barrier().await?;
        if self.ports.env.now_ms() > began_ms + BEGIN_MS {
            queue.reload();
            return Ok(());
        }
        let submitted = self.provider()?.submit(&name, &lines).await;
        if let Some(batch) = queue.open.get_mut(&seq) {
            batch.attempt = Some((number, self.ports.env.now_ms()));
        }
        match submitted {
            Ok(id) => self.record_submission(queue, seq, id).await,
            Err(error) => self.on_submit_error(queue, seq, error).await,
        }
    }

    async fn record_submission(
        &self,
        queue: &mut BatchQueue,
        seq: u64,
        id: String,
    ) -> Result<(), StepError> {
        let ours = Submission {
            id,
            at_ms: self.ports.env.now_ms(),
        };
        let mut counts = Some(ours.clone());
        if queue.store.write(seq, "submitted", &ours).await? == PutOutcome::Exists {
            counts = queue.store.read_or_remove(seq, "submitted").await?;
            // A torn record was removed, and is made again.
            if counts.is_none() {
                queue.store.write(seq, "submitted", &ours).await?;
                counts = Some(ours.clone());
            }
        }
        // Two processes submitted the same plan. The other batch counts, so ours is stopped before it costs much.
        if counts
            .as_ref()
            .is_some_and(|first: &Submission| first.id != ours.id)
        {
            tracing::error!(
                id = ours.id,
                "a batch was submitted twice; the second is cancelled"
            );
            self.provider()?.cancel(&ours.id).await?;
        }
        if let Some(batch) = queue.open.get_mut(&seq) {
            tracing::info!(batch = batch.plan.name, id = ours.id, "batch submitted");
            batch.submission = counts;
            batch.polled_ms = self.ports.env.now_ms();
        }
        Ok(())
    }

    async fn on_submit_error(
        &self,
        queue: &mut BatchQueue,
        seq: u64,
        error: LlmError,
    ) -> Result<(), StepError> {
        let is_refused = matches!(
            error,
            LlmError::Throttled { .. } | LlmError::Configuration { .. } | LlmError::Refused { .. }
        );
        if is_refused {
            // The provider has answered that there is no batch, so the next attempt need not wait.
            if let Some((_, since_ms)) = queue
                .open
                .get_mut(&seq)
                .and_then(|batch| batch.attempt.as_mut())
            {
                *since_ms = 0;
            }
            self.hold(queue);
            if !matches!(error, LlmError::Throttled { .. }) {
                self.pause_payers(queue, seq).await;
            }
        }
        Err(error.into())
    }

    /// A batch that the provider has rejected as a whole. Its requests wait for the next one.
    pub(super) async fn on_rejected(
        &self,
        queue: &mut BatchQueue,
        seq: u64,
        code: &str,
    ) -> Result<(), StepError> {
        tracing::warn!(
            seq,
            code,
            "the provider rejected a batch; its requests go into smaller ones"
        );
        if queue.rejections + 1 >= MAX_REJECTIONS {
            self.pause_payers(queue, seq).await;
        }
        self.hold(queue);
        let items = self.items(queue, seq).await?;
        self.end(queue, seq, code).await?;
        self.release_reservations(&items).await;
        Ok(())
    }

    /// Whether any run of a batch may still need its replies.
    pub(super) async fn is_needed(&self, queue: &mut BatchQueue, seq: u64) -> PortResult<bool> {
        let Some(batch) = queue.open.get_mut(&seq) else {
            return Ok(false);
        };
        // Ended runs stay ended, so in most rounds one look is enough.
        while let Some(run) = batch.plan.runs.get(batch.first_alive) {
            if self.is_alive(run).await? {
                return Ok(true);
            }
            batch.first_alive += 1;
        }
        Ok(false)
    }

    /// Records that nothing is left to do for a batch.
    pub(super) async fn end(
        &self,
        queue: &mut BatchQueue,
        seq: u64,
        code: &str,
    ) -> Result<(), StepError> {
        let end = BatchEnd {
            at_ms: self.ports.env.now_ms(),
            code: code.into(),
        };
        queue.store.write(seq, "ended", &end).await?;
        queue.open.remove(&seq);
        Ok(())
    }

    // Ends a batch that never reached the provider and that nobody needs.
    async fn abandon(&self, queue: &mut BatchQueue, seq: u64) -> Result<(), StepError> {
        let items = self.items(queue, seq).await?;
        self.end(queue, seq, "cancelled").await?;
        self.release_reservations(&items).await;
        for item in &items {
            queue.store.remove_item(&item.id).await?;
        }
        Ok(())
    }

    // After a crash before this, what was reserved is given back when its time is over.
    pub(super) async fn release_reservations(&self, items: &[BatchItem]) {
        for item in items {
            let request = self.reservation(item);
            self.payer
                .settle(&item.run, &request, SpendAmount::NOTHING)
                .await;
        }
    }

    // The items of a batch that exist.
    async fn items(&self, queue: &BatchQueue, seq: u64) -> PortResult<Vec<BatchItem>> {
        let ids = queue.open.get(&seq).map(|batch| batch.plan.items.clone());
        let store = &queue.store;
        let items: Vec<Option<BatchItem>> = stream::iter(ids.unwrap_or_default())
            .map(|id: String| async move { store.item(&id).await })
            .buffered(CALLS_AT_ONCE)
            .try_collect()
            .await?;
        Ok(items.into_iter().flatten().collect())
    }

    async fn pause_payers(&self, queue: &BatchQueue, seq: u64) {
        let runs = queue.open.get(&seq).map(|batch| batch.plan.runs.as_slice());
        for run in runs.unwrap_or_default() {
            self.payer.pause(run).await;
        }
    }

    fn hold(&self, queue: &mut BatchQueue) {
        let delay = as_millis(FIRST_HOLD) << queue.rejections.min(6);
        queue.rejections += 1;
        queue.hold_until_ms = self.ports.env.now_ms() + delay.min(MAX_HOLD_MS);
    }
}
