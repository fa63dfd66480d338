//! Typed completions: a request is retried until a reply parses and validates.
//!
//! Within one task attempt a request is sent at most three times, each through breaker and rate limits. A third invalid reply
//! fails the task permanently, since further calls would cost money with little hope. Task attempts are for calls without a
//! reply. A reply cut off at the output limit is continued at most four times; the parts count as one reply.

use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use stemma_engine::{Failure, Priority};

use crate::client::{ModelClient, ReplyStats};
use crate::prices::CallBudget;
use crate::reply::{is_continuable, join_continuation, parse};
use crate::request::{FinishReason, FollowUp, LlmRequest, TokenUsage};

const MAX_RETRIES: u32 = 2;
const MAX_CONTINUATIONS: usize = 4;
// How much of a rejected reply the retry quotes.
const QUOTED_REPLY_BYTES: usize = 2_000;

/// A budget that also records rejected replies, which are billed too.
#[async_trait]
pub trait CallLog: CallBudget {
    /// Records one rejected reply to `request`.
    ///
    /// # Errors
    /// The task's [`Failure`] if the record cannot be written.
    async fn record_rejected(
        &self,
        request: &LlmRequest,
        reply: &ReplyStats,
    ) -> Result<(), Failure>;
}

/// A valid reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructuredOutput<T> {
    pub value: T,
    /// Tokens of the first prompt and of the valid reply. Independent of retries.
    pub usage: TokenUsage,
    /// The reply and its continuations, for the call log.
    pub replies: Vec<ReplyStats>,
}

/// Sends `request` until a reply parses as `T` and passes `check`. The error of `check` is sent to the model with the retry.
///
/// # Errors
/// The [`Failure`] of a call without a reply; permanent if the last reply is invalid; transient if all calls together exceed
/// `task_timeout` of the client.
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
            error,
        } = call.complete_reply(&mut current).await?;
        let parsed = error.map_or_else(|| parse(&text).and_then(&check), Err);
        let error = match parsed {
            Ok(value) => {
                let output_tokens = replies
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
                        output_tokens,
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
            "rejected a reply of the model"
        );
        if retries == MAX_RETRIES {
            return Err(unusable_reply(request.schema.name, &error));
        }
        retries += 1;
        let quoted_bytes = text.floor_char_boundary(QUOTED_REPLY_BYTES);
        // An empty reply gives the model nothing to correct, so the original request is sent again.
        current.follow_up = (!text.trim().is_empty()).then(|| FollowUp::Retry {
            reply: text[..quoted_bytes].into(),
            error,
        });
    }
}

// A reply joined with its continuations.
struct FullReply {
    text: String,
    replies: Vec<ReplyStats>,
    // Set if the reply is known to be invalid before parsing.
    error: Option<String>,
}

struct StructuredCall<'a> {
    client: &'a ModelClient,
    class: Priority,
    call_log: &'a dyn CallLog,
    deadline_ms: u64,
    // Of the first prompt, as billed by the provider.
    prompt_tokens: Option<u32>,
}

impl StructuredCall<'_> {
    // Sends the request, and continues the reply as long as it is cut off at the output limit.
    async fn complete_reply(&mut self, request: &mut LlmRequest) -> Result<FullReply, Failure> {
        let mut full = FullReply {
            text: String::new(),
            replies: Vec::new(),
            error: None,
        };
        loop {
            let remaining =
                Duration::from_millis(self.deadline_ms.saturating_sub(self.client.now_ms()));
            let timed = match tokio::time::timeout(
                remaining,
                self.client.complete(request, self.class, self.call_log),
            )
            .await
            {
                Ok(Ok(timed)) => timed,
                Ok(Err(error)) => match error.stats {
                    // An unusable continuation makes the whole reply unusable.
                    Some(stats) => {
                        full.replies.push(stats);
                        full.text.clear();
                        full.error = Some(error.failure.message);
                        return Ok(full);
                    }
                    None => return self.give_up(request, &full, error.failure).await,
                },
                Err(_) => {
                    return self
                        .give_up(request, &full, task_timeout(request.schema.name))
                        .await;
                }
            };
            let usage = timed.reply.usage;
            let finish = timed.reply.finish;
            if request.follow_up.is_none() && usage.prompt_tokens > 0 {
                self.prompt_tokens.get_or_insert(usage.prompt_tokens);
            }
            full.replies.push(timed.stats());
            full.text = join_continuation(&full.text, &timed.reply.text);
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
        full: &FullReply,
        failure: Failure,
    ) -> Result<FullReply, Failure> {
        self.record_rejected(request, &full.replies).await?;
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

fn unusable_reply(stage: &str, error: &str) -> Failure {
    let message = format!(
        "stage {stage} got {} invalid replies in a row; the last error: {error}",
        MAX_RETRIES + 1
    );
    Failure::permanent("model.reply_unreadable", message)
        .with_next("run the document again, or choose a model that supports JSON schemas")
}

fn task_timeout(stage: &str) -> Failure {
    Failure::transient(
        "model.task_timeout",
        format!("all calls of stage {stage} together took too long"),
    )
    .with_next("raise model.task_timeout_seconds if the model is slow")
}
