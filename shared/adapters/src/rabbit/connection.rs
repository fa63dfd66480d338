//! A broker connection, and the supervisor that rebuilds it.
//!
//! lapin's own recovery is not used because it sometimes hangs when connections are cut (`docs/adr/0011`). A lost
//! connection is dropped with all its channels, a new one is opened with backoff, and the topology is declared again: a
//! broker that has lost its data is complete before anyone publishes to it. Processes whose login may not declare wait for
//! one that may, which declares again from time to time: queues can be deleted that only the others use.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use futures::StreamExt;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, ErrorKind, Event};
use stemma_engine::RepeatedLog;
use stemma_store::env::{Env, Millis};
use stemma_store::port_error::{PortError, PortErrorKind, PortResult};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::RabbitSettings;
use super::reply::{
    ANSWER_TIMEOUT, NO_ANSWER, NOT_FOUND, port_error, reply_code, with_timeout, with_timeout_or,
};
use super::topology::Topology;

// How long callers wait for a connection that is being rebuilt, unless the connection says otherwise.
pub(super) const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);
// Heartbeat interval in seconds; a peer silent for two intervals is gone.
const HEARTBEAT_S: u16 = 10;
// How often an idle connection is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
// How often queues and exchanges are declared again.
const DECLARE_EVERY_MS: Millis = 15_000;
// The purpose of the connection that declares them: a broker that is short of memory does not read from one that publishes.
pub(super) const CONSUME: &str = "consume";
// How long closing a connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(super) struct BrokerEndpoint {
    pub uri: AMQPUri,
    name: String,
}

impl BrokerEndpoint {
    pub(super) fn new(settings: &RabbitSettings) -> PortResult<Self> {
        // The parser's error is left out: it could repeat a part of the URL.
        let mut uri: AMQPUri = settings.url.reveal().parse().map_err(|_| {
            PortError::permanent(
                "queue.connect",
                "the broker URL is not amqp://… or amqps://…",
            )
        })?;
        uri.query.heartbeat = Some(HEARTBEAT_S);
        uri.query.connection_timeout = u64::try_from(ANSWER_TIMEOUT.as_millis()).ok();
        Ok(Self {
            uri,
            name: settings.name.clone(),
        })
    }

    async fn open(&self, purpose: &str) -> PortResult<Connection> {
        let name = format!("{} ({purpose})", self.name);
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        with_timeout(
            "queue.connect",
            Connection::connect_uri(self.uri.clone(), properties),
        )
        .await
    }
}

// A connection that was open when it was handed out.
#[derive(Clone)]
pub(super) struct ConnectionHandle {
    connection: Arc<Connection>,
    // Cancelled once the connection is given up, whatever state its channels report.
    pub lost: CancellationToken,
    pub reconnect: ReconnectSignal,
    // Why the broker blocks publishers, while it does.
    pub blocked: watch::Receiver<Option<String>>,
}

impl ConnectionHandle {
    pub(super) async fn channel(&self, operation: &'static str) -> PortResult<Channel> {
        let created = self.connection.create_channel();
        self.reconnect.request(operation, created).await
    }

    /// Declares the topology, and returns true. A login without the permission checks that another process has declared it.
    pub(super) async fn declare(
        &self,
        operation: &'static str,
        topology: &Topology,
    ) -> PortResult<bool> {
        let channel = self.channel(operation).await?;
        match topology.declare(&channel).await {
            Err(error) if error.kind == PortErrorKind::Refused => {
                let channel = self.channel(operation).await?; // a refusal closes its channel
                topology.check(&channel).await.map(|()| false)
            }
            declared => declared.map(|()| true),
        }
    }
}

// Requests a replacement of one specific connection. Raising it never affects a later connection.
#[derive(Clone, Default)]
pub(super) struct ReconnectSignal {
    raised: CancellationToken,
    // Why it was first raised.
    reason: Arc<OnceLock<String>>,
    // Whether the next connection declares what is missing.
    declares: bool,
}

impl ReconnectSignal {
    /// Waits for the reply to a request, and requests a reconnect where only that helps: no answer, no channel left, or a
    /// missing queue or exchange.
    pub(super) async fn request<T>(
        &self,
        operation: &'static str,
        request: impl Future<Output = lapin::Result<T>>,
    ) -> PortResult<T> {
        with_timeout_or(request, |error| self.port_error(operation, error)).await
    }

