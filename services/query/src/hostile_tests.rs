//! Hostile requests: each is answered, or refused with a code, within the time limit.

use std::fmt::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stemma_sim::{Behavior, Provider};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::QuerySettings;
use crate::server_tests::{TestReply, TestServer, start, start_with_model_and};
use stemma_archive::GrepOptions;
use stemma_sample_store::model::answer_model;

const QUESTIONS: usize = 1_000;
/// Ample for an unoptimized build on a busy machine.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// A linear congruential generator (Knuth's MMIX multiplier): the same numbers in every run.
struct HostileRng(u64);

impl HostileRng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

const SYNTAX: [&str; 24] = [
    "title:(risk",
    "a AND OR NOT",
    "+(-",
    "\"unclosed",
    "*:*",
    "risk~999999",
    "body:[* TO",
    "{!func}x",
    "a^9e99",
    "\\",
    "NOT NOT a",
    "' OR 1=1 --",
    "; DROP TABLE",
    "${jndi:ldap://x}",
    "{{7*7}}",
    "%s%n%x",
    "../../../etc/passwd",
    "<script>",
    "\u{0}",
    "#p=0",
    "#p=1-4294967295",
    "#item-",
    "@company",
    "~0000",
];
const PATTERN_BOMBS: [&str; 8] = [
    "(a+)+$",
    "(a|a)*b",
    "(.*)*x",
    "((((((((((a{99}){99}){99}){99})))))))",
    "[^]",
    "(?<n>a)\\k<n>",
    "\\p{Greek}{1000}",
    "(?i)(x+x+)+y",
];
const STRANGE_CHARS: [char; 16] = [
    '\u{202e}',
    '\u{2066}',
    '\u{200b}',
    '\u{feff}',
    '\u{0}',
    '\u{1b}',
    '\u{7f}',
    '\u{85}',
    '\u{2028}',
    '\u{fffd}',
    '\u{e000}',
    '\u{10ffff}',
    '年',
    '́',
    '🏳',
    '\r',
];

/// One or more hostile parts, joined by spaces.
fn hostile_text(rng: &mut HostileRng) -> String {
    let mut text = String::new();
    for _ in 0..=rng.below(3) {
        match rng.below(7) {
            0 => {
                text.push_str(
                    &rng.choose(&["a ", "risk ", "年", "((", "\"", "😀", "x"])
                        .repeat(rng.choose(&[1, 100, 9_000])),
                );
            }
            1 => (0..rng.below(40)).for_each(|_| text.push(rng.choose(&STRANGE_CHARS))),
            2 => text.push_str(rng.choose(&PATTERN_BOMBS)),
            3 => text.push_str(rng.choose(&SYNTAX)),
            4 => text.push_str(
                &rng.choose(&["9", "-9", "1e", "0x", "٣", "½"])
                    .repeat(rng.choose(&[1, 20, 400])),
            ),
            5 => text.push_str(rng.choose(&[
                "risk",
                "currency",
                "2022",
                "10-K",
                "item 1a",
                "the",
                "营业收入",
            ])),
            _ => (0..rng.below(60))
                .for_each(|_| text.extend(char::from_u32(rng.below(0x11_0000) as u32))),
        }
        text.push(' ');
    }
    text
}

/// Percent-encodes a text for a URL.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes().take(5_000) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'@' | b'~' | b'.' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

