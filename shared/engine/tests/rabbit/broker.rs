//! Queues of their own for every test, removed when it is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lapin::options::{ExchangeDeleteOptions, QueueDeleteOptions};
use lapin::{Connection, ConnectionProperties};
use stemma_engine::Env;
use stemma_engine::queue::{QueueName, RabbitQueue, RabbitSettings, Rung};

/// A prefix that no other run and no other test uses.
pub fn fresh_prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test-{:08x}-{}", Env::system().random() as u32, NEXT.fetch_add(1, Ordering::SeqCst))
}

pub fn settings(url: &str, prefix: &str) -> RabbitSettings {
    RabbitSettings { url: url.into(), prefix: prefix.into(), name: "test".into() }
}

pub async fn connect(url: &str, prefix: &str) -> Arc<RabbitQueue> {
    Arc::new(RabbitQueue::connect(&settings(url, prefix), &Env::system()).await.expect("connected"))
}

/// The names that the adapter promises, written down a second time.
pub fn queues(prefix: &str) -> Vec<String> {
    let rungs = Rung::ALL.map(|rung| format!("{prefix}.later.{}s", rung.delay().as_secs()));
    QueueName::all().map(|queue| format!("{prefix}.{queue}")).chain(rungs).collect()
}

/// Removes everything below a prefix.
pub async fn remove(url: &str, prefix: &str) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.expect("connected");
    let channel = connection.create_channel().await.expect("a channel");
    for queue in queues(prefix) {
        channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.expect("deleted");
    }
    let rungs = Rung::ALL.map(|rung| format!("{prefix}.later.{}s", rung.delay().as_secs()));
    for exchange in rungs.into_iter().chain([prefix.to_string(), format!("{prefix}.events")]) {
        channel.exchange_delete(exchange.into(), ExchangeDeleteOptions::default()).await.expect("deleted");
    }
    connection.close(200, "OK".into()).await.expect("closed");
}

/// The servers that `tests/services` started in a folder.
pub struct Services {
    pub folder: String,
}

impl Services {
    /// Runs a command of `tests/services`.
    pub async fn run(&self, command: &[&str]) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/services");
        let done = tokio::process::Command::new(script).args(command).kill_on_drop(true).output().await;
        let output = done.expect("tests/services runs");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
