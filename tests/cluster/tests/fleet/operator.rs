//! What an operator sees while a server is unavailable, full or refuses: `status`, `why`, `doctor` and `/readyz` answer soon, and
//! say which one it is.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their helpers")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use stemma_cluster::{
    Proxy, ProxyFaults, ServerKind, ServiceFleet, ServiceRole, TestServers, binary,
};
use stemma_filings::markdown;
use stemma_sim::http::get;

const BUCKET: &str = "operator";
const READY_TIMEOUT: Duration = Duration::from_secs(90);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// A coordinator with a submitted job that no worker takes, a query server, and one server behind a proxy.
struct Installation {
    fleet: ServiceFleet,
    proxy: Proxy,
    job: String,
    coordinator: SocketAddr,
    query: SocketAddr,
}

impl Installation {
    async fn start(servers: &TestServers, behind_proxy: ServerKind) -> Self {
        servers.make_bucket(BUCKET).await.unwrap();
        let address = servers.address(behind_proxy).unwrap();
        let proxy = match behind_proxy {
            ServerKind::S3 => Proxy::http(address, 1).await,
            ServerKind::RabbitMq | ServerKind::Redis => Proxy::tcp(address).await,
        };
        let proxy = proxy.unwrap();
        let mut settings = servers
            .settings(&[(behind_proxy, proxy.address())])
            .unwrap();
        let prefix = format!("{behind_proxy:?}-{}", std::process::id()).to_lowercase();
        settings.extend(
            ["BROKER", "REDIS"].map(|server| (format!("STEMMA_{server}__PREFIX"), prefix.clone())),
        );
        let store = format!("s3://{BUCKET}/{prefix}");
        let mut fleet = ServiceFleet::new(binary().unwrap(), &store, settings).unwrap();
        let coordinator = fleet.spawn(ServiceRole::Coordinator, &[]).unwrap();
        let query = fleet.spawn(ServiceRole::Query, &[]).unwrap();
        for process in [&coordinator, &query] {
            let ready = fleet.wait_until_ready(process, READY_TIMEOUT).await;
            ready.unwrap();
        }
        let documents = tempfile::tempdir().unwrap();
        std::fs::write(documents.path().join("guide.md"), markdown(1, 8).0).unwrap();
        let folder = documents.path().to_str().unwrap();
        let submit = ["--json", "submit", folder];
        let submitted = fleet.run(&submit, COMMAND_TIMEOUT).await.unwrap();
        let submitted: Value = serde_json::from_slice(&submitted.stdout).unwrap();
        let job = submitted["job"].as_str().unwrap().to_string();
        let installation = Self {
            coordinator: fleet.address(&coordinator).unwrap(),
            query: fleet.address(&query).unwrap(),
            fleet,
            proxy,
            job,
        };
        let started = Instant::now();
        while installation.status().await["jobs"][0]["state"] != "running" {
            assert!(
                started.elapsed() < READY_TIMEOUT,
                "the job was not taken up"
            );
        }
        installation
    }

    fn set_away(&self, away: bool) {
        self.proxy.set_faults(ProxyFaults {
            paused: away,
            ..ProxyFaults::default()
        });
    }

