//! The connection to Redis that the ledger and the limiter share: one, multiplexed, and never waited for longer than
//! its timeout.
//!
//! Redis may go away, come back empty, be replaced behind its name, or stop answering. Every call then fails as passing,
//! and a later one finds a new connection. A refused password is a lasting failure, but is asked for again all the same:
//! it may be put right on the server.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    Client, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo, RedisError, RedisResult,
    ScriptInvocation, ServerErrorKind,
};

use crate::port::PortError;
use crate::secret::Secret;

/// After how long without an acknowledged byte the system gives a connection up.
const SILENCE: Duration = Duration::from_secs(10);
/// Calls in a row without an answer after which another connection is tried.
const STRIKES: u32 = 3;
/// Calls that wait to be sent; more wait before this.
const PIPELINE: usize = 1_000;
/// The longest message of an error, in characters.
const MESSAGE: usize = 200;

/// Where Redis is, and how it is used.
#[derive(Debug, Clone)]
pub struct RedisSettings {
    /// `redis://[[user]:password@]host:port[/database]`, or `rediss://` for TLS.
    pub url: Secret,
    /// What the names of all keys begin with: several deployments can share a server.
    pub prefix: String,
    /// How long any call may take.
    pub timeout: Duration,
}

impl RedisSettings {
    /// The usual settings: prefix `stemma`, 2 s.
    pub fn new(url: Secret) -> Self {
        Self {
            url,
            prefix: "stemma".into(),
            timeout: Duration::from_secs(2),
        }
    }
}

/// A client of Redis. Cheap to clone; clones share one connection.
#[derive(Clone)]
pub struct RedisClient(Arc<Inner>);

struct Inner {
    client: Client,
    prefix: String,
    timeout: Duration,
    live: Mutex<Live>,
}

/// The connection in use.
#[derive(Clone)]
struct Live {
    manager: ConnectionManager,
    /// Calls in a row that had no answer.
    strikes: Arc<AtomicU32>,
}

/// A port and its operation, for errors.
pub(crate) type Operation = (&'static str, &'static str);

impl RedisClient {
    /// A client that connects with its first call: a service starts also while Redis is away. Needs a tokio runtime,
    /// and lives no longer than that.
    ///
    /// # Errors
    /// A lasting [`PortError`] when the URL is not one. It does not repeat the URL.
    pub fn open(settings: &RedisSettings) -> Result<Self, PortError> {
        let wrong = || {
            PortError::lasting(
                "ledger",
                "open",
                "the URL of Redis is not redis:// or rediss://host:port",
            )
        };
        let url = settings.url.reveal();
        if !(url.starts_with("redis://") || url.starts_with("rediss://")) {
            return Err(wrong());
        }
        let place = url
            .into_connection_info()
            .map_err(|_| wrong())?
            .set_tcp_settings(tcp());
        let client = Client::open(place).map_err(|_| wrong())?;
        let live = Live::new(&client, settings.timeout)
            .map_err(|error| failure(("ledger", "open"), &error))?;
        let prefix = settings.prefix.clone();
        Ok(Self(Arc::new(Inner {
            client,
            prefix,
            timeout: settings.timeout,
            live: Mutex::new(live),
        })))
    }

    /// Whether Redis answers: for readiness.
    ///
    /// # Errors
    /// [`PortError`] when it does not.
    pub async fn ping(&self) -> Result<(), PortError> {
        self.query(("ledger", "ping"), &redis::cmd("PING")).await
    }

    /// The name of a key. Keys with the same `tag` lie on the same node of a cluster.
    pub(crate) fn key(&self, tag: &str, what: &str) -> String {
        format!("{}:{{{tag}}}:{what}", self.0.prefix)
    }

