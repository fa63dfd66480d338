//! The Anthropic client against a local server.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::time::Duration;

use serde_json::{Value, json};
use stemma_llm::anthropic::Anthropic;
use stemma_llm::http::Endpoint;
use stemma_llm::image::PageImage;
use stemma_llm::request::{
    FinishReason, FollowUp, Llm, LlmError, LlmReply, LlmRequest, OutputSchema, TokenUsage,
};
use stemma_store::Env;
use stemma_store::secret::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

// Serves one call. Returns the request's head and body, and the client's result.
async fn serve_one_call(
    status: &str,
    headers: &str,
    body: Value,
    follow_up: Option<FollowUp>,
) -> (String, Value, Result<LlmReply, LlmError>) {
    serve_one_call_with(status, headers, body, follow_up, Vec::new()).await
}

async fn serve_one_call_with(
    status: &str,
    headers: &str,
    body: Value,
    follow_up: Option<FollowUp>,
    images: Vec<PageImage>,
) -> (String, Value, Result<LlmReply, LlmError>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Anthropic::new(Endpoint {
        base_url: format!("http://{}/v1", listener.local_addr().unwrap()),
        api_key: Secret::from("top secret"),
        key_header: String::new(),
        headers: Vec::new(),
        timeout: Duration::from_secs(60),
        process: "worker-7".into(),
        env: Env::system(),
    })
    .unwrap();
    let body = body.to_string();
    let response = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = String::new();
        let mut buffer = [0; 4096];
        loop {
            let read = stream.read(&mut buffer).await.unwrap();
            received.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
            if let Some((head, body)) = received.split_once("\r\n\r\n")
                && let Ok(body) = serde_json::from_str::<Value>(body)
            {
                stream.write_all(response.as_bytes()).await.unwrap();
                return (head.to_lowercase(), body);
            }
        }
    });
    let schema = OutputSchema::strict("detect", &json!({ "yes": { "type": "boolean" } }));
    let model = "m".into();
    let system = "static".into();
    let user = "page".into();
    let request = LlmRequest {
        model,
        system,
        user,
        images,
        schema,
        max_output_tokens: 64,
        follow_up,
        urgency: 0,
    };
    let result = client.complete(&request).await;
    let (head, body) = serving.await.unwrap();
    (head, body, result)
}

fn message(content: &Value, stop: &str) -> Value {
    let usage = json!({
        "input_tokens": 10, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 20, "output_tokens": 4,
    });
    json!({ "type": "message", "role": "assistant", "content": content, "stop_reason": stop, "usage": usage })
}

fn tool_use(input: &Value) -> Value {
    json!([{ "type": "thinking", "thinking": "hm" }, { "type": "tool_use", "id": "t", "name": "detect", "input": input }])
}

#[tokio::test]
async fn forced_tool_input_is_the_reply() {
    let (head, body, reply) = serve_one_call(
        "200 OK",
        "",
        message(&tool_use(&json!({ "yes": true })), "tool_use"),
        None,
    )
    .await;
    let usage = TokenUsage {
        prompt_tokens: 35,
        cached_tokens: 20,
        output_tokens: 4,
    };
    let expected = LlmReply {
        has_thought: true,
        ..LlmReply::new("{\"yes\":true}", usage)
    };
    assert_eq!(reply, Ok(expected));
    assert!(head.starts_with("post /v1/messages http/1.1"), "{head}");
    assert!(
        head.contains("x-api-key: top secret") && head.contains("anthropic-version: 2023-06-01"),
        "{head}"
    );
    assert_eq!(body["tools"][0]["input_schema"]["required"], json!(["yes"]));
    assert_eq!(
        body["tool_choice"],
        json!({ "type": "tool", "name": "detect" })
    );
    assert_eq!(
        body["system"][0]["cache_control"],
        json!({ "type": "ephemeral" })
    );
    assert_eq!(
        body["messages"],
        json!([{ "role": "user", "content": "page" }])
    );
}