async fn send_hostile_request(
    server: &TestServer,
    rng: &mut HostileRng,
) -> (String, crate::server_tests::TestReply) {
    let text = hostile_text(rng);
    let path = encoded(&text);
    let post = |path: &'static str, body: serde_json::Value| async move {
        let body = body.to_string();
        (
            format!("POST {path} {body}"),
            server.post(path, &body).await,
        )
    };
    let get = |path: String| async move { (format!("GET {path}"), server.get(&path).await) };
    match rng.below(10) {
        0..=3 => {
            post(
                "/v1/search",
                json!({ "query": text, "explain": rng.below(2) == 0 }),
            )
            .await
        }
        4 => {
            post(
                "/v1/search",
                json!({ "query": "risk", "scopes": [text], "item": "1A" }),
            )
            .await
        }
        5 => {
            post(
                "/v1/search",
                json!({ "query": "risk", "where": text, "cursor": path }),
            )
            .await
        }
        6 => {
            post(
                "/v1/browse",
                json!({ "query": text, "recursive": true, "where": { "name": [text] } }),
            )
            .await
        }
        7 => get(format!("/v1/fs/{path}")).await,
        8 => {
            get(format!(
                "/v1/documents?q={path}&where={path}&company={path}"
            ))
            .await
        }
        _ => {
            let tail = rng.choose(&[
                "",
                "/tree",
                "/pages?range=1",
                "/items/1A",
                "/sections/0001",
                "/source",
            ]);
            get(format!("/v1/documents/{}{tail}", path.replace('/', "%2F"))).await
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_searches_are_answered_or_refused() {
    let server = start().await;
    let mut rng = HostileRng(7);
    let mut answered = 0;
    let mut refused = 0;
    for at in 0..QUESTIONS {
        let began = Instant::now();
        let (question, reply) = send_hostile_request(&server, &mut rng).await;
        let excerpt: String = question.chars().take(300).collect();
        assert!(
            began.elapsed() < REPLY_TIMEOUT,
            "{at} took {:?}: {excerpt:?}",
            began.elapsed()
        );
        match reply.status {
            200 => answered += 1,
            // The request line is too long: hyper answers without a body.
            414 | 431 => refused += 1,
            400..=499 => {
                assert!(!reply.code().is_empty(), "{at}: {excerpt:?}");
                refused += 1;
            }
            status => panic!("{at}: {status} {} to {excerpt:?}", reply.body),
        }
    }
    assert!(
        answered > QUESTIONS / 10 && refused > QUESTIONS / 10,
        "{answered} answered, {refused} refused"
    );
}

#[tokio::test]
async fn hostile_patterns_finish_quickly() {
    let blobs = stemma_sample_store::store().await;
    let archive = stemma_archive::Archive::open(blobs, stemma_document::Collection::default())
        .await
        .unwrap();
    let mut rng = HostileRng(11);
    for at in 0..200 {
        let pattern = hostile_text(&mut rng);
        let fixed = rng.below(3) == 0;
        let options = GrepOptions {
            pattern,
            ignore_case: true,
            fixed,
            limit: 100,
        };
        let began = Instant::now();
        if let Err(refusal) = archive.grep("/", &options).await {
            assert_eq!(refusal.code, "grep.pattern", "{at}: {refusal}");
        }
        assert!(
            began.elapsed() < REPLY_TIMEOUT,
            "{at} took {:?}",
            began.elapsed()
        );
    }
}

/// The code of an error response in the format of its route.
fn code_of(path: &str, reply: &TestReply) -> String {
    if stemma_gateway::problem::is_openai_path(path) {
        assert_eq!(reply.header("content-type"), Some("application/json"));
        reply.json()["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .into()
    } else {
        reply.code()
    }
}

/// A hostile request to a route that calls a model, retrieves or compares.
fn hostile_question(rng: &mut HostileRng) -> (&'static str, Value) {
    let text = hostile_text(rng);
    let other = hostile_text(rng);
    let messages = json!([
        { "role": "user", "content": other }, { "role": "assistant", "content": [{ "type": "text", "text": text }] },
        { "role": rng.choose(&["user", "system", "\u{0}"]), "content": text },
    ]);
    match rng.below(8) {
        0 => (
            "/v1/answers",
            json!({ "question": text, "mode": rng.choose(&["agent", "search"]) }),
        ),
        1 => (
            "/v1/answers",
            json!({ "question": "risk", "scopes": [other], "earlier": [{ "question": text, "answer": other }] }),
        ),
        2 => (
            "/v1/chat/completions",
            json!({ "model": rng.choose(&["default", "", "default//", "/"]), "messages": messages }),
        ),
        3 => (
            "/v1/chat/completions",
            json!({ "model": text, "messages": messages, "stream": true }),
        ),
        4 => (
            "/v1/responses",
            json!({ "model": "default", "input": text }),
        ),
        5 => (
            "/chat/completions/",
            json!({ "messages": messages, "doc_id": rng.choose(&["ACME_2022", "#", ""]), "enable_citations": true }),
        ),
        6 => (
            "/retrieval/",
            json!({ "doc_id": rng.choose(&["ACME_2022", "QUEUED", "/"]), "query": text }),
        ),
        _ => (
            "/v1/comparisons",
            json!({ "left": text, "right": rng.choose(&["ACME_2022", other.as_str()]), "item": "1A" }),
        ),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_model_questions_are_answered_or_refused() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let server = start_with_model_and(answer_model(&provider), QuerySettings::default()).await;
    let mut rng = HostileRng(13);
    let mut answered = 0;
    let mut refused = 0;
    for at in 0..QUESTIONS / 4 {
        let began = Instant::now();
        let (path, body) = hostile_question(&mut rng);
        let reply = server.post(path, &body.to_string()).await;
        let excerpt: String = body.to_string().chars().take(300).collect();
        assert!(
            began.elapsed() < REPLY_TIMEOUT,
            "{at} {path} took {:?}: {excerpt:?}",
            began.elapsed()
        );
        match reply.status {
            200 => answered += 1,
            400..=499 => {
                assert!(!code_of(path, &reply).is_empty(), "{at}: {excerpt:?}");
                refused += 1;
            }
            status => panic!("{at}: {status} {} to {path} {excerpt:?}", reply.body),
        }
    }
    assert!(
        answered > QUESTIONS / 40 && refused > QUESTIONS / 40,
        "{answered} answered, {refused} refused"
    );
}

#[tokio::test]
async fn malformed_bodies_are_refused_with_a_code() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let server = start_with_model_and(answer_model(&provider), QuerySettings::default()).await;
    let answers = "/v1/answers";
    let chat = "/v1/chat/completions";
    let responses = "/v1/responses";
    let pageindex = "/chat/completions/";
    let comparisons = "/v1/comparisons";
    let search = "/v1/search";
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let user_messages = |text: &str| json!([{ "role": "user", "content": text }]);
    let long = "why? ".repeat(20_000);
    let numbers = |name: &str, value: Value| {
        json!({ "question": "risk", "limits": { name: value } }).to_string()
    };
    for (path, body, status, code) in [
        (answers, "x".repeat((64 << 10) + 1), 413, "body.too_large"),
        (
            answers,
            json!({ "question": long }).to_string(),
            413,
            "body.too_large",
        ),
        (comparisons, "x".repeat(100_000), 413, "body.too_large"),
        (chat, "x".repeat((1 << 20) + 1), 413, "body.too_large"),
        (responses, "x".repeat((1 << 20) + 1), 413, "body.too_large"),
        (pageindex, "x".repeat((1 << 20) + 1), 413, "body.too_large"),
        (
            chat,
            json!({ "model": "default", "messages": user_messages(&long) }).to_string(),
            422,
            "answer.too_long",
        ),
        (
            responses,
            json!({ "model": "default", "input": long }).to_string(),
            422,
            "answer.too_long",
        ),
        (
            pageindex,
            json!({ "messages": user_messages(&long) }).to_string(),
            422,
            "answer.too_long",
        ),
        (
            chat,
            format!(r#"{{"model": "default", "messages": {}}}"#, deep(100_000)),
            422,
            "request.invalid",
        ),
        (
            responses,
            format!(r#"{{"model": "default", "input": {}}}"#, deep(100_000)),
            400,
            "request.invalid",
        ),
        (
            pageindex,
            format!(
                r#"{{"messages": [{{"role": "user", "content": {}}}]}}"#,
                deep(200)
            ),
            400,
            "request.invalid",
        ),
        (
            answers,
            format!(r#"{{"question": "risk", "where": {}}}"#, deep(10_000)),
            400,
            "request.invalid",
        ),
        (
            answers,
            json!({ "question": "risk", "where": { "form": { "=": { "x": [1] } } } }).to_string(),
            422,
            "filter.invalid",
        ),
        (
            answers,
            json!({ "question": 7 }).to_string(),
            422,
            "request.invalid",
        ),
        (
            answers,
            json!({ "question": "risk", "unheard_of": 1 }).to_string(),
            422,
            "request.invalid",
        ),
        (
            answers,
            json!({ "question": "risk", "earlier": [{ "question": "x" }] }).to_string(),
            422,
            "request.invalid",
        ),
        (
            answers,
            json!({ "question": "\u{0}\u{7}" }).to_string(),
            422,
            "answer.question",
        ),
        (answers, numbers("calls", json!(-1)), 422, "request.invalid"),
        (
            answers,
            numbers("tokens", json!(4_294_967_296_u64)),
            422,
            "request.invalid",
        ),
        (
            answers,
            numbers("sections", json!(u64::MAX)),
            422,
            "answer.limits",
        ),
        (answers, numbers("sections", json!(0)), 422, "answer.limits"),
        (
            answers,
            numbers("context_tokens", json!(u32::MAX)),
            422,
            "answer.limits",
        ),
        (
            answers,
            numbers("turns", json!(u32::MAX)),
            422,
            "answer.limits",
        ),
        (
            answers,
            numbers("unheard_of", json!(1)),
            422,
            "request.invalid",
        ),
        (
            comparisons,
            json!({ "right": "ACME_2022", "limit": -1 }).to_string(),
            422,
            "request.invalid",
        ),
        (
            comparisons,
            json!({ "right": "ACME_2022", "sentences": 1e300 }).to_string(),
            422,
            "request.invalid",
        ),
        (
            comparisons,
            json!({ "right": ["ACME_2022"] }).to_string(),
            422,
            "request.invalid",
        ),
        (
            search,
            json!({ "query": "risk", "strategy": "beam", "budget_calls": -1 }).to_string(),
            422,
            "request.invalid",
        ),
        (
            chat,
            json!({ "model": "default", "messages": {} }).to_string(),
            422,
            "request.invalid",
        ),
        (
            chat,
            json!({ "model": "default", "messages": user_messages("x"), "stream": "yes" })
                .to_string(),
            422,
            "request.invalid",
        ),
        (
            chat,
            json!({ "model": "default", "messages": [{ "role": "user", "content": 7 }] })
                .to_string(),
            422,
            "request.invalid",
        ),
        (
            responses,
            json!({ "model": "default", "input": { "role": "user" } }).to_string(),
            422,
            "request.invalid",
        ),
        (
            pageindex,
            json!({ "messages": user_messages("x"), "doc_id": 7 }).to_string(),
            422,
            "request.invalid",
        ),
        (
            "/retrieval/",
            json!({ "doc_id": "ACME_2022", "query": "x".repeat(40_000) }).to_string(),
            422,
            "request.invalid",
        ),
    ] {
        let mut stream = server.send(path, "", body.as_bytes()).await;
        let reply = TestServer::read(&mut stream).await;
        let excerpt: String = body.chars().take(120).collect();
        assert_eq!(reply.status, status, "{path} {excerpt}: {}", reply.body);
        assert_eq!(
            code_of(path, &reply),
            code,
            "{path} {excerpt}: {}",
            reply.body
        );
    }
    for (path, field) in [
        (answers, "question"),
        (chat, "model"),
        (responses, "input"),
        (pageindex, "folder_id"),
        (comparisons, "right"),
        (search, "query"),
    ] {
        let body = [b"{\"", field.as_bytes(), b"\": \"\xff\xfe\"}"].concat();
        let mut stream = server.send(path, "", &body).await;
        let reply = TestServer::read(&mut stream).await;
        assert_eq!(
            (reply.status, code_of(path, &reply).as_str()),
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
    let began = Instant::now();
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
    assert!(began.elapsed() < REPLY_TIMEOUT);
}

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

/// ADR 0020: generation continues after a disconnect, and the answer is stored.
#[tokio::test]
async fn disconnected_streams_finish_and_are_paid_once() {
    let provider = Provider::start(Behavior::with_latency(Duration::from_millis(400)))
        .await
        .unwrap();
    let server = start_with_model_and(answer_model(&provider), QuerySettings::default()).await;
    let messages =
        |number: usize| json!([{ "role": "user", "content": question(number)["question"] }]);
    for (number, path, body) in [
        (1, "/v1/answers", question(1)),
        (
            2,
            "/v1/chat/completions",
            json!({ "model": "ACME_2022", "messages": messages(2), "stream": true }),
        ),
        (
            3,
            "/v1/responses",
            json!({ "model": "ACME_2022", "input": messages(3), "stream": true }),
        ),
        (
            4,
            "/chat/completions/",
            json!({ "doc_id": "ACME_2022", "messages": messages(4), "stream": true }),
        ),
    ] {
        drop(open_stream(&server, path, &body).await);
        while provider.report().calls < number {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(600)).await;
        let answer = stored_answer(&server, &question(number)).await;
        assert_eq!(
            (&answer["replayed"], &answer["outcome"]),
            (&json!(true), &json!("answered")),
            "{path}"
        );
        assert_eq!(provider.report().calls, number, "{path}");
    }
    // The same without streaming.
    let body = question(5).to_string();
    let waiting = server.send("/v1/answers", "", body.as_bytes()).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(waiting);
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(
        (
            stored_answer(&server, &question(5)).await["replayed"].clone(),
            provider.report().calls
        ),
        (json!(true), 5)
    );
}

/// A search with a model stores no result: a disconnect cancels it.
#[tokio::test]
async fn model_searches_stop_on_disconnect() {
    let provider = Provider::start(Behavior::with_latency(Duration::from_millis(300)))
        .await
        .unwrap();
    let query = QuerySettings {
        answers: 1,
        ..QuerySettings::default()
    };
    let server = start_with_model_and(answer_model(&provider), query).await;
    let search = json!({ "query": "How much was R&D spending?", "strategy": "beam" }).to_string();
    let asker = server.send("/v1/search", "", search.as_bytes()).await;
    while provider.request_count() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(asker);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
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
    let began = Instant::now();
    assert_eq!(
        server
            .post("/v1/answers", &question(99).to_string())
            .await
            .status,
        200
    );
    assert_eq!(server.get("/v1/documents").await.status, 200);
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "slow readers hold no permit: {:?}",
        began.elapsed()
    );
    for mut stream in open {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert!(
            rest.contains("event: done"),
            "the complete stream arrives: {rest}"
        );
    }
}

#[tokio::test]
async fn excess_questions_get_retry_after() {
    let provider = Provider::start(Behavior::with_latency(Duration::from_millis(1_500)))
        .await
        .unwrap();
    let query = QuerySettings {
        answers: 1,
        ..QuerySettings::default()
    };
    let server = start_with_model_and(answer_model(&provider), query).await;
    let asks = (0..40).map(|number| {
        let (path, body) = match number % 2 {
            0 => ("/v1/answers", question(number)),
            _ => ("/v1/chat/completions", json!({ "model": "ACME_2022", "messages": [{ "role": "user", "content": question(number)["question"] }], "stream": true })),
        };
        let server = &server;
        async move { (path, server.post(path, &body.to_string()).await) }
    });
    let (replies, reading) = tokio::join!(futures::future::join_all(asks), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let began = Instant::now();
        (
            server
                .post("/v1/search", r#"{"query": "anvils"}"#)
                .await
                .status,
            began.elapsed(),
        )
    });
    assert!(
        reading.0 == 200 && reading.1 < Duration::from_secs(2),
        "reads do not wait for model requests: {reading:?}"
    );
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
                code_of(path, reply).as_str()
            ),
            (503, Some("2"), "server.busy")
        );
    }
    assert!(
        provider.report().calls <= answered.len(),
        "refused requests make no calls"
    );
}
