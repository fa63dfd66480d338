//! The OpenAI client against a misbehaving local server.
#![expect(clippy::unwrap_used, reason = "test code")]

mod forms;

use std::time::Duration;

use serde_json::{Value, json};
use stemma_llm::http::{Endpoint, MAX_REPLY_BYTES};
use stemma_llm::image::PageImage;
use stemma_llm::openai::OpenAi;
use stemma_llm::request::{
    FinishReason, FollowUp, Llm, LlmError, LlmReply, LlmRequest, OutputSchema, TokenUsage,
};
use stemma_store::limit::ReportedLimits;
use stemma_store::secret::Secret;
use stemma_store::{Env, FailureKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const IMPATIENCE: Duration = Duration::from_millis(700);

// The response bytes; `None` keeps the connection open without a response.
type Response = Option<Vec<u8>>;

// Serves one call. Returns the request's head and body, and the client's result.
async fn serve_one_call(response: Response) -> (String, Result<LlmReply, LlmError>) {
    serve_one_call_with(response, |_| ()).await
}

async fn serve_one_call_with(
    response: Response,
    change: fn(&mut LlmRequest),
) -> (String, Result<LlmReply, LlmError>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let client = match response {
        Some(_) => client(&url),
        None => client_with(&url, IMPATIENCE),
    };
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let received = read_request(&mut stream).await;
        match response {
            // Writing fails if the client closes the connection early, which is fine.
            Some(bytes) => drop(stream.write_all(&bytes).await),
            None => std::future::pending().await,
        }
        received
    });
    let mut request = request();
    change(&mut request);
    let result = client.complete(&request).await;
    if let Err(LlmError::TimedOut(_)) = result {
        serving.abort();
        return (String::new(), result);
    }
    (serving.await.unwrap(), result)
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    while !is_complete(&received) {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "cut off: {}", String::from_utf8_lossy(&received));
        received.extend_from_slice(&buffer[..read]);
    }
    String::from_utf8(received).unwrap()
}

fn client(base_url: &str) -> OpenAi {
    client_with(base_url, Duration::from_secs(60))
}

fn client_with(base_url: &str, timeout: Duration) -> OpenAi {
    OpenAi::new(Endpoint {
        base_url: base_url.into(),
        api_key: Secret::from("top secret"),
        key_header: String::new(),
        headers: vec![Secret::from("X-Team: filings")],
        timeout,
        process: "worker-7".into(),
        env: Env::system(),
    })
    .unwrap()
}

fn request() -> LlmRequest {
    let schema = OutputSchema::strict("detect", &json!({ "yes": { "type": "boolean" } }));
    LlmRequest {
        model: "m".into(),
        system: "static".into(),
        user: "page".into(),
        images: Vec::new(),
        schema,
        max_output_tokens: 64,
        follow_up: None,
        urgency: 0,
    }
}

fn is_complete(received: &[u8]) -> bool {
    let text = String::from_utf8_lossy(received);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        line.to_lowercase()
            .strip_prefix("content-length:")?
            .trim()
            .parse()
            .ok()
    });
    length.is_some_and(|length: usize| body.len() >= length)
}

fn http(status: &str, headers: &str, body: &[u8]) -> Response {
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    Some([head.as_bytes(), body].concat())
}

fn completion(text: &str, reason: &str) -> Response {
    let usage = json!({ "prompt_tokens": 30, "completion_tokens": 4, "prompt_tokens_details": { "cached_tokens": 20 } });
    let body = json!({
        "choices": [{ "message": { "role": "assistant", "content": text }, "finish_reason": reason }], "usage": usage,
    });
    http(
        "200 OK",
        "content-type: application/json\r\n",
        body.to_string().as_bytes(),
    )
}

async fn error(response: Response) -> LlmError {
    serve_one_call(response).await.1.unwrap_err()
}

