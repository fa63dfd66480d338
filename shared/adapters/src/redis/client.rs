//! The Redis connection shared by ledger and limiter: one multiplexed connection, with a timeout on every call.
//!
//! Redis may go away, come back empty, be replaced behind its DNS name, or stop responding. Calls then fail with a
//! transient error, and a later call opens a new connection. A refused password is a permanent error, but is tried
//! again with the next call: it may have been corrected on the server.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    Client, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo, RedisError, RedisResult,
    ScriptInvocation, ServerErrorKind,
};

use stemma_store::port_error::{PortError, PortErrorKind, PortResult};
use stemma_store::secret::Secret;

// Unacknowledged data makes the kernel close the connection after this time.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);
// Consecutive calls without a response before the connection is replaced.
const MAX_MISSED_REPLIES: u32 = 3;
// Calls queued for sending; further calls wait.
const PIPELINE_DEPTH: usize = 1_000;
// Maximum length of an error message in characters.
const MAX_MESSAGE_CHARS: usize = 200;

/// Connection settings.
#[derive(Debug, Clone)]
pub struct RedisSettings {
    /// `redis://[[user]:password@]host:port[/database]`, or `rediss://` for TLS.
    pub url: Secret,
    /// Prefix of all keys: several deployments can share a server.
    pub prefix: String,
    /// Timeout of a call.
    pub timeout: Duration,
}

impl RedisSettings {
    /// Default settings: prefix `stemma`, timeout 2 s.
    pub fn new(url: Secret) -> Self {
        Self {
            url,
            prefix: "stemma".into(),
            timeout: Duration::from_secs(2),
        }
    }
}

/// A Redis client. Cheap to clone; clones share one connection.
#[derive(Clone)]
pub struct RedisClient(Arc<RedisClientInner>);

struct RedisClientInner {
    client: Client,
    prefix: String,
    timeout: Duration,
    connection: Mutex<RedisConnection>,
}

#[derive(Clone)]
struct RedisConnection {
    manager: ConnectionManager,
    // Consecutive calls without a response.
    missed_replies: Arc<AtomicU32>,
}

impl RedisClient {
    /// A client that connects with its first call, so that a service can start while Redis is unavailable. Needs a
    /// tokio runtime, and must not outlive it.
    ///
    /// # Errors
    /// A permanent [`PortError`] when the URL is invalid. It does not repeat the URL.
    pub fn open(settings: &RedisSettings) -> PortResult<Self> {
        let client = open_client(settings.url.reveal()).ok_or_else(|| {
            PortError::permanent(
                "ledger.open",
                "the Redis URL is not redis:// or rediss://host:port",
            )
        })?;
        let live = RedisConnection::new(&client, settings.timeout)
            .map_err(|error| port_error("ledger.open", &error))?;
        let prefix = settings.prefix.clone();
        Ok(Self(Arc::new(RedisClientInner {
            client,
            prefix,
            timeout: settings.timeout,
            connection: Mutex::new(live),
        })))
    }

    /// Checks that Redis responds.
    pub async fn ping(&self) -> PortResult<()> {
        self.query("ledger.ping", &redis::cmd("PING")).await
    }

    /// The name of a key. Keys with the same `tag` are on the same node of a cluster.
    pub(crate) fn key(&self, tag: &str, what: &str) -> String {
        format!("{}:{{{tag}}}:{what}", self.0.prefix)
    }

    /// Runs a script; sends it first if the server does not know it.
    pub(crate) async fn invoke<T: FromRedisValue>(
        &self,
        operation: &'static str,
        script: &ScriptInvocation<'_>,
    ) -> PortResult<T> {
        let live = self.0.connection.lock().clone();
        let mut connection = live.manager.clone();
        self.run(operation, &live, script.invoke_async(&mut connection))
            .await
    }

    pub(crate) async fn query<T: FromRedisValue>(
        &self,
        operation: &'static str,
        command: &Cmd,
    ) -> PortResult<T> {
        let live = self.0.connection.lock().clone();
        let mut connection = live.manager.clone();
        self.run(operation, &live, command.query_async(&mut connection))
            .await
    }

    async fn run<T>(
        &self,
        operation: &'static str,
        live: &RedisConnection,
        call: impl Future<Output = RedisResult<T>>,
    ) -> PortResult<T> {
        match tokio::time::timeout(self.0.timeout, call).await {
            Ok(Ok(value)) => {
                live.missed_replies.store(0, Ordering::Relaxed);
                Ok(value)
            }
            Ok(Err(error)) => {
                if needs_reconnect(&error) || (error.is_timeout() && live.record_missed_reply()) {
                    self.replace_connection(live);
                }
                Err(port_error(operation, &error))
            }
            Err(_) => {
                if live.record_missed_reply() {
                    self.replace_connection(live);
                }
                Err(PortError::transient(
                    operation,
                    format!("no answer from Redis in {:?}", self.0.timeout),
                ))
            }
        }
    }

    // Does nothing if another call has already replaced `dead`.
    fn replace_connection(&self, dead: &RedisConnection) {
        let mut live = self.0.connection.lock();
        if Arc::ptr_eq(&live.missed_replies, &dead.missed_replies)
            && let Ok(fresh) = RedisConnection::new(&self.0.client, self.0.timeout)
        {
            *live = fresh;
        }
    }
}

