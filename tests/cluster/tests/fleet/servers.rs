//! The test infrastructure: restarted servers, and proxies in front of them.

use std::time::Duration;

use aws_sdk_s3::primitives::ByteStream;
use stemma_cluster::{Proxy, ProxyFaults, ServerKind, TestServers};
use tokio::net::TcpStream;

const BUCKET: &str = "harness";

#[tokio::test(flavor = "multi_thread")]
async fn restarted_servers_keep_objects() {
    if TestServers::from_env().unwrap().is_none() {
        return;
    }
    let servers = TestServers::start().await.unwrap();
    servers.make_bucket(BUCKET).await.unwrap();
    servers.make_bucket(BUCKET).await.unwrap();
    servers.flush_redis().await.unwrap();
    let client = servers.s3();
    let put = |key: &'static str| {
        let body = ByteStream::from_static(b"object");
        client
            .put_object()
            .bucket(BUCKET)
            .key(key)
            .if_none_match("*")
            .body(body)
            .send()
    };
    put("a").await.unwrap();
    for server in [ServerKind::Redis, ServerKind::S3, ServerKind::RabbitMq] {
        let address = servers.address(server).unwrap();
        servers.kill(server).await.unwrap();
        let gone = async { while TcpStream::connect(address).await.is_ok() {} };
        tokio::time::timeout(Duration::from_secs(60), gone)
            .await
            .unwrap();
        servers.restart(server).await.unwrap();
        TcpStream::connect(address).await.unwrap();
    }
    let second = put("a").await.unwrap_err();
    assert_eq!(
        second.raw_response().unwrap().status().as_u16(),
        412,
        "written once, before S3 was killed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_from_env_work_through_proxies() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    assert!(
        servers.kill(ServerKind::Redis).await.is_err(),
        "a named server cannot be killed"
    );
    servers.make_bucket(BUCKET).await.unwrap();
    let proxy = Proxy::http(servers.address(ServerKind::S3).unwrap(), 3)
        .await
        .unwrap();
    let settings = servers
        .settings(&[(ServerKind::S3, proxy.address())])
        .unwrap();
    let endpoint = settings
        .iter()
        .find(|(name, _)| name == "STEMMA_S3__ENDPOINT")
        .map(|(_, value)| value)
        .unwrap();
    let config = servers
        .s3()
        .config()
        .to_builder()
        .endpoint_url(endpoint)
        .build();
    let client = aws_sdk_s3::Client::from_conf(config);
    proxy.set_faults(ProxyFaults {
        refused: 0.3,
        reset: 0.2,
        ..ProxyFaults::default()
    });
    let mut written = 0;
    for n in 0..20 {
        let body = ByteStream::from(vec![b'x'; 50_000]);
        let put = client
            .put_object()
            .bucket(BUCKET)
            .key(format!("proxied/{n}"))
            .body(body)
            .send()
            .await;
        written += usize::from(put.is_ok());
    }
    let suffered = proxy.fault_counts();
    assert!(suffered.refused > 0 && suffered.reset > 0, "{suffered:?}");
    assert!(written > 0, "the client retries with success: {suffered:?}");
    proxy.set_faults(ProxyFaults::default());
    client
        .list_objects_v2()
        .bucket(BUCKET)
        .prefix("proxied/")
        .send()
        .await
        .unwrap();
}
