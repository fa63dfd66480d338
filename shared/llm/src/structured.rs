//! Typed completions: a request is retried until a reply parses and validates.
//!
//! What follows a reply that cannot be used depends on why:
//!
//! - Its text is not what was asked for: the model is told, at most twice.
//! - It ended at the output limit within its JSON: it is continued, at most four times. The parts count as one reply. One that still
//!   has no end fails the task: a model that repeats itself would do so again, at five times the cost of a reply.
//! - It ended before its text, since the model thought or wrote prose: the request is sent once more with more room. Less is tried where
//!   that does not fit into context or budget.
//! - It is to a prompt that the server cut: the task fails.
//!
//! Failed replies are final for the task, since further calls would cost money with little hope. Task attempts are for calls without
//! a reply. Each call goes through breaker and rate limits.

use std::borrow::Cow;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use stemma_store::{Failure, FailureKind, Priority};

use crate::client::{CallError, ModelClient, ReplyStats};
use crate::prices::CallBudget;
use crate::reply::{is_continuable, join_continuation, parse};
use crate::request::{FinishReason, FollowUp, LlmReply, LlmRequest, TokenUsage, longer_context};

const MAX_RETRIES: u32 = 2;
const MAX_CONTINUATIONS: usize = 4;
// How much of a rejected reply the retry quotes.
const QUOTED_REPLY_BYTES: usize = 2_000;
const REFUSED: &str = "model.refused";

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
    priority: Priority,
    call_log: &dyn CallLog,
    check: impl Fn(T) -> Result<U, String>,
) -> Result<StructuredOutput<U>, Failure> {
    complete_from(client, request, None, priority, call_log, check).await
}

/// As [`complete_structured`], where the first reply may have come already, in a batch. It has its line in the call log.
///
/// # Errors
/// As [`complete_structured`].
pub async fn complete_from<T: DeserializeOwned, U>(
    client: &ModelClient,
    request: &LlmRequest,
    first: Option<LlmReply>,
    priority: Priority,
    call_log: &dyn CallLog,
    check: impl Fn(T) -> Result<U, String>,
) -> Result<StructuredOutput<U>, Failure> {
    let mut current = request.clone();
    // A batch had the limit of the request.
    if first.is_none() {
        current.max_output_tokens = client.reply_limit(request);
    }
    let mut call = StructuredCall {
        request,
        first,
        client,
        priority,
        call_log,
        deadline_ms: client.deadline_ms(),
        prompt_tokens: None,
        raised_limit: client.raised_reply_limit(current.max_output_tokens),
        cut_off: None,
        refusal: None,
    };
    let mut retries = 0;
    loop {
        let mut full = call.complete_reply(&current).await?;
        let parsed = match full.defect.take() {
            None => parse(&full.text).and_then(&check).map_err(Defect::Invalid),
            Some(defect) => Err(defect),
        };
        let defect = match parsed {
            Ok(value) => {
                call.learn_limit(&current, &full);
                return Ok(StructuredOutput {
                    value,
                    usage: call.usage(&full),
                    replies: full.replies,
                });
            }
            Err(defect) => defect,
        };
        call.record_rejected(&full.replies).await?;
        tracing::info!(
            stage = request.schema.name,
            retries,
            ?defect,
            "rejected a reply of the model"
        );
        match defect {
            Defect::CutOff(cut_off) => call.raise_limit(&mut current, cut_off)?,
            Defect::LimitRefused(refusal) => call.lower_limit(&mut current, refusal)?,
            Defect::Endless => return Err(endless_reply(&current)),
            Defect::Invalid(error) if retries < MAX_RETRIES => {
                retries += 1;
                current.follow_up = Some(retry(&full.text, error, current.follow_up.as_ref()));
            }
            Defect::Invalid(error) => {
                return Err(unusable_reply(request.schema.name, retries + 1, &error));
            }
        }
    }
}

// Why a reply cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Defect {
    // It is not what was asked for. The model is told.
    Invalid(String),
    CutOff(CutOff),
    // There is none: a limit above the one of the request is refused.
    LimitRefused(Failure),
    // Still cut off after the last continuation.
    Endless,
}

// A reply that ended before its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CutOff {
    has_thought: bool,
    // Whether it ended at a limit, and not of itself.
    at_limit: bool,
    // The output limit of the request, and the tokens that came.
    limit: u32,
    output_tokens: u32,
}

impl CutOff {
    // Whether something else than the limit of the request ended it: the context, or a limit of the server.
    fn is_early(self) -> bool {
        self.at_limit && self.output_tokens > 0 && self.output_tokens < self.limit / 4 * 3
    }

