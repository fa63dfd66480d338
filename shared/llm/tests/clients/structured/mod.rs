//! Structured completions with a scripted provider.
#![expect(clippy::unwrap_used, reason = "test code")]

mod room;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use stemma_llm::client::{ModelClient, ModelClientSettings, ReplyStats};
use stemma_llm::prices::CallBudget;
use stemma_llm::request::{
    FinishReason, FollowUp, Llm, LlmError, LlmReply, LlmRequest, OutputSchema, TokenUsage,
};
use stemma_llm::structured::{CallLog, StructuredOutput, complete_structured};
use stemma_store::limit::MemoryLimiter;
use stemma_store::spend::{CallReservation, SpendAmount};
use stemma_store::{Env, Failure, FailureKind, Priority};

#[derive(Default)]
struct ReplayLlm {
    replies: Mutex<VecDeque<Result<LlmReply, LlmError>>>,
    follow_ups: Mutex<Vec<Option<FollowUp>>>,
    limits: Mutex<Vec<u32>>,
    pause: Duration,
}

#[async_trait]
impl Llm for ReplayLlm {
    async fn complete(&self, request: &LlmRequest) -> Result<LlmReply, LlmError> {
        self.follow_ups
            .lock()
            .unwrap()
            .push(request.follow_up.clone());
        self.limits.lock().unwrap().push(request.max_output_tokens);
        tokio::time::sleep(self.pause).await;
        self.replies.lock().unwrap().pop_front().unwrap()
    }
}

#[derive(Default)]
struct RejectedReplies(Mutex<Vec<ReplyStats>>, Mutex<Vec<u64>>);

#[async_trait]
impl CallBudget for RejectedReplies {
    async fn reserve(&self, call: &CallReservation) -> Result<(), Failure> {
        self.1.lock().unwrap().push(call.max.tokens);
        Ok(())
    }
    async fn settle(&self, call: &CallReservation, used: SpendAmount) {
        assert!(used.tokens <= call.max.tokens, "{used:?} of {call:?}");
    }
}

/// A budget for one call at a time.
#[derive(Default)]
struct OneCall(Mutex<bool>);

#[async_trait]
impl CallBudget for OneCall {
    async fn reserve(&self, _: &CallReservation) -> Result<(), Failure> {
        match std::mem::replace(&mut *self.0.lock().unwrap(), true) {
            true => Err(Failure::permanent(
                "test.reserved",
                "another call is under way",
            )),
            false => Ok(()),
        }
    }

    async fn settle(&self, call: &CallReservation, _: SpendAmount) {
        self.abandon(call);
    }

    fn abandon(&self, _: &CallReservation) {
        *self.0.lock().unwrap() = false;
    }
}

#[async_trait]
impl CallLog for OneCall {
    async fn record_rejected(&self, _: &LlmRequest, _: &ReplyStats) -> Result<(), Failure> {
        Ok(())
    }
}

