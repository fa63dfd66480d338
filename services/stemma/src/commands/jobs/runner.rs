//! Runs jobs: on the cluster, or in this process.

use std::sync::Arc;

use stemma_boot::shutdown;
use stemma_boot::store::WritableStore;
use stemma_engine::Ports;
use stemma_engine::flow::JobManifest;
use stemma_operations::{JobStatus, Operations};
use stemma_pipeline::Submission;
use stemma_roles::coordinator::SubmitRequest;
use stemma_store::Env;
use tokio_util::sync::CancellationToken;

use super::follow::{FollowDisplay, exit, follow, print_end};
use super::open_operations;
use crate::config::Config;
use crate::context::Context;
use crate::embedded::EmbeddedServices;
use crate::error::{CommandError, Exit};

/// The cluster, or the services in this process.
pub struct JobRunner {
    /// Access to the jobs.
    pub operations: Operations,
    // Without a cluster: the services in this process, and the lock of the store.
    local: Option<(EmbeddedServices, WritableStore)>,
    /// Cancelled by an interrupt.
    pub stop: CancellationToken,
}

impl JobRunner {
    /// Connects to the cluster. If none is configured, opens the store for writing and starts the services. `command`
    /// is shown to other processes.
    pub async fn open(
        context: &Context,
        config: &Config,
        command: &str,
    ) -> Result<Self, CommandError> {
        let stop = shutdown::listen();
        let env = Env::system();
        if config.servers.is_cluster() {
            return Ok(Self {
                operations: open_operations(context, command).await?,
                local: None,
                stop,
            });
        }
        let store = context.open_writable_store(&env, command).await?;
        let ports: Ports = store.ports.clone();
        let services = EmbeddedServices::start(&ports, config, None, Arc::new(|_| {}))?;
        let operations = Operations::live(ports, context.collection.clone());
        Ok(Self {
            operations,
            local: Some((services, store)),
            stop,
        })
    }

    /// Whether the work is done by other processes.
    pub fn is_cluster(&self) -> bool {
        self.local.is_none()
    }

    /// Submits documents as a job. Where that fails, the services are stopped.
    pub async fn submit(
        self,
        order: SubmitRequest<'_>,
        documents: &[Submission],
    ) -> Result<(Self, JobManifest), CommandError> {
        let ports = &self.operations.ports;
        match stemma_roles::coordinator::submit(ports, order, documents).await {
            Ok(manifest) => Ok((self, manifest)),
            Err(error) => {
                self.close().await;
                Err(error.into())
            }
        }
    }

    /// Follows a job until it ends, if `wait` is set or this process does the work, and prints the result.
    pub async fn follow_or_detach(
        self,
        context: &Context,
        manifest: &JobManifest,
        wait: bool,
    ) -> Result<Exit, CommandError> {
        let is_cluster = self.is_cluster();
        if wait || !is_cluster {
            let view = self.wait(context, manifest).await?;
            print_end(context, &view, is_cluster);
            return Ok(exit(&view));
        }
        let output = &context.output;
        let JobManifest { job, entries, .. } = manifest;
        let name = &manifest.options.name;
        let view =
            serde_json::json!({ "job": job, "name": name, "state": "waiting", "total": entries });
        output.show(&view, || {
            output.line(&job.to_string());
            output.note(&format!(
                "{entries} documents submitted; follow with: stemma watch {job}"
            ));
        });
        self.close().await;
        Ok(Exit::Done)
    }

    /// Follows a job until it ends.
    pub async fn wait(
        self,
        context: &Context,
        manifest: &JobManifest,
    ) -> Result<JobStatus, CommandError> {
        let display = FollowDisplay::new(context, manifest.entries, false);
        let view = follow(&self.operations, manifest, display, &self.stop).await;
        self.close().await;
        view
    }

    pub async fn close(self) {
        if let Some((services, store)) = self.local {
            services.stop().await;
            drop(store);
        }
    }
}
