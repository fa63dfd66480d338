//! `stemma serve`: uploads, processing and reading in one process, and measurements of search.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use stemma_engine_testing::servers::free_port;
use stemma_filings::{FilingKind, Spec, generate};

use crate::support::{CommandOutput, RunningCommand, TestEnv};

const TIMEOUT: Duration = Duration::from_secs(90);

/// A server that ends with its test, however that ends.
pub struct ServerGuard(Option<RunningCommand>);

impl ServerGuard {
    pub fn new(running: RunningCommand) -> Self {
        Self(Some(running))
    }

    fn end(mut self) -> CommandOutput {
        let mut running = self.0.take().unwrap();
        running.signal(Signal::TERM);
        running.end()
    }
}

impl Drop for ServerGuard {
    fn drop(&mut self) {
        if let Some(running) = &mut self.0 {
            running.signal(Signal::KILL);
        }
    }
}

/// Status and body of an answer; `None` where no one listens.
pub fn send_request(port: u16, request: &str, body: &[u8]) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (line, head) = request.split_once('\n').unwrap_or((request, ""));
    let length = body.len();
    let head = head.replace('\n', "\r\n");
    let all = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{head}\r\n"
    );
    stream.write_all(all.as_bytes()).ok()?;
    stream.write_all(body).ok()?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).ok()?;
    let reply = String::from_utf8_lossy(&reply).into_owned();
    let (head, body) = reply.split_once("\r\n\r\n")?;
    Some((
        head.split(' ').nth(1)?.parse().ok()?,
        serde_json::from_str(body).unwrap_or_default(),
    ))
}

