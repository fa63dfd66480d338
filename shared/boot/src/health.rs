//! Health over HTTP: `/livez` (the process runs), `/readyz` (it can work), `/metrics`.
//!
//! Liveness does not depend on any server: restarting a process does not repair a broker. Ready means that every port
//! responded recently, none refuses or holds back messages, and the process is not draining. No endpoint needs a key, and none reveals document content.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
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
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::ledger::StatusTopic;
use stemma_engine::port_monitor::{PortTrouble, TroubleKind};
use stemma_engine::queue::QueueName;
use stemma_engine::{Env, PortError, PortResult, Ports};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::http_server;
use crate::telemetry::Metrics;

// Interval of port checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
// Timeout of a port check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
// How long a successful check counts.
const STALE_AFTER: Duration = Duration::from_secs(15);

type CheckFuture = Pin<Box<dyn Future<Output = PortResult<()>> + Send>>;
/// A cheap check of a port.
pub type HealthCheck = Arc<dyn Fn() -> CheckFuture + Send + Sync>;

/// Readiness of a process. Cheap to clone.
#[derive(Clone)]
pub struct Health(Arc<HealthInner>);

struct HealthInner {
    env: Env,
    checks: Vec<(&'static str, HealthCheck)>,
    // Last successful check of each port.
    last_success: Mutex<BTreeMap<&'static str, Millis>>,
    presence: Arc<HeartbeatReporter>,
    troubles: TroubleSource,
}

/// Body of `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Readiness {
    pub ready: bool,
    pub draining: bool,
    /// Ports without a recent successful check.
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
    /// Ready while all `checks` succeed, there is no trouble and the process is not draining.
    fn new(
        env: &Env,
        presence: &Arc<HeartbeatReporter>,
        checks: Vec<(&'static str, HealthCheck)>,
        troubles: TroubleSource,
    ) -> Self {
        let last_success = Mutex::default();
        let presence = Arc::clone(presence);
        Self(Arc::new(HealthInner {
            env: env.clone(),
            checks,
            last_success,
            presence,
            troubles,
        }))
    }

    /// Ready while queue, ledger and blobs respond. Health is served from the start: while the process still waits for
    /// its ports it is alive but not ready.
    pub fn for_ports(
        env: &Env,
        presence: &Arc<HeartbeatReporter>,
        ports: &Arc<OnceLock<Ports>>,
    ) -> Self {
        let check = |name: &'static str, ask: fn(Env, Ports) -> CheckFuture| {
            let env = env.clone();
            let ports = Arc::clone(ports);
            let check: HealthCheck = Arc::new(move || match ports.get() {
                Some(ports) => ask(env.clone(), ports.clone()),
                None => Box::pin(async move {
                    Err(PortError::transient("ports.connect", "not connected yet"))
                }),
            });
            (name, check)
        };
        let checks = vec![
            check("queue", |_, ports| {
                Box::pin(async move { ports.queue.raw().depth(QueueName::Dead).await.map(drop) })
            }),
            check("ledger", |env, ports| {
                Box::pin(async move {
                    ports
                        .ledger
                        .raw()
                        .status_records(StatusTopic::Processes, env.now_ms())
                        .await
                        .map(drop)
                })
            }),
            check("blobs", |_, ports| {
                Box::pin(async move { ports.blobs.raw().size("layout").await.map(drop) })
            }),
        ];
        let connected = Arc::clone(ports);
        let troubles: TroubleSource = Arc::new(move |now_ms| {
            let ports = connected.get();
            ports
                .map(|ports| ports.troubles(now_ms))
                .unwrap_or_default()
        });
        Self::new(env, presence, checks, troubles)
    }

    /// Ready while the blobs respond; for processes that only read.
    pub fn for_blobs(env: &Env, presence: &Arc<HeartbeatReporter>, blobs: &Arc<dyn Blobs>) -> Self {
        let checks = vec![("blobs", blobs_check(blobs))];
        Self::new(env, presence, checks, Arc::new(|_| Vec::new()))
    }

    pub fn readiness(&self) -> Readiness {
        let since = self
            .0
            .env
            .now_ms()
            .saturating_sub(STALE_AFTER.as_millis() as Millis);
        let last_success = self.0.last_success.lock();
        let names = self.0.checks.iter().map(|(name, _)| *name);
        let away: Vec<_> = names
            .filter(|name| last_success.get(name).is_none_or(|at| *at < since))
            .collect();
        let draining = self.0.presence.is_draining();
        let troubles = (self.0.troubles)(self.0.env.now_ms());
        let troubles: Vec<_> = troubles
            .into_iter()
            .map(|trouble| TroubledPort {
                operation: trouble.operation,
                kind: trouble.kind,
                since_ms: trouble.since_ms,
            })
            .collect();
        Readiness {
            ready: away.is_empty() && troubles.is_empty() && !draining,
            draining,
            away,
            troubles,
        }
    }

    fn record_metrics(&self) {
        let readiness = self.readiness();
        let is = |condition: bool| if condition { 1.0 } else { 0.0 };
        for (port, _) in &self.0.checks {
            let away = readiness.away.contains(port);
            gauge!("stemma_port_away", "port" => *port).set(is(away));
            let mut troubles = readiness.troubles.iter();
            let refused = troubles.any(|trouble| {
                trouble.kind == TroubleKind::Refused && trouble.operation.starts_with(port)
            });
            gauge!("stemma_port_refused", "port" => *port).set(is(refused));
        }
        let mut troubles = readiness.troubles.iter();
        let blocked = troubles.any(|trouble| trouble.kind == TroubleKind::Blocked);
        gauge!("stemma_broker_blocked").set(is(blocked));
        gauge!("stemma_ready").set(is(readiness.ready));
    }