    /// Waits until the answer of `/readyz` names what is wrong.
    async fn expect_unready(&self, process: SocketAddr, names: &dyn Fn(&Value) -> bool) {
        let started = Instant::now();
        loop {
            let reply = get(process, "/readyz", COMMAND_TIMEOUT).await;
            let (status, body) = reply.unwrap();
            let readiness: Value = serde_json::from_slice(&body).unwrap();
            if status == 503 && names(&readiness) {
                println!("/readyz: {:?}", started.elapsed());
                return;
            }
            let waited = started.elapsed();
            assert!(waited < READY_TIMEOUT, "{waited:?}: {readiness}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn status(&self) -> Value {
        let output = self.fleet.run(&["--json", "status"], COMMAND_TIMEOUT).await;
        serde_json::from_slice(&output.unwrap().stdout).unwrap()
    }

    /// The output of a command.
    async fn ask(&self, arguments: &[&str]) -> Value {
        let started = Instant::now();
        let output = self.fleet.run(arguments, COMMAND_TIMEOUT).await.unwrap();
        println!("{arguments:?}: {:?}", started.elapsed());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// Asks while the server is unavailable, and checks what does not depend on which one it is.
    async fn ask_all(&self, server: &str, port: &str) -> Value {
        self.set_away(true);
        let is_away = |readiness: &Value| readiness["away"] == serde_json::json!([port]);
        self.expect_unready(self.coordinator, &is_away).await;
        let status = self.ask(&["--json", "status"]).await;
        assert_eq!(status["troubles"][0]["server"], server, "{status}");
        assert_eq!(status["jobs"][0]["job"], self.job.as_str(), "{status}");
        assert_eq!(status["jobs"][0]["total"], 1, "{status}");
        let why = self.ask(&["--json", "why", &self.job]).await;
        assert_eq!(why["diagnosis"]["cause"], "server_trouble", "{why}");
        assert!(!why["diagnosis"]["remedy"].is_null(), "{why}");
        let checks = self.ask(&["--json", "doctor"]).await;
        let checks = checks.as_array().unwrap();
        let failed = checks.iter().find(|check| check["result"] == "failed");
        let next = failed.unwrap()["next"].as_str().unwrap();
        assert!(!next.contains("doctor"), "{next}");
        status
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_answer_while_the_broker_is_away() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let installation = Installation::start(&servers, ServerKind::RabbitMq).await;
    let status = installation.ask_all("broker", "queue").await;
    assert_eq!(status["processes"][0]["service"], "coordinator", "{status}");
    assert_eq!(status["jobs"][0]["state"], "running", "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_answer_while_redis_is_away() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let installation = Installation::start(&servers, ServerKind::Redis).await;
    installation.ask_all("redis", "ledger").await;
    let text = installation
        .fleet
        .run(&["status"], COMMAND_TIMEOUT)
        .await
        .unwrap();
    let text = [text.stdout, text.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("Redis does not answer"), "{text}");
    assert!(!text.contains("no coordinator"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_answer_while_the_store_is_away() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let installation = Installation::start(&servers, ServerKind::S3).await;
    let status = installation.ask_all("s3", "blobs").await;
    let is_away = |readiness: &Value| readiness["away"] == serde_json::json!(["blobs"]);
    installation
        .expect_unready(installation.query, &is_away)
        .await;
    assert_eq!(status["processes"][0]["service"], "coordinator", "{status}");
}

fn is_refused(port: &'static str) -> impl Fn(&Value) -> bool {
    move |readiness| {
        let troubles = readiness["troubles"].as_array().unwrap();
        troubles.iter().any(|trouble| {
            let operation = trouble["operation"].as_str().unwrap();
            trouble["kind"] == "refused" && operation.starts_with(port)
        })
    }
}

/// Its policy lacks the rights, or the account has ended.
#[tokio::test(flavor = "multi_thread")]
async fn store_that_refuses_is_named() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let installation = Installation::start(&servers, ServerKind::S3).await;
    installation.proxy.set_faults(ProxyFaults {
        denied: 1.0,
        ..ProxyFaults::default()
    });
    for process in [installation.coordinator, installation.query] {
        let is_refused = is_refused("blobs.");
        installation.expect_unready(process, &is_refused).await;
    }
    let status = installation.ask(&["--json", "status"]).await;
    assert_eq!(status["troubles"][0]["server"], "s3", "{status}");
    assert_eq!(status["troubles"][0]["kind"], "refused", "{status}");
}

/// Publishers are blocked while the broker has too little memory.
#[tokio::test(flavor = "multi_thread")]
async fn broker_that_is_full_is_named() {
    if TestServers::from_env().unwrap().is_none() {
        return;
    }
    // A broker of its own, because others publish to the shared one.
    let servers = TestServers::start().await.unwrap();
    let installation = Installation::start(&servers, ServerKind::RabbitMq).await;
    servers.set_memory_alarm(true).await.unwrap();
    // The broker says so to who publishes: the coordinator wakes the runs of the job.
    let pause = ["job", "pause", installation.job.as_str()];
    let pausing = installation.fleet.launch("cli", &pause).unwrap();
    let is_blocked = |readiness: &Value| readiness["troubles"][0]["kind"] == "blocked";
    installation
        .expect_unready(installation.coordinator, &is_blocked)
        .await;
    drop(pausing);
    let checks = installation.ask(&["--json", "doctor"]).await;
    let checks = checks.as_array().unwrap();
    let is_failed = |check: &&Value| check["result"] == "failed";
    let failed = checks.iter().find(is_failed).unwrap();
    assert!(failed["what"].as_str().unwrap().contains("blocks"));
    // A heartbeat later the others know.
    let started = Instant::now();
    loop {
        let status = installation.ask(&["--json", "status"]).await;
        if status["troubles"][0]["kind"] == "blocked" {
            break;
        }
        assert!(started.elapsed() < READY_TIMEOUT, "{status}");
    }
    let why = installation
        .ask(&["--json", "why", &installation.job])
        .await;
    assert!(!why["diagnosis"]["cause"].is_null(), "{why}");
}

/// A Redis without memory answers, and refuses what would need more.
#[tokio::test(flavor = "multi_thread")]
async fn redis_that_is_full_is_named() {
    if TestServers::from_env().unwrap().is_none() {
        return;
    }
    let servers = TestServers::start().await.unwrap();
    let installation = Installation::start(&servers, ServerKind::Redis).await;
    servers.set_redis_full(true).await.unwrap();
    let is_away = |readiness: &Value| readiness["away"] == serde_json::json!(["ledger"]);
    installation
        .expect_unready(installation.coordinator, &is_away)
        .await;
    let status = installation.ask(&["--json", "status"]).await;
    assert_eq!(status["troubles"][0]["server"], "redis", "{status}");
    let error = status["troubles"][0]["error"].as_str().unwrap();
    assert!(error.contains("OOM"), "{status}");
    let why = installation
        .ask(&["--json", "why", &installation.job])
        .await;
    assert_eq!(why["diagnosis"]["cause"], "server_trouble", "{why}");
    let checks = installation.ask(&["--json", "doctor"]).await;
    let checks = checks.as_array().unwrap();
    assert!(checks.iter().any(|check| {
        check["result"] == "failed" && check["what"].as_str().unwrap().contains("Redis")
    }));
    servers.set_redis_full(false).await.unwrap();
}
