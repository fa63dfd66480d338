//! What the gate lets through, and what becomes of what it does not.

use std::collections::VecDeque;

use async_trait::async_trait;
use stemma_engine::limit::{Cost, Permit, Reserved, Stated};
use stemma_engine::{FailureKind, PortError};

use super::*;
use crate::prices::Free;
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
        let usage = Usage {
            prompt_tokens: 40,
            output_tokens: 10,
            cached_tokens: 0,
        };
        let error = self.errors.lock().unwrap().pop_front();
        error.map_or(Ok(Reply::new("{}", usage)), Err)
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
    async fn state(&self, _: &str, _: Quota, _: Stated, _: Millis) -> Result<(), PortError> {
        Err(PortError::passing("limiter", "state", "away"))
    }
    async fn slow(&self, _: &str, _: u64, _: Millis) -> Result<(), PortError> {
        Err(PortError::passing("limiter", "slow", "away"))
    }
    async fn reserve(&self, _: &str, _: u64, _: u64, _: Millis) -> Result<Reserved, PortError> {
        Err(PortError::passing("limiter", "reserve", "away"))
    }
    async fn spend(&self, _: &str, _: u64, _: u64, _: Millis) -> Result<(), PortError> {
        Err(PortError::passing("limiter", "spend", "away"))
    }
    async fn open_account(&self, _: &str, _: u64, _: Millis) -> Result<(), PortError> {
        Err(PortError::passing("limiter", "open_account", "away"))
    }
}

fn request(max_output_tokens: u32) -> Request {
    let schema = Schema::strict("s", &serde_json::json!({}));
    Request {
        model: "m".into(),
        system: "s".into(),
        user: "u".into(),
        schema,
        max_output_tokens,
        follow_up: None,
        urgency: 0,
    }
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
    (
        Gate::new(
            env.clone(),
            limiter,
            Arc::<Script>::clone(&script),
            settings,
        ),
        script,
    )
}

fn minute(requests: u32, tokens: u32) -> GateSettings {
    GateSettings {
        requests_per_minute: requests,
        tokens_per_minute: tokens,
        ..GateSettings::unlimited("m", "host")
    }
}

fn away() -> LlmError {
    LlmError::Server {
        status: 503,
        message: String::new(),
    }
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
    let (gate, script) = gate(
        &env,
        vec![away(); 6],
        minute(0, 0),
        Arc::new(MemoryLimiter::default()),
    );
    let mut endings = Vec::new();
    for _ in 0..6 {
        endings.push(kind(gate.ask(&request(1), Class::Bulk, &Free).await));
    }
    assert_eq!(endings[..5], vec!["model.server_error counted"; 5]);
    assert_eq!(
        (endings[5].as_str(), script.asked_ms.lock().unwrap().len()),
        ("model.breaker_open in 5000", 5)
    );
    assert!(gate.beat().breaker_open_until_ms.is_some());
    env.sleep(Duration::from_secs(5)).await;
    assert_eq!(
        kind(gate.ask(&request(1), Class::Bulk, &Free).await),
        "model.server_error in 5000"
    );
    env.sleep(Duration::from_secs(10)).await;
    assert_eq!(
        kind(gate.ask(&request(1), Class::Bulk, &Free).await),
        "answered"
    );
    assert_eq!(gate.beat().breaker_open_until_ms, None);
}

