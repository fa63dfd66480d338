//! The server on a local port over the sample store.

use std::time::Duration;

use serde_json::Value;
use stemma_engine::heartbeat::HeartbeatReporter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::*;
use stemma_gateway::auth::KeySettings;
use stemma_sample_store as store;

pub(super) struct TestServer {
    pub(super) serving: HealthServer,
    stop: CancellationToken,
    blobs: Arc<dyn Blobs>,
    _cache: tempfile::TempDir,
}

/// Status, headers and body of a response.
pub(super) struct TestReply {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl TestReply {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(super) fn code(&self) -> String {
        assert!(
            self.head.contains("application/problem+json"),
            "{}",
            self.head
        );
        assert_eq!(self.json()["trace_id"].as_str().map(str::len), Some(32));
        self.json()["code"].as_str().unwrap_or_default().into()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

fn settings(query: QuerySettings) -> ServerSettings {
    let listen = "127.0.0.1:0".parse().unwrap();
    ServerSettings {
        listen,
        collections: vec![Collection::default()],
        query,
        allow_anonymous: false,
        cache: PathBuf::new(),
        model: None,
    }
}

async fn try_start(settings: ServerSettings) -> Result<TestServer, ServeError> {
    try_start_with(settings, store::store().await, ServerDeps::default()).await
}

/// A server that answers questions with this model.
pub(super) async fn start_answering(model: stemma_answers::tree_search::AnswerModel) -> TestServer {
    start_with_model_and(model, QuerySettings::default()).await
}

/// Like [`start_answering`], with a configuration.
pub(super) async fn start_with_model_and(
    model: stemma_answers::tree_search::AnswerModel,
    query: QuerySettings,
) -> TestServer {
    let store: Arc<dyn Blobs> = Arc::new(stemma_engine::blobs::MemoryBlobs::default());
    let service = stemma_archive::AnswerService::new(
        Env::system(),
        store,
        stemma_archive::AnswerSettings::default(),
        stemma_mcp::agent_tools,
    );
    let settings = ServerSettings {
        model: Some(model),
        ..settings(query)
    };
    let deps = ServerDeps {
        answerers: Some(Arc::new(service)),
        ..ServerDeps::default()
    };
    try_start_with(settings, store::store().await, deps)
        .await
        .unwrap()
}

/// A server with these dependencies.
pub(super) async fn start_with(deps: ServerDeps) -> TestServer {
    start_over(store::store().await, deps).await
}

/// Like [`start_with`], with a configuration.
pub(super) async fn start_configured(query: QuerySettings, deps: ServerDeps) -> TestServer {
    try_start_with(settings(query), store::store().await, deps)
        .await
        .unwrap()
}

/// Like [`start_with`], over another store.
pub(super) async fn start_over(blobs: Arc<dyn Blobs>, deps: ServerDeps) -> TestServer {
    try_start_with(settings(QuerySettings::default()), blobs, deps)
        .await
        .unwrap()
}

async fn try_start_with(
    mut settings: ServerSettings,
    blobs: Arc<dyn Blobs>,
    deps: ServerDeps,
) -> Result<TestServer, ServeError> {
    let cache = tempfile::tempdir().unwrap();
    settings.cache = cache.path().into();
    let env = Env::system();
    let stop = CancellationToken::new();
    let health = Health::for_blobs(&env, &HeartbeatReporter::new(&env, "q", "query"), &blobs);
    let serving = serve(
        env,
        Arc::clone(&blobs),
        settings,
        deps,
        health,
        None,
        stop.clone(),
    )
    .await?;
    let server = TestServer {
        serving,
        stop,
        blobs,
        _cache: cache,
    };
    server.ready("").await;
    Ok(server)
}

pub(super) async fn start() -> TestServer {
    try_start(settings(QuerySettings::default())).await.unwrap()
}

/// A server with one configured key.
pub(super) async fn start_with_key(key: &str) -> TestServer {
    let blake3 = blake3::hash(key.as_bytes()).to_string();
    let keys = vec![KeySettings {
        name: "reader".into(),
        blake3,
        ..KeySettings::default()
    }];
    let server = try_start(settings(QuerySettings {
        keys,
        ..QuerySettings::default()
    }))
    .await
    .unwrap();
    server.ready(&bearer(key)).await;
    server
}

/// The `Authorization` header line of a key.
pub(super) fn bearer(key: &str) -> String {
    format!("Authorization: Bearer {key}\r\n")
}

impl TestServer {
    pub(super) async fn get(&self, path: &str) -> TestReply {
        self.request(&format!("GET {path} HTTP/1.1\r\n")).await
    }

