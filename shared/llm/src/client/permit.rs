//! Acquires permits from the shared rate limiter and reports usage back to it.
//!
//! Only the task at the head of each priority's queue polls the limiter. Small requests therefore cannot starve a large one, and
//! the limiter is not flooded. Tasks stay in a queue that makes progress, since a task that leaves starts again at its end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use stemma_store::env::Millis;
use stemma_store::limit::{Limiter, MemoryLimiter, Permit, Quota, ReportedLimits, RequestCost};
use stemma_store::{Failure, PortResult, Priority};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::permit_queue::{PermitQueue, PermitTicket};
use super::{CountGuard, ModelClient, ModelClientSettings};

// Maximum wait for a permit, or for a stalled queue, before the task goes back to the job queue. Not counted as an attempt.
const PERMIT_WAIT_MS: Millis = 30_000;
// Limiters forget what is not repeated for ten minutes, or when Redis is lost.
const REPORT_EVERY_MS: Millis = 60_000;
// Maximum wait in a queue that makes progress.
const QUEUE_WAIT_MS: Millis = 150_000;
// Poll more often than the limiter suggests: replies may refund overestimated tokens in the meantime.
const RETRY_INTERVAL_MS: u64 = 500;
// A large request that waits for tokens lets others pass for about ten seconds (20 * 500 ms), so that the request quota it
// leaves is not wasted.
const LARGE_TOKENS: u32 = 2_000;
const MAX_YIELDS: u32 = 20;
// Delay before a task without a permit is delivered again.
const NO_PERMIT_PAUSE: Duration = Duration::from_secs(5);

/// The queue of one priority.
pub(super) struct AdmissionQueue {
    // Limits concurrent calls.
    slots: Semaphore,
    // Orders the tasks that wait for the limiter.
    waiters: PermitQueue,
}

impl AdmissionQueue {
    pub(super) fn new(settings: &ModelClientSettings, priority: Priority) -> Self {
        let slots = match (usize::from(settings.concurrency), priority) {
            (0, _) => Semaphore::MAX_PERMITS,
            (bulk, Priority::Bulk) => bulk,
            (bulk, Priority::Interactive) => bulk.div_ceil(4),
        };
        Self {
            slots: Semaphore::new(slots),
            waiters: PermitQueue::default(),
        }
    }
}

impl<C: ?Sized + Send + Sync> ModelClient<C> {
    /// Waits for a concurrency slot and a permit. Returns the slot, which is released on drop, and the tokens charged.
    ///
    /// `estimate` is called at this task's turn, since replies received in the meantime improve the estimate.
    pub(super) async fn acquire_permit(
        &self,
        priority: Priority,
        urgency: u8,
        estimate: impl Fn() -> u32,
    ) -> Result<(SemaphorePermit<'_>, u32), Failure> {
        let _waiting = CountGuard::new(&self.stats, |stats| &mut stats.waiting_for_permit);
        let queue = match priority {
            Priority::Bulk => &self.bulk,
            Priority::Interactive => &self.interactive,
        };
        let queued_ms = self.env.now_ms();
        let mut urgency = urgency;
        let mut yields = 0;
        loop {
            let (turn, slot) = self.wait_turn(queue, urgency, queued_ms).await?;
            let until_ms = self.env.now_ms() + PERMIT_WAIT_MS;
            loop {
                let now_ms = self.env.now_ms();
                let cost = RequestCost {
                    priority,
                    tokens: estimate(),
                };
                let paused_ms = self.stats.lock().paused_until_ms.saturating_sub(now_ms);
                let after_ms = match paused_ms {
                    0 => match self.try_permit(cost, now_ms).await? {
                        None => {
                            queue.waiters.record_progress(now_ms);
                            return Ok((slot, cost.tokens));
                        }
                        Some(after_ms) => after_ms.max(1),
                    },
                    paused_ms => paused_ms,
                };
                if now_ms + after_ms > until_ms {
                    return Err(self.no_permit());
                }
                let retry_after = Duration::from_millis(after_ms.min(RETRY_INTERVAL_MS));
                let for_tokens =
                    cost.tokens >= LARGE_TOKENS && after_ms > self.settings.request_ms();
                if for_tokens && yields < MAX_YIELDS && queue.waiters.has_waiters() {
                    drop((turn, slot));
                    self.env.sleep(retry_after).await;
                    // Queues again before all others, or the request would starve.
                    urgency = u8::MAX;
                    yields += 1;
                    break;
                }
                self.env.sleep(retry_after).await;
            }
        }
    }

