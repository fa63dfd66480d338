//! `POST /v1/responses`.

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::request::Parts;
use axum::response::sse::Event as Frame;
use futures::StreamExt;
use futures::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_answers::{Answer as Record, Event};
use utoipa::ToSchema;

use super::super::asked::{Answer, json as answered};
use super::super::dialogue::{self, Beside, Dialogue, Message, streamed};
use super::super::problem::Problem;
use super::super::routes::Site;
use super::super::searching::read;
use super::super::shown::Shown;
use super::super::stay::Stay;
use super::{UrlCitation, annotation, meant};

/// What is read of a request; everything else is passed over.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ResponseRequest, example = json!({ "model": "default", "input": "What was revenue?" }))]
pub(in crate::server) struct Asked {
    /// A collection, or a part of it, as `GET /v1/models` names them.
    model: String,
    input: Input,
    /// Tell it as server-sent events.
    #[serde(default)]
    stream: bool,
    /// Refused: conversations are not kept here.
    #[serde(default)]
    previous_response_id: Option<String>,
}

/// A question, or a conversation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "`input` is a text or a list of messages, each with `role` and `content`"
)]
enum Input {
    Text(String),
    Messages(Vec<Message>),
}

/// An answer as a response.
#[derive(Clone, Serialize, ToSchema)]
pub(in crate::server) struct ResponseAnswer {
    /// That of the stored answer.
    id: String,
    /// `response`.
    object: &'static str,
    /// Seconds since 1970-01-01 UTC.
    created_at: u64,
    /// `completed`, or `incomplete` where a limit cut the answer short; in a stream first `in_progress`.
    status: &'static str,
    /// Always null.
    error: Option<String>,
    /// Why it is incomplete.
    incomplete_details: Option<Incomplete>,
    /// Always null.
    instructions: Option<String>,
    #[schema(value_type = Object)]
    metadata: Value,
    /// As it was asked.
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
    stemma: Option<Beside>,
}

/// Why a response is incomplete.
#[derive(Clone, Serialize, ToSchema)]
struct Incomplete {
    /// `max_output_tokens`.
    reason: &'static str,
}

/// What is said.
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
    content: Vec<ResponsePart>,
}

/// The text, and what it rests on.
#[derive(Clone, Serialize, ToSchema)]
struct ResponsePart {
    /// `output_text`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The text, with marks `[1]`, and ` (not verified)` behind each claim that is not.
    text: String,
    /// One for each mark.
    annotations: Vec<ResponseAnnotation>,
    /// Empty.
    logprobs: Vec<String>,
}

/// Where a mark leads, as responses say it.
#[derive(Clone, Serialize, ToSchema)]
struct ResponseAnnotation {
    /// `url_citation`.
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    citation: UrlCitation,
}

/// Tokens of the calls that were made.
#[derive(Clone, Serialize, ToSchema)]
struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: InputTokens,
    output_tokens: u64,
    output_tokens_details: OutputTokens,
    total_tokens: u64,
}

/// Of the tokens of prompts.
#[derive(Clone, Default, Serialize, ToSchema)]
struct InputTokens {
    /// Always 0: not told apart.
    cached_tokens: u64,
}

/// Of the tokens of replies.
#[derive(Clone, Default, Serialize, ToSchema)]
struct OutputTokens {
    /// Always 0: not told apart.
    reasoning_tokens: u64,
}

/// Answer a question
///
/// The same answers in the shape of OpenAI's responses; with `stream` as `text/event-stream`, `response.created` to
/// `response.completed`. Needs the scope `ask`.
#[utoipa::path(post, path = "/v1/responses", operation_id = "openai_response", tag = "openai", request_body = Asked,
    responses((status = 200, content((ResponseAnswer = "application/json"), (crate::server::openapi::FrameObject = "text/event-stream")))))]
