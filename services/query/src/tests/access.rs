//! Who may send requests: keys, hosts and origins.

use super::test_server::{settings, start, start_with_key_settings, try_start};
use crate::{QuerySettings, ServeError, ServerSettings};
use stemma_gateway::auth::KeySettings;

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
    let collections = vec!["other".into()];
    let elsewhere = KeySettings {
        collections,
        ..KeySettings::default()
    };
    let server = start_with_key_settings("open sesame", elsewhere).await;
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
async fn the_host_is_checked_wherever_a_server_without_keys_listens() {
    let open = |hosts: &[&str]| ServerSettings {
        listen: "0.0.0.0:0".parse().unwrap(),
        allow_anonymous: true,
        ..settings(QuerySettings {
            hosts: hosts.iter().map(|host| (*host).into()).collect(),
            ..QuerySettings::default()
        })
    };
    let listing = "GET /v1/documents HTTP/1.1\r\n";
    let page = "GET / HTTP/1.1\r\n";
    let server = try_start(open(&["stemma.example"])).await.unwrap();
    for request in [listing, page] {
        for host in ["localhost:8080", "127.0.0.1:8080", "stemma.example"] {
            let reply = server.request_to(host, request).await;
            assert_eq!(reply.status, 200, "{host}");
        }
        let evil = server.request_to("evil.example", request).await;
        assert_eq!(
            (evil.status, evil.code().as_str()),
            (403, "request.host_unknown")
        );
    }
    // Probes name the address of a pod.
    for path in ["/livez", "/readyz"] {
        let probe = format!("GET {path} HTTP/1.1\r\n");
        assert_eq!(server.request_to("10.1.2.3:8080", &probe).await.status, 200);
    }
    let any = try_start(open(&["*"])).await.unwrap();
    assert_eq!(any.request_to("evil.example", listing).await.status, 200);
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let ping = format!(
        "POST /mcp HTTP/1.1\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{ping}",
        ping.len()
    );
    assert_eq!(any.request_to("evil.example", &ping).await.status, 200);
    assert_eq!(server.request_to("evil.example", &ping).await.status, 403);
}

#[tokio::test]
async fn foreign_hosts_are_refused_without_keys() {
    let server = start().await;
    let listing = "GET /v1/documents HTTP/1.1\r\n";
    let evil = server.request_to("evil.example", listing).await;
    assert_eq!(
        (evil.status, evil.json()["code"].as_str()),
        (403, Some("request.host_unknown"))
    );
    let page = server
        .request(&format!("{listing}Origin: https://evil.example\r\n"))
        .await;
    assert_eq!(
        (page.status, page.json()["code"].as_str()),
        (403, Some("request.origin_refused"))
    );
    assert_eq!(server.request(listing).await.status, 200);
}
