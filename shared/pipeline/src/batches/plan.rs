//! Planning: which requests go into the next batch.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};
use stemma_engine::queue::{Lane, Message, Queue, QueueName};
use stemma_store::blobs::{Blobs, PutOutcome};
use stemma_store::env::Millis;
use stemma_store::key::run_failure_key;
use stemma_store::{PortResult, Priority, RunId, RunRef};

use super::queue::{BatchQueue, OpenBatch};
use super::store::{BatchItem, BatchPlan};
use super::{BatchRunner, CALLS_AT_ONCE, MAX_BATCH_BYTES, StepError, as_millis};

// While requests keep arriving, a batch waits at most so many times as long as for a pause.
const MAX_GATHER: Millis = 10;

// What is in a batch that is being planned.
#[derive(Default)]
struct Draft {
    items: Vec<BatchItem>,
    bytes: usize,
}

impl BatchRunner {
    /// Plans the next batch if enough requests wait, or have waited for long enough. Returns its number.
    pub(super) async fn plan_batch(
        &self,
        queue: &mut BatchQueue,
    ) -> Result<Option<u64>, StepError> {
        let now = self.ports.env.now_ms();
        let max_requests = self.max_requests(queue)?;
        let mut candidates = self.waiting_requests(queue, now).await?;
        if now < queue.hold_until_ms || !self.is_ready(queue, max_requests, now) {
            return Ok(None);
        }
        candidates.sort_by_key(|id| (queue.waiting.get(id).copied(), id.clone()));
        let mut draft = self.draft(queue, candidates, max_requests).await?;
        if draft.items.is_empty() {
            return Ok(None);
        }
        let mut runs: Vec<RunRef> = draft.items.iter().map(|item| item.run.clone()).collect();
        runs.sort();
        runs.dedup();
        let seq = queue.next_seq;
        let plan = BatchPlan {
            name: format!("stemma-{seq}-{:016x}", self.ports.env.random()),
            planned_ms: now,
            items: draft.items.iter().map(|item| item.id.clone()).collect(),
            runs,
        };
        if queue.store.write(seq, "plan", &plan).await? == PutOutcome::Exists {
            // The plan of another process, or our own from before a write that failed or whose reply was lost.
            let stored: Option<BatchPlan> = queue.store.read(seq, "plan").await?;
            let is_ours = stored
                .as_ref()
                .is_some_and(|stored| stored.name == plan.name);
            if !is_ours {
                // A request has one reservation, whatever plan it is in.
                let stored_ids = stored.map(|stored| stored.items).unwrap_or_default();
                draft.items.retain(|item| !stored_ids.contains(&item.id));
                self.release_reservations(&draft.items).await;
                queue.reload();
                return Ok(None);
            }
        }
        tracing::info!(
            batch = plan.name,
            requests = plan.items.len(),
            bytes = draft.bytes,
            "batch planned"
        );
        queue.next_seq = seq + 1;
        queue.open.insert(seq, OpenBatch::new(plan));
        Ok(Some(seq))
    }

    // After a rejection the next batch is half as large: providers limit the tokens that wait.
    fn max_requests(&self, queue: &BatchQueue) -> Result<usize, StepError> {
        let most = self
            .settings
            .max_requests
            .min(self.provider()?.max_requests());
        Ok((most >> queue.rejections.min(16)).max(1))
    }

    // The requests that are in no batch.
    async fn waiting_requests(
        &self,
        queue: &mut BatchQueue,
        now: Millis,
    ) -> PortResult<Vec<String>> {
        let mut ids: Vec<String> = queue.store.item_ids().await?;
        let in_batches = queue.in_batches();
        ids.retain(|id| !in_batches.contains(id.as_str()));
        let waiting = ids
            .iter()
            .map(|id| (id.clone(), queue.waiting.get(id).copied().unwrap_or(now)))
            .collect::<HashMap<String, Millis>>();
        queue.waiting = waiting;
        Ok(ids)
    }

    fn is_ready(&self, queue: &BatchQueue, max_requests: usize, now: Millis) -> bool {
        let gather = as_millis(self.settings.gather);
        let times = || queue.waiting.values().copied();
        let (Some(oldest), Some(newest)) = (times().min(), times().max()) else {
            return false;
        };
        queue.waiting.len() >= max_requests
            || now >= newest + gather
            || now >= oldest + MAX_GATHER * gather
    }

    // Takes requests that somebody still needs and pays for, up to the limits of a batch.
    async fn draft(
        &self,
        queue: &mut BatchQueue,
        candidates: Vec<String>,
        max_requests: usize,
    ) -> Result<Draft, StepError> {
        let mut draft = Draft::default();
        let mut alive: HashMap<RunId, bool> = HashMap::new();
        let store = &queue.store;
        let mut loaded = stream::iter(candidates)
            .map(|id: String| async move {
                let item = store.item(&id).await?;
                let is_answered = store.has_reply(&id).await?;
                PortResult::Ok((id, item, is_answered))
            })
            .buffered(CALLS_AT_ONCE);
        while let Some((id, item, is_answered)) = loaded.try_next().await? {
            let Some(item) = item else { continue };
            if is_answered {
                self.wake(&item).await?;
                store.remove_item(&id).await?;
                continue;
            }
            let is_alive = match alive.get(&item.run.run) {
                Some(is_alive) => *is_alive,
                None => self.is_alive(&item.run).await?,
            };
            alive.insert(item.run.run.clone(), is_alive);
            if !is_alive {
                store.remove_item(&id).await?;
                continue;
            }
            if draft.bytes + item.line.len() >= MAX_BATCH_BYTES {
                break;
            }
            let request = self.reservation(&item);
            if let Err(failure) = self.payer.reserve(&item.run, &request).await {
                tracing::debug!(run = %item.run.run, code = failure.code, "a request waits for its budget");
                continue;
            }
            draft.bytes += item.line.len() + 1;
            draft.items.push(item);
            if draft.items.len() == max_requests {
                break;
            }
        }
        Ok(draft)
    }

    /// Whether anybody may still need the run: it has neither failed nor been cancelled.
    pub(super) async fn is_alive(&self, run: &RunRef) -> PortResult<bool> {
        let failure = run_failure_key(&run.run);
        Ok(self.ports.blobs.size(&failure).await?.is_none())
    }

    /// Publishes the task of a request again.
    pub(super) async fn wake(&self, item: &BatchItem) -> PortResult<()> {
        let message = Message::new(item.message.clone().into_bytes());
        let lane = QueueName::Lane(Lane::Llm, Priority::Bulk);
        self.ports.queue.publish(lane, vec![message]).await
    }
}