    // Waits for this task's turn and a free slot, as long as the queue makes progress.
    async fn wait_turn<'a>(
        &self,
        queue: &'a AdmissionQueue,
        urgency: u8,
        queued_ms: Millis,
    ) -> Result<(PermitTicket<'a>, SemaphorePermit<'a>), Failure> {
        let mut turn = pin!(async {
            let turn = queue.waiters.wait_turn(urgency).await;
            Some((turn, queue.slots.acquire().await.ok()?))
        });
        loop {
            if let Ok(turn) =
                tokio::time::timeout(Duration::from_millis(PERMIT_WAIT_MS), &mut turn).await
            {
                return turn.ok_or_else(|| self.no_permit());
            }
            let now_ms = self.env.now_ms();
            if queue.waiters.stalled_ms(now_ms) >= PERMIT_WAIT_MS
                || now_ms.saturating_sub(queued_ms) >= QUEUE_WAIT_MS
            {
                return Err(self.no_permit());
            }
        }
    }

    fn no_permit(&self) -> Failure {
        let message = format!(
            "no permit for {} within {} s",
            self.settings.bucket,
            PERMIT_WAIT_MS / 1_000
        );
        Failure::throttled("model.no_permit", message, NO_PERMIT_PAUSE)
    }

    // Returns `None` if granted, else the milliseconds to wait.
    async fn try_permit(&self, cost: RequestCost, now_ms: Millis) -> Result<Option<u64>, Failure> {
        let quota = self.settings.quota();
        if self.settings.tokens_per_minute > 0 && cost.tokens > self.settings.tokens_per_minute {
            return Err(self.too_large(cost.tokens));
        }
        match self.acquire_shared(quota, cost, now_ms).await {
            Permit::Granted => Ok(None),
            Permit::Wait { after_ms } => Ok(Some(after_ms)),
            Permit::TooLarge { max_tokens: 0 } => Err(self.too_large(cost.tokens)),
            // A request larger than a burst takes a full burst and puts the bucket into debt for the rest.
            Permit::TooLarge { max_tokens } => {
                let burst = RequestCost {
                    tokens: max_tokens,
                    ..cost
                };
                match self.acquire_shared(quota, burst, now_ms).await {
                    Permit::Granted => {
                        self.settle(max_tokens, cost.tokens);
                        Ok(None)
                    }
                    Permit::Wait { after_ms } => Ok(Some(after_ms)),
                    Permit::TooLarge { .. } => Err(self.too_large(cost.tokens)),
                }
            }
        }
    }

    // Asks the shared limiter; while it is unavailable, the local share.
    async fn acquire_shared(&self, quota: Quota, cost: RequestCost, now_ms: Millis) -> Permit {
        match self
            .limiter
            .acquire(&self.settings.bucket, quota, cost, now_ms)
            .await
        {
            Ok(permit) => {
                if permit == Permit::Granted {
                    let fallback = &self.fallback_limiter;
                    fallback.record_grant(&self.settings.bucket, cost, now_ms);
                }
                permit
            }
            Err(error) => {
                tracing::warn!(bucket = self.settings.bucket, %error, "the shared rate limiter is unavailable; using this process's share of the quota");
                let share = self.share(quota);
                // The memory limiter never fails; the default only satisfies the type.
                self.fallback_limiter
                    .acquire(&self.settings.bucket, share, cost, now_ms)
                    .await
                    .unwrap_or(Permit::Wait { after_ms: 1_000 })
            }
        }
    }

    fn share(&self, quota: Quota) -> Quota {
        let workers = self.settings.expected_workers.max(1);
        Quota {
            requests_per_minute: rate_share(quota.requests_per_minute, workers),
            tokens_per_minute: rate_share(quota.tokens_per_minute, workers),
            ..quota
        }
    }

    // What the provider reports, divided like the quota.
    fn reported_share(&self, reported: ReportedLimits) -> ReportedLimits {
        let workers = self.settings.expected_workers.max(1);
        let share = |limit: Option<u32>| limit.map(|limit| rate_share(limit, workers));
        // Nothing left is nothing left for all.
        let remaining = |left: Option<u32>| left.map(|left| left / workers);
        ReportedLimits {
            requests_per_minute: share(reported.requests_per_minute),
            tokens_per_minute: share(reported.tokens_per_minute),
            requests_remaining: remaining(reported.requests_remaining),
            tokens_remaining: remaining(reported.tokens_remaining),
        }
    }

    fn too_large(&self, tokens: u32) -> Failure {
        let message = format!(
            "a request of about {tokens} tokens exceeds the rate limit of {}",
            self.settings.bucket
        );
        Failure::permanent("model.request_too_large", message)
            .with_next("raise model.tokens_per_minute or lower model.max_prompt_tokens")
    }

    /// Replaces an estimate with the actual usage, in the background.
    pub(super) fn settle(&self, estimated: u32, used: u32) {
        if estimated == used {
            return;
        }
        self.update_limiters(move |limiter, update| async move {
            limiter
                .settle(&update.bucket, update.quota, estimated, used)
                .await
        });
    }

    /// Pauses all clients of the bucket, including other processes.
    pub(super) fn pause(&self, pause: Duration) {
        let until_ms = self.env.now_ms() + millis(pause);
        {
            let mut stats = self.stats.lock();
            if until_ms <= stats.paused_until_ms {
                return;
            }
            stats.paused_until_ms = until_ms;
        }
        self.update_limiters(move |limiter, update| async move {
            limiter.pause(&update.bucket, until_ms).await
        });
    }

    /// Lowers the adaptive rate after a call that began `age_ms` ago was throttled. No effect under a configured quota.
    pub(super) fn slow(&self, age_ms: u64) {
        if self.settings.is_adaptive() {
            self.update_limiters(move |limiter, update| async move {
                limiter
                    .decrease_rate(&update.bucket, age_ms, update.now_ms)
                    .await
            });
        }
    }

    /// Reports the provider's limits to the shared limiter if they changed, little quota is left, or the last report is a minute
    /// old: limiters forget limits that are not repeated.
    pub(super) fn report_rate_limits(&self, reported: ReportedLimits) {
        let reported = reported.paced();
        let limits = (reported.requests_per_minute, reported.tokens_per_minute);
        let quota = self.settings.quota();
        let now_ms = self.env.now_ms();
        {
            let mut stats = self.stats.lock();
            let is_old = now_ms >= stats.reported_ms + REPORT_EVERY_MS;
            let states_limits = limits != (None, None);
            let is_due = states_limits && (stats.rate_limits != limits || is_old);
            if !is_due && !runs_low(quota, reported) {
                return;
            }
            if is_due {
                stats.rate_limits = limits;
                stats.reported_ms = now_ms;
            }
        }
        let share = self.reported_share(reported);
        self.update_limiters(move |limiter, update| async move {
            let reported = if update.is_fallback { share } else { reported };
            limiter
                .report_limits(&update.bucket, update.quota, reported, update.now_ms)
                .await
        });
    }

    // Tells the shared limiter and the fallback, which must know the same when its turn comes. In the background: a slow or
    // failing limiter must not delay a reply that is already paid for.
    fn update_limiters<F: Future<Output = PortResult<()>> + Send + 'static>(
        &self,
        update: impl Fn(Arc<dyn Limiter>, LimiterUpdate) -> F + Send + 'static,
    ) {
        let shared = LimiterUpdate {
            bucket: self.settings.bucket.clone(),
            quota: self.settings.quota(),
            now_ms: self.env.now_ms(),
            is_fallback: false,
        };
        let fallback = LimiterUpdate {
            quota: self.share(shared.quota),
            is_fallback: true,
            ..shared.clone()
        };
        let limiters: [(Arc<dyn Limiter>, _); 2] = [
            (
                Arc::<MemoryLimiter>::clone(&self.fallback_limiter),
                fallback,
            ),
            (Arc::clone(&self.limiter), shared),
        ];
        self.env.spawn(async move {
            for (limiter, target) in limiters {
                let bucket = target.bucket.clone();
                if let Err(error) = update(limiter, target).await {
                    tracing::warn!(bucket, %error, "the shared rate limiter is unavailable; an update is lost");
                }
            }
        });
    }
}

