//! Scopes, deadlines and costs of requests that call a model.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use stemma_document::Collection;
use stemma_engine_testing::wait::wait_until;
use stemma_sim::{Behavior, Provider};

use super::test_server::{TestReply, TestServer, bearer, start_configured, start_with_model_and};
use crate::{QuerySettings, ServerDeps};
use stemma_gateway::auth::{KeyScope, KeySettings};
use stemma_sample_store::model::{ConstantEmbedder, answer_model, semantic_router};

const QUESTION: &str = "How much was R&D spending?";

fn key(name: &str, scopes: &[KeyScope]) -> KeySettings {
    let blake3 = blake3::hash(name.as_bytes()).to_string();
    KeySettings {
        name: name.into(),
        blake3,
        scopes: scopes.to_vec(),
        ..KeySettings::default()
    }
}

/// The same question for every route that calls a model.
fn questions() -> [(&'static str, Value); 5] {
    let messages = json!([{ "role": "user", "content": QUESTION }]);
    [
        (
            "/v1/answers",
            json!({ "question": QUESTION, "scopes": ["ACME_2022"] }),
        ),
        (
            "/v1/search",
            json!({ "query": QUESTION, "scopes": ["ACME_2022"], "strategy": "best_first" }),
        ),
        (
            "/v1/chat/completions",
            json!({ "model": "default/ACME_2022", "messages": messages }),
        ),
        (
            "/chat/completions/",
            json!({ "doc_id": "ACME_2022", "messages": messages }),
        ),
        (
            "/chat/completions",
            json!({ "doc_id": "ACME_2022", "messages": messages, "stream": true }),
        ),
    ]
}

/// The structured result of a tool call.
async fn tool(server: &TestServer, key: &str, name: &str, arguments: Value) -> Value {
    let params = json!({ "name": name, "arguments": arguments });
    mcp(server, key, "tools/call", params).await["structuredContent"].clone()
}

async fn mcp(server: &TestServer, key: &str, method: &str, params: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let head = format!(
        "{}Accept: application/json, text/event-stream\r\n",
        bearer(key)
    );
    let request = format!(
        "POST /mcp HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    server.request_to("localhost", &request).await.json()["result"].clone()
}

#[tokio::test]
async fn read_only_keys_never_call_the_model() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let keys = vec![
        key("reads", &[KeyScope::Read]),
        key("asks", &[KeyScope::Read, KeyScope::Ask]),
    ];
    let server = start_with_model_and(
        answer_model(&provider),
        QuerySettings {
            keys,
            ..QuerySettings::default()
        },
    )
    .await;
    let reads = bearer("reads");
    let asks = bearer("asks");
    server.ready(&reads).await;
    for (path, body) in questions() {
        let reply = server.post_with(&reads, path, &body.to_string()).await;
        let problem = reply.json();
        let code = if path.starts_with("/v1/chat") {
            &problem["error"]
        } else {
            &problem
        };
        assert_eq!(
            (reply.status, &code["code"]),
            (403, &json!("key.scope_missing")),
            "{path}: {}",
            reply.body
        );
        let sentence = code
            .get("detail")
            .or(code.get("message"))
            .and_then(Value::as_str)
            .unwrap();
        assert!(sentence.contains("`ask`"), "{path}: {sentence}");
    }
    let offered = |listed: &Value| {
        listed["tools"]
            .as_array()
            .unwrap()
            .iter()
            .any(|tool| tool["name"] == "ask")
    };
    assert!(!offered(
        &mcp(&server, "reads", "tools/list", json!({})).await
    ));
    let refused = tool(&server, "reads", "ask", json!({ "question": QUESTION })).await;
    assert_eq!(
        (&refused["errorCode"], &refused["code"]),
        (&json!("FORBIDDEN"), &json!("key.scope_missing")),
        "{refused}"
    );
    assert_eq!(provider.report().calls, 0, "no calls were made");

    for (path, body) in questions() {
        assert_eq!(
            server
                .post_with(&asks, path, &body.to_string())
                .await
                .status,
            200,
            "{path}"
        );
    }
    assert!(
        offered(&mcp(&server, "asks", "tools/list", json!({})).await)
            && provider.report().calls > 0
    );
    let answered = tool(
        &server,
        "asks",
        "ask",
        json!({ "question": QUESTION, "scope": "ACME_2022" }),
    )
    .await;
    let calls = provider.report().calls;
    // Stored answers and searches without a model need no `ask` scope.
    let id = answered["answer_id"].as_str().unwrap();
    let stored = server
        .request(&format!("GET /v1/answers/{id} HTTP/1.1\r\n{reads}"))
        .await;
    assert_eq!(
        (stored.status, &stored.json()["id"]),
        (200, &answered["answer_id"])
    );
    assert_eq!(
        tool(&server, "reads", "ask", json!({ "answer_id": id })).await["answer"],
        answered["answer"]
    );
    let search = |strategy: &str| json!({ "query": QUESTION, "strategy": strategy }).to_string();
    assert_eq!(
        server
            .post_with(&reads, "/v1/search", &search("ranked"))
            .await
            .status,
        200
    );
    let retrieval = json!({ "doc_id": "ACME_2022", "query": QUESTION }).to_string();
    assert_eq!(
        server
            .post_with(&reads, "/retrieval/", &retrieval)
            .await
            .status,
        200
    );
    assert_eq!(provider.report().calls, calls);
}

fn texts(reply: &TestReply, path: &str) -> (String, String) {
    let whole = reply.json();
    let (id, text) = match path {
        "/v1/answers" => (&whole["id"], &whole["text"]),
        _ => (&whole["id"], &whole["choices"][0]["message"]["content"]),
    };
    (
        id.as_str().unwrap_or_default().to_owned(),
        text.as_str().unwrap_or_default().to_owned(),
    )
}

#[tokio::test]
async fn concurrent_identical_questions_are_paid_once() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    // The answer does not end before all have asked for it.
    provider.limit_replies(0);
    let server = start_with_model_and(answer_model(&provider), QuerySettings::default()).await;
    let whole = questions()
        .into_iter()
        .filter(|(path, body)| *path != "/v1/search" && body["stream"] != true);
    let requests: Vec<(&str, Value)> = whole.collect();
    let all = requests
        .iter()
        .map(|(path, body)| async { texts(&server.post(path, &body.to_string()).await, path) });
    let body = json!({ "question": QUESTION, "scopes": ["ACME_2022"] }).to_string();
    let follow = async || {
        let accept = "Accept: text/event-stream\r\n";
        let mut stream = server.send("/v1/answers", accept, body.as_bytes()).await;
        let begin = TestServer::read_to_event(&mut stream).await;
        (stream, begin)
    };
    let streams = async {
        let (mut first, first_begin) = follow().await;
        wait_until("the model is asked", async || provider.request_count() > 0).await;
        let (mut second, second_begin) = follow().await;
        provider.limit_replies(usize::MAX);
        let first = TestServer::read_rest(&mut first, first_begin).await;
        (
            first,
            TestServer::read_rest(&mut second, second_begin).await,
        )
    };
    let (all, (first, second)) = tokio::join!(futures::future::join_all(all), streams);
    assert!(
        all.iter()
            .all(|answer| *answer == all[0] && !answer.1.is_empty()),
        "{all:?}"
    );
    let events = |reply: &TestReply| {
        let lines = reply
            .body
            .lines()
            .filter(|line| line.starts_with("id:") || line.starts_with("data:"));
        lines.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        events(&first),
        events(&second),
        "a late client receives all events"
    );
    assert!(first.body.contains(&all[0].0), "{}", first.body);
    assert_eq!(provider.report().calls, 1);
    // A search with a model is not stored, but identical calls are shared.
    let search = questions()
        .into_iter()
        .find(|(path, _)| *path == "/v1/search")
        .unwrap()
        .1
        .to_string();
    let both = tokio::join!(
        server.post("/v1/search", &search),
        server.post("/v1/search", &search)
    );
    assert_eq!(both.0.json()["hits"], both.1.json()["hits"]);
    let paid = provider.report().calls - 1;
    let calls_before =
        |reply: &TestReply, what: &str| reply.json()["reasoning"]["spent"][what].as_u64().unwrap();
    let calls = calls_before(&both.0, "calls") + calls_before(&both.1, "calls");
    assert_eq!((calls, calls > 0), (paid as u64, true), "{}", both.0.body);
    let remembered = calls_before(&both.0, "remembered") + calls_before(&both.1, "remembered");
    assert_eq!(
        remembered, paid as u64,
        "a call paid by one request is free for the other"
    );
}