#[tokio::test]
async fn request_and_reply_have_the_expected_shape() {
    let (received, reply) = serve_one_call(completion("{\"yes\":true}", "stop")).await;
    let usage = TokenUsage {
        prompt_tokens: 30,
        cached_tokens: 20,
        output_tokens: 4,
    };
    assert_eq!(reply, Ok(LlmReply::new("{\"yes\":true}", usage)));
    let (head, body) = received.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    assert!(
        head.starts_with("post /v1/chat/completions http/1.1"),
        "{head}"
    );
    assert!(
        head.contains("authorization: bearer top secret")
            && head.contains("x-stemma-process: worker-7"),
        "{head}"
    );
    assert!(head.contains("x-team: filings"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["model"], "m");
    assert_eq!(body["temperature"], 0);
    assert_eq!(body["max_tokens"], 64);
    let format = &body["response_format"]["json_schema"];
    assert_eq!(format["name"], "detect");
    assert_eq!(format["strict"], true);
    assert_eq!(format["schema"]["required"], json!(["yes"]));
    assert_eq!(
        body["messages"][1],
        json!({ "role": "user", "content": "page" })
    );
}

// A PNG of 3 × 4 pixels, as far as its header says.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x03\0\0\0\x04";
const PNG_BASE64: &str = "iVBORw0KGgoAAAANSUhEUgAAAAMAAAAE";

fn add_image(request: &mut LlmRequest) {
    request.images = vec![PageImage::from_png(PNG.into()).unwrap()];
}

#[tokio::test]
async fn images_are_parts_before_the_text() {
    let (received, _) = serve_one_call_with(completion("{}", "stop"), add_image).await;
    let (_, body) = received.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let url = json!({ "url": format!("data:image/png;base64,{PNG_BASE64}"), "detail": "high" });
    let content =
        json!([{ "type": "image_url", "image_url": url }, { "type": "text", "text": "page" }]);
    assert_eq!(
        body["messages"][1],
        json!({ "role": "user", "content": content })
    );
}

#[tokio::test]
async fn models_without_images_fail_for_good_and_name_the_setting() {
    let body = json!({ "error": { "message": "image_url is only supported by certain models" } });
    for status in ["400 Bad", "404 No", "500 Oops"] {
        let response = http(status, "", body.to_string().as_bytes());
        let (_, reply) = serve_one_call_with(response, add_image).await;
        let failure = reply.unwrap_err().failure();
        assert_eq!(failure.code, "model.no_images");
        assert_eq!(failure.kind, FailureKind::Permanent);
        assert!(failure.next.unwrap().contains("vision.model"));
    }
}

#[tokio::test]
async fn missing_usage_is_estimated() {
    let body = json!({ "choices": [{ "message": { "content": "{\"yes\":true}" } }] }).to_string();
    let (_, reply) = serve_one_call(http("200 OK", "", body.as_bytes())).await;
    let usage = reply.unwrap().usage;
    assert!(
        usage.prompt_tokens > 10 && usage.output_tokens > 2,
        "{usage:?}"
    );
}

#[tokio::test]
async fn error_statuses_map_to_codes() {
    let error_body = |code: &str| json!({ "error": { "code": code, "message": "no" } }).to_string();
    for (status, headers, body, expected) in [
        (
            "429 Slow",
            "retry-after: 7\r\n",
            error_body("rate"),
            "model.throttled",
        ),
        (
            "429 Slow",
            "",
            error_body("insufficient_quota"),
            "model.configuration",
        ),
        ("529 Overloaded", "", error_body(""), "model.throttled"),
        ("500 Oops", "", "<html>".into(), "model.server_error"),
        ("503 Away", "", error_body(""), "model.server_error"),
        (
            "503 Away",
            "retry-after: 3\r\n",
            error_body(""),
            "model.throttled",
        ),
        (
            "401 No",
            "",
            error_body("invalid_api_key"),
            "model.configuration",
        ),
        ("403 No", "", error_body(""), "model.configuration"),
        (
            "404 No",
            "",
            error_body("model_not_found"),
            "model.configuration",
        ),
        (
            "307 There",
            "location: http://127.0.0.1:1/\r\n",
            String::new(),
            "model.configuration",
        ),
        (
            "400 Bad",
            "",
            error_body("context_length_exceeded"),
            "model.context_exceeded",
        ),
        (
            "500 Oops",
            "",
            r#"{"error":"the input length exceeds the context length"}"#.into(),
            "model.context_exceeded",
        ),
        ("413 Large", "", error_body(""), "model.refused"),
        (
            "400 Bad",
            "",
            error_body("model_not_found"),
            "model.configuration",
        ),
        (
            "400 Bad",
            "",
            r#"{"error":"context is too long"}"#.into(),
            "model.refused",
        ),
        ("409 Busy", "", error_body(""), "model.server_error"),
    ] {
        let error = error(http(status, headers, body.as_bytes())).await;
        assert_eq!(error.code(), expected, "{status} {body}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let after = |headers: &'static str| async move {
        match error(http("429 Slow", headers, b"")).await {
            LlmError::Throttled { retry_after, .. } => retry_after.map(|after| after.as_millis()),
            other => panic!("{other}"),
        }
    };
    assert_eq!(after("retry-after: 7\r\n").await, Some(7_000));
    assert_eq!(
        after("retry-after: 7\r\nretry-after-ms: 250\r\n").await,
        Some(250)
    );
    assert_eq!(after("retry-after: 1e30\r\n").await, None);
    let date =
        "date: Wed, 21 Oct 2026 07:27:50 GMT\r\nretry-after: Wed, 21 Oct 2026 07:28:00 GMT\r\n";
    assert_eq!(after(date).await, Some(10_000));
}

#[tokio::test]
async fn unusable_replies_are_unreadable_with_their_usage() {
    for (response, cost) in [
        (completion("  ", "stop"), 34),
        (http("200 OK", "", b"no JSON"), 0),
        (
            http(
                "200 OK",
                "",
                b"{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":0}}",
            ),
            9,
        ),
    ] {
        match error(response).await {
            LlmError::Unreadable { usage, .. } => assert_eq!(usage.total(), cost),
            other => panic!("{other}"),
        }
    }
    assert_eq!(
        error(completion("x", "content_filter")).await.code(),
        "model.refused"
    );
}

