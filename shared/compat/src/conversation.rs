//! Chat conversations: converts messages to a question and streams its answer.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{Stream, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stemma_answers::{
    Answer, AnswerError, AnswerEvent, AnswerOutcome, Answerer, AskRequest, Citation, Claim,
    ConversationTurn, Degradation, FinalAnswer, MAX_EARLIER,
};
use stemma_archive::{AnswerRequest, Archive};
use stemma_gateway::admission::ConcurrencyPermit;
use stemma_gateway::problem::{Problem, answer_problem};
use stemma_gateway::sse;
use stemma_gateway::state::AppState;
use stemma_store::Env;
use stemma_store::work::outliving;
use utoipa::ToSchema;

/// A message of a conversation.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(crate) struct InputMessage {
    /// `user` or `assistant`; messages of other roles are ignored.
    #[serde(default)]
    role: String,
    /// A string, or a list of parts with `text`.
    #[serde(default)]
    #[schema(schema_with = stemma_gateway::schema::anything)]
    content: Value,
}

impl InputMessage {
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

pub(crate) struct Conversation {
    permit: ConcurrencyPermit,
    answerer: Arc<dyn Answerer>,
    question: AskRequest,
}

impl Conversation {
    /// The question of a conversation over the documents in `scopes` (empty means all): the last message, with previous turns
    /// as context.
    ///
    /// System messages are ignored: instructions to the model are the operator's.
    pub(crate) fn new(
        state: &AppState,
        place: ConcurrencyPermit,
        archive: &Arc<Archive>,
        scopes: Vec<String>,
        messages: &[InputMessage],
    ) -> Result<Self, Problem> {
        let (text, earlier) = split_turns(messages)?;
        let answerer = state.answerer(archive)?;
        let question = archive.ask_request(&AnswerRequest {
            question: text,
            scopes,
            earlier,
            ..AnswerRequest::default()
        })?;
        answerer.check(&question).map_err(answer_problem)?;
        Ok(Self {
            permit: place,
            answerer,
            question,
        })
    }

    /// The answer. It is finished and stored even after a disconnect.
    pub(crate) async fn answer(self, env: &Env) -> Result<Answer, Problem> {
        let answering = async move {
            let _place = self.permit;
            self.answerer.answer(&self.question, &mut ()).await
        };
        let answered = env.spawn(outliving(answering)).await; // detached: ends with the answer
        answered
            .unwrap_or(Err(AnswerError::Internal))
            .map_err(answer_problem)
    }

    /// The events of the answer. It is finished and stored even after a disconnect.
    pub(crate) fn stream(self, env: &Env) -> impl Stream<Item = AnswerEvent> + Send + use<> {
        sse::stream_answer(env, self.permit, self.answerer, self.question)
    }
}

fn split_turns(messages: &[InputMessage]) -> Result<(String, Vec<ConversationTurn>), Problem> {
    let mut earlier: Vec<ConversationTurn> = Vec::new();
    let mut current: Option<String> = None;
    for message in messages {
        // The last user message is the question; an earlier one without a reply is context.
        let (question, answer) = match message.role.as_str() {
            "user" => (current.replace(message.text()), String::new()),
            "assistant" => (current.take(), message.text()),
            _ => continue,
        };
        earlier.extend(question.map(|question| ConversationTurn { question, answer }));
    }
    let text = current.map(|text| text.trim().to_owned());
    let text = text.filter(|text| !text.is_empty()).ok_or_else(|| {
        let detail = "the last message must be a user's, with text";
        Problem::parameter(422, "/messages", detail)
    })?;
    let skip = earlier.len().saturating_sub(MAX_EARLIER);
    Ok((text, earlier.split_off(skip)))
}

// OpenAI's `finish_reason`.
pub(crate) fn finish_reason(answer: &Answer) -> &'static str {
    let cut = answer
        .degradation
        .as_ref()
        .is_some_and(|degraded| degraded.code.starts_with("answer.limit_reached"));
    if cut { "length" } else { "stop" }
}

// Absolute under the name by which the client called the server; a path if that is unknown.
pub(crate) fn address(headers: &HeaderMap, url: &str) -> String {
    let scheme = header_text(headers, "x-forwarded-proto")
        .filter(|scheme| matches!(*scheme, "http" | "https"))
        .unwrap_or("http");
    match header_text(headers, header::HOST.as_str()) {
        Some(host) if url.starts_with('/') && is_host(host) => format!("{scheme}://{host}{url}"),
        _ => url.to_owned(),
    }
}

fn is_host(host: &str) -> bool {
    let mut bytes = host.bytes();
    !host.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b"-.:[]_".contains(&b))
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Token usage in OpenAI's format.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ChatUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

// The cost of the original generation, also for stored answers.
pub(crate) fn usage(answer: &Answer) -> ChatUsage {
    ChatUsage {
        prompt_tokens: answer.usage.prompt_tokens,
        completion_tokens: answer.usage.output_tokens,
        total_tokens: answer.usage.prompt_tokens + answer.usage.output_tokens,
    }
}

/// Verification details of an answer, added to every compatible format.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct StemmaExtension {
    /// Id for `GET /v1/answers/{id}`.
    answer_id: String,
    /// `answered`, `not_in_documents` or `search_only`.
    #[schema(value_type = String)]
    outcome: AnswerOutcome,
    /// Stated confidence of the model, 0–1, at most the share of claims that are not unverified.
    confidence: Option<f64>,
    /// The final answer: `value`, `period`, `criterion` of a judgement, and whether it is `verified`.
    #[schema(value_type = Option<Object>)]
    answer: Option<FinalAnswer>,
    /// Parts of the question that what was read does not answer.
    missing: Vec<String>,
    /// Claims: `text`, `state`, `citations`, `figures`, and `reason` if it is unverified.
    #[schema(value_type = Vec<Object>)]
    claims: Vec<Claim>,
    /// Citations. `verified` says whether the quote is on its page, not whether it supports the claim.
    #[schema(schema_with = stemma_gateway::schema::citations)]
    citations: Vec<Citation>,
    /// Degradations: `code`, `message`, `next`.
    #[schema(value_type = Option<Object>)]
    degraded: Option<Degradation>,
    /// The model, or null if none answered.
    model: Option<String>,
    /// Number of model calls.
    calls: u32,
}

pub(crate) fn stemma_extension(answer: &Answer) -> StemmaExtension {
    StemmaExtension {
        answer_id: answer.id.clone(),
        outcome: answer.outcome,
        confidence: answer.confidence,
        answer: answer.final_answer.clone(),
        missing: answer.missing.clone(),
        claims: answer.claims.clone(),
        citations: answer.citations.clone(),
        degraded: answer.degradation.clone(),
        model: answer.model.clone(),
        calls: answer.usage.calls,
    }
}

/// An event stream. A comment every 15 s keeps the connection open.
pub(crate) fn frame_response(frames: impl Stream<Item = Frame> + Send + 'static) -> Response {
    Sse::new(frames.map(Ok::<_, std::convert::Infallible>))
        .keep_alive(KeepAlive::default())
        .into_response()
}

pub(crate) fn frame(value: &Value) -> Frame {
    Frame::default().data(value.to_string())
}

/// The last frames of a stream.
pub(crate) fn last_frames(values: &[Value]) -> Vec<Frame> {
    let done = Frame::default().data("[DONE]");
    values.iter().map(frame).chain([done]).collect()
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
        // The last message is the question even after a long text.
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
