//! Waiting for a permit, and telling the shared limits what came of it.
//!
//! Tasks of a process wait in a line: one of each class asks the shared limits, the others stand behind it. So a large
//! request is not passed by small ones for ever, and a limit is asked as often as it grants. A line that moves is stayed
//! in: who leaves it stands behind everyone else when it comes back, and where many leave at once no one asks.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use stemma_engine::env::Millis;
use stemma_engine::limit::{Limiter, Permit, Quota, ReportedLimits, RequestCost};
use stemma_engine::{Failure, PortError, Priority};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::permit_queue::{PermitQueue, PermitTicket};
use super::{ModelClient, ModelClientSettings};

/// How long a task waits for a permit, or for a line to move, before it goes back to the queue, uncounted.
const PERMIT_WAIT_MS: Millis = 30_000;
/// How long it stands in a line that moves.
const QUEUE_WAIT_MS: Millis = 150_000;
/// How long who asks the limits waits until it asks again: by then replies may have given back what was estimated for them.
const RETRY_INTERVAL_MS: u64 = 500;
/// A request from so many tokens on lets others pass while it waits for tokens, for some ten seconds: they may use the requests
/// that it leaves.
const LARGE_TOKENS: u32 = 2_000;
const MAX_YIELDS: u32 = 20;
/// How long a task without a permit is away.
const NO_PERMIT_PAUSE: Duration = Duration::from_secs(5);

/// Where the tasks of one class wait.
pub(super) struct AdmissionQueue {
    /// Calls under way.
    slots: Semaphore,
    /// Who asks the limits.
    waiters: PermitQueue,
}

