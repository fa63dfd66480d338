//! Requests with a mistake are refused with a code.

use serde_json::{Value, json};
use stemma_sample_store::model::answer_model;
use stemma_sim::{Behavior, Provider};

use super::test_server::{TestServer, start, start_with_key_settings, start_with_model_and};
use crate::QuerySettings;
use stemma_gateway::auth::KeySettings;

#[tokio::test]
async fn methods_media_types_and_limits_are_enforced() {
    let server = start().await;
    let put = server
        .request("PUT /v1/documents HTTP/1.1\r\nContent-Length: 0\r\n")
        .await;
    assert_eq!(
        (put.status, put.code().as_str(), put.header("allow")),
        (405, "route.method_unsupported", Some("GET,HEAD"))
    );
    let picky = server
        .request("GET /v1/documents HTTP/1.1\r\nAccept: text/html\r\n")
        .await;
    assert_eq!(
        (picky.status, picky.code().as_str()),
        (406, "response.type_not_accepted")
    );
    let form = server
        .request(
            "POST /v1/search HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
        )
        .await;
    assert_eq!(
        (form.status, form.code().as_str()),
        (415, "body.type_unsupported")
    );
    let head = server.request("HEAD /v1/documents HTTP/1.1\r\n").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let slow = KeySettings {
        requests_per_minute: 30,
        ..KeySettings::default()
    };
    let server = start_with_key_settings("slow", slow).await;
    let with_key = "GET /v1/documents HTTP/1.1\r\nAuthorization: Bearer slow\r\n";
    let elapsed = loop {
        let reply = server.request(with_key).await;
        if reply.status != 200 && reply.status != 503 {
            break reply;
        }
    };
    assert_eq!(
        (
            elapsed.status,
            elapsed.code().as_str(),
            elapsed.header("retry-after")
        ),
        (429, "key.limit_reached", Some("2"))
    );
}

