//! Health over HTTP: `/livez` (the process runs), `/readyz` (it can work), `/metrics`.
//!
//! Liveness does not depend on any server: restarting a process does not repair a broker. Ready means that every port
//! responds, none refuses or holds back messages, and the process is not draining. `/readyz` checks the ports itself unless
//! that was done just before. No endpoint needs a key, and none reveals document content.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use metrics::gauge;
use parking_lot::Mutex;
use serde::Serialize;
use stemma_engine::Ports;
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::ledger::check_writable;
use stemma_engine::queue::QueueName;
use stemma_store::blobs::Blobs;
use stemma_store::env::Millis;
use stemma_store::port_monitor::{PortMonitor, PortTrouble, TroubleKind};
use stemma_store::{Env, PortError, PortErrorKind, PortResult};
use tokio::net::TcpListener;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::connections::ConnectionLimits;
use crate::http_server;
use crate::telemetry::Metrics;

// Interval of port checks that nobody asks for: metrics and heartbeats report what they find.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
// Timeout of a port check: `/readyz` answers within two seconds.
const CHECK_TIMEOUT: Duration = Duration::from_millis(1_500);
// How long an answer of a port counts. With the timeout, a silent server is named after two seconds.
const STALE_AFTER_MS: Millis = 500;

type CheckFuture = Pin<Box<dyn Future<Output = PortResult<()>> + Send>>;
/// A cheap check of a port.
pub type HealthCheck = Arc<dyn Fn() -> CheckFuture + Send + Sync>;

/// Readiness of a process. Cheap to clone.
#[derive(Clone)]
pub struct Health(Arc<HealthInner>);

struct HealthInner {
    env: Env,
    checks: Vec<(&'static str, HealthCheck)>,
    // Last answer of each port to a check.
    last_answer: Mutex<BTreeMap<&'static str, Millis>>,
    // One round of checks at a time: probes share it instead of adding calls.
    round: AsyncMutex<()>,
    ended_rounds: AtomicU64,
    heartbeat: Arc<HeartbeatReporter>,
    troubles: Mutex<Vec<TroubleSource>>,
    needs_writes: bool,
}

/// Body of `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Readiness {
    pub ready: bool,
    pub draining: bool,
    /// Ports that do not answer, or only with errors that usually pass.
    pub away: Vec<&'static str>,
    /// Ports that refuse, hold back publishers or fail again and again.
    pub troubles: Vec<TroubledPort>,
}

/// A port in trouble. Without the error, which may name objects: `/readyz` needs no key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TroubledPort {
    /// The failing call, for example `blobs.put`.
    pub operation: String,
    pub kind: TroubleKind,
    pub since_ms: Millis,
}

type TroubleSource = Arc<dyn Fn(Millis) -> Vec<PortTrouble> + Send + Sync>;

impl Health {
    fn new(
        env: &Env,
        heartbeat: &Arc<HeartbeatReporter>,
        checks: Vec<(&'static str, HealthCheck)>,
        troubles: TroubleSource,
        needs_writes: bool,
    ) -> Self {
        Self(Arc::new(HealthInner {
            env: env.clone(),
            checks,
            last_answer: Mutex::default(),
            round: AsyncMutex::default(),
            ended_rounds: AtomicU64::new(0),
            heartbeat: Arc::clone(heartbeat),
            troubles: Mutex::new(vec![troubles]),
            needs_writes,
        }))
    }

    /// Ready while queue, ledger and blobs respond. Health is served from the start: while the process still waits for
    /// its ports it is alive but not ready.
    pub fn for_ports(
        env: &Env,
        heartbeat: &Arc<HeartbeatReporter>,
        ports: &Arc<OnceLock<Ports>>,
    ) -> Self {
        let check = |operation: &'static str, ask: fn(Ports) -> CheckFuture| {
            let env = env.clone();
            let ports = Arc::clone(ports);
            let check: HealthCheck = Arc::new(move || match ports.get().cloned() {
                Some(ports) => {
                    let env = env.clone();
                    Box::pin(async move {
                        let result = ask(ports.clone()).await;
                        ports.monitor.record(operation, &result, env.now_ms());
                        result
                    })
                }
                None => Box::pin(async move {
                    Err(PortError::transient("ports.connect", "not connected yet"))
                }),
            });
            let port = operation
                .split_once('.')
                .map_or(operation, |(port, _)| port);
            (port, check)
        };
        let checks = vec![
            check("queue.depth", |ports| {
                Box::pin(async move { ports.queue.raw().depth(QueueName::Dead).await.map(drop) })
            }),
            check("ledger.post_status", |ports| {
                Box::pin(async move { check_writable(ports.ledger.raw().as_ref()).await })
            }),
            check("blobs.size", |ports| blobs_answer(ports.blobs.raw())),
        ];
        let connected = Arc::clone(ports);
        let troubles: TroubleSource = Arc::new(move |now_ms| {
            let ports = connected.get();
            ports
                .map(|ports| ports.troubles(now_ms))
                .unwrap_or_default()
        });
        Self::new(env, heartbeat, checks, troubles, true)
    }

