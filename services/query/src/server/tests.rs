//! A server on a free port of this machine, over the store of the other tests.

use std::time::Duration;

use serde_json::Value;
use stemma_engine::presence::Presence;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::tests as store;

struct Server {
    serving: Serving,
    stop: CancellationToken,
    blobs: Arc<dyn Blobs>,
}

/// Status, headers and body of an answer.
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    fn code(&self) -> String {
        assert!(self.head.contains("application/problem+json"), "{}", self.head);
        assert_eq!(self.json()["trace_id"].as_str().map(str::len), Some(32));
        self.json()["code"].as_str().unwrap_or_default().into()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

fn settings(query: QuerySettings) -> ServerSettings {
    let listen = "127.0.0.1:0".parse().unwrap();
    ServerSettings { listen, collections: vec![Collection::default()], query, allow_anonymous: false }
}

async fn try_start(settings: ServerSettings) -> Result<Server, ServeError> {
    let (env, blobs, stop) = (Env::system(), store::store().await, CancellationToken::new());
    let blobs: Arc<dyn Blobs> = blobs;
    let health = Health::of_blobs(&env, &Presence::new(&env, "q", "query"), &blobs);
    let serving = serve(env, Arc::clone(&blobs), settings, health, None, stop.clone()).await?;
    let server = Server { serving, stop, blobs };
    while server.get("/v1/documents").await.status == 503 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(server)
}

async fn start() -> Server {
    try_start(settings(QuerySettings::default())).await.unwrap()
}

impl Server {
    async fn get(&self, path: &str) -> Reply {
        self.ask(&format!("GET {path} HTTP/1.1\r\n")).await
    }

    async fn post(&self, path: &str, body: &str) -> Reply {
        let length = body.len();
        self.ask(&format!(
            "POST {path} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .await
    }

    async fn ask(&self, request: &str) -> Reply {
        let mut stream = TcpStream::connect(self.serving.address).await.unwrap();
        let (line, rest) = request.split_once("\r\n").unwrap();
        let rest = if rest.contains("\r\n\r\n") { rest.to_string() } else { format!("{rest}\r\n") };
        let request = format!("{line}\r\nHost: test\r\nConnection: close\r\n{rest}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.to_string(), body: body.to_string() }
    }
}

#[tokio::test]
async fn a_listing_goes_page_by_page_and_a_bad_cursor_is_no_page_one() {
    let server = start().await;
    let whole = server.get("/v1/documents?limit=500").await.json();
    let total = whole["items"].as_array().unwrap().len();
    assert_eq!(whole["total"], total);
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/documents?limit=2{cursor}")).await.json();
        names.extend(page["items"].as_array().unwrap().iter().map(|item| item["doc_id"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    let ids: Vec<Value> = whole["items"].as_array().unwrap().iter().map(|item| item["doc_id"].clone()).collect();
    assert_eq!(names, ids);
    assert_eq!(server.get(&format!("/v1/documents?form=10-K{cursor}")).await.code(), "cursor.invalid");
    assert_eq!(server.get("/v1/documents?cursor=1").await.status, 400);
    let annual = server.get("/v1/documents?form=10-K&fiscal_year=2022").await.json();
    assert_eq!((annual["total"].clone(), annual["items"][0]["name"].clone()), (1.into(), "ACME_2022.pdf".into()));
    assert_eq!(server.get("/v1/documents?form=none").await.json()["total"], 0);
}

#[tokio::test]
async fn a_document_is_read_by_tree_pages_sections_and_items() {
    let server = start().await;
    let stat = server.get("/v1/documents/ACME_2022").await.json();
    let id = stat["document"]["doc_id"].as_str().unwrap().to_string();
    assert_eq!(server.get(&format!("/v1/documents/{id}")).await.json(), stat);
    let tree = server.get("/v1/documents/ACME_2022/tree?depth=1").await;
    assert!(tree.json()["sections"].as_array().unwrap().iter().all(|row| row["depth"] == 1));
    let tag = tree.header("etag").unwrap();
    let again = server.ask(&format!("GET /v1/documents/{id}/tree HTTP/1.1\r\nIf-None-Match: \"x\", {tag}\r\n")).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let outline = server.get(&format!("/v1/documents/{id}/tree?format=outline")).await;
    assert!(outline.body.contains("Item 1. Business  p 2–2"), "{}", outline.body);
    assert!(server.get(&format!("/v1/documents/{id}/tree?format=pageindex")).await.json()["structure"].is_array());
    let pages = server.get(&format!("/v1/documents/{id}/pages?range=2-3,5")).await.json();
    let numbers: Vec<_> = pages["pages"].as_array().unwrap().iter().map(|page| page["page"].clone()).collect();
    assert_eq!(numbers, [2, 3, 5]);
    let section = server.get(&format!("/v1/documents/{id}/sections/0002?text=true")).await.json();
    assert!(section["text"].as_str().unwrap().contains("anvils"), "{section}");
    assert!(!server.get(&format!("/v1/documents/{id}/items")).await.json()["items"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn a_search_finds_sections() {
    let server = start().await;
    let found =
        server.post("/v1/search", r#"{"query": "currency risk", "scopes": ["/10-K"], "limit": 3}"#).await.json();
    assert_eq!(found["hits"][0]["name"], "ACME_2022.pdf", "{found}");
}

/// What a request gets wrong is never the server's fault, and always says what.
#[tokio::test]
async fn bad_requests_are_refused_with_a_code() {
    let server = start().await;
    let cases = [
        ("/v1/documents/nothing-like-it", 404, "locator.not_found"),
        ("/v1/documents/ACME", 404, "locator.not_found"),
        ("/v1/documents/ACME_2022/sections/9999", 404, "locator.no_section"),
        ("/v1/documents/ACME_2022/sections/x", 400, "request.invalid"),
        ("/v1/documents/ACME_2022/pages?range=6", 404, "locator.no_page"),
        ("/v1/documents/ACME_2022/pages?range=0", 400, "request.invalid"),
        ("/v1/documents/ACME_2022/pages", 400, "request.invalid"),
        ("/v1/documents/ACME_2022/pages?range=1-4000000000,1-4000000000", 422, "request.invalid"),
        ("/v1/documents/ACME_2022/tree?depth=x", 400, "request.invalid"),
        ("/v1/documents/ACME_2022/tree?format=xml", 400, "request.invalid"),
        ("/v1/documents/ACME_2022/tree?node=%00", 400, "request.invalid"),
        ("/v1/documents?limit=501", 400, "request.invalid"),
        ("/v1/documents?limit=0", 400, "request.invalid"),
        ("/v1/documents?color=red", 400, "request.invalid"),
        ("/v1/documents?collection=../other", 404, "collection.unknown"),
        ("/v1/documents/..%2f..%2fetc%2fpasswd/tree", 404, "locator.not_found"),
        ("/v2", 404, "route.unknown"),
        ("/v1/search", 405, "route.method"),
    ];
    for (path, status, code) in cases {
        let reply = server.get(path).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{path}: {}", reply.body);
    }
    for (body, status) in [
        ("{", 400),
        ("[]", 422),
        (r#"{"query": 1}"#, 422),
        (r#"{"query": "the", "limit": 0}"#, 422),
        (r#"{"query": "?"}"#, 422),
    ] {
        assert_eq!(server.post("/v1/search", body).await.status, status, "{body}");
    }
    let large = format!(r#"{{"query": "{}"}}"#, "x".repeat(70_000));
    assert_eq!(server.post("/v1/search", &large).await.code(), "body.too_large");
}

/// A document without a tree is no error: its state is the answer.
#[tokio::test]
async fn a_document_without_a_tree_says_its_state() {
    let server = start().await;
    let all = server.get("/v1/documents").await.json();
    let open = all["items"].as_array().unwrap().iter().find(|item| item["state"] == "failed").expect("one failed");
    let reply = server.get(&format!("/v1/documents/{}/tree", open["doc_id"].as_str().unwrap())).await;
    assert_eq!((reply.status, reply.json()["ready"].clone()), (200, false.into()), "{}", reply.body);
    assert_eq!(reply.json()["document"]["state"], "failed");
}

#[tokio::test]
async fn what_is_published_shows_within_two_seconds() {
    let server = start().await;
    store::publish_now(server.blobs.as_ref(), "10-K/NEW_2023.pdf", Env::system().now_ms()).await;
    let began = std::time::Instant::now();
    while server.get("/v1/documents/NEW_2023/tree").await.status != 200 {
        assert!(began.elapsed() < Duration::from_secs(2), "not yet visible");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.stop.cancel();
    server.serving.ended().await.unwrap();
}

#[tokio::test]
async fn others_than_this_machine_need_a_key() {
    let open = ServerSettings { listen: "0.0.0.0:0".parse().unwrap(), ..settings(QuerySettings::default()) };
    assert!(matches!(try_start(open).await, Err(ServeError::Anonymous { .. })));
    let blake3 = blake3::hash(b"open sesame").to_string();
    let keys = vec![KeySettings { name: "ali".into(), blake3, collections: vec!["other".into()] }];
    let server = try_start(settings(QuerySettings { keys, ..QuerySettings::default() })).await.unwrap();
    let reply = server.get("/v1/documents").await;
    assert_eq!(
        (reply.status, reply.code().as_str(), reply.header("www-authenticate")),
        (401, "key.unknown", Some("Bearer"))
    );
    let with_key = "GET /v1/documents HTTP/1.1\r\nAuthorization: Bearer open sesame\r\n";
    let reply = server.ask(with_key).await;
    assert_eq!((reply.status, reply.code().as_str()), (403, "collection.unknown"));
    assert_eq!(server.get("/livez").await.status, 200);
}
