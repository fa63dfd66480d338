//! One question until it is answered: continued where the reply breaks off, asked again where it is no answer.
//!
//! How this relates to the attempts of a task (architecture §4.11): a question is asked at most three times within one
//! attempt, each time through breaker and limits, and a third reply that is no answer is the task's failure for good: the
//! model was heard, and to ask it the same again would be paid for nothing. Attempts are for calls that came to no reply.
//! A reply that breaks off at its longest is continued at most four times; together they count as one.

use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use stemma_engine::{Class, Failure};

use crate::gate::{Gate, Replied};
use crate::prices::Purse;
use crate::reply::{goes_on, joined, parse};
use crate::request::{Finish, FollowUp, Request, Usage};

/// How often a question is asked again.
const AGAIN: u32 = 2;
/// How often a reply that broke off is continued.
const CONTINUATIONS: usize = 4;
/// Bytes of a reply that are shown to the model again.
const SHOWN_BYTES: usize = 2_000;

/// Who pays for an inquiry, and where replies are noted that came to nothing: they were paid for.
#[async_trait]
pub trait Journal: Purse {
    /// Notes one reply to `request`.
    ///
    /// # Errors
    /// What happens to the task when it cannot be noted.
    async fn useless(&self, request: &Request, reply: &Replied) -> Result<(), Failure>;
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<T> {
    /// What it says.
    pub value: T,
    /// What it is worth: the prompt of the question alone and the tokens of the answer, the same however often it had to
    /// be asked.
    pub spent: Usage,
    /// The replies that it was put together from: for the call log, beside what becomes of it.
    pub replies: Vec<Replied>,
}

/// Asks `request` through `gate` until a reply is an answer that `check` lets pass.
///
/// # Errors
/// The [`Failure`] of a call that came to no reply; permanent, when the last reply is no answer; transient, when it all
/// took longer than the gate's `task_timeout`.
pub async fn inquire<T: DeserializeOwned, U>(
    gate: &Gate,
    request: &Request,
    class: Class,
    journal: &dyn Journal,
    check: impl Fn(T) -> Result<U, String>,
) -> Result<Answer<U>, Failure> {
    let mut inquiry = Inquiry {
        gate,
        class,
        journal,
        until_ms: gate.deadline_ms(),
        question_tokens: None,
    };
    let mut asking = request.clone();
    let mut asked = 0;
    loop {
        let Whole {
            text,
            replies,
            broken,
        } = inquiry.whole(&mut asking).await?;
        let read = broken.map_or_else(|| parse(&text).and_then(&check), Err);
        let wrong = match read {
            Ok(value) => {
                let output = replies
                    .iter()
                    .map(|reply| reply.usage.output_tokens)
                    .fold(0, u32::saturating_add);
                let prompt_tokens = inquiry
                    .question_tokens
                    .unwrap_or_else(|| request.prompt_tokens());
                return Ok(Answer {
                    value,
                    spent: Usage {
                        prompt_tokens,
                        output_tokens: output,
                        cached_tokens: 0,
                    },
                    replies,
                });
            }
            Err(wrong) => wrong,
        };
        inquiry.useless(request, &replies).await?;
        tracing::info!(
            stage = request.schema.name,
            asked,
            wrong,
            "a reply is no answer"
        );
        if asked == AGAIN {
            return Err(unusable(request.schema.name, &wrong));
        }
        asked += 1;
        let shown = text.floor_char_boundary(SHOWN_BYTES);
        let again = FollowUp::Again {
            reply: text[..shown].into(),
            wrong,
        };
        asking.follow_up = Some(again).filter(|_| !text.trim().is_empty());
    }
}

/// A reply with all that continues it.
struct Whole {
    text: String,
    replies: Vec<Replied>,
    /// Why it is no answer, where that is known already.
    broken: Option<String>,
}

struct Inquiry<'a> {
    gate: &'a Gate,
    class: Class,
    journal: &'a dyn Journal,
    /// When the task gives up.
    until_ms: u64,
    /// Tokens of the prompt of the question alone, as the provider counts them.
    question_tokens: Option<u32>,
}

impl Inquiry<'_> {
    /// Asks, and goes on as long as the reply breaks off.
    async fn whole(&mut self, asking: &mut Request) -> Result<Whole, Failure> {
        let mut whole = Whole {
            text: String::new(),
            replies: Vec::new(),
            broken: None,
        };
        loop {
            let left = Duration::from_millis(self.until_ms.saturating_sub(self.gate.now_ms()));
            let answered =
                match tokio::time::timeout(left, self.gate.ask(asking, self.class, self.journal))
                    .await
                {
                    Ok(Ok(answered)) => answered,
                    Ok(Err(refusal)) => match refusal.replied {
                        // A reply without text: nothing can be made of it, nor of what it was to continue.
                        Some(replied) => {
                            whole.replies.push(replied);
                            whole.text.clear();
                            whole.broken = Some(refusal.failure.message);
                            return Ok(whole);
                        }
                        None => return self.give_up(asking, &whole, refusal.failure).await,
                    },
                    Err(_) => return self.give_up(asking, &whole, late(asking.schema.name)).await,
                };
            let usage = answered.reply.usage;
            let finish = answered.reply.finish;
            if asking.follow_up.is_none() && usage.prompt_tokens > 0 {
                self.question_tokens.get_or_insert(usage.prompt_tokens);
            }
            whole.replies.push(answered.replied());
            whole.text = joined(&whole.text, &answered.reply.text);
            if finish == Finish::Complete {
                return Ok(whole);
            }
            if whole.replies.len() > CONTINUATIONS || !goes_on(&whole.text) {
                whole.broken = Some("it does not end".into());
                return Ok(whole);
            }
            asking.follow_up = Some(FollowUp::Continue {
                so_far: whole.text.clone(),
            });
        }
    }

    async fn give_up(
        &self,
        request: &Request,
        whole: &Whole,
        failure: Failure,
    ) -> Result<Whole, Failure> {
        self.useless(request, &whole.replies).await?;
        Err(failure)
    }

    async fn useless(&self, request: &Request, replies: &[Replied]) -> Result<(), Failure> {
        for reply in replies {
            self.journal.useless(request, reply).await?;
        }
        Ok(())
    }
}

fn unusable(stage: &str, wrong: &str) -> Failure {
    let message = format!(
        "{} replies to {stage} in a row cannot be used, the last because {wrong}",
        AGAIN + 1
    );
    Failure::permanent("model.reply_unreadable", message)
        .with_next("run the document again, or choose a model that keeps to a JSON schema")
}

fn late(stage: &str) -> Failure {
    Failure::transient(
        "model.task_timeout",
        format!("all calls for {stage} together took too long"),
    )
    .with_next("raise model.task_timeout_seconds, if the model is that slow")
}
