//! What an operator sees while a server is away: `status`, `why` and `doctor` answer soon, and say which one it is.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their helpers")]

use std::time::{Duration, Instant};

use serde_json::Value;
use stemma_cluster::{
    Proxy, ProxyFaults, ServerKind, ServiceFleet, ServiceRole, TestServers, binary,
};
use stemma_filings::markdown;

const BUCKET: &str = "operator";
const READY_TIMEOUT: Duration = Duration::from_secs(90);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Commands promise an answer after about two seconds; the rest is for a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);

/// A coordinator with a submitted job that no worker takes, and one server behind a proxy.
struct Installation {
    fleet: ServiceFleet,
    proxy: Proxy,
    job: String,
}

impl Installation {
    async fn start(servers: &TestServers, behind_proxy: ServerKind) -> Self {
        servers.make_bucket(BUCKET).await.unwrap();
        let proxy = Proxy::tcp(servers.address(behind_proxy).unwrap())
            .await
            .unwrap();
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
        fleet
            .wait_until_ready(&coordinator, READY_TIMEOUT)
            .await
            .unwrap();
        let documents = tempfile::tempdir().unwrap();
        std::fs::write(documents.path().join("guide.md"), markdown(1, 8).0).unwrap();
        let folder = documents.path().to_str().unwrap();
        let submit = ["--json", "submit", folder];
        let submitted = fleet.run(&submit, COMMAND_TIMEOUT).await.unwrap();
        let submitted: Value = serde_json::from_slice(&submitted.stdout).unwrap();
        let job = submitted["job"].as_str().unwrap().to_string();
        let installation = Self { fleet, proxy, job };
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

    async fn status(&self) -> Value {
        let output = self.fleet.run(&["--json", "status"], COMMAND_TIMEOUT).await;
        serde_json::from_slice(&output.unwrap().stdout).unwrap()
    }

    /// The output of a command, which must come in time.
    async fn ask(&self, arguments: &[&str]) -> Value {
        let started = Instant::now();
        let output = self.fleet.run(arguments, COMMAND_TIMEOUT).await.unwrap();
        let took = started.elapsed();
        assert!(
            took < ANSWER_TIMEOUT,
            "{arguments:?} took {took:?}: {output:?}"
        );
        println!("{arguments:?}: {took:?}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// Asks while the server is away, and checks what does not depend on which one it is.
    async fn ask_all(&self, server: &str) -> Value {
        self.set_away(true);
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
    let status = installation.ask_all("broker").await;
    assert_eq!(status["processes"][0]["service"], "coordinator", "{status}");
    assert_eq!(status["jobs"][0]["state"], "running", "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_answer_while_redis_is_away() {
    let Some(servers) = TestServers::from_env().unwrap() else {
        return;
    };
    let installation = Installation::start(&servers, ServerKind::Redis).await;
    installation.ask_all("redis").await;
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
    let status = installation.ask_all("s3").await;
    assert_eq!(status["processes"][0]["service"], "coordinator", "{status}");
}
