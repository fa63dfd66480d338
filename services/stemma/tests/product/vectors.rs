//! `stemma index vectors` and semantic routing, against a simulated endpoint.

use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use stemma_engine_testing::servers::free_port;
use stemma_engine_testing::wait::block_until;
use stemma_sim::{Behavior, Provider};
use tokio::runtime::Runtime;

use crate::serve::{ServerGuard, send_request};
use crate::support::{StemmaCommand, TestEnv};

/// Texts that are embedded: a document each of some sections, and one of more than fit into one call.
const DOCUMENTS: usize = 12;
const LONG: usize = 600;

/// An archive of texts, and an endpoint for their vectors.
struct VectorsEnv {
    lab: TestEnv,
    provider: Provider,
    /// Runs the provider.
    _runtime: Runtime,
}

impl VectorsEnv {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let provider = runtime
            .block_on(Provider::start(Behavior::default()))
            .unwrap();
        let lab = TestEnv::new();
        let subjects = [
            "anvils", "rockets", "tariffs", "patents", "vaccines", "loans",
        ];
        for n in 0..DOCUMENTS {
            let subject = subjects[n % subjects.len()];
            lab.put(
                &format!("d{n:02}.md"),
                (0..4)
                    .map(|at: usize| {
                        format!("# Of {subject} {at}\n\nWord {at} about {subject} in {n}.\n\n")
                    })
                    .collect::<String>(),
            );
        }
        lab.put(
            "long.md",
            (0..LONG)
                .map(|at: usize| format!("# Chapter {at}\n\nWhat is in chapter {at}.\n\n"))
                .collect::<String>(),
        );
        lab.ingest("store", &[]);
        Self {
            lab,
            provider,
            _runtime: runtime,
        }
    }

    fn command(&self, arguments: &[&str]) -> StemmaCommand {
        let command = self.lab.stemma("store", arguments.iter().copied());
        let command = command.env("STEMMA_EMBEDDINGS__MODEL", "near");
        let command = command.env(
            "STEMMA_EMBEDDINGS__BASE_URL",
            &self.provider.base_url("cli"),
        );
        let command = command.env("STEMMA_EMBEDDINGS__PRICES__INPUT", "0.1");
        command
            .env("STEMMA_EMBEDDINGS__CONCURRENCY", "1")
            .env("STEMMA_EMBEDDINGS__DOCUMENTS", "3")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let answer = self.command(&[&["--json"], arguments].concat()).run();
        assert_eq!(answer.code, Some(0), "{answer:?}");
        answer.json()
    }

    /// Waits until the endpoint was asked so often.
    fn wait_for_calls(&self, calls: usize) {
        block_until("the endpoint is asked", || {
            self.provider.request_count() >= calls
        });
    }
}

#[test]
fn vectors_are_budgeted_and_logged() {
    let hall = VectorsEnv::new();
    let estimate = hall.json(&["index", "vectors", "--estimate"]);
    assert_eq!(
        (
            estimate["documents"].as_u64(),
            hall.provider.request_count()
        ),
        (Some(DOCUMENTS as u64 + 1), 0)
    );
    let stopped = hall
        .command(&["--json", "index", "vectors", "--budget-tokens", "1000"])
        .run();
    assert_eq!(stopped.code, Some(4), "{stopped:?}");
    let first = stopped.json();
    assert!(
        hall.provider.report().all.prompt_tokens <= 1_000 && first["left"].as_u64() > Some(0),
        "{first}"
    );
    let second = hall.json(&["index", "vectors"]);
    let report = hall.provider.report();
    assert_eq!(
        (report.repeated, &second["left"]),
        (0, &json!(0)),
        "{report:?}"
    );
    let sum = |name: &str| first[name].as_u64().unwrap() + second[name].as_u64().unwrap();
    assert_eq!(sum("tokens"), estimate["tokens"].as_u64().unwrap());
    assert_eq!(
        (sum("calls"), sum("tokens")),
        (report.calls as u64, report.all.prompt_tokens)
    );
    let cost = hall.json(&["cost"]);
    let embed = &cost["by"]["embed"];
    assert_eq!(
        (embed["calls"].as_u64(), embed["prompt_tokens"].as_u64()),
        (Some(sum("calls")), Some(sum("tokens")))
    );
    let dollars = sum("tokens") as f64 * 0.1 / 1e6;
    assert!(
        (cost["total"]["dollars"].as_f64().unwrap() - dollars).abs() < 1e-7,
        "{cost}"
    );
    let of_one = hall.json(&["cost", "long"]);
    assert_eq!(
        of_one["total"]["calls"],
        json!(LONG.div_ceil(256)),
        "{of_one}"
    );
    let again = hall.json(&["index", "vectors"]);
    assert_eq!(
        (&again["sent"], hall.provider.request_count()),
        (&json!(0), report.calls)
    );
    let no_price = hall
        .command(&["--json", "index", "vectors", "--budget", "1"])
        .env("STEMMA_EMBEDDINGS__PRICES__INPUT", "");
    assert_eq!(no_price.run().code, Some(2));
}

