//! Access to jobs: the blobs, and the ports of the cluster if one is configured.

use std::any::Any;
use std::sync::Arc;

use serde::Serialize;
use stemma_archive::{ApiError, Archive};
use stemma_document::Collection;
use stemma_engine::diagnosis::{self, DiagnosisContext};
use stemma_engine::flow::JobManifest;
use stemma_engine::{Ports, jobs};
use stemma_store::blobs::Blobs;
use stemma_store::{Env, JobId, PortResult, RunHeader, RunId};

use crate::recent::RecentReads;
use crate::{CheckReport, InstallationChecks, OperationsError};

/// A store with its jobs, and the services that work on them.
#[derive(Clone)]
pub struct Operations {
    /// The ports. Without a cluster, queue and ledger belong to this process and are empty.
    pub ports: Ports,
    /// Whether queue and ledger hold live data.
    pub is_live: bool,
    collection: Collection,
    find_writer: Arc<dyn Fn() -> Option<StoreWriter> + Send + Sync>,
    checks: Option<Arc<InstallationChecks>>,
    pub(crate) recent: Arc<RecentReads>,
    // Connections that end when they are dropped.
    _connections: Option<Arc<dyn Any + Send + Sync>>,
}

/// The process that writes to a folder store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreWriter {
    pub pid: u32,
    /// Its command, e.g. `ingest`.
    pub command: String,
    /// Start, in milliseconds since 1970-01-01 UTC.
    pub since_ms: u64,
}

impl Operations {
    /// Jobs of a cluster, or of the services in this process.
    pub fn live(ports: Ports, collection: Collection) -> Self {
        Self {
            ports,
            is_live: true,
            collection,
            find_writer: Arc::new(|| None),
            checks: None,
            recent: Arc::default(),
            _connections: None,
        }
    }

    /// Jobs of a store, which another process may work on.
    pub fn stored(
        env: &Env,
        blobs: Arc<dyn Blobs>,
        collection: Collection,
        find_writer: impl Fn() -> Option<StoreWriter> + Send + Sync + 'static,
    ) -> Self {
        let ports = Ports::embedded(env, blobs);
        Self {
            is_live: false,
            find_writer: Arc::new(find_writer),
            ..Self::live(ports, collection)
        }
    }

    /// Keeps what the ports need open as long as this.
    #[must_use]
    pub fn with_connections(mut self, connections: impl Any + Send + Sync) -> Self {
        self._connections = Some(Arc::new(connections));
        self
    }

    /// Checks the installation when somebody looks at its health.
    #[must_use]
    pub fn with_checks(mut self, checks: InstallationChecks) -> Self {
        self.checks = Some(Arc::new(checks));
        self
    }

    /// The latest checks of the installation; `None` where nothing makes them.
    pub fn latest_checks(&self) -> Option<CheckReport> {
        self.checks.as_ref().map(|checks| checks.latest())
    }

    /// The jobs of another collection of the same store.
    #[must_use]
    pub fn in_collection(&self, collection: &Collection) -> Self {
        Self {
            collection: collection.clone(),
            ..self.clone()
        }
    }

    pub fn collection(&self) -> &Collection {
        &self.collection
    }

    pub fn blobs(&self) -> &dyn Blobs {
        self.ports.blobs.raw().as_ref()
    }

    /// The process that writes to a folder store now.
    pub fn writer(&self) -> Option<StoreWriter> {
        (self.find_writer)()
    }

    /// The collection, opened for reading.
    ///
    /// # Errors
    /// [`ApiError`] when the store cannot be read.
    pub async fn archive(&self) -> Result<Archive, ApiError> {
        let blobs = Arc::clone(self.ports.blobs.raw());
        Archive::open(&self.ports.env, blobs, self.collection.clone()).await
    }

    /// What the cluster knows; nothing without one.
    pub async fn observe(&self) -> DiagnosisContext {
        match self.is_live {
            true => diagnosis::gather_context(&self.ports).await,
            false => DiagnosisContext::default(),
        }
    }

    /// Like [`Operations::observe`], within two seconds: processes that have not posted yet are missing.
    pub async fn observe_at_once(&self) -> DiagnosisContext {
        match self.is_live {
            true => diagnosis::gather_context_at_once(&self.ports).await,
            false => DiagnosisContext::default(),
        }
    }

    /// The header of a run; `None` if it is missing, unreadable or of another run.
    pub async fn run_header(&self, run: &RunId) -> PortResult<Option<RunHeader>> {
        match stemma_pipeline::run_ref(&self.collection, run) {
            Some(at) => Ok(RunHeader::load(self.blobs(), &at).await?.ok()),
            None => Ok(None),
        }
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
    ///
    /// # Errors
    /// [`OperationsError`] when there is none, or the store does not answer.
    pub async fn job(&self, job: &str) -> Result<JobManifest, OperationsError> {
        let found = self.find(job).await?;
        found.ok_or_else(|| unknown_job(job).into())
    }
}

pub(crate) fn unknown_job(job: &str) -> ApiError {
    let message = format!("unknown job `{job}` in this collection");
    ApiError::new("job.unknown", message, "list jobs with `stemma status`")
}