// What an update of one limiter needs to know.
#[derive(Clone)]
struct LimiterUpdate {
    bucket: String,
    // All of it, or the share of this process.
    quota: Quota,
    now_ms: Millis,
    is_fallback: bool,
}

// Whether less quota is left than one burst may use.
fn runs_low(quota: Quota, reported: ReportedLimits) -> bool {
    is_within_burst(
        reported.requests_remaining,
        reported.requests_per_minute,
        quota.requests_per_minute,
        quota.burst_seconds,
    ) || is_within_burst(
        reported.tokens_remaining,
        reported.tokens_per_minute,
        quota.tokens_per_minute,
        quota.token_burst_seconds,
    )
}

fn is_within_burst(
    remaining: Option<u32>,
    limit: Option<u32>,
    quota: u32,
    burst_seconds: u32,
) -> bool {
    let limit = u64::from(limit.unwrap_or(quota).min(quota));
    remaining.is_some_and(|remaining| {
        limit < u64::from(Quota::UNKNOWN)
            && u64::from(remaining) <= limit * u64::from(burst_seconds) / 60 + 2
    })
}

fn rate_share(rate: u32, workers: u32) -> u32 {
    if rate == Quota::UNKNOWN {
        rate
    } else {
        (rate / workers).max(1)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 2)
}
