//! The forms in which servers take requests and reply, and what their errors say.

use super::*;

// A server that answers 400 with the error returned by `reject`, until `expected` requests have passed.
async fn serve_rejecting(
    reject: fn(&Value) -> Option<&'static str>,
    expected: usize,
) -> (String, tokio::task::JoinHandle<usize>) {
    let respond = move |body: &Value| match reject(body) {
        Some(message) => {
            let error = json!({ "error": { "message": message } }).to_string();
            (http("400 Bad", "", error.as_bytes()), false)
        }
        None => (completion("{\"yes\":true}", "stop"), true),
    };
    serve_until(respond, expected).await
}

// A server that responds as told, until `expected` responses were marked as the last of their call.
async fn serve_until(
    respond: impl Fn(&Value) -> (Response, bool) + Send + 'static,
    expected: usize,
) -> (String, tokio::task::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let mut calls = 0;
        let mut answered = 0;
        while answered < expected {
            let (mut stream, _) = listener.accept().await.unwrap();
            let received = read_request(&mut stream).await;
            let body: Value =
                serde_json::from_str(received.split_once("\r\n\r\n").unwrap().1).unwrap();
            calls += 1;
            let (response, is_last) = respond(&body);
            answered += usize::from(is_last);
            stream.write_all(&response.unwrap()).await.unwrap();
        }
        calls
    });
    (url, serving)
}

#[tokio::test]
async fn rejected_parameters_are_dropped_for_later_calls() {
    let (url, serving) = serve_rejecting(
        |body: &Value| match &body["response_format"]["type"] {
            _ if body.get("max_tokens").is_some() => {
                Some("Unsupported parameter: 'max_tokens', use 'max_completion_tokens'")
            }
            _ if body.get("temperature").is_some() => {
                Some("'temperature' does not support 0 with this model")
            }
            kind if kind == "json_schema" => Some("response_format json_schema is not supported"),
            _ => None,
        },
        3,
    )
    .await;
    let client = client(&url);
    for _ in 0..3 {
        assert_eq!(
            client.complete(&request()).await.unwrap().text,
            "{\"yes\":true}"
        );
    }
    assert_eq!(
        serving.await.unwrap(),
        3 + 3,
        "each parameter is rejected once"
    );
}

#[tokio::test]
async fn unresolvable_rejection_returns_the_error() {
    let (url, serving) = serve_rejecting(
        |_| Some("the schema has too many tokens for this context"),
        1,
    )
    .await;
    let error = client(&url).complete(&request()).await.unwrap_err();
    assert!(
        matches!(&error, LlmError::Refused { status: 400, .. }),
        "{error:?}"
    );
    serving.abort();
}

// The words of llama.cpp's Python server, of an old llama.cpp, and of other servers.
const SCHEMA_ERRORS: [(&str, &str); 4] = [
    (
        "500 Internal Server Error",
        r#"{"error":{"message":"1 validation error:\n  {'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or 'json_object'\", 'input': 'json_schema', 'ctx': {'expected': \"'text' or 'json_object'\"}}","type":"internal_server_error","param":null,"code":null}}"#,
    ),
    (
        "500 Oops",
        r#"{"error":{"code":500,"message":"response_format type must be one of \"text\" or \"json_object\", but got: json_schema","type":"server_error"}}"#,
    ),
    (
        "404 Not Found",
        r#"{"detail":"response_format of type json_schema is unknown here"}"#,
    ),
    (
        "501 Not Implemented",
        r#"{"error":{"message":"structured outputs are not supported"}}"#,
    ),
];

#[tokio::test]
async fn a_server_without_schemas_is_recognized_by_its_words_and_remembered() {
    for (status, error) in SCHEMA_ERRORS {
        let respond = move |body: &Value| {
            let format = &body["response_format"];
            if format["type"] == "json_schema" {
                return (http(status, "", error.as_bytes()), false);
            }
            // Servers that know the next weaker form enforce the schema in it.
            assert_eq!(format["type"], "json_object");
            assert_eq!(format["schema"]["required"], json!(["yes"]));
            (completion("{\"yes\":true}", "stop"), true)
        };
        let (url, serving) = serve_until(respond, 3).await;
        let client = client(&url);
        for _ in 0..3 {
            let reply = client.complete(&request()).await.unwrap();
            assert_eq!(reply.text, "{\"yes\":true}", "{status}");
        }
        assert_eq!(
            serving.await.unwrap(),
            1 + 3,
            "{status}: the form is tried once"
        );
    }
}

#[tokio::test]
async fn the_error_after_a_weaker_form_is_the_one_that_counts() {
    let too_long = r#"{"error":{"message":"This model's maximum context length is 512 tokens, however you requested 900 tokens","code":"context_length_exceeded"}}"#;
    let respond = move |body: &Value| match body["response_format"]["type"] == "json_schema" {
        true => (
            http(SCHEMA_ERRORS[0].0, "", SCHEMA_ERRORS[0].1.as_bytes()),
            false,
        ),
        false => (http("400 Bad", "", too_long.as_bytes()), true),
    };
    let (url, serving) = serve_until(respond, 2).await;
    let client = client(&url);
    for _ in 0..2 {
        let failure = client.complete(&request()).await.unwrap_err().failure();
        assert_eq!(failure.code, "model.context_exceeded");
        assert!(failure.message.contains("512 tokens"), "{failure}");
        assert!(failure.next.unwrap().contains("--n_ctx 128"));
    }
    assert_eq!(serving.await.unwrap(), 1 + 2);
}