    /// Runs a script; it is sent again to a server that has lost it.
    pub(crate) async fn invoke<T: FromRedisValue>(
        &self,
        operation: Operation,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, PortError> {
        let live = self.live().clone();
        let mut connection = live.manager.clone();
        self.answer(operation, &live, script.invoke_async(&mut connection))
            .await
    }

    /// Runs a command.
    pub(crate) async fn query<T: FromRedisValue>(
        &self,
        operation: Operation,
        command: &Cmd,
    ) -> Result<T, PortError> {
        let live = self.live().clone();
        let mut connection = live.manager.clone();
        self.answer(operation, &live, command.query_async(&mut connection))
            .await
    }

    async fn answer<T>(
        &self,
        operation: Operation,
        live: &Live,
        call: impl Future<Output = RedisResult<T>>,
    ) -> Result<T, PortError> {
        match tokio::time::timeout(self.0.timeout, call).await {
            Ok(Ok(answer)) => {
                live.strikes.store(0, Ordering::Relaxed);
                Ok(answer)
            }
            Ok(Err(error)) => {
                if is_for_good(&error) || (error.is_timeout() && live.strike()) {
                    self.renew(live);
                }
                Err(failure(operation, &error))
            }
            Err(_) => {
                if live.strike() {
                    self.renew(live);
                }
                let (port, operation) = operation;
                Err(PortError::passing(
                    port,
                    operation,
                    format!("no answer from Redis in {:?}", self.0.timeout),
                ))
            }
        }
    }

    /// Puts a new connection in the place of `dead`, unless another call has done so.
    fn renew(&self, dead: &Live) {
        let mut live = self.live();
        if Arc::ptr_eq(&live.strikes, &dead.strikes)
            && let Ok(fresh) = Live::new(&self.0.client, self.0.timeout)
        {
            *live = fresh;
        }
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.0.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    /// A connection made by its first call. A lost one is made anew: two tries, then the calls that wait for it fail
    /// and the next call tries again.
    fn new(client: &Client, timeout: Duration) -> RedisResult<Self> {
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(timeout / 2))
            .set_response_timeout(Some(timeout))
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(50))
            .set_max_delay(Duration::from_millis(200))
            .set_pipeline_buffer_size(PIPELINE);
        let manager = ConnectionManager::new_lazy_with_config(client.clone(), config)?;
        Ok(Self {
            manager,
            strikes: Arc::default(),
        })
    }

    /// Notes that a call had no answer; true when it is time for another connection.
    fn strike(&self) -> bool {
        self.strikes.fetch_add(1, Ordering::Relaxed) + 1 >= STRIKES
    }
}

fn tcp() -> TcpSettings {
    let keepalive = TcpKeepalive::new()
        .with_time(SILENCE)
        .with_interval(SILENCE / 3);
    let settings = TcpSettings::default()
        .set_nodelay(true)
        .set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(SILENCE);
    settings
}

/// Errors after which a connection is of no use and its manager does not replace it by itself: the server has not let
/// us in, or is no longer the one that takes writes.
fn is_for_good(error: &RedisError) -> bool {
    refuses(error) || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
}

fn refuses(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM"))
}

/// What asking again cannot help.
fn is_lasting(error: &RedisError) -> bool {
    let full = || {
        error
            .detail()
            .is_some_and(|detail| detail.contains("max number of clients"))
    };
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::ResponseError) => !full(),
        ErrorKind::Server(
            ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot,
        )
        | ErrorKind::InvalidClientConfig
        | ErrorKind::UnexpectedReturnType => true,
        _ => refuses(error) || error.code() == Some("WRONGTYPE"),
    }
}

/// The error of a port: what the server said, cut, and never what we sent.
fn failure((port, operation): Operation, error: &RedisError) -> PortError {
    let said: String = error
        .detail()
        .unwrap_or_default()
        .chars()
        .take(MESSAGE)
        .collect();
    let message = match (error.kind(), error.code()) {
        _ if refuses(error) => "Redis refuses this user or password".into(),
        (ErrorKind::Io, _) => format!(
            "Redis is away: {}",
            error.to_string().chars().take(MESSAGE).collect::<String>()
        ),
        (_, Some(code)) => format!("Redis says {code} {said}"),
        _ => format!("{}: {said}", error.category()),
    };
    if is_lasting(error) {
        PortError::lasting(port, operation, message)
    } else {
        PortError::passing(port, operation, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_url_is_never_repeated() {
        for url in [
            "http://u:hunter2@host",
            "redis://u:hunter2@host:port",
            "hunter2",
        ] {
            let error = RedisClient::open(&RedisSettings::new(url.into()))
                .err()
                .unwrap();
            assert!(
                !error.passing && !error.to_string().contains("hunter2"),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn a_server_that_is_away_is_a_passing_failure_with_and_without_tls() {
        for scheme in ["redis", "rediss"] {
            let settings = RedisSettings::new(format!("{scheme}://u:hunter2@127.0.0.1:1").into());
            let error = RedisClient::open(&settings)
                .unwrap()
                .ping()
                .await
                .unwrap_err();
            assert!(
                error.passing && !error.to_string().contains("hunter2"),
                "{error}"
            );
        }
    }

    #[test]
    fn failures_are_passing_unless_asking_again_cannot_help() {
        let error =
            |line: &str| redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        let passing = |line: &str| {
            failure(("ledger", "x"), &error(line).extract_error().unwrap_err()).passing
        };
        for line in [
            "LOADING it",
            "READONLY a",
            "OOM x",
            "MISCONF x",
            "BUSY x",
            "ERR max number of clients reached",
        ] {
            assert!(passing(line), "{line}");
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
            assert!(!passing(line), "{line}");
        }
    }
}
