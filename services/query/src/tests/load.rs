//! Clients that disconnect, read slowly, or are too many.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use stemma_engine_testing::wait::wait_until;
use stemma_sim::{Behavior, Provider};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::pageindex::RecordingUploads;
use super::test_server::{TestServer, bearer, start_configured, start_with_model_and};
use crate::{QuerySettings, ServerDeps};
use stemma_gateway::auth::{KeyScope, KeySettings, key_digest};
use stemma_sample_store::model::answer_model;

/// Requests a stream and reads the status line of the response.
async fn open_stream(server: &TestServer, path: &str, body: &Value) -> TcpStream {
    let mut stream = server
        .send(
            path,
            "Accept: text/event-stream\r\n",
            body.to_string().as_bytes(),
        )
        .await;
    let mut head = [0; 15];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    stream
}

/// The stored answer to a question, found by asking again.
async fn stored_answer(server: &TestServer, body: &Value) -> Value {
    let whole = server.post("/v1/answers", &body.to_string()).await.json();
    assert_eq!(
        server
            .get(&format!("/v1/answers/{}", whole["id"].as_str().unwrap()))
            .await
            .json()["text"],
        whole["text"]
    );
    whole
}

fn question(number: usize) -> Value {
    json!({ "question": format!("How much was R&D spending in our {number}th year?"), "scopes": ["ACME_2022"] })
}

/// Waits until the provider has answered so many calls, and an answer to the question is found by asking again.
async fn wait_for_answer(
    provider: &Provider,
    calls: usize,
    server: &TestServer,
    body: &Value,
) -> Value {
    wait_until("the calls are answered", async || {
        provider.report().calls >= calls
    })
    .await;
    let mut answer = Value::Null;
    wait_until("the answer is stored", async || {
        answer = stored_answer(server, body).await;
        answer["replayed"] == true
    })
    .await;
    answer
}

/// ADR 0020: generation continues after a disconnect, and the answer is stored.
#[tokio::test]
async fn answers_of_disconnected_clients_finish_and_are_paid_once() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let server = start_with_model_and(answer_model(&provider), QuerySettings::default()).await;
    let messages =
        |number: usize| json!([{ "role": "user", "content": question(number)["question"] }]);
    let events = "Accept: text/event-stream\r\n";
    for (number, path, head, body) in [
        (1, "/v1/answers", events, question(1)),
        (
            2,
            "/v1/chat/completions",
            events,
            json!({ "model": "ACME_2022", "messages": messages(2), "stream": true }),
        ),
        (
            3,
            "/chat/completions/",
            events,
            json!({ "doc_id": "ACME_2022", "messages": messages(3), "stream": true }),
        ),
        (4, "/v1/answers", "", question(4)),
    ] {
        provider.limit_replies(number - 1);
        let asker = server.send(path, head, body.to_string().as_bytes()).await;
        wait_until("the model is asked", async || {
            provider.request_count() >= number
        })
        .await;
        drop(asker);
        provider.limit_replies(number);
        let answer = wait_for_answer(&provider, number, &server, &question(number)).await;
        assert_eq!(
            (&answer["replayed"], &answer["outcome"]),
            (&json!(true), &json!("answered")),
            "{path}"
        );
        assert_eq!(provider.report().calls, number, "{path}");
    }
}

/// A search with a model stores no result: a disconnect cancels it.
#[tokio::test]
async fn model_searches_stop_on_disconnect() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    provider.limit_replies(0);
    let query = QuerySettings {
        answers: 1,
        ..QuerySettings::default()
    };
    let server = start_with_model_and(answer_model(&provider), query).await;
    let search = json!({ "query": "How much was R&D spending?", "strategy": "beam" }).to_string();
    let asker = server.send("/v1/search", "", search.as_bytes()).await;
    wait_until("the model is asked", async || provider.request_count() > 0).await;
    drop(asker);
    // It would never have had a reply.
    wait_until("the search gives up its call", async || {
        provider.in_flight() == 0
    })
    .await;
    provider.limit_replies(usize::MAX);
    assert_eq!(
        provider.request_count(),
        1,
        "no further calls after the disconnect"
    );
    let whole = server.post("/v1/search", &search).await;
    assert_eq!(whole.status, 200, "the permit is released: {}", whole.body);
    assert!(
        provider.request_count() > 2,
        "a complete search makes more calls"
    );
}

