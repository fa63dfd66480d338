//! One connection to the broker, and the supervisor that rebuilds it.
//!
//! Not lapin's own recovery, which hangs now and then when connections are cut (`docs/adr/0011`). Here a lost
//! connection is thrown away with everything on it, a new one is opened with backoff, and the topology is declared
//! again: a broker that came back empty is whole again before anyone publishes to it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use futures::StreamExt;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, ErrorKind, Event};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::RabbitSettings;
use super::topology::Topology;
use crate::env::Env;
use crate::port_error::PortError;

/// The longest wait for one answer of the broker, unless it has said that it holds us back.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for a connection that is being rebuilt.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Seconds between heartbeats; a peer that was silent for two of them is gone.
const HEARTBEAT_S: u16 = 10;
/// How often a connection that has said nothing is looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a connection may take to say goodbye.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The broker's reply code for a login or a right that it refuses.
const ACCESS_REFUSED: u16 = 403;

/// How to reach the broker.
#[derive(Clone)]
pub(super) struct BrokerEndpoint {
    pub uri: AMQPUri,
    name: String,
}

impl BrokerEndpoint {
    pub(super) fn new(settings: &RabbitSettings) -> Result<Self, PortError> {
        // The parser's own words are left out: they could repeat a part of the URL.
        let mut uri: AMQPUri = settings.url.reveal().parse().map_err(|_| {
            PortError::permanent(
                "queue",
                "connect",
                "the URL of the broker is not amqp://… or amqps://…",
            )
        })?;
        uri.query.heartbeat = Some(HEARTBEAT_S);
        uri.query.connection_timeout = u64::try_from(ANSWER_TIMEOUT.as_millis()).ok();
        Ok(Self {
            uri,
            name: settings.name.clone(),
        })
    }

    async fn open(&self, purpose: &str) -> Result<Connection, PortError> {
        let name = format!("{} ({purpose})", self.name);
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        with_timeout(
            "connect",
            Connection::connect_uri(self.uri.clone(), properties),
        )
        .await
    }
}

/// A connection that was open when it was handed out.
#[derive(Clone)]
pub(super) struct ConnectionHandle {
    connection: Arc<Connection>,
    /// Cancelled once the connection is given up, whatever its channels believe.
    pub lost: CancellationToken,
    pub reconnect: ReconnectSignal,
    /// Why the broker holds back publishers, while it does.
    pub blocked: watch::Receiver<Option<String>>,
}

impl ConnectionHandle {
    /// A fresh channel.
    pub(super) async fn channel(&self, operation: &'static str) -> Result<Channel, PortError> {
        self.reconnect
            .check(with_timeout(operation, self.connection.create_channel()).await)
    }
}

/// The doubt whether one certain connection still works: raised, it has that connection replaced, and no later one.
#[derive(Clone, Default)]
pub(super) struct ReconnectSignal(CancellationToken);

impl ReconnectSignal {
    /// Passes an answer on, and raises the doubt if it is that no answer came.
    pub(super) fn check<T>(&self, result: Result<T, PortError>) -> Result<T, PortError> {
        if result
            .as_ref()
            .is_err_and(|error| error.message == NO_ANSWER)
        {
            self.raise();
        }
        result
    }

    pub(super) fn raise(&self) {
        self.0.cancel();
    }
}

#[derive(Clone)]
enum ConnectionState {
    /// With what stood in the way last.
    Down(Option<PortError>),
    Up(ConnectionHandle),
    Closed,
}

impl ConnectionState {
    /// Whether waiting longer is no use.
    fn is_settled(&self) -> bool {
        match self {
            ConnectionState::Down(reason) => reason.as_ref().is_some_and(|error| !error.transient),
            ConnectionState::Up(_) | ConnectionState::Closed => true,
        }
    }
}

/// A connection that is kept up. Dropping it gives the connection up.
pub(super) struct SupervisedConnection {
    state: watch::Receiver<ConnectionState>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

impl SupervisedConnection {
    /// Starts to connect, and goes on for as long as the link lives. `purpose` tells the connections of a process
    /// apart in the broker's list.
    pub(super) fn open(
        endpoint: &BrokerEndpoint,
        purpose: &'static str,
        topology: &Arc<Topology>,
        env: &Env,
    ) -> Self {
        let (states, state) = watch::channel(ConnectionState::Down(None));
        let stop = CancellationToken::new();
        let supervisor = ConnectionSupervisor {
            endpoint: endpoint.clone(),
            purpose,
            topology: Arc::clone(topology),
            env: env.clone(),
            states,
        };
        env.spawn(supervisor.run(stop.clone()));
        Self {
            state,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        }
    }

    /// The connection; waits for it if it is being rebuilt.
    ///
    /// # Errors
    /// What stands in the way of it.
    pub(super) async fn handle(
        &self,
        operation: &'static str,
        patience: Duration,
    ) -> Result<ConnectionHandle, PortError> {
        let mut state = self.state.clone();
        let settled = timeout(patience, state.wait_for(ConnectionState::is_settled))
            .await
            .is_ok();
        let state = self.state.borrow().clone();
        match state {
            ConnectionState::Up(live) => Ok(live),
            ConnectionState::Closed => Err(PortError::permanent(
                "queue",
                operation,
                "the connection was closed",
            )),
            ConnectionState::Down(Some(error)) => Err(PortError { operation, ..error }),
            ConnectionState::Down(None) if settled => Err(PortError::transient(
                "queue",
                operation,
                "the connection was lost",
            )),
            ConnectionState::Down(None) => Err(PortError::transient(
                "queue",
                operation,
                "the broker does not answer",
            )),
        }
    }

