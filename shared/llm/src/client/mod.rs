//! Rate-limited, budgeted access to one model, with a circuit breaker.
//!
//! The client does not retry. It maps every error to a [`Failure`] that tells the engine what happens to the task.

mod batched;
mod estimate;
mod permit;
mod permit_queue;
mod reply_limit;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use stemma_store::env::Millis;
use stemma_store::limit::{Limiter, MemoryLimiter, Quota, ReportedLimits};
use stemma_store::model_status::{ModelBatch, ModelStatus};
use stemma_store::spend::{CallReservation, SpendAmount};
use stemma_store::{Env, Failure, Priority};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, field};

use self::estimate::{CallSize, TokenEstimator};
use self::permit::AdmissionQueue;
pub use self::settings::{DEFAULT_MAX_REPLY_TOKENS, ModelClientSettings};
use crate::breaker::{Admission, Breaker};
use crate::embeddings::{Embedder, EmbeddingReply, TextBatch};
use crate::metrics;
use crate::model_stats::ModelStats;
use crate::prices::{CallBudget, Prices, ReservedCall};
use crate::request::{
    DEFAULT_PAUSE, Llm, LlmError, LlmReply, LlmRequest, TokenUsage, is_full_context,
};

// First and longest pause after throttling without a `retry-after` header. It starts short because an adaptive rate limit
// slows down as well.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
const LONG_PAUSE: Duration = Duration::from_secs(16);

// How much longer a reservation lasts than the longest call: settlements are repeated while the limiter is unavailable.
const RESERVATION_SLACK: Duration = Duration::from_secs(60);

/// A client of one model for completions ([`ModelClient::complete`]) or embeddings ([`ModelClient::embed`]). One per process
/// and model, shared by all tasks.
pub struct ModelClient<C: ?Sized = dyn Llm> {
    env: Env,
    limiter: Arc<dyn Limiter>,
    client: Arc<C>,
    provider: &'static str,
    settings: ModelClientSettings,
    // This process's share of the quota while the shared limiter is unavailable, so that an outage of the limiter does not
    // lift the limits. It hears what the shared one hears.
    fallback_limiter: Arc<MemoryLimiter>,
    bulk: AdmissionQueue,
    interactive: AdmissionQueue,
    breaker: Mutex<Breaker>,
    stats: Mutex<ModelStats>,
    estimator: Mutex<TokenEstimator>,
    // Output tokens that replies were found to need because the model thinks, by stage.
    reply_limits: Mutex<HashMap<&'static str, u32>>,
    // The batches that this process looks after.
    batches: Mutex<Vec<ModelBatch>>,
    // Cancelled when no call may begin any more.
    stopped: CancellationToken,
}

impl ModelClient {
    /// Creates a client of `llm` under the limits of `limiter`.
    pub fn new(
        env: Env,
        limiter: Arc<dyn Limiter>,
        llm: Arc<dyn Llm>,
        settings: ModelClientSettings,
    ) -> Self {
        let provider = llm.provider();
        Self::with_provider(env, limiter, (llm, provider), settings)
    }

    /// Makes one call once breaker, rate limits and budget allow it.
    ///
    /// # Errors
    /// The task's [`Failure`] and the cost of the reply, if there was one. Throttled (not counted as an attempt): open breaker,
    /// no permit within 30 s, a process that [begins no new calls](Self::stop_new_calls), or a provider that throttles or
    /// rejects all requests. Transient: a failed call. Permanent: a refused request, one that exceeds the context, or an outage
    /// longer than the configured patience.
    pub async fn complete(
        &self,
        request: &LlmRequest,
        priority: Priority,
        budget: &dyn CallBudget,
    ) -> Result<(LlmReply, ReplyStats), CallError> {
        let stage = request.schema.name;
        let prompt_tokens = request.prompt_tokens();
        let call_size = CallSize {
            stage,
            prompt_tokens,
            max_output_tokens: request.max_output_tokens,
        };
        let call = async {
            let reply = self.client.complete(request).await?;
            let usage = reply.usage;
            // Some gateways leave cached tokens out of the count, and some do not say which.
            let read = usage.prompt_tokens.saturating_add(usage.cached_tokens);
            let may_be_cached = self.estimator.lock().knows(stage) && !is_full_context(read);
            let cut = request.cut_tokens(read, prompt_tokens);
            if let Some(sent) = cut.filter(|_| !may_be_cached) {
                return Err(LlmError::PromptCut {
                    read,
                    sent,
                    needed_tokens: request.context_tokens(),
                    usage,
                });
            }
            Ok(ProviderReply {
                usage,
                rate_limits: reply.rate_limits,
                value: reply,
            })
        };
        self.call(call_size, (priority, request.urgency), budget, call)
            .await
    }
}

