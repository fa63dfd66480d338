//! Questions nobody asks in good faith: each is answered, or refused with a code, and soon.

use std::fmt::Write;
use std::time::{Duration, Instant};

use serde_json::json;

use super::tests::{Server, start};
use crate::GrepOptions;

const QUESTIONS: usize = 1_000;
/// An unoptimized build on a busy machine; nothing here takes a tenth of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Numbers that look random and are the same in each run (Knuth's MMIX multiplier).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
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
const BOMBS: [&str; 8] = [
    "(a+)+$",
    "(a|a)*b",
    "(.*)*x",
    "((((((((((a{99}){99}){99}){99})))))))",
    "[^]",
    "(?<n>a)\\k<n>",
    "\\p{Greek}{1000}",
    "(?i)(x+x+)+y",
];
const STRANGE: [char; 16] = [
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

/// A text of one or more hostile parts.
fn text(dice: &mut Dice) -> String {
    let mut text = String::new();
    for _ in 0..=dice.below(3) {
        match dice.below(7) {
            0 => {
                text.push_str(
                    &dice.of(&["a ", "risk ", "年", "((", "\"", "😀", "x"]).repeat(dice.of(&[1, 100, 9_000])),
                );
            }
            1 => (0..dice.below(40)).for_each(|_| text.push(dice.of(&STRANGE))),
            2 => text.push_str(dice.of(&BOMBS)),
            3 => text.push_str(dice.of(&SYNTAX)),
            4 => text.push_str(&dice.of(&["9", "-9", "1e", "0x", "٣", "½"]).repeat(dice.of(&[1, 20, 400]))),
            5 => text.push_str(dice.of(&["risk", "currency", "2022", "10-K", "item 1a", "the", "营业收入"])),
            _ => (0..dice.below(60)).for_each(|_| text.extend(char::from_u32(dice.below(0x11_0000) as u32))),
        }
        text.push(' ');
    }
    text
}

/// Any text as a part of a URL.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes().take(5_000) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'@' | b'~' | b'.' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

async fn ask(server: &Server, dice: &mut Dice) -> (String, super::tests::Reply) {
    let text = text(dice);
    let path = encoded(&text);
    let post = |path: &'static str, body: serde_json::Value| async move {
        let body = body.to_string();
        (format!("POST {path} {body}"), server.post(path, &body).await)
    };
    let get = |path: String| async move { (format!("GET {path}"), server.get(&path).await) };
    match dice.below(10) {
        0..=3 => post("/v1/search", json!({ "query": text, "explain": dice.below(2) == 0 })).await,
        4 => post("/v1/search", json!({ "query": "risk", "scopes": [text], "item": "1A" })).await,
        5 => post("/v1/search", json!({ "query": "risk", "where": text, "cursor": path })).await,
        6 => post("/v1/browse", json!({ "query": text, "recursive": true, "where": { "name": [text] } })).await,
        7 => get(format!("/v1/fs/{path}")).await,
        8 => get(format!("/v1/documents?q={path}&where={path}&company={path}")).await,
        _ => {
            let tail = dice.of(&["", "/tree", "/pages?range=1", "/items/1A", "/sections/0001", "/source"]);
            get(format!("/v1/documents/{}{tail}", path.replace('/', "%2F"))).await
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_questions_are_answered_or_refused() {
    let (server, mut dice) = (start().await, Dice(7));
    let (mut answered, mut refused) = (0, 0);
    for at in 0..QUESTIONS {
        let began = Instant::now();
        let (question, reply) = ask(&server, &mut dice).await;
        let shown: String = question.chars().take(300).collect();
        assert!(began.elapsed() < PATIENCE, "{at} took {:?}: {shown:?}", began.elapsed());
        match reply.status {
            200 => answered += 1,
            // Longer than a request line may be: hyper answers without a body.
            414 | 431 => refused += 1,
            400..=499 => {
                assert!(!reply.code().is_empty(), "{at}: {shown:?}");
                refused += 1;
            }
            status => panic!("{at}: {status} {} to {shown:?}", reply.body),
        }
    }
    assert!(answered > QUESTIONS / 10 && refused > QUESTIONS / 10, "{answered} answered, {refused} refused");
}

#[tokio::test]
async fn hostile_patterns_take_no_time() {
    let blobs = crate::tests::store().await;
    let reader = crate::Reader::open(blobs, stemma_document::Collection::default()).await.unwrap();
    let mut dice = Dice(11);
    for at in 0..200 {
        let (pattern, fixed) = (text(&mut dice), dice.below(3) == 0);
        let options = GrepOptions { pattern, ignore_case: true, fixed, limit: 100 };
        let began = Instant::now();
        if let Err(refusal) = reader.grep("/", &options).await {
            assert_eq!(refusal.code, "grep.pattern", "{at}: {refusal}");
        }
        assert!(began.elapsed() < PATIENCE, "{at} took {:?}", began.elapsed());
    }
}
