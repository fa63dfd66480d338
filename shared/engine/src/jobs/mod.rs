//! Jobs: what was submitted, how far its entries are claimed, which of its runs are open, and its report.
//!
//! ```text
//! jobs/{job}/manifest.json                  written last: a job without one was never submitted
//! jobs/{job}/entries/{attempt}/{chunk}.json 500 entries each, of one attempt to submit
//! jobs/{job}/cursor/{entries}.json          what had ended when that many entries had
//! jobs/{job}/control/{time}-….json          paused, resumed, priority, budget: the last of each kind counts
//! jobs/{job}/cancelled                      it ends as soon as a coordinator sees this
//! jobs/{job}/report.json                    the job ended
//! job-names/{collection}/{name}             the job a name was given to
//! ```

mod budget;
mod control;
mod ended_entries;
mod manifest;
mod open;
mod submit;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::blobs::Blobs;
use crate::env::{Env, Millis};
use crate::failure::FailureRecord;
use crate::key::JobId;
use crate::message::RunOutcome;
use crate::port_error::{PortError, with_retry};

pub use budget::{BudgetOwner, BudgetRegistry, JobBudget, SpendAmount, SpendLog};
pub use control::{
    CancelReason, Cancelled, JobControl, PauseReason, Paused, cancel, load_control, pause,
    prioritize, resume, set_budget,
};
pub use manifest::{JobEntry, JobManifest, JobOptions, MaxFailed};
pub(crate) use open::OpenJob;
pub use submit::{JobStart, JobWriter, job_for_name, submit};

/// Entries in a chunk.
const CHUNK_ENTRIES: usize = 500;

/// How the entries of a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EntryCounts {
    /// Finished with everything.
    pub done: u64,
    /// Finished with recorded gaps.
    pub done_with_gaps: u64,
    /// Finished before; nothing was done.
    pub unchanged: u64,
    /// Failed.
    pub failed: u64,
    /// Not finished, because the job was cancelled or stopped.
    #[serde(default)]
    pub cancelled: u64,
}

impl EntryCounts {
    /// Entries that ended.
    pub fn ended(&self) -> u64 {
        self.done + self.done_with_gaps + self.unchanged + self.failed + self.cancelled
    }

    fn add(&mut self, ending: &RunOutcome) {
        match ending {
            RunOutcome::Done => self.done += 1,
            RunOutcome::DoneWithGaps(_) => self.done_with_gaps += 1,
            RunOutcome::Unchanged => self.unchanged += 1,
            RunOutcome::Failed(_) => self.failed += 1,
            RunOutcome::Cancelled => self.cancelled += 1,
        }
    }
}

/// How a job came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEndReason {
    /// Every entry ended by itself.
    #[default]
    Finished,
    /// Someone cancelled it.
    Cancelled,
    /// More entries failed than it allows.
    TooManyFailed,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobReport {
    /// The job.
    pub job: JobId,
    /// How it came to its end.
    #[serde(default)]
    pub close: JobEndReason,
    /// Its entries' endings.
    pub counts: EntryCounts,
    /// Failed entries by code; complete up to 256 codes.
    #[serde(default)]
    pub reasons: BTreeMap<String, u64>,
    /// Run (or entry number, where there was none) and failure; a thousand of them.
    pub failures: Vec<(String, FailureRecord)>,
    /// Tasks that its runs had outcomes of when they ended; those of runs that ended elsewhere, and were not waited
    /// for, are not in it.
    #[serde(default)]
    pub tasks: u64,
    /// When it was submitted.
    pub submitted_ms: Millis,
    /// When its last entry ended.
    pub ended_ms: Millis,
}

impl JobReport {
    /// Seconds from submission to the end.
    pub fn seconds(&self) -> f64 {
        self.ended_ms.saturating_sub(self.submitted_ms) as f64 / 1e3
    }
}

