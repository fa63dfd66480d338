//! How far a job is, from its report, its coordinator's word, or the store alone.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_engine::flow::Manifest;
use stemma_engine::jobs::{self, Close, Counts, PauseReason, Paused, Report};
use stemma_engine::presence::JobProgress;
use stemma_engine::{JobId, PortError};

use super::Desk;

/// How far a job is.
#[derive(Debug, Clone, Serialize)]
pub struct JobView {
    /// The job.
    pub job: JobId,
    /// The name it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What was submitted.
    pub label: String,
    /// `finished`, `cancelled`, `stopped`, `cancelling`, `paused`, `running`, `waiting` (no coordinator has it) or
    /// `interrupted` (no process works on the store).
    pub state: &'static str,
    /// Documents.
    pub total: u64,
    /// How they ended so far.
    pub counts: Counts,
    /// Documents in work.
    pub open: u64,
    /// Tasks of documents in work that have an outcome.
    pub tasks_present: u64,
    /// Tasks of documents in work that are asked for and have none.
    pub tasks_missing: u64,
    /// Failed documents by code; of a job that has not ended, as far as its coordinator has saved it.
    pub reasons: BTreeMap<String, u64>,
    /// When it was submitted.
    pub submitted_ms: u64,
    /// When it ended; `null` while it has not.
    pub ended_ms: Option<u64>,
    /// Documents per second, over the whole job; `null` before the first ended.
    pub documents_per_second: Option<f64>,
    /// Seconds to the end, as fast as it went so far.
    pub eta_seconds: Option<f64>,
    /// Why it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
}

impl JobView {
    /// Documents that ended, and of those in work the share that their tasks make up: grows smoothly, and goes back
    /// only when a flow learns of more to do.
    pub fn done(&self) -> f64 {
        let tasks = self.tasks_present + self.tasks_missing;
        let part = if tasks == 0 {
            0.0
        } else {
            self.tasks_present as f64 / tasks as f64
        };
        // A document whose tasks are all done has still to be published.
        self.counts.ended() as f64 + 0.9 * part * self.open as f64
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.ended_ms.is_some()
    }

    /// Whether it stands still until someone raises its budget or mends a key.
    pub fn waits_for_a_person(&self) -> bool {
        let stops = |reason| matches!(reason, PauseReason::Budget | PauseReason::Credentials);
        !self.has_ended() && self.paused.is_some_and(|paused| stops(paused.reason))
    }

    fn of(manifest: &Manifest, state: &'static str, counts: Counts) -> Self {
        Self {
            job: manifest.job.clone(),
            name: manifest.terms.name.clone(),
            label: manifest.terms.label.clone(),
            state,
            total: manifest.entries,
            counts,
            open: 0,
            tasks_present: 0,
            tasks_missing: 0,
            reasons: BTreeMap::new(),
            submitted_ms: manifest.submitted_ms,
            ended_ms: None,
            documents_per_second: None,
            eta_seconds: None,
            paused: None,
        }
    }

    fn rated(mut self, until_ms: u64) -> Self {
        let ended = self.counts.ended();
        let seconds = until_ms.saturating_sub(self.submitted_ms) as f64 / 1e3;
        if ended > 0 && seconds > 0.0 {
            self.documents_per_second = Some(ended as f64 / seconds);
            // By what was done, also of documents in work: of many that began together few have ended at first.
            let rate = self.done() / seconds;
            self.eta_seconds =
                (!self.has_ended()).then(|| (self.total as f64 - self.done()).max(0.0) / rate);
        }
        self
    }
}

/// Looks at a job; `live` is what coordinators said lately.
///
/// # Errors
/// [`PortError`] when the store is away.
pub async fn look(
    desk: &Desk,
    manifest: &Manifest,
    live: &[JobProgress],
) -> Result<JobView, PortError> {
    let blobs = desk.blobs();
    let now = desk.env.now_ms();
    if let Some(report) = jobs::report(blobs, &manifest.job).await? {
        return Ok(ended(manifest, report));
    }
    let standing = jobs::standing(blobs, &manifest.job).await?;
    let said = live
        .iter()
        .find(|said| said.job == manifest.job && said.entries > 0);
    let state = match (standing.cancelled, standing.paused, said) {
        (Some(_), ..) => "cancelling",
        (_, Some(_), _) => "paused",
        (_, _, Some(_)) => "running",
        _ if desk.live => "waiting",
        _ if desk.writer.is_some() => "running",
        _ => "interrupted",
    };
    let mut view = match said {
        Some(said) => JobView {
            open: said.open,
            tasks_present: said.tasks_present,
            tasks_missing: said.tasks_missing,
            ..JobView::of(manifest, state, said.counts.clone())
        },
        None => JobView::of(manifest, state, Counts::default()),
    };
    if said.is_none() || view.counts.failed > 0 {
        let saved = jobs::saved(blobs, &manifest.job).await?;
        if said.is_none() {
            view.counts = saved.counts;
        }
        view.reasons = saved.reasons;
    }
    view.paused = standing.paused;
    Ok(view.rated(now))
}

fn ended(manifest: &Manifest, report: Report) -> JobView {
    let state = match report.close {
        Close::Finished => "finished",
        Close::Cancelled => "cancelled",
        Close::TooManyFailed => "stopped",
    };
    let view = JobView {
        reasons: report.reasons,
        ended_ms: Some(report.ended_ms),
        ..JobView::of(manifest, state, report.counts)
    };
    view.rated(report.ended_ms)
}

/// What coordinators said lately of jobs; nothing where there is no cluster.
///
/// # Errors
/// [`PortError`] when the ledger is away.
pub async fn said(desk: &Desk) -> Result<Vec<JobProgress>, PortError> {
    let notices = desk
        .ports
        .ledger
        .notices(stemma_engine::ledger::Board::Jobs, desk.env.now_ms())
        .await?;
    Ok(JobProgress::merged(notices.iter().filter_map(|notice| {
        serde_json::from_slice(&notice.body).ok()
    })))
}
