//! Waiting for a batch, and its results: stored, recorded, paid, then told to the tasks.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};
use stemma_llm::batch::{BatchPhase, BatchResult};
use stemma_llm::calls::CallRecord;
use stemma_llm::request::LlmError;
use stemma_store::blobs::{Blobs, PutOutcome, put_json};
use stemma_store::env::Millis;
use stemma_store::spend::SpendAmount;
use stemma_store::{Failure, PortResult};

use super::queue::BatchQueue;
use super::store::{BatchItem, BatchStore, ReplyPayment, StoredReply, StoredResult, Submission};
use super::{BatchRunner, CALLS_AT_ONCE, StepError, as_millis, request_number};

// Providers end a batch within a day. One that they no longer know after this time is lost.
const LOST_AFTER_MS: Millis = 30 * 3_600_000;

impl BatchRunner {
    /// Asks how far a batch is. Stops it if nobody needs it, and takes its results if it has ended.
    pub(super) async fn poll_batch(
        &self,
        queue: &mut BatchQueue,
        seq: u64,
    ) -> Result<(), StepError> {
        let now = self.ports.env.now_ms();
        let needed = self.is_needed(queue, seq).await?;
        let Some(batch) = queue.open.get_mut(&seq) else {
            return Ok(());
        };
        let Some(submission) = batch.submission.clone() else {
            return Ok(());
        };
        if !needed && !batch.cancelled {
            batch.cancelled = true;
            tracing::info!(
                batch = batch.plan.name,
                "no run needs the batch; it is cancelled"
            );
            // It may have ended meanwhile; the next poll tells.
            if let Err(error) = self.provider()?.cancel(&submission.id).await {
                tracing::info!(batch = batch.plan.name, %error, "the batch was not cancelled");
            }
        }
        if now < batch.polled_ms + as_millis(self.settings.poll) {
            return Ok(());
        }
        batch.polled_ms = now;
        let status = match self.provider()?.status(&submission.id).await {
            Ok(status) => status,
            Err(LlmError::Configuration { status: 404, .. })
                if now > submission.at_ms + LOST_AFTER_MS =>
            {
                return self
                    .collect(queue, seq, HashMap::new(), submission.at_ms)
                    .await;
            }
            Err(error) => return Err(error.into()),
        };
        batch.done = status.done;
        match status.phase {
            BatchPhase::Running => Ok(()),
            BatchPhase::Rejected(code) => self.on_rejected(queue, seq, &code).await,
            BatchPhase::Ended => {
                let results = self.provider()?.results(&submission.id).await?;
                let results = results.into_iter().collect();
                self.collect(queue, seq, results, submission.at_ms).await
            }
        }
    }

    async fn collect(
        &self,
        queue: &mut BatchQueue,
        seq: u64,
        results: HashMap<String, BatchResult>,
        submitted_ms: Millis,
    ) -> Result<(), StepError> {
        let Some(batch) = queue.open.get(&seq) else {
            return Ok(());
        };
        let store = &queue.store;
        let name = &batch.plan.name;
        let results = &results;
        let items: Vec<Option<BatchItem>> = stream::iter(batch.plan.items.clone())
            .map(|id: String| async move {
                // An item that is gone was completed before a crash.
                let Some(item) = store.item(&id).await? else {
                    return Ok::<_, StepError>(None);
                };
                let result = results.get(&id).unwrap_or(&BatchResult::NotExecuted);
                let now = self.ports.env.now_ms();
                let result = StoredResult::from_result(result);
                let reply = StoredReply {
                    at_ms: now,
                    took_ms: now.saturating_sub(submitted_ms),
                    payment: self.payment(&item, &result).await?,
                    result,
                };
                self.store_result(store, &item, reply).await?;
                Ok(Some(item))
            })
            .buffered(CALLS_AT_ONCE)
            .try_collect()
            .await?;
        // Replies must be durable before what leads to them is removed.
        store.blobs.barrier().await?;
        stream::iter(items.into_iter().flatten())
            .map(PortResult::Ok)
            .try_for_each_concurrent(CALLS_AT_ONCE, |item: BatchItem| async move {
                self.wake(&item).await?;
                store.remove_item(&item.id).await
            })
            .await?;
        let executed = results
            .values()
            .filter(|result| **result != BatchResult::NotExecuted)
            .count();
        tracing::info!(
            batch = name,
            requests = batch.plan.items.len(),
            executed,
            "batch ended"
        );
        if executed > 0 {
            queue.rejections = 0;
        }
        let submission = batch.submission.clone();
        self.end(queue, seq, "").await?;
        if let Some(submission) = submission {
            self.remove_requests(&submission).await;
        }
        Ok(())
    }

    // The requests contain text of documents, and providers limit what they store. After a crash before this they stay until the
    // provider removes them.
    async fn remove_requests(&self, submission: &Submission) {
        let removed = match self.provider() {
            Ok(provider) => provider.remove_requests(&submission.id).await,
            Err(_) => return, // the results were read from one
        };
        if let Err(error) = removed {
            tracing::info!(id = submission.id, %error, "the provider keeps the requests of a batch");
        }
    }

    // Who pays is stored with the reply, once. While it is not known, the step fails and is repeated.
    async fn payment(
        &self,
        item: &BatchItem,
        result: &StoredResult,
    ) -> Result<Option<ReplyPayment>, Failure> {
        let Some(usage) = result.billed() else {
            return Ok(None);
        };
        Ok(Some(ReplyPayment {
            cost: self.client.batch_cost(usage),
            jobs: self.payer.jobs(&item.run).await?,
        }))
    }

    // The record is written once and settles the reservation only then, so a repeated step pays nothing twice.
    async fn store_result(
        &self,
        store: &BatchStore,
        item: &BatchItem,
        reply: StoredReply,
    ) -> Result<(), StepError> {
        let (reply, mut is_new) = store.store_reply(&item.id, reply).await?;
        let mut used = SpendAmount::NOTHING;
        if let Some(usage) = reply.result.billed() {
            let cost = reply.payment.as_ref().map(|payment| payment.cost);
            used = cost.unwrap_or_else(|| self.client.batch_cost(usage));
            let jobs = match reply.payment {
                Some(payment) => payment.jobs,
                None => self.payer.jobs(&item.run).await?,
            };
            let record = CallRecord {
                at_ms: reply.at_ms,
                run: item.run.run.clone(),
                task: item.task,
                stage: item.stage.clone(),
                attempt: item.attempt,
                request: item.request.clone(),
                model: item.model.clone(),
                usage,
                took_ms: reply.took_ms,
                useful: matches!(reply.result, StoredResult::Reply { .. }),
                jobs,
                batch: true,
            };
            let key = record.key(&store.collection, request_number(&item.id), cost);
            let blobs = store.blobs.with_long_retries();
            is_new = put_json(&blobs, &key, &record).await? == PutOutcome::Created;
            if is_new {
                self.client.record_batch_reply(usage);
            }
        }
        if is_new {
            let request = self.reservation(item);
            self.payer.settle(&item.run, &request, used).await;
        }
        Ok(())
    }
}