    /// Ready while the blobs respond; for processes that mainly read. `monitor` watches these blobs: refused writes are
    /// named, but who can be read from stays ready.
    pub fn for_blobs(
        env: &Env,
        heartbeat: &Arc<HeartbeatReporter>,
        blobs: &Arc<dyn Blobs>,
        monitor: &PortMonitor,
    ) -> Self {
        let blobs = Arc::clone(blobs);
        let check: HealthCheck = Arc::new(move || blobs_answer(&blobs));
        let monitor = monitor.clone();
        let troubles: TroubleSource = Arc::new(move |now_ms| monitor.troubles(now_ms));
        Self::new(env, heartbeat, vec![("blobs", check)], troubles, false)
    }

    /// Also reports the troubles of `source`.
    pub fn add_troubles(&self, source: impl Fn() -> Vec<PortTrouble> + Send + Sync + 'static) {
        self.0
            .troubles
            .lock()
            .push(Arc::new(move |_: Millis| source()));
    }

    /// As of the last checks. Ports without an answer since this time are unavailable.
    fn readiness(&self, since_ms: Millis) -> Readiness {
        let now_ms = self.0.env.now_ms();
        let away = self.unanswered_since(since_ms);
        let draining = self.0.heartbeat.is_draining();
        let sources = self.0.troubles.lock().clone();
        let troubles: Vec<_> = sources.iter().flat_map(|source| source(now_ms)).collect();
        let is_hindered = troubles
            .iter()
            .any(|trouble| self.0.needs_writes || !is_write(&trouble.operation));
        let troubles: Vec<_> = troubles
            .into_iter()
            .map(|trouble| TroubledPort {
                operation: trouble.operation,
                kind: trouble.kind,
                since_ms: trouble.since_ms,
            })
            .collect();
        Readiness {
            ready: away.is_empty() && !is_hindered && !draining,
            draining,
            away,
            troubles,
        }
    }

