//! One client cannot take what the others need: places, threads, memory.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use stemma_document::FilingFacts;
use stemma_engine_testing::wait::wait_until;
use stemma_gateway::auth::{KeyScope, KeySettings, key_digest};
use stemma_sample_store as store;
use stemma_store::blobs::{Blobs, MemoryBlobs};
use stemma_store::work::busy_threads;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::test_server::{TestServer, bearer, settings, try_start_with};
use crate::{QuerySettings, ServerDeps};

const LIMIT: Duration = Duration::from_secs(120);

fn key(name: &str, scopes: &[KeyScope]) -> KeySettings {
    KeySettings {
        name: name.into(),
        blake3: key_digest(name),
        scopes: scopes.to_vec(),
        ..KeySettings::default()
    }
}

/// A server with the keys `greedy` and `other` over `blobs`.
async fn start(blobs: Arc<dyn Blobs>, concurrency: usize) -> TestServer {
    let query = QuerySettings {
        keys: vec![
            key("greedy", &[KeyScope::Read]),
            key("other", &[KeyScope::Read]),
        ],
        concurrency,
        ..QuerySettings::default()
    };
    let server = try_start_with(settings(query), blobs, ServerDeps::default()).await;
    let server = server.unwrap();
    server.ready(&bearer("other")).await;
    server
}

async fn send(server: &TestServer, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.serving.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn assert_served(server: &TestServer, key: &str, path: &str) {
    let read = format!("GET {path} HTTP/1.1\r\n{}", bearer(key));
    let reply = server.request(&read).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.body);
}