    /// The port error of a failed request; `None` for one without an answer.
    pub(super) fn port_error(
        &self,
        operation: &'static str,
        error: Option<&lapin::Error>,
    ) -> PortError {
        match error {
            None => self.raise(NO_ANSWER),
            Some(error) if reply_code(error) == Some(NOT_FOUND) => {
                self.raise_missing(error.to_string());
            }
            Some(error) if matches!(error.kind(), ErrorKind::ChannelsLimitReached) => {
                self.raise(error.to_string());
            }
            Some(_) => {}
        }
        port_error(operation, error)
    }

    /// Someone has deleted a queue or exchange. Without the permission to declare it, a reconnect would only take the connection
    /// from those who use other queues.
    pub(super) fn raise_missing(&self, reason: impl Into<String>) {
        if self.declares {
            self.raise(reason);
        }
    }

    fn raise(&self, reason: impl Into<String>) {
        self.reason.get_or_init(|| reason.into());
        self.raised.cancel();
    }
}

#[derive(Clone)]
enum ConnectionState {
    // Holds the last error.
    Down(Option<PortError>),
    Up(ConnectionHandle),
    Closed,
}

impl ConnectionState {
    fn is_settled(&self) -> bool {
        match self {
            ConnectionState::Down(reason) => {
                reason.as_ref().is_some_and(|error| !error.is_transient())
            }
            ConnectionState::Up(_) | ConnectionState::Closed => true,
        }
    }
}

/// A connection that is kept up until dropped.
pub(super) struct SupervisedConnection {
    state: watch::Receiver<ConnectionState>,
    patience: Duration,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

impl SupervisedConnection {
    /// Starts connecting, and reconnects as long as the value lives. `purpose` distinguishes the connections of a
    /// process in the broker's list. Declares the topology after each connect, if there is one to declare. Callers wait
    /// for the connection up to `patience`.
    pub(super) fn open(
        endpoint: &BrokerEndpoint,
        purpose: &'static str,
        topology: Option<&Arc<Topology>>,
        patience: Duration,
        env: &Env,
    ) -> Self {
        let (states, state) = watch::channel(ConnectionState::Down(None));
        let stop = CancellationToken::new();
        let supervisor = ConnectionSupervisor {
            endpoint: endpoint.clone(),
            purpose,
            topology: topology.cloned(),
            env: env.clone(),
            states,
            failures: RepeatedLog::default(),
        };
        env.spawn(supervisor.run(stop.clone()));
        Self {
            state,
            patience,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        }
    }

    /// The connection; waits while it is being rebuilt.
    ///
    /// # Errors
    /// The last connection error.
    pub(super) async fn handle(
        &self,
        operation: &'static str,
        patience: Duration,
    ) -> PortResult<ConnectionHandle> {
        let mut state = self.state.clone();
        let settled = timeout(patience, state.wait_for(ConnectionState::is_settled))
            .await
            .is_ok();
        let state = self.state.borrow().clone();
        match state {
            ConnectionState::Up(live) => Ok(live),
            ConnectionState::Closed => {
                Err(PortError::permanent(operation, "the connection was closed"))
            }
            ConnectionState::Down(Some(error)) => Err(PortError { operation, ..error }),
            ConnectionState::Down(None) if settled => {
                Err(PortError::transient(operation, "the connection was lost"))
            }
            ConnectionState::Down(None) => Err(PortError::transient(
                operation,
                "the broker does not answer",
            )),
        }
    }

    /// The connection, or an error after the longest time that a caller can wait in the middle of its work.
    pub(super) async fn ready(&self, operation: &'static str) -> PortResult<ConnectionHandle> {
        self.handle(operation, self.patience).await
    }

    /// Why the broker blocks publishers, while it does.
    pub(super) fn blocked(&self) -> Option<String> {
        match &*self.state.borrow() {
            ConnectionState::Up(live) => live.blocked.borrow().clone(),
            ConnectionState::Down(_) | ConnectionState::Closed => None,
        }
    }

