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
use crate::port::PortError;

/// The longest wait for one answer of the broker, unless it has said that it holds us back.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The longest wait for a connection that is being rebuilt.
const REBUILD_PATIENCE: Duration = Duration::from_secs(10);
/// Seconds between heartbeats; a peer that was silent for two of them is gone.
const HEARTBEAT_S: u16 = 10;
/// How often a connection that has said nothing is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long a connection may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(2);
/// The broker's reply code for a login or a right that it refuses.
const ACCESS_REFUSED: u16 = 403;

/// How to reach the broker.
#[derive(Clone)]
pub(super) struct Door {
    pub uri: AMQPUri,
    name: String,
}

impl Door {
    pub(super) fn new(settings: &RabbitSettings) -> Result<Self, PortError> {
        // The parser's own words are left out: they could repeat a part of the URL.
        let mut uri: AMQPUri = settings.url.reveal().parse().map_err(|_| {
            PortError::lasting(
                "queue",
                "connect",
                "the URL of the broker is not amqp://… or amqps://…",
            )
        })?;
        uri.query.heartbeat = Some(HEARTBEAT_S);
        uri.query.connection_timeout = u64::try_from(PATIENCE.as_millis()).ok();
        Ok(Self {
            uri,
            name: settings.name.clone(),
        })
    }

    async fn open(&self, purpose: &str) -> Result<Connection, PortError> {
        let name = format!("{} ({purpose})", self.name);
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        answered(
            "connect",
            Connection::connect_uri(self.uri.clone(), properties),
        )
        .await
    }
}

/// A connection that was open when it was handed out.
#[derive(Clone)]
pub(super) struct Live {
    connection: Arc<Connection>,
    /// Cancelled once the connection is given up, whatever its channels believe.
    pub lost: CancellationToken,
    pub doubt: Doubt,
    /// Why the broker holds back publishers, while it does.
    pub blocked: watch::Receiver<Option<String>>,
}

impl Live {
    /// A fresh channel.
    pub(super) async fn channel(&self, operation: &'static str) -> Result<Channel, PortError> {
        self.doubt
            .over(answered(operation, self.connection.create_channel()).await)
    }
}

/// The doubt whether one certain connection still works: raised, it has that connection replaced, and no later one.
#[derive(Clone, Default)]
pub(super) struct Doubt(CancellationToken);

impl Doubt {
    /// Passes an answer on, and raises the doubt if it is that no answer came.
    pub(super) fn over<T>(&self, answer: Result<T, PortError>) -> Result<T, PortError> {
        if answer.as_ref().is_err_and(|error| error.message == SILENT) {
            self.raise();
        }
        answer
    }

    pub(super) fn raise(&self) {
        self.0.cancel();
    }
}

#[derive(Clone)]
enum State {
    /// With what stood in the way last.
    Down(Option<PortError>),
    Up(Live),
    Closed,
}

impl State {
    /// Whether waiting longer is no use.
    fn is_settled(&self) -> bool {
        match self {
            State::Down(reason) => reason.as_ref().is_some_and(|error| !error.passing),
            State::Up(_) | State::Closed => true,
        }
    }
}

