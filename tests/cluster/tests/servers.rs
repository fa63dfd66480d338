//! The ground that tests of the cluster stand on: real servers that die and come back, and proxies before them.

use std::time::Duration;

use aws_sdk_s3::primitives::ByteStream;
use stemma_cluster::{Proxy, Server, Servers, Trouble};
use tokio::net::TcpStream;

const BUCKET: &str = "ground";

#[tokio::test(flavor = "multi_thread")]
async fn servers_die_and_come_back_and_objects_stay() {
    if Servers::named().unwrap().is_none() {
        return;
    }
    let servers = Servers::start().await.unwrap();
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
    for server in [Server::Redis, Server::S3, Server::RabbitMq] {
        let address = servers.address(server).unwrap();
        servers.kill(server).await.unwrap();
        let gone = async { while TcpStream::connect(address).await.is_ok() {} };
        tokio::time::timeout(Duration::from_secs(10), gone)
            .await
            .unwrap();
        servers.restart(server).await.unwrap();
        TcpStream::connect(address).await.unwrap();
    }
    let second = put("a").await.unwrap_err();
    assert_eq!(
        second.raw_response().unwrap().status().as_u16(),
        412,
        "written once, before S3 died"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn named_servers_are_used_through_proxies() {
    let Some(servers) = Servers::named().unwrap() else {
        return;
    };
    assert!(
        servers.kill(Server::Redis).await.is_err(),
        "what was named is not ours to kill"
    );
    servers.make_bucket(BUCKET).await.unwrap();
    let proxy = Proxy::http(servers.address(Server::S3).unwrap(), 3)
        .await
        .unwrap();
    let settings = servers.settings(&[(Server::S3, proxy.address())]).unwrap();
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
    proxy.make(Trouble {
        refused: 0.3,
        reset: 0.2,
        ..Trouble::default()
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
    let suffered = proxy.suffered();
    assert!(suffered.refused > 0 && suffered.reset > 0, "{suffered:?}");
    assert!(
        written > 0,
        "the client asks again and gets through: {suffered:?}"
    );
    proxy.make(Trouble::default());
    client
        .list_objects_v2()
        .bucket(BUCKET)
        .prefix("proxied/")
        .send()
        .await
        .unwrap();
}