    // Ports without an answer since this time.
    fn unanswered_since(&self, since_ms: Millis) -> Vec<&'static str> {
        let last_answer = self.0.last_answer.lock();
        let names = self.0.checks.iter().map(|(name, _)| *name);
        names
            .filter(|name| last_answer.get(name).is_none_or(|at| *at < since_ms))
            .collect()
    }

    fn record_metrics(&self, since_ms: Millis) {
        let readiness = self.readiness(since_ms);
        for (port, _) in &self.0.checks {
            let away = readiness.away.contains(port);
            gauge!("stemma_port_away", "port" => *port).set(gauge_value(away));
            let refused = readiness.troubles.iter().any(|trouble| {
                trouble.kind == TroubleKind::Refused && trouble.operation.starts_with(port)
            });
            gauge!("stemma_port_refused", "port" => *port).set(gauge_value(refused));
        }
        let blocked = readiness
            .troubles
            .iter()
            .any(|trouble| trouble.kind == TroubleKind::Blocked);
        gauge!("stemma_broker_blocked").set(gauge_value(blocked));
        gauge!("stemma_ready").set(gauge_value(readiness.ready));
    }

    /// Checks all ports at once, in at most [`CHECK_TIMEOUT`]. If a round of checks runs already, its end suffices.
    async fn run_checks(&self) {
        let ended_before = self.0.ended_rounds.load(Ordering::SeqCst);
        let _round = self.0.round.lock().await;
        if self.0.ended_rounds.load(Ordering::SeqCst) > ended_before {
            return;
        }
        let checks = self
            .0
            .checks
            .iter()
            .map(|(name, check)| answering_port(name, check));
        let answering = futures::future::join_all(checks).await;
        // All with the time of the end: a request that shares this round may have arrived after a port had answered.
        let now_ms = self.0.env.now_ms();
        let answering = answering.into_iter().flatten();
        let mut last_answer = self.0.last_answer.lock();
        last_answer.extend(answering.map(|name| (name, now_ms)));
        drop(last_answer);
        self.0.ended_rounds.fetch_add(1, Ordering::SeqCst);
    }

    // Checks the ports first, unless all of them answered just before.
    async fn current_readiness(&self) -> Readiness {
        let since_ms = self.0.env.now_ms().saturating_sub(STALE_AFTER_MS);
        if !self.unanswered_since(since_ms).is_empty() {
            self.run_checks().await;
        }
        self.readiness(since_ms)
    }
}

fn gauge_value(condition: bool) -> f64 {
    if condition { 1.0 } else { 0.0 }
}

// Runs a check. Returns the name of the port if it answers.
async fn answering_port(name: &'static str, check: &HealthCheck) -> Option<&'static str> {
    match tokio::time::timeout(CHECK_TIMEOUT, check()).await {
        // A server that refuses a call is up: the refusal is among the troubles.
        Ok(Err(error)) if error.kind != PortErrorKind::Refused => {
            tracing::debug!(port = name, %error, "a port is unavailable");
            None
        }
        Ok(_) => Some(name),
        Err(_) => {
            tracing::debug!(port = name, "a port does not answer");
            None
        }
    }
}

fn blobs_answer(blobs: &Arc<dyn Blobs>) -> CheckFuture {
    let blobs = Arc::clone(blobs);
    Box::pin(async move { blobs.size("layout").await.map(drop) })
}

fn is_write(operation: &str) -> bool {
    matches!(operation, "blobs.put" | "blobs.delete" | "index.write")
}

/// A running health server.
pub struct HealthServer {
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl HealthServer {
    /// Waits until the server ends.
    ///
    /// # Errors
    /// When it panicked.
    pub async fn join(self) -> io::Result<()> {
        self.task.await.map_err(io::Error::other)
    }
}

/// Serves `/livez`, `/readyz`, `/metrics` and `extra` on `listen` until `stop`, and checks the ports meanwhile. `stop`
/// should be cancelled after everything has drained: a draining process is still probed.
///
/// # Errors
/// When `listen` cannot be bound.
pub async fn serve(
    listen: SocketAddr,
    health: Health,
    metrics: Option<Metrics>,
    extra: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) -> io::Result<HealthServer> {
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let asking = health
        .0
        .env
        .clone()
        .spawn(check_periodically(health.clone(), metrics.clone()));
    let probes = router(health, metrics);
    let task = tokio::spawn(async move {
        http_server::serve(listener, probes, extra, limits, stop).await;
        asking.abort();
    });
    Ok(HealthServer { address, task })
}

async fn check_periodically(health: Health, metrics: Option<Metrics>) {
    loop {
        let asked_ms = health.0.env.now_ms();
        health.run_checks().await;
        health.record_metrics(asked_ms);
        if let Some(metrics) = &metrics {
            metrics.run_upkeep();
        }
        health.0.env.sleep(CHECK_INTERVAL).await;
    }
}

fn router(health: Health, metrics: Option<Metrics>) -> Router {
    Router::new()
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(readyz).with_state(health))
        .route("/metrics", get(render_metrics).with_state(metrics))
}

async fn readyz(State(health): State<Health>) -> Response {
    let readiness = health.current_readiness().await;
    let status = if readiness.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(readiness)).into_response()
}

