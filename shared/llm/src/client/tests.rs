//! Tests of `ModelClient` with a scripted provider and simulated time.

use std::collections::VecDeque;

use async_trait::async_trait;
use futures::future::BoxFuture;
use stemma_store::limit::ReportedLimits;
use stemma_store::port_layer::{Layered, PortLayer};
use stemma_store::{FailureKind, PortError, PortResult};

use super::*;
use crate::prices::UnlimitedBudget;
use crate::request::{OutputSchema, TokenUsage};

// Returns the listed errors after 100 ms each, then succeeds.
#[derive(Default)]
struct FailingLlm {
    errors: Mutex<VecDeque<LlmError>>,
    called_ms: Mutex<Vec<Millis>>,
    env: Mutex<Option<Env>>,
    rate_limits: Mutex<ReportedLimits>,
}

#[async_trait]
impl Llm for FailingLlm {
    async fn complete(&self, request: &LlmRequest) -> Result<LlmReply, LlmError> {
        let env = self.env.lock().clone().unwrap();
        self.called_ms.lock().push(env.now_ms());
        env.sleep(Duration::from_millis(100)).await;
        // It does not count the tokens of a long prompt: so few would be a prompt that was cut.
        let is_long = request.prompt_tokens() > 1_000;
        let usage = TokenUsage {
            prompt_tokens: if is_long { 0 } else { 40 },
            output_tokens: 10,
            cached_tokens: 0,
        };
        let error = self.errors.lock().pop_front();
        let reply = LlmReply {
            rate_limits: *self.rate_limits.lock(),
            ..LlmReply::new("{}", usage)
        };
        error.map_or(Ok(reply), Err)
    }
}

// A limiter that is unavailable from a moment on.
struct AwaySince(Env, Millis);

impl PortLayer for AwaySince {
    async fn call<'a, T, F>(
        &'a self,
        operation: &'static str,
        _about: impl Fn() -> String + Send + 'a,
        mut call: F,
    ) -> PortResult<T>
    where
        T: Send + 'a,
        F: FnMut() -> BoxFuture<'a, PortResult<T>> + Send + 'a,
    {
        if self.0.now_ms() < self.1 {
            return call().await;
        }
        Err(PortError::transient(operation, "away"))
    }
}

fn limiter_away_since(env: &Env, since_ms: Millis) -> Arc<dyn Limiter> {
    let port: Arc<dyn Limiter> = Arc::new(MemoryLimiter::default());
    let layer = AwaySince(env.clone(), since_ms);
    Arc::new(Layered { layer, port })
}

fn request(max_output_tokens: u32) -> LlmRequest {
    let schema = OutputSchema::strict("s", &serde_json::json!({}));
    LlmRequest {
        model: "m".into(),
        system: "s".into(),
        user: "u".into(),
        images: Vec::new(),
        schema,
        max_output_tokens,
        follow_up: None,
        urgency: 0,
    }
}

fn client_of(
    env: &Env,
    errors: Vec<LlmError>,
    settings: ModelClientSettings,
) -> (ModelClient, Arc<FailingLlm>) {
    client_with(env, errors, settings, Arc::new(MemoryLimiter::default()))
}

fn client_with(
    env: &Env,
    errors: Vec<LlmError>,
    settings: ModelClientSettings,
    limiter: Arc<dyn Limiter>,
) -> (ModelClient, Arc<FailingLlm>) {
    let script = Arc::new(FailingLlm::default());
    *script.errors.lock() = errors.into();
    *script.env.lock() = Some(env.clone());
    (
        ModelClient::new(
            env.clone(),
            limiter,
            Arc::<FailingLlm>::clone(&script),
            settings,
        ),
        script,
    )
}

async fn complete(client: &ModelClient, max_output_tokens: u32, priority: Priority) -> String {
    let request = request(max_output_tokens);
    outcome(client.complete(&request, priority, &UnlimitedBudget).await)
}

fn per_minute(requests: u32, tokens: u32) -> ModelClientSettings {
    ModelClientSettings {
        requests_per_minute: requests,
        tokens_per_minute: tokens,
        ..ModelClientSettings::unlimited("m", "host")
    }
}

fn server_error() -> LlmError {
    LlmError::Server {
        status: 503,
        message: String::new(),
    }
}

