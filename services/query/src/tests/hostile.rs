//! Hostile requests: each is answered, or refused with a code.

use std::fmt::Write;

use serde_json::{Value, json};
use stemma_sim::{Behavior, Provider};

use super::test_server::{TestReply, TestServer, start, start_with_model_and};
use crate::QuerySettings;
use stemma_archive::GrepOptions;
use stemma_sample_store::model::answer_model;

const QUESTIONS: usize = 1_000;
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

async fn send_hostile_request(server: &TestServer, rng: &mut HostileRng) -> (String, TestReply) {
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
        let (question, reply) = send_hostile_request(&server, &mut rng).await;
        let excerpt: String = question.chars().take(300).collect();
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
    let archive = stemma_archive::Archive::open(
        &stemma_store::Env::system(),
        blobs,
        stemma_document::Collection::default(),
    )
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
        if let Err(refusal) = archive.grep("/", &options).await {
            assert_eq!(refusal.code, "grep.pattern_invalid", "{at}: {refusal}");
        }
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
    match rng.below(7) {
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
            "/chat/completions/",
            json!({ "messages": messages, "doc_id": rng.choose(&["ACME_2022", "#", ""]), "enable_citations": true }),
        ),
        5 => (
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
        let (path, body) = hostile_question(&mut rng);
        let reply = server.post(path, &body.to_string()).await;
        let excerpt: String = body.to_string().chars().take(300).collect();
        match reply.status {
            200 => answered += 1,
            400..=499 => {
                assert!(!reply.code_on(path).is_empty(), "{at}: {excerpt:?}");
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