/// Asks until `done` says so.
fn wait_until(port: u16, request: &str, done: impl Fn(u16, &Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let answer = send_request(port, request, b"");
        if let Some((status, body)) = &answer
            && done(*status, body)
        {
            return body.clone();
        }
        assert!(began.elapsed() < TIMEOUT, "{request}: {answer:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn form(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut body = format!(
        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(bytes);
    body.extend_from_slice(b"\r\n--b--\r\n");
    body
}

#[test]
fn uploaded_documents_are_processed_read_and_removed() {
    let lab = TestEnv::new();
    lab.put("guide.md", "# One\n\nText of one.\n");
    lab.ingest("store", &[]);
    let port = free_port();
    let filing = generate(&Spec {
        pages: 9,
        ..Spec::new(FilingKind::TenQ, 5)
    })
    .pdf;
    let listen = format!("127.0.0.1:{port}");
    let server = ServerGuard(Some(
        lab.stemma("store", ["serve", "--listen", &listen]).start(),
    ));
    wait_until(port, "GET /docs/", |status, body| {
        status == 200 && body["total"] == 1
    });
    let sending = "POST /doc/\napi_key: any\nContent-Type: multipart/form-data; boundary=b\n";
    let (status, sent) = send_request(port, sending, &form("q1.pdf", &filing)).unwrap();
    assert_eq!((status, &sent["name"]), (200, &json!("q1.pdf")), "{sent}");
    let doc = sent["doc_id"].as_str().unwrap();
    let about = wait_until(
        port,
        &format!("GET /doc/{doc}/metadata/"),
        |status, body| {
            assert_eq!(
                status, 200,
                "it is known from the moment it was taken: {body}"
            );
            body["status"] == "completed"
        },
    );
    let (_, pages) = send_request(port, &format!("GET /doc/{doc}/?type=ocr"), b"").unwrap();
    assert_eq!(
        pages["result"].as_array().map(|all| json!(all.len())),
        Some(about["pageNum"].clone())
    );
    let refused = send_request(port, sending, &form("notes.exe", b"MZ")).unwrap();
    assert_eq!(
        (refused.0, &refused.1["code"]),
        (422, &json!("input.unsupported"))
    );
    let second = lab.stemma("store", ["ingest", "filings"]).run();
    assert_eq!(second.code, Some(2), "the store has one writer: {second:?}");
    let gone = send_request(port, &format!("DELETE /doc/{doc}/\napi_key: any\n"), b"").unwrap();
    assert_eq!((gone.0, &gone.1["deleted"]), (200, &json!(true)));
    assert_eq!(
        send_request(port, &format!("GET /doc/{doc}/metadata/"), b"")
            .unwrap()
            .0,
        404
    );
    let ended = server.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.err.contains(&format!("http://{listen}")),
        "{}",
        ended.err
    );
}

// The checks of an installation run in the background, and a process says what it serves some time after its start.
fn health_with_checks(port: u16, serves_lanes: bool) -> Value {
    wait_until(port, "GET /v1/health", |status, body| {
        let has_lanes = body["lanes"].as_array().is_some_and(|all| !all.is_empty());
        status == 200 && body["checks"]["at_ms"].is_u64() && (has_lanes || !serves_lanes)
    })
}

#[test]
fn health_has_the_process_and_the_checks_of_the_installation() {
    let lab = TestEnv::new();
    lab.put("guide.md", "# One\n\nText of one.\n");
    lab.ingest("store", &[]);
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let serving = lab.stemma("store", ["serve", "--listen", &listen]).start();
    let server = ServerGuard::new(serving);
    let report = health_with_checks(port, true);
    assert_eq!(report["processes"][0]["service"], "all", "{report}");
    let lanes = report["lanes"].as_array().unwrap().iter();
    assert!(
        lanes
            .clone()
            .any(|lane| lane["lane"] == "cpu" && lane["workers"] == 1),
        "{report}"
    );
    let checks = &report["checks"]["checks"];
    let result = |start: &str| {
        let mut all = checks.as_array().unwrap().iter();
        let found = all.find(|check| check["what"].as_str().unwrap().starts_with(start));
        found.unwrap_or_else(|| panic!("no {start}: {checks}"))["result"].clone()
    };
    assert_eq!(result("store "), "ok", "{checks}");
    assert_eq!(result("document extraction"), "ok", "{checks}");
    server.end();
}

#[test]
fn a_query_server_without_a_setting_of_the_cluster_shows_jobs_of_the_store() {
    let lab = TestEnv::new();
    lab.put("guide.md", "# One\n\nText of one.\n");
    lab.ingest("store", &[]);
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let querying = lab
        .stemma("store", ["query", "--listen", &listen])
        .env("STEMMA_BROKER__URL", "amqp://127.0.0.1:9");
    let server = ServerGuard::new(querying.start());
    let jobs = wait_until(port, "GET /v1/jobs", |status, _| status == 200);
    assert_eq!(jobs["items"][0]["state"], "finished", "{jobs}");
    let missing = "a cluster needs a store that all its processes reach";
    let checks = &health_with_checks(port, false)["checks"];
    assert!(checks.to_string().contains(missing), "{checks}");
    let ended = server.end();
    assert!(ended.err.contains(missing), "{ended:?}");
}

#[test]
fn retrieval_evaluation_scores_questions() {
    let lab = TestEnv::new();
    lab.put("guide.md", "# One\n\nText of one.\n");
    lab.put(
        "10-Q/a.pdf",
        generate(&Spec {
            pages: 12,
            ..Spec::new(FilingKind::TenQ, 5)
        })
        .pdf,
    );
    lab.ingest("store", &[]);
    let pages = lab
        .stemma(
            "store",
            ["--json", "search", "risk factors", "--in", "a", "-n", "1"],
        )
        .run()
        .json();
    let best = pages["hits"][0]["best_pages"][0]["page"].as_u64().unwrap();
    let ours = json!({ "id": 1, "question": "risk factors", "doc": "a.pdf", "gold_pages": [best], "kind": "x" });
    let theirs = json!({ "financebench_id": "fb", "question": "risk factors", "doc_name": "a", "answer": "…", "question_type": "y",
        "evidence": [{ "evidence_page_num": best - 1, "evidence_text": "…" }] });
    let none = json!({ "id": 3, "question": "risk factors", "doc": "b", "gold_pages": [1] });
    std::fs::write(
        lab.path("questions.jsonl"),
        format!("{ours}\n{theirs}\n{none}\n"),
    )
    .unwrap();
    let measured = lab
        .stemma("store", ["--json", "eval", "retrieval", "questions.jsonl"])
        .run();
    let eval = measured.json();
    assert_eq!(measured.code, Some(0), "{measured:?}");
    let all = &eval["means"][0];
    assert_eq!(
        (
            &all["questions"],
            &all["hit"]["1"],
            &all["mrr"],
            &all["document"]
        ),
        (&json!(2), &json!(1.0), &json!(1.0), &json!(1.0))
    );
    assert_eq!(
        (
            eval["means"].as_array().unwrap().len(),
            &eval["unscored"][0]["doc"]
        ),
        (3, &json!("3"))
    );
    let strict = lab
        .stemma(
            "store",
            [
                "eval",
                "retrieval",
                "questions.jsonl",
                "--everywhere",
                "--min",
                "hit@20=0.5",
            ],
        )
        .run();
    assert!(
        strict.code == Some(0) && strict.out.contains("hit@10"),
        "{strict:?}"
    );
    let wrong = lab
        .stemma(
            "store",
            [
                "--json",
                "eval",
                "retrieval",
                "questions.jsonl",
                "--min",
                "luck=1",
            ],
        )
        .run();
    assert_eq!(
        (wrong.code, &wrong.json()["error"]["code"]),
        (Some(2), &json!("eval.figure_unknown"))
    );
    let vectors = lab.stemma("store", ["--json", "index", "vectors"]).run();
    assert_eq!(
        (vectors.code, &vectors.json()["error"]["code"]),
        (Some(2), &json!("config.no_embeddings"))
    );
}
