//! `POST /v1/answers` and stored answers, with a simulated provider.

use std::sync::Arc;

use serde_json::{Value, json};
use stemma_sim::{Behavior, Provider, ReplyFault, ReplyFaults};
use stemma_store::Env;
use stemma_store::blobs::{Blobs, MemoryBlobs};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::test_server::{TestServer, start, start_answering, start_with};
use crate::ServerDeps;
use stemma_archive::AnswererFactory;
use stemma_sample_store::model::answer_model;

/// The text of both chat routes for a question, and the id of its stored answer.
async fn rendered_texts(server: &TestServer, question: &str) -> (String, String) {
    let messages = json!([{ "role": "user", "content": question }]);
    let chat = json!({ "model": "default/ACME_2022", "messages": messages }).to_string();
    let chat = server.post("/v1/chat/completions", &chat).await.json();
    let pageindex = json!({ "doc_id": "ACME_2022", "messages": messages }).to_string();
    let streaming =
        json!({ "doc_id": "ACME_2022", "messages": messages, "stream": true }).to_string();
    let pageindex = server.post("/chat/completions/", &pageindex).await.json();
    let text = chat["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(pageindex["choices"][0]["message"]["content"], text);
    let chunks = super::openai::frames(
        &server
            .stream("/chat/completions/", &streaming, "*/*")
            .await
            .body,
    );
    let streamed_text: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(streamed_text, text);
    (text.to_owned(), chat["id"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn chat_text_marks_unverified_and_search_only_answers() {
    let provider = Provider::start(Behavior {
        lies: 1.0,
        ..Behavior::default()
    })
    .await
    .unwrap();
    let server = start_answering(answer_model(&provider)).await;
    let (text, id) = rendered_texts(&server, "How much was R&D spending?").await;
    let stored = server.get(&format!("/v1/answers/{id}")).await.json();
    let claims = stored["claims"].as_array().unwrap().len();
    assert_eq!(
        (claims > 0, text.matches(" (not verified)").count()),
        (true, claims),
        "{text}"
    );
    assert_eq!(
        text.replace(" (not verified)", ""),
        stored["text"].as_str().unwrap(),
        "otherwise equal to the stored answer"
    );
    let store: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
    let service: Arc<dyn AnswererFactory> = Arc::new(stemma_archive::AnswerService::new(
        Env::system(),
        store,
        stemma_archive::AnswerSettings::default(),
    ));
    let server = start_with(ServerDeps {
        answerers: Some(service),
        ..ServerDeps::default()
    })
    .await;
    let (text, id) = rendered_texts(&server, "How does hedging reduce currency risk?").await;
    let stored = server.get(&format!("/v1/answers/{id}")).await.json();
    assert_eq!(
        (&stored["outcome"], &stored["text"]),
        (&json!("search_only"), &json!(""))
    );
    let why = format!(
        "No model answered this question: {}",
        stored["degraded"]["message"].as_str().unwrap()
    );
    assert!(text.starts_with(&why), "{text}");
    assert!(
        text.contains("\n1. Item 1A. Risk Factors, ACME_2022.pdf, p "),
        "{text}"
    );
    assert_eq!(
        text.lines().count(),
        2 + stored["sections"].as_array().unwrap().len()
    );
    let (text, _) = rendered_texts(&server, "zzyzx").await;
    assert!(text.ends_with(" Search found nothing, either."), "{text}");
}

/// Id, name and data of an event.
type Frame = (String, String, Value);

fn frames(body: &str) -> Vec<Frame> {
    // Chunked transfer encoding writes chunk sizes on their own lines.
    let lines = body.lines().filter(|line| line.contains(':'));
    let mut frames: Vec<Frame> = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        let value = value.trim_start();
        match name {
            "id" => frames.push((value.into(), String::new(), Value::Null)),
            "event" => frames.last_mut().unwrap().1 = value.into(),
            "data" => frames.last_mut().unwrap().2 = serde_json::from_str(value).unwrap(),
            _ => {}
        }
    }
    frames
}

async fn resume_stream(server: &TestServer, id: &str, last: &str) -> Vec<Frame> {
    let reply = server
        .request(&format!("GET /v1/answers/{id} HTTP/1.1\r\nAccept: text/event-stream\r\nLast-Event-ID: {last}\r\n"))
        .await;
    frames(&reply.body)
}

#[tokio::test]
async fn streams_match_stored_answers_and_resume() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let server = start_answering(answer_model(&provider)).await;
    let body =
        json!({ "question": "How much was R&D spending?", "scopes": ["ACME_2022"] }).to_string();
    let streamed = server
        .stream("/v1/answers", &body, "text/event-stream")
        .await;
    assert!(
        streamed.head.contains("text/event-stream"),
        "{}",
        streamed.head
    );
    let streamed = frames(&streamed.body);
    let names: Vec<&str> = streamed.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "route", "step", "step", "section", "step", "step", "citation", "delta", "usage",
            "done"
        ]
        .map(String::from)
    );
    let done = &streamed.last().unwrap().2;
    let id = done["id"].as_str().unwrap();
    assert!(
        streamed
            .iter()
            .enumerate()
            .all(|(at, (frame, ..))| frame.starts_with(&format!("{id}.{}.", at + 1))),
        "{streamed:?}"
    );
    let stored = server.get(&format!("/v1/answers/{id}")).await;
    let stored = stored.json();
    for name in [
        "id",
        "text",
        "claims",
        "citations",
        "sections",
        "steps",
        "searched",
        "confidence",
        "outcome",
    ] {
        assert_eq!(stored[name], done[name], "{name}");
    }
    let citation = streamed
        .iter()
        .find(|(_, name, _)| name == "citation")
        .unwrap();
    assert_eq!(citation.2, stored["citations"][0]);
    let text: String = streamed
        .iter()
        .filter(|(_, name, _)| name == "delta")
        .filter_map(|(.., data)| data["text"].as_str())
        .collect();
    assert_eq!(text, stored["text"].as_str().unwrap());
    // Resumed after the fourth event: the rest is equal except for usage.
    let rest = resume_stream(&server, id, &streamed[3].0).await;
    let but_usage = |frames: &[Frame]| {
        frames
            .iter()
            .filter(|(_, name, _)| name != "usage" && name != "done")
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(but_usage(&rest), but_usage(&streamed[4..]));
    // Asked again without streaming: the same answer, without a model call.
    let whole = server.post("/v1/answers", &body).await.json();
    assert_eq!(
        (&whole["id"], &whole["citations"], &whole["replayed"]),
        (&stored["id"], &stored["citations"], &json!(true))
    );
    assert_eq!(provider.report().calls, 1);
}

#[tokio::test]
async fn event_sources_follow_answers_in_progress() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    provider.limit_replies(0);
    let server = start_answering(answer_model(&provider)).await;
    let body =
        json!({ "question": "How much was R&D spending?", "scopes": ["ACME_2022"] }).to_string();
    let mut connection = server
        .send(
            "/v1/answers",
            "Accept: text/event-stream\r\n",
            body.as_bytes(),
        )
        .await;
    let begin = TestServer::read_to_event(&mut connection).await;
    let (_, event) = begin.split_once("id: ").unwrap();
    let (id, _) = event.split_once('.').unwrap();
    let get = |head: &str| format!("GET /v1/answers/{id} HTTP/1.1\r\n{head}");
    for accept in [
        "",
        "Accept: application/json\r\n",
        "Accept: text/event-stream;q=0, application/json\r\n",
    ] {
        let reply = server.request(&get(accept)).await;
        assert_eq!(
            (reply.status, reply.header("retry-after")),
            (202, Some("2")),
            "{accept}"
        );
    }
    // As a browser's `EventSource` sends it.
    let mut following = TcpStream::connect(server.serving.address).await.unwrap();
    let follow = get("Host: localhost\r\nConnection: close\r\nAccept: text/event-stream\r\n\r\n");
    following.write_all(follow.as_bytes()).await.unwrap();
    let follow_begin = TestServer::read_to_event(&mut following).await;
    provider.limit_replies(usize::MAX);
    let follow_reply = TestServer::read_rest(&mut following, follow_begin).await;
    assert_eq!(
        (follow_reply.status, follow_reply.header("content-type")),
        (200, Some("text/event-stream"))
    );
    let followed_frames = frames(&follow_reply.body);
    assert_eq!(
        (
            followed_frames[0].1.as_str(),
            followed_frames[followed_frames.len() - 1].1.as_str()
        ),
        ("route", "done")
    );
    assert_eq!(followed_frames[followed_frames.len() - 1].2["id"], id);
    let rest = TestServer::read_rest(&mut connection, begin.clone()).await;
    assert_eq!(
        frames(&rest.body),
        followed_frames,
        "the asking client receives the same events"
    );
    // It reconnects after the end: 204 stops it.
    assert_eq!(
        server
            .request(&get(&format!(
                "Accept: text/event-stream\r\nLast-Event-ID: {}\r\n",
                followed_frames[followed_frames.len() - 1].0
            )))
            .await
            .status,
        204
    );
    for strange in [
        "a-ffffffffffffffff.5.01234567",
        "99999",
        &format!("{id}.99999.01234567"),
        &format!("{id}.5"),
        "x",
    ] {
        let again = resume_stream(&server, id, strange).await;
        let ids = |frames: &[Frame]| {
            frames
                .iter()
                .map(|frame| frame.0.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&again), ids(&followed_frames), "{strange}: all of it");
    }
    assert_eq!(provider.report().calls, 1);
}