// A PNG of 3 × 4 pixels, as far as its header says.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x03\0\0\0\x04";
const PNG_BASE64: &str = "iVBORw0KGgoAAAANSUhEUgAAAAMAAAAE";

#[tokio::test]
async fn images_are_blocks_before_the_text() {
    let image = PageImage::from_png(PNG.into()).unwrap();
    let retry = FollowUp::Retry {
        reply: "no".into(),
        error: "no JSON".into(),
    };
    let reply = message(&tool_use(&json!({ "yes": true })), "tool_use");
    let (_, body, _) =
        serve_one_call_with("200 OK", "", reply, Some(retry), vec![image.clone()]).await;
    let source = json!({ "type": "base64", "media_type": "image/png", "data": PNG_BASE64 });
    let content =
        json!([{ "type": "image", "source": source }, { "type": "text", "text": "page" }]);
    assert_eq!(
        body["messages"][0],
        json!({ "role": "user", "content": content })
    );
    let roles = [&body["messages"][1]["role"], &body["messages"][2]["role"]];
    assert_eq!(roles, ["assistant", "user"]);
    assert!(body["messages"][2]["content"].is_string());

    let refusal =
        json!({ "type": "error", "error": { "message": "m does not support image input" } });
    let (_, _, reply) = serve_one_call_with("400 Bad", "", refusal, None, vec![image]).await;
    assert_eq!(reply.unwrap_err().code(), "model.no_images");
}

#[tokio::test]
async fn truncated_tool_input_is_continued_as_text() {
    let (_, _, reply) = serve_one_call(
        "200 OK",
        "",
        message(&tool_use(&json!({})), "max_tokens"),
        None,
    )
    .await;
    let reply = reply.unwrap();
    assert_eq!(reply.text, "");
    assert_eq!(reply.finish, FinishReason::Length);
    let follow_up = Some(FollowUp::Continue {
        partial: String::new(),
    });
    let text = json!([{ "type": "text", "text": "{\"yes\":" }]);
    let (_, body, reply) =
        serve_one_call("200 OK", "", message(&text, "max_tokens"), follow_up).await;
    assert!(
        body.get("tools").is_none() && body["messages"].as_array().unwrap().len() == 1,
        "{body}"
    );
    assert_eq!(reply.unwrap().finish, FinishReason::Length);
}

#[tokio::test]
async fn error_statuses_map_to_codes() {
    let error = |kind: &str| json!({ "type": "error", "error": { "type": kind, "message": "no" } });
    for (status, kind, code) in [
        ("529 Overloaded", "overloaded_error", "model.throttled"),
        ("429 Slow", "rate_limit_error", "model.throttled"),
        ("401 No", "authentication_error", "model.configuration"),
        ("404 No", "not_found_error", "model.configuration"),
        ("400 Bad", "invalid_request_error", "model.refused"),
        ("500 Oops", "api_error", "model.server_error"),
    ] {
        let (_, _, reply) = serve_one_call(status, "", error(kind), None).await;
        assert_eq!(reply.unwrap_err().code(), code, "{status}");
    }
    let headers = "date: Thu, 01 Jan 2026 00:00:00 GMT\r\nretry-after: 9\r\nanthropic-ratelimit-requests-limit: 50\r\n";
    let (_, _, reply) = serve_one_call("429 Slow", headers, error("rate_limit_error"), None).await;
    let Err(LlmError::Throttled {
        retry_after,
        rate_limits,
    }) = reply
    else {
        panic!("{reply:?}")
    };
    assert_eq!(retry_after, Some(Duration::from_secs(9)));
    assert_eq!(rate_limits.requests_per_minute, Some(50));
    let (_, _, reply) = serve_one_call("200 OK", "", message(&json!([]), "refusal"), None).await;
    assert_eq!(reply.unwrap_err().code(), "model.refused");
}
