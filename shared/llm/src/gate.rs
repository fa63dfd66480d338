//! The one way to a model: breaker, shared limits, the call, and what it says about both (rule 11).
//!
//! The gate decides nothing about retries: it turns every ending into the [`Failure`] that says what happens to the task.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stemma_engine::env::Millis;
use stemma_engine::limit::{Cost, Limiter, MemoryLimiter, Permit, Quota};
use stemma_engine::presence::ModelBeat;
use stemma_engine::{Class, Env, Failure, PortError};
use tracing::{Instrument, field};

use crate::breaker::{Breaker, Passage};
use crate::measure;
use crate::meter::Meter;
use crate::request::{Llm, LlmError, PAUSE, Reply, Request};

/// How long a task waits for a permit before it goes back to the queue, uncounted.
const PERMIT_WAIT_MS: Millis = 30_000;
/// How long it is away then.
const PERMIT_PAUSE: Duration = Duration::from_secs(5);

/// How a model may be asked: local configuration, changes speed only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateSettings {
    /// The model, as its provider names it.
    pub model: String,
    /// The bucket of the shared limits: `{model}@{host}`.
    pub bucket: String,
    /// Requests per minute of all workers together; 0: unknown, only the provider's own pauses count.
    pub requests_per_minute: u32,
    /// Tokens per minute of all workers together; 0: unknown.
    pub tokens_per_minute: u32,
    /// Workers that share the limits, for the time in which they cannot be asked.
    pub expected_workers: u32,
    /// How long the provider may be away before bulk work fails for good.
    pub patience: Duration,
    /// The same for interactive work.
    pub interactive_patience: Duration,
}

impl GateSettings {
    /// `model` at `host` without limits but those the provider enforces, and with the patience of architecture §4.11.
    pub fn unlimited(model: &str, host: &str) -> Self {
        Self {
            model: model.into(),
            bucket: format!("{model}@{host}"),
            requests_per_minute: 0,
            tokens_per_minute: 0,
            expected_workers: 1,
            patience: Duration::from_secs(3_600),
            interactive_patience: Duration::from_secs(120),
        }
    }

    fn quota(&self) -> Quota {
        let known = |rate: u32| if rate == 0 { u32::MAX } else { rate };
        Quota::per_minute(known(self.requests_per_minute), known(self.tokens_per_minute))
    }

    fn is_limited(&self) -> bool {
        self.requests_per_minute > 0 || self.tokens_per_minute > 0
    }
}

/// The way to one model. One per process and model; shared by all its tasks.
pub struct Gate {
    env: Env,
    limiter: Arc<dyn Limiter>,
    llm: Arc<dyn Llm>,
    settings: GateSettings,
    /// This process's share, while the shared limits cannot be asked: slow, not open.
    alone: MemoryLimiter,
    breaker: Mutex<Breaker>,
    meter: Mutex<Meter>,
}

impl Gate {
    /// A gate before `llm`, under the limits that `limiter` shares.
    pub fn new(env: Env, limiter: Arc<dyn Limiter>, llm: Arc<dyn Llm>, settings: GateSettings) -> Self {
        let (breaker, meter) = Default::default();
        Self { env, limiter, llm, settings, alone: MemoryLimiter::default(), breaker, meter }
    }