// A request whose client has gone drops its call.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_gives_its_reservation_back() {
    let env = Env::simulated(1);
    let replies = [(); 2].map(|()| complete_reply(r#"{"title":"a"}"#));
    let script = Arc::new(ReplayLlm {
        replies: Mutex::new(replies.into()),
        pause: Duration::from_secs(5),
        ..ReplayLlm::default()
    });
    let settings = ModelClientSettings::unlimited("m", "host");
    let client = ModelClient::new(env, Arc::new(MemoryLimiter::default()), script, settings);
    let budget = OneCall::default();
    let request = request();
    let call = || {
        let read = |reply: TitleOutput| Ok(reply.title);
        complete_structured(&client, &request, Priority::Bulk, &budget, read)
    };
    let dropped = tokio::time::timeout(Duration::from_secs(1), call()).await;
    assert!(dropped.is_err(), "the reply takes longer");
    assert_eq!(call().await.unwrap().value, "a");
}

#[async_trait]
impl CallLog for RejectedReplies {
    async fn record_rejected(&self, _: &LlmRequest, reply: &ReplyStats) -> Result<(), Failure> {
        self.0.lock().unwrap().push(*reply);
        Ok(())
    }
}

#[derive(Debug, PartialEq, Deserialize)]
struct TitleOutput {
    title: String,
}

// The result, the number of rejected replies, and the follow-up of each call.
type CallOutcome = (
    Result<StructuredOutput<String>, Failure>,
    usize,
    Vec<Option<FollowUp>>,
);

fn request() -> LlmRequest {
    LlmRequest {
        model: "m".into(),
        system: "s".into(),
        user: "u".into(),
        images: Vec::new(),
        schema: OutputSchema::strict("s", &json!({ "title": { "type": "string" } })),
        max_output_tokens: LIMIT,
        follow_up: None,
        urgency: 0,
    }
}

fn client_with(
    replies: Vec<Result<LlmReply, LlmError>>,
    pause: Duration,
) -> (ModelClient, Arc<ReplayLlm>) {
    let script = Arc::new(ReplayLlm {
        replies: Mutex::new(replies.into()),
        pause,
        ..ReplayLlm::default()
    });
    let settings = ModelClientSettings {
        task_timeout: Duration::from_secs(100),
        max_reply_tokens: RAISED,
        ..ModelClientSettings::unlimited("m", "host")
    };
    let client = ModelClient::new(
        Env::simulated(1),
        Arc::new(MemoryLimiter::default()),
        Arc::<ReplayLlm>::clone(&script),
        settings,
    );
    (client, script)
}

async fn run_structured(replies: Vec<Result<LlmReply, LlmError>>, pause: Duration) -> CallOutcome {
    let (client, script) = client_with(replies, pause);
    let rejected = RejectedReplies::default();
    let answer = complete_structured(
        &client,
        &request(),
        Priority::Bulk,
        &rejected,
        |reply: TitleOutput| {
            if reply.title.is_empty() {
                Err("the title is empty".into())
            } else {
                Ok(reply.title)
            }
        },
    )
    .await;
    let follow_ups = script.follow_ups.lock().unwrap().clone();
    let reserved = rejected.1.lock().unwrap().clone();
    assert!(
        reserved.len() == follow_ups.len() && reserved.iter().all(|tokens| *tokens > 100),
        "{reserved:?}"
    );
    (answer, rejected.0.into_inner().unwrap().len(), follow_ups)
}

fn reply(text: &str, finish: FinishReason) -> Result<LlmReply, LlmError> {
    let usage = TokenUsage {
        prompt_tokens: 20,
        cached_tokens: 0,
        output_tokens: 7,
    };
    Ok(LlmReply {
        finish,
        ..LlmReply::new(text, usage)
    })
}

fn complete_reply(text: &str) -> Result<LlmReply, LlmError> {
    reply(text, FinishReason::Complete)
}

const GOOD: &str = r#"{"title":"Risk Factors"}"#;
// Output limits of requests, and of requests that are asked again with more room.
const LIMIT: u32 = 100;
const RAISED: u32 = 900;

fn prose_cut_at(output_tokens: u32) -> Result<LlmReply, LlmError> {
    let usage = TokenUsage {
        prompt_tokens: 20,
        cached_tokens: 0,
        output_tokens,
    };
    Ok(LlmReply {
        finish: FinishReason::Length,
        ..LlmReply::new("Let me see", usage)
    })
}

#[tokio::test(start_paused = true)]
async fn a_cut_prompt_is_an_error_that_says_what_context_is_needed() {
    let read = |prompt_tokens: u32| {
        let usage = TokenUsage {
            prompt_tokens,
            cached_tokens: 0,
            output_tokens: 7,
        };
        Ok(LlmReply::new(GOOD, usage))
    };
    let long = LlmRequest {
        user: "word ".repeat(6_000),
        ..request()
    };
    for (prompt_tokens, is_cut) in [
        (2_050, true),
        (3_000, true),
        (3_900, true),
        (4_100, false),
        (0, false),
    ] {
        let (client, script) = client_with(vec![read(prompt_tokens)], Duration::ZERO);
        let log = RejectedReplies::default();
        let title = |reply: TitleOutput| Ok(reply.title);
        let result = complete_structured(&client, &long, Priority::Bulk, &log, title).await;
        assert_eq!(script.limits.lock().unwrap().len(), 1);
        assert_eq!(result.is_err(), is_cut, "{prompt_tokens}: {result:?}");
        assert_eq!(
            log.0.lock().unwrap().len(),
            usize::from(is_cut),
            "it is billed"
        );
        if let Err(failure) = result {
            assert_eq!(failure.code, "model.context_exceeded");
            assert!(
                failure
                    .message
                    .contains(&format!("read {prompt_tokens} of ")),
                "{failure}"
            );
            assert!(failure.next.unwrap().contains("OLLAMA_CONTEXT_LENGTH=8192"));
        }
    }
    // Other counts of a short prompt are another vocabulary.
    let (answer, ..) = run_structured(vec![read(1)], Duration::ZERO).await;
    assert!(answer.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_prompt_of_which_a_part_was_cached_is_not_cut() {
    let long = LlmRequest {
        user: "word ".repeat(6_000),
        ..request()
    };
    let read = |prompt_tokens, cached_tokens| {
        let usage = TokenUsage {
            prompt_tokens,
            cached_tokens,
            output_tokens: 7,
        };
        Ok(LlmReply::new(GOOD, usage))
    };
    // The count leaves cached tokens out, and tells how many; then it does not tell.
    let replies = vec![
        read(1_000, 5_000),
        read(6_000, 0),
        read(1_500, 0),
        read(2_048, 0),
    ];
    let (client, _) = client_with(replies, Duration::ZERO);
    let mut codes = Vec::new();
    for _ in 0..4 {
        let log = RejectedReplies::default();
        let title = |reply: TitleOutput| Ok(reply.title);
        let result = complete_structured(&client, &long, Priority::Bulk, &log, title).await;
        codes.push(result.err().map(|failure| failure.code));
    }
    let cut = Some("model.context_exceeded".into());
    assert_eq!(
        codes,
        [None, None, None, cut],
        "2,048 is the size of a context"
    );
}

#[tokio::test(start_paused = true)]
async fn invalid_replies_are_retried_with_the_error() {
    let empty = LlmError::Unreadable {
        message: "empty".into(),
        usage: TokenUsage::default(),
    };
    let (answer, rejected, follow_ups) = run_structured(
        vec![
            complete_reply(r#"{"title":""}"#),
            Err(empty),
            complete_reply(GOOD),
        ],
        Duration::ZERO,
    )
    .await;
    let answer = answer.unwrap();
    assert_eq!(answer.value, "Risk Factors");
    assert_eq!(answer.replies.len(), 1);
    assert_eq!(rejected, 2);
    // Usage does not depend on retries.
    assert_eq!(answer.usage.prompt_tokens, 20);
    assert_eq!(answer.usage.output_tokens, 7);
    let again = FollowUp::Retry {
        reply: r#"{"title":""}"#.into(),
        error: "the title is empty".into(),
    };
    let empty = FollowUp::Retry {
        reply: String::new(),
        error: "the reply cannot be used: empty".into(),
    };
    assert_eq!(
        follow_ups,
        [None, Some(again), Some(empty)],
        "the model is told that its reply was empty"
    );
}

#[tokio::test(start_paused = true)]
async fn third_invalid_reply_fails_permanently() {
    let (answer, rejected, follow_ups) =
        run_structured(vec![complete_reply("I cannot"); 3], Duration::ZERO).await;
    assert_ne!(follow_ups[1], follow_ups[2], "no request is sent twice");
    let failure = answer.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Permanent);
    assert_eq!(failure.code.as_str(), "model.reply_unreadable");
    assert_eq!(rejected, 3);
    assert!(!failure.message.contains("I cannot"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn truncated_replies_are_continued_and_count_once() {
    let parts = [r#"{"title":"Ri"#, r#"sk Fac"#, r#"tors"}"#];
    let replies = vec![
        reply(parts[0], FinishReason::Length),
        reply(parts[1], FinishReason::Length),
        complete_reply(parts[2]),
    ];
    let (answer, rejected, follow_ups) = run_structured(replies, Duration::ZERO).await;
    let answer = answer.unwrap();
    assert_eq!(answer.value, "Risk Factors");
    assert_eq!(answer.replies.len(), 3);
    assert_eq!(rejected, 0);
    assert_eq!(answer.usage.prompt_tokens, 20);
    assert_eq!(answer.usage.output_tokens, 21);
    assert_eq!(
        follow_ups[2],
        Some(FollowUp::Continue {
            partial: r#"{"title":"Risk Fac"#.into()
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_reply_without_end_fails_the_task_after_four_continuations() {
    let mut replies = vec![reply("{\"title\":\"a", FinishReason::Length); 5];
    replies.push(complete_reply(GOOD));
    let (answer, rejected, follow_ups) = run_structured(replies, Duration::ZERO).await;
    let failure = answer.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Permanent);
    assert_eq!(failure.code.as_str(), "model.reply_unreadable");
    assert_eq!(rejected, 5);
    assert_eq!(follow_ups.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn prose_replies_are_not_continued() {
    let replies = vec![prose_cut_at(LIMIT), complete_reply(GOOD)];
    let (answer, rejected, follow_ups) = run_structured(replies, Duration::ZERO).await;
    assert_eq!(answer.unwrap().value, "Risk Factors");
    assert_eq!(rejected, 1);
    assert_eq!(follow_ups.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn task_timeout_covers_all_calls() {
    let (answer, rejected, follow_ups) = run_structured(
        vec![
            complete_reply("no"),
            complete_reply("no"),
            complete_reply(GOOD),
        ],
        Duration::from_secs(40),
    )
    .await;
    let failure = answer.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Transient);
    assert_eq!(failure.code.as_str(), "model.task_timeout");
    assert_eq!(rejected, 2);
    assert_eq!(follow_ups.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn failed_call_ends_the_attempt_and_records_paid_replies() {
    let away = LlmError::Server {
        status: 500,
        message: String::new(),
    };
    let (answer, rejected, _) = run_structured(
        vec![reply("{\"title\":\"a", FinishReason::Length), Err(away)],
        Duration::ZERO,
    )
    .await;
    assert_eq!(answer.unwrap_err().code.as_str(), "model.server_error");
    assert_eq!(rejected, 1);
}
