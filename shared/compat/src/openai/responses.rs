//! `POST /v1/responses`.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::Event as Frame;
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_answers::{Answer as Record, AnswerEvent};
use stemma_gateway::AppState;
use stemma_gateway::admission::ModelRequest;
use stemma_gateway::extract::{HandlerResult, Json, json as answered};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use utoipa::ToSchema;

use crate::conversation::{self, Conversation, InputMessage, StemmaExtension, frame_response};
use crate::openai::{UrlCitation, annotation, resolve_model};
use crate::render::RenderedAnswer;

/// Request body. Unknown fields are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ResponseRequest, example = json!({ "model": "default", "input": "What was revenue?" }))]
pub(crate) struct ResponseRequest {
    /// A collection or a part of it, as listed by `GET /v1/models`.
    model: String,
    input: ResponseInput,
    /// Stream as server-sent events.
    #[serde(default)]
    stream: bool,
    /// Refused: conversations are not stored.
    #[serde(default)]
    previous_response_id: Option<String>,
}

/// A question or a conversation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "`input` must be a string or a list of messages, each with `role` and `content`"
)]
enum ResponseInput {
    Text(String),
    Messages(Vec<InputMessage>),
}

/// An answer as a response.
#[derive(Clone, Serialize, ToSchema)]
pub(crate) struct ResponseObject {
    /// Id of the stored answer.
    id: String,
    /// `response`.
    object: &'static str,
    /// Seconds since 1970-01-01 UTC.
    created_at: u64,
    /// `completed`, or `incomplete` if a limit cut the answer short; first `in_progress` in a stream.
    status: &'static str,
    /// Always null.
    error: Option<String>,
    /// Why it is incomplete.
    incomplete_details: Option<IncompleteDetails>,
    /// Always null.
    instructions: Option<String>,
    #[schema(value_type = Object)]
    metadata: Value,
    /// As requested.
    model: String,
    /// One message.
    output: Vec<ResponseMessage>,
    parallel_tool_calls: bool,
    /// Always null.
    temperature: Option<f64>,
    /// `none`.
    tool_choice: &'static str,
    /// Empty.
    tools: Vec<String>,
    /// Always null.
    top_p: Option<f64>,
    usage: Option<ResponseUsage>,
    stemma: Option<StemmaExtension>,
}

/// Why a response is incomplete.
#[derive(Clone, Serialize, ToSchema)]
struct IncompleteDetails {
    /// `max_output_tokens`.
    reason: &'static str,
}

#[derive(Clone, Serialize, ToSchema)]
struct ResponseMessage {
    /// `message`.
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
    status: &'static str,
    /// `assistant`.
    role: &'static str,
    /// One text.
    content: Vec<ResponseText>,
}

#[derive(Clone, Serialize, ToSchema)]
struct ResponseText {
    /// `output_text`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Text with marks `[1]`; ` (not verified)` follows each unverified claim.
    text: String,
    /// One per mark.
    annotations: Vec<ResponseAnnotation>,
    /// Empty.
    logprobs: Vec<String>,
}

/// Annotation of a response.
#[derive(Clone, Serialize, ToSchema)]
struct ResponseAnnotation {
    /// `url_citation`.
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    citation: UrlCitation,
}

#[derive(Clone, Serialize, ToSchema)]
struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: InputTokenDetails,
    output_tokens: u64,
    output_tokens_details: OutputTokenDetails,
    total_tokens: u64,
}

#[derive(Clone, Default, Serialize, ToSchema)]
struct InputTokenDetails {
    /// Always 0: not measured.
    cached_tokens: u64,
}

#[derive(Clone, Default, Serialize, ToSchema)]
struct OutputTokenDetails {
    /// Always 0: not measured.
    reasoning_tokens: u64,
}

/// Answer a question
///
/// Same answers in the format of OpenAI's Responses API. With `stream`, sends events from `response.created` to
/// `response.completed`. Needs the scope `ask`.
#[utoipa::path(post, path = "/v1/responses", operation_id = "openai_response", tag = "openai", request_body = ResponseRequest,
    responses((status = 200, content((ResponseObject = "application/json"), (stemma_gateway::schema::FrameObject = "text/event-stream")))))]
pub(crate) async fn create(
    State(site): State<AppState>,
    ModelRequest(permit): ModelRequest,
    collections: CollectionScope,
    headers: HeaderMap,
    Json(body): Json<ResponseRequest>,
) -> HandlerResult {
    let place = permit.upgrade_for_model().await?;
    let ResponseRequest {
        model,
        input,
        stream,
        previous_response_id,
    } = body;
    if previous_response_id.is_some() {
        let detail = "conversations are not kept here: send what was said before in `input`";
        return Err(Problem::parameter(422, "/previous_response_id", detail).into());
    }
    let messages = match input {
        ResponseInput::Text(text) => vec![InputMessage::from_user(text)],
        ResponseInput::Messages(messages) => messages,
    };
    let (archive, scopes) = resolve_model(&site, &collections, &model)?;
    let dialogue = Conversation::new(&site, place, &archive, scopes, &messages)?;
    let created = site.env.now_ms() / 1_000;
    if !stream {
        let answer = dialogue.answer(&site.env).await?;
        return answered(response(&headers, &model, created, &answer)).await;
    }
    let ended = dialogue.stream(&site.env).filter_map(|event| async {
        match event {
            AnswerEvent::Done(answer) => Some(Ok(answer)),
            AnswerEvent::Error { code, message } => Some(Err((code, message))),
            _ => None,
        }
    });
    let frames = ended.take(1).flat_map(move |ended| {
        let events = match ended {
            Ok(answer) => events(&headers, &model, created, &answer),
            Err((code, message)) => {
                vec![json!({ "type": "error", "code": code, "message": message, "param": null })]
            }
        };
        stream::iter(
            events
                .into_iter()
                .enumerate()
                .map(|(at, event)| numbered_frame(at, event))
                .collect::<Vec<_>>(),
        )
    });
    Ok(frame_response(frames))
}