/// Client errors are 4xx responses with a code.
#[tokio::test]
async fn bad_requests_are_refused_with_a_code() {
    let server = start().await;
    let long = format!("/v1/search?q={}", "a".repeat(4_001));
    for (status, code, paths) in [
        (
            400,
            "cursor.invalid",
            &[
                "/v1/fs/?cursor=00",
                "/v1/documents/ACME_2022/tree?cursor=00",
            ][..],
        ),
        (
            400,
            "request.invalid",
            &[
                "/v1/facets?fields=color",
                "/v1/facets",
                "/v1/fs/?depth=0",
                "/v1/documents/ACME_2022/tree?depth=0",
                "/v1/documents/ACME_2022/items/x",
                "/v1/documents/%ff",
                "/v1/documents/ACME_2022/sections/x",
                "/v1/documents/ACME_2022/pages?range=0",
                "/v1/documents/ACME_2022/pages",
                "/v1/documents/ACME_2022/tree?depth=x",
                "/v1/documents/ACME_2022/tree?format=xml",
                "/v1/documents/ACME_2022/tree?node=%00",
                "/v1/documents/ACME_2022/tree?limit=0",
                "/v1/documents/ACME_2022/tree?limit=10001",
                "/v1/documents/ACME_2022/tree?limit=2&format=pageindex",
                "/v1/documents?limit=501",
                "/v1/documents?limit=0",
                "/v1/documents?color=red",
                "/v1/search",
                "/v1/search?q=risk&rectangles=true",
                "/v1/search?q=risk&strategy=beam",
            ][..],
        ),
        (
            404,
            "collection.unknown",
            &["/v1/documents?collection=../other"][..],
        ),
        (
            404,
            "locator.no_item",
            &["/v1/documents/ACME_2022/items/9"][..],
        ),
        (
            404,
            "locator.no_page",
            &["/v1/documents/ACME_2022/pages?range=6"][..],
        ),
        (
            404,
            "locator.no_section",
            &["/v1/documents/ACME_2022/sections/9999"][..],
        ),
        (
            404,
            "locator.not_found",
            &[
                "/v1/documents/nothing-like-it",
                "/v1/documents/ACME",
                "/v1/documents/..%2f..%2fetc%2fpasswd/tree",
            ][..],
        ),
        (404, "route.unknown", &["/v2"][..]),
        (
            404,
            "scope.not_found",
            &["/v1/fs/9-K", "/v1/search?q=risk&documents=/9-K"][..],
        ),
        (
            404,
            "source.not_available",
            &["/v1/documents/ACME_2021/source"][..],
        ),
        (405, "route.method_unsupported", &["/v1/browse"][..]),
        (
            422,
            "filter.invalid",
            &["/v1/documents?where=color=red"][..],
        ),
        (
            422,
            "request.invalid",
            &["/v1/documents/ACME_2022/pages?range=1-4000000000,1-4000000000"][..],
        ),
        (422, "scope.facet_unknown", &["/v1/fs/@color/red"][..]),
        (422, "search.no_words", &["/v1/search?q=%3F"][..]),
        (
            422,
            "search.syntax_invalid",
            &["/v1/search?q=risk+OR+form:10-K"][..],
        ),
        (422, "search.too_long", &[&*long][..]),
        (
            422,
            "search.skip_too_large",
            &["/v1/search?q=risk&skip=20000"][..],
        ),
    ] {
        for path in paths {
            let reply = server.get(path).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (status, code),
                "{path}: {}",
                reply.body
            );
            // Clients of the server cannot run commands on its machine.
            assert!(!reply.body.contains("stemma "), "{path}: {}", reply.body);
        }
    }
    for (body, status) in [
        ("{", 400),
        ("[]", 422),
        (r#"{"query": 1}"#, 422),
        (r#"{"query": "the", "limit": 0}"#, 422),
        (r#"{"query": "?"}"#, 422),
        (
            r#"{"query": "risk", "where": {"form": {"like": "x"}}}"#,
            422,
        ),
        (r#"{"query": "risk", "strategy": "best"}"#, 422),
        (r#"{"query": "risk", "cursor": "00"}"#, 400),
        (r#"{"query": "risk", "item": "one"}"#, 422),
        (r#"{"query": "risk", "scopes": ["/9-K"]}"#, 404),
        (r#"{"query": "risk", "color": "red"}"#, 422),
    ] {
        assert_eq!(
            server.post("/v1/search", body).await.status,
            status,
            "{body}"
        );
    }
    let large = format!(r#"{{"query": "{}"}}"#, "x".repeat(70_000));
    assert_eq!(
        server.post("/v1/search", &large).await.code(),
        "body.too_large"
    );
}

#[tokio::test]
async fn malformed_bodies_are_refused_with_a_code() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let server = start_with_model_and(answer_model(&provider), QuerySettings::default()).await;
    let answers = "/v1/answers";
    let chat = "/v1/chat/completions";
    let pageindex = "/chat/completions/";
    let comparisons = "/v1/comparisons";
    let search = "/v1/search";
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let user_messages = |text: &str| json!([{ "role": "user", "content": text }]);
    let long = "why? ".repeat(20_000);
    let numbers = |name: &str, value: Value| {
        json!({ "question": "risk", "limits": { name: value } }).to_string()
    };
    for (status, code, requests) in [
        (
            400,
            "request.invalid",
            vec![
                (
                    pageindex,
                    format!(
                        r#"{{"messages": [{{"role": "user", "content": {}}}]}}"#,
                        deep(200)
                    ),
                ),
                (
                    answers,
                    format!(r#"{{"question": "risk", "where": {}}}"#, deep(10_000)),
                ),
            ],
        ),
        (
            413,
            "body.too_large",
            vec![
                (answers, "x".repeat((64 << 10) + 1)),
                (answers, json!({ "question": long }).to_string()),
                (comparisons, "x".repeat(100_000)),
                (chat, "x".repeat((1 << 20) + 1)),
                (pageindex, "x".repeat((1 << 20) + 1)),
            ],
        ),
        (
            422,
            "answer.limits_too_high",
            vec![
                (answers, numbers("sections", json!(u64::MAX))),
                (answers, numbers("sections", json!(0))),
                (answers, numbers("context_tokens", json!(u32::MAX))),
                (answers, numbers("turns", json!(u32::MAX))),
            ],
        ),
        (
            422,
            "answer.question_empty",
            vec![(answers, json!({ "question": "\u{0}\u{7}" }).to_string())],
        ),
        (
            422,
            "answer.too_long",
            vec![
                (
                    chat,
                    json!({ "model": "default", "messages": user_messages(&long) }).to_string(),
                ),
                (
                    pageindex,
                    json!({ "messages": user_messages(&long) }).to_string(),
                ),
            ],
        ),
        (
            422,
            "filter.invalid",
            vec![(
                answers,
                json!({ "question": "risk", "where": { "form": { "=": { "x": [1] } } } })
                    .to_string(),
            )],
        ),
        (
            422,
            "request.invalid",
            vec![
                (
                    chat,
                    format!(r#"{{"model": "default", "messages": {}}}"#, deep(100_000)),
                ),
                (answers, json!({ "question": 7 }).to_string()),
                (
                    answers,
                    json!({ "question": "risk", "unheard_of": 1 }).to_string(),
                ),
                (
                    answers,
                    json!({ "question": "risk", "earlier": [{ "question": "x" }] }).to_string(),
                ),
                (answers, numbers("calls", json!(-1))),
                (answers, numbers("tokens", json!(4_294_967_296_u64))),
                (answers, numbers("unheard_of", json!(1))),
                (
                    comparisons,
                    json!({ "right": "ACME_2022", "limit": -1 }).to_string(),
                ),
                (
                    comparisons,
                    json!({ "right": "ACME_2022", "sentences": 1e300 }).to_string(),
                ),
                (comparisons, json!({ "right": ["ACME_2022"] }).to_string()),
                (
                    search,
                    json!({ "query": "risk", "strategy": "beam", "budget_calls": -1 }).to_string(),
                ),
                (
                    chat,
                    json!({ "model": "default", "messages": {} }).to_string(),
                ),
                (
                    chat,
                    json!({ "model": "default", "messages": user_messages("x"), "stream": "yes" })
                        .to_string(),
                ),
                (
                    chat,
                    json!({ "model": "default", "messages": [{ "role": "user", "content": 7 }] })
                        .to_string(),
                ),
                (
                    pageindex,
                    json!({ "messages": user_messages("x"), "doc_id": 7 }).to_string(),
                ),
                (
                    "/retrieval/",
                    json!({ "doc_id": "ACME_2022", "query": "x".repeat(40_000) }).to_string(),
                ),
            ],
        ),
    ] {
        for (path, body) in requests {
            let mut stream = server.send(path, "", body.as_bytes()).await;
            let reply = TestServer::read(&mut stream).await;
            let excerpt: String = body.chars().take(120).collect();
            assert_eq!(
                (reply.status, reply.code_on(path).as_str()),
                (status, code),
                "{path} {excerpt}: {}",
                reply.body
            );
        }
    }
    for (path, field) in [
        (answers, "question"),
        (chat, "model"),
        (pageindex, "folder_id"),
        (comparisons, "right"),
        (search, "query"),
    ] {
        let body = [b"{\"", field.as_bytes(), b"\": \"\xff\xfe\"}"].concat();
        let mut stream = server.send(path, "", &body).await;
        let reply = TestServer::read(&mut stream).await;
        assert_eq!(
            (reply.status, reply.code_on(path).as_str()),
            (400, "request.invalid"),
            "{path}: {}",
            reply.body
        );
    }
    assert_eq!(provider.report().calls, 0, "invalid requests cost nothing");
    // Unusual but valid requests are answered.
    let most = json!({ "question": "How much was R&D\u{0} spending?", "mode": "agent",
        "limits": { "calls": 200, "tokens": 2_000_000, "nanodollars": u64::MAX, "sections": 50, "turns": 50, "context_tokens": 60_000 } });
    assert_eq!(server.post(answers, &most.to_string()).await.status, 200);
    let most = json!({ "query": "R&D spending", "strategy": "mcts", "budget_calls": u32::MAX, "budget_tokens": u64::MAX });
    assert_eq!(server.post(search, &most.to_string()).await.status, 200);
    let mut many = vec![json!({ "role": "user", "content": "capex?" }); 20_000];
    many.push(json!({ "role": "tool", "content": null }));
    let reply = server
        .post(
            chat,
            &json!({ "model": "default", "messages": many }).to_string(),
        )
        .await;
    assert_eq!(
        reply.status, 200,
        "the last of 20,000 messages is the question: {}",
        reply.body
    );
}
