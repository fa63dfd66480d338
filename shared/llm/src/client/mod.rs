//! The one way to a model: breaker, shared limits, the call, and what it says about both (rule 11).
//!
//! The gate decides nothing about retries: it turns every ending into the [`Failure`] that says what happens to the task.

mod estimate;
mod permit;
mod permit_queue;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stemma_engine::env::Millis;
use stemma_engine::heartbeat::ModelStatus;
use stemma_engine::jobs::SpendAmount;
use stemma_engine::limit::{Limiter, MemoryLimiter, Quota, ReportedLimits};
use stemma_engine::{Env, Failure, Priority};
use tracing::{Instrument, field};

use self::estimate::{CallSize, TokenEstimator};
use self::permit::AdmissionQueue;
pub use self::settings::ModelClientSettings;
use crate::breaker::{Admission, Breaker};
use crate::embeddings::{Embedder, EmbeddingReply, TextBatch};
use crate::metrics;
use crate::model_stats::ModelStats;
use crate::prices::CallBudget;
use crate::request::{DEFAULT_PAUSE, Llm, LlmError, LlmReply, LlmRequest, TokenUsage};

/// How long no one asks after a refusal that says nothing about time, where a slower rate is learned from it.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
/// The longest such pause.
const LONG_PAUSE: Duration = Duration::from_secs(16);

/// The way to one model, by a client `C`: one that writes ([`ModelClient::complete`]) or one that makes vectors ([`ModelClient::embed`]). One per
/// process and model; shared by all its tasks.
pub struct ModelClient<C: ?Sized = dyn Llm> {
    env: Env,
    limiter: Arc<dyn Limiter>,
    client: Arc<C>,
    settings: ModelClientSettings,
    /// This process's share, while the shared limits cannot be asked: slow, not open.
    fallback_limiter: MemoryLimiter,
    bulk: AdmissionQueue,
    interactive: AdmissionQueue,
    breaker: Mutex<Breaker>,
    stats: Mutex<ModelStats>,
    estimator: Mutex<TokenEstimator>,
}

impl ModelClient {
    /// A gate before `llm`, under the limits that `limiter` shares.
    pub fn new(
        env: Env,
        limiter: Arc<dyn Limiter>,
        llm: Arc<dyn Llm>,
        settings: ModelClientSettings,
    ) -> Self {
        Self::with_provider(env, limiter, llm, settings)
    }

    /// Asks once, when breaker, limits and `purse` let it through.
    ///
    /// # Errors
    /// The [`Failure`] that says what happens to the task, with what the failed reply cost, if there was one:
    /// throttled and uncounted while the breaker is open, no permit is to be had within 30 s of its turn, the provider asks for a
    /// pause or serves no one; transient when a call failed; permanent when the provider refuses this request, or has
    /// been away for longer than patience.
    pub async fn complete(
        &self,
        request: &LlmRequest,
        class: Priority,
        budget: &dyn CallBudget,
    ) -> Result<TimedReply, CallError> {
        let stage = request.schema.name;
        let prompt_tokens = request.prompt_tokens();
        let sketch = CallSize {
            stage,
            prompt_tokens,
            max_output_tokens: request.max_output_tokens,
        };
        let call = async {
            let reply = self.client.complete(request).await?;
            Ok(ProviderReply {
                usage: reply.usage,
                rate_limits: reply.rate_limits,
                value: reply,
            })
        };
        let (reply, ReplyStats { took_ms, at_ms, .. }) = self
            .call(sketch, (class, request.urgency), budget, call)
            .await?;
        Ok(TimedReply {
            reply,
            took_ms,
            at_ms,
        })
    }
}

impl ModelClient<dyn Embedder> {
    /// A gate before what makes vectors, under the limits that `limiter` shares.
    pub fn for_embeddings(
        env: Env,
        limiter: Arc<dyn Limiter>,
        client: Arc<dyn Embedder>,
        settings: ModelClientSettings,
    ) -> Self {
        Self::with_provider(env, limiter, client, settings)
    }

