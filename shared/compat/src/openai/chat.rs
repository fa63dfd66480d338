//! `POST /v1/chat/completions`.

use axum::extract::State;
use axum::http::HeaderMap;
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_answers::{Answer, AnswerEvent};
use stemma_gateway::AppState;
use stemma_gateway::admission::ModelRequest;
use stemma_gateway::extract::{HandlerResult, Json, json};
use stemma_gateway::rights::CollectionScope;
use utoipa::ToSchema;

use crate::conversation::{
    self, ChatUsage, Conversation, InputMessage, StemmaExtension, frame_response, last_frames,
};
use crate::openai::{UrlCitation, annotation, resolve_model};
use crate::render::RenderedAnswer;

/// Request body. Unknown fields are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ChatRequest, example = json!({ "model": "default", "messages": [{ "role": "user", "content": "What was revenue?" }] }))]
pub(crate) struct ChatRequest {
    /// A collection or a part of it, as listed by `GET /v1/models`.
    model: String,
    /// The conversation. The last user message is the question; previous turns are context.
    messages: Vec<InputMessage>,
    /// Stream as server-sent events.
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
}

#[derive(Debug, Deserialize, ToSchema)]
struct StreamOptions {
    /// Send a last chunk with `usage`.
    #[serde(default)]
    include_usage: bool,
}

/// An answer as a chat completion.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChatCompletion {
    /// Id of the stored answer.
    id: String,
    /// `chat.completion`.
    object: &'static str,
    /// Seconds since 1970-01-01 UTC.
    created: u64,
    /// As requested.
    model: String,
    choices: Vec<ChatChoice>,
    usage: ChatUsage,
    stemma: StemmaExtension,
}

#[derive(Serialize, ToSchema)]
struct ChatChoice {
    /// 0.
    index: u32,
    message: ChatMessage,
    /// Always null.
    #[schema(value_type = Option<Object>)]
    logprobs: Option<Value>,
    /// `stop`, or `length` if a limit cut the answer short.
    finish_reason: &'static str,
}

#[derive(Serialize, ToSchema)]
struct ChatMessage {
    /// `assistant`.
    role: &'static str,
    /// Text with marks `[1]`; ` (not verified)` follows each unverified claim.
    content: String,
    /// Always null.
    refusal: Option<String>,
    /// One per mark.
    annotations: Vec<ChatAnnotation>,
    stemma: StemmaExtension,
}

/// Annotation of a chat completion.
#[derive(Serialize, ToSchema)]
struct ChatAnnotation {
    /// `url_citation`.
    #[serde(rename = "type")]
    kind: &'static str,
    url_citation: UrlCitation,
}

/// Answer a conversation
///
/// Answers from the documents of a model, with citations. With `stream`, sends chunks in OpenAI's format, then
/// `[DONE]`. Same answers as `POST /v1/answers`. Needs the scope `ask`.
#[utoipa::path(post, path = "/v1/chat/completions", operation_id = "openai_chat", tag = "openai", request_body = ChatRequest,
    responses((status = 200, content((ChatCompletion = "application/json"), (stemma_gateway::schema::FrameObject = "text/event-stream")))))]
pub(crate) async fn completions(
    State(state): State<AppState>,
    ModelRequest(permit): ModelRequest,
    collections: CollectionScope,
    headers: HeaderMap,
    Json(body): Json<ChatRequest>,
) -> HandlerResult {
    let place = permit.upgrade_for_model().await?;
    let model = body.model;
    let (archive, scopes) = resolve_model(&state, &collections, &model)?;
    let dialogue = Conversation::new(&state, place, &archive, scopes, &body.messages)?;
    let created = state.env.now_ms() / 1_000;
    if !body.stream {
        let answer = dialogue.answer(&state.env).await?;
        return json(completion(&headers, &model, created, &answer)).await;
    }
    let with_usage = (body.stream_options).is_some_and(|options| options.include_usage);
    let frames = dialogue
        .stream(&state.env)
        .filter_map(|event| async { final_result(event) });
    // Text is sent once the answer is stored, so all chunks carry its id.
    let frames = frames.take(1).flat_map(move |ended| {
        let chunks = match ended {
            Ok(answer) => chunks(&headers, &model, created, &answer, with_usage),
            Err(error) => vec![error],
        };
        stream::iter(last_frames(&chunks))
    });
    Ok(frame_response(frames))
}

fn final_result(event: AnswerEvent) -> Option<Result<Box<Answer>, Value>> {
    match event {
        AnswerEvent::Done(answer) => Some(Ok(answer)),
        AnswerEvent::Error { code, message } => Some(Err(
            json!({ "error": { "message": message, "type": "server_error", "code": code, "param": null } }),
        )),
        _ => None,
    }
}

fn completion(headers: &HeaderMap, model: &str, created: u64, answer: &Answer) -> ChatCompletion {
    let rendered = RenderedAnswer::new(answer);
    let message = ChatMessage {
        role: "assistant",
        refusal: None,
        annotations: annotations(headers, &rendered),
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

fn annotations(headers: &HeaderMap, rendered: &RenderedAnswer<'_>) -> Vec<ChatAnnotation> {
    let annotated = rendered.marks.iter().map(|mark| ChatAnnotation {
        kind: "url_citation",
        url_citation: annotation(headers, mark),
    });
    annotated.collect()
}

fn chunks(
    headers: &HeaderMap,
    model: &str,
    created: u64,
    answer: &Answer,
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
    let pieces = rendered.pieces();
    chunks.extend(pieces.map(|piece| chunk(json!({ "content": piece }), None)));
    let annotations = json!({ "annotations": annotations(headers, &rendered) });
    let mut last = chunk(annotations, Some(conversation::finish_reason(answer)));
    last["stemma"] = json!(conversation::stemma_extension(answer));
    chunks.push(last);
    if with_usage {
        let mut usage = chunk(json!({}), None);
        (usage["choices"], usage["usage"]) = (json!([]), json!(conversation::usage(answer)));
        chunks.push(usage);
    }
    chunks
}
