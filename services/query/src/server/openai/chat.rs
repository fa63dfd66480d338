//! `POST /v1/chat/completions`.

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::request::Parts;
use futures::StreamExt;
use futures::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use stemma_search::answer::{Answer as Record, Event};

use super::super::asked::{Answer, json as answered};
use super::super::dialogue::{self, Dialogue, Message, frame, streamed};
use super::super::routes::Site;
use super::super::searching::read;
use super::super::stay::Stay;
use super::{annotation, citations, meant};

/// What is read of a request; everything else is passed over.
#[derive(Debug, Deserialize)]
struct Asked {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

/// Answers a conversation, whole or piece by piece.
pub(super) async fn completions(site: State<Site>, parts: Parts, body: Result<Bytes, BytesRejection>) -> Answer {
    let place = Stay::of(&parts)?.ask().await?;
    let Asked { model, messages, stream, stream_options } = read(&parts, body)?;
    let (reader, scopes) = meant(&site, &parts, &model)?;
    let dialogue = Dialogue::of(&site, place, &reader, scopes, &messages)?;
    let created = site.env.now_ms() / 1_000;
    if !stream {
        let answer = dialogue.whole(&site.env).await?;
        return answered(completion(&parts, &model, created, &answer)).await;
    }
    let with_usage = stream_options.is_some_and(|options| options.include_usage);
    let frames = dialogue.told(&site.env).filter_map(|event| async { ended(event) });
    // The id of an answer is known when it is stored, and its text is told then: all chunks have it.
    let frames = frames.take(1).flat_map(move |ended| {
        let chunks = match ended {
            Ok(answer) => chunks(&parts, &model, created, &answer, with_usage),
            Err(error) => vec![error],
        };
        stream::iter(
            chunks.iter().map(frame).chain([axum::response::sse::Event::default().data("[DONE]")]).collect::<Vec<_>>(),
        )
    });
    Ok(streamed(frames))
}

/// The end of an answer: itself, or what is said where there is none.
fn ended(event: Event) -> Option<Result<Box<Record>, Value>> {
    match event {
        Event::Done(answer) => Some(Ok(answer)),
        Event::Error { code, message } => {
            Some(Err(json!({ "error": { "message": message, "type": "server_error", "code": code, "param": null } })))
        }
        _ => None,
    }
}

fn completion(parts: &Parts, model: &str, created: u64, answer: &Record) -> Value {
    json!({
        "id": answer.id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant",
                "content": answer.text,
                "refusal": null,
                "annotations": annotations(parts, answer),
                "stemma": dialogue::beside(answer),
            },
            "logprobs": null,
            "finish_reason": dialogue::finish_reason(answer),
        }],
        "usage": dialogue::usage(answer),
        "stemma": dialogue::beside(answer),
    })
}

fn annotations(parts: &Parts, answer: &Record) -> Vec<Value> {
    let one = |(citation, start, end)| json!({ "type": "url_citation", "url_citation": annotation(parts, citation, start, end) });
    citations(answer).map(one).collect()
}

/// The pieces of the text as they were told, then the end with what it rests on.
fn chunks(parts: &Parts, model: &str, created: u64, answer: &Record, with_usage: bool) -> Vec<Value> {
    let chunk = |delta: Value, finish: Option<&str>| {
        json!({
            "id": answer.id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
            "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }],
        })
    };
    let mut chunks = vec![chunk(json!({ "role": "assistant", "content": "" }), None)];
    chunks.extend(answer.pieces().map(|piece| chunk(json!({ "content": piece }), None)));
    let mut last = chunk(json!({ "annotations": annotations(parts, answer) }), Some(dialogue::finish_reason(answer)));
    last["stemma"] = dialogue::beside(answer);
    chunks.push(last);
    if with_usage {
        let mut usage = chunk(json!({}), None);
        (usage["choices"], usage["usage"]) = (json!([]), dialogue::usage(answer));
        chunks.push(usage);
    }
    chunks
}