#[tokio::test]
async fn slow_bodies_of_any_type_hold_no_places() {
    let server = start(store::store().await, 4).await;
    let mut open = Vec::new();
    for path in [
        "/login",
        "/logout",
        "/ask",
        "/jobs/j/control",
        "/jobs/j/retry",
        "/health/replay",
        "/documents/ACME_2022/pages/1/description",
        "/v1/search",
        "/doc/",
        "/upload",
    ] {
        for head in ["", &bearer("greedy")] {
            for _ in 0..8 {
                let request = format!(
                    "POST {path} HTTP/1.1\r\nHost: localhost\r\n{head}Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000\r\n\r\n--b\r\n"
                );
                open.push(send(&server, &request).await);
            }
        }
        // Connections are accepted in order, so these requests have been received.
        for key in ["greedy", "other"] {
            assert_served(&server, key, "/v1/documents").await;
        }
        assert_eq!(server.get("/login").await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn forms_are_urlencoded_and_small_without_a_key() {
    let server = start(store::store().await, 4).await;
    let post = |kind: &str, body: &str| {
        let length = body.len();
        let request = format!(
            "POST /login HTTP/1.1\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let server = &server;
        async move { server.request(&request).await }
    };
    for kind in [
        "multipart/form-data; boundary=b",
        "application/json",
        "text/plain",
    ] {
        let reply = post(kind, "key=k").await;
        assert_eq!(
            (reply.status, reply.code()),
            (415, "body.type_unsupported".into()),
            "{kind}"
        );
    }
    let form = "application/x-www-form-urlencoded; charset=utf-8";
    assert_eq!(post(form, "key=k").await.code(), "form.token_invalid");
    let long = format!("key={}", "k".repeat(5_000));
    assert_eq!(post(form, &long).await.code(), "body.too_large");
}

fn call(tool: &str, arguments: &Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let body = body.to_string();
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\n{}Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
        bearer("greedy")
    )
}

/// Lines and words that no document has: of `bytes` letters without a space.
fn long_word(bytes: usize) -> String {
    let letters =
        (0..bytes as u32).map(|at| char::from(b'a' + (at.wrapping_mul(2_654_435_761) >> 28) as u8));
    letters.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn computing_ends_with_its_request_and_leaves_threads_to_others() {
    let blobs = store::store().await;
    let word = long_word(1 << 20);
    store::publish_pages(
        blobs.as_ref(),
        "long.pdf",
        &[&format!("# Long\n{word}\n{word}")],
    )
    .await;
    let server = start(blobs, 64).await;
    let cores = std::thread::available_parallelism().unwrap().get();
    let cores = cores.min(40); // one key has 48 of 64 places
    let slow_pattern = "(?:[a-z]{0,40}[aeiou]){20}[0-9]";
    let grep = call(
        "grep_document",
        &json!({ "doc_name": "long.pdf", "pattern": slow_pattern }),
    );
    let mut open = Vec::new();
    for _ in 0..64 {
        open.push(send(&server, &grep).await);
    }
    wait_until("the greps run", async || busy_threads() >= cores).await;
    // It waits for a thread of its client, and no other client waits for it.
    let tree = format!(
        "GET /v1/documents/ACME_2022/tree HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        bearer("greedy")
    );
    open.push(send(&server, &tree).await);
    assert_served(&server, "other", "/v1/documents").await;
    for _ in 0..3 {
        assert_served(&server, "other", "/v1/documents/ACME_2022/pages?range=1").await;
        assert_eq!(server.get("/readyz").await.status, 200);
        assert_eq!(server.get("/livez").await.status, 200);
        wait_until("the greps still run", async || busy_threads() >= cores).await;
    }
    // The clients go: what runs stops, and what waits never begins.
    drop(open);
    wait_until("the greps end", async || busy_threads() == 0).await;
    let read = call(
        "get_page_content",
        &json!({ "doc_name": "long.pdf", "pages": "1" }),
    );
    let mut open = Vec::new();
    for _ in 0..64 {
        open.push(send(&server, &read).await);
    }
    assert_served(&server, "other", "/v1/documents/ACME_2022/pages?range=1").await;
    assert_eq!(server.get("/readyz").await.status, 200);
    drop(open);
    wait_until("the reads end", async || busy_threads() == 0).await;
}

/// The highest resident memory of this process so far, in MiB.
fn peak_memory_mib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim()
        .trim_end_matches(" kB")
        .parse::<usize>()
        .unwrap()
        / 1024
}

/// Requests `path` so many times for `greedy`, and reads no more than the statuses: some are refused, and the others stay open.
async fn leave_unread(server: &TestServer, path: &str, count: usize) -> Vec<TcpStream> {
    let read = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        bearer("greedy")
    );
    let mut open = Vec::new();
    for _ in 0..count {
        open.push(send(server, &read).await);
    }
    let mut statuses = Vec::new();
    for stream in &mut open {
        let mut head = [0; 12];
        let read = tokio::time::timeout(LIMIT, stream.read_exact(&mut head)).await;
        read.unwrap().unwrap();
        statuses.push(String::from_utf8_lossy(&head[9..]).into_owned());
    }
    let served = statuses.iter().filter(|status| *status == "200").count();
    let busy = statuses.iter().filter(|status| *status == "503").count();
    assert!(
        served > 0 && busy > 0 && served + busy == count,
        "{path}: {statuses:?}"
    );
    open
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_responses_hold_a_bounded_memory() {
    let blobs = Arc::new(MemoryBlobs::default());
    let line = format!("{}\n", "All lines of the large text are alike. ".repeat(25));
    let text = format!("# Large\n{}", line.repeat(10_000));
    let body = store::pages(&[&text]);
    drop(text);
    store::publish(blobs.as_ref(), "large.pdf", body, FilingFacts::default()).await;
    store::publish_pages(blobs.as_ref(), "small.pdf", &["# Small\ntext"]).await;
    let file = vec![b'a'; 16 << 20];
    let body = store::pages(&["# File"]);
    store::publish_file(blobs.as_ref(), "file.pdf", file, body, Default::default()).await;
    let server = start(blobs, 64).await;
    let before = peak_memory_mib();
    let large = "/v1/documents/large.pdf/pages?range=1";
    // Each response holds one chunk of its file in memory.
    let open = leave_unread(&server, "/v1/documents/file.pdf/source", 150).await;
    assert_served(&server, "other", large).await;
    drop(open);
    let _open = leave_unread(&server, large, 60).await;
    // Another client has memory of its own, and a client small responses.
    assert_served(&server, "other", large).await;
    assert_served(&server, "greedy", "/v1/documents/small.pdf/pages?range=1").await;
    let added = peak_memory_mib() - before;
    assert!(added < 450, "{added} MiB");
}
