//! Services as processes over real servers: start, readiness and shutdown.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use stemma_cluster::{
    Proxy, ProxyFaults, ServerKind, ServiceFleet, ServiceRole, TestServers, binary,
};
use stemma_sim::http::get;

const BUCKET: &str = "processes";
const SERVICES: [ServiceRole; 3] = [
    ServiceRole::Coordinator,
    ServiceRole::Worker,
    ServiceRole::Assembler,
];
const READY_TIMEOUT: Duration = Duration::from_secs(90);
/// Time limit for an idle service to exit.
const GRACE: Duration = Duration::from_secs(60);

/// A fleet without processes, on queues, keys and a store of this name.
async fn fleet(
    servers: &TestServers,
    name: &str,
    through: &[(ServerKind, SocketAddr)],
) -> Result<ServiceFleet> {
    servers.make_bucket(BUCKET).await?;
    let mut settings = servers.settings(through)?;
    // Unique, because an earlier run may have left data on the same servers.
    let prefix = format!("{name}-{}", std::process::id());
    settings.extend(
        ["BROKER", "REDIS"].map(|server| (format!("STEMMA_{server}__PREFIX"), prefix.clone())),
    );
    ServiceFleet::new(binary()?, &format!("s3://{BUCKET}/{prefix}"), settings)
}

#[tokio::test(flavor = "multi_thread")]
async fn services_start_and_drain() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let mut fleet = fleet(&servers, "drain", &[]).await.unwrap();
    let names: Vec<_> = SERVICES
        .into_iter()
        .map(|role| fleet.spawn(role, &[]).unwrap())
        .collect();
    for name in &names {
        fleet.wait_until_ready(name, READY_TIMEOUT).await.unwrap();
        let address = fleet.address(name).unwrap();
        assert_eq!(
            get(address, "/livez", READY_TIMEOUT).await.unwrap().0,
            200,
            "{name}"
        );
        let (status, metrics) = get(address, "/metrics", READY_TIMEOUT).await.unwrap();
        assert_eq!(
            (status, std::str::from_utf8(&metrics).is_ok()),
            (200, true),
            "{name}"
        );
    }
    for name in &names {
        let status = fleet.terminate(name, GRACE).await.unwrap();
        assert_eq!(
            status.code(),
            Some(0),
            "{name}: {}",
            fleet.log(name).unwrap()
        );
    }
}

/// Connections whose peer is gone without a FIN, as after a crash of a router: nothing passes, and nothing is closed.
#[tokio::test(flavor = "multi_thread")]
async fn services_survive_half_open_connections() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let proxy = async |server| {
        let address = servers.address(server).unwrap();
        Proxy::tcp(address).await.unwrap()
    };
    let broker = proxy(ServerKind::RabbitMq).await;
    let redis = proxy(ServerKind::Redis).await;
    let through = [
        (ServerKind::RabbitMq, broker.address()),
        (ServerKind::Redis, redis.address()),
    ];
    let mut fleet = fleet(&servers, "halfopen", &through).await.unwrap();
    let names: Vec<_> = SERVICES
        .into_iter()
        .map(|role| fleet.spawn(role, &[]).unwrap())
        .collect();
    for name in &names {
        fleet.wait_until_ready(name, READY_TIMEOUT).await.unwrap();
    }
    for proxy in [&broker, &redis] {
        let abandoned = proxy.abandon();
        assert!(abandoned >= SERVICES.len(), "services are connected");
        let started = Instant::now();
        while proxy.open() > 0 && started.elapsed() < READY_TIMEOUT {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(proxy.open(), 0, "nothing is forwarded");
        // Each has connected again: the broker's heartbeats notice it, and calls to Redis that have no reply.
        while proxy.open() < abandoned {
            let waited = started.elapsed();
            let open = proxy.open();
            let state = format!("{open} of {abandoned} connected after {waited:?}");
            assert!(waited < READY_TIMEOUT, "{state}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        println!(
            "{abandoned} connected after {:.1} s",
            started.elapsed().as_secs_f64()
        );
    }
    for name in &names {
        fleet.wait_until_ready(name, READY_TIMEOUT).await.unwrap();
    }
    assert_eq!(fleet.take_ended().unwrap(), [""; 0]);
    for name in &names {
        let status = fleet.terminate(name, GRACE).await.unwrap();
        assert_eq!(status.code(), Some(0), "{}", fleet.log(name).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn services_survive_broker_outages() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let proxy = Proxy::tcp(servers.address(ServerKind::RabbitMq).unwrap())
        .await
        .unwrap();
    let mut fleet = fleet(&servers, "away", &[(ServerKind::RabbitMq, proxy.address())])
        .await
        .unwrap();
    proxy.set_faults(ProxyFaults {
        paused: true,
        ..ProxyFaults::default()
    });
    let name = fleet.spawn(ServiceRole::Worker, &[]).unwrap();
    assert!(
        fleet
            .wait_until_ready(&name, Duration::from_secs(4))
            .await
            .is_err(),
        "ready without a broker"
    );
    proxy.set_faults(ProxyFaults::default());
    fleet.wait_until_ready(&name, READY_TIMEOUT).await.unwrap();
    assert!(
        proxy.cut() > 0,
        "the service is connected through the proxy"
    );
    let started = Instant::now();
    while proxy.cut() == 0 {
        assert!(
            started.elapsed() < READY_TIMEOUT,
            "the service did not reconnect: {}",
            fleet.log(&name).unwrap()
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    fleet.wait_until_ready(&name, READY_TIMEOUT).await.unwrap();
    assert_eq!(fleet.take_ended().unwrap(), [""; 0]);
    assert_eq!(
        fleet.terminate(&name, GRACE).await.unwrap().code(),
        Some(0),
        "{}",
        fleet.log(&name).unwrap()
    );
}
