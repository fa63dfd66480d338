//! Conversations in the dialects of others: messages become a question, and an answer is told as it is made.

use std::sync::Arc;

use axum::http::header;
use axum::http::request::Parts;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{Stream, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stemma_answers::{
    Answer, AnswerError, Answerer, Citation, Claim, Degraded, Event, MAX_EARLIER, Outcome,
    Question, Turn,
};
use stemma_engine::Env;
use utoipa::ToSchema;

use super::problem::Problem;
use super::routes::Site;
use super::stay::Place;
use super::telling;
use crate::{Reader, Refusal};

/// The largest conversation in bytes: clients send all that was said, again and again.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// A message of a conversation.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(super) struct Message {
    /// `user`, `assistant`; others are passed over.
    #[serde(default)]
    role: String,
    /// A text, or a list of parts of which some have a `text`.
    #[serde(default)]
    #[schema(schema_with = super::openapi::anything)]
    content: Value,
}

impl Message {
    /// What a person says.
    pub(super) fn of_user(text: String) -> Self {
        Self {
            role: "user".into(),
            content: Value::String(text),
        }
    }

    fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                let texts = parts.iter().filter_map(|part| part["text"].as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        }
    }
}

/// A question, and who answers it.
pub(super) struct Dialogue {
    place: Place,
    answerer: Arc<dyn Answerer>,
    question: Question,
}

impl Dialogue {
    /// The question of a conversation, over the documents in `scopes`; empty: over all of them. The last message is what
    /// is asked; turns before it are what was said earlier. What a system message says is passed over: it is no part of
    /// the question, and instructions to the model are the operator's.
    pub(super) fn of(
        site: &Site,
        place: Place,
        reader: &Arc<Reader>,
        scopes: Vec<String>,
        messages: &[Message],
    ) -> Result<Self, Problem> {
        let (text, earlier) = turns(messages)?;
        let answerer = site.answerer(reader)?;
        let searched = crate::Question {
            text: text.clone(),
            scopes,
            ..crate::Question::default()
        };
        let query = reader.query(&searched)?;
        let within = query.within;
        let filter = query.filter;
        let item = query.item;
        let question = Question {
            text,
            within,
            filter,
            item,
            earlier,
            ..Question::default()
        };
        answerer.check(&question).map_err(refused)?;
        Ok(Self {
            place,
            answerer,
            question,
        })
    }

    /// The answer; it is made to its end, and stored, also where its asker goes away.
    pub(super) async fn whole(self, env: &Env) -> Result<Answer, Problem> {
        let Self {
            place,
            answerer,
            question,
        } = self;
        let answering = async move {
            let _place = place;
            answerer.answer(&question, &mut ()).await
        };
        let answered = env.spawn(answering).await; // ends with the answer
        answered
            .unwrap_or(Err(AnswerError::Broken))
            .map_err(refused)
    }

    /// What is told of the answer while it is made; it is made to its end, and stored, also where no one listens.
    pub(super) fn told(self, env: &Env) -> impl Stream<Item = Event> + Send + use<> {
        let Self {
            place,
            answerer,
            question,
        } = self;
        telling::told(env, place, answerer, question)
    }
}

/// The question, and what was said before it.
fn turns(messages: &[Message]) -> Result<(String, Vec<Turn>), Problem> {
    let mut earlier: Vec<Turn> = Vec::new();
    let mut asked: Option<String> = None;
    for message in messages {
        match message.role.as_str() {
            "user" => {
                // The last is the question; one before it that no answer followed is what was said earlier.
                if let Some(before) = asked.replace(message.text()) {
                    earlier.push(Turn {
                        question: before,
                        answer: String::new(),
                    });
                }
            }
            "assistant" => {
                if let Some(question) = asked.take() {
                    earlier.push(Turn {
                        question,
                        answer: message.text(),
                    });
                }
            }
            _ => {}
        }
    }
    let text = asked
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| {
        Problem::parameter(
            422,
            "/messages",
            "the last message is to be a user's, with text",
        )
    })?;
    let skip = earlier.len().saturating_sub(MAX_EARLIER);
    Ok((text, earlier.split_off(skip)))
}

/// A question that is not answered.
pub(super) fn refused(error: AnswerError) -> Problem {
    match error {
        AnswerError::Find(error) => Refusal::from(error).into(),
        AnswerError::Question { code, message } => Problem::new(422, code, message),
        AnswerError::Late { .. } => Problem::new(504, "answer.timeout", error.to_string()),
        AnswerError::Broken => Problem::new(500, "answer.failed", error.to_string()),
    }
}

/// Why an answer ends: `length` where a limit cut it short.
pub(super) fn finish_reason(answer: &Answer) -> &'static str {
    let cut = answer
        .degraded
        .as_ref()
        .is_some_and(|degraded| degraded.code.starts_with("answer.limit"));
    if cut { "length" } else { "stop" }
}

