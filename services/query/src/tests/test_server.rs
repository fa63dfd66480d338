//! A server on a local port over the sample store, for the tests of its routes.

use serde_json::Value;
use stemma_archive::IndexSettings;
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine_testing::wait::wait_until;
use stemma_store::port_monitor::PortMonitor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::*;
use stemma_gateway::auth::KeySettings;
use stemma_sample_store as store;

pub(super) struct TestServer {
    pub(super) serving: HealthServer,
    pub(super) stop: CancellationToken,
    pub(super) blobs: Arc<dyn Blobs>,
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

    /// The code of an error response in the format of its route.
    pub(super) fn code_on(&self, path: &str) -> String {
        if !stemma_gateway::problem::is_openai_path(path) {
            return self.code();
        }
        assert_eq!(self.header("content-type"), Some("application/json"));
        self.json()["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .into()
    }

    /// A field of each entry of a list in the body.
    pub(super) fn column(&self, list: &str, field: &str) -> Vec<Value> {
        let body = self.json();
        let rows = body[list]
            .as_array()
            .unwrap_or_else(|| panic!("no {list}: {body}"));
        rows.iter().map(|row| row[field].clone()).collect()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

pub(super) fn settings(query: QuerySettings) -> ServerSettings {
    let listen = "127.0.0.1:0".parse().unwrap();
    ServerSettings {
        listen,
        collections: vec![Collection::default()],
        query,
        allow_anonymous: false,
        index: IndexSettings::default(),
        model: None,
    }
}

pub(super) async fn try_start(settings: ServerSettings) -> Result<TestServer, ServeError> {
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
    let store: Arc<dyn Blobs> = Arc::new(stemma_store::blobs::MemoryBlobs::default());
    let service = stemma_archive::AnswerService::new(
        Env::system(),
        store,
        stemma_archive::AnswerSettings::default(),
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

pub(super) async fn try_start_with(
    mut settings: ServerSettings,
    blobs: Arc<dyn Blobs>,
    deps: ServerDeps,
) -> Result<TestServer, ServeError> {
    let cache = tempfile::tempdir().unwrap();
    settings.index = IndexSettings::for_folder(cache.path());
    let env = Env::system();
    let stop = CancellationToken::new();
    let health = Health::for_blobs(
        &env,
        &HeartbeatReporter::new(&env, "q", "query"),
        &blobs,
        &PortMonitor::default(),
    );
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

/// A server with one configured key, which has these settings.
pub(super) async fn start_with_key_settings(key: &str, settings: KeySettings) -> TestServer {
    let blake3 = blake3::hash(key.as_bytes()).to_string();
    let name = "reader".to_owned();
    let keys = vec![KeySettings {
        name,
        blake3,
        ..settings
    }];
    let query = QuerySettings {
        keys,
        ..QuerySettings::default()
    };
    start_configured(query, ServerDeps::default()).await
}

/// A server with one configured key, ready to answer it.
pub(super) async fn start_with_key(key: &str) -> TestServer {
    let server = start_with_key_settings(key, KeySettings::default()).await;
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
        let search = r#"{"query": "anvils"}"#;
        wait_until("catalog and index are loaded", async || {
            self.request(&listing).await.status != 503
                && self.post_with(head, "/v1/search", search).await.status != 503
        })
        .await;
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

    /// A field of each entry of a list, over all its pages. `path` has a query.
    pub(super) async fn column(&self, path: &str, list: &str, field: &str) -> Vec<Value> {
        let mut column = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("{path}{cursor}")).await;
            column.extend(page.column(list, field));
            match page.json()["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return column,
            }
        }
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

    /// Reads a stream of events up to the id of the first one: it then follows an answer in progress.
    pub(super) async fn read_to_event(stream: &mut TcpStream) -> String {
        let mut reply = String::new();
        let has_id = |reply: &str| {
            let id = reply.split_once("id: ");
            id.is_some_and(|(_, rest)| rest.contains('\n'))
        };
        while !has_id(&reply) {
            let mut bytes = [0; 512];
            let read = stream.read(&mut bytes).await.unwrap();
            assert!(read > 0, "{reply}");
            reply.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        reply
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