#[tokio::test]
async fn slow_readers_do_not_block_others() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let query = QuerySettings {
        answers: 1,
        concurrency: 1,
        ..QuerySettings::default()
    };
    let server = start_with_model_and(answer_model(&provider), query).await;
    let mut open = Vec::new();
    for number in 0..20 {
        open.push(open_stream(&server, "/v1/answers", &question(number)).await);
    }
    // Slow readers hold no permit: these would be refused.
    assert_eq!(
        server
            .post("/v1/answers", &question(99).to_string())
            .await
            .status,
        200
    );
    assert_eq!(server.get("/v1/documents").await.status, 200);
    for mut stream in open {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert!(
            rest.contains("event: done"),
            "the complete stream arrives: {rest}"
        );
    }
}

/// D24 of the engine review: a read key could hold every permit with bodies that never arrive.
#[tokio::test]
async fn slow_bodies_do_not_block_others() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let query = QuerySettings {
        concurrency: 1,
        ..QuerySettings::default()
    };
    let server = start_with_model_and(answer_model(&provider), query).await;
    let mut open = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.serving.address).await.unwrap();
        let head = "POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{";
        stream.write_all(head.as_bytes()).await.unwrap();
        open.push(stream);
    }
    // Connections are accepted in order, so these requests have been received.
    assert_eq!(
        server
            .post("/v1/search", r#"{"query": "anvils"}"#)
            .await
            .status,
        200
    );
    let mut reply = [0; 12];
    open[0].read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"HTTP/1.1 408", "a body that does not arrive");
}

/// The bodies of uploads arrive while their requests hold permits.
#[tokio::test]
async fn slow_uploads_with_one_key_leave_permits_to_others() {
    let key = |key: &str, scopes: &[KeyScope]| KeySettings {
        name: key.into(),
        blake3: key_digest(key),
        scopes: scopes.to_vec(),
        ..KeySettings::default()
    };
    let query = QuerySettings {
        keys: vec![
            key("writes", &[KeyScope::Read, KeyScope::Write]),
            key("reads", &[KeyScope::Read]),
        ],
        concurrency: 4,
        ..QuerySettings::default()
    };
    let uploads = RecordingUploads {
        blobs: stemma_sample_store::store().await,
        received: Mutex::default(),
    };
    let deps = ServerDeps {
        uploads: Some(Arc::new(uploads)),
        ..ServerDeps::default()
    };
    let server = start_configured(query, deps).await;
    server.ready(&bearer("reads")).await;
    let mut open = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(server.serving.address).await.unwrap();
        let head = format!(
            "POST /doc/ HTTP/1.1\r\nHost: localhost\r\n{}Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000\r\n\r\n--b\r\n",
            bearer("writes")
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        open.push(stream);
    }
    // Connections are accepted in order, so these requests have been received.
    let list = format!("GET /v1/documents HTTP/1.1\r\n{}", bearer("reads"));
    assert_eq!(server.request(&list).await.status, 200);
}

#[tokio::test]
async fn excess_questions_get_retry_after() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    // One question is being answered until all in excess were refused.
    provider.limit_replies(0);
    let query = QuerySettings {
        answers: 1,
        ..QuerySettings::default()
    };
    let server = start_with_model_and(answer_model(&provider), query).await;
    let refused = Cell::new(0);
    let asks = (0..40).map(|number| {
        let (path, body) = match number % 2 {
            0 => ("/v1/answers", question(number)),
            _ => ("/v1/chat/completions", json!({ "model": "ACME_2022", "messages": [{ "role": "user", "content": question(number)["question"] }], "stream": true })),
        };
        let (server, refused) = (&server, &refused);
        async move {
            let reply = server.post(path, &body.to_string()).await;
            refused.set(refused.get() + usize::from(reply.status == 503));
            (path, reply)
        }
    });
    let (replies, reading) = tokio::join!(futures::future::join_all(asks), async {
        wait_until("requests are refused", async || refused.get() >= 40 - 17).await;
        let search = r#"{"query": "anvils"}"#;
        let status = server.post("/v1/search", search).await.status;
        provider.limit_replies(usize::MAX);
        status
    });
    assert_eq!(reading, 200, "reads do not wait for model requests");
    let (answered, shed): (Vec<_>, Vec<_>) =
        replies.iter().partition(|(_, reply)| reply.status == 200);
    assert!(
        !answered.is_empty() && shed.len() >= 40 - 17,
        "{} answered",
        answered.len()
    );
    for (path, reply) in shed {
        assert_eq!(
            (
                reply.status,
                reply.header("retry-after"),
                reply.code_on(path).as_str()
            ),
            (503, Some("2"), "server.busy")
        );
    }
    assert!(
        provider.report().calls <= answered.len(),
        "refused requests make no calls"
    );
}