#[test]
fn killed_embedding_run_does_not_pay_twice() {
    let hall = VectorsEnv::new();
    let calls = DOCUMENTS + LONG.div_ceil(256);
    hall.provider.limit_replies(calls - 2);
    let mut killed = hall.command(&["index", "vectors"]).start();
    // Each call is kept before the next one is made: one is under way, and no more is lost.
    hall.wait_for_calls(calls - 1);
    killed.signal(Signal::KILL);
    killed.end();
    hall.provider.limit_replies(usize::MAX);
    let before = hall.provider.report();
    let embedded = hall.json(&["index", "vectors"]);
    let report = hall.provider.report();
    assert_eq!(
        (report.repeated, report.calls),
        (0, calls + 1),
        "{before:?} {report:?}"
    );
    assert!(
        embedded["sent"].as_u64() < Some(2 * 256 + 5) && embedded["left"] == 0,
        "{embedded}"
    );
    // The parts of a document that is whole are gone.
    let parts = crate::support::files(&hall.lab.path("store"))
        .into_keys()
        .filter(|name| name.contains("/parts/"));
    assert!(parts.filter(|name| name.ends_with(".vec")).count() == 0);
}

#[test]
fn query_embedding_is_charged_to_the_question() {
    let hall = VectorsEnv::new();
    hall.json(&["index", "vectors"]);
    let asking = |arguments: &[&str]| {
        let command = hall.command(arguments).env("STEMMA_MODEL__NAME", "sim");
        command
            .env("STEMMA_MODEL__BASE_URL", &hall.provider.base_url("cli"))
            .run()
    };
    let response = asking(&[
        "--json",
        "search",
        "something about tariffs",
        "--strategy",
        "beam",
    ])
    .json();
    assert_eq!(response["routed"][0]["value"], "nearest", "{response}");
    let usage = &response["reasoning"]["spent"];
    let log = hall.json(&["cost"]);
    let stages = log["by"].as_object().unwrap();
    let of = |stage: &str| stages[stage]["calls"].as_u64().unwrap();
    let logged: u64 = stages
        .keys()
        .filter(|stage| *stage != "embed")
        .map(|stage| of(stage))
        .sum();
    assert!(logged > 0, "{log}");
    assert_eq!(
        usage["calls"].as_u64(),
        Some(logged + 1),
        "the vector of the question is one of them: {usage} {log}"
    );
    let answer = asking(&["--json", "ask", "What is said about vaccines?"]).json();
    let total: u64 = hall.json(&["cost"])["by"]
        .as_object()
        .unwrap()
        .values()
        .map(|sum| sum["calls"].as_u64().unwrap())
        .sum();
    let before: u64 = stages
        .values()
        .map(|sum| sum["calls"].as_u64().unwrap())
        .sum();
    assert_eq!(
        answer["usage"]["calls"].as_u64(),
        Some(total - before),
        "{answer}"
    );
}

#[test]
fn running_server_picks_up_new_vectors() {
    let hall = VectorsEnv::new();
    let port = free_port();
    let _server = ServerGuard::new(
        hall.command(&["serve", "--listen", &format!("127.0.0.1:{port}")])
            .start(),
    );
    let mut tools = McpSession::start(&hall);
    let all = search_until_indexed(port, DOCUMENTS + 1);
    assert_eq!(
        all["routed"][0]["value"], "nearest",
        "those without vectors stay in: {all}"
    );
    assert_eq!(
        tools.search("what is said of rockets")["documents_searched"],
        DOCUMENTS + 1
    );
    hall.json(&["index", "vectors"]);
    search_until_indexed(port, 3);
    let response = tools.search("what is said of rockets");
    assert_eq!(response["documents_searched"], 3, "{response}");
    let first = response["results"][0]["title"].as_str().unwrap();
    assert!(first.contains("rockets"), "{response}");
}

/// Searches until the index covers `documents`.
fn search_until_indexed(port: u16, documents: usize) -> Value {
    let began = Instant::now();
    loop {
        let body = json!({ "query": "what is said of rockets" }).to_string();
        let response = send_request(
            port,
            "POST /v1/search\nContent-Type: application/json\n",
            body.as_bytes(),
        );
        match response {
            Some((200, response)) if response["searched"]["documents"] == documents => {
                return response;
            }
            other => assert!(began.elapsed() < Duration::from_secs(60), "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// `stemma mcp`, called over its standard streams.
struct McpSession {
    child: std::process::Child,
    input: ChildStdin,
    lines: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
    calls: u32,
}

impl McpSession {
    fn start(hall: &VectorsEnv) -> Self {
        let mut command: Command = hall.command(&["mcp"]).into();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let mut tools = Self {
            child,
            input,
            lines,
            calls: 0,
        };
        let client = json!({ "name": "test", "version": "1" });
        let hello =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        tools.request("initialize", &hello);
        tools.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        tools
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.calls += 1;
        let id = self.calls;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let reply: Value = serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap();
            if reply["id"] == id {
                return reply["result"].clone();
            }
        }
    }

    fn search(&mut self, text: &str) -> Value {
        let called = self.request(
            "tools/call",
            &json!({ "name": "search", "arguments": { "query": text } }),
        );
        called["structuredContent"].clone()
    }
}

impl Drop for McpSession {
    fn drop(&mut self) {
        // It ends with the test, however that ends.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
