//! Runs the complete flow in one process over memory ports, on one thread and in virtual time. Shared by the
//! tests of this crate.
//!
//! ```
//! let hours = stemma_pipeline_tests::simulate(async {
//!     let env = stemma_store::Env::simulated(1);
//!     let start_ms = env.now_ms();
//!     env.sleep(std::time::Duration::from_secs(7200)).await;
//!     (env.now_ms() - start_ms) / 3_600_000
//! });
//! assert_eq!(hours.unwrap(), 2);
//! ```

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use stemma_document::{Digest, DocumentVersion, Origin};
use stemma_engine::Ports;
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::jobs::{self, JobReport};
use stemma_engine::queue::Lane;
use stemma_extract::{ExtractError, ExtractJob, Extractor};
use stemma_llm::calls::CallRecord;
use stemma_pipeline::sources::SourceStore;
use stemma_pipeline::{BatchSettings, CorrectionChange, Submission, WorkerDeps};
use stemma_roles::coordinator::no_observer;
use stemma_roles::worker::WorkerSettings;
use stemma_store::blobs::{MemoryBlobs, get_json, list_all};
use stemma_store::{Env, Failure, JobId, PortResult};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Serves the same bytes for every document.
pub struct SingleDocument(pub Bytes);

#[async_trait]
impl SourceStore for SingleDocument {
    async fn read(&self, _version: &DocumentVersion, _max_bytes: u64) -> Result<Bytes, Failure> {
        Ok(self.0.clone())
    }
}

/// Extracts documents in this process.
pub struct InProcessExtractor;

#[async_trait]
impl Extractor for InProcessExtractor {
    async fn extract(&self, job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
        stemma_pipeline::stages::extract_document(job)
    }
}

/// Coordinator, worker and assembler in this process.
pub struct Services {
    stop: CancellationToken,
    running: [JoinHandle<()>; 3],
}

impl Services {
    /// Starts the services over `ports`. `lanes`: how many tasks of each lane the worker runs at once.
    pub fn start(ports: &Ports, deps: WorkerDeps, lanes: impl Into<Vec<(Lane, u16)>>) -> Self {
        Self::start_with([(); 3].map(|()| ports.clone()), deps, lanes)
    }

    /// Starts the services, each over ports of its own: those of the coordinator, the worker and the assembler.
    pub fn start_with(
        [of_coordinator, of_worker, of_assembler]: [Ports; 3],
        deps: WorkerDeps,
        lanes: impl Into<Vec<(Lane, u16)>>,
    ) -> Self {
        let env = of_coordinator.env.clone();
        const OPEN_DOCUMENTS: usize = 10;
        let deps = Arc::new(deps);
        let stop = CancellationToken::new();
        let worker_settings = WorkerSettings {
            lanes: lanes.into(),
            grace: Duration::from_secs(10),
            heartbeat: HeartbeatReporter::new(&env, "worker", "worker"),
            batches: BatchSettings::default(),
        };
        let coordinator = env.spawn(stemma_roles::coordinator::run(
            of_coordinator,
            OPEN_DOCUMENTS,
            no_observer(),
            HeartbeatReporter::new(&env, "coordinator", "coordinator"),
            stop.clone(),
        ));
        let worker = env.spawn(stemma_roles::worker::run(
            of_worker,
            Arc::clone(&deps),
            worker_settings,
            stop.clone(),
        ));
        let assembler = env.spawn(stemma_roles::assembler::run(
            of_assembler,
            deps,
            HeartbeatReporter::new(&env, "assembler", "assembler"),
            stop.clone(),
        ));
        Self {
            stop,
            running: [coordinator, worker, assembler],
        }
    }

    /// Stops the services and waits until they have drained.
    ///
    /// # Errors
    /// A service panicked, or did not end within ten minutes of virtual time.
    pub async fn stop(self) -> Result<(), String> {
        const DRAIN_TIMEOUT: Duration = Duration::from_secs(600);
        self.stop.cancel();
        for service in self.running {
            tokio::time::timeout(DRAIN_TIMEOUT, service)
                .await
                .map_err(|_| format!("a service has not ended after {DRAIN_TIMEOUT:?}"))?
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// The submission of a document with this content.
pub fn submission(name: &str, content: &[u8]) -> Submission {
    Submission {
        uri: format!("memory:{name}"),
        name: name.into(),
        path: name.into(),
        source: Digest::from_content(content),
        origin: Origin::Content,
        size_bytes: content.len() as u64,
        stated: BTreeMap::new(),
        filing: BTreeMap::new(),
        labels: None,
        retry_failed: false,
        correction: CorrectionChange::Keep,
        object: None,
    }
}

// Virtual time in which a job must end.
const LIMIT: Duration = Duration::from_secs(3600);

/// Runs `future` on one thread. Time only moves when all tasks sleep.
///
/// # Errors
/// The error of the system if no runtime can be created.
pub fn simulate<F: Future>(future: F) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    Ok(runtime.block_on(future))
}

/// The log of calls of the default collection.
///
/// # Errors
/// The store failed.
pub async fn call_records(store: &MemoryBlobs) -> PortResult<Vec<CallRecord>> {
    let mut records = Vec::new();
    for key in list_all(store, "c/default/calls/").await? {
        records.extend(get_json::<CallRecord>(store, &key).await?);
    }
    Ok(records)
}

/// Waits for the report of a job, at most an hour of virtual time.
///
/// # Errors
/// The store failed, or the job did not end in time.
pub async fn report(env: &Env, store: &MemoryBlobs, job: &JobId) -> Result<JobReport, String> {
    let wait = async {
        loop {
            match jobs::report(store, job).await {
                Ok(Some(report)) => return Ok(report),
                Ok(None) => env.sleep(Duration::from_millis(100)).await,
                Err(error) => return Err(error.to_string()),
            }
        }
    };
    tokio::time::timeout(LIMIT, wait)
        .await
        .map_err(|_| format!("{job} has not ended after {LIMIT:?}"))?
}

/// Trees, artifacts and versions: the results that must not depend on the schedule. Only the job that claimed
/// a version first may differ, so it is left out.
pub fn comparable_results(store: &MemoryBlobs) -> BTreeMap<String, Bytes> {
    store
        .snapshot()
        .into_iter()
        .filter(|(key, _)| {
            ["/a/", "/trees/", "/versions/"]
                .iter()
                .any(|part| key.contains(part))
        })
        .map(|(key, bytes)| {
            if key.contains("/versions/") {
                (key, without_owner(&bytes))
            } else {
                (key, bytes)
            }
        })
        .collect()
}

fn without_owner(version: &Bytes) -> Bytes {
    match serde_json::from_slice::<Value>(version) {
        Ok(mut header) => {
            header["opened_by"] = Value::Null;
            header.to_string().into()
        }
        Err(_) => version.clone(),
    }
}

/// Keys whose bytes differ.
pub fn differences(
    actual: &BTreeMap<String, Bytes>,
    expected: &BTreeMap<String, Bytes>,
) -> Vec<String> {
    let all = actual.keys().chain(expected.keys());
    all.filter(|key| actual.get(*key) != expected.get(*key))
        .cloned()
        .collect()
}
