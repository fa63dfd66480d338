//! A service in work: its configuration, its ports, its name, and how it stops.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use stemma_boot::health::{self, Health, Serving};
use stemma_boot::servers::{Cluster, Servers};
use stemma_boot::telemetry::Metrics;
use stemma_boot::{identity, shutdown};
use stemma_engine::presence::{self, Presence};
use stemma_engine::{Env, PortError, Ports};
use stemma_pipeline::Gate;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::context::{CommandError, Context, Exit};

/// How long a service waits before it looks again for a server that is away at its start.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// A service in work.
pub struct Running {
    /// The configuration it works under.
    pub config: Config,
    /// The ways to the models that are configured, for a worker.
    pub models: Vec<Arc<Gate>>,
    env: Env,
    cluster: Cluster,
    stop: CancellationToken,
    presence: Arc<Presence>,
    /// Ends the beats, after everything was drained.
    drained: CancellationToken,
    beats: JoinHandle<()>,
    serving: Serving,
}

impl Running {
    /// Starts: listens for signals, and connects. Servers that are away are waited for; one that refuses is an error.
    ///
    /// # Errors
    /// [`CommandError`] naming what is not configured, or what refuses.
    pub async fn start(
        service: &'static str,
        listen: SocketAddr,
        context: &Context,
    ) -> Result<Self, CommandError> {
        let stop = shutdown::listen();
        let config = context.config()?.config;
        let env = Env::system();
        let name = identity::process_name(service, &env);
        if !config.servers.is_cluster() {
            return Err(
                CommandError::new("cluster.not_configured", "no broker is configured").with_next(
                    "set broker.url and redis.url, or use `stemma ingest`, which needs neither",
                ),
            );
        }
        let presence = Presence::new(&env, name.clone(), service);
        let drained = CancellationToken::new();
        let connected = Arc::new(OnceLock::new());
        let health = Health::of(&env, &presence, &connected);
        let serving = health::serve(
            listen,
            health,
            Metrics::install(),
            Router::new(),
            drained.clone(),
        )
        .await;
        let serving = serving.map_err(|error| {
            CommandError::new("listen.refused", format!("{listen}: {error}"))
                .with_next("choose another --listen")
        })?;
        tracing::info!(service, process = name, store = %context.store, listen = %serving.address, "starting");
        let cluster = connect(&config.servers, context, &name, &env, &stop).await?;
        drop(connected.set(cluster.ports.clone())); // this is the only place that sets it
        tracing::info!(service, process = name, "started");
        // Only workers ask models.
        let gates = if service == "worker" {
            config.gates(&env, &cluster.ports, &name)?
        } else {
            Vec::new()
        };
        let asked = gates.clone();
        let models = move || {
            asked
                .iter()
                .map(|gate| (gate.bucket().to_string(), gate.beat()))
                .collect()
        };
        let ledger = Arc::clone(&cluster.ports.ledger);
        let beating = Arc::clone(&presence);
        let beats = env.spawn(presence::beat(
            env.clone(),
            ledger,
            beating,
            models,
            drained.clone(),
        ));
        Ok(Self {
            config,
            models: gates,
            env,
            cluster,
            stop,
            presence,
            drained,
            beats,
            serving,
        })
    }

    /// What a service's `run` takes.
    pub fn parts(&self) -> (Env, Ports, CancellationToken) {
        (
            self.env.clone(),
            self.cluster.ports.clone(),
            self.stop.clone(),
        )
    }

    /// The process: named in leases, beats and connections.
    pub fn presence(&self) -> Arc<Presence> {
        Arc::clone(&self.presence)
    }

    /// Ends after everything was drained.
    pub async fn end(self) -> Exit {
        self.drained.cancel();
        if let Err(error) = self.beats.await {
            tracing::error!(%error, "the beats ended early");
        }
        self.cluster.close().await;
        if let Err(error) = self.serving.ended().await {
            tracing::error!(%error, "health was not served to the end");
        }
        tracing::info!(process = self.presence.process(), "drained");
        Exit::Done
    }
}

async fn connect(
    servers: &Servers,
    context: &Context,
    name: &str,
    env: &Env,
    stop: &CancellationToken,
) -> Result<Cluster, PortError> {
    loop {
        match servers.connect(&context.store, name, env).await {
            Err(error) if error.passing && !stop.is_cancelled() => {
                tracing::warn!(%error, "a server is away; looking again");
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(LOOK_AGAIN) => {}
                }
            }
            connected => return connected,
        }
    }
}