impl ModelClient<dyn Embedder> {
    /// Creates a client of an embedder under the limits of `limiter`.
    pub fn for_embeddings(
        env: Env,
        limiter: Arc<dyn Limiter>,
        client: Arc<dyn Embedder>,
        settings: ModelClientSettings,
    ) -> Self {
        Self::with_provider(env, limiter, (client, "openai"), settings)
    }

    /// Embeds a batch in one call once breaker, rate limits and budget allow it.
    ///
    /// # Errors
    /// As [`ModelClient::complete`].
    pub async fn embed(
        &self,
        batch: &TextBatch<'_>,
        priority: Priority,
        budget: &dyn CallBudget,
    ) -> Result<(EmbeddingReply, ReplyStats), CallError> {
        let call_size = CallSize {
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
        self.call(call_size, (priority, 0), budget, call).await
    }
}

fn record_usage(span: &tracing::Span, usage: TokenUsage) {
    span.record("gen_ai.usage.input_tokens", usage.prompt_tokens);
    span.record("gen_ai.usage.output_tokens", usage.output_tokens);
}

/// The stage name of embedding calls.
pub const EMBED_STAGE: &str = "embed";

struct ProviderReply<T> {
    value: T,
    usage: TokenUsage,
    rate_limits: ReportedLimits,
}

impl<C: ?Sized + Send + Sync> ModelClient<C> {
    fn with_provider(
        env: Env,
        limiter: Arc<dyn Limiter>,
        (client, provider): (Arc<C>, &'static str),
        settings: ModelClientSettings,
    ) -> Self {
        Self {
            env,
            limiter,
            client,
            provider,
            bulk: AdmissionQueue::new(&settings, Priority::Bulk),
            interactive: AdmissionQueue::new(&settings, Priority::Interactive),
            settings,
            fallback_limiter: Arc::default(),
            breaker: Mutex::default(),
            stats: Mutex::default(),
            estimator: Mutex::default(),
            reply_limits: Mutex::default(),
            batches: Mutex::default(),
            stopped: CancellationToken::new(),
        }
    }

    /// Begins no call from now on: those that wait go back to the job queue, where another process takes them. A call that
    /// began while the process stops might not end in its grace period, and would be paid for twice.
    pub fn stop_new_calls(&self) {
        self.stopped.cancel();
    }

    // Makes the call once breaker, limits and budget allow it, and reports the outcome to all of them.
    async fn call<T>(
        &self,
        call_size: CallSize,
        (priority, urgency): (Priority, u8),
        budget: &dyn CallBudget,
        call: impl Future<Output = Result<ProviderReply<T>, LlmError>>,
    ) -> Result<(T, ReplyStats), CallError> {
        let admission = self.check_breaker(priority)?;
        let wait_started_ms = self.env.now_ms();
        let permit = tokio::select! {
            biased;
            () = self.stopped.cancelled() => Err(stopping_failure()),
            permit = self.acquire_permit(priority, urgency, || {
                self.estimator.lock().expected_tokens(call_size)
            }) => permit,
        };
        metrics::record_wait(
            &self.settings.bucket,
            self.env.now_ms().saturating_sub(wait_started_ms),
        );
        let (_slot, estimated) = permit?;
        self.recheck_breaker(admission, estimated)?;
        let max_cost = self
            .settings
            .prices
            .cost(self.estimator.lock().max_usage(call_size));
        let reservation = CallReservation {
            id: self.env.random(),
            max: max_cost,
            timeout: self.settings.task_timeout + RESERVATION_SLACK,
        };
        let reserved = match ReservedCall::reserve(budget, reservation).await {
            Ok(reserved) => reserved,
            Err(failure) => {
                self.settle(estimated, 0);
                return Err(failure.into());
            }
        };
        let began_ms = self.env.now_ms();
        let calling = CountGuard::new(&self.stats, |stats| &mut stats.in_call);
        let span = self.call_span(call_size);
        let result = call.instrument(span.clone()).await;
        drop(calling);
        let at_ms = self.env.now_ms();
        let took_ms = at_ms.saturating_sub(began_ms);
        let outcome = result.as_ref().map_or_else(LlmError::code, |_| "answered");
        span.record("outcome", outcome);
        match &result {
            Ok(reply) => record_usage(&span, reply.usage),
            Err(error) => {
                span.record("error.type", outcome);
                record_usage(&span, error.billed_usage());
            }
        }
        metrics::record_call(&self.settings.bucket, outcome, took_ms);
        let used = match &result {
            Ok(reply) => self.cost(reply.usage),
            // The provider may bill a call that timed out here.
            Err(LlmError::TimedOut(_)) => max_cost,
            Err(error) => self.cost(error.billed_usage()),
        };
        reserved.settle(used).await;
        match result {
            Ok(ProviderReply {
                value,
                usage,
                rate_limits,
            }) => {
                self.breaker.lock().record_success();
                metrics::record_tokens(&self.settings.bucket, usage);
                self.stats.lock().record_reply(at_ms, took_ms, usage);
                self.estimator.lock().record_reply(call_size, usage);
                self.settle(estimated, usage.total());
                self.report_rate_limits(rate_limits);
                Ok((
                    value,
                    ReplyStats {
                        usage,
                        took_ms,
                        at_ms,
                    },
                ))
            }
            Err(error) => Err(self.on_error(&error, admission, priority, estimated, took_ms)),
        }
    }

    // With the attributes that OpenTelemetry's conventions name for calls of models.
    fn call_span(&self, call_size: CallSize) -> tracing::Span {
        tracing::info_span!(
            "call",
            bucket = self.settings.bucket,
            outcome = field::Empty,
            gen_ai.operation.name = match call_size.stage {
                EMBED_STAGE => "embeddings",
                _ => "chat",
            },
            gen_ai.provider.name = self.provider,
            gen_ai.request.model = self.settings.model,
            gen_ai.request.max_tokens = call_size.max_output_tokens,
            gen_ai.usage.input_tokens = field::Empty,
            gen_ai.usage.output_tokens = field::Empty,
            "error.type" = field::Empty,
        )
    }

    /// The provider's name of the model.
    pub fn model(&self) -> &str {
        &self.settings.model
    }

    /// The rate limit bucket.
    pub fn bucket(&self) -> &str {
        &self.settings.bucket
    }

    pub fn prices(&self) -> Prices {
        self.settings.prices
    }

    /// The cost of `usage`.
    pub fn cost(&self, usage: TokenUsage) -> SpendAmount {
        self.settings.prices.cost(usage)
    }

    /// Live statistics for the heartbeat of this process.
    pub fn heartbeat(&self) -> ModelStatus {
        let breaker_open_until_ms = self.breaker.lock().open_until_ms();
        let (status, reported) = {
            let stats = self.stats.lock();
            (stats.heartbeat(self.env.now_ms()), stats.rate_limits)
        };
        let requests_limit = effective_limit(self.settings.requests_per_minute, reported.0);
        let tokens_limit = effective_limit(self.settings.tokens_per_minute, reported.1);
        ModelStatus {
            breaker_open_until_ms,
            requests_limit,
            tokens_limit,
            batches: self.batches.lock().clone(),
            ..status
        }
    }

    pub(crate) fn now_ms(&self) -> Millis {
        self.env.now_ms()
    }

    /// The deadline of a task that starts now.
    pub(crate) fn deadline_ms(&self) -> Millis {
        self.env.now_ms()
            + u64::try_from(self.settings.task_timeout.as_millis()).unwrap_or(u64::MAX / 2)
    }

    fn check_breaker(&self, priority: Priority) -> Result<Admission, Failure> {
        let now_ms = self.env.now_ms();
        let (admission, outage_ms) = {
            let mut breaker = self.breaker.lock();
            (breaker.admit(now_ms), breaker.outage_ms(now_ms))
        };
        let Admission::Open { until_ms } = admission else {
            return Ok(admission);
        };
        if let Some(failure) = self.outage_failure(priority, outage_ms) {
            return Err(failure);
        }
        Err(breaker_open_failure(until_ms, now_ms))
    }

    // The breaker may have opened while this task waited for its permit.
    fn recheck_breaker(&self, admission: Admission, estimated: u32) -> Result<(), Failure> {
        let open = self.breaker.lock().open_until_ms();
        let now_ms = self.env.now_ms();
        match open.filter(|until_ms| admission == Admission::Closed && *until_ms > now_ms) {
            None => Ok(()),
            Some(until_ms) => {
                self.settle(estimated, 0);
                Err(breaker_open_failure(until_ms, now_ms))
            }
        }
    }

    // Fails the task for good if the outage is longer than the patience of its priority.
    fn outage_failure(&self, priority: Priority, outage_ms: Millis) -> Option<Failure> {
        let patience = match priority {
            Priority::Bulk => self.settings.patience,
            Priority::Interactive => self.settings.interactive_patience,
        };
        if u128::from(outage_ms) < patience.as_millis() {
            return None;
        }
        let message = format!("the provider has been down for {} s", outage_ms / 1_000);
        let next = "check that the provider is reachable, then run the failed documents again";
        Some(Failure::permanent("model.provider_unreachable", message).with_next(next))
    }

    fn on_error(
        &self,
        error: &LlmError,
        admission: Admission,
        priority: Priority,
        estimated: u32,
        took_ms: u64,
    ) -> CallError {
        let now_ms = self.env.now_ms();
        self.stats
            .lock()
            .record_failure(now_ms, took_ms, error.code());
        let outage_ms = {
            let mut breaker = self.breaker.lock();
            if error.is_outage() {
                breaker.record_failure(admission, now_ms);
            } else {
                breaker.record_success();
            }
            breaker.outage_ms(now_ms)
        };
        let mut failure = error.failure();
        let mut stats = None;
        match error {
            LlmError::Throttled {
                retry_after,
                rate_limits,
            } => {
                self.slow(took_ms);
                let throttles = self
                    .stats
                    .lock()
                    .record_throttle(now_ms.saturating_sub(took_ms), now_ms);
                self.pause(retry_after.unwrap_or_else(|| self.backoff(throttles)));
                self.settle(estimated, 0);
                self.report_rate_limits(*rate_limits);
            }
            LlmError::Unreadable { usage, .. } | LlmError::PromptCut { usage, .. } => {
                self.settle(estimated, usage.total());
                stats = Some(ReplyStats {
                    usage: *usage,
                    took_ms,
                    at_ms: now_ms,
                });
            }
            // The provider may count a call that timed out here, so the estimate is not refunded.
            LlmError::TimedOut(_) => {}
            LlmError::Configuration { .. } | LlmError::NoApi { .. } => {
                self.settle(estimated, 0);
                tracing::error!(bucket = self.settings.bucket, %error, "the provider rejects all requests; model tasks wait until its configuration is fixed");
            }
            LlmError::Unreachable(_)
            | LlmError::Server { .. }
            | LlmError::Refused { .. }
            | LlmError::ContextExceeded { .. }
            | LlmError::NoImages { .. } => self.settle(estimated, 0),
        }
        if error.is_outage() {
            tracing::warn!(bucket = self.settings.bucket, %error, took_ms, "a model call failed");
            if let Some(permanent) = self.outage_failure(priority, outage_ms) {
                failure = permanent;
            } else if admission == Admission::Probe {
                // A failed probe must not use up an attempt, since calls under an open breaker do not either.
                failure = Failure::throttled(error.code(), error.to_string(), DEFAULT_PAUSE);
            }
        }
        CallError { failure, stats }
    }

    // The pause doubles with each consecutive throttled call.
    fn backoff(&self, throttles: u32) -> Duration {
        let first = if self.settings.is_adaptive() {
            SHORT_PAUSE
        } else {
            DEFAULT_PAUSE
        };
        first
            .saturating_mul(1 << throttles.saturating_sub(1).min(8))
            .min(LONG_PAUSE)
    }
}

// The lower of the configured limit (0: none) and the one reported by the provider.
fn effective_limit(configured: u32, reported: Option<u32>) -> u32 {
    match reported {
        Some(reported)
            if reported < Quota::UNKNOWN && (configured == 0 || reported < configured) =>
        {
            reported
        }
        _ => configured,
    }
}

fn stopping_failure() -> Failure {
    let message = "the process stops; another one makes the call";
    Failure::throttled("model.stopping", message, Duration::ZERO)
}

fn breaker_open_failure(until_ms: Millis, now_ms: Millis) -> Failure {
    let message = "the provider is down; calls are paused until the next probe";
    Failure::throttled(
        "model.breaker_open",
        message,
        Duration::from_millis(until_ms.saturating_sub(now_ms)),
    )
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    pub failure: Failure,
    /// Set if the provider sent an unusable reply, which is billed and belongs in the call log.
    pub stats: Option<ReplyStats>,
}

/// Cost and time of a reply, for the call log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyStats {
    pub usage: TokenUsage,
    pub took_ms: u64,
    /// Time of the reply.
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

// Decrements its counter on drop, so that cancelled tasks are counted correctly.
struct CountGuard<'a> {
    stats: &'a Mutex<ModelStats>,
    counter: fn(&mut ModelStats) -> &mut u32,
}

impl<'a> CountGuard<'a> {
    fn new(stats: &'a Mutex<ModelStats>, counter: fn(&mut ModelStats) -> &mut u32) -> Self {
        *counter(&mut stats.lock()) += 1;
        Self { stats, counter }
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        *(self.counter)(&mut self.stats.lock()) -= 1;
    }
}