fn numbered_frame(at: usize, mut event: Value) -> Frame {
    event["sequence_number"] = json!(at);
    Frame::default()
        .event(event["type"].as_str().unwrap_or_default())
        .data(event.to_string())
}

fn response(headers: &HeaderMap, model: &str, created: u64, answer: &Record) -> ResponseObject {
    let cut = conversation::finish_reason(answer) == "length";
    let input_tokens = answer.usage.prompt_tokens;
    let output_tokens = answer.usage.output_tokens;
    ResponseObject {
        id: answer.id.clone(),
        object: "response",
        created_at: created,
        status: if cut { "incomplete" } else { "completed" },
        error: None,
        incomplete_details: cut.then_some(IncompleteDetails {
            reason: "max_output_tokens",
        }),
        instructions: None,
        metadata: json!({}),
        model: model.to_owned(),
        output: vec![item(headers, answer, "completed")],
        parallel_tool_calls: false,
        temperature: None,
        tool_choice: "none",
        tools: Vec::new(),
        top_p: None,
        usage: Some(ResponseUsage {
            input_tokens,
            input_tokens_details: InputTokenDetails::default(),
            output_tokens,
            output_tokens_details: OutputTokenDetails::default(),
            total_tokens: input_tokens + output_tokens,
        }),
        stemma: Some(conversation::stemma_extension(answer)),
    }
}

fn item(headers: &HeaderMap, answer: &Record, status: &'static str) -> ResponseMessage {
    let id = format!("msg-{}", answer.id);
    let content = vec![part(headers, answer)];
    ResponseMessage {
        kind: "message",
        id,
        status,
        role: "assistant",
        content,
    }
}

fn part(headers: &HeaderMap, answer: &Record) -> ResponseText {
    let rendered = RenderedAnswer::new(answer);
    let annotations = annotations(headers, &rendered);
    ResponseText {
        kind: "output_text",
        text: rendered.text,
        annotations,
        logprobs: Vec::new(),
    }
}

fn annotations(headers: &HeaderMap, rendered: &RenderedAnswer<'_>) -> Vec<ResponseAnnotation> {
    rendered
        .marks
        .iter()
        .map(|mark| ResponseAnnotation {
            kind: "url_citation",
            citation: annotation(headers, mark),
        })
        .collect()
}

fn events(headers: &HeaderMap, model: &str, created: u64, answer: &Record) -> Vec<Value> {
    let whole = response(headers, model, created, answer);
    let rendered = RenderedAnswer::new(answer);
    let status = "in_progress";
    let output = Vec::new();
    let in_progress = ResponseObject {
        status,
        output,
        incomplete_details: None,
        usage: None,
        stemma: None,
        ..whole.clone()
    };
    let id = format!("msg-{}", answer.id);
    let at = || json!({ "item_id": id, "output_index": 0, "content_index": 0 });
    let event = |kind: &str, mut fields: Value| {
        fields["type"] = json!(kind);
        fields
    };
    let with = |name: &str, value: Value| {
        let mut fields = at();
        fields[name] = value;
        fields
    };
    let empty = json!({ "type": "output_text", "text": "", "annotations": [], "logprobs": [] });
    let bare = ResponseMessage {
        content: Vec::new(),
        ..item(headers, answer, "in_progress")
    };
    let mut events = vec![
        event("response.created", json!({ "response": in_progress })),
        event("response.in_progress", json!({ "response": in_progress })),
        event(
            "response.output_item.added",
            json!({ "output_index": 0, "item": bare }),
        ),
        event("response.content_part.added", with("part", empty)),
    ];
    events.extend(rendered.pieces().map(|piece: &str| {
        let mut fields = with("delta", json!(piece));
        fields["logprobs"] = json!([]);
        event("response.output_text.delta", fields)
    }));
    for (number, annotation) in annotations(headers, &rendered).into_iter().enumerate() {
        let mut fields = with("annotation", json!(annotation));
        fields["annotation_index"] = json!(number);
        events.push(event("response.output_text.annotation.added", fields));
    }
    let mut done = with("text", json!(rendered.text));
    done["logprobs"] = json!([]);
    events.push(event("response.output_text.done", done));
    events.push(event(
        "response.content_part.done",
        with("part", json!(part(headers, answer))),
    ));
    events.push(event(
        "response.output_item.done",
        json!({ "output_index": 0, "item": item(headers, answer, "completed") }),
    ));
    let end = if whole.status == "incomplete" {
        "response.incomplete"
    } else {
        "response.completed"
    };
    events.push(event(end, json!({ "response": whole })));
    events
}
