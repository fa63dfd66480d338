//! Runs a service: configuration, ports, health endpoint, heartbeats and shutdown.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use stemma_boot::backends::{BackendConfig, Cluster};
use stemma_boot::connections::ConnectionLimits;
use stemma_boot::health::{self, Health, HealthServer};
use stemma_boot::telemetry::Metrics;
use stemma_boot::{process_name, shutdown};
use stemma_engine::Ports;
use stemma_engine::heartbeat::{HeartbeatReporter, send_heartbeats};
use stemma_pipeline::ModelClient;
use stemma_store::{Env, PortResult};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::context::Context;
use crate::embedded::heartbeat_extras;
use crate::error::{CommandError, Exit};
use crate::model_clients::model_clients;

// Short enough to start soon after the servers, long enough not to fill the log.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(2);

pub struct ServiceHost {
    /// The configuration in force.
    pub config: Config,
    /// Clients of the configured models; empty except for a worker.
    pub model_clients: Vec<Arc<ModelClient>>,
    cluster: Cluster,
    stop: CancellationToken,
    heartbeat: Arc<HeartbeatReporter>,
    // Stops the heartbeats after all tasks were drained.
    drained: CancellationToken,
    heartbeats: JoinHandle<()>,
    serving: HealthServer,
}

impl ServiceHost {
    /// Listens for signals and connects. Waits for unreachable servers; a server that rejects the login is an error.
    pub async fn start(
        service: &'static str,
        listen: SocketAddr,
        context: &Context,
    ) -> Result<Self, CommandError> {
        let stop = shutdown::listen();
        let config = context.config()?.clone();
        let env = Env::system();
        let name = process_name::process_name(service, &env);
        if !config.servers.is_cluster() {
            let next = "set broker.url and redis.url, or use `stemma ingest`, which needs neither";
            let error = CommandError::new("cluster.not_configured", "no broker is configured");
            return Err(error.with_next(next));
        }
        let heartbeat = HeartbeatReporter::new(&env, name.clone(), service);
        let drained = CancellationToken::new();
        let connected = Arc::new(OnceLock::new());
        let health = Health::for_ports(&env, &heartbeat, &connected);
        let serving = serve_health(listen, service, health, &drained).await?;
        tracing::info!(service, process = name, store = %context.store, listen = %serving.address, "starting");
        let cluster = connect(&config.servers, context, &name, &env, &stop).await?;
        drop(connected.set(cluster.ports.clone())); // nothing else sets it
        tracing::info!(service, process = name, "started");
        // Only workers call models.
        let model_clients = match service {
            "worker" => model_clients(&config, &cluster.ports, &name)?,
            _ => Vec::new(),
        };
        let heartbeats = env.spawn(send_heartbeats(
            env.clone(),
            Arc::clone(cluster.ports.ledger.raw()),
            Arc::clone(&heartbeat),
            heartbeat_extras(&cluster.ports, &model_clients),
            drained.clone(),
        ));
        Ok(Self {
            config,
            model_clients,
            cluster,
            stop,
            heartbeat,
            drained,
            heartbeats,
            serving,
        })
    }

    /// The arguments of a service's `run`.
    pub fn parts(&self) -> (Ports, CancellationToken) {
        let ports = self.cluster.ports.clone();
        (ports, self.stop.clone())
    }

    /// The reporter of heartbeats; it also names the process in leases and connections.
    pub fn heartbeat(&self) -> Arc<HeartbeatReporter> {
        Arc::clone(&self.heartbeat)
    }

    /// Stops heartbeats and the health endpoint, after the service was drained.
    pub async fn end(self) -> Exit {
        self.drained.cancel();
        if let Err(error) = self.heartbeats.await {
            tracing::error!(%error, "the heartbeat task panicked");
        }
        self.cluster.close().await;
        if let Err(error) = self.serving.join().await {
            tracing::error!(%error, "the health endpoint stopped early");
        }
        tracing::info!(process = self.heartbeat.process(), "drained");
        Exit::Done
    }
}

/// Serves health and metrics of a service until `stop`.
pub async fn serve_health(
    listen: SocketAddr,
    service: &'static str,
    health: Health,
    stop: &CancellationToken,
) -> Result<HealthServer, CommandError> {
    let metrics = Metrics::install(service);
    let limits = ConnectionLimits::default();
    let serving = health::serve(listen, health, metrics, Router::new(), limits, stop.clone());
    serving.await.map_err(|error| {
        CommandError::new("listen.refused", format!("{listen}: {error}"))
            .with_next("choose another --listen")
    })
}

async fn connect(
    servers: &BackendConfig,
    context: &Context,
    name: &str,
    env: &Env,
    stop: &CancellationToken,
) -> PortResult<Cluster> {
    loop {
        match servers.connect(&context.store, name, env).await {
            Err(error) if error.is_transient() && !stop.is_cancelled() => {
                tracing::warn!(%error, "a server is unreachable; retrying");
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(RECONNECT_INTERVAL) => {}
                }
            }
            connected => return connected,
        }
    }
}