/// The address of a citation: as this server was called, for where that is not known a path says enough.
pub(super) fn address(parts: &Parts, url: &str) -> String {
    let text = |name: &str| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let scheme = text("x-forwarded-proto")
        .filter(|scheme| matches!(*scheme, "http" | "https"))
        .unwrap_or("http");
    match text(header::HOST.as_str()).filter(|host: &&str| {
        !host.is_empty()
            && host
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-.:[]_".contains(&b))
    }) {
        Some(host) if url.starts_with('/') => format!("{scheme}://{host}{url}"),
        _ => url.to_owned(),
    }
}

/// Tokens, in the words of OpenAI: those of the calls that were made.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Usage {
    /// Tokens of prompts.
    prompt_tokens: u64,
    /// Tokens of replies.
    completion_tokens: u64,
    /// Both.
    total_tokens: u64,
}

/// What an answer cost to make, whenever that was.
pub(super) fn usage(answer: &Answer) -> Usage {
    let prompt_tokens = answer.usage.prompt_tokens;
    let completion_tokens = answer.usage.output_tokens;
    Usage {
        prompt_tokens,
        completion_tokens,
        total_tokens: prompt_tokens + completion_tokens,
    }
}

/// What stands beside an answer in each dialect: what it rests on, and how far.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Beside {
    /// `GET /v1/answers/{id}` has the whole of it.
    answer_id: String,
    /// `answered`, `not_in_documents` or `search_only`.
    #[schema(value_type = String)]
    outcome: Outcome,
    /// How sure the model says it is, 0–1, never more than the share of claims that is verified.
    confidence: Option<f64>,
    /// What is said, claim by claim: `text`, `citations`, whether it is `verified`, and with `unfounded` which of its numbers stand in
    /// no quote.
    #[schema(value_type = Vec<Object>)]
    claims: Vec<Claim>,
    /// What the claims rest on. `verified` says whether the quote stands on its page, not whether it bears out the claim.
    #[schema(schema_with = super::openapi::citations)]
    citations: Vec<Citation>,
    /// Why the answer is less than it could be: `code`, `message`, `next`.
    #[schema(value_type = Option<Object>)]
    degraded: Option<Degraded>,
    /// The model that answered; null where none did.
    model: Option<String>,
    /// Calls of it.
    calls: u32,
}

/// What stands beside an answer.
pub(super) fn beside(answer: &Answer) -> Beside {
    Beside {
        answer_id: answer.id.clone(),
        outcome: answer.outcome,
        confidence: answer.confidence,
        claims: answer.claims.clone(),
        citations: answer.citations.clone(),
        degraded: answer.degraded.clone(),
        model: answer.model.clone(),
        calls: answer.usage.calls,
    }
}

/// A stream of server-sent events; a comment every fifteen seconds keeps the connection.
pub(super) fn streamed(frames: impl Stream<Item = Frame> + Send + 'static) -> Response {
    Sse::new(frames.map(Ok::<_, std::convert::Infallible>))
        .keep_alive(KeepAlive::default())
        .into_response()
}

/// A frame with JSON.
pub(super) fn frame(value: &Value) -> Frame {
    Frame::default().data(value.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(role: &str, content: Value) -> Message {
        Message {
            role: role.into(),
            content,
        }
    }

    #[test]
    fn the_last_message_is_asked_and_the_others_were_said_before() {
        let said = [
            message("system", "Answer in rhymes.".into()),
            message("user", "What is capex?".into()),
            message("assistant", "5 [1].".into()),
            message(
                "user",
                json!([{"type": "text", "text": "And in 2021?"}, {"type": "image_url"}]),
            ),
        ];
        let (text, earlier) = turns(&said).unwrap();
        assert_eq!(text, "And in 2021?");
        assert_eq!(
            earlier,
            [Turn {
                question: "What is capex?".into(),
                answer: "5 [1].".into()
            }]
        );
        for wrong in [&said[..1], &said[..3], &[message("user", " ".into())], &[]] {
            assert!(turns(wrong).is_err());
        }
        // A long text and then the question: the question is the last message, whatever stands before it.
        let long = [
            message("user", "x".repeat(9_000).into()),
            message("user", "And in 2021?".into()),
        ];
        let (text, earlier) = turns(&long).unwrap();
        assert_eq!(
            (text.as_str(), earlier.len(), earlier[0].answer.as_str()),
            ("And in 2021?", 1, "")
        );
        let many: Vec<Message> = (0..20)
            .flat_map(|_| said[1..3].to_vec())
            .chain([said[1].clone()])
            .collect();
        assert_eq!(turns(&many).unwrap().1.len(), MAX_EARLIER);
    }
}