impl AdmissionQueue {
    pub(super) fn new(settings: &ModelClientSettings, class: Priority) -> Self {
        let slots = match (usize::from(settings.concurrency), class) {
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
    /// Waits for a slot of this process and a permit of the shared limits for what `estimate` says, asked when it is this
    /// task's turn: by then others of its kind may have shown how long their replies are. The slot is free again when it
    /// is dropped; with it comes the estimate that was charged.
    pub(super) async fn acquire_permit(
        &self,
        class: Priority,
        urgency: u8,
        estimate: impl Fn() -> u32,
    ) -> Result<(SemaphorePermit<'_>, u32), Failure> {
        let _waiting = self.track_wait();
        let queue = self.queue(class);
        let queued_ms = self.env.now_ms();
        let mut urgency = urgency;
        let mut yields = 0;
        loop {
            let (turn, slot) = self.wait_turn(queue, urgency, queued_ms).await?;
            let until_ms = self.env.now_ms() + PERMIT_WAIT_MS;
            loop {
                let now_ms = self.env.now_ms();
                let cost = RequestCost {
                    class,
                    tokens: estimate(),
                };
                let paused_ms = self.stats().paused_until_ms.saturating_sub(now_ms);
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
                    (urgency, yields) = (u8::MAX, yields + 1);
                    break;
                }
                self.env.sleep(retry_after).await;
            }
        }
    }

    /// Waits until it is this task's turn to ask the limits, as long as the line moves, and for a call that may begin.
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

    /// Asks for a permit; how many milliseconds to wait, where there is none now.
    async fn try_permit(&self, cost: RequestCost, now_ms: Millis) -> Result<Option<u64>, Failure> {
        let quota = self.settings.quota();
        if self.settings.tokens_per_minute > 0 && cost.tokens > self.settings.tokens_per_minute {
            return Err(self.too_large(cost.tokens));
        }
        match self.acquire_shared(quota, cost, now_ms).await {
            Permit::Granted => Ok(None),
            Permit::Wait { after_ms } => Ok(Some(after_ms)),
            Permit::TooLarge { max_tokens: 0 } => Err(self.too_large(cost.tokens)),
            // Larger than a burst: it passes when a whole burst is there, and what it takes beyond that is owed by all.
            Permit::TooLarge {
                max_tokens: largest,
            } => match self
                .acquire_shared(
                    quota,
                    RequestCost {
                        tokens: largest,
                        ..cost
                    },
                    now_ms,
                )
                .await
            {
                Permit::Granted => {
                    self.settle(largest, cost.tokens);
                    Ok(None)
                }
                Permit::Wait { after_ms } => Ok(Some(after_ms)),
                Permit::TooLarge { .. } => Err(self.too_large(cost.tokens)),
            },
        }
    }

    /// Asks the shared limits; while they are away, this process's share of them.
    async fn acquire_shared(&self, quota: Quota, cost: RequestCost, now_ms: Millis) -> Permit {
        match self
            .limiter
            .acquire(&self.settings.bucket, quota, cost, now_ms)
            .await
        {
            Ok(permit) => permit,
            Err(error) => {
                tracing::warn!(bucket = self.settings.bucket, %error, "shared limits are away; going on with a share of them");
                let own = self.share(quota);
                // The same question always gets an answer: memory is never away.
                self.fallback_limiter
                    .acquire(&self.settings.bucket, own, cost, now_ms)
                    .await
                    .unwrap_or(Permit::Wait { after_ms: 1_000 })
            }
        }
    }

    fn share(&self, quota: Quota) -> Quota {
        let workers = self.settings.expected_workers.max(1);
        let share = |rate: u32| {
            if rate == Quota::UNKNOWN {
                rate
            } else {
                (rate / workers).max(1)
            }
        };
        Quota {
            requests_per_minute: share(quota.requests_per_minute),
            tokens_per_minute: share(quota.tokens_per_minute),
            ..quota
        }
    }

    fn too_large(&self, tokens: u32) -> Failure {
        let message = format!(
            "a request of about {tokens} tokens can never pass the limits of {}",
            self.settings.bucket
        );
        Failure::permanent("model.request_too_large", message)
            .with_next("raise model.tokens_per_minute, or lower model.max_prompt_tokens")
    }

    /// Corrects an estimate, beside the caller: a limiter that is slow must not hold up a reply that was paid for.
    pub(super) fn settle(&self, estimated: u32, used: u32) {
        if estimated == used {
            return;
        }
        let quota = self.settings.quota();
        self.update_limiter(move |limiter, bucket, _| async move {
            limiter.settle(&bucket, quota, estimated, used).await
        });
    }

    /// No one asks before the pause is over, neither here nor elsewhere.
    pub(super) fn pause(&self, pause: Duration) {
        let until_ms = self.env.now_ms() + millis(pause);
        {
            let mut meter = self.stats();
            if until_ms <= meter.paused_until_ms {
                return;
            }
            meter.paused_until_ms = until_ms;
        }
        self.update_limiter(move |limiter, bucket, _| async move {
            limiter.pause(&bucket, until_ms).await
        });
    }

    /// Everyone is slower from now on, where no limit is known: a call that began `age_ms` ago was one too many.
    pub(super) fn slow(&self, age_ms: u64) {
        if self.settings.is_adaptive() {
            self.update_limiter(move |limiter, bucket, now_ms| async move {
                limiter.decrease_rate(&bucket, age_ms, now_ms).await
            });
        }
    }

    /// Hands on what the provider says about its limits, where it is new or where little is left.
    pub(super) fn report_rate_limits(&self, reported: ReportedLimits) {
        let reported = reported.paced();
        let limits = (reported.requests_per_minute, reported.tokens_per_minute);
        let quota = self.settings.quota();
        {
            let mut meter = self.stats();
            let is_new = limits != (None, None) && meter.rate_limits != limits;
            if !is_new && !runs_low(quota, reported) {
                return;
            }
            meter.rate_limits = if is_new { limits } else { meter.rate_limits };
        }
        self.update_limiter(move |limiter, bucket, now_ms| async move {
            limiter
                .report_limits(&bucket, quota, reported, now_ms)
                .await
        });
    }

    /// Tells the shared limits something, beside the caller. They are a help and never the reason for a failure.
    fn update_limiter<F: Future<Output = Result<(), PortError>> + Send + 'static>(
        &self,
        update: impl FnOnce(Arc<dyn Limiter>, String, Millis) -> F + Send + 'static,
    ) {
        let limiter = Arc::clone(&self.limiter);
        let bucket = self.settings.bucket.clone();
        let now_ms = self.env.now_ms();
        self.env.spawn(async move {
            if let Err(error) = update(limiter, bucket.clone(), now_ms).await {
                tracing::warn!(bucket, %error, "shared limits are away; a correction is lost");
            }
        });
    }
}

/// Whether less is left than a burst might take.
fn runs_low(quota: Quota, stated: ReportedLimits) -> bool {
    let low = |remaining: Option<u32>, limit: Option<u32>, quota: u32, seconds: u32| {
        let limit = u64::from(limit.unwrap_or(quota).min(quota));
        remaining.is_some_and(|remaining| {
            limit < u64::from(Quota::UNKNOWN)
                && u64::from(remaining) <= limit * u64::from(seconds) / 60 + 2
        })
    };
    low(
        stated.requests_remaining,
        stated.requests_per_minute,
        quota.requests_per_minute,
        quota.burst_seconds,
    ) || low(
        stated.tokens_remaining,
        stated.tokens_per_minute,
        quota.tokens_per_minute,
        quota.token_burst_seconds,
    )
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 2)
}