    fn failure(self, request: &LlmRequest) -> Failure {
        let stage = request.schema.name;
        let Self {
            limit,
            output_tokens,
            ..
        } = self;
        let (message, next) = match (self.is_early(), self.at_limit) {
            (true, _) => (
                format!(
                    "the reply to {stage} ended after {output_tokens} of {limit} tokens, before any answer: the context of the \
                     model's server is full, or the server has a limit of its own"
                ),
                longer_context(request.context_tokens()),
            ),
            (false, true) => (
                format!(
                    "the reply to {stage} ended at its limit of {limit} tokens, before any answer{}",
                    if self.has_thought {
                        ": the model thought"
                    } else {
                        ""
                    }
                ),
                format!(
                    "raise model.max_reply_tokens above {limit}, or choose a model that thinks less"
                ),
            ),
            (false, false) => (
                format!(
                    "the model thought about {stage} and wrote no answer, with room for {limit} tokens"
                ),
                "turn thinking off in the model's server, or choose another model".to_owned(),
            ),
        };
        Failure::permanent("model.reply_cut_off", message).with_next(next)
    }
}

// A reply joined with its continuations.
#[derive(Default)]
struct FullReply {
    text: String,
    // Replies without a line in the call log.
    replies: Vec<ReplyStats>,
    output_tokens: u32,
    has_thought: bool,
    // Set if the reply is known to be unusable before parsing.
    defect: Option<Defect>,
}

struct StructuredCall<'a> {
    // As it was made, with its own output limit.
    request: &'a LlmRequest,
    client: &'a ModelClient,
    // A reply that has come already.
    first: Option<LlmReply>,
    priority: Priority,
    call_log: &'a dyn CallLog,
    deadline_ms: u64,
    // Tokens of the first prompt, as billed by the provider.
    prompt_tokens: Option<u32>,
    // The output limit to try after a reply that ended before its text; `None` once it was, or if there is no higher one.
    raised_limit: Option<u32>,
    // The reply for which the limit was raised.
    cut_off: Option<CutOff>,
    // Why a higher limit was refused.
    refusal: Option<Failure>,
}