#[tokio::test]
async fn model_requests_get_the_answer_timeout() {
    // Each call takes longer than a request without a model may.
    let provider = Provider::start(Behavior::with_latency(Duration::from_millis(1_100)))
        .await
        .unwrap();
    let query = QuerySettings {
        timeout_seconds: 1,
        answer_timeout_seconds: 60,
        ..QuerySettings::default()
    };
    let server = start_with_model_and(answer_model(&provider), query).await;
    let (_, search) = questions()
        .into_iter()
        .find(|(path, _)| *path == "/v1/search")
        .unwrap();
    let reply = server.post("/v1/search", &search.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(provider.request_count() > 0);
    let query = QuerySettings {
        answer_timeout_seconds: 1,
        ..QuerySettings::default()
    };
    provider.set_behavior(Behavior::default());
    provider.limit_replies(0);
    let server = start_with_model_and(answer_model(&provider), query).await;
    let calls = provider.report().calls;
    for (path, body) in &questions()[..2] {
        let reply = server.post(path, &body.to_string()).await;
        assert_eq!(
            (reply.status, reply.header("retry-after")),
            (503, Some("2")),
            "{path}: {}",
            reply.body
        );
    }
    provider.limit_replies(usize::MAX);
    // Generation continues after the timeout: a retry gets the answer without paying again.
    let (path, body) = &questions()[0];
    while server.post(path, &body.to_string()).await.status == 503 {}
    assert_eq!(
        server.post(path, &body.to_string()).await.json()["replayed"],
        true
    );
    let searched = provider.report().calls - calls - 1;
    assert!(searched <= 1, "a cancelled search makes no further calls");
}

/// Semantic routing pays for an embedding of each question.
#[tokio::test]
async fn embeddings_are_paid_only_with_the_ask_scope() {
    let paid = Arc::new(ConstantEmbedder::default());
    let folder = tempfile::tempdir().unwrap();
    let meaning = semantic_router(&paid, folder.path());
    let deps = ServerDeps {
        semantic_routers: vec![(Collection::default(), meaning)],
        ..ServerDeps::default()
    };
    let keys = vec![
        key("reads", &[KeyScope::Read]),
        key("asks", &[KeyScope::Read, KeyScope::Ask]),
    ];
    let server = start_configured(
        QuerySettings {
            keys,
            ..QuerySettings::default()
        },
        deps,
    )
    .await;
    server.ready(&bearer("reads")).await;
    let routed = |reply: &TestReply| {
        reply.json()["routed"]
            .as_array()
            .unwrap()
            .last()
            .map(|chip| chip["value"].clone())
    };
    for (path, body) in [
        ("/v1/search", r#"{"query": "anvils"}"#),
        ("/v1/browse", r#"{"query": "anvils", "recursive": true}"#),
    ] {
        let reply = server.post_with(&bearer("reads"), path, body).await;
        assert_eq!(
            routed(&reply),
            Some(json!("not_paid_for")),
            "{path}: {}",
            reply.body
        );
    }
    tool(&server, "reads", "search", json!({ "query": "anvils" })).await;
    assert_eq!(paid.texts(), 0);
    let reply = server
        .post_with(&bearer("asks"), "/v1/search", r#"{"query": "anvils"}"#)
        .await;
    assert_eq!(
        (routed(&reply), paid.texts()),
        (Some(json!("nearest")), 1),
        "{}",
        reply.body
    );
}

#[tokio::test]
async fn too_long_questions_are_refused_in_every_dialect() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let server = start_with_model_and(answer_model(&provider), QuerySettings::default()).await;
    server.ready("").await;
    let long = "Background about markets. ".repeat(200) + QUESTION;
    for (path, body) in questions()
        .into_iter()
        .filter(|(path, _)| *path != "/v1/search")
    {
        let head = "api_key: any\r\n";
        let reply = server
            .post_with(head, path, &body.to_string().replace(QUESTION, &long))
            .await;
        let problem = reply.json();
        let code = if path.starts_with("/v1/chat") {
            &problem["error"]
        } else {
            &problem
        };
        assert_eq!(
            (reply.status, &code["code"]),
            (422, &json!("answer.too_long")),
            "{path}: {}",
            reply.body
        );
        assert!(reply.body.contains("4000"), "{path}: {}", reply.body);
    }
    assert_eq!(provider.report().calls, 0);
    // The last message is the question; earlier messages are context of any length.
    let messages =
        json!([{ "role": "user", "content": long }, { "role": "user", "content": QUESTION }]);
    let body = json!({ "model": "default/ACME_2022", "messages": messages }).to_string();
    assert_eq!(
        server
            .post_with("", "/v1/chat/completions", &body)
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn callers_cannot_raise_configured_limits() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let server = start_with_model_and(answer_model(&provider), QuerySettings::default()).await;
    server.ready("").await;
    for limits in [
        json!({ "token": 5 }),
        json!([]),
        json!({ "turns": 4_000_000_000_u32 }),
        json!({ "calls": 4_000_000_000_u32 }),
    ] {
        let body = json!({ "question": QUESTION, "limits": limits });
        let reply = server.post_with("", "/v1/answers", &body.to_string()).await;
        assert_eq!(reply.status, 422, "{limits}: {}", reply.body);
    }
    assert_eq!(provider.report().calls, 0);
    let body = json!({ "question": QUESTION, "limits": { "calls": 3 } });
    assert_eq!(
        server
            .post_with("", "/v1/answers", &body.to_string())
            .await
            .status,
        200
    );
}
