//! Redis servers for tests: a shared one, and private ones that may be killed.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use stemma_adapters::redis::{RedisClient, RedisSettings};
use stemma_engine_testing::processes::wait_until_stopped;
use stemma_engine_testing::servers::{free_port, server_from_env};
use stemma_engine_testing::wait::block_until;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

static COUNT: AtomicU32 = AtomicU32::new(0);
pub const PATIENCE: Duration = Duration::from_secs(60);
const IMPATIENCE: Duration = Duration::from_millis(500);

/// A client of the shared server with a private key prefix.
pub struct SharedRedis {
    pub redis: RedisClient,
    pub prefix: String,
    plain: redis::Client,
}

impl SharedRedis {
    /// `None` if tests that need servers are to be skipped.
    pub fn from_env() -> Option<Self> {
        let url = server_from_env("STEMMA_TEST_REDIS")?;
        let prefix = format!(
            "test-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::SeqCst)
        );
        let settings = RedisSettings {
            prefix: prefix.clone(),
            timeout: PATIENCE,
            ..RedisSettings::new(url.as_str().into())
        };
        let plain = redis::Client::open(url).unwrap();
        Some(Self {
            redis: RedisClient::open(&settings).unwrap(),
            prefix,
            plain,
        })
    }

    /// Names of all its keys, and their TTL in milliseconds (-1: never expires).
    pub async fn keys(&self) -> Vec<(String, i64)> {
        let mut connection = self.plain.get_multiplexed_async_connection().await.unwrap();
        let mut keys = Vec::new();
        let mut cursor = 0u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor)
                .arg("MATCH")
                .arg(format!("{}:*", self.prefix))
                .arg("COUNT")
                .arg(1_000);
            let (next, batch): (u64, Vec<String>) =
                scan.query_async(&mut connection).await.unwrap();
            for key in batch {
                let ms: i64 = redis::cmd("PTTL")
                    .arg(&key)
                    .query_async(&mut connection)
                    .await
                    .unwrap();
                keys.push((key, ms));
            }
            cursor = next;
            if cursor == 0 {
                return keys;
            }
        }
    }

    pub async fn remove(&self, keys: &[String]) {
        if !keys.is_empty() {
            let mut connection = self.plain.get_multiplexed_async_connection().await.unwrap();
            let removed: usize = redis::cmd("DEL")
                .arg(keys)
                .query_async(&mut connection)
                .await
                .unwrap();
            assert_eq!(removed, keys.len());
        }
    }

    /// Runs a command like `redis-cli`.
    pub async fn run(&self, words: &[&str]) {
        let mut connection = self.plain.get_multiplexed_async_connection().await.unwrap();
        redis::cmd(words[0])
            .arg(&words[1..])
            .query_async::<()>(&mut connection)
            .await
            .unwrap();
    }

    // Deletes only its own keys: other tests use the server as well.
    pub async fn flush(&self) {
        let keys: Vec<String> = self.keys().await.into_iter().map(|(key, _)| key).collect();
        self.remove(&keys).await;
    }
}

/// A private server of one test.
pub struct PrivateRedis {
    port: u16,
    more: Vec<String>,
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl PrivateRedis {
    /// Starts a server with additional options; `None` if redis-server is not installed.
    pub fn start(more: &[&str]) -> Option<Self> {
        if Command::new("redis-server")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_err()
        {
            server_from_env("STEMMA_TEST_REDIS")?;
            println!("skipped: redis-server is not installed, so no private server can be started");
            return None;
        }
        let more = more.iter().map(ToString::to_string).collect();
        let mut server = Self {
            port: free_port(),
            more,
            folder: tempfile::tempdir().unwrap(),
            child: None,
        };
        server.restart();
        Some(server)
    }

    /// Kills the server with all its data, and starts it again.
    pub fn restart(&mut self) {
        self.kill();
        let mut command = Command::new("redis-server");
        command.args([
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--port",
        ]);
        command
            .arg(self.port.to_string())
            .arg("--dir")
            .arg(self.folder.path())
            .args(&self.more);
        self.child = Some(command.stdout(Stdio::null()).spawn().unwrap());
        block_until("redis-server starts", || {
            std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Suspends or resumes the server.
    pub fn freeze(&self, frozen: bool) {
        let child = self.child.as_ref().unwrap();
        let signal = if frozen { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(child), signal).unwrap();
        if frozen {
            wait_until_stopped(child.id());
        }
    }

    /// Runs a command like `redis-cli`, with these credentials (`:password@`, or nothing).
    pub async fn run(&self, credentials: &str, words: &[&str]) {
        let client = redis::Client::open(self.url(credentials)).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async::<()>(&mut connection).await.unwrap();
    }

    pub fn url(&self, credentials: &str) -> String {
        format!("redis://{credentials}127.0.0.1:{}", self.port)
    }

    /// A client that waits for a busy server.
    pub fn client(&self, credentials: &str) -> RedisClient {
        client(&self.url(credentials), PATIENCE)
    }

    /// A client with a timeout of half a second.
    pub fn impatient_client(&self) -> RedisClient {
        client(&self.url(""), IMPATIENCE)
    }
}

impl Drop for PrivateRedis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Forwards connections to a server until they stall.
pub struct StallingProxy {
    port: u16,
    stalls: watch::Sender<u32>,
    accepting: JoinHandle<()>,
}

impl StallingProxy {
    pub async fn in_front_of(server: &PrivateRedis) -> Self {
        let upstream = server.port;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stalls = watch::Sender::new(0);
        let stalled = stalls.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut stall = stalled.subscribe();
                tokio::spawn(async move {
                    let Ok(mut server) = TcpStream::connect(("127.0.0.1", upstream)).await else {
                        return;
                    };
                    tokio::select! {
                        // What is sent after `stall` returned is not forwarded.
                        biased;
                        // Both stay open, and nobody reads them.
                        _ = stall.changed() => std::future::pending().await,
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                    }
                });
            }
        });
        Self {
            port,
            stalls,
            accepting,
        }
    }

    /// Stops forwarding on every open connection without closing it. New ones are forwarded.
    pub fn stall(&self) {
        self.stalls.send_modify(|stalls| *stalls += 1);
    }

    /// A client of the server with a timeout of half a second.
    pub fn client(&self) -> RedisClient {
        client(&format!("redis://127.0.0.1:{}", self.port), IMPATIENCE)
    }
}

impl Drop for StallingProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn client(url: &str, timeout: Duration) -> RedisClient {
    RedisClient::open(&RedisSettings {
        timeout,
        ..RedisSettings::new(url.into())
    })
    .unwrap()
}
