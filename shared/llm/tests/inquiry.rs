//! A question until it is answered, by a provider that follows a script.
#![expect(clippy::unwrap_used, reason = "tests and what they stand on")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use stemma_engine::jobs::Amount;
use stemma_engine::limit::MemoryLimiter;
use stemma_engine::{Class, Env, Failure, FailureKind};
use stemma_llm::gate::{Gate, GateSettings, Replied};
use stemma_llm::inquiry::{Answer, Journal, inquire};
use stemma_llm::prices::Purse;
use stemma_llm::request::{Finish, FollowUp, Llm, LlmError, Reply, Request, Schema, Usage};

#[derive(Default)]
struct Script {
    replies: Mutex<VecDeque<Result<Reply, LlmError>>>,
    asked: Mutex<Vec<Option<FollowUp>>>,
    pause: Duration,
}

#[async_trait]
impl Llm for Script {
    async fn complete(&self, request: &Request) -> Result<Reply, LlmError> {
        self.asked.lock().unwrap().push(request.follow_up.clone());
        tokio::time::sleep(self.pause).await;
        self.replies.lock().unwrap().pop_front().unwrap()
    }
}

#[derive(Default)]
struct Wasted(Mutex<Vec<Replied>>, Mutex<Vec<u64>>);

#[async_trait]
impl Purse for Wasted {
    async fn reserve(&self, most: Amount) -> Result<(), Failure> {
        self.1.lock().unwrap().push(most.tokens);
        Ok(())
    }
    async fn settle(&self, most: Amount, used: Amount) {
        assert!(used.tokens <= most.tokens, "{used:?} of {most:?}");
    }
}

#[async_trait]
impl Journal for Wasted {
    async fn useless(&self, _: &Request, reply: &Replied) -> Result<(), Failure> {
        self.0.lock().unwrap().push(*reply);
        Ok(())
    }
}

#[derive(Debug, PartialEq, Deserialize)]
struct Told {
    title: String,
}

/// What came of it, what was wasted, and what was said after the question.
type Ended = (
    Result<Answer<String>, Failure>,
    usize,
    Vec<Option<FollowUp>>,
);

async fn ask(replies: Vec<Result<Reply, LlmError>>, pause: Duration) -> Ended {
    let env = Env::simulated(1);
    let script = Arc::new(Script {
        replies: Mutex::new(replies.into()),
        pause,
        ..Script::default()
    });
    let settings = GateSettings {
        task_timeout: Duration::from_secs(100),
        ..GateSettings::unlimited("m", "host")
    };
    let gate = Gate::new(
        env,
        Arc::new(MemoryLimiter::default()),
        Arc::<Script>::clone(&script),
        settings,
    );
    let schema = Schema::strict("s", &json!({ "title": { "type": "string" } }));
    let model = "m".into();
    let system = "s".into();
    let user = "u".into();
    let request = Request {
        model,
        system,
        user,
        schema,
        max_output_tokens: 100,
        follow_up: None,
        urgency: 0,
    };
    let wasted = Wasted::default();
    let answer = inquire(&gate, &request, Class::Bulk, &wasted, |told: Told| {
        if told.title.is_empty() {
            Err("the title is empty".into())
        } else {
            Ok(told.title)
        }
    })
    .await;
    let asked = script.asked.lock().unwrap().clone();
    let reserved = wasted.1.lock().unwrap().clone();
    assert!(
        reserved.len() == asked.len() && reserved.iter().all(|tokens| *tokens > 100),
        "{reserved:?}"
    );
    (answer, wasted.0.into_inner().unwrap().len(), asked)
}

fn reply(text: &str, finish: Finish) -> Result<Reply, LlmError> {
    let usage = Usage {
        prompt_tokens: 20,
        cached_tokens: 0,
        output_tokens: 7,
    };
    Ok(Reply {
        finish,
        ..Reply::new(text, usage)
    })
}