/// A connection that is kept up. Dropping it gives the connection up.
pub(super) struct Link {
    state: watch::Receiver<State>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

impl Link {
    /// Starts to connect, and goes on for as long as the link lives. `purpose` tells the connections of a process
    /// apart in the broker's list.
    pub(super) fn open(
        door: &Door,
        purpose: &'static str,
        topology: &Arc<Topology>,
        env: &Env,
    ) -> Self {
        let (states, state) = watch::channel(State::Down(None));
        let stop = CancellationToken::new();
        let supervisor = Supervisor {
            door: door.clone(),
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
    pub(super) async fn live(
        &self,
        operation: &'static str,
        patience: Duration,
    ) -> Result<Live, PortError> {
        let mut state = self.state.clone();
        let settled = timeout(patience, state.wait_for(State::is_settled))
            .await
            .is_ok();
        let state = self.state.borrow().clone();
        match state {
            State::Up(live) => Ok(live),
            State::Closed => Err(PortError::lasting(
                "queue",
                operation,
                "the connection was closed",
            )),
            State::Down(Some(error)) => Err(PortError { operation, ..error }),
            State::Down(None) if settled => Err(PortError::passing(
                "queue",
                operation,
                "the connection was lost",
            )),
            State::Down(None) => Err(PortError::passing(
                "queue",
                operation,
                "the broker does not answer",
            )),
        }
    }

    /// The connection, or an error after the time that a caller in the midst of work can wait.
    pub(super) async fn ready(&self, operation: &'static str) -> Result<Live, PortError> {
        self.live(operation, REBUILD_PATIENCE).await
    }

    /// Why the broker holds back publishers, while it does.
    pub(super) fn blocked(&self) -> Option<String> {
        match &*self.state.borrow() {
            State::Up(live) => live.blocked.borrow().clone(),
            State::Down(_) | State::Closed => None,
        }
    }

    /// Ends the connection in good order; returns when it is over, or after a short while.
    pub(super) async fn close(&self) {
        self.stop.cancel();
        let closed = self
            .state
            .clone()
            .wait_for(|state| matches!(state, State::Closed))
            .await
            .is_ok();
        tracing::debug!(closed, "left the broker");
    }
}

struct Supervisor {
    door: Door,
    purpose: &'static str,
    topology: Arc<Topology>,
    env: Env,
    states: watch::Sender<State>,
}

impl Supervisor {
    async fn run(self, stop: CancellationToken) {
        while let Some((live, blocked)) = stop.run_until_cancelled(self.rebuilt()).await {
            self.states.send_replace(State::Up(live.clone()));
            stop.run_until_cancelled(self.attend(&live, &blocked)).await;
            live.lost.cancel();
            self.states.send_replace(State::Down(None));
            if timeout(GOODBYE, live.connection.close(200, "OK".into()))
                .await
                .is_err()
            {
                tracing::debug!(connection = self.purpose, "the broker did not say goodbye");
            }
        }
        self.states.send_replace(State::Closed);
    }

    /// Tries until there is a connection.
    async fn rebuilt(&self) -> (Live, watch::Sender<Option<String>>) {
        loop {
            let tried = (|| self.attempt()).retry(self.policy()).notify(|error, pause| {
                self.states.send_replace(State::Down(Some(error.clone())));
                tracing::warn!(connection = self.purpose, %error, pause_ms = pause.as_millis(), "no connection to the broker; trying again");
            });
            if let Ok(live) = tried.await {
                return live;
            }
        }
    }

    /// Without an end, and with jitter: after a restart of the broker every process comes at once.
    fn policy(&self) -> ExponentialBuilder {
        ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(100))
            .with_factor(2.0)
            .with_max_delay(Duration::from_secs(5))
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(self.env.random())
    }

    async fn attempt(&self) -> Result<(Live, watch::Sender<Option<String>>), PortError> {
        let connection = Arc::new(self.door.open(self.purpose).await?);
        let (blocking, blocked) = watch::channel(None);
        let live = Live {
            connection,
            lost: CancellationToken::new(),
            doubt: Doubt::default(),
            blocked,
        };
        let channel = live.channel("declare").await?;
        self.topology.declare(&channel).await?;
        Ok((live, blocking))
    }

    /// Returns when the connection is lost or suspect.
    async fn attend(&self, live: &Live, blocked: &watch::Sender<Option<String>>) {
        let mut events = live.connection.events_listener();
        loop {
            let event = tokio::select! {
                biased;
                () = live.doubt.0.cancelled() => {
                    tracing::warn!(connection = self.purpose, "the broker does not answer; connecting anew");
                    return;
                }
                event = events.next() => event,
                () = self.env.sleep(LOOK) => None,
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
            if !live.connection.status().connected() {
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
const SILENT: &str = "the broker does not answer";

/// Waits for an answer of the broker, but not for ever.
pub(super) async fn answered<T>(
    operation: &'static str,
    asked: impl Future<Output = lapin::Result<T>>,
) -> Result<T, PortError> {
    answered_or(asked, |error| fault(operation, error)).await
}

/// As [`answered`]; `explain` says what an error means, or, for `None`, that no answer came.
pub(super) async fn answered_or<T>(
    asked: impl Future<Output = lapin::Result<T>>,
    explain: impl FnOnce(Option<&lapin::Error>) -> PortError,
) -> Result<T, PortError> {
    match timeout(PATIENCE, asked).await {
        Ok(answer) => answer.map_err(|error| explain(Some(&error))),
        Err(_) => Err(explain(None)),
    }
}

/// The port's words for an error. Everything may pass, except what the broker refuses by right.
pub(super) fn fault(operation: &'static str, error: Option<&lapin::Error>) -> PortError {
    match error {
        None => PortError::passing("queue", operation, SILENT),
        Some(error) if reply_code(error) == Some(ACCESS_REFUSED) => {
            PortError::lasting("queue", operation, error.to_string())
        }
        Some(error) => PortError::passing("queue", operation, error.to_string()),
    }
}

/// The broker's reply code, if it was the broker that spoke.
pub(super) fn reply_code(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}
