//! One question until it is answered: continued where the reply breaks off, asked again where it is no answer.
//!
//! How this relates to the attempts of a task (architecture §4.11): a question is asked at most three times within one
//! attempt, each time through breaker and limits, and a third reply that is no answer is the task's failure for good: the
//! model was heard, and to ask it the same again would be paid for nothing. Attempts are for calls that came to no reply.
//! A reply that breaks off at its longest is continued at most four times; together they count as one.

use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use stemma_engine::{Failure, Priority};

use crate::client::{ModelClient, ReplyStats};
use crate::prices::CallBudget;
use crate::reply::{is_continuable, join_continuation, parse};
use crate::request::{FinishReason, FollowUp, LlmRequest, TokenUsage};

/// How often a question is asked again.
const MAX_RETRIES: u32 = 2;
/// How often a reply that broke off is continued.
const MAX_CONTINUATIONS: usize = 4;
/// Bytes of a reply that are shown to the model again.
const QUOTED_REPLY_BYTES: usize = 2_000;

/// Who pays for an inquiry, and where replies are noted that came to nothing: they were paid for.
#[async_trait]
pub trait CallLog: CallBudget {
    /// Notes one reply to `request`.
    ///
    /// # Errors
    /// What happens to the task when it cannot be noted.
    async fn record_rejected(
        &self,
        request: &LlmRequest,
        reply: &ReplyStats,
    ) -> Result<(), Failure>;
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructuredOutput<T> {
    /// What it says.
    pub value: T,
    /// What it is worth: the prompt of the question alone and the tokens of the answer, the same however often it had to
    /// be asked.
    pub usage: TokenUsage,
    /// The replies that it was put together from: for the call log, beside what becomes of it.
    pub replies: Vec<ReplyStats>,
}

/// Asks `request` through `client` until a reply is an answer that `check` lets pass.
///
/// # Errors
/// The [`Failure`] of a call that came to no reply; permanent, when the last reply is no answer; transient, when it all
/// took longer than the gate's `task_timeout`.
pub async fn complete_structured<T: DeserializeOwned, U>(
    client: &ModelClient,
    request: &LlmRequest,
    class: Priority,
    call_log: &dyn CallLog,
    check: impl Fn(T) -> Result<U, String>,
) -> Result<StructuredOutput<U>, Failure> {
    let mut call = StructuredCall {
        client,
        class,
        call_log,
        deadline_ms: client.deadline_ms(),
        prompt_tokens: None,
    };
    let mut current = request.clone();
    let mut retries = 0;
    loop {
        let FullReply {
            text,
            replies,
            error: broken,
        } = call.complete_reply(&mut current).await?;
        let read = broken.map_or_else(|| parse(&text).and_then(&check), Err);
        let error = match read {
            Ok(value) => {
                let output = replies
                    .iter()
                    .map(|reply| reply.usage.output_tokens)
                    .fold(0, u32::saturating_add);
                let prompt_tokens = call
                    .prompt_tokens
                    .unwrap_or_else(|| request.prompt_tokens());
                return Ok(StructuredOutput {
                    value,
                    usage: TokenUsage {
                        prompt_tokens,
                        output_tokens: output,
                        cached_tokens: 0,
                    },
                    replies,
                });
            }
            Err(error) => error,
        };
        call.record_rejected(request, &replies).await?;
        tracing::info!(
            stage = request.schema.name,
            retries,
            error,
            "a reply is no answer"
        );
        if retries == MAX_RETRIES {
            return Err(unusable_reply(request.schema.name, &error));
        }
        retries += 1;
        let quoted_bytes = text.floor_char_boundary(QUOTED_REPLY_BYTES);
        let again = FollowUp::Retry {
            reply: text[..quoted_bytes].into(),
            error,
        };
        current.follow_up = Some(again).filter(|_| !text.trim().is_empty());
    }
}

/// A reply with all that continues it.
struct FullReply {
    text: String,
    replies: Vec<ReplyStats>,
    /// Why it is no answer, where that is known already.
    error: Option<String>,
}

struct StructuredCall<'a> {
    client: &'a ModelClient,
    class: Priority,
    call_log: &'a dyn CallLog,
    /// When the task gives up.
    deadline_ms: u64,
    /// Tokens of the prompt of the question alone, as the provider counts them.
    prompt_tokens: Option<u32>,
}

impl StructuredCall<'_> {
    /// Asks, and goes on as long as the reply breaks off.
    async fn complete_reply(&mut self, request: &mut LlmRequest) -> Result<FullReply, Failure> {
        let mut full = FullReply {
            text: String::new(),
            replies: Vec::new(),
            error: None,
        };
        loop {
            let remaining =
                Duration::from_millis(self.deadline_ms.saturating_sub(self.client.now_ms()));
            let answered = match tokio::time::timeout(
                remaining,
                self.client.complete(request, self.class, self.call_log),
            )
            .await
            {
                Ok(Ok(answered)) => answered,
                Ok(Err(refusal)) => match refusal.stats {
                    // A reply without text: nothing can be made of it, nor of what it was to continue.
                    Some(replied) => {
                        full.replies.push(replied);
                        full.text.clear();
                        full.error = Some(refusal.failure.message);
                        return Ok(full);
                    }
                    None => return self.give_up(request, &full, refusal.failure).await,
                },
                Err(_) => {
                    return self
                        .give_up(request, &full, task_timeout(request.schema.name))
                        .await;
                }
            };
            let usage = answered.reply.usage;
            let finish = answered.reply.finish;
            if request.follow_up.is_none() && usage.prompt_tokens > 0 {
                self.prompt_tokens.get_or_insert(usage.prompt_tokens);
            }
            full.replies.push(answered.stats());
            full.text = join_continuation(&full.text, &answered.reply.text);
            if finish == FinishReason::Complete {
                return Ok(full);
            }
            if full.replies.len() > MAX_CONTINUATIONS || !is_continuable(&full.text) {
                full.error = Some("it does not end".into());
                return Ok(full);
            }
            request.follow_up = Some(FollowUp::Continue {
                partial: full.text.clone(),
            });
        }
    }

    async fn give_up(
        &self,
        request: &LlmRequest,
        whole: &FullReply,
        failure: Failure,
    ) -> Result<FullReply, Failure> {
        self.record_rejected(request, &whole.replies).await?;
        Err(failure)
    }

    async fn record_rejected(
        &self,
        request: &LlmRequest,
        replies: &[ReplyStats],
    ) -> Result<(), Failure> {
        for reply in replies {
            self.call_log.record_rejected(request, reply).await?;
        }
        Ok(())
    }
}

fn unusable_reply(stage: &str, wrong: &str) -> Failure {
    let message = format!(
        "{} replies to {stage} in a row cannot be used, the last because {wrong}",
        MAX_RETRIES + 1
    );
    Failure::permanent("model.reply_unreadable", message)
        .with_next("run the document again, or choose a model that keeps to a JSON schema")
}

fn task_timeout(stage: &str) -> Failure {
    Failure::transient(
        "model.task_timeout",
        format!("all calls for {stage} together took too long"),
    )
    .with_next("raise model.task_timeout_seconds, if the model is that slow")
}