#[tokio::test]
async fn oversized_replies_are_rejected() {
    let error = error(http("200 OK", "", &vec![b' '; MAX_REPLY_BYTES + 1])).await;
    assert!(
        matches!(&error, LlmError::Unreadable { message, .. } if message.contains("larger")),
        "{error}"
    );
}

#[tokio::test]
async fn hanging_provider_times_out() {
    assert_eq!(error(None).await, LlmError::TimedOut(IMPATIENCE));
}

#[tokio::test]
async fn broken_connections_are_outages() {
    // Cut off within the body, closed without a response, and refused.
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"choices\"".to_vec();
    for response in [Some(half), Some(Vec::new())] {
        let error = error(response).await;
        assert!(matches!(error, LlmError::Unreachable(_)), "{error:?}");
    }
    let error = client("http://127.0.0.1:9/v1")
        .complete(&request())
        .await
        .unwrap_err();
    assert!(error.is_outage(), "{error:?}");
}

#[tokio::test]
async fn truncated_reply_is_continued_as_text() {
    let (_, reply) = serve_one_call(completion("{\"yes\":tr", "length")).await;
    assert_eq!(reply.unwrap().finish, FinishReason::Length);
    let (received, _) = serve_one_call_with(completion("ue}", "stop"), |request| {
        request.follow_up = Some(FollowUp::Continue {
            partial: "{\"yes\":tr".into(),
        });
    })
    .await;
    let body: Value = serde_json::from_str(received.split_once("\r\n\r\n").unwrap().1).unwrap();
    let roles: Vec<_> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| turn["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!(body["messages"][2]["content"], "{\"yes\":tr");
    assert!(
        body.get("response_format").is_none()
            && body["messages"][0]["content"]
                .as_str()
                .unwrap()
                .contains("\"yes\"")
    );
}

#[tokio::test]
async fn replies_of_other_servers_are_read() {
    let choice = |message: Value| json!({ "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] });
    for (name, body) in [
        (
            "vLLM",
            choice(
                json!({ "content": "{}", "reasoning_content": "let me think", "tool_calls": [] }),
            ),
        ),
        (
            "parts",
            choice(
                json!({ "content": [{ "type": "text", "text": "{" }, { "type": "text", "text": "}" }] }),
            ),
        ),
        ("Azure", {
            let mut body = choice(json!({ "content": "{}", "refusal": null }));
            body["prompt_filter_results"] = json!([]);
            body["usage"] =
                json!({ "prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4 });
            body
        }),
        (
            "Ollama",
            json!({ "model": "m", "choices": [{ "message": { "role": "assistant", "content": "{}" } }], "usage": null }),
        ),
    ] {
        let (_, reply) = serve_one_call(http("200 OK", "", body.to_string().as_bytes())).await;
        assert_eq!(reply.unwrap().text, "{}", "{name}");
    }
    let refusal = choice(json!({ "content": null, "refusal": "I cannot" }));
    assert_eq!(
        error(http("200 OK", "", refusal.to_string().as_bytes()))
            .await
            .code(),
        "model.refused"
    );
}

#[tokio::test]
async fn rate_limit_headers_come_with_the_reply() {
    let body = json!({ "choices": [{ "message": { "content": "{}" } }] }).to_string();
    let headers = "x-ratelimit-limit-requests: 60\r\nx-ratelimit-remaining-tokens: 0\r\n";
    let (_, reply) = serve_one_call(http("200 OK", headers, body.as_bytes())).await;
    let expected = ReportedLimits {
        requests_per_minute: Some(60),
        tokens_remaining: Some(0),
        ..ReportedLimits::default()
    };
    assert_eq!(reply.unwrap().rate_limits, expected);
    let LlmError::Throttled {
        rate_limits: limits,
        ..
    } = error(http("429 Slow", headers, b"")).await
    else {
        panic!()
    };
    assert_eq!(limits, expected);
}

#[tokio::test]
async fn a_web_page_is_a_wrong_address() {
    for page in [
        "<html><body>502 Bad Gateway</body></html>",
        "\n<!DOCTYPE html>",
    ] {
        let failure = error(http("200 OK", "", page.as_bytes())).await.failure();
        assert_eq!(failure.code, "model.configuration");
        assert!(failure.message.contains("web page"), "{failure}");
        assert!(failure.next.unwrap().contains("model.base_url"));
    }
}