fn outcome(result: Result<(LlmReply, ReplyStats), CallError>) -> String {
    match result {
        Ok(_) => "answered".into(),
        Err(CallError { failure, .. }) => match failure.kind {
            FailureKind::Throttled { after_ms } => format!("{} in {after_ms}", failure.code),
            FailureKind::Transient => format!("{} counted", failure.code),
            _ => format!("{} final", failure.code),
        },
    }
}

#[tokio::test(start_paused = true)]
async fn open_breaker_makes_no_calls_and_counts_no_attempts() {
    let env = Env::simulated(1);
    let (client, script) = client_with(
        &env,
        vec![server_error(); 6],
        per_minute(0, 0),
        Arc::new(MemoryLimiter::default()),
    );
    let mut endings = Vec::new();
    for _ in 0..6 {
        endings.push(complete(&client, 1, Priority::Bulk).await);
    }
    assert_eq!(endings[..5], vec!["model.server_error counted"; 5]);
    assert_eq!(endings[5], "model.breaker_open in 5000");
    assert_eq!(script.called_ms.lock().len(), 5);
    assert!(client.heartbeat().breaker_open_until_ms.is_some());
    env.sleep(Duration::from_secs(5)).await;
    assert_eq!(
        complete(&client, 1, Priority::Bulk).await,
        "model.server_error in 5000"
    );
    env.sleep(Duration::from_secs(10)).await;
    assert_eq!(complete(&client, 1, Priority::Bulk).await, "answered");
    assert_eq!(client.heartbeat().breaker_open_until_ms, None);
}

#[tokio::test(start_paused = true)]
async fn interactive_calls_give_up_sooner_during_an_outage() {
    let env = Env::simulated(1);
    let (client, _) = client_with(
        &env,
        vec![server_error(); 500],
        per_minute(0, 0),
        Arc::new(MemoryLimiter::default()),
    );
    let mut ends = Vec::new();
    for priority in [Priority::Interactive, Priority::Bulk] {
        let began = env.now_ms();
        while complete(&client, 1, priority).await != "model.provider_unreachable final" {
            env.sleep(Duration::from_secs(5)).await;
        }
        ends.push((env.now_ms() - began) / 60_000);
    }
    assert_eq!(ends, [2, 58]);
}

#[tokio::test(start_paused = true)]
async fn provider_pause_applies_to_all_clients() {
    let env = Env::simulated(1);
    let limiter = Arc::new(MemoryLimiter::default());
    let pause = LlmError::Throttled {
        retry_after: Some(Duration::from_secs(20)),
        rate_limits: ReportedLimits::default(),
    };
    let (one, _) = client_with(
        &env,
        vec![pause],
        per_minute(0, 0),
        Arc::<MemoryLimiter>::clone(&limiter),
    );
    let (other, script) = client_with(&env, vec![], per_minute(0, 0), limiter);
    let began = env.now_ms();
    assert_eq!(
        complete(&one, 1, Priority::Bulk).await,
        "model.throttled in 20000"
    );
    env.sleep(Duration::from_millis(10)).await;
    assert!(one.heartbeat().paused_until_ms.is_some());
    assert_eq!(complete(&other, 1, Priority::Bulk).await, "answered");
    assert!(script.called_ms.lock()[0] - began >= 20_000);
}

#[tokio::test(start_paused = true)]
async fn missing_permit_is_throttled_and_not_counted() {
    let env = Env::simulated(1);
    let (client, _) = client_of(&env, vec![], per_minute(1, 0));
    assert_eq!(complete(&client, 1, Priority::Bulk).await, "answered");
    assert_eq!(
        complete(&client, 1, Priority::Bulk).await,
        "model.no_permit in 5000"
    );
    assert_eq!(client.heartbeat().waiting, 0);
    assert_eq!(client.heartbeat().calling, 0);
}