fn whole(text: &str) -> Result<Reply, LlmError> {
    reply(text, Finish::Complete)
}

const GOOD: &str = r#"{"title":"Risk Factors"}"#;

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_no_answer_is_asked_for_again_with_what_is_wrong() {
    let empty = LlmError::Unreadable {
        message: "it is empty".into(),
        usage: Usage::default(),
    };
    let (answer, wasted, asked) = ask(
        vec![whole(r#"{"title":""}"#), Err(empty), whole(GOOD)],
        Duration::ZERO,
    )
    .await;
    let answer = answer.unwrap();
    assert_eq!(
        (answer.value.as_str(), answer.replies.len(), wasted),
        ("Risk Factors", 1, 2)
    );
    assert_eq!(
        (answer.spent.prompt_tokens, answer.spent.output_tokens),
        (20, 7),
        "as if it had been asked once"
    );
    let again = FollowUp::Again {
        reply: r#"{"title":""}"#.into(),
        wrong: "the title is empty".into(),
    };
    assert_eq!(
        asked,
        [None, Some(again), None],
        "what holds nothing is not shown"
    );
}

#[tokio::test(start_paused = true)]
async fn the_third_reply_that_is_no_answer_is_the_last() {
    let (answer, wasted, _) = ask(vec![whole("I cannot"); 3], Duration::ZERO).await;
    let failure = answer.unwrap_err();
    assert_eq!(
        (failure.kind, failure.code.as_str(), wasted),
        (FailureKind::Permanent, "model.reply_unreadable", 3)
    );
    assert!(
        !failure.message.contains("cannot ") || !failure.message.contains("I cannot"),
        "{failure}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_breaks_off_is_continued_and_counts_as_one() {
    let parts = [r#"{"title":"Ri"#, r#"sk Fac"#, r#"tors"}"#];
    let replies = vec![
        reply(parts[0], Finish::Length),
        reply(parts[1], Finish::Length),
        whole(parts[2]),
    ];
    let (answer, wasted, asked) = ask(replies, Duration::ZERO).await;
    let answer = answer.unwrap();
    assert_eq!(
        (answer.value.as_str(), answer.replies.len(), wasted),
        ("Risk Factors", 3, 0)
    );
    assert_eq!(
        (answer.spent.prompt_tokens, answer.spent.output_tokens),
        (20, 21)
    );
    assert_eq!(
        asked[2],
        Some(FollowUp::Continue {
            so_far: r#"{"title":"Risk Fac"#.into()
        })
    );
}

#[tokio::test(start_paused = true)]
async fn what_never_ends_is_given_up_and_what_is_prose_is_not_continued() {
    let mut replies = vec![reply("{\"title\":\"a", Finish::Length); 5];
    replies.extend([reply("Let me think", Finish::Length), whole(GOOD)]);
    let (answer, wasted, asked) = ask(replies, Duration::ZERO).await;
    assert_eq!(
        (answer.unwrap().value.as_str(), wasted, asked.len()),
        ("Risk Factors", 6, 7)
    );
}

#[tokio::test(start_paused = true)]
async fn all_calls_of_a_task_have_one_end() {
    let (answer, wasted, asked) = ask(
        vec![whole("no"), whole("no"), whole(GOOD)],
        Duration::from_secs(40),
    )
    .await;
    let failure = answer.unwrap_err();
    assert_eq!(
        (failure.kind, failure.code.as_str()),
        (FailureKind::Transient, "model.task_timeout")
    );
    assert_eq!((wasted, asked.len()), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_reply_is_the_attempts_end_and_what_was_paid_is_noted() {
    let away = LlmError::Server {
        status: 500,
        message: String::new(),
    };
    let (answer, wasted, _) = ask(
        vec![reply("{\"title\":\"a", Finish::Length), Err(away)],
        Duration::ZERO,
    )
    .await;
    assert_eq!(
        (answer.unwrap_err().code.as_str(), wasted),
        ("model.server_error", 1)
    );
}