    /// Makes the vectors of a batch once, when breaker, limits and `purse` let it through.
    ///
    /// # Errors
    /// As [`ModelClient::complete`].
    pub async fn embed(
        &self,
        batch: &TextBatch<'_>,
        class: Priority,
        budget: &dyn CallBudget,
    ) -> Result<(EmbeddingReply, ReplyStats), CallError> {
        let sketch = CallSize {
            stage: EMBED_STAGE,
            prompt_tokens: batch.tokens,
            max_output_tokens: 0,
        };
        let call = async {
            let reply = self.client.embed(batch.texts).await?;
            Ok(ProviderReply {
                usage: reply.usage,
                rate_limits: reply.rate_limits,
                value: reply,
            })
        };
        self.call(sketch, (class, 0), budget, call).await
    }
}

/// The stage of calls that make vectors.
pub const EMBED_STAGE: &str = "embed";

/// A reply of any kind, and what is known of it.
struct ProviderReply<T> {
    value: T,
    usage: TokenUsage,
    rate_limits: ReportedLimits,
}

impl<C: ?Sized + Send + Sync> ModelClient<C> {
    fn with_provider(
        env: Env,
        limiter: Arc<dyn Limiter>,
        client: Arc<C>,
        settings: ModelClientSettings,
    ) -> Self {
        let bulk = AdmissionQueue::new(&settings, Priority::Bulk);
        let interactive = AdmissionQueue::new(&settings, Priority::Interactive);
        let (breaker, stats, estimator) = Default::default();
        let fallback_limiter = MemoryLimiter::default();
        Self {
            env,
            limiter,
            client,
            settings,
            fallback_limiter,
            bulk,
            interactive,
            breaker,
            stats,
            estimator,
        }
    }

    /// Makes a call when breaker, limits and `purse` let it through, and tells them what came of it.
    async fn call<T>(
        &self,
        call_size: CallSize,
        (class, urgency): (Priority, u8),
        budget: &dyn CallBudget,
        call: impl Future<Output = Result<ProviderReply<T>, LlmError>>,
    ) -> Result<(T, ReplyStats), CallError> {
        let admission = self.check_breaker(class)?;
        let wait_started_ms = self.env.now_ms();
        let permit = self
            .acquire_permit(class, urgency, || {
                self.estimator().expected_tokens(call_size)
            })
            .await;
        metrics::record_wait(
            &self.settings.bucket,
            self.env.now_ms().saturating_sub(wait_started_ms),
        );
        let (_slot, estimated) = permit?;
        self.recheck_breaker(admission, estimated)?;
        let max_cost = self
            .settings
            .prices
            .cost(self.estimator().max_usage(call_size));
        if let Err(failure) = budget.reserve(max_cost).await {
            self.settle(estimated, 0);
            return Err(failure.into());
        }
        let began_ms = self.env.now_ms();
        let calling = self.track_call();
        let span = tracing::info_span!(
            "call",
            bucket = self.settings.bucket,
            outcome = field::Empty
        );
        let result = call.instrument(span.clone()).await;
        drop(calling);
        let at_ms = self.env.now_ms();
        let took_ms = at_ms.saturating_sub(began_ms);
        let outcome = result.as_ref().map_or_else(LlmError::code, |_| "answered");
        span.record("outcome", outcome);
        metrics::record_call(&self.settings.bucket, outcome, took_ms);
        let used = match &result {
            Ok(reply) => self.cost(reply.usage),
            Err(LlmError::Unreadable { usage, .. }) => self.cost(*usage),
            // It may have been read and answered to no one.
            Err(LlmError::TimedOut(_)) => max_cost,
            Err(_) => self.cost(TokenUsage::default()),
        };
        budget.settle(max_cost, used).await;
        match result {
            Ok(ProviderReply {
                value: what,
                usage,
                rate_limits: stated,
            }) => {
                self.breaker().record_success();
                metrics::record_tokens(&self.settings.bucket, usage);
                self.stats().record_reply(at_ms, took_ms, usage);
                self.estimator().record_reply(call_size, usage);
                self.settle(estimated, usage.total());
                self.report_rate_limits(stated);
                Ok((
                    what,
                    ReplyStats {
                        usage,
                        took_ms,
                        at_ms,
                    },
                ))
            }
            Err(error) => Err(self.on_error(&error, admission, class, estimated, took_ms)),
        }
    }