#[tokio::test]
async fn a_server_that_ignores_schemas_gets_them_in_the_prompt() {
    let respond = |body: &Value| {
        let system = body["messages"][0]["content"].as_str().unwrap();
        let text = match system.contains("\"yes\"") {
            true => "{\"yes\":true}",
            false => "Yes.",
        };
        (completion(text, "stop"), true)
    };
    let (url, serving) = serve_until(respond, 3).await;
    let client = client(&url);
    let mut texts = Vec::new();
    for _ in 0..3 {
        texts.push(client.complete(&request()).await.unwrap().text);
    }
    assert_eq!(texts, ["Yes.", "{\"yes\":true}", "{\"yes\":true}"]);
    assert_eq!(serving.await.unwrap(), 3);
}

#[tokio::test]
async fn a_limit_that_is_too_high_is_not_sent_under_another_name() {
    // A server that ignores the other name would have no limit from then on.
    let reject = |body: &Value| {
        let is_high = body["max_tokens"].as_u64() > Some(8_192);
        is_high.then_some("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]")
    };
    let (url, serving) = serve_rejecting(reject, 1).await;
    let client = client(&url);
    let high = LlmRequest {
        max_output_tokens: 16_000,
        ..request()
    };
    let error = client.complete(&high).await.unwrap_err();
    assert_eq!(error.code(), "model.refused");
    assert_eq!(
        client.complete(&request()).await.unwrap().text,
        "{\"yes\":true}"
    );
    assert_eq!(serving.await.unwrap(), 2);
}

#[tokio::test]
async fn a_thought_that_was_cut_off_is_no_sign_of_ignored_schemas() {
    let respond = |body: &Value| {
        assert_eq!(body["response_format"]["type"], "json_schema");
        (completion("<think>Let me see", "length"), true)
    };
    let (url, serving) = serve_until(respond, 2).await;
    let client = client(&url);
    for _ in 0..2 {
        assert!(client.complete(&request()).await.unwrap().has_thought);
    }
    serving.await.unwrap();
}

const DOCUMENT: &str =
    "Our vision of computing is not supported by a context window of any length, we believe.";

#[tokio::test]
async fn words_of_the_document_do_not_decide_what_an_error_is() {
    for (status, words, code) in [
        ("500 Oops", "out of memory", "model.server_error"),
        ("422 Bad", "field required", "model.refused"),
        (
            "500 Oops",
            "exceeds the context length of 512",
            "model.context_exceeded",
        ),
    ] {
        let quoting = json!({ "detail": [{ "input": DOCUMENT, "msg": words }] }).to_string();
        let response = http(status, "", quoting.as_bytes());
        let (_, result) = serve_one_call_with(response, |request| {
            request.user = format!("Summarize: {DOCUMENT}");
        })
        .await;
        assert_eq!(result.unwrap_err().code(), code, "{status} {words}");
    }
}

#[tokio::test]
async fn replies_that_only_thought_are_told_from_empty_ones() {
    let message = |message: Value, reason: &str, details: Value| {
        let usage = json!({ "prompt_tokens": 9, "completion_tokens": 64, "completion_tokens_details": details });
        let choice = json!({ "message": message, "finish_reason": reason });
        http(
            "200 OK",
            "",
            json!({ "choices": [choice], "usage": usage })
                .to_string()
                .as_bytes(),
        )
    };
    for (text, reason, details) in [
        (
            json!({ "content": "", "reasoning_content": "Let me see" }),
            "stop",
            json!({}),
        ),
        (
            json!({ "content": null, "reasoning": "Let me see" }),
            "length",
            json!({}),
        ),
        (
            json!({ "content": "" }),
            "length",
            json!({ "reasoning_tokens": 64 }),
        ),
        (
            json!({ "content": "<think>Let me see" }),
            "length",
            json!(null),
        ),
        (
            json!({ "content": "", "reasoning": "Let me", "reasoning_content": "Let me" }),
            "stop",
            json!({}),
        ),
    ] {
        let (_, reply) = serve_one_call(message(text.clone(), reason, details)).await;
        assert!(reply.unwrap().has_thought, "{text}");
    }
    // Side fields of another type cost no reply.
    for (field, thought) in [
        (json!([{ "type": "text", "text": "Let me see" }]), true),
        (json!({ "text": "Let me see" }), true),
        (json!([]), false),
        (json!(true), false),
    ] {
        for name in ["reasoning", "reasoning_content"] {
            let mut body = json!({ "content": "{}" });
            body[name] = field.clone();
            let details = json!({ "reasoning_tokens": "many" });
            let (_, reply) = serve_one_call(message(body, "stop", details)).await;
            let reply = reply.unwrap();
            assert_eq!((reply.text.as_str(), reply.has_thought), ("{}", thought));
            assert_eq!(reply.usage.total(), 9 + 64);
        }
    }
    let (_, reply) = serve_one_call(completion(" ", "length")).await;
    let reply = reply.unwrap();
    assert!(reply.is_empty() && !reply.has_thought && reply.finish == FinishReason::Length);
}
