//! `structure = "llm"` against a local provider.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use stemma_filings::{FilingKind, Spec, generate};

use crate::support::{CommandOutput, TestEnv, objects, trees};

const KEY: &str = "sk-not-to-be-seen-1234567890";

/// A provider that answers every question as its schema asks. The first calls get what `first` says.
struct StubProvider {
    url: String,
    received: Arc<Mutex<Vec<ReceivedCall>>>,
}

/// A call.
struct ReceivedCall {
    authorization: String,
    process: String,
    stage: String,
}

impl StubProvider {
    fn start(first: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let received: Arc<Mutex<Vec<ReceivedCall>>> = Arc::default();
        let book = Arc::clone(&received);
        // It lives as long as this process: nothing else will be listening here.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let book = Arc::clone(&book);
                std::thread::spawn(move || serve(stream.unwrap(), first, &book));
            }
        });
        Self { url, received }
    }

    fn ingest(&self, lab: &TestEnv, store: &str) -> CommandOutput {
        let command = lab
            .stemma(store, ["--json", "ingest", "filings"])
            .env("STEMMA_STRUCTURE", "llm");
        let command = command
            .env("STEMMA_MODEL__NAME", "echo")
            .env("STEMMA_MODEL__BASE_URL", &self.url);
        command.env("STEMMA_MODEL__API_KEY", KEY).run()
    }

    fn calls(&self) -> usize {
        self.received.lock().unwrap().len()
    }
}

/// Answers the calls of one connection until it ends.
fn serve(stream: TcpStream, first: &[&str], book: &Mutex<Vec<ReceivedCall>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((head, body)) = read_call(&mut reader) {
        let body: Value = serde_json::from_slice(&body).unwrap();
        let format = &body["response_format"]["json_schema"];
        let header = |name: &str| {
            let line = head
                .iter()
                .find(|line| line.to_lowercase().starts_with(name));
            line.and_then(|line| line.split_once(':'))
                .map(|(_, value)| value.trim().to_string())
                .unwrap_or_default()
        };
        let number = {
            let mut received = book.lock().unwrap();
            let stage = format["name"].as_str().unwrap().to_string();
            received.push(ReceivedCall {
                authorization: header("authorization"),
                process: header("x-stemma-process"),
                stage,
            });
            received.len() - 1
        };
        let (status, reply) = match first.get(number) {
            Some(status) => (*status, json!({ "error": { "message": "not now" } })),
            None => ("200 OK", completion(&format["schema"], &body["messages"])),
        };
        let reply = reply.to_string();
        let head = format!(
            "HTTP/1.1 {status}\r\nretry-after: 0\r\ncontent-length: {}\r\n\r\n",
            reply.len()
        );
        if stream
            .write_all(format!("{head}{reply}").as_bytes())
            .is_err()
        {
            return;
        }
    }
}

fn read_call(reader: &mut BufReader<TcpStream>) -> Option<(Vec<String>, Vec<u8>)> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        head.push(line.trim_end().to_string());
    }
    let length = head.iter().find_map(|line| {
        line.to_lowercase()
            .strip_prefix("content-length:")?
            .trim()
            .parse()
            .ok()
    })?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn completion(schema: &Value, messages: &Value) -> Value {
    let prompt = messages.as_array().unwrap().last().unwrap()["content"]
        .as_str()
        .unwrap();
    let sections = (1..=8).take_while(|number| prompt.contains(&format!("Section {number}:\n[")));
    let summaries: Vec<Value> = sections
        .map(|number| json!({ "section": number, "summary": "It says so." }))
        .collect();
    let answer: serde_json::Map<String, Value> = schema["properties"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, property): (&String, &Value)| {
            let value = match property["type"].as_str().unwrap() {
                "boolean" => json!(true),
                "array" => json!(summaries),
                _ => json!("It says what it says."),
            };
            (name.clone(), value)
        })
        .collect();
    json!({
        "choices": [{ "message": { "content": Value::Object(answer).to_string() }, "finish_reason": "stop" }],
        // Fewer than were sent would be a prompt that was cut.
        "usage": { "prompt_tokens": (prompt.len() / 4).max(100), "completion_tokens": 10 },
    })
}

fn lab() -> TestEnv {
    let lab = TestEnv::new();
    lab.put(
        "a.pdf",
        generate(&Spec {
            pages: 8,
            ..Spec::new(FilingKind::TenQ, 3)
        })
        .pdf,
    );
    lab.put("b.md", "# One\n\ntext\n\n## Two\n\nmore text\n".repeat(40));
    lab
}