    /// The model behind it.
    pub fn model(&self) -> &str {
        &self.settings.model
    }

    /// The bucket of the shared limits it asks.
    pub fn bucket(&self) -> &str {
        &self.settings.bucket
    }

    /// What `usage` costs.
    pub fn cost(&self, usage: TokenUsage) -> SpendAmount {
        self.settings.prices.cost(usage)
    }

    /// Live numbers for the beat of this process, cheap to read.
    pub fn heartbeat(&self) -> ModelStatus {
        let breaker_open_until_ms = self.breaker().open_until_ms();
        let (beat, stated) = {
            let meter = self.stats();
            (meter.heartbeat(self.env.now_ms()), meter.rate_limits)
        };
        let limit = |configured: u32, stated: Option<u32>| match (configured, stated) {
            (configured, Some(stated))
                if stated < Quota::UNKNOWN && (configured == 0 || stated < configured) =>
            {
                stated
            }
            (configured, _) => configured,
        };
        let requests_limit = limit(self.settings.requests_per_minute, stated.0);
        let tokens_limit = limit(self.settings.tokens_per_minute, stated.1);
        ModelStatus {
            breaker_open_until_ms,
            requests_limit,
            tokens_limit,
            ..beat
        }
    }

    /// Now, by the clock of its world.
    pub(crate) fn now_ms(&self) -> Millis {
        self.env.now_ms()
    }

    /// When a task that begins now gives up.
    pub(crate) fn deadline_ms(&self) -> Millis {
        self.env.now_ms()
            + u64::try_from(self.settings.task_timeout.as_millis()).unwrap_or(u64::MAX / 2)
    }

    fn check_breaker(&self, class: Priority) -> Result<Admission, Failure> {
        let now_ms = self.env.now_ms();
        let (admission, away_ms) = {
            let mut breaker = self.breaker();
            (breaker.admit(now_ms), breaker.outage_ms(now_ms))
        };
        let Admission::Open { until_ms } = admission else {
            return Ok(admission);
        };
        if let Some(lost) = self.outage_failure(class, away_ms) {
            return Err(lost);
        }
        Err(breaker_open_failure(until_ms, now_ms))
    }

    /// A provider that went away while a task waited for its permit is not called.
    fn recheck_breaker(&self, admission: Admission, estimated: u32) -> Result<(), Failure> {
        let open = self.breaker().open_until_ms();
        let now_ms = self.env.now_ms();
        match open.filter(|until_ms| admission == Admission::Closed && *until_ms > now_ms) {
            None => Ok(()),
            Some(until_ms) => {
                self.settle(estimated, 0);
                Err(breaker_open_failure(until_ms, now_ms))
            }
        }
    }

    fn outage_failure(&self, class: Priority, away_ms: Millis) -> Option<Failure> {
        let patience = match class {
            Priority::Bulk => self.settings.patience,
            Priority::Interactive => self.settings.interactive_patience,
        };
        let message = || format!("the provider has been away for {} s", away_ms / 1_000);
        let next = "see that the provider can be reached, then run the failed documents again";
        (u128::from(away_ms) >= patience.as_millis())
            .then(|| Failure::permanent("model.provider_unreachable", message()).with_next(next))
    }