#[tokio::test(start_paused = true)]
async fn stopping_process_ends_its_call_and_begins_no_other() {
    let env = Env::simulated(1);
    let settings = ModelClientSettings {
        concurrency: 1,
        ..per_minute(0, 0)
    };
    let (client, script) = client_of(&env, vec![], settings);
    let client = Arc::new(client);
    let call = || {
        let client = Arc::clone(&client);
        env.spawn(async move { complete(&client, 1, Priority::Bulk).await })
    };
    let calls = [call(), call(), call()];
    env.sleep(Duration::from_millis(50)).await;
    client.stop_new_calls();
    let mut outcomes = Vec::new();
    for call in calls.into_iter().chain([call()]) {
        outcomes.push(call.await.unwrap());
    }
    let refused = "model.stopping in 0";
    assert_eq!(outcomes, ["answered", refused, refused, refused]);
    assert_eq!(script.called_ms.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn waiters_stay_while_the_queue_moves() {
    let env = Env::simulated(1);
    let (client, _) = client_of(&env, vec![], per_minute(12, 0));
    let client = Arc::new(client);
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let client = Arc::clone(&client);
            env.spawn(async move { complete(&client, 1, Priority::Bulk).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), "answered", "the last one 100 s later");
    }
}

// At 110 requests and 330,000 tokens per minute, five requests of 7,000 tokens and thirty of 700 fit into twenty seconds.
#[tokio::test(start_paused = true)]
async fn large_requests_waiting_for_tokens_let_small_ones_pass() {
    let env = Env::simulated(1);
    let (client, script) = client_of(&env, vec![], per_minute(110, 330_000));
    let client = Arc::new(client);
    let began = env.now_ms();
    let calls: Vec<_> = (0..35)
        .map(|number| {
            let client = Arc::clone(&client);
            let user = "word ".repeat(if number < 5 { 7_000 } else { 700 });
            let request = LlmRequest {
                user,
                urgency: u8::from(number < 5),
                ..request(100)
            };
            env.spawn(async move {
                outcome(
                    client
                        .complete(&request, Priority::Bulk, &UnlimitedBudget)
                        .await,
                )
            })
        })
        .collect();
    for calls in calls {
        assert_eq!(calls.await.unwrap(), "answered");
    }
    let calls = script.called_ms.lock().clone();
    let last = calls.iter().max().unwrap() - began;
    assert!(
        last <= 20_500,
        "{:?}",
        calls.iter().map(|at| at - began).collect::<Vec<_>>()
    );
}

#[tokio::test(start_paused = true)]
async fn request_larger_than_burst_is_charged_for_actual_usage() {
    let env = Env::simulated(1);
    let (client, script) = client_of(&env, vec![], per_minute(0, 6_000));
    assert_eq!(
        complete(&client, 7_000, Priority::Bulk).await,
        "model.request_too_large final"
    );
    // About 3,000 tokens at 6,000 per minute, with a bulk burst of 160: the rest is debt.
    assert_eq!(complete(&client, 3_000, Priority::Bulk).await, "answered");
    env.sleep(Duration::from_millis(10)).await;
    assert_eq!(complete(&client, 3_000, Priority::Bulk).await, "answered");
    let called_ms = script.called_ms.lock().clone();
    assert!(
        called_ms[1] - called_ms[0] < 5_000,
        "settled to the 50 tokens it used: {called_ms:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn workers_fall_back_to_their_share_without_shared_limits() {
    let env = Env::simulated(1);
    let settings = ModelClientSettings {
        expected_workers: 4,
        ..per_minute(240, 0)
    };
    let (client, script) = client_with(&env, vec![], settings, limiter_away_since(&env, 0));
    for _ in 0..30 {
        assert_eq!(complete(&client, 1, Priority::Bulk).await, "answered");
    }
    let called_ms = script.called_ms.lock().clone();
    let seconds = (called_ms[29] - called_ms[0]) / 1_000;
    assert!((26..=30).contains(&seconds), "60 a minute: {seconds} s");
}

#[tokio::test(start_paused = true)]
async fn workers_share_what_the_provider_states_without_shared_limits() {
    let env = Env::simulated(1);
    let settings = ModelClientSettings {
        expected_workers: 4,
        ..per_minute(0, 0)
    };
    let (client, script) = client_with(&env, vec![], settings, limiter_away_since(&env, 0));
    script.rate_limits.lock().requests_per_minute = Some(240);
    for _ in 0..30 {
        assert_eq!(complete(&client, 1, Priority::Bulk).await, "answered");
    }
    let called_ms = script.called_ms.lock().clone();
    let seconds = (called_ms[29] - called_ms[0]) / 1_000;
    assert!((26..=31).contains(&seconds), "60 a minute: {seconds} s");
}

// Accepts a number of requests in any minute and refuses the rest, without saying its limit.
struct SilentLimits {
    env: Env,
    per_minute: usize,
    accepted_ms: Mutex<Vec<Millis>>,
    refused_ms: Mutex<Vec<Millis>>,
}

#[async_trait]
impl Llm for SilentLimits {
    async fn complete(&self, _: &LlmRequest) -> Result<LlmReply, LlmError> {
        let now_ms = self.env.now_ms();
        self.env.sleep(Duration::from_millis(50)).await;
        let mut accepted = self.accepted_ms.lock();
        let recent = accepted
            .iter()
            .rev()
            .take_while(|at| **at + 60_000 > now_ms);
        if recent.count() >= self.per_minute {
            self.refused_ms.lock().push(now_ms);
            return Err(LlmError::Throttled {
                retry_after: None,
                rate_limits: ReportedLimits::default(),
            });
        }
        accepted.push(now_ms);
        Ok(LlmReply::new("{}", TokenUsage::default()))
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_teach_the_rate_without_shared_limits() {
    let env = Env::simulated(1);
    let start_ms = env.now_ms();
    let away_ms = start_ms + 300_000;
    let limiter = limiter_away_since(&env, away_ms);
    let provider = Arc::new(SilentLimits {
        env: env.clone(),
        per_minute: 120,
        accepted_ms: Mutex::default(),
        refused_ms: Mutex::default(),
    });
    let client = ModelClient::new(
        env.clone(),
        limiter,
        Arc::<SilentLimits>::clone(&provider),
        per_minute(0, 0),
    );
    while env.now_ms() < start_ms + 600_000 {
        // A refusal pauses the client; the task comes again.
        let _ = client
            .complete(&request(1), Priority::Bulk, &UnlimitedBudget)
            .await;
    }
    let since = |all: &Mutex<Vec<Millis>>| all.lock().iter().filter(|at| **at >= away_ms).count();
    let accepted = since(&provider.accepted_ms);
    let refused = since(&provider.refused_ms);
    assert!(accepted >= 480, "{accepted} of 600 in five minutes");
    assert!(refused * 50 <= accepted, "{refused} refusals of {accepted}");
}

#[tokio::test(start_paused = true)]
async fn wrong_api_key_is_throttled_and_reported() {
    let env = Env::simulated(1);
    let error = LlmError::Configuration {
        status: 401,
        message: "bad key".into(),
    };
    let (client, _) = client_of(&env, vec![error], per_minute(0, 0));
    assert_eq!(
        complete(&client, 1, Priority::Bulk).await,
        "model.configuration in 300000"
    );
    assert_eq!(
        client.heartbeat().last_error.as_deref(),
        Some("model.configuration")
    );
}

#[tokio::test(start_paused = true)]
async fn unusable_reply_reports_its_cost() {
    let env = Env::simulated(1);
    let usage = TokenUsage {
        prompt_tokens: 7,
        output_tokens: 9,
        cached_tokens: 0,
    };
    let error = LlmError::Unreadable {
        message: "cut off".into(),
        usage,
    };
    let (client, _) = client_of(&env, vec![error], per_minute(0, 0));
    let error = client
        .complete(&request(1), Priority::Bulk, &UnlimitedBudget)
        .await
        .unwrap_err();
    assert_eq!(
        error.stats,
        Some(ReplyStats {
            usage,
            took_ms: 100,
            at_ms: env.now_ms()
        })
    );
    assert_eq!(error.failure.kind, FailureKind::Transient);
}

#[tokio::test(start_paused = true)]
async fn throttling_without_retry_after_backs_off_exponentially() {
    let env = Env::simulated(1);
    let silent = LlmError::Throttled {
        retry_after: None,
        rate_limits: ReportedLimits::default(),
    };
    let (client, script) = client_with(
        &env,
        vec![silent; 6],
        per_minute(0, 0),
        Arc::new(MemoryLimiter::default()),
    );
    while complete(&client, 1, Priority::Bulk).await != "answered" {}
    let called_ms = script.called_ms.lock().clone();
    let pauses: Vec<_> = called_ms
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) / 1_000)
        .collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 16]);
}
