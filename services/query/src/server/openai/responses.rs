//! `POST /v1/responses`.

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::request::Parts;
use axum::response::sse::Event as Frame;
use futures::StreamExt;
use futures::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use stemma_search::answer::{Answer as Record, Event};

use super::super::asked::{Answer, json as answered};
use super::super::dialogue::{self, Dialogue, Message, streamed};
use super::super::problem::Problem;
use super::super::routes::Site;
use super::super::searching::read;
use super::super::stay::Stay;
use super::{annotation, citations, meant};

/// What is read of a request; everything else is passed over.
#[derive(Debug, Deserialize)]
struct Asked {
    model: String,
    input: Input,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    previous_response_id: Option<String>,
}

/// A question, or a conversation.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Messages(Vec<Message>),
}

/// Answers a question or a conversation, whole or piece by piece.
pub(super) async fn create(site: State<Site>, parts: Parts, body: Result<Bytes, BytesRejection>) -> Answer {
    let place = Stay::of(&parts)?.ask().await?;
    let Asked { model, input, stream, previous_response_id } = read(&parts, body)?;
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
        stream::iter(events.into_iter().enumerate().map(|(at, event)| numbered(at, event)).collect::<Vec<_>>())
    });
    Ok(streamed(frames))
}

/// An event under its own name, with its place in the stream.
fn numbered(at: usize, mut event: Value) -> Frame {
    event["sequence_number"] = json!(at);
    Frame::default().event(event["type"].as_str().unwrap_or_default()).data(event.to_string())
}

fn response(parts: &Parts, model: &str, created: u64, answer: &Record) -> Value {
    let cut = dialogue::finish_reason(answer) == "length";
    json!({
        "id": answer.id,
        "object": "response",
        "created_at": created,
        "status": if cut { "incomplete" } else { "completed" },
        "error": null,
        "incomplete_details": cut.then(|| json!({ "reason": "max_output_tokens" })),
        "instructions": null,
        "metadata": {},
        "model": model,
        "output": [item(parts, answer, "completed")],
        "parallel_tool_calls": false,
        "temperature": null,
        "tool_choice": "none",
        "tools": [],
        "top_p": null,
        "usage": {
            "input_tokens": answer.usage.prompt_tokens,
            "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": answer.usage.output_tokens,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": answer.usage.prompt_tokens + answer.usage.output_tokens,
        },
        "stemma": dialogue::beside(answer),
    })
}

fn item(parts: &Parts, answer: &Record, status: &str) -> Value {
    json!({ "type": "message", "id": format!("msg-{}", answer.id), "status": status, "role": "assistant", "content": [part(parts, answer)] })
}

fn part(parts: &Parts, answer: &Record) -> Value {
    json!({ "type": "output_text", "text": answer.text, "annotations": annotations(parts, answer), "logprobs": [] })
}

fn annotations(parts: &Parts, answer: &Record) -> Vec<Value> {
    let one = |(citation, start, end)| {
        let mut flat = annotation(parts, citation, start, end);
        flat["type"] = json!("url_citation");
        flat
    };
    citations(answer).map(one).collect()
}

/// All events of a response, in their order.
fn events(parts: &Parts, model: &str, created: u64, answer: &Record) -> Vec<Value> {
    let whole = response(parts, model, created, answer);
    let mut begun = whole.clone();
    (begun["status"], begun["output"], begun["usage"]) = (json!("in_progress"), json!([]), Value::Null);
    (begun["incomplete_details"], begun["stemma"]) = (Value::Null, Value::Null);
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
    let mut bare = item(parts, answer, "in_progress");
    bare["content"] = json!([]);
    let mut events = vec![
        event("response.created", json!({ "response": begun })),
        event("response.in_progress", json!({ "response": begun })),
        event("response.output_item.added", json!({ "output_index": 0, "item": bare })),
        event("response.content_part.added", with("part", empty)),
    ];
    let delta = |piece: &str| {
        let mut fields = with("delta", json!(piece));
        fields["logprobs"] = json!([]);
        event("response.output_text.delta", fields)
    };
    events.extend(answer.pieces().map(delta));
    for (number, annotation) in annotations(parts, answer).into_iter().enumerate() {
        let mut fields = with("annotation", annotation);
        fields["annotation_index"] = json!(number);
        events.push(event("response.output_text.annotation.added", fields));
    }
    let mut done = with("text", json!(answer.text));
    done["logprobs"] = json!([]);
    events.push(event("response.output_text.done", done));
    events.push(event("response.content_part.done", with("part", part(parts, answer))));
    events.push(event(
        "response.output_item.done",
        json!({ "output_index": 0, "item": item(parts, answer, "completed") }),
    ));
    let end = if whole["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
    events.push(event(end, json!({ "response": whole })));
    events
}
