//! What commands on jobs stand on: the blobs, and where there is a cluster, its ports.

use std::sync::Arc;

use stemma_boot::backends::Cluster;
use stemma_boot::store::{LockOwner, Store};
use stemma_engine::blobs::Blobs;
use stemma_engine::flow::JobManifest;
use stemma_engine::{Env, JobId, Ports, jobs};

use crate::context::Context;
use crate::error::CommandError;

/// A store with its jobs.
pub struct JobContext {
    /// The world.
    pub env: Env,
    /// The ports. Without a cluster, queue and ledger are this process's own: there is nothing on them.
    pub ports: Ports,
    /// Whether the ports are those of a cluster: whether boards and lanes say anything.
    pub is_live: bool,
    /// Who writes to a folder store now.
    pub writer: Option<LockOwner>,
    collection: String,
    _cluster: Option<Cluster>,
}

impl JobContext {
    /// Opens the store. `command` names this process to the servers.
    ///
    /// # Errors
    /// [`CommandError`] when there is no store, or a server is away.
    pub async fn open(context: &Context, command: &str) -> Result<Self, CommandError> {
        let env = Env::system();
        let collection = context.collection.to_string();
        if let Some(cluster) = context.cluster(&env, command).await? {
            let ports = cluster.ports.clone();
            return Ok(Self {
                env,
                ports,
                is_live: true,
                writer: None,
                collection,
                _cluster: Some(cluster),
            });
        }
        let store: Store = context.open_store().await?;
        let writer = store.writer();
        let ports = Ports::embedded(store.blobs);
        Ok(Self {
            env,
            ports,
            is_live: false,
            writer,
            collection,
            _cluster: None,
        })
    }

    /// A store that this process itself works on.
    pub fn local(env: Env, ports: Ports, context: &Context) -> Self {
        Self {
            env,
            ports,
            is_live: true,
            writer: None,
            collection: context.collection.to_string(),
            _cluster: None,
        }
    }

    /// The objects.
    pub fn blobs(&self) -> &dyn Blobs {
        self.ports.blobs.as_ref()
    }

    /// The objects, to be kept.
    pub fn blobs_arc(&self) -> Arc<dyn Blobs> {
        Arc::clone(&self.ports.blobs)
    }

    /// The job with this id, or this name; `None` when the collection has none.
    ///
    /// # Errors
    /// [`CommandError`] when the store cannot be read.
    pub async fn find(&self, job: &str) -> Result<Option<JobManifest>, CommandError> {
        let ours = |manifest: &JobManifest| manifest.collection == self.collection;
        if job.is_empty()
            || !job
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        {
            return Ok(None);
        }
        let by_id = jobs::manifest(self.blobs(), &JobId(job.into()))
            .await?
            .filter(ours);
        if by_id.is_some() {
            return Ok(by_id);
        }
        match jobs::job_for_name(&self.env, self.blobs(), &self.collection, job, None).await? {
            Some(id) => Ok(jobs::manifest(self.blobs(), &id).await?.filter(ours)),
            None => Ok(None),
        }
    }

    /// The same, where it must be there.
    ///
    /// # Errors
    /// [`CommandError`] `job.unknown` when it is not.
    pub async fn job(&self, job: &str) -> Result<JobManifest, CommandError> {
        self.find(job).await?.ok_or_else(|| {
            CommandError::new(
                "job.unknown",
                format!("there is no job `{job}` in this collection"),
            )
            .with_next("see the jobs with `stemma status`")
        })
    }
}