    /// The connection, or an error after the time that a caller in the midst of work can wait.
    pub(super) async fn ready(
        &self,
        operation: &'static str,
    ) -> Result<ConnectionHandle, PortError> {
        self.handle(operation, RECONNECT_TIMEOUT).await
    }

    /// Why the broker holds back publishers, while it does.
    pub(super) fn blocked(&self) -> Option<String> {
        match &*self.state.borrow() {
            ConnectionState::Up(live) => live.blocked.borrow().clone(),
            ConnectionState::Down(_) | ConnectionState::Closed => None,
        }
    }

    /// Ends the connection in good order; returns when it is over, or after a short while.
    pub(super) async fn close(&self) {
        self.stop.cancel();
        let closed = self
            .state
            .clone()
            .wait_for(|state| matches!(state, ConnectionState::Closed))
            .await
            .is_ok();
        tracing::debug!(closed, "left the broker");
    }
}

struct ConnectionSupervisor {
    endpoint: BrokerEndpoint,
    purpose: &'static str,
    topology: Arc<Topology>,
    env: Env,
    states: watch::Sender<ConnectionState>,
}

impl ConnectionSupervisor {
    async fn run(self, stop: CancellationToken) {
        while let Some((handle, blocked)) = stop.run_until_cancelled(self.reconnect()).await {
            self.states
                .send_replace(ConnectionState::Up(handle.clone()));
            stop.run_until_cancelled(self.monitor(&handle, &blocked))
                .await;
            handle.lost.cancel();
            self.states.send_replace(ConnectionState::Down(None));
            if timeout(CLOSE_TIMEOUT, handle.connection.close(200, "OK".into()))
                .await
                .is_err()
            {
                tracing::debug!(connection = self.purpose, "the broker did not say goodbye");
            }
        }
        self.states.send_replace(ConnectionState::Closed);
    }

    /// Tries until there is a connection.
    async fn reconnect(&self) -> (ConnectionHandle, watch::Sender<Option<String>>) {
        loop {
            let tried = (|| self.connect()).retry(self.backoff()).notify(|error, pause| {
                self.states.send_replace(ConnectionState::Down(Some(error.clone())));
                tracing::warn!(connection = self.purpose, %error, pause_ms = pause.as_millis(), "no connection to the broker; trying again");
            });
            if let Ok(connected) = tried.await {
                return connected;
            }
        }
    }

    /// Without an end, and with jitter: after a restart of the broker every process comes at once.
    fn backoff(&self) -> ExponentialBuilder {
        ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(100))
            .with_factor(2.0)
            .with_max_delay(Duration::from_secs(5))
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(self.env.random())
    }

    async fn connect(
        &self,
    ) -> Result<(ConnectionHandle, watch::Sender<Option<String>>), PortError> {
        let connection = Arc::new(self.endpoint.open(self.purpose).await?);
        let (blocking, blocked) = watch::channel(None);
        let handle = ConnectionHandle {
            connection,
            lost: CancellationToken::new(),
            reconnect: ReconnectSignal::default(),
            blocked,
        };
        let channel = handle.channel("declare").await?;
        self.topology.declare(&channel).await?;
        Ok((handle, blocking))
    }

    /// Returns when the connection is lost or suspect.
    async fn monitor(&self, handle: &ConnectionHandle, blocked: &watch::Sender<Option<String>>) {
        let mut events = handle.connection.events_listener();
        loop {
            let event = tokio::select! {
                biased;
                () = handle.reconnect.0.cancelled() => {
                    tracing::warn!(connection = self.purpose, "the broker does not answer; connecting anew");
                    return;
                }
                event = events.next() => event,
                () = self.env.sleep(CHECK_INTERVAL) => None,
            };
            match event {
                Some(Event::ConnectionBlocked(reason)) => {
                    tracing::warn!(
                        connection = self.purpose,
                        reason,
                        "the broker holds back publishers"
                    );
                    blocked.send_replace(Some(reason));
                }
                Some(Event::ConnectionUnblocked) => {
                    tracing::info!(connection = self.purpose, "the broker takes messages again");
                    blocked.send_replace(None);
                }
                _ => {}
            }
            if !handle.connection.status().connected() {
                tracing::warn!(
                    connection = self.purpose,
                    "lost the connection to the broker; connecting anew"
                );
                return;
            }
        }
    }
}

/// What an error says when the broker did not answer at all.
const NO_ANSWER: &str = "the broker does not answer";

/// Waits for an answer of the broker, but not for ever.
pub(super) async fn with_timeout<T>(
    operation: &'static str,
    request: impl Future<Output = lapin::Result<T>>,
) -> Result<T, PortError> {
    with_timeout_or(request, |error| port_error(operation, error)).await
}

/// As [`with_timeout`]; `explain` says what an error means, or, for `None`, that no answer came.
pub(super) async fn with_timeout_or<T>(
    request: impl Future<Output = lapin::Result<T>>,
    explain: impl FnOnce(Option<&lapin::Error>) -> PortError,
) -> Result<T, PortError> {
    match timeout(ANSWER_TIMEOUT, request).await {
        Ok(reply) => reply.map_err(|error| explain(Some(&error))),
        Err(_) => Err(explain(None)),
    }
}

/// The port's words for an error. Everything may pass, except what the broker refuses by right.
pub(super) fn port_error(operation: &'static str, error: Option<&lapin::Error>) -> PortError {
    match error {
        None => PortError::transient("queue", operation, NO_ANSWER),
        Some(error) if reply_code(error) == Some(ACCESS_REFUSED) => {
            PortError::permanent("queue", operation, error.to_string())
        }
        Some(error) => PortError::transient("queue", operation, error.to_string()),
    }
}

/// The broker's reply code, if it was the broker that spoke.
pub(super) fn reply_code(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}