pub(in crate::server) async fn create(
    site: State<Site>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> Answer {
    let place = Stay::of(&parts)?.ask().await?;
    let Asked {
        model,
        input,
        stream,
        previous_response_id,
    } = read(&parts, body)?;
    if previous_response_id.is_some() {
        let detail = "conversations are not kept here: send what was said before in `input`";
        return Err(Problem::parameter(422, "/previous_response_id", detail).into());
    }
    let messages = match input {
        Input::Text(text) => vec![Message::of_user(text)],
        Input::Messages(messages) => messages,
    };
    let (reader, scopes) = meant(&site, &parts, &model)?;
    let dialogue = Dialogue::of(&site, place, &reader, scopes, &messages)?;
    let created = site.env.now_ms() / 1_000;
    if !stream {
        let answer = dialogue.whole(&site.env).await?;
        return answered(response(&parts, &model, created, &answer)).await;
    }
    let ended = dialogue.told(&site.env).filter_map(|event| async {
        match event {
            Event::Done(answer) => Some(Ok(answer)),
            Event::Error { code, message } => Some(Err((code, message))),
            _ => None,
        }
    });
    let frames = ended.take(1).flat_map(move |ended| {
        let events = match ended {
            Ok(answer) => events(&parts, &model, created, &answer),
            Err((code, message)) => {
                vec![json!({ "type": "error", "code": code, "message": message, "param": null })]
            }
        };
        stream::iter(
            events
                .into_iter()
                .enumerate()
                .map(|(at, event)| numbered(at, event))
                .collect::<Vec<_>>(),
        )
    });
    Ok(streamed(frames))
}

/// An event under its own name, with its place in the stream.
fn numbered(at: usize, mut event: Value) -> Frame {
    event["sequence_number"] = json!(at);
    Frame::default()
        .event(event["type"].as_str().unwrap_or_default())
        .data(event.to_string())
}

fn response(parts: &Parts, model: &str, created: u64, answer: &Record) -> ResponseAnswer {
    let cut = dialogue::finish_reason(answer) == "length";
    let input_tokens = answer.usage.prompt_tokens;
    let output_tokens = answer.usage.output_tokens;
    ResponseAnswer {
        id: answer.id.clone(),
        object: "response",
        created_at: created,
        status: if cut { "incomplete" } else { "completed" },
        error: None,
        incomplete_details: cut.then_some(Incomplete {
            reason: "max_output_tokens",
        }),
        instructions: None,
        metadata: json!({}),
        model: model.to_owned(),
        output: vec![item(parts, answer, "completed")],
        parallel_tool_calls: false,
        temperature: None,
        tool_choice: "none",
        tools: Vec::new(),
        top_p: None,
        usage: Some(ResponseUsage {
            input_tokens,
            input_tokens_details: InputTokens::default(),
            output_tokens,
            output_tokens_details: OutputTokens::default(),
            total_tokens: input_tokens + output_tokens,
        }),
        stemma: Some(dialogue::beside(answer)),
    }
}

fn item(parts: &Parts, answer: &Record, status: &'static str) -> ResponseMessage {
    let id = format!("msg-{}", answer.id);
    let content = vec![part(parts, answer)];
    ResponseMessage {
        kind: "message",
        id,
        status,
        role: "assistant",
        content,
    }
}

fn part(parts: &Parts, answer: &Record) -> ResponsePart {
    let shown = Shown::of(answer);
    let annotations = annotations(parts, &shown);
    ResponsePart {
        kind: "output_text",
        text: shown.text,
        annotations,
        logprobs: Vec::new(),
    }
}

fn annotations(parts: &Parts, shown: &Shown<'_>) -> Vec<ResponseAnnotation> {
    shown
        .marks
        .iter()
        .map(|mark| ResponseAnnotation {
            kind: "url_citation",
            citation: annotation(parts, mark),
        })
        .collect()
}

/// All events of a response, in their order.
fn events(parts: &Parts, model: &str, created: u64, answer: &Record) -> Vec<Value> {
    let whole = response(parts, model, created, answer);
    let shown = Shown::of(answer);
    let status = "in_progress";
    let output = Vec::new();
    let begun = ResponseAnswer {
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
        ..item(parts, answer, "in_progress")
    };
    let mut events = vec![
        event("response.created", json!({ "response": begun })),
        event("response.in_progress", json!({ "response": begun })),
        event(
            "response.output_item.added",
            json!({ "output_index": 0, "item": bare }),
        ),
        event("response.content_part.added", with("part", empty)),
    ];
    events.extend(shown.pieces().map(|piece: &str| {
        let mut fields = with("delta", json!(piece));
        fields["logprobs"] = json!([]);
        event("response.output_text.delta", fields)
    }));
    for (number, annotation) in annotations(parts, &shown).into_iter().enumerate() {
        let mut fields = with("annotation", json!(annotation));
        fields["annotation_index"] = json!(number);
        events.push(event("response.output_text.annotation.added", fields));
    }
    let mut done = with("text", json!(shown.text));
    done["logprobs"] = json!([]);
    events.push(event("response.output_text.done", done));
    events.push(event(
        "response.content_part.done",
        with("part", json!(part(parts, answer))),
    ));
    events.push(event(
        "response.output_item.done",
        json!({ "output_index": 0, "item": item(parts, answer, "completed") }),
    ));
    let end = if whole.status == "incomplete" {
        "response.incomplete"
    } else {
        "response.completed"
    };
    events.push(event(end, json!({ "response": whole })));
    events
}
