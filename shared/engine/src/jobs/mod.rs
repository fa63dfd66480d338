//! Jobs: their submission, control, budgets, progress and report.
//!
//! ```text
//! jobs/{job}/manifest.json                  written last: a job without one was never submitted
//! jobs/{job}/entries/{attempt}/{chunk}.json 500 entries each, of one submission attempt
//! jobs/{job}/cursor/{entries}.json          the results after that many entries had ended
//! jobs/{job}/parts/{part}.json              the results of a part: the entries of one chunk of a large job
//! jobs/{job}/control/{time}-….json          pause, resume, priority, budget: the last of each kind counts
//! jobs/{job}/pauses/{record}                the pause after that control record, so that many write one
//! jobs/{job}/cancelled                      ends the job as soon as a coordinator reads it
//! jobs/{job}/report.json                    the job has ended
//! job-names/{collection}/{name}             the job submitted under a name
//! jobs-ended/{job}                          the job has its report: a listing says so
//! ```

mod budget;
mod control;
mod ended_entries;
mod head;
mod manifest;
mod open;
mod scan;
mod submit;
mod waits;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stemma_store::blobs::{Blobs, get_json};
use stemma_store::env::Millis;
use stemma_store::failure::FailureRecord;
use stemma_store::key::JobId;
use stemma_store::port_error::PortResult;

use crate::message::RunOutcome;

pub use budget::{BudgetOwner, BudgetRegistry, SpendLog};
pub use control::{
    CancelReason, Cancelled, JobControl, PauseReason, Paused, cancel, load_control, pause,
    prioritize, resume, set_budget,
};
pub(crate) use ended_entries::EndedEntries;
pub(crate) use head::JobHead;
pub use manifest::{JobEntry, JobManifest, JobOptions, MaxFailed};
pub(crate) use open::{LoadedJob, OpenJob};
pub use scan::NewestJobs;
pub(crate) use scan::{JobScan, mark_ended};
pub use submit::{JobStart, JobWriter, NameTaken, find_job_name, job_for_name, name_key, submit};
pub use waits::JobWait;
pub(crate) use waits::{JobStep, JobWaits};

/// Entries per chunk.
pub const CHUNK_ENTRIES: usize = 500;

/// Number of ended entries, by outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EntryCounts {
    pub done: u64,
    pub done_with_gaps: u64,
    /// Had been finished before.
    pub unchanged: u64,
    pub failed: u64,
    /// Not finished: the job was cancelled or stopped.
    #[serde(default)]
    pub cancelled: u64,
}

impl EntryCounts {
    /// Total number of ended entries.
    pub fn ended(&self) -> u64 {
        self.done + self.done_with_gaps + self.unchanged + self.failed + self.cancelled
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        self.done += other.done;
        self.done_with_gaps += other.done_with_gaps;
        self.unchanged += other.unchanged;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
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

/// Why a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEndReason {
    /// Every entry ended by itself.
    #[default]
    Finished,
    /// Cancelled on request.
    Cancelled,
    /// More entries failed than the job allows.
    TooManyFailed,
}

/// Final report of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobReport {
    pub job: JobId,
    #[serde(default)]
    pub close: JobEndReason,
    pub counts: EntryCounts,
    /// Number of failed entries by error code; at most 256 codes.
    #[serde(default)]
    pub reasons: BTreeMap<String, u64>,
    /// Run id (or `entry N` for an entry without a run) and failure; at most 1,000.
    pub failures: Vec<(String, FailureRecord)>,
    /// Tasks with an outcome, over the runs that ended while the job waited for them.
    #[serde(default)]
    pub tasks: u64,
    pub submitted_ms: Millis,
    /// End of the last entry.
    pub ended_ms: Millis,
}

impl JobReport {
    pub fn seconds(&self) -> f64 {
        self.ended_ms.saturating_sub(self.submitted_ms) as f64 / 1e3
    }
}

/// The report of a job; `None` while it has not ended.
pub async fn report(blobs: &dyn Blobs, job: &JobId) -> PortResult<Option<JobReport>> {
    get_json(blobs, &report_key(job)).await
}

/// The manifest of a job; `None` if there is no such job. A manifest that names another job is ignored:
/// its failed entries would count for that job.
pub async fn manifest(blobs: &dyn Blobs, job: &JobId) -> PortResult<Option<JobManifest>> {
    let found: Option<JobManifest> = get_json(blobs, &manifest_key(job)).await?;
    Ok(found.filter(|manifest| manifest.job == *job))
}

/// The entries of a chunk (500 each, from 0); empty after the last.
pub async fn entries(
    blobs: &dyn Blobs,
    manifest: &JobManifest,
    chunk: u64,
) -> PortResult<Vec<JobEntry>> {
    if chunk >= manifest.entries.div_ceil(CHUNK_ENTRIES as u64) {
        return Ok(Vec::new());
    }
    Ok(get_json(blobs, &chunk_key(manifest, chunk))
        .await?
        .unwrap_or_default())
}

/// Results of an open job at its last saved cursor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SavedProgress {
    pub counts: EntryCounts,
    pub reasons: BTreeMap<String, u64>,
    /// Run id (or `entry N`) and failure; at most 1,000.
    pub failures: Vec<(String, FailureRecord)>,
}

/// Results of an open job at its last saved cursor, which lags by up to some hundred entries.
pub async fn saved_progress(blobs: &dyn Blobs, job: &JobId) -> PortResult<SavedProgress> {
    let tally = ended_entries::load_last(blobs, job).await?;
    Ok(SavedProgress {
        counts: tally.counts,
        reasons: tally.reasons,
        failures: tally.failures,
    })
}

/// Ids of the jobs after `after`, oldest first, at most `limit`.
pub async fn list(
    blobs: &dyn Blobs,
    after: Option<&JobId>,
    limit: usize,
) -> PortResult<Vec<JobId>> {
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

pub(crate) fn report_key(job: &JobId) -> String {
    format!("jobs/{job}/report.json")
}

pub(crate) fn part_key(job: &JobId, part: u64) -> String {
    format!("jobs/{job}/parts/{part:06}.json")
}

// Manifests of older versions name no attempt; their entries are stored one level higher.
fn chunk_key(manifest: &JobManifest, chunk: u64) -> String {
    let job = &manifest.job;
    let attempt = &manifest.options.attempt;
    let slash = if attempt.is_empty() { "" } else { "/" };
    format!("jobs/{job}/entries/{attempt}{slash}{chunk:06}.json")
}
