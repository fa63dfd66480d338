//! Private queues for each test, removed at its end.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lapin::options::{ExchangeDeleteOptions, QueueDeleteOptions};
use lapin::{Connection, ConnectionProperties};
use stemma_adapters::rabbit::{RabbitQueue, RabbitSettings};
use stemma_engine::queue::{QueueName, RetryDelay};
use stemma_engine_testing::processes::{members_of_group, wait_until_stopped};
use stemma_store::Env;

/// A prefix that no other run or test uses.
pub fn fresh_prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(
        "test-{:08x}-{}",
        Env::system().random() as u32,
        NEXT.fetch_add(1, Ordering::SeqCst)
    )
}

pub fn settings(url: &str, prefix: &str) -> RabbitSettings {
    RabbitSettings {
        url: url.into(),
        prefix: prefix.into(),
        name: "test".into(),
    }
}

pub async fn connect(url: &str, prefix: &str) -> Arc<RabbitQueue> {
    Arc::new(
        RabbitQueue::connect(&settings(url, prefix), &Env::system())
            .await
            .expect("connected"),
    )
}

// The queue names that the adapter promises, repeated here on purpose.
pub fn queues(prefix: &str) -> Vec<String> {
    let delay_queues =
        RetryDelay::ALL.map(|delay| format!("{prefix}.later.{}s", delay.duration().as_secs()));
    QueueName::all()
        .map(|queue| format!("{prefix}.{queue}"))
        .chain(delay_queues)
        .collect()
}

/// Deletes all queues and exchanges with a prefix.
pub async fn remove(url: &str, prefix: &str) {
    let connection = Connection::connect(url, ConnectionProperties::default())
        .await
        .expect("connected");
    let channel = connection.create_channel().await.expect("a channel");
    for queue in queues(prefix) {
        channel
            .queue_delete(queue.into(), QueueDeleteOptions::default())
            .await
            .expect("deleted");
    }
    let delay_queues =
        RetryDelay::ALL.map(|delay| format!("{prefix}.later.{}s", delay.duration().as_secs()));
    for exchange in delay_queues
        .into_iter()
        .chain([prefix.to_string(), format!("{prefix}.events")])
    {
        channel
            .exchange_delete(exchange.into(), ExchangeDeleteOptions::default())
            .await
            .expect("deleted");
    }
    connection.close(200, "OK".into()).await.expect("closed");
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/services");

/// A private broker, started by `tests/services` in a temporary folder.
pub struct Services {
    folder: tempfile::TempDir,
}

impl Services {
    pub fn is_available() -> bool {
        Path::new("/usr/lib/rabbitmq/bin/rabbitmq-server").exists()
    }

    pub async fn start() -> Self {
        let services = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        services.run("start", &[]).await;
        services
    }

    pub async fn url(&self) -> String {
        let env = tokio::fs::read_to_string(self.servers().join("env"))
            .await
            .expect("its environment");
        let line = env
            .lines()
            .find_map(|line| line.strip_prefix("STEMMA_TEST_RABBITMQ="))
            .expect("a URL");
        line.trim_matches('\'').to_string()
    }

    pub async fn kill(&self) {
        self.run("kill", &["rabbitmq"]).await;
    }

    /// Stops the server's processes where they are: it takes connections and data, and answers nothing.
    pub async fn freeze(&self) {
        let id = tokio::fs::read_to_string(self.servers().join("rabbitmq.pid")).await;
        let id = id.expect("its process");
        let group = id.split(' ').next().expect("an id");
        let mut kill = tokio::process::Command::new("kill");
        kill.args(["-s", "STOP", "--", &format!("-{group}")]);
        check("kill", kill.output().await);
        let members = members_of_group(group.parse().expect("a number"));
        assert!(members.len() > 1, "a shell and the server: {members:?}");
        members.into_iter().for_each(wait_until_stopped);
    }

    pub async fn restart(&self) {
        self.run("restart", &["rabbitmq"]).await;
    }

    /// Makes the broker believe that this is all its memory.
    pub async fn set_memory(&self, limit: &str) {
        self.control(&["set_vm_memory_high_watermark", "absolute", limit])
            .await;
    }

    /// Runs a command of the broker's own administration.
    pub async fn control(&self, command: &[&str]) {
        let mut control = tokio::process::Command::from(self.command("rabbitmqctl", &[]));
        check("rabbitmqctl", control.args(command).output().await);
    }

    async fn run(&self, name: &str, servers: &[&str]) {
        check(
            name,
            tokio::process::Command::from(self.command(name, servers))
                .output()
                .await,
        );
    }

    /// `tests/services NAME [SERVER] DIR`, with only the broker.
    fn command(&self, name: &str, servers: &[&str]) -> Command {
        let mut command = Command::new(SCRIPT);
        command
            .arg(name)
            .args(servers)
            .arg(self.servers())
            .env_remove("STEMMA_TEST_RABBITMQ");
        command
            .env("STEMMA_TEST_REDIS", "none")
            .env("STEMMA_TEST_S3", "none");
        command
    }

    fn servers(&self) -> PathBuf {
        self.folder.path().join("servers")
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        let stopped = self.command("stop", &[]).status();
        assert!(
            stopped.is_ok_and(|status| status.success()) || std::thread::panicking(),
            "the broker stops"
        );
    }
}

fn check(name: &str, output: std::io::Result<Output>) {
    let output = output.expect("tests/services runs");
    assert!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