/// The report of a job; `None` while it has not ended.
///
/// # Errors
/// [`PortError`] when the store could not say.
pub async fn report(blobs: &dyn Blobs, job: &JobId) -> Result<Option<JobReport>, PortError> {
    get_json(blobs, &report_key(job)).await
}

/// The manifest of a job; `None` when there is no such job.
///
/// # Errors
/// [`PortError`] when the store could not say.
pub async fn manifest(blobs: &dyn Blobs, job: &JobId) -> Result<Option<JobManifest>, PortError> {
    get_json(blobs, &manifest_key(job)).await
}

/// Entries `chunk` × 500 … of a job; empty after the last.
///
/// # Errors
/// [`PortError`] when the store could not say.
pub async fn entries(
    blobs: &dyn Blobs,
    manifest: &JobManifest,
    chunk: u64,
) -> Result<Vec<JobEntry>, PortError> {
    if chunk >= manifest.entries.div_ceil(CHUNK_ENTRIES as u64) {
        return Ok(Vec::new());
    }
    Ok(get_json(blobs, &chunk_key(manifest, chunk))
        .await?
        .unwrap_or_default())
}

/// What had ended of a job when its coordinator last saved it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SavedProgress {
    /// Endings.
    pub counts: EntryCounts,
    /// Failed entries by code.
    pub reasons: BTreeMap<String, u64>,
    /// Run (or entry number) and failure; a thousand of them.
    pub failures: Vec<(String, FailureRecord)>,
}

/// What had ended of an open job when its coordinator last saved it: behind by up to some hundred entries.
///
/// # Errors
/// [`PortError`] when the store could not say.
pub async fn saved_progress(blobs: &dyn Blobs, job: &JobId) -> Result<SavedProgress, PortError> {
    let tally = ended_entries::load_last(blobs, job).await?;
    Ok(SavedProgress {
        counts: tally.counts,
        reasons: tally.reasons,
        failures: tally.failures,
    })
}

/// Ids of all jobs after `after`, at most `limit`, oldest first.
///
/// # Errors
/// [`PortError`] when the store could not say.
pub async fn list(
    blobs: &dyn Blobs,
    after: Option<&JobId>,
    limit: usize,
) -> Result<Vec<JobId>, PortError> {
    let after = after.map(|job| format!("{job}/"));
    let names = blobs.children("jobs/", after.as_deref(), limit).await?;
    Ok(names
        .into_iter()
        .map(|name| JobId(name.trim_end_matches('/').into()))
        .collect())
}

fn manifest_key(job: &JobId) -> String {
    format!("jobs/{job}/manifest.json")
}

fn report_key(job: &JobId) -> String {
    format!("jobs/{job}/report.json")
}

/// Jobs of before attempts had a name keep their entries one level higher.
fn chunk_key(manifest: &JobManifest, chunk: u64) -> String {
    let job = &manifest.job;
    let attempt = &manifest.terms.attempt;
    let slash = if attempt.is_empty() { "" } else { "/" };
    format!("jobs/{job}/entries/{attempt}{slash}{chunk:06}.json")
}

async fn put_json(
    env: &Env,
    blobs: &dyn Blobs,
    key: &str,
    value: &(impl Serialize + ?Sized),
) -> Result<(), PortError> {
    let json = serde_json::to_vec(value)
        .map_err(|error| PortError::permanent("blobs", "put", error.to_string()))?;
    with_retry(env, || blobs.put(key, json.clone().into()))
        .await
        .map(|_| ())
}

async fn get_json<T: serde::de::DeserializeOwned>(
    blobs: &dyn Blobs,
    key: &str,
) -> Result<Option<T>, PortError> {
    let Some(json) = blobs.get(key).await? else {
        return Ok(None);
    };
    serde_json::from_slice(&json).map(Some).map_err(|error| {
        PortError::permanent("blobs", "get", format!("{key} cannot be read: {error}"))
    })
}
