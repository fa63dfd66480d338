//! The whole walk in one process over memory ports, on one thread and in virtual time: what the tests beside this
//! share.
//!
//! ```
//! let hours = stemma_walk::simulate(async {
//!     let env = stemma_engine::Env::simulated(1);
//!     let begun_ms = env.now_ms();
//!     env.sleep(std::time::Duration::from_secs(7200)).await;
//!     (env.now_ms() - begun_ms) / 3_600_000
//! });
//! assert_eq!(hours.unwrap(), 2);
//! ```

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use stemma_document::DocumentVersion;
use stemma_engine::blobs::MemoryBlobs;
use stemma_engine::jobs::{self, JobReport};
use stemma_engine::{Env, Failure, JobId};
use stemma_extract::{ExtractError, ExtractJob, Extractor};
use stemma_pipeline::sources::SourceStore;

/// The one document there is, as it is now.
pub struct SingleDocument(pub Bytes);

#[async_trait]
impl SourceStore for SingleDocument {
    async fn read(&self, _version: &DocumentVersion, _max_bytes: u64) -> Result<Bytes, Failure> {
        Ok(self.0.clone())
    }
}

/// Reads documents in this process.
pub struct InProcessExtractor;

#[async_trait]
impl Extractor for InProcessExtractor {
    async fn extract(&self, job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
        stemma_pipeline::stages::extract_document(job)
    }
}

/// Virtual time within which a job must end.
const LIMIT: Duration = Duration::from_secs(3600);

/// Runs `future` on one thread, in time that only moves when everything sleeps.
///
/// # Errors
/// What the system said when there could be no runtime.
pub fn simulate<F: Future>(future: F) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    Ok(runtime.block_on(future))
}

/// Waits for the report of a job; an error when it has not ended after an hour of virtual time.
///
/// # Errors
/// What went wrong.
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

/// Trees, artifacts and versions: what every schedule must come to. Of versions, only which job claimed them first is
/// the schedule's own.
pub fn comparable_results(store: &MemoryBlobs) -> BTreeMap<String, Bytes> {
    let is_result = |key: &str| {
        ["/a/", "/trees/", "/versions/"]
            .iter()
            .any(|part| key.contains(part))
    };
    let objects = store
        .snapshot()
        .into_iter()
        .filter(|(key, _)| is_result(key));
    objects
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
