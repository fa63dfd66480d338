//! Where submitted work is done: on the cluster, or right here.

use std::sync::Arc;

use stemma_boot::shutdown;
use stemma_boot::store::WritableStore;
use stemma_engine::flow::Manifest;
use stemma_engine::{Env, Ports};
use tokio_util::sync::CancellationToken;

use super::Desk;
use super::follow::{Shown, conclude, exit, follow};
use crate::config::Config;
use crate::context::{CommandError, Context, Exit};
use crate::embedded::Embedded;

/// A place where submitted work is done.
pub struct Shop {
    /// What jobs are submitted to and looked at through.
    pub desk: Desk,
    /// Where the work is done in this process: its services, and the lock of the store.
    here: Option<(Embedded, WritableStore)>,
    stop: CancellationToken,
}

impl Shop {
    /// Opens the cluster, or, where none is configured, the store for writing, and starts the services here. `command`
    /// is shown to others.
    ///
    /// # Errors
    /// [`CommandError`] when a server is away, or someone else writes to the store.
    pub async fn open(
        context: &Context,
        config: &Config,
        command: &str,
    ) -> Result<Self, CommandError> {
        let stop = shutdown::listen();
        let env = Env::system();
        if config.servers.is_cluster() {
            return Ok(Self {
                desk: Desk::open(context, command).await?,
                here: None,
                stop,
            });
        }
        let store = context.writer(&env, command).await?;
        let ports: Ports = store.ports.clone();
        let services = Embedded::start(&env, &ports, config, None, Arc::new(|_| {}))?;
        let desk = Desk::here(env, ports, context);
        Ok(Self {
            desk,
            here: Some((services, store)),
            stop,
        })
    }

    /// Whether the work is done by other processes.
    pub fn is_cluster(&self) -> bool {
        self.here.is_none()
    }

    /// Ends when an interrupt asks for it.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Whether an interrupt asked for an end.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Stays with a job until it has ended where `wait` says so, or no one else would do the work; says how it went.
    ///
    /// # Errors
    /// [`CommandError`] when the store stays away.
    pub async fn see_to(
        self,
        context: &Context,
        manifest: &Manifest,
        wait: bool,
    ) -> Result<Exit, CommandError> {
        let wait = wait || self.here.is_some();
        if wait {
            let shown = Shown::new(context, manifest.entries, false);
            let view = follow(&self.desk, manifest, shown, &self.stop).await;
            let elsewhere = self.here.is_none();
            self.close().await;
            let view = view?;
            conclude(context, &view, elsewhere);
            return Ok(exit(&view));
        }
        let output = &context.output;
        if output.is_text() {
            output.line(&manifest.job.to_string());
            output.note(&format!(
                "{} documents submitted; look with: stemma watch {}",
                manifest.entries, manifest.job
            ));
        } else {
            let job = &manifest.job;
            let name = &manifest.terms.name;
            let total = manifest.entries;
            output.json(&serde_json::json!({ "job": job, "name": name, "state": "waiting", "total": total }));
        }
        self.close().await;
        Ok(Exit::Done)
    }

    /// Drains what works here.
    pub async fn close(self) {
        if let Some((services, store)) = self.here {
            services.stop().await;
            drop(store);
        }
    }
}