async fn render_metrics(State(metrics): State<Option<Metrics>>) -> Response {
    let text = metrics.map(|metrics| metrics.render()).unwrap_or_default();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    use stemma_store::blobs::MemoryBlobs;
    use stemma_store::port_layer::{Layered, PortLayer};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn http_get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        reply
    }

    // Health of one port, the queue.
    fn health_of_queue(env: &Env, check: HealthCheck) -> Health {
        let heartbeat = HeartbeatReporter::new(env, "w", "worker");
        let troubles: TroubleSource = Arc::new(|_| Vec::new());
        Health::new(env, &heartbeat, vec![("queue", check)], troubles, true)
    }

    #[tokio::test]
    async fn readiness_follows_ports_and_liveness_does_not() {
        let env = Env::system();
        let up = Arc::new(AtomicBool::new(true));
        let up_in_check = Arc::clone(&up);
        let check: HealthCheck = Arc::new(move || {
            let up = up_in_check.load(Ordering::Relaxed);
            Box::pin(async move {
                if up {
                    Ok(())
                } else {
                    Err(PortError::transient("queue.depth", "away"))
                }
            })
        });
        let health = health_of_queue(&env, check);
        assert_eq!(
            health.readiness(0).away,
            ["queue"],
            "not ready before the first check"
        );
        let stop = CancellationToken::new();
        let listen = "127.0.0.1:0".parse().unwrap();
        let serving = serve(
            listen,
            health.clone(),
            None,
            Router::new(),
            ConnectionLimits::default(),
            stop.clone(),
        )
        .await
        .unwrap();
        health.run_checks().await;
        assert!(
            http_get(serving.address, "/readyz")
                .await
                .starts_with("HTTP/1.0 200")
        );
        up.store(false, Ordering::Relaxed);
        let stale_ms = env.now_ms() - STALE_AFTER_MS - 1;
        health.0.last_answer.lock().insert("queue", stale_ms);
        let reply = http_get(serving.address, "/readyz").await;
        assert!(
            reply.starts_with("HTTP/1.0 503") && reply.contains(r#""away":["queue"]"#),
            "{reply}"
        );
        up.store(true, Ordering::Relaxed);
        assert!(
            http_get(serving.address, "/readyz")
                .await
                .starts_with("HTTP/1.0 200"),
            "the port is checked again"
        );
        assert!(
            http_get(serving.address, "/livez")
                .await
                .starts_with("HTTP/1.0 200")
        );
        stop.cancel();
        serving.join().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn silent_port_is_named_within_two_seconds_by_one_check_for_all_probes() {
        let env = Env::simulated(1);
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let silent: HealthCheck = Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::pending())
        });
        let health = health_of_queue(&env, silent);
        let answered_ms = env.now_ms();
        health.0.last_answer.lock().insert("queue", answered_ms);
        assert!(health.current_readiness().await.ready);
        env.sleep(Duration::from_millis(STALE_AFTER_MS + 1)).await;
        let asked_ms = env.now_ms();
        let probes = (0..50).map(|_| health.current_readiness());
        for readiness in futures::future::join_all(probes).await {
            assert_eq!(readiness.away, ["queue"]);
        }
        assert!(env.now_ms() - asked_ms < 2_000);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn draining_service_is_not_ready() {
        let env = Env::system();
        let ports = Arc::new(OnceLock::new());
        let heartbeat = HeartbeatReporter::new(&env, "w", "worker");
        let health = Health::for_ports(&env, &heartbeat, &ports);
        health.run_checks().await;
        assert_eq!(
            health.readiness(0).away,
            ["queue", "ledger", "blobs"],
            "not connected yet"
        );
        drop(ports.set(Ports::memory(&env)));
        health.run_checks().await;
        assert_eq!(
            health.readiness(0),
            Readiness {
                ready: true,
                draining: false,
                away: vec![],
                troubles: vec![],
            }
        );
        heartbeat.start_draining();
        assert_eq!(
            health.readiness(0),
            Readiness {
                ready: false,
                draining: true,
                away: vec![],
                troubles: vec![],
            }
        );
    }

    struct Refusing(fn(&str) -> bool);

    impl PortLayer for Refusing {
        async fn call<'a, T, F>(
            &'a self,
            operation: &'static str,
            _about: impl Fn() -> String + Send + 'a,
            mut call: F,
        ) -> PortResult<T>
        where
            T: Send + 'a,
            F: FnMut() -> Pin<Box<dyn Future<Output = PortResult<T>> + Send + 'a>> + Send + 'a,
        {
            match (self.0)(operation) {
                true => Err(PortError::refused(operation, "AccessDenied (status 403)")),
                false => call().await,
            }
        }
    }

    // Refuses calls by their names.
    fn refusing(is_refused: fn(&str) -> bool) -> Arc<dyn Blobs> {
        let port: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
        let layer = Refusing(is_refused);
        Arc::new(Layered { layer, port })
    }

    #[tokio::test]
    async fn refused_writes_are_named_although_reads_succeed() {
        let env = Env::system();
        let ports = Ports::embedded(&env, refusing(is_write));
        let ports = Arc::new(OnceLock::from(ports));
        let heartbeat = HeartbeatReporter::new(&env, "w", "worker");
        let health = Health::for_ports(&env, &heartbeat, &ports);
        health.run_checks().await;
        assert!(health.readiness(0).ready);
        let blobs = &ports.get().unwrap().blobs;
        blobs
            .put("c/x/secret", Vec::new().into())
            .await
            .unwrap_err();
        let readiness = health.readiness(0);
        assert!(
            !readiness.ready && readiness.away.is_empty(),
            "{readiness:?}"
        );
        assert_eq!(readiness.troubles[0].operation, "blobs.put");
        assert_eq!(readiness.troubles[0].kind, TroubleKind::Refused);
        let body = serde_json::to_string(&readiness).unwrap();
        assert!(!body.contains("secret"), "{body}");
    }

    #[tokio::test]
    async fn store_that_refuses_is_named_and_not_called_away() {
        let env = Env::system();
        let heartbeat = HeartbeatReporter::new(&env, "q", "query");
        let is_read = |operation: &str| !is_write(operation);
        let expect_refusal = async |health: Health| {
            let readiness = health.current_readiness().await;
            assert!(
                !readiness.ready && readiness.away.is_empty(),
                "{readiness:?}"
            );
            assert_eq!(readiness.troubles[0].operation, "blobs.size");
            assert_eq!(readiness.troubles[0].kind, TroubleKind::Refused);
        };
        let ports = OnceLock::from(Ports::embedded(&env, refusing(is_read)));
        expect_refusal(Health::for_ports(&env, &heartbeat, &Arc::new(ports))).await;
        let monitor = PortMonitor::default();
        let blobs = monitor.watch_blobs(&env, refusing(is_read));
        expect_refusal(Health::for_blobs(&env, &heartbeat, &blobs, &monitor)).await;
    }

    #[tokio::test]
    async fn reader_that_may_not_write_says_so_and_stays_ready() {
        let env = Env::system();
        let heartbeat = HeartbeatReporter::new(&env, "q", "query");
        let monitor = PortMonitor::default();
        let blobs = monitor.watch_blobs(&env, refusing(is_write));
        let health = Health::for_blobs(&env, &heartbeat, &blobs, &monitor);
        blobs
            .put("c/x/calls/1", Vec::new().into())
            .await
            .unwrap_err();
        let readiness = health.current_readiness().await;
        assert_eq!(readiness.troubles[0].operation, "blobs.put");
        assert!(readiness.ready, "{readiness:?}");
    }
}