#[tokio::test]
async fn degraded_streams_are_not_resumed_with_good_ones() {
    let faults = ReplyFaults {
        always: 1.0,
        kinds: vec![ReplyFault::Empty],
        ..ReplyFaults::default()
    };
    let provider = Provider::start(Behavior {
        faults,
        ..Behavior::default()
    })
    .await
    .unwrap();
    let server = start_answering(answer_model(&provider)).await;
    let body =
        json!({ "question": "How much was R&D spending?", "scopes": ["ACME_2022"] }).to_string();
    let degraded = frames(
        &server
            .stream("/v1/answers", &body, "text/event-stream")
            .await
            .body,
    );
    assert_eq!(
        degraded[degraded.len() - 1].2["outcome"],
        "search_only",
        "{degraded:?}"
    );
    provider.set_behavior(Behavior::default());
    let good = frames(
        &server
            .stream("/v1/answers", &body, "text/event-stream")
            .await
            .body,
    );
    assert_eq!(good[good.len() - 1].2["outcome"], "answered", "{good:?}");
    let id = good[good.len() - 1].2["id"].as_str().unwrap();
    let same = degraded
        .iter()
        .zip(&good)
        .take_while(|(left, right)| left.0 == right.0)
        .count();
    for (at, (last, ..)) in degraded.iter().enumerate() {
        let rest = resume_stream(&server, id, last).await;
        let begins = if at < same { at + 1 } else { 0 };
        assert_eq!(
            (&rest[0].0, rest.len()),
            (&good[begins].0, good.len() - begins),
            "after {last}"
        );
        assert!(
            at >= same || degraded[at].2 == good[at].2,
            "one id for two contents: {last}"
        );
    }
    assert!(same < degraded.len() - 1);
}

