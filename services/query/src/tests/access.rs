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