    pub(super) async fn post(&self, path: &str, body: &str) -> TestReply {
        self.post_with("", path, body).await
    }

    /// Like [`Self::post`], with additional header lines.
    pub(super) async fn post_with(&self, head: &str, path: &str, body: &str) -> TestReply {
        let length = body.len();
        self.request(&format!(
            "POST {path} HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .await
    }

    /// Waits until catalog and index are loaded in the background.
    pub(super) async fn ready(&self, head: &str) {
        let listing = format!("GET /v1/documents HTTP/1.1\r\n{head}");
        while self.request(&listing).await.status == 503
            || self
                .post_with(head, "/v1/search", r#"{"query": "anvils"}"#)
                .await
                .status
                == 503
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Like [`Self::post`], with an `Accept` header.
    pub(super) async fn stream(&self, path: &str, body: &str, accept: &str) -> TestReply {
        self.post_with(&format!("Accept: {accept}\r\n"), path, body)
            .await
    }

    pub(super) async fn request(&self, request: &str) -> TestReply {
        self.request_to("localhost", request).await
    }

    /// Like [`Self::request`], with another `Host`.
    pub(super) async fn request_to(&self, host: &str, request: &str) -> TestReply {
        let mut stream = TcpStream::connect(self.serving.address).await.unwrap();
        let (line, rest) = request.split_once("\r\n").unwrap();
        let rest = if rest.contains("\r\n\r\n") {
            rest.to_string()
        } else {
            format!("{rest}\r\n")
        };
        let request = format!("{line}\r\nHost: {host}\r\nConnection: close\r\n{rest}");
        stream.write_all(request.as_bytes()).await.unwrap();
        Self::read(&mut stream).await
    }

    /// Posts bytes and returns the connection without reading the response. The server may close it before all is written.
    pub(super) async fn send(&self, path: &str, head: &str, body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.serving.address).await.unwrap();
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        drop(stream.write_all(body).await);
        stream
    }

    /// Reads the response from a connection.
    pub(super) async fn read(stream: &mut TcpStream) -> TestReply {
        Self::read_rest(stream, String::new()).await
    }

    /// Like [`Self::read`], after `reply` was read.
    pub(super) async fn read_rest(stream: &mut TcpStream, mut reply: String) -> TestReply {
        stream.read_to_string(&mut reply).await.unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        TestReply {
            status,
            head: head.to_string(),
            body: body.to_string(),
        }
    }
}

#[tokio::test]
async fn listings_are_paged_and_bad_cursors_are_refused() {
    let server = start().await;
    let whole = server.get("/v1/documents?limit=500").await.json();
    let total = whole["items"].as_array().unwrap().len();
    assert_eq!(whole["total"], total);
    let mut names = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server
            .get(&format!("/v1/documents?limit=2{cursor}"))
            .await
            .json();
        names.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["doc_id"].clone()),
        );
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    let ids: Vec<Value> = whole["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["doc_id"].clone())
        .collect();
    assert_eq!(names, ids);
    assert_eq!(
        server
            .get(&format!("/v1/documents?form=10-K{cursor}"))
            .await
            .code(),
        "cursor.invalid"
    );
    assert_eq!(server.get("/v1/documents?cursor=1").await.status, 400);
    let annual = server
        .get("/v1/documents?form=10-K&fiscal_year=2022")
        .await
        .json();
    assert_eq!(
        (annual["total"].clone(), annual["items"][0]["name"].clone()),
        (1.into(), "ACME_2022.pdf".into())
    );
    assert_eq!(
        server.get("/v1/documents?form=none").await.json()["total"],
        0
    );
}

#[tokio::test]
async fn documents_are_read_by_tree_pages_sections_and_items() {
    let server = start().await;
    let stat = server.get("/v1/documents/ACME_2022").await.json();
    let id = stat["document"]["doc_id"].as_str().unwrap().to_string();
    assert_eq!(
        server.get(&format!("/v1/documents/{id}")).await.json(),
        stat
    );
    let tree = server.get("/v1/documents/ACME_2022/tree?depth=1").await;
    assert!(
        tree.json()["sections"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["depth"] == 1)
    );
    let tag = tree.header("etag").unwrap();
    let again = server
        .request(&format!(
            "GET /v1/documents/{id}/tree HTTP/1.1\r\nIf-None-Match: \"x\", {tag}\r\n"
        ))
        .await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let outline = server
        .get(&format!("/v1/documents/{id}/tree?format=outline"))
        .await;
    assert!(
        outline.body.contains("Item 1. Business  p 2–2"),
        "{}",
        outline.body
    );
    assert!(
        server
            .get(&format!("/v1/documents/{id}/tree?format=pageindex"))
            .await
            .json()["structure"]
            .is_array()
    );
    let pages = server
        .get(&format!("/v1/documents/{id}/pages?range=2-3,5"))
        .await
        .json();
    let numbers: Vec<_> = pages["pages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|page| page["page"].clone())
        .collect();
    assert_eq!(numbers, [2, 3, 5]);
    let section = server
        .get(&format!("/v1/documents/{id}/sections/0002?text=true"))
        .await
        .json();
    assert!(
        section["text"].as_str().unwrap().contains("anvils"),
        "{section}"
    );
    assert!(
        !server
            .get(&format!("/v1/documents/{id}/items"))
            .await
            .json()["items"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn items_facets_and_files_are_listed() {
    let server = start().await;
    let item = server
        .get("/v1/documents/ACME_2022/items/1a?text=true")
        .await
        .json();
    assert_eq!(item["item"]["item"], "1A");
    assert!(item["text"].as_str().unwrap().contains("Hedging"), "{item}");
    let facets = server
        .get("/v1/facets?fields=form,fiscal_year&q=acme")
        .await
        .json();
    assert_eq!(
        (
            &facets["total"],
            &facets["facets"][0]["values"][0]["documents"]
        ),
        (&2.into(), &2.into()),
        "{facets}"
    );
    assert_eq!(facets["facets"][1]["distinct"], 2);
    let filtered = server
        .get("/v1/documents?where=form=10-K%20and%20fiscal_year%3C2022")
        .await
        .json();
    assert_eq!(
        (&filtered["total"], &filtered["items"][0]["locator"]),
        (&1.into(), &"ACME_2021".into())
    );
    let mut paths = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server
            .get(&format!("/v1/fs?depth=2&limit=3{cursor}"))
            .await
            .json();
        paths.extend(
            page["entries"]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| row["path"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    insta::assert_snapshot!(paths.join("\n"), @r"
    /10-K
    /10-K/ACME_2021.pdf
    /10-K/ACME_2022.pdf
    /8-K
    /8-K/BROKEN.pdf
    /8-K/QUEUED.pdf
    /manual.md
    /@fiscal_year
    /@status
    ");
    for path in paths {
        let opened = server.get(&format!("/v1/fs{path}")).await;
        let has_tree = !path.contains("BROKEN") && !path.contains("QUEUED");
        assert!(
            opened.status == if has_tree { 200 } else { 422 },
            "{path}: {}",
            opened.body
        );
    }
    let inside = server.get("/v1/fs/10-K/ACME_2022.pdf?depth=3").await.json();
    for row in inside["entries"].as_array().unwrap() {
        let path = row["path"].as_str().unwrap();
        assert_eq!(
            server.get(&format!("/v1/fs{path}")).await.json()["path"],
            path
        );
    }
}

#[tokio::test]
async fn stored_files_support_range_requests() {
    let server = start().await;
    let document = server.get("/v1/documents/ACME_2022").await.json();
    let digest: stemma_document::Digest = document["source"].as_str().unwrap().parse().unwrap();
    let key = stemma_document::blob_keys::original_key(&Collection::default(), digest);
    let bytes: Vec<u8> = (0..1_000_u32).map(|at| b'a' + (at % 26) as u8).collect();
    server.blobs.put(&key, bytes.into()).await.unwrap();
    let path = "/v1/documents/ACME_2022/source";
    let whole = server.get(path).await;
    assert_eq!(
        (whole.status, whole.body.len(), whole.header("content-type")),
        (200, 1_000, Some("application/pdf"))
    );
    let part = server
        .request(&format!("GET {path} HTTP/1.1\r\nRange: bytes=26-28\r\n"))
        .await;
    assert_eq!(
        (
            part.status,
            part.body.as_str(),
            part.header("content-range")
        ),
        (206, "abc", Some("bytes 26-28/1000"))
    );
    let past = server
        .request(&format!("GET {path} HTTP/1.1\r\nRange: bytes=1000-\r\n"))
        .await;
    assert_eq!(
        (
            past.status,
            past.code().as_str(),
            past.header("content-range")
        ),
        (416, "source.range", Some("bytes */1000"))
    );
    let tag = whole.header("etag").unwrap();
    assert_eq!(
        server
            .request(&format!("GET {path} HTTP/1.1\r\nIf-None-Match: {tag}\r\n"))
            .await
            .status,
        304
    );
    let head = server.request(&format!("HEAD {path} HTTP/1.1\r\n")).await;
    assert_eq!(
        (
            head.status,
            head.header("content-length"),
            head.body.as_str()
        ),
        (200, Some("1000"), "")
    );
}

#[tokio::test]
async fn methods_media_types_and_limits_are_enforced() {
    let blake3 = blake3::hash(b"slow").to_string();
    let slow = KeySettings {
        name: "slow".into(),
        blake3,
        requests_per_minute: 30,
        ..KeySettings::default()
    };
    let server = start().await;
    let put = server
        .request("PUT /v1/documents HTTP/1.1\r\nContent-Length: 0\r\n")
        .await;
    assert_eq!(
        (put.status, put.code().as_str(), put.header("allow")),
        (405, "route.method", Some("GET,HEAD"))
    );
    let picky = server
        .request("GET /v1/documents HTTP/1.1\r\nAccept: text/html\r\n")
        .await;
    assert_eq!((picky.status, picky.code().as_str()), (406, "answer.type"));
    let form = server
        .request(
            "POST /v1/search HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
        )
        .await;
    assert_eq!((form.status, form.code().as_str()), (415, "body.type"));
    let head = server.request("HEAD /v1/documents HTTP/1.1\r\n").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let server = try_start(settings(QuerySettings {
        keys: vec![slow],
        ..QuerySettings::default()
    }))
    .await
    .unwrap();
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
        (429, "key.spent", Some("2"))
    );
}

#[tokio::test]
async fn openapi_document_is_served() {
    let server = start().await;
    let api = server.get("/openapi.json").await.json();
    assert_eq!(
        (&api["openapi"], &api["info"]["version"]),
        (&"3.1.0".into(), &env!("CARGO_PKG_VERSION").into())
    );
    let text = api.to_string();
    for reference in text
        .split("\"#/components/schemas/")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
    {
        assert!(
            api["components"]["schemas"][reference].is_object(),
            "{reference} has no schema"
        );
    }
}

#[tokio::test]
async fn a_search_finds_sections() {
    let server = start().await;
    let results = server
        .post(
            "/v1/search",
            r#"{"query": "currency risk", "scopes": ["/10-K"], "limit": 3}"#,
        )
        .await
        .json();
    assert_eq!(results["hits"][0]["name"], "ACME_2022.pdf", "{results}");
    let first = server
        .post("/v1/search", r#"{"query": "business", "limit": 1}"#)
        .await
        .json();
    let next = first["next_cursor"].as_str().expect("a second hit");
    let second = format!(r#"{{"query": "business", "limit": 1, "cursor": "{next}"}}"#);
    let second = server.post("/v1/search", &second).await.json();
    assert_eq!(second["hits"][0]["rank"], 2, "{second}");
    assert_ne!(second["hits"][0]["locator"], first["hits"][0]["locator"]);
    let item = r#"{"query": "currency", "scopes": ["/10-K/ACME_2022.pdf/@item/7"]}"#;
    assert!(
        server.post("/v1/search", item).await.json()["hits"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let ranked = server
        .post(
            "/v1/browse",
            r#"{"query": "hedging", "scope": "/", "recursive": true}"#,
        )
        .await
        .json();
    assert_eq!(
        ranked["documents"][0]["document"]["locator"], "ACME_2022",
        "{ranked}"
    );
    let direct = server
        .post("/v1/browse", r#"{"query": "hedging", "scope": "/"}"#)
        .await
        .json();
    assert_eq!(
        (
            &direct["documents_in_scope"],
            direct["documents"].as_array().unwrap().len()
        ),
        (&1.into(), 0)
    );
}

/// `GET` and `POST` have one search behind them; the results have a tag.
#[tokio::test]
async fn a_search_by_url_is_the_same_search() {
    let server = start().await;
    server.post("/v1/search", r#"{"query": "risk"}"#).await;
    let body = r#"{"query": "\"currency risk\" -rockets", "scopes": ["/10-K"], "where": "fiscal_year>=2020",
        "limit": 2, "strategy": "lexical", "explain": true}"#;
    let mut posted = server.post("/v1/search", body).await.json();
    let url = "/v1/search?q=%22currency+risk%22+-rockets&documents=/10-K&where=fiscal_year%3E%3D2020&limit=2\
        &strategy=lexical&explain=true";
    let reply = server.get(url).await;
    let mut found = reply.json();
    for response in [&mut posted, &mut found] {
        response["searched"]["took_us"] = 0.into();
    }
    assert_eq!(found, posted);
    assert_eq!(found["facets"]["facets"][0]["field"], "company", "{found}");
    let tag = reply.header("etag").expect("a tag").to_owned();
    let again = server
        .request(&format!("GET {url} HTTP/1.1\r\nIf-None-Match: {tag}\r\n"))
        .await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let other = "/v1/search?q=business&limit=1&skip=1";
    let second = server
        .request(&format!("GET {other} HTTP/1.1\r\nIf-None-Match: {tag}\r\n"))
        .await;
    assert_eq!(second.json()["hits"][0]["rank"], 2, "{}", second.body);
}

/// Client errors are 4xx responses with a code.
#[tokio::test]
async fn bad_requests_are_refused_with_a_code() {
    let server = start().await;
    let cases = [
        ("/v1/documents?where=color=red", 422, "filter.invalid"),
        ("/v1/facets?fields=color", 400, "request.invalid"),
        ("/v1/facets", 400, "request.invalid"),
        ("/v1/fs/9-K", 404, "scope.not_found"),
        ("/v1/fs/@color/red", 422, "scope.no_axis"),
        ("/v1/fs/?depth=0", 400, "request.invalid"),
        ("/v1/fs/?cursor=00", 400, "cursor.invalid"),
        (
            "/v1/documents/ACME_2022/tree?depth=0",
            400,
            "request.invalid",
        ),
        ("/v1/documents/ACME_2022/items/9", 404, "locator.no_item"),
        ("/v1/documents/ACME_2022/items/x", 400, "request.invalid"),
        ("/v1/documents/ACME_2021/source", 404, "source.elsewhere"),
        ("/v1/documents/%ff", 400, "request.invalid"),
        ("/v1/documents/nothing-like-it", 404, "locator.not_found"),
        ("/v1/documents/ACME", 404, "locator.not_found"),
        (
            "/v1/documents/ACME_2022/sections/9999",
            404,
            "locator.no_section",
        ),
        ("/v1/documents/ACME_2022/sections/x", 400, "request.invalid"),
        (
            "/v1/documents/ACME_2022/pages?range=6",
            404,
            "locator.no_page",
        ),
        (
            "/v1/documents/ACME_2022/pages?range=0",
            400,
            "request.invalid",
        ),
        ("/v1/documents/ACME_2022/pages", 400, "request.invalid"),
        (
            "/v1/documents/ACME_2022/pages?range=1-4000000000,1-4000000000",
            422,
            "request.invalid",
        ),
        (
            "/v1/documents/ACME_2022/tree?depth=x",
            400,
            "request.invalid",
        ),
        (
            "/v1/documents/ACME_2022/tree?format=xml",
            400,
            "request.invalid",
        ),
        (
            "/v1/documents/ACME_2022/tree?node=%00",
            400,
            "request.invalid",
        ),
        ("/v1/documents?limit=501", 400, "request.invalid"),
        ("/v1/documents?limit=0", 400, "request.invalid"),
        ("/v1/documents?color=red", 400, "request.invalid"),
        (
            "/v1/documents?collection=../other",
            404,
            "collection.unknown",
        ),
        (
            "/v1/documents/..%2f..%2fetc%2fpasswd/tree",
            404,
            "locator.not_found",
        ),
        ("/v2", 404, "route.unknown"),
        ("/v1/browse", 405, "route.method"),
        ("/v1/search", 400, "request.invalid"),
        ("/v1/search?q=risk&rectangles=true", 400, "request.invalid"),
        ("/v1/search?q=risk&strategy=beam", 422, "request.invalid"),
        ("/v1/search?q=risk&skip=20000", 422, "search.too_far"),
        ("/v1/search?q=%3F", 422, "search.no_words"),
        ("/v1/search?q=risk+OR+form:10-K", 422, "search.syntax"),
        ("/v1/search?q=risk&documents=/9-K", 404, "scope.not_found"),
    ];
    for (path, status, code) in cases {
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

/// A document without a tree is no error: the response is its state.
#[tokio::test]
async fn documents_without_a_tree_report_their_state() {
    let server = start().await;
    let all = server.get("/v1/documents").await.json();
    let open = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["state"] == "failed")
        .expect("one failed");
    let reply = server
        .get(&format!(
            "/v1/documents/{}/tree",
            open["doc_id"].as_str().unwrap()
        ))
        .await;
    assert_eq!(
        (reply.status, reply.json()["ready"].clone()),
        (200, false.into()),
        "{}",
        reply.body
    );
    assert_eq!(reply.json()["document"]["state"], "failed");
}

#[tokio::test]
async fn publications_are_visible_within_two_seconds() {
    let server = start().await;
    store::publish_now(
        server.blobs.as_ref(),
        "10-K/NEW_2023.pdf",
        Env::system().now_ms(),
    )
    .await;
    let began = std::time::Instant::now();
    while server.get("/v1/documents/NEW_2023/tree").await.status != 200 {
        assert!(began.elapsed() < Duration::from_secs(2), "not yet visible");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let search = r#"{"query": "anvils and rockets", "limit": 50}"#;
    while !server
        .post("/v1/search", search)
        .await
        .body
        .contains("NEW_2023")
    {
        assert!(began.elapsed() < Duration::from_secs(2), "not yet found");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.stop.cancel();
    server.serving.join().await.unwrap();
}

#[tokio::test]
async fn remote_clients_need_a_key() {
    let open = ServerSettings {
        listen: "0.0.0.0:0".parse().unwrap(),
        ..settings(QuerySettings::default())
    };
    assert!(matches!(
        try_start(open).await,
        Err(ServeError::Anonymous { .. })
    ));
    let blake3 = blake3::hash(b"open sesame").to_string();
    let keys = vec![KeySettings {
        name: "ali".into(),
        blake3,
        collections: vec!["other".into()],
        ..KeySettings::default()
    }];
    let server = try_start(settings(QuerySettings {
        keys,
        ..QuerySettings::default()
    }))
    .await
    .unwrap();
    let reply = server.get("/v1/documents").await;
    assert_eq!(
        (
            reply.status,
            reply.code().as_str(),
            reply.header("www-authenticate")
        ),
        (401, "key.unknown", Some("Bearer"))
    );
    let with_key = "GET /v1/documents HTTP/1.1\r\nAuthorization: Bearer open sesame\r\n";
    let reply = server.request(with_key).await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (403, "collection.unknown")
    );
    assert_eq!(server.get("/livez").await.status, 200);
}

#[tokio::test]
async fn model_strategies_report_a_missing_model() {
    let server = start().await;
    let ask = async |rest: &str| {
        server
            .post(
                "/v1/search",
                &format!(r#"{{"query": "currency risk", {rest}}}"#),
            )
            .await
    };
    let refused = ask(r#""strategy": "beam""#).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (422, "config.no_model")
    );
    let plain = ask(r#""strategy": "auto""#).await.json();
    let auto = ask(r#""strategy": "auto-with-model", "budget_calls": 3"#)
        .await
        .json();
    assert_eq!(
        (&auto["hits"], &plain["reasoning"]),
        (&plain["hits"], &serde_json::Value::Null)
    );
    assert_eq!(auto["reasoning"]["notes"][0]["code"], "model.none");
    assert_eq!(
        ask(r#""budget_tokens": 3"#).await.status,
        422,
        "a budget without a strategy that uses it"
    );
}

#[tokio::test]
async fn comparisons_are_paged_by_pairs() {
    let server = start().await;
    let first = server
        .post("/v1/comparisons", r#"{"right": "ACME_2022", "limit": 4}"#)
        .await;
    let first = first.json();
    assert_eq!(
        (&first["left"]["locator"], &first["total"]),
        (&"ACME_2021".into(), &6.into())
    );
    assert_eq!(
        (
            first["pairs"].as_array().map(Vec::len),
            &first["counts"]["added"]
        ),
        (Some(4), &3.into())
    );
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = server
        .post(
            "/v1/comparisons",
            &format!(r#"{{"right": "ACME_2022", "cursor": "{cursor}"}}"#),
        )
        .await;
    let rest = rest.json();
    assert_eq!(
        (rest["pairs"].as_array().map(Vec::len), &rest["next_cursor"]),
        (Some(2), &Value::Null)
    );
    let of_others =
        format!(r#"{{"left": "ACME_2022", "right": "ACME_2021", "cursor": "{cursor}"}}"#);
    let added = r#"{"right": "ACME_2022", "outcomes": ["added"], "item": "1A"}"#;
    let added = server.post("/v1/comparisons", added).await.json();
    assert_eq!(added["pairs"][0]["added"][0]["page"], 3);
    for (body, status, code) in [
        (of_others.as_str(), 400, "cursor.invalid"),
        (r#"{"left": "ACME_2021"}"#, 422, "request.invalid"),
        (r#"{"right": "ACME_2021"}"#, 422, "comparison.no_previous"),
        (r#"{"right": "NONE"}"#, 404, "locator.not_found"),
        (
            r#"{"right": "ACME_2022", "item": "99"}"#,
            404,
            "locator.no_item",
        ),
        (
            r#"{"right": "ACME_2022", "limit": 501}"#,
            422,
            "request.invalid",
        ),
        (
            r#"{"right": "ACME_2022", "sentences": 21}"#,
            422,
            "request.invalid",
        ),
        (
            r#"{"right": "ACME_2022", "outcomes": ["same"]}"#,
            422,
            "request.invalid",
        ),
        (
            r#"{"right": "ACME_2022", "colour": 1}"#,
            422,
            "request.invalid",
        ),
        (r#"{"right": "#, 400, "request.invalid"),
    ] {
        let reply = server.post("/v1/comparisons", body).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (status, code),
            "{body}: {}",
            reply.body
        );
    }
}

#[tokio::test]
async fn foreign_hosts_are_refused_without_keys() {
    let server = start().await;
    let listing = "GET /v1/documents HTTP/1.1\r\n";
    let evil = server.request_to("evil.example", listing).await;
    assert_eq!(
        (evil.status, evil.json()["code"].as_str()),
        (403, Some("request.host"))
    );
    let page = server
        .request(&format!("{listing}Origin: https://evil.example\r\n"))
        .await;
    assert_eq!(
        (page.status, page.json()["code"].as_str()),
        (403, Some("request.origin"))
    );
    assert_eq!(server.request(listing).await.status, 200);
}