#[tokio::test]
async fn invalid_questions_are_refused_before_answering() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let server = start_answering(answer_model(&provider)).await;
    for (body, status) in [
        (json!({ "question": "" }), 422),
        (json!({ "question": "anvils", "strategy": "guess" }), 422),
        (json!({ "question": "anvils", "mode": "free" }), 422),
        (json!({ "question": "anvils", "scopes": ["NOBODY"] }), 404),
        (json!({ "question": "anvils", "scope": "x" }), 422),
    ] {
        assert_eq!(
            server.post("/v1/answers", &body.to_string()).await.status,
            status,
            "{body}"
        );
    }
    let mode = server
        .post("/v1/answers", r#"{"question": "anvils", "mode": "free"}"#)
        .await
        .json();
    assert_eq!(
        (&mode["detail"], &mode["errors"][0]["pointer"]),
        (
            &json!("`mode` is one of auto, search, agent"),
            &json!("/mode")
        )
    );
    assert_eq!(
        server.get("/v1/answers/a-0123456789abcdef").await.code(),
        "answer.unknown"
    );
    assert_eq!(
        server.get("/v1/answers/..%2F..").await.code(),
        "answer.unknown"
    );
    assert_eq!(
        start()
            .await
            .post("/v1/answers", r#"{"question": "anvils"}"#)
            .await
            .status,
        501
    );
    drop(provider);
    let answer = server
        .post(
            "/v1/answers",
            r#"{"question": "Who makes anvils?", "limits": {"calls": 0}}"#,
        )
        .await
        .json();
    assert_eq!(
        (
            answer["outcome"].as_str(),
            answer["degraded"]["code"].as_str()
        ),
        (Some("search_only"), Some("answer.limit_reached"))
    );
    assert_eq!(
        server
            .get(&format!("/v1/answers/{}", answer["id"].as_str().unwrap()))
            .await
            .json()["id"],
        answer["id"]
    );
}