impl StructuredCall<'_> {
    // Sends the request, and continues the reply as long as it is cut off at the output limit.
    async fn complete_reply(&mut self, request: &LlmRequest) -> Result<FullReply, Failure> {
        let mut full = FullReply::default();
        let mut request = Cow::Borrowed(request);
        let mut parts = 0;
        loop {
            let reply = match self.first.take() {
                Some(reply) => reply,
                None => match self.call(&request).await {
                    Ok((reply, stats)) => {
                        full.replies.push(stats);
                        reply
                    }
                    Err(CallError { failure, stats }) => {
                        full.replies.extend(stats);
                        if stats.is_none() && self.is_limit_refused(&request, &failure) {
                            full.defect = Some(Defect::LimitRefused(failure));
                            return Ok(full);
                        }
                        if stats.is_none() || failure.kind == FailureKind::Permanent {
                            self.record_rejected(&full.replies).await?;
                            return Err(failure);
                        }
                        // An unusable continuation makes the whole reply unusable.
                        full.text.clear();
                        full.defect = Some(Defect::Invalid(failure.message));
                        return Ok(full);
                    }
                },
            };
            parts += 1;
            if !self.add_part(&mut full, &request, parts, &reply) {
                return Ok(full);
            }
            request.to_mut().follow_up = Some(FollowUp::Continue {
                partial: full.text.clone(),
            });
        }
    }

    // Makes one call within the deadline of the task.
    async fn call(&self, request: &LlmRequest) -> Result<(LlmReply, ReplyStats), CallError> {
        let remaining =
            Duration::from_millis(self.deadline_ms.saturating_sub(self.client.now_ms()));
        let call = self.client.complete(request, self.priority, self.call_log);
        match tokio::time::timeout(remaining, call).await {
            Ok(result) => result,
            Err(_) => Err(task_timeout(request.schema.name).into()),
        }
    }

    // Joins the next part of a reply. Whether another part is to be asked for.
    fn add_part(
        &mut self,
        full: &mut FullReply,
        request: &LlmRequest,
        parts: usize,
        reply: &LlmReply,
    ) -> bool {
        let usage = reply.usage;
        if request.follow_up.is_none() && usage.prompt_tokens > 0 {
            self.prompt_tokens.get_or_insert(usage.prompt_tokens);
        }
        full.output_tokens = full.output_tokens.saturating_add(usage.output_tokens);
        full.has_thought |= reply.has_thought;
        full.text = join_continuation(&full.text, &reply.text);
        let at_limit = reply.finish == FinishReason::Length;
        if !at_limit && !reply.is_empty() {
            return false;
        }
        let cut_off = CutOff {
            has_thought: reply.has_thought,
            at_limit,
            limit: request.max_output_tokens,
            output_tokens: usage.output_tokens,
        };
        let has_begun = !full.text.trim().is_empty() && is_continuable(&full.text);
        let may_raise = self.raised_limit.is_some() && !cut_off.is_early();
        full.defect = match reply.has_thought {
            true if may_raise || !has_begun => Some(Defect::CutOff(cut_off)),
            false if !has_begun && (may_raise || cut_off.is_early()) => {
                Some(Defect::CutOff(cut_off))
            }
            _ if !is_continuable(&full.text) => Some(Defect::Invalid("it does not end".into())),
            _ if parts > MAX_CONTINUATIONS => Some(Defect::Endless),
            _ => None,
        };
        full.defect.is_none()
    }

    // Gives the model more room, once.
    fn raise_limit(&mut self, current: &mut LlmRequest, cut_off: CutOff) -> Result<(), Failure> {
        match (self.raised_limit.take(), self.refusal.take()) {
            (Some(raised), _) if !cut_off.is_early() => {
                current.max_output_tokens = raised;
                self.cut_off = Some(cut_off);
                Ok(())
            }
            (None, Some(refusal)) if cut_off.has_thought && !cut_off.is_early() => {
                Err(refused_room(refusal))
            }
            _ => Err(cut_off.failure(current)),
        }
    }

    // Whether what refuses the request may take it with its own limit: the provider, the context of its model, or a budget.
    fn is_limit_refused(&self, request: &LlmRequest, failure: &Failure) -> bool {
        request.max_output_tokens > self.request.max_output_tokens
            && failure.kind == FailureKind::Permanent
            && match failure.code.as_str() {
                REFUSED | "model.context_exceeded" => true,
                code => !code.starts_with("model."),
            }
    }

    // Half as much may fit into context or budget. A provider that refuses may have other reasons than the limit, so it is asked
    // once more, with the limit there was: a model that does not think writes its reply as text and in parts, and one that thinks
    // cannot.
    fn lower_limit(&mut self, current: &mut LlmRequest, refusal: Failure) -> Result<(), Failure> {
        let own = self.request.max_output_tokens;
        let needed = self.cut_off.map_or(own, |cut_off| cut_off.limit);
        let half = current.max_output_tokens / 2;
        let is_enough = refusal.code != REFUSED && half / 2 >= needed;
        current.max_output_tokens = if is_enough { half } else { own };
        // A budget is not the model's.
        if refusal.code.starts_with("model.") {
            self.client
                .lower_reply_limit(current.schema.name, current.max_output_tokens);
        }
        self.raised_limit = None;
        match self.cut_off {
            Some(cut_off) if !is_enough && cut_off.has_thought => {
                return Err(refused_room(refusal));
            }
            Some(_) if !is_enough => {
                let partial = String::new();
                current.follow_up = Some(FollowUp::Continue { partial });
            }
            _ => {}
        }
        self.refusal = Some(refusal);
        Ok(())
    }

    fn usage(&self, full: &FullReply) -> TokenUsage {
        TokenUsage {
            prompt_tokens: self
                .prompt_tokens
                .unwrap_or_else(|| self.request.prompt_tokens()),
            output_tokens: full.output_tokens,
            cached_tokens: 0,
        }
    }

    // Later requests of the stage begin with the room that thoughts needed.
    fn learn_limit(&self, current: &LlmRequest, full: &FullReply) {
        if full.has_thought && current.max_output_tokens > self.request.max_output_tokens {
            self.client
                .learn_reply_limit(current.schema.name, full.output_tokens);
        }
    }

    async fn record_rejected(&self, replies: &[ReplyStats]) -> Result<(), Failure> {
        for reply in replies {
            self.call_log.record_rejected(self.request, reply).await?;
        }
        Ok(())
    }
}

// The request that tells the model of its error; never the same one twice.
fn retry(text: &str, mut error: String, previous: Option<&FollowUp>) -> FollowUp {
    let reply = text[..text.floor_char_boundary(QUOTED_REPLY_BYTES)].to_owned();
    if let Some(FollowUp::Retry { error: before, .. }) = previous
        && *before == error
    {
        error.push_str(", as before");
    }
    FollowUp::Retry { reply, error }
}

fn refused_room(mut refusal: Failure) -> Failure {
    refusal.message = format!(
        "the model thought beyond the limit of its reply, and a higher one is refused: {}",
        refusal.message
    );
    refusal
}

fn unusable_reply(stage: &str, replies: u32, error: &str) -> Failure {
    let message = match replies {
        1 => format!("stage {stage} got an invalid reply: {error}"),
        _ => {
            format!("stage {stage} got {replies} invalid replies in a row; the last error: {error}")
        }
    };
    Failure::permanent("model.reply_unreadable", message)
        .with_next("choose a model that can reply in a given JSON form: small ones often cannot")
}

fn endless_reply(request: &LlmRequest) -> Failure {
    let stage = request.schema.name;
    let message = format!(
        "the reply to {stage} does not end: {} parts of {} tokens",
        MAX_CONTINUATIONS + 1,
        request.max_output_tokens
    );
    Failure::permanent("model.reply_unreadable", message).with_next(
        "choose another model: this one repeats itself, or its limit of output is too low",
    )
}

fn task_timeout(stage: &str) -> Failure {
    Failure::transient(
        "model.task_timeout",
        format!("all calls of stage {stage} together took too long"),
    )
    .with_next("raise model.task_timeout_seconds if the model is slow")
}