    /// Closes the connection gracefully, within a short timeout.
    pub(super) async fn close(&self) {
        self.stop.cancel();
        let closed = self
            .state
            .clone()
            .wait_for(|state| matches!(state, ConnectionState::Closed))
            .await
            .is_ok();
        tracing::debug!(closed, "broker connection closed");
    }
}

struct ConnectionSupervisor {
    endpoint: BrokerEndpoint,
    purpose: &'static str,
    topology: Option<Arc<Topology>>,
    env: Env,
    states: watch::Sender<ConnectionState>,
    failures: RepeatedLog,
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
                tracing::debug!(
                    connection = self.purpose,
                    "the broker did not confirm the close"
                );
            }
        }
        self.states.send_replace(ConnectionState::Closed);
    }

    async fn reconnect(&self) -> (ConnectionHandle, watch::Sender<Option<String>>) {
        loop {
            let tried = (|| self.connect()).retry(self.backoff()).notify(|error, pause| {
                self.states.send_replace(ConnectionState::Down(Some(error.clone())));
                if let Some(repeated) = self.failures.note(&error.message, self.env.now_ms()) {
                    tracing::warn!(connection = self.purpose, %error, repeated, pause_ms = pause.as_millis(), "cannot connect to the broker; trying again");
                }
            });
            if let Ok(connected) = tried.await {
                return connected;
            }
        }
    }

    // Unlimited, with jitter, which adds up to the same time again: after a restart of the broker all processes reconnect at
    // once. So the longest pause is 5 s.
    fn backoff(&self) -> ExponentialBuilder {
        ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(100))
            .with_factor(2.0)
            .with_max_delay(Duration::from_millis(2_500))
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(self.env.random())
    }

    async fn connect(&self) -> PortResult<(ConnectionHandle, watch::Sender<Option<String>>)> {
        let connection = Arc::new(self.endpoint.open(self.purpose).await?);
        let (blocking, blocked) = watch::channel(None);
        let mut handle = ConnectionHandle {
            connection,
            lost: CancellationToken::new(),
            reconnect: ReconnectSignal::default(),
            blocked,
        };
        if let Some(topology) = &self.topology {
            handle.reconnect.declares = handle.declare("queue.declare", topology).await?;
        }
        Ok((handle, blocking))
    }

    // A failure leaves the connection as it is: what exists can be used.
    async fn declare_again(&self, handle: &ConnectionHandle, topology: &Topology) {
        if let Err(error) = handle.declare("queue.declare", topology).await
            && let Some(repeated) = self.failures.note(&error.message, self.env.now_ms())
        {
            tracing::warn!(%error, repeated, "cannot declare queues again; trying later");
        }
    }

    /// Returns when the connection is lost, or suspected to be.
    async fn monitor(&self, handle: &ConnectionHandle, blocked: &watch::Sender<Option<String>>) {
        let mut events = handle.connection.events_listener();
        let declares = handle.reconnect.declares && self.purpose == CONSUME;
        let declared = self.topology.as_ref().filter(|_| declares);
        let mut declared_ms = self.env.now_ms();
        loop {
            let event = tokio::select! {
                biased;
                () = handle.reconnect.raised.cancelled() => {
                    let reason = handle.reconnect.reason.get().map_or("", String::as_str);
                    tracing::warn!(connection = self.purpose, reason, "reconnecting to the broker");
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
                        "the broker blocks publishers"
                    );
                    blocked.send_replace(Some(reason));
                }
                Some(Event::ConnectionUnblocked) => {
                    tracing::info!(
                        connection = self.purpose,
                        "the broker accepts messages again"
                    );
                    blocked.send_replace(None);
                }
                _ => {}
            }
            if !handle.connection.status().connected() {
                tracing::warn!(
                    connection = self.purpose,
                    "lost the connection to the broker; reconnecting"
                );
                return;
            }
            if let Some(topology) = declared
                && self.env.now_ms() >= declared_ms + DECLARE_EVERY_MS
            {
                let declared_again = self.declare_again(handle, topology);
                let raised = &handle.reconnect.raised;
                raised.run_until_cancelled(declared_again).await;
                declared_ms = self.env.now_ms();
            }
        }
    }
}