    pub async fn run_checks(&self) {
        for (name, check) in &self.0.checks {
            match tokio::time::timeout(CHECK_TIMEOUT, check()).await {
                Ok(Ok(())) => {
                    let now = self.0.env.now_ms();
                    self.0.last_success.lock().insert(name, now);
                }
                Ok(Err(error)) => tracing::debug!(port = name, %error, "a port is unavailable"),
                Err(_) => tracing::debug!(port = name, "a port does not answer"),
            }
        }
    }
}

fn blobs_check(blobs: &Arc<dyn Blobs>) -> HealthCheck {
    let blobs = Arc::clone(blobs);
    Arc::new(move || {
        let blobs = Arc::clone(&blobs);
        Box::pin(async move { blobs.size("layout").await.map(drop) })
    })
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
    stop: CancellationToken,
) -> io::Result<HealthServer> {
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let asking = health
        .0
        .env
        .clone()
        .spawn(check_periodically(health.clone(), metrics.clone()));
    let router = router(health, metrics).merge(extra);
    let task = tokio::spawn(async move {
        http_server::serve(listener, router, stop).await;
        asking.abort();
    });
    Ok(HealthServer { address, task })
}

async fn check_periodically(health: Health, metrics: Option<Metrics>) {
    loop {
        health.run_checks().await;
        health.record_metrics();
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
    let readiness = health.readiness();
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
    use std::sync::atomic::{AtomicBool, Ordering};

    use stemma_engine::blobs::MemoryBlobs;
    use stemma_engine::port_layer::{Layered, PortLayer};

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
        let health = Health::new(
            &env,
            &HeartbeatReporter::new(&env, "w", "worker"),
            vec![("queue", check)],
            Arc::new(|_| Vec::new()),
        );
        assert_eq!(
            health.readiness().away,
            ["queue"],
            "not ready before the first check"
        );
        let stop = CancellationToken::new();
        let listen = "127.0.0.1:0".parse().unwrap();
        let serving = serve(listen, health.clone(), None, Router::new(), stop.clone())
            .await
            .unwrap();
        health.run_checks().await;
        assert!(
            http_get(serving.address, "/readyz")
                .await
                .starts_with("HTTP/1.0 200")
        );
        up.store(false, Ordering::Relaxed);
        health
            .0
            .last_success
            .lock()
            .insert("queue", env.now_ms() - 16_000);
        let reply = http_get(serving.address, "/readyz").await;
        assert!(
            reply.starts_with("HTTP/1.0 503") && reply.contains(r#""away":["queue"]"#),
            "{reply}"
        );
        assert!(
            http_get(serving.address, "/livez")
                .await
                .starts_with("HTTP/1.0 200")
        );
        stop.cancel();
        serving.join().await.unwrap();
    }

    #[tokio::test]
    async fn draining_service_is_not_ready() {
        let env = Env::system();
        let ports = Arc::new(OnceLock::new());
        let presence = HeartbeatReporter::new(&env, "w", "worker");
        let health = Health::for_ports(&env, &presence, &ports);
        health.run_checks().await;
        assert_eq!(
            health.readiness().away,
            ["queue", "ledger", "blobs"],
            "not connected yet"
        );
        drop(ports.set(Ports::memory(&env)));
        health.run_checks().await;
        assert_eq!(
            health.readiness(),
            Readiness {
                ready: true,
                draining: false,
                away: vec![],
                troubles: vec![],
            }
        );
        presence.start_draining();
        assert_eq!(
            health.readiness(),
            Readiness {
                ready: false,
                draining: true,
                away: vec![],
                troubles: vec![],
            }
        );
    }
    // Refuses to write objects.
    struct ReadOnly;

    impl PortLayer for ReadOnly {
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
            match operation {
                "blobs.put" => Err(PortError::refused(operation, "AccessDenied (status 403)")),
                _ => call().await,
            }
        }
    }

    #[tokio::test]
    async fn refused_writes_are_named_although_reads_succeed() {
        let env = Env::system();
        let port: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
        let layer = ReadOnly;
        let refusing = Arc::new(Layered { layer, port });
        let ports = Arc::new(OnceLock::from(Ports::embedded(&env, refusing)));
        let presence = HeartbeatReporter::new(&env, "w", "worker");
        let health = Health::for_ports(&env, &presence, &ports);
        health.run_checks().await;
        assert!(health.readiness().ready);
        let blobs = &ports.get().unwrap().blobs;
        blobs
            .put("c/x/secret", Vec::new().into())
            .await
            .unwrap_err();
        let readiness = health.readiness();
        assert!(
            !readiness.ready && readiness.away.is_empty(),
            "{readiness:?}"
        );
        assert_eq!(readiness.troubles[0].operation, "blobs.put");
        assert_eq!(readiness.troubles[0].kind, TroubleKind::Refused);
        let body = serde_json::to_string(&readiness).unwrap();
        assert!(!body.contains("secret"), "{body}");
    }
}