#[test]
fn each_step_calls_once_and_the_key_does_not_leak() {
    let lab = lab();
    let provider = StubProvider::start(&["503 Away"]);
    let answer = provider.ingest(&lab, "store");
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let trees = trees(&lab.path("store"));
    let provenance = &trees["a.pdf"].tree.provenance;
    assert_eq!(provenance.model, "echo");
    let methods = trees["a.pdf"]
        .tree
        .walk()
        .filter_map(|(_, section)| section.summary.as_ref());
    assert!(methods.filter(|summary| summary.by == "echo").count() > 3);
    {
        let received = provider.received.lock().unwrap();
        assert!(
            received
                .iter()
                .all(|call| call.authorization == format!("Bearer {KEY}")
                    && call.process.starts_with("pid-"))
        );
        for stage in ["read_window", "summarize"] {
            assert!(received.iter().any(|call| call.stage == stage), "{stage}");
        }
    }
    let call_count = provider.calls();
    let objects = objects(&lab.path("store"));
    let records = objects.keys().filter(|key| key.contains("/calls/")).count();
    assert_eq!(
        records,
        call_count - 1,
        "one record per reply; the first call had none"
    );
    for (key, bytes) in &objects {
        assert!(
            !bytes
                .windows(KEY.len())
                .any(|window| window == KEY.as_bytes()),
            "{key} holds the key"
        );
    }
    assert!(!answer.out.contains(KEY) && !answer.err.contains(KEY));

    // Again: unchanged, and nothing is asked.
    let again = provider.ingest(&lab, "store");
    assert_eq!(again.json()["counts"]["unchanged"], 2);
    assert_eq!(provider.calls(), call_count);
}

#[test]
fn missing_model_config_fails_before_any_work() {
    let lab = lab();
    for (name, missing) in [("", "model.name"), ("echo", "model.base_url")] {
        let command = lab
            .stemma("store", ["ingest", "filings"])
            .env("STEMMA_STRUCTURE", "llm");
        let answer = command.env("STEMMA_MODEL__NAME", name).run();
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.err.contains(missing), "{answer:?}");
    }
    assert!(!lab.path("store").exists());
}

#[test]
fn api_key_is_not_printed() {
    let lab = lab();
    let answer = lab
        .stemma("store", ["config", "model"])
        .env("STEMMA_MODEL__API_KEY", KEY)
        .run();
    assert!(
        answer.out.contains("model.api_key") && !answer.out.contains(KEY),
        "{answer:?}"
    );
    assert!(answer.out.contains("***"), "{answer:?}");
}

#[test]
fn model_failures_are_summarized_and_policy_is_configurable() {
    let lab = lab();
    // It answers no call at all: the request itself is refused.
    static REFUSED: [&str; 4_000] = ["400 Bad Request"; 4_000];
    let provider = StubProvider::start(&REFUSED);
    let ingest = |store: &str, on_failure: &str| {
        let command = lab.stemma(
            store,
            [
                "--json",
                "ingest",
                "filings",
                "--on-model-failure",
                on_failure,
            ],
        );
        let command = command
            .env("STEMMA_STRUCTURE", "llm")
            .env("STEMMA_MODEL__NAME", "echo");
        command.env("STEMMA_MODEL__BASE_URL", &provider.url).run()
    };
    let gap = ingest("gap", "gap").json();
    assert_eq!(gap["counts"]["done_with_gaps"], 2, "{gap}");
    assert_eq!(
        gap["unanswered"]["model.summary_failed"], 1,
        "the sections of the other are their own summaries: {gap}"
    );
    assert!(
        gap["sections_without_summary"].as_u64().unwrap() > 3,
        "{gap}"
    );
    let offline = ingest("offline", "offline").json();
    assert_eq!(
        (
            &offline["unanswered"]["model.summary_failed"],
            &offline["sections_without_summary"]
        ),
        (&json!(1), &json!(0))
    );
    let fail = ingest("fail", "fail");
    assert_eq!(
        (fail.code, &fail.json()["counts"]["failed"]),
        (Some(3), &json!(2)),
        "{fail:?}"
    );
    let wrong = ingest("wrong", "ignore");
    assert!(
        wrong.code == Some(2) && wrong.err.contains("use fail, gap or offline"),
        "{wrong:?}"
    );
}

/// With a provider that stays away, documents are done by rules; when it is back, the open calls are made.
#[test]
fn rerun_failed_repeats_unanswered_model_calls() {
    let lab = lab();
    let ingest = |url: &str, arguments: &[&str]| {
        let command = lab
            .stemma("store", ["--json", "ingest", "filings"])
            .args(arguments)
            .env("STEMMA_STRUCTURE", "llm");
        let command = command
            .env("STEMMA_MODEL__NAME", "echo")
            .env("STEMMA_MODEL__BASE_URL", url);
        let command = command
            .env("STEMMA_MODEL__API_KEY", KEY)
            .env("STEMMA_MODEL__PATIENCE_SECONDS", "1");
        command
            .env("STEMMA_MODEL__INTERACTIVE_PATIENCE_SECONDS", "1")
            .run()
    };
    let answer = ingest("http://127.0.0.1:9/v1", &[]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert_eq!(
        answer.err.matches("the model was unreachable").count(),
        1,
        "{answer:?}"
    );
    let tree = &trees(&lab.path("store"))["a.pdf"].tree;
    assert!(
        tree.sections.len() > 1
            && tree
                .gaps
                .iter()
                .any(|gap| gap.code == "model.summary_failed")
    );

    let provider = StubProvider::start(&[]);
    assert_eq!(ingest(&provider.url, &[]).json()["counts"]["unchanged"], 2);
    let answer = ingest(&provider.url, &["--rerun-failed"]);
    assert_eq!(
        (answer.code, &answer.json()["counts"]["unchanged"]),
        (Some(0), &json!(0)),
        "{answer:?}"
    );
    let gaps = &trees(&lab.path("store"))["a.pdf"].tree.gaps;
    assert!(
        gaps.iter().all(|gap| !gap.code.ends_with("_failed")),
        "{gaps:?}"
    );
}
