//! `POST /v1/chat/completions`.

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::request::Parts;
use futures::StreamExt;
use futures::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_answers::{Answer as Record, AnswerEvent};
use utoipa::ToSchema;

use crate::conversation::{
    self, ChatUsage, Conversation, InputMessage, StemmaExtension, frame, frame_response,
};
use crate::openai::{UrlCitation, annotation, resolve_model};
use crate::render::RenderedAnswer;
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::body::parse_body;
use stemma_gateway::extract::{HandlerResult, json as answered};
use stemma_gateway::state::AppState;

/// What is read of a request; everything else is passed over.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ChatRequest, example = json!({ "model": "default", "messages": [{ "role": "user", "content": "What was revenue?" }] }))]
pub(crate) struct ChatRequest {
    /// A collection, or a part of it, as `GET /v1/models` names them.
    model: String,
    /// The conversation. The last message of a user is asked; turns before it are what was said earlier.
    messages: Vec<InputMessage>,
    /// Tell it as server-sent events.
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
}

/// What a stream tells besides.
#[derive(Debug, Deserialize, ToSchema)]
struct StreamOptions {
    /// A last chunk with `usage`.
    #[serde(default)]
    include_usage: bool,
}

/// An answer as a chat completion.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChatCompletion {
    /// That of the stored answer.
    id: String,
    /// `chat.completion`.
    object: &'static str,
    /// Seconds since 1970-01-01 UTC.
    created: u64,
    /// As it was asked.
    model: String,
    /// One.
    choices: Vec<ChatChoice>,
    usage: ChatUsage,
    stemma: StemmaExtension,
}

/// What is said.
#[derive(Serialize, ToSchema)]
struct ChatChoice {
    /// 0.
    index: u32,
    message: ChatMessage,
    /// Always null.
    #[schema(value_type = Option<Object>)]
    logprobs: Option<Value>,
    /// `stop`, or `length` where a limit cut the answer short.
    finish_reason: &'static str,
}

/// The text, and what it rests on.
#[derive(Serialize, ToSchema)]
struct ChatMessage {
    /// `assistant`.
    role: &'static str,
    /// The text, with marks `[1]`, and ` (not verified)` behind each claim that is not.
    content: String,
    /// Always null.
    refusal: Option<String>,
    /// One for each mark.
    annotations: Vec<ChatAnnotation>,
    stemma: StemmaExtension,
}

/// Where a mark leads, as chat completions say it.
#[derive(Serialize, ToSchema)]
struct ChatAnnotation {
    /// `url_citation`.
    #[serde(rename = "type")]
    kind: &'static str,
    url_citation: UrlCitation,
}

/// Answer a conversation
///
/// From the documents of a model, with citations; whole, or with `stream` as `text/event-stream`: chunks in OpenAI's shape, then
/// `[DONE]`. The answer is that of `POST /v1/answers` to the same question. Needs the scope `upgrade_for_model`.
#[utoipa::path(post, path = "/v1/chat/completions", operation_id = "openai_chat", tag = "openai", request_body = ChatRequest,
    responses((status = 200, content((ChatCompletion = "application/json"), (stemma_gateway::schema::FrameObject = "text/event-stream")))))]
pub(crate) async fn completions(
    site: State<AppState>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> HandlerResult {
    let place = RequestPermit::from_parts(&parts)?
        .upgrade_for_model()
        .await?;
    let ChatRequest {
        model,
        messages,
        stream,
        stream_options,
    } = parse_body(&parts, body)?;
    let (archive, scopes) = resolve_model(&site, &parts, &model)?;
    let dialogue = Conversation::new(&site, place, &archive, scopes, &messages)?;
    let created = site.env.now_ms() / 1_000;
    if !stream {
        let answer = dialogue.answer(&site.env).await?;
        return answered(completion(&parts, &model, created, &answer)).await;
    }
    let with_usage = stream_options.is_some_and(|options| options.include_usage);
    let frames = dialogue
        .stream(&site.env)
        .filter_map(|event| async { final_result(event) });
    // The id of an answer is known when it is stored, and its text is told then: all chunks have it.
    let frames = frames.take(1).flat_map(move |ended| {
        let chunks = match ended {
            Ok(answer) => chunks(&parts, &model, created, &answer, with_usage),
            Err(error) => vec![error],
        };
        stream::iter(
            chunks
                .iter()
                .map(frame)
                .chain([axum::response::sse::Event::default().data("[DONE]")])
                .collect::<Vec<_>>(),
        )
    });
    Ok(frame_response(frames))
}

/// The end of an answer: itself, or what is said where there is none.
fn final_result(event: AnswerEvent) -> Option<Result<Box<Record>, Value>> {
    match event {
        AnswerEvent::Done(answer) => Some(Ok(answer)),
        AnswerEvent::Error { code, message } => Some(Err(
            json!({ "error": { "message": message, "type": "server_error", "code": code, "param": null } }),
        )),
        _ => None,
    }
}

fn completion(parts: &Parts, model: &str, created: u64, answer: &Record) -> ChatCompletion {
    let rendered = RenderedAnswer::new(answer);
    let message = ChatMessage {
        role: "assistant",
        refusal: None,
        annotations: annotations(parts, &rendered),
        content: rendered.text,
        stemma: conversation::stemma_extension(answer),
    };
    ChatCompletion {
        id: answer.id.clone(),
        object: "chat.completion",
        created,
        model: model.to_owned(),
        choices: vec![ChatChoice {
            index: 0,
            message,
            logprobs: None,
            finish_reason: conversation::finish_reason(answer),
        }],
        usage: conversation::usage(answer),
        stemma: conversation::stemma_extension(answer),
    }
}

fn annotations(parts: &Parts, rendered: &RenderedAnswer<'_>) -> Vec<ChatAnnotation> {
    rendered
        .marks
        .iter()
        .map(|mark| ChatAnnotation {
            kind: "url_citation",
            url_citation: annotation(parts, mark),
        })
        .collect()
}

/// The pieces of the text, then the end with what it rests on.
fn chunks(
    parts: &Parts,
    model: &str,
    created: u64,
    answer: &Record,
    with_usage: bool,
) -> Vec<Value> {
    let chunk = |delta: Value, finish: Option<&str>| {
        json!({
            "id": answer.id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
            "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }],
        })
    };
    let rendered = RenderedAnswer::new(answer);
    let mut chunks = vec![chunk(json!({ "role": "assistant", "content": "" }), None)];
    chunks.extend(
        rendered
            .pieces()
            .map(|piece| chunk(json!({ "content": piece }), None)),
    );
    let mut last = chunk(
        json!({ "annotations": annotations(parts, &rendered) }),
        Some(conversation::finish_reason(answer)),
    );
    last["stemma"] = json!(conversation::stemma_extension(answer));
    chunks.push(last);
    if with_usage {
        let mut usage = chunk(json!({}), None);
        (usage["choices"], usage["usage"]) = (json!([]), json!(conversation::usage(answer)));
        chunks.push(usage);
    }
    chunks
}
