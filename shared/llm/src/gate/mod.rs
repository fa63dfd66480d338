//! The one way to a model: breaker, shared limits, the call, and what it says about both (rule 11).
//!
//! The gate decides nothing about retries: it turns every ending into the [`Failure`] that says what happens to the task.

mod estimate;
mod line;
mod permit;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stemma_engine::env::Millis;
use stemma_engine::jobs::Amount;
use stemma_engine::limit::{Limiter, MemoryLimiter, Quota, Stated};
use stemma_engine::presence::ModelBeat;
use stemma_engine::{Class, Env, Failure};
use tracing::{Instrument, field};

use self::estimate::{Estimates, Sketch};
use self::permit::Queue;
pub use self::settings::GateSettings;
use crate::breaker::{Breaker, Passage};
use crate::embeddings::{Batch, Embedded, Embedder};
use crate::measure;
use crate::meter::Meter;
use crate::prices::Purse;
use crate::request::{Llm, LlmError, PAUSE, Reply, Request, Usage};

/// How long no one asks after a refusal that says nothing about time, where a slower rate is learned from it.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
/// The longest such pause.
const LONG_PAUSE: Duration = Duration::from_secs(16);

/// The way to one model, by a client `C`: one that writes ([`Gate::ask`]) or one that makes vectors ([`Gate::embed`]). One per
/// process and model; shared by all its tasks.
pub struct Gate<C: ?Sized = dyn Llm> {
    env: Env,
    limiter: Arc<dyn Limiter>,
    client: Arc<C>,
    settings: GateSettings,
    /// This process's share, while the shared limits cannot be asked: slow, not open.
    alone: MemoryLimiter,
    bulk: Queue,
    interactive: Queue,
    breaker: Mutex<Breaker>,
    meter: Mutex<Meter>,
    estimates: Mutex<Estimates>,
}

impl Gate {
    /// A gate before `llm`, under the limits that `limiter` shares.
    pub fn new(
        env: Env,
        limiter: Arc<dyn Limiter>,
        llm: Arc<dyn Llm>,
        settings: GateSettings,
    ) -> Self {
        Self::before(env, limiter, llm, settings)
    }

    /// Asks once, when breaker, limits and `purse` let it through.
    ///
    /// # Errors
    /// The [`Failure`] that says what happens to the task, with what the failed reply cost, if there was one:
    /// throttled and uncounted while the breaker is open, no permit is to be had within 30 s of its turn, the provider asks for a
    /// pause or serves no one; transient when a call failed; permanent when the provider refuses this request, or has
    /// been away for longer than patience.
    pub async fn ask(
        &self,
        request: &Request,
        class: Class,
        purse: &dyn Purse,
    ) -> Result<Answered, Refusal> {
        let stage = request.schema.name;
        let prompt_tokens = request.prompt_tokens();
        let sketch = Sketch {
            stage,
            prompt_tokens,
            max_output_tokens: request.max_output_tokens,
        };
        let call = async {
            let reply = self.client.complete(request).await?;
            Ok(Came {
                usage: reply.usage,
                stated: reply.stated,
                what: reply,
            })
        };
        let (reply, Replied { took_ms, at_ms, .. }) = self
            .through(sketch, (class, request.urgency), purse, call)
            .await?;
        Ok(Answered {
            reply,
            took_ms,
            at_ms,
        })
    }
}

impl Gate<dyn Embedder> {
    /// A gate before what makes vectors, under the limits that `limiter` shares.
    pub fn of_vectors(
        env: Env,
        limiter: Arc<dyn Limiter>,
        client: Arc<dyn Embedder>,
        settings: GateSettings,
    ) -> Self {
        Self::before(env, limiter, client, settings)
    }

    /// Makes the vectors of a batch once, when breaker, limits and `purse` let it through.
    ///
    /// # Errors
    /// As [`Gate::ask`].
    pub async fn embed(
        &self,
        batch: &Batch<'_>,
        class: Class,
        purse: &dyn Purse,
    ) -> Result<(Embedded, Replied), Refusal> {
        let sketch = Sketch {
            stage: EMBED,
            prompt_tokens: batch.tokens,
            max_output_tokens: 0,
        };
        let call = async {
            let made = self.client.embed(batch.texts).await?;
            Ok(Came {
                usage: made.usage,
                stated: made.stated,
                what: made,
            })
        };
        self.through(sketch, (class, 0), purse, call).await
    }
}

