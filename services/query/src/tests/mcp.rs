//! `/mcp` over HTTP: access, and requests without a session.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use stemma_archive::IndexSettings;
use stemma_boot::health::{Health, HealthServer};
use stemma_document::Collection;
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_store::Env;
use stemma_store::blobs::Blobs;
use stemma_store::port_monitor::PortMonitor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::{QuerySettings, ServerDeps, ServerSettings, serve};
use stemma_gateway::auth::KeySettings;
use stemma_sample_store as store;

struct McpTestServer {
    serving: HealthServer,
    stop: CancellationToken,
    _cache: tempfile::TempDir,
}

impl Drop for McpTestServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl McpTestServer {
    async fn start(query: QuerySettings) -> Self {
        let env = Env::system();
        let blobs = store::store().await;
        let stop = CancellationToken::new();
        let blobs: Arc<dyn Blobs> = blobs;
        let health = Health::for_blobs(
            &env,
            &HeartbeatReporter::new(&env, "q", "query"),
            &blobs,
            &PortMonitor::default(),
        );
        let collections = vec![Collection::default(), "other".parse().unwrap()];
        let listen = "127.0.0.1:0".parse().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let index = IndexSettings::for_folder(folder.path());
        let settings = ServerSettings {
            listen,
            collections,
            query,
            allow_anonymous: false,
            index,
            model: None,
        };
        let serving = serve(
            env,
            blobs,
            settings,
            ServerDeps::default(),
            health,
            None,
            stop.clone(),
        )
        .await
        .unwrap();
        Self {
            serving,
            stop,
            _cache: folder,
        }
    }

    /// Status and body of a tool call with additional request headers.
    async fn call(&self, path: &str, head: &str, tool: &str, arguments: Value) -> (u16, String) {
        let params = json!({ "name": tool, "arguments": arguments });
        self.post(path, head, "tools/call", params).await
    }

    async fn post(&self, path: &str, head: &str, method: &str, params: Value) -> (u16, String) {
        let body =
            json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let head = if head.contains("Host:") {
            head.to_owned()
        } else {
            format!("Host: {}\r\n{head}", self.serving.address)
        };
        let accept = "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\nConnection: close";
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\n{head}{accept}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let exchange = async {
            let mut stream = TcpStream::connect(self.serving.address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut reply = String::new();
            stream.read_to_string(&mut reply).await.unwrap();
            let (head, body) = reply.split_once("\r\n\r\n").unwrap();
            (
                head.split(' ').nth(1).unwrap().parse().unwrap(),
                body.to_owned(),
            )
        };
        tokio::time::timeout(Duration::from_secs(60), exchange)
            .await
            .expect("an answer in time")
    }
}

fn result(body: &str) -> Value {
    let message: Value =
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    message["result"].clone()
}

#[tokio::test]
async fn requests_need_no_session() {
    let server = McpTestServer::start(QuerySettings::default()).await;
    let acme = || json!({ "doc_name": "ACME_2022" });
    let (status, body) = server.call("/mcp", "", "get_document", acme()).await;
    assert_eq!(
        (
            status,
            result(&body)["structuredContent"]["page_count"].clone()
        ),
        (200, 5.into()),
        "{body}"
    );
    let (_, body) = server
        .call("/mcp?tools=pageindex", "", "get_document", acme())
        .await;
    let text = result(&body)["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap()["status"],
        "completed"
    );
    let old = "MCP-Protocol-Version: 2025-03-26\r\n";
    assert_eq!(
        result(&server.call("/mcp", old, "get_document", acme()).await.1)["structuredContent"],
        Value::Null
    );
    let (_, body) = server
        .post("/mcp?tools=openai", "", "tools/list", json!({}))
        .await;
    assert_eq!(
        result(&body)["tools"].as_array().map(Vec::len),
        Some(2),
        "{body}"
    );
    let (_, body) = server
        .call("/mcp?collection=other", "", "get_document", acme())
        .await;
    assert_eq!(
        result(&body)["structuredContent"]["errorCode"],
        "NOT_FOUND",
        "other collections are not readable"
    );
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused() {
    let server = McpTestServer::start(QuerySettings::default()).await;
    for (head, status) in [
        ("", 200),
        ("Host: localhost\r\n", 200),
        ("Host: evil.example\r\n", 403),
        ("Origin: https://evil.example\r\n", 403),
        ("Origin: null\r\n", 403),
    ] {
        assert_eq!(
            server.post("/mcp", head, "tools/list", json!({})).await.0,
            status,
            "{head}"
        );
    }
    let settings = QuerySettings {
        hosts: vec!["stemma.example".into()],
        origins: vec!["https://app.example:443".into()],
        ..QuerySettings::default()
    };
    let server = McpTestServer::start(settings).await;
    let head = "Host: stemma.example\r\nOrigin: https://app.example\r\n";
    assert_eq!(
        server.post("/mcp", head, "tools/list", json!({})).await.0,
        200
    );
}

#[tokio::test]
async fn mcp_uses_the_same_api_keys() {
    let key = |name: &str, collections: &[&str]| -> KeySettings {
        let digest = blake3::hash(name.as_bytes()).to_string();
        serde_json::from_value(
            json!({ "name": name, "blake3": digest, "collections": collections }),
        )
        .unwrap()
    };
    let keys = vec![key("all", &[]), key("other", &["other"])];
    let server = McpTestServer::start(QuerySettings {
        keys,
        ..QuerySettings::default()
    })
    .await;
    let acme = || json!({ "doc_name": "ACME_2022" });
    assert_eq!(server.call("/mcp", "", "get_document", acme()).await.0, 401);
    let (_, body) = server
        .call(
            "/mcp",
            "Authorization: Bearer all\r\n",
            "get_document",
            acme(),
        )
        .await;
    assert_eq!(
        result(&body)["structuredContent"]["status"],
        "completed",
        "{body}"
    );
    for path in ["/mcp", "/mcp?collection=default"] {
        let (_, body) = server
            .call(
                path,
                "Authorization: Bearer other\r\n",
                "get_document",
                acme(),
            )
            .await;
        assert_eq!(
            result(&body)["structuredContent"]["errorCode"],
            "NOT_FOUND",
            "{path}: {body}"
        );
    }
}
