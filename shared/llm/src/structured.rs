//! Typed completions: a request is retried until a reply parses and validates.
//!
//! Within one task attempt a request is sent at most three times, each through breaker and rate limits. A third invalid reply
//! fails the task permanently, since further calls would cost money with little hope. Task attempts are for calls without a
//! reply. A reply cut off at the output limit is continued at most four times; the parts count as one reply. One that still has no
//! end fails the task at once: a model that repeats itself would do so again, at five times the cost of a reply.

use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use stemma_engine::{Failure, Priority};

use crate::client::{ModelClient, ReplyStats};
use crate::prices::CallBudget;
use crate::reply::{is_continuable, join_continuation, parse};
use crate::request::{FinishReason, FollowUp, LlmReply, LlmRequest, TokenUsage};

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
    complete_from(client, request, None, class, call_log, check).await
}

/// As [`complete_structured`], where the first reply may have come already, in a batch. It has its line in the call log.
///
/// # Errors
/// Those of [`complete_structured`].
pub async fn complete_from<T: DeserializeOwned, U>(
    client: &ModelClient,
    request: &LlmRequest,
    first: Option<LlmReply>,
    class: Priority,
    call_log: &dyn CallLog,
    check: impl Fn(T) -> Result<U, String>,
) -> Result<StructuredOutput<U>, Failure> {
    let mut call = StructuredCall {
        first,
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
            output_tokens,
            error,
            is_endless,
        } = call.complete_reply(&mut current).await?;
        let parsed = error.map_or_else(|| parse(&text).and_then(&check), Err);
        let error = match parsed {
            Ok(value) => {
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
        retries += 1;
        if retries > MAX_RETRIES || is_endless {
            return Err(unusable_reply(request.schema.name, retries, &error));
        }
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
    // Those without a line in the call log.
    replies: Vec<ReplyStats>,
    output_tokens: u32,
    // Set if the reply is known to be invalid before parsing.
    error: Option<String>,
    // Still cut off after the last continuation.
    is_endless: bool,
}

struct StructuredCall<'a> {
    client: &'a ModelClient,
    // A reply that has come already.
    first: Option<LlmReply>,
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
            output_tokens: 0,
            error: None,
            is_endless: false,
        };
        let mut parts = 0;
        loop {
            if let Some(reply) = self.first.take() {
                parts += 1;
                if !self.add_part(&mut full, request, parts, &reply) {
                    return Ok(full);
                }
            }
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
            full.replies.push(timed.stats());
            parts += 1;
            if !self.add_part(&mut full, request, parts, &timed.reply) {
                return Ok(full);
            }
        }
    }

    // Joins the next part of a reply. Whether another part is to be asked for, which `request` then does.
    fn add_part(
        &mut self,
        full: &mut FullReply,
        request: &mut LlmRequest,
        parts: usize,
        reply: &LlmReply,
    ) -> bool {
        let usage = reply.usage;
        if request.follow_up.is_none() && usage.prompt_tokens > 0 {
            self.prompt_tokens.get_or_insert(usage.prompt_tokens);
        }
        full.output_tokens = full.output_tokens.saturating_add(usage.output_tokens);
        full.text = join_continuation(&full.text, &reply.text);
        if reply.finish == FinishReason::Complete {
            return false;
        }
        full.is_endless = parts > MAX_CONTINUATIONS;
        if full.is_endless || !is_continuable(&full.text) {
            full.error = Some("it does not end".into());
            return false;
        }
        request.follow_up = Some(FollowUp::Continue {
            partial: full.text.clone(),
        });
        true
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

fn unusable_reply(stage: &str, replies: u32, error: &str) -> Failure {
    let message = match replies {
        1 => format!("stage {stage} got an invalid reply: {error}"),
        _ => {
            format!("stage {stage} got {replies} invalid replies in a row; the last error: {error}")
        }
    };
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