/// The stage of calls that make vectors.
pub const EMBED: &str = "embed";

/// A reply of any kind, and what is known of it.
struct Came<T> {
    what: T,
    usage: Usage,
    stated: Stated,
}

impl<C: ?Sized + Send + Sync> Gate<C> {
    fn before(env: Env, limiter: Arc<dyn Limiter>, client: Arc<C>, settings: GateSettings) -> Self {
        let bulk = Queue::new(&settings, Class::Bulk);
        let interactive = Queue::new(&settings, Class::Interactive);
        let (breaker, meter, estimates) = Default::default();
        let alone = MemoryLimiter::default();
        Self {
            env,
            limiter,
            client,
            settings,
            alone,
            bulk,
            interactive,
            breaker,
            meter,
            estimates,
        }
    }

    /// Makes a call when breaker, limits and `purse` let it through, and tells them what came of it.
    async fn through<T>(
        &self,
        sketch: Sketch,
        (class, urgency): (Class, u8),
        purse: &dyn Purse,
        call: impl Future<Output = Result<Came<T>, LlmError>>,
    ) -> Result<(T, Replied), Refusal> {
        let passage = self.pass_breaker(class)?;
        let asked_ms = self.env.now_ms();
        let passed = self
            .pass_limits(class, urgency, || self.estimates().tokens(sketch))
            .await;
        measure::waited(
            &self.settings.bucket,
            self.env.now_ms().saturating_sub(asked_ms),
        );
        let (_slot, estimated) = passed?;
        self.still_closed(passage, estimated)?;
        let most = self.settings.prices.cost(self.estimates().most(sketch));
        if let Err(failure) = purse.reserve(most).await {
            self.settle(estimated, 0);
            return Err(failure.into());
        }
        let began_ms = self.env.now_ms();
        let calling = self.calling();
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
        measure::call(&self.settings.bucket, outcome, took_ms);
        let used = match &result {
            Ok(came) => self.cost(came.usage),
            Err(LlmError::Unreadable { usage, .. }) => self.cost(*usage),
            // It may have been read and answered to no one.
            Err(LlmError::TimedOut(_)) => most,
            Err(_) => self.cost(Usage::default()),
        };
        purse.settle(most, used).await;
        match result {
            Ok(Came {
                what,
                usage,
                stated,
            }) => {
                self.breaker().answered();
                measure::tokens(&self.settings.bucket, usage);
                self.meter().replied(at_ms, took_ms, usage);
                self.estimates().replied(sketch, usage);
                self.settle(estimated, usage.total());
                self.state(stated);
                Ok((
                    what,
                    Replied {
                        usage,
                        took_ms,
                        at_ms,
                    },
                ))
            }
            Err(error) => Err(self.failed(&error, passage, class, estimated, took_ms)),
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
    pub fn cost(&self, usage: Usage) -> Amount {
        self.settings.prices.cost(usage)
    }

    /// Live numbers for the beat of this process, cheap to read.
    pub fn beat(&self) -> ModelBeat {
        let breaker_open_until_ms = self.breaker().open_until_ms();
        let (beat, stated) = {
            let meter = self.meter();
            (meter.beat(self.env.now_ms()), meter.stated)
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
        ModelBeat {
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

    fn pass_breaker(&self, class: Class) -> Result<Passage, Failure> {
        let now_ms = self.env.now_ms();
        let (passage, away_ms) = {
            let mut breaker = self.breaker();
            (breaker.enter(now_ms), breaker.away_ms(now_ms))
        };
        let Passage::Open { until_ms } = passage else {
            return Ok(passage);
        };
        if let Some(lost) = self.patience_lost(class, away_ms) {
            return Err(lost);
        }
        Err(away_until(until_ms, now_ms))
    }

    /// A provider that went away while a task waited for its permit is not called.
    fn still_closed(&self, passage: Passage, estimated: u32) -> Result<(), Failure> {
        let open = self.breaker().open_until_ms();
        let now_ms = self.env.now_ms();
        match open.filter(|until_ms| passage == Passage::Closed && *until_ms > now_ms) {
            None => Ok(()),
            Some(until_ms) => {
                self.settle(estimated, 0);
                Err(away_until(until_ms, now_ms))
            }
        }
    }

    fn patience_lost(&self, class: Class, away_ms: Millis) -> Option<Failure> {
        let patience = match class {
            Class::Bulk => self.settings.patience,
            Class::Interactive => self.settings.interactive_patience,
        };
        let message = || format!("the provider has been away for {} s", away_ms / 1_000);
        let next = "see that the provider can be reached, then run the failed documents again";
        (u128::from(away_ms) >= patience.as_millis())
            .then(|| Failure::permanent("model.provider_unreachable", message()).with_next(next))
    }

    fn failed(
        &self,
        error: &LlmError,
        passage: Passage,
        class: Class,
        estimated: u32,
        took_ms: u64,
    ) -> Refusal {
        let now_ms = self.env.now_ms();
        self.meter().failed(error.code(), took_ms);
        let away_ms = {
            let mut breaker = self.breaker();
            if error.is_outage() {
                breaker.failed(passage, now_ms);
            } else {
                breaker.answered();
            }
            breaker.away_ms(now_ms)
        };
        let mut failure = error.failure();
        let mut replied = None;
        match error {
            LlmError::Throttled { after, stated } => {
                self.slow(took_ms);
                let refusals = self.meter().refused(now_ms.saturating_sub(took_ms), now_ms);
                self.pause(after.unwrap_or_else(|| self.silent_pause(refusals)));
                self.settle(estimated, 0);
                self.state(*stated);
            }
            LlmError::Unreadable { usage, .. } => {
                self.settle(estimated, usage.total());
                replied = Some(Replied {
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
            if let Some(lost) = self.patience_lost(class, away_ms) {
                failure = lost;
            } else if passage == Passage::Probe {
                // While the breaker is open attempts are not counted, its probes neither.
                failure = Failure::throttled(error.code(), error.to_string(), PAUSE);
            }
        }
        Refusal { failure, replied }
    }

    /// How long no one asks after so many refusals in a row that say nothing about time: twice as long each time.
    fn silent_pause(&self, refusals: u32) -> Duration {
        let first = if self.settings.learns() {
            SHORT_PAUSE
        } else {
            PAUSE
        };
        first
            .saturating_mul(1 << refusals.saturating_sub(1).min(8))
            .min(LONG_PAUSE)
    }

    fn calling(&self) -> Counted<'_> {
        Counted::new(&self.meter, |meter| &mut meter.in_call)
    }

    fn waiting(&self) -> Counted<'_> {
        Counted::new(&self.meter, |meter| &mut meter.waiting_for_permit)
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn estimates(&self) -> MutexGuard<'_, Estimates> {
        self.estimates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, class: Class) -> &Queue {
        match class {
            Class::Bulk => &self.bulk,
            Class::Interactive => &self.interactive,
        }
    }

    fn meter(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn away_until(until_ms: Millis, now_ms: Millis) -> Failure {
    let message = "the provider is away; no call is made until it may be back";
    Failure::throttled(
        "model.breaker_open",
        message,
        Duration::from_millis(until_ms.saturating_sub(now_ms)),
    )
}

/// A reply and how long it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The reply.
    pub reply: Reply,
    /// Milliseconds.
    pub took_ms: u64,
    /// When it came.
    pub at_ms: Millis,
}

impl Answered {
    /// For the call log.
    pub fn replied(&self) -> Replied {
        Replied {
            usage: self.reply.usage,
            took_ms: self.took_ms,
            at_ms: self.at_ms,
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What happens to the task.
    pub failure: Failure,
    /// What the provider's reply cost, where one came that is no answer: it belongs in the call log.
    pub replied: Option<Replied>,
}

/// A reply as the call log knows it: what it cost, not what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replied {
    /// What it cost.
    pub usage: Usage,
    /// Milliseconds.
    pub took_ms: u64,
    /// When it came.
    pub at_ms: Millis,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            replied: None,
        }
    }
}

/// Counts a task while it waits or calls, however that ends.
struct Counted<'a> {
    meter: &'a Mutex<Meter>,
    counter: fn(&mut Meter) -> &mut u32,
}

impl<'a> Counted<'a> {
    fn new(meter: &'a Mutex<Meter>, counter: fn(&mut Meter) -> &mut u32) -> Self {
        *counter(&mut meter.lock().unwrap_or_else(PoisonError::into_inner)) += 1;
        Self { meter, counter }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        *(self.counter)(&mut self.meter.lock().unwrap_or_else(PoisonError::into_inner)) -= 1;
    }
}