    /// Asks once, when breaker and limits let it through.
    ///
    /// # Errors
    /// The [`Failure`] that says what happens to the task, with what the failed reply cost, if there was one:
    /// throttled and uncounted while the breaker is open, no permit is to be had within 30 s, the provider asks for a
    /// pause or serves no one; transient when a call failed; permanent when the provider refuses this request, or has
    /// been away for longer than patience.
    pub async fn ask(&self, request: &Request, class: Class) -> Result<Answered, Refusal> {
        let passage = self.pass_breaker(class)?;
        let estimated = request.prompt_tokens().saturating_add(request.max_output_tokens);
        let asked_ms = self.env.now_ms();
        let passed = self.pass_limits(Cost { class, tokens: estimated }).await;
        measure::waited(&self.settings.bucket, self.env.now_ms().saturating_sub(asked_ms));
        passed?;
        let began_ms = self.env.now_ms();
        let calling = self.calling();
        let span = tracing::info_span!("call", bucket = self.settings.bucket, outcome = field::Empty);
        let result = self.llm.complete(request).instrument(span.clone()).await;
        drop(calling);
        let now_ms = self.env.now_ms();
        let took_ms = now_ms.saturating_sub(began_ms);
        let outcome = result.as_ref().map_or_else(LlmError::code, |_| "answered");
        span.record("outcome", outcome);
        measure::call(&self.settings.bucket, outcome, took_ms);
        match result {
            Ok(reply) => {
                self.breaker().answered();
                measure::tokens(&self.settings.bucket, reply.usage);
                self.meter().replied(now_ms, took_ms, reply.usage);
                self.settle(estimated, reply.usage.total());
                Ok(Answered { reply, took_ms })
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

    /// Live numbers for the beat of this process, cheap to read.
    pub fn beat(&self) -> ModelBeat {
        let breaker_open_until_ms = self.breaker().open_until_ms();
        let beat = self.meter().beat(self.env.now_ms());
        let (requests_limit, tokens_limit) = (self.settings.requests_per_minute, self.settings.tokens_per_minute);
        ModelBeat { breaker_open_until_ms, requests_limit, tokens_limit, ..beat }
    }

    fn pass_breaker(&self, class: Class) -> Result<Passage, Failure> {
        let now_ms = self.env.now_ms();
        let (passage, away_ms) = {
            let mut breaker = self.breaker();
            (breaker.enter(now_ms), breaker.away_ms(now_ms))
        };
        let Passage::Open { until_ms } = passage else { return Ok(passage) };
        if let Some(lost) = self.patience_lost(class, away_ms) {
            return Err(lost);
        }
        let message = "the provider is away; no call is made until it may be back";
        Err(Failure::throttled("model.breaker_open", message, Duration::from_millis(until_ms.saturating_sub(now_ms))))
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

    /// Waits for a permit.
    async fn pass_limits(&self, cost: Cost) -> Result<(), Failure> {
        let until_ms = self.env.now_ms() + PERMIT_WAIT_MS;
        let _waiting = self.waiting();
        loop {
            let now_ms = self.env.now_ms();
            let paused_ms = self.meter().paused_until_ms.saturating_sub(now_ms);
            let after_ms = match paused_ms {
                0 => match self.permit(cost, now_ms).await? {
                    None => return Ok(()),
                    Some(after_ms) => after_ms.max(1),
                },
                paused_ms => paused_ms,
            };
            if now_ms + after_ms > until_ms {
                let message = format!("no permit for {} within {} s", self.settings.bucket, PERMIT_WAIT_MS / 1_000);
                return Err(Failure::throttled("model.no_permit", message, PERMIT_PAUSE));
            }
            self.env.sleep(Duration::from_millis(after_ms)).await;
        }
    }

    /// Asks for a permit; how many milliseconds to wait, where there is none now.
    async fn permit(&self, cost: Cost, now_ms: Millis) -> Result<Option<u64>, Failure> {
        let quota = self.settings.quota();
        if cost.tokens > quota.tokens_per_minute {
            return Err(self.too_large(cost.tokens));
        }
        match self.acquire(quota, cost, now_ms).await {
            Permit::Granted => Ok(None),
            Permit::Wait { after_ms } => Ok(Some(after_ms)),
            Permit::Never { largest: 0 } => Err(self.too_large(cost.tokens)),
            // Larger than a burst: it passes when a whole burst is there, and what it takes beyond that is owed by all.
            Permit::Never { largest } => match self.acquire(quota, Cost { tokens: largest, ..cost }, now_ms).await {
                Permit::Granted => {
                    self.settle(largest, cost.tokens);
                    Ok(None)
                }
                Permit::Wait { after_ms } => Ok(Some(after_ms)),
                Permit::Never { .. } => Err(self.too_large(cost.tokens)),
            },
        }
    }

    /// Asks the shared limits; while they are away, this process's share of them.
    async fn acquire(&self, quota: Quota, cost: Cost, now_ms: Millis) -> Permit {
        match self.limiter.acquire(&self.settings.bucket, quota, cost, now_ms).await {
            Ok(permit) => permit,
            Err(error) => {
                tracing::warn!(bucket = self.settings.bucket, %error, "shared limits are away; going on with a share of them");
                let own = self.share(quota);
                // The same question always gets an answer: memory is never away.
                self.alone
                    .acquire(&self.settings.bucket, own, cost, now_ms)
                    .await
                    .unwrap_or(Permit::Wait { after_ms: 1_000 })
            }
        }
    }

    fn share(&self, quota: Quota) -> Quota {
        let workers = self.settings.expected_workers.max(1);
        Quota {
            requests_per_minute: (quota.requests_per_minute / workers).max(1),
            tokens_per_minute: (quota.tokens_per_minute / workers).max(1),
            ..quota
        }
    }

    fn too_large(&self, tokens: u32) -> Failure {
        let message =
            format!("a request of about {tokens} tokens can never pass the limits of {}", self.settings.bucket);
        Failure::permanent("model.request_too_large", message)
            .with_next("raise model.tokens_per_minute, or lower model.max_prompt_tokens")
    }

    /// Corrects an estimate, beside the caller: a limiter that is slow must not hold up a reply that was paid for.
    fn settle(&self, estimated: u32, used: u32) {
        if !self.settings.is_limited() || estimated == used {
            return;
        }
        let (limiter, bucket, quota) = (Arc::clone(&self.limiter), self.settings.bucket.clone(), self.settings.quota());
        self.env.spawn(async move {
            said(&bucket, limiter.settle(&bucket, quota, estimated, used).await);
        });
    }

    fn failed(&self, error: &LlmError, passage: Passage, class: Class, estimated: u32, took_ms: u64) -> Refusal {
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
            LlmError::Throttled { after } => {
                self.pause(now_ms, after.unwrap_or(PAUSE));
                self.settle(estimated, 0);
            }
            LlmError::Unreadable { usage, .. } => {
                self.settle(estimated, usage.total());
                replied = Some(Replied { usage: *usage, took_ms });
            }
            // It may have been read and answered to no one: the estimate stands.
            LlmError::TimedOut(_) => {}
            LlmError::Configuration { .. } => {
                self.settle(estimated, 0);
                tracing::error!(bucket = self.settings.bucket, %error, "the provider does not serve us; model tasks wait until this is mended");
            }
            LlmError::Unreachable(_) | LlmError::Server { .. } | LlmError::Refused { .. } => self.settle(estimated, 0),
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

    /// No one asks before the pause is over, neither here nor elsewhere.
    fn pause(&self, now_ms: Millis, pause: Duration) {
        let until_ms = now_ms + u64::try_from(pause.as_millis()).unwrap_or(u64::MAX / 2);
        let mut meter = self.meter();
        if until_ms <= meter.paused_until_ms {
            return;
        }
        meter.paused_until_ms = until_ms;
        let (limiter, bucket) = (Arc::clone(&self.limiter), self.settings.bucket.clone());
        self.env.spawn(async move {
            said(&bucket, limiter.pause(&bucket, until_ms).await);
        });
    }

    fn calling(&self) -> Counted<'_> {
        Counted::new(self, |meter| &mut meter.in_call)
    }

    fn waiting(&self) -> Counted<'_> {
        Counted::new(self, |meter| &mut meter.waiting_for_permit)
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meter(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a correction or a pause came to; the shared limits are a help and never the reason for a failure.
fn said(bucket: &str, result: Result<(), PortError>) {
    if let Err(error) = result {
        tracing::warn!(bucket, %error, "shared limits are away; a correction is lost");
    }
}

/// A reply and how long it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The reply.
    pub reply: Reply,
    /// Milliseconds.
    pub took_ms: u64,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What happens to the task.
    pub failure: Failure,
    /// What the provider's reply cost, where one came that is no answer: it belongs in the call log.
    pub replied: Option<Replied>,
}

/// A reply that is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replied {
    /// What it cost.
    pub usage: crate::request::Usage,
    /// Milliseconds.
    pub took_ms: u64,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self { failure, replied: None }
    }
}

/// Counts a task while it waits or calls, however that ends.
struct Counted<'a> {
    gate: &'a Gate,
    counter: fn(&mut Meter) -> &mut u32,
}

impl<'a> Counted<'a> {
    fn new(gate: &'a Gate, counter: fn(&mut Meter) -> &mut u32) -> Self {
        *counter(&mut gate.meter()) += 1;
        Self { gate, counter }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        *(self.counter)(&mut self.gate.meter()) -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use async_trait::async_trait;
    use stemma_engine::FailureKind;

    use super::*;
    use crate::request::{Schema, Usage};

    /// Answers from a list, after 100 ms each; the rest is good.
    #[derive(Default)]
    struct Script {
        errors: Mutex<VecDeque<LlmError>>,
        asked_ms: Mutex<Vec<Millis>>,
        env: Mutex<Option<Env>>,
    }

    #[async_trait]
    impl Llm for Script {
        async fn complete(&self, _: &Request) -> Result<Reply, LlmError> {
            let env = self.env.lock().unwrap().clone().unwrap();
            self.asked_ms.lock().unwrap().push(env.now_ms());
            env.sleep(Duration::from_millis(100)).await;
            let usage = Usage { prompt_tokens: 40, output_tokens: 10, cached_tokens: 0 };
            let error = self.errors.lock().unwrap().pop_front();
            error.map_or(Ok(Reply { text: "{}".into(), usage }), Err)
        }
    }

    /// Limits that are away.
    struct Away;

    #[async_trait]
    impl Limiter for Away {
        async fn acquire(&self, _: &str, _: Quota, _: Cost, _: Millis) -> Result<Permit, PortError> {
            Err(PortError::passing("limiter", "acquire", "away"))
        }
        async fn settle(&self, _: &str, _: Quota, _: u32, _: u32) -> Result<(), PortError> {
            Err(PortError::passing("limiter", "settle", "away"))
        }
        async fn pause(&self, _: &str, _: Millis) -> Result<(), PortError> {
            Err(PortError::passing("limiter", "pause", "away"))
        }
    }

    fn request(max_output_tokens: u32) -> Request {
        let schema = Schema::strict("s", &serde_json::json!({}));
        Request { model: "m".into(), system: "s".into(), user: "u".into(), schema, max_output_tokens }
    }

    fn gate(
        env: &Env,
        errors: Vec<LlmError>,
        settings: GateSettings,
        limiter: Arc<dyn Limiter>,
    ) -> (Gate, Arc<Script>) {
        let script = Arc::new(Script::default());
        *script.errors.lock().unwrap() = errors.into();
        *script.env.lock().unwrap() = Some(env.clone());
        (Gate::new(env.clone(), limiter, Arc::<Script>::clone(&script), settings), script)
    }

    fn minute(requests: u32, tokens: u32) -> GateSettings {
        GateSettings {
            requests_per_minute: requests,
            tokens_per_minute: tokens,
            ..GateSettings::unlimited("m", "host")
        }
    }

    fn away() -> LlmError {
        LlmError::Server { status: 503, message: String::new() }
    }

    fn kind(result: Result<Answered, Refusal>) -> String {
        match result {
            Ok(_) => "answered".into(),
            Err(Refusal { failure, .. }) => match failure.kind {
                FailureKind::Throttled { after_ms } => format!("{} in {after_ms}", failure.code),
                FailureKind::Transient => format!("{} counted", failure.code),
                _ => format!("{} final", failure.code),
            },
        }
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_breaker_is_open_no_call_is_made_and_no_attempt_counted() {
        let env = Env::simulated(1);
        let (gate, script) = gate(&env, vec![away(); 6], minute(0, 0), Arc::new(MemoryLimiter::default()));
        let mut endings = Vec::new();
        for _ in 0..6 {
            endings.push(kind(gate.ask(&request(1), Class::Bulk).await));
        }
        assert_eq!(endings[..5], vec!["model.server_error counted"; 5]);
        assert_eq!((endings[5].as_str(), script.asked_ms.lock().unwrap().len()), ("model.breaker_open in 5000", 5));
        assert!(gate.beat().breaker_open_until_ms.is_some());
        env.sleep(Duration::from_secs(5)).await;
        assert_eq!(kind(gate.ask(&request(1), Class::Bulk).await), "model.server_error in 5000");
        env.sleep(Duration::from_secs(10)).await;
        assert_eq!(kind(gate.ask(&request(1), Class::Bulk).await), "answered");
        assert_eq!(gate.beat().breaker_open_until_ms, None);
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends_sooner_where_a_person_waits() {
        let env = Env::simulated(1);
        let (gate, _) = gate(&env, vec![away(); 500], minute(0, 0), Arc::new(MemoryLimiter::default()));
        let mut ends = Vec::new();
        for class in [Class::Interactive, Class::Bulk] {
            let began = env.now_ms();
            while !kind(gate.ask(&request(1), class).await).ends_with("model.provider_unreachable final") {
                env.sleep(Duration::from_secs(5)).await;
            }
            ends.push((env.now_ms() - began) / 60_000);
        }
        assert_eq!(ends, [2, 58]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_everyones() {
        let env = Env::simulated(1);
        let limiter = Arc::new(MemoryLimiter::default());
        let pause = LlmError::Throttled { after: Some(Duration::from_secs(20)) };
        let (one, _) = gate(&env, vec![pause], minute(0, 0), Arc::<MemoryLimiter>::clone(&limiter));
        let (other, script) = gate(&env, vec![], minute(0, 0), limiter);
        let began = env.now_ms();
        assert_eq!(kind(one.ask(&request(1), Class::Bulk).await), "model.throttled in 20000");
        env.sleep(Duration::from_millis(10)).await;
        assert!(one.beat().paused_until_ms.is_some());
        assert_eq!(kind(other.ask(&request(1), Class::Bulk).await), "answered");
        assert!(script.asked_ms.lock().unwrap()[0] - began >= 20_000);
    }

    #[tokio::test(start_paused = true)]
    async fn no_permit_in_time_is_no_attempt() {
        let env = Env::simulated(1);
        let (gate, _) = gate(&env, vec![], minute(1, 0), Arc::new(MemoryLimiter::default()));
        assert_eq!(kind(gate.ask(&request(1), Class::Bulk).await), "answered");
        assert_eq!(kind(gate.ask(&request(1), Class::Bulk).await), "model.no_permit in 5000");
        assert_eq!((gate.beat().waiting, gate.beat().calling), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_larger_than_a_burst_passes_and_is_paid_for_by_waiting() {
        let env = Env::simulated(1);
        let (gate, script) = gate(&env, vec![], minute(0, 6_000), Arc::new(MemoryLimiter::default()));
        // About 3,000 tokens of 6,000 a minute, where bulk work may send 2,400 at once: what is beyond that is owed.
        assert_eq!(kind(gate.ask(&request(3_000), Class::Bulk).await), "answered");
        env.sleep(Duration::from_millis(10)).await;
        assert_eq!(kind(gate.ask(&request(3_000), Class::Bulk).await), "answered");
        let asked = script.asked_ms.lock().unwrap().clone();
        assert!((300..5_000).contains(&(asked[1] - asked[0])), "settled to the 50 tokens it used: {asked:?}");
        assert_eq!(kind(gate.ask(&request(7_000), Class::Bulk).await), "model.request_too_large final");
    }

    #[tokio::test(start_paused = true)]
    async fn without_shared_limits_each_worker_keeps_to_its_share() {
        let env = Env::simulated(1);
        let settings = GateSettings { expected_workers: 4, ..minute(240, 0) };
        let (gate, script) = gate(&env, vec![], settings, Arc::new(Away));
        for _ in 0..30 {
            assert_eq!(kind(gate.ask(&request(1), Class::Bulk).await), "answered");
        }
        let asked = script.asked_ms.lock().unwrap().clone();
        let seconds = (asked[29] - asked[0]) / 1_000;
        assert!((26..=30).contains(&seconds), "60 a minute: {seconds} s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_wrong_is_no_ones_attempt_and_seen() {
        let env = Env::simulated(1);
        let error = LlmError::Configuration { status: 401, message: "bad key".into() };
        let (gate, _) = gate(&env, vec![error], minute(0, 0), Arc::new(MemoryLimiter::default()));
        assert_eq!(kind(gate.ask(&request(1), Class::Bulk).await), "model.configuration in 300000");
        assert_eq!(gate.beat().last_error.as_deref(), Some("model.configuration"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_is_no_answer_is_paid_for() {
        let env = Env::simulated(1);
        let usage = Usage { prompt_tokens: 7, output_tokens: 9, cached_tokens: 0 };
        let error = LlmError::Unreadable { message: "cut off".into(), usage };
        let (gate, _) = gate(&env, vec![error], minute(0, 0), Arc::new(MemoryLimiter::default()));
        let refusal = gate.ask(&request(1), Class::Bulk).await.unwrap_err();
        assert_eq!(refusal.replied, Some(Replied { usage, took_ms: 100 }));
        assert_eq!(refusal.failure.kind, FailureKind::Transient);
    }
}
