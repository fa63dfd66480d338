//! The client against a server on this machine that behaves badly in every way.
#![expect(clippy::unwrap_used, reason = "tests and what they stand on")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stemma_engine::secret::Secret;
use stemma_llm::openai::{Endpoint, MAX_REPLY_BYTES, OpenAi};
use stemma_llm::request::{Llm, LlmError, Reply, Request, Schema, Usage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// What the server writes back; `None`: nothing, and it keeps the connection.
type Response = Option<Vec<u8>>;

/// Serves `response` once to one call; gives the request's head and body, and what the client made of it.
async fn call(response: Response) -> (String, Result<Reply, LlmError>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(&format!("http://{}/v1", listener.local_addr().unwrap()));
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        while !whole(&heard) {
            let read = stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "cut off: {}", String::from_utf8_lossy(&heard));
            heard.extend_from_slice(&buffer[..read]);
        }
        match response {
            // A client that has read enough hangs up: that is its right.
            Some(bytes) => drop(stream.write_all(&bytes).await),
            None => tokio::time::sleep(Duration::from_secs(5)).await,
        }
        String::from_utf8(heard).unwrap()
    });
    let result = client.complete(&request()).await;
    if let Err(LlmError::TimedOut(_)) = result {
        serving.abort();
        return (String::new(), result);
    }
    (serving.await.unwrap(), result)
}

fn client(base_url: &str) -> OpenAi {
    OpenAi::new(Endpoint {
        base_url: base_url.into(),
        api_key: Secret::from("top secret"),
        timeout: Duration::from_millis(700),
        process: "worker-7".into(),
    })
    .unwrap()
}

fn request() -> Request {
    let schema = Schema::strict("detect", &json!({ "yes": { "type": "boolean" } }));
    Request { model: "m".into(), system: "static".into(), user: "page".into(), schema, max_output_tokens: 64 }
}

fn whole(heard: &[u8]) -> bool {
    let text = String::from_utf8_lossy(heard);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    length.is_some_and(|length: usize| body.len() >= length)
}

fn http(status: &str, headers: &str, body: &[u8]) -> Response {
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    Some([head.as_bytes(), body].concat())
}

fn completion(text: &str, reason: &str) -> Response {
    let usage =
        json!({ "prompt_tokens": 30, "completion_tokens": 4, "prompt_tokens_details": { "cached_tokens": 20 } });
    let body = json!({
        "choices": [{ "message": { "role": "assistant", "content": text }, "finish_reason": reason }], "usage": usage,
    });
    http("200 OK", "content-type: application/json\r\n", body.to_string().as_bytes())
}

async fn error(response: Response) -> LlmError {
    call(response).await.1.unwrap_err()
}

#[tokio::test]
async fn a_question_and_its_answer() {
    let (heard, reply) = call(completion("{\"yes\":true}", "stop")).await;
    let usage = Usage { prompt_tokens: 30, cached_tokens: 20, output_tokens: 4 };
    assert_eq!(reply, Ok(Reply { text: "{\"yes\":true}".into(), usage }));
    let (head, body) = heard.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    assert!(head.starts_with("post /v1/chat/completions http/1.1"), "{head}");
    assert!(head.contains("authorization: bearer top secret") && head.contains("x-stemma-process: worker-7"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&body["model"], &body["temperature"], &body["max_tokens"]), (&json!("m"), &json!(0), &json!(64)));
    let format = &body["response_format"]["json_schema"];
    assert_eq!((&format["name"], &format["strict"]), (&json!("detect"), &json!(true)));
    assert_eq!(format["schema"]["required"], json!(["yes"]));
    assert_eq!(body["messages"][1], json!({ "role": "user", "content": "page" }));
}

#[tokio::test]
async fn a_server_that_does_not_count_is_counted_for() {
    let body = json!({ "choices": [{ "message": { "content": "{\"yes\":true}" } }] }).to_string();
    let (_, reply) = call(http("200 OK", "", body.as_bytes())).await;
    let usage = reply.unwrap().usage;
    assert!(usage.prompt_tokens > 10 && usage.output_tokens > 2, "{usage:?}");
}

#[tokio::test]
async fn statuses_say_what_to_do() {
    let said = |code: &str| json!({ "error": { "code": code, "message": "no" } }).to_string();
    for (status, headers, body, expected) in [
        ("429 Slow", "retry-after: 7\r\n", said("rate"), "model.throttled"),
        ("429 Slow", "", said("insufficient_quota"), "model.configuration"),
        ("529 Overloaded", "", said(""), "model.throttled"),
        ("500 Oops", "", "<html>".into(), "model.server_error"),
        ("503 Away", "", said(""), "model.server_error"),
        ("503 Away", "retry-after: 3\r\n", said(""), "model.throttled"),
        ("401 No", "", said("invalid_api_key"), "model.configuration"),
        ("403 No", "", said(""), "model.configuration"),
        ("404 No", "", said("model_not_found"), "model.configuration"),
        ("307 There", "location: http://127.0.0.1:1/\r\n", String::new(), "model.configuration"),
        ("400 Bad", "", said("context_length_exceeded"), "model.refused"),
        ("413 Large", "", said(""), "model.refused"),
    ] {
        let error = error(http(status, headers, body.as_bytes())).await;
        assert_eq!(error.code(), expected, "{status} {body}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let after = |headers: &'static str| async move {
        match error(http("429 Slow", headers, b"")).await {
            LlmError::Throttled { after } => after.map(|after| after.as_millis()),
            other => panic!("{other}"),
        }
    };
    assert_eq!(after("retry-after: 7\r\n").await, Some(7_000));
    assert_eq!(after("retry-after: 7\r\nretry-after-ms: 250\r\n").await, Some(250));
    assert_eq!(after("retry-after: 1e30\r\n").await, None);
    assert_eq!(after("retry-after: Wed, 21 Oct 2026 07:28:00 GMT\r\n").await, None);
}

#[tokio::test]
async fn replies_that_are_no_answers_are_unreadable_and_what_they_cost_is_known() {
    for (response, cost) in [
        (completion("{\"yes\":tr", "length"), 34),
        (completion("  ", "stop"), 34),
        (http("200 OK", "", b"no JSON"), 0),
        (http("200 OK", "", b"{\"choices\":[]}"), 0),
    ] {
        match error(response).await {
            LlmError::Unreadable { usage, .. } => assert_eq!(usage.total(), cost),
            other => panic!("{other}"),
        }
    }
    assert_eq!(error(completion("x", "content_filter")).await.code(), "model.refused");
}

#[tokio::test]
async fn an_oversized_reply_is_not_read_to_its_end() {
    let error = error(http("200 OK", "", &vec![b' '; MAX_REPLY_BYTES + 1])).await;
    assert!(matches!(&error, LlmError::Unreadable { message, .. } if message.contains("larger")), "{error}");
}

#[tokio::test]
async fn a_provider_that_hangs_costs_no_more_than_the_timeout() {
    let began = Instant::now();
    assert_eq!(error(None).await, LlmError::TimedOut(Duration::from_millis(700)));
    assert!(began.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn broken_connections_are_outages() {
    // Cut in the middle of the body, closed without a word, and no one there.
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"choices\"".to_vec();
    for response in [Some(half), Some(Vec::new())] {
        let error = error(response).await;
        assert!(matches!(error, LlmError::Unreachable(_)), "{error:?}");
    }
    let nowhere = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = client(&format!("http://{nowhere}/v1")).complete(&request()).await.unwrap_err();
    assert!(error.is_outage(), "{error:?}");
}