    fn on_error(
        &self,
        error: &LlmError,
        admission: Admission,
        class: Priority,
        estimated: u32,
        took_ms: u64,
    ) -> CallError {
        let now_ms = self.env.now_ms();
        self.stats().record_failure(error.code(), took_ms);
        let away_ms = {
            let mut breaker = self.breaker();
            if error.is_outage() {
                breaker.record_failure(admission, now_ms);
            } else {
                breaker.record_success();
            }
            breaker.outage_ms(now_ms)
        };
        let mut failure = error.failure();
        let mut replied = None;
        match error {
            LlmError::Throttled {
                retry_after: after,
                rate_limits: stated,
            } => {
                self.slow(took_ms);
                let refusals = self
                    .stats()
                    .record_throttle(now_ms.saturating_sub(took_ms), now_ms);
                self.pause(after.unwrap_or_else(|| self.backoff(refusals)));
                self.settle(estimated, 0);
                self.report_rate_limits(*stated);
            }
            LlmError::Unreadable { usage, .. } => {
                self.settle(estimated, usage.total());
                replied = Some(ReplyStats {
                    usage: *usage,
                    took_ms,
                    at_ms: now_ms,
                });
            }
            // It may have been read and answered to no one: the estimate stands.
            LlmError::TimedOut(_) => {}
            LlmError::Configuration { .. } => {
                self.settle(estimated, 0);
                tracing::error!(bucket = self.settings.bucket, %error, "the provider does not serve us; model tasks wait until this is mended");
            }
            LlmError::Unreachable(_) | LlmError::Server { .. } | LlmError::Refused { .. } => {
                self.settle(estimated, 0)
            }
        }
        if error.is_outage() {
            tracing::warn!(bucket = self.settings.bucket, %error, took_ms, "a call failed");
            if let Some(lost) = self.outage_failure(class, away_ms) {
                failure = lost;
            } else if admission == Admission::Probe {
                // While the breaker is open attempts are not counted, its probes neither.
                failure = Failure::throttled(error.code(), error.to_string(), DEFAULT_PAUSE);
            }
        }
        CallError {
            failure,
            stats: replied,
        }
    }

    /// How long no one asks after so many refusals in a row that say nothing about time: twice as long each time.
    fn backoff(&self, refusals: u32) -> Duration {
        let first = if self.settings.is_adaptive() {
            SHORT_PAUSE
        } else {
            DEFAULT_PAUSE
        };
        first
            .saturating_mul(1 << refusals.saturating_sub(1).min(8))
            .min(LONG_PAUSE)
    }

    fn track_call(&self) -> CountGuard<'_> {
        CountGuard::new(&self.stats, |meter| &mut meter.in_call)
    }

    fn track_wait(&self) -> CountGuard<'_> {
        CountGuard::new(&self.stats, |meter| &mut meter.waiting_for_permit)
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn estimator(&self) -> MutexGuard<'_, TokenEstimator> {
        self.estimator
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, class: Priority) -> &AdmissionQueue {
        match class {
            Priority::Bulk => &self.bulk,
            Priority::Interactive => &self.interactive,
        }
    }

    fn stats(&self) -> MutexGuard<'_, ModelStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn breaker_open_failure(until_ms: Millis, now_ms: Millis) -> Failure {
    let message = "the provider is away; no call is made until it may be back";
    Failure::throttled(
        "model.breaker_open",
        message,
        Duration::from_millis(until_ms.saturating_sub(now_ms)),
    )
}

/// A reply and how long it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedReply {
    /// The reply.
    pub reply: LlmReply,
    /// Milliseconds.
    pub took_ms: u64,
    /// When it came.
    pub at_ms: Millis,
}

impl TimedReply {
    /// For the call log.
    pub fn stats(&self) -> ReplyStats {
        ReplyStats {
            usage: self.reply.usage,
            took_ms: self.took_ms,
            at_ms: self.at_ms,
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// What happens to the task.
    pub failure: Failure,
    /// What the provider's reply cost, where one came that is no answer: it belongs in the call log.
    pub stats: Option<ReplyStats>,
}

/// A reply as the call log knows it: what it cost, not what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyStats {
    /// What it cost.
    pub usage: TokenUsage,
    /// Milliseconds.
    pub took_ms: u64,
    /// When it came.
    pub at_ms: Millis,
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            stats: None,
        }
    }
}

/// Counts a task while it waits or calls, however that ends.
struct CountGuard<'a> {
    meter: &'a Mutex<ModelStats>,
    counter: fn(&mut ModelStats) -> &mut u32,
}

impl<'a> CountGuard<'a> {
    fn new(meter: &'a Mutex<ModelStats>, counter: fn(&mut ModelStats) -> &mut u32) -> Self {
        *counter(&mut meter.lock().unwrap_or_else(PoisonError::into_inner)) += 1;
        Self { meter, counter }
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        *(self.counter)(&mut self.meter.lock().unwrap_or_else(PoisonError::into_inner)) -= 1;
    }
}
