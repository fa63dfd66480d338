//! Access to jobs: the blobs, and the ports of the cluster if one is configured.

use std::sync::Arc;

use stemma_archive::Archive;
use stemma_boot::backends::Cluster;
use stemma_boot::store::{LockOwner, Store};
use stemma_document::Collection;
use stemma_engine::blobs::Blobs;
use stemma_engine::flow::JobManifest;
use stemma_engine::{Env, JobId, PortResult, Ports, RunHeader, RunId, jobs};

use crate::context::Context;
use crate::error::CommandError;

/// A store with its jobs.
pub struct JobContext {
    pub env: Env,
    /// The ports. Without a cluster, queue and ledger belong to this process and are empty.
    pub ports: Ports,
    /// Whether queue and ledger hold live data.
    pub is_live: bool,
    /// The process that writes to a folder store now.
    pub writer: Option<LockOwner>,
    collection: Collection,
    _cluster: Option<Cluster>,
}

impl JobContext {
    /// Opens the store. `command` names this process to the servers.
    pub async fn open(context: &Context, command: &str) -> Result<Self, CommandError> {
        let env = Env::system();
        let cluster = context.cluster(&env, command).await?;
        Self::new(context, env, cluster).await
    }

    /// Opens the store for a command that only looks, and answers whichever server is away.
    pub async fn observe(context: &Context, command: &str) -> Result<Self, CommandError> {
        let env = Env::system();
        let cluster = context.observed_cluster(&env, command).await?;
        Self::new(context, env, cluster).await
    }

    async fn new(
        context: &Context,
        env: Env,
        cluster: Option<Cluster>,
    ) -> Result<Self, CommandError> {
        let collection = context.collection.clone();
        if let Some(cluster) = cluster {
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
        let ports = Ports::embedded(&env, store.blobs);
        Ok(Self {
            env,
            ports,
            is_live: false,
            writer,
            collection,
            _cluster: None,
        })
    }

    /// The context of a job that this process works on.
    pub fn local(env: Env, ports: Ports, context: &Context) -> Self {
        Self {
            env,
            ports,
            is_live: true,
            writer: None,
            collection: context.collection.clone(),
            _cluster: None,
        }
    }

    pub fn blobs(&self) -> &dyn Blobs {
        self.ports.blobs.raw().as_ref()
    }

    /// The collection, opened for reading.
    pub async fn archive(&self) -> Result<Archive, CommandError> {
        let blobs = Arc::clone(self.ports.blobs.raw());
        Ok(Archive::open(&self.env, blobs, self.collection.clone()).await?)
    }

    /// The header of a run; `None` if it is missing or unreadable.
    pub async fn run_header(&self, run: &RunId) -> Result<Option<RunHeader>, CommandError> {
        let Some(key) = stemma_pipeline::header_key(self.collection.as_str(), run) else {
            return Ok(None);
        };
        let json = self.blobs().get(&key).await?;
        Ok(json.and_then(|json| serde_json::from_slice(&json).ok()))
    }

    /// The job with this id, or this name; `None` when the collection has none.
    pub async fn find(&self, job: &str) -> PortResult<Option<JobManifest>> {
        if job.is_empty()
            || !job
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        {
            return Ok(None);
        }
        let by_id = self.manifest(&JobId(job.into())).await?;
        if by_id.is_some() {
            return Ok(by_id);
        }
        let collection = self.collection.as_str();
        match jobs::find_job_name(self.blobs(), collection, job).await? {
            Some(id) => self.manifest(&id).await,
            None => Ok(None),
        }
    }

    // `None` also for jobs of other collections.
    async fn manifest(&self, job: &JobId) -> PortResult<Option<JobManifest>> {
        let manifest = jobs::manifest(self.blobs(), job).await?;
        Ok(manifest.filter(|manifest| manifest.collection == self.collection.as_str()))
    }

    /// The job with this id or name, or the error `job.unknown`.
    pub async fn job(&self, job: &str) -> Result<JobManifest, CommandError> {
        self.find(job).await?.ok_or_else(|| unknown_job(job))
    }
}

pub fn unknown_job(job: &str) -> CommandError {
    let message = format!("unknown job `{job}` in this collection");
    CommandError::new("job.unknown", message).with_next("list jobs with `stemma status`")
}