#[tokio::test(start_paused = true)]
async fn patience_ends_sooner_where_a_person_waits() {
    let env = Env::simulated(1);
    let (gate, _) = gate(
        &env,
        vec![away(); 500],
        minute(0, 0),
        Arc::new(MemoryLimiter::default()),
    );
    let mut ends = Vec::new();
    for class in [Class::Interactive, Class::Bulk] {
        let began = env.now_ms();
        while !kind(gate.ask(&request(1), class, &Free).await)
            .ends_with("model.provider_unreachable final")
        {
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
    let pause = LlmError::Throttled {
        after: Some(Duration::from_secs(20)),
        stated: Stated::default(),
    };
    let (one, _) = gate(
        &env,
        vec![pause],
        minute(0, 0),
        Arc::<MemoryLimiter>::clone(&limiter),
    );
    let (other, script) = gate(&env, vec![], minute(0, 0), limiter);
    let began = env.now_ms();
    assert_eq!(
        kind(one.ask(&request(1), Class::Bulk, &Free).await),
        "model.throttled in 20000"
    );
    env.sleep(Duration::from_millis(10)).await;
    assert!(one.beat().paused_until_ms.is_some());
    assert_eq!(
        kind(other.ask(&request(1), Class::Bulk, &Free).await),
        "answered"
    );
    assert!(script.asked_ms.lock().unwrap()[0] - began >= 20_000);
}

#[tokio::test(start_paused = true)]
async fn no_permit_in_time_is_no_attempt() {
    let env = Env::simulated(1);
    let (gate, _) = gate(
        &env,
        vec![],
        minute(1, 0),
        Arc::new(MemoryLimiter::default()),
    );
    assert_eq!(
        kind(gate.ask(&request(1), Class::Bulk, &Free).await),
        "answered"
    );
    assert_eq!(
        kind(gate.ask(&request(1), Class::Bulk, &Free).await),
        "model.no_permit in 5000"
    );
    assert_eq!((gate.beat().waiting, gate.beat().calling), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_line_that_moves_is_stayed_in() {
    let env = Env::simulated(1);
    let (gate, _) = gate(
        &env,
        vec![],
        minute(12, 0),
        Arc::new(MemoryLimiter::default()),
    );
    let gate = Arc::new(gate);
    let asked: Vec<_> = (0..20)
        .map(|_| {
            let gate = Arc::clone(&gate);
            env.spawn(async move { kind(gate.ask(&request(1), Class::Bulk, &Free).await) })
        })
        .collect();
    for asked in asked {
        assert_eq!(asked.await.unwrap(), "answered", "the last one 100 s later");
    }
}

/// 110 requests and 330,000 tokens a minute: five requests of 7,000 tokens, and thirty of 700 behind them, are no
/// more than either limit lets through in twenty seconds.
#[tokio::test(start_paused = true)]
async fn who_waits_for_tokens_lets_others_use_the_requests() {
    let env = Env::simulated(1);
    let (gate, script) = gate(
        &env,
        vec![],
        minute(110, 330_000),
        Arc::new(MemoryLimiter::default()),
    );
    let gate = Arc::new(gate);
    let began = env.now_ms();
    let asked: Vec<_> = (0..35)
        .map(|number| {
            let gate = Arc::clone(&gate);
            let user = "word ".repeat(if number < 5 { 7_000 } else { 700 });
            let request = Request {
                user,
                urgency: u8::from(number < 5),
                ..request(100)
            };
            env.spawn(async move { kind(gate.ask(&request, Class::Bulk, &Free).await) })
        })
        .collect();
    for asked in asked {
        assert_eq!(asked.await.unwrap(), "answered");
    }
    let asked = script.asked_ms.lock().unwrap().clone();
    let last = asked.iter().max().unwrap() - began;
    assert!(
        last <= 20_500,
        "{:?}",
        asked.iter().map(|at| at - began).collect::<Vec<_>>()
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_larger_than_a_burst_passes_and_is_charged_for_what_it_used() {
    let env = Env::simulated(1);
    let (gate, script) = gate(
        &env,
        vec![],
        minute(0, 6_000),
        Arc::new(MemoryLimiter::default()),
    );
    assert_eq!(
        kind(gate.ask(&request(7_000), Class::Bulk, &Free).await),
        "model.request_too_large final"
    );
    // About 3,000 tokens of 6,000 a minute, where bulk work may send 160 at once: what is beyond that is owed.
    assert_eq!(
        kind(gate.ask(&request(3_000), Class::Bulk, &Free).await),
        "answered"
    );
    env.sleep(Duration::from_millis(10)).await;
    assert_eq!(
        kind(gate.ask(&request(3_000), Class::Bulk, &Free).await),
        "answered"
    );
    let asked = script.asked_ms.lock().unwrap().clone();
    assert!(
        asked[1] - asked[0] < 5_000,
        "settled to the 50 tokens it used: {asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_shared_limits_each_worker_keeps_to_its_share() {
    let env = Env::simulated(1);
    let settings = GateSettings {
        expected_workers: 4,
        ..minute(240, 0)
    };
    let (gate, script) = gate(&env, vec![], settings, Arc::new(Away));
    for _ in 0..30 {
        assert_eq!(
            kind(gate.ask(&request(1), Class::Bulk, &Free).await),
            "answered"
        );
    }
    let asked = script.asked_ms.lock().unwrap().clone();
    let seconds = (asked[29] - asked[0]) / 1_000;
    assert!((26..=30).contains(&seconds), "60 a minute: {seconds} s");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_wrong_is_no_ones_attempt_and_seen() {
    let env = Env::simulated(1);
    let error = LlmError::Configuration {
        status: 401,
        message: "bad key".into(),
    };
    let (gate, _) = gate(
        &env,
        vec![error],
        minute(0, 0),
        Arc::new(MemoryLimiter::default()),
    );
    assert_eq!(
        kind(gate.ask(&request(1), Class::Bulk, &Free).await),
        "model.configuration in 300000"
    );
    assert_eq!(
        gate.beat().last_error.as_deref(),
        Some("model.configuration")
    );
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_no_answer_is_paid_for() {
    let env = Env::simulated(1);
    let usage = Usage {
        prompt_tokens: 7,
        output_tokens: 9,
        cached_tokens: 0,
    };
    let error = LlmError::Unreadable {
        message: "cut off".into(),
        usage,
    };
    let (gate, _) = gate(
        &env,
        vec![error],
        minute(0, 0),
        Arc::new(MemoryLimiter::default()),
    );
    let refusal = gate.ask(&request(1), Class::Bulk, &Free).await.unwrap_err();
    assert_eq!(
        refusal.replied,
        Some(Replied {
            usage,
            took_ms: 100,
            at_ms: env.now_ms()
        })
    );
    assert_eq!(refusal.failure.kind, FailureKind::Transient);
}

#[tokio::test(start_paused = true)]
async fn refusals_that_say_nothing_are_paused_for_longer_and_longer() {
    let env = Env::simulated(1);
    let silent = LlmError::Throttled {
        after: None,
        stated: Stated::default(),
    };
    let (gate, script) = gate(
        &env,
        vec![silent; 6],
        minute(0, 0),
        Arc::new(MemoryLimiter::default()),
    );
    while kind(gate.ask(&request(1), Class::Bulk, &Free).await) != "answered" {}
    let asked = script.asked_ms.lock().unwrap().clone();
    let pauses: Vec<_> = asked
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) / 1_000)
        .collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 16]);
}