impl RedisConnection {
    // Connects on the first call and reconnects by itself: after two attempts the waiting calls fail, and the next call
    // tries again.
    fn new(client: &Client, timeout: Duration) -> RedisResult<Self> {
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(timeout / 2))
            .set_response_timeout(Some(timeout))
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(50))
            .set_max_delay(Duration::from_millis(200))
            .set_pipeline_buffer_size(PIPELINE_DEPTH);
        let manager = ConnectionManager::new_lazy_with_config(client.clone(), config)?;
        Ok(Self {
            manager,
            missed_replies: Arc::default(),
        })
    }

    /// Counts a call without a response; true when the connection should be replaced.
    fn record_missed_reply(&self) -> bool {
        self.missed_replies.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_MISSED_REPLIES
    }
}

fn open_client(url: &str) -> Option<Client> {
    let is_tcp = url.starts_with("redis://") || url.starts_with("rediss://");
    let address = url.into_connection_info().ok().filter(|_| is_tcp)?;
    Client::open(address.set_tcp_settings(tcp_settings())).ok()
}

fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new()
        .with_time(TCP_USER_TIMEOUT)
        .with_interval(TCP_USER_TIMEOUT / 3);
    let settings = TcpSettings::default()
        .set_nodelay(true)
        .set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(TCP_USER_TIMEOUT);
    settings
}

// Errors after which the connection is unusable although its manager does not replace it: the server has refused us, or
// is no longer the primary.
fn needs_reconnect(error: &RedisError) -> bool {
    is_access_refused(error) || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
}

fn is_access_refused(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM"))
}

fn port_error_kind(error: &RedisError) -> PortErrorKind {
    match error.kind() {
        // Too many clients is a plain error response, but passes when others disconnect. Proxies say all that is wrong
        // with their server in plain error responses.
        ErrorKind::Server(ServerErrorKind::ResponseError) => {
            let is_full = error
                .detail()
                .is_some_and(|detail| detail.contains("max number of clients"));
            if is_full {
                PortErrorKind::Transient
            } else {
                PortErrorKind::Refused
            }
        }
        ErrorKind::InvalidClientConfig => PortErrorKind::Permanent,
        // Another kind of server, or another program that writes to our keys: no document is to blame.
        ErrorKind::Server(
            ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot,
        )
        | ErrorKind::UnexpectedReturnType => PortErrorKind::Refused,
        _ if error.code() == Some("WRONGTYPE") => PortErrorKind::Refused,
        _ if is_access_refused(error) => PortErrorKind::Refused,
        _ => PortErrorKind::Transient,
    }
}

// Contains what the server said, clipped, and never what we sent.
fn port_error(operation: &'static str, error: &RedisError) -> PortError {
    let text: String = error
        .detail()
        .unwrap_or_default()
        .chars()
        .take(MAX_MESSAGE_CHARS)
        .collect();
    let message = match (error.kind(), error.code()) {
        _ if is_access_refused(error) => "Redis refuses this user or password".into(),
        (ErrorKind::Io, _) => format!(
            "Redis is unavailable: {}",
            error
                .to_string()
                .chars()
                .take(MAX_MESSAGE_CHARS)
                .collect::<String>()
        ),
        (_, Some(code)) => format!("Redis says {code} {text}"),
        _ => format!("{}: {text}", error.category()),
    };
    PortError {
        operation,
        message,
        kind: port_error_kind(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn errors_never_contain_the_url() {
        for url in [
            "http://u:hunter2@host",
            "redis://u:hunter2@host:port",
            "hunter2",
        ] {
            let error = RedisClient::open(&RedisSettings::new(url.into()))
                .err()
                .unwrap();
            assert!(
                !error.is_transient() && !error.to_string().contains("hunter2"),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn unreachable_server_is_a_transient_error() {
        for scheme in ["redis", "rediss"] {
            let settings = RedisSettings::new(format!("{scheme}://u:hunter2@127.0.0.1:1").into());
            let error = RedisClient::open(&settings)
                .unwrap()
                .ping()
                .await
                .unwrap_err();
            assert!(
                error.is_transient() && !error.to_string().contains("hunter2"),
                "{error}"
            );
        }
    }

    #[test]
    fn redis_errors_are_classified_transient_or_permanent() {
        let error =
            |line: &str| redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        let is_transient = |line: &str| {
            port_error("ledger.x", &error(line).extract_error().unwrap_err()).is_transient()
        };
        for line in [
            "LOADING it",
            "READONLY a",
            "OOM x",
            "MISCONF x",
            "BUSY x",
            "ERR max number of clients reached",
        ] {
            assert!(is_transient(line), "{line}");
        }
        for line in [
            "NOAUTH x",
            "WRONGPASS x",
            "NOPERM x",
            "WRONGTYPE x",
            "CROSSSLOT x",
            "MOVED 1 h:1",
            "ERR x",
        ] {
            assert!(!is_transient(line), "{line}");
        }
    }
}
