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
    Answer, AnswerError, AnswerEvent, AnswerOutcome, Answerer, AskRequest, Citation, Claim,
    ConversationTurn, Degradation, MAX_EARLIER,
};
use stemma_engine::Env;
use utoipa::ToSchema;

use stemma_archive::Archive;
use stemma_gateway::admission::ConcurrencyPermit;
use stemma_gateway::problem::{Problem, answer_problem};
use stemma_gateway::sse;
use stemma_gateway::state::AppState;

/// The largest conversation in bytes: clients send all that was said, again and again.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// A message of a conversation.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(super) struct InputMessage {
    /// `user`, `assistant`; others are passed over.
    #[serde(default)]
    role: String,
    /// A text, or a list of parts of which some have a `text`.
    #[serde(default)]
    #[schema(schema_with = stemma_gateway::schema::anything)]
    content: Value,
}

impl InputMessage {
    /// What a person says.
    pub(super) fn from_user(text: String) -> Self {
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
pub(super) struct Conversation {
    permit: ConcurrencyPermit,
    answerer: Arc<dyn Answerer>,
    question: AskRequest,
}

impl Conversation {
    /// The question of a conversation, over the documents in `scopes`; empty: over all of them. The last message is what
    /// is asked; turns before it are what was said earlier. What a system message says is passed over: it is no part of
    /// the question, and instructions to the model are the operator's.
    pub(super) fn new(
        site: &AppState,
        place: ConcurrencyPermit,
        archive: &Arc<Archive>,
        scopes: Vec<String>,
        messages: &[InputMessage],
    ) -> Result<Self, Problem> {
        let (text, earlier) = split_turns(messages)?;
        let answerer = site.answerer(archive)?;
        let searched = stemma_archive::SearchRequest {
            text: text.clone(),
            scopes,
            ..stemma_archive::SearchRequest::default()
        };
        let query = archive.build_query(&searched)?;
        let within = query.within;
        let filter = query.filter;
        let item = query.item;
        let question = AskRequest {
            text,
            within,
            filter,
            item,
            earlier,
            ..AskRequest::default()
        };
        answerer.check(&question).map_err(answer_problem)?;
        Ok(Self {
            permit: place,
            answerer,
            question,
        })
    }

    /// The answer; it is made to its end, and stored, also where its asker goes away.
    pub(super) async fn answer(self, env: &Env) -> Result<Answer, Problem> {
        let Self {
            permit: place,
            answerer,
            question,
        } = self;
        let answering = async move {
            let _place = place;
            answerer.answer(&question, &mut ()).await
        };
        let answered = env.spawn(answering).await; // ends with the answer
        answered
            .unwrap_or(Err(AnswerError::Internal))
            .map_err(answer_problem)
    }

    /// What is told of the answer while it is made; it is made to its end, and stored, also where no one listens.
    pub(super) fn stream(self, env: &Env) -> impl Stream<Item = AnswerEvent> + Send + use<> {
        let Self {
            permit: place,
            answerer,
            question,
        } = self;
        sse::stream_answer(env, place, answerer, question)
    }
}

/// The question, and what was said before it.
fn split_turns(messages: &[InputMessage]) -> Result<(String, Vec<ConversationTurn>), Problem> {
    let mut earlier: Vec<ConversationTurn> = Vec::new();
    let mut current: Option<String> = None;
    for message in messages {
        match message.role.as_str() {
            "user" => {
                // The last is the question; one before it that no answer followed is what was said earlier.
                if let Some(before) = current.replace(message.text()) {
                    earlier.push(ConversationTurn {
                        question: before,
                        answer: String::new(),
                    });
                }
            }
            "assistant" => {
                if let Some(question) = current.take() {
                    earlier.push(ConversationTurn {
                        question,
                        answer: message.text(),
                    });
                }
            }
            _ => {}
        }
    }
    let text = current
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

/// Why an answer ends: `length` where a limit cut it short.
pub(super) fn finish_reason(answer: &Answer) -> &'static str {
    let cut = answer
        .degradation
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
pub(super) struct ChatUsage {
    /// Tokens of prompts.
    prompt_tokens: u64,
    /// Tokens of replies.
    completion_tokens: u64,
    /// Both.
    total_tokens: u64,
}

/// What an answer cost to make, whenever that was.
pub(super) fn usage(answer: &Answer) -> ChatUsage {
    let prompt_tokens = answer.usage.prompt_tokens;
    let completion_tokens = answer.usage.output_tokens;
    ChatUsage {
        prompt_tokens,
        completion_tokens,
        total_tokens: prompt_tokens + completion_tokens,
    }
}

/// What stands beside an answer in each dialect: what it rests on, and how far.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct StemmaExtension {
    /// `GET /v1/answers/{id}` has the whole of it.
    answer_id: String,
    /// `answered`, `not_in_documents` or `search_only`.
    #[schema(value_type = String)]
    outcome: AnswerOutcome,
    /// How sure the model says it is, 0–1, never more than the share of claims that is verified.
    confidence: Option<f64>,
    /// What is said, claim by claim: `text`, `citations`, whether it is `verified`, and with `unfounded` which of its numbers stand in
    /// no quote.
    #[schema(value_type = Vec<Object>)]
    claims: Vec<Claim>,
    /// What the claims rest on. `verified` says whether the quote stands on its page, not whether it bears out the claim.
    #[schema(schema_with = stemma_gateway::schema::citations)]
    citations: Vec<Citation>,
    /// Why the answer is less than it could be: `code`, `message`, `next`.
    #[schema(value_type = Option<Object>)]
    degraded: Option<Degradation>,
    /// The model that answered; null where none did.
    model: Option<String>,
    /// Calls of it.
    calls: u32,
}

/// What stands beside an answer.
pub(super) fn stemma_extension(answer: &Answer) -> StemmaExtension {
    StemmaExtension {
        answer_id: answer.id.clone(),
        outcome: answer.outcome,
        confidence: answer.confidence,
        claims: answer.claims.clone(),
        citations: answer.citations.clone(),
        degraded: answer.degradation.clone(),
        model: answer.model.clone(),
        calls: answer.usage.calls,
    }
}

/// A stream of server-sent events; a comment every fifteen seconds keeps the connection.
pub(super) fn frame_response(frames: impl Stream<Item = Frame> + Send + 'static) -> Response {
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

    fn message(role: &str, content: Value) -> InputMessage {
        InputMessage {
            role: role.into(),
            content,
        }
    }

    #[test]
    fn last_user_message_is_the_question() {
        let messages = [
            message("system", "Answer in rhymes.".into()),
            message("user", "What is capex?".into()),
            message("assistant", "5 [1].".into()),
            message(
                "user",
                json!([{"type": "text", "text": "And in 2021?"}, {"type": "image_url"}]),
            ),
        ];
        let (text, earlier) = split_turns(&messages).unwrap();
        assert_eq!(text, "And in 2021?");
        assert_eq!(
            earlier,
            [ConversationTurn {
                question: "What is capex?".into(),
                answer: "5 [1].".into()
            }]
        );
        for wrong in [
            &messages[..1],
            &messages[..3],
            &[message("user", " ".into())],
            &[],
        ] {
            assert!(split_turns(wrong).is_err());
        }
        // A long text and then the question: the question is the last message, whatever stands before it.
        let long = [
            message("user", "x".repeat(9_000).into()),
            message("user", "And in 2021?".into()),
        ];
        let (text, earlier) = split_turns(&long).unwrap();
        assert_eq!(
            (text.as_str(), earlier.len(), earlier[0].answer.as_str()),
            ("And in 2021?", 1, "")
        );
        let many: Vec<InputMessage> = (0..20)
            .flat_map(|_| messages[1..3].to_vec())
            .chain([messages[1].clone()])
            .collect();
        assert_eq!(split_turns(&many).unwrap().1.len(), MAX_EARLIER);
    }
}
