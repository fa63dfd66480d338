//! Progress of a job, from its report, its coordinator, or the store alone.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_engine::flow::JobManifest;
use stemma_engine::heartbeat::JobProgress;
use stemma_engine::jobs::{
    self, EntryCounts, JobEndReason, JobReport, JobWait, PauseReason, Paused,
};
use stemma_engine::ledger::StatusTopic;
use stemma_llm::calls;
use stemma_store::spend::{JobBudget, SpendAmount, SpendMeasure};
use stemma_store::{JobId, PortResult, Priority};

use crate::Operations;

/// State and progress of a job.
#[derive(Debug, Clone, Serialize)]
pub struct JobStatus {
    pub job: JobId,
    /// The name it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub label: String,
    /// `finished`, `cancelled`, `stopped`, `cancelling`, `paused`, `running`, `waiting` (no coordinator has it),
    /// `interrupted` (no process works on the store) or `unreadable` (see `problem`).
    pub state: &'static str,
    pub total: u64,
    /// How they ended so far.
    pub counts: EntryCounts,
    pub open: u64,
    /// Finished tasks of open documents.
    pub tasks_present: u64,
    /// Requested, unfinished tasks of open documents.
    pub tasks_missing: u64,
    /// Failed documents by code; for a running job, as of its last checkpoint.
    pub reasons: BTreeMap<String, u64>,
    pub submitted_ms: u64,
    /// When it ended; `null` while it has not.
    pub ended_ms: Option<u64>,
    /// Documents per second over the whole job, with the finished share of open ones; `null` before the first task ended.
    pub documents_per_second: Option<f64>,
    /// Remaining seconds at this rate.
    pub eta_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// Why its coordinator takes up no entries at present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<JobWait>,
    /// Why nothing else is known about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<JobProblem>,
}

/// Why a job cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobProblem {
    pub code: &'static str,
    pub message: String,
    pub next: String,
}

/// Priority and budget of a job, and what it has used of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Spending {
    #[serde(rename = "class")]
    pub priority: Priority,
    /// `null` for no limit.
    pub budget: Option<JobBudget>,
    /// Prompt and reply tokens.
    pub tokens: u64,
    /// Billionths of a dollar; `null` where a call has no price.
    pub nanodollars: Option<u64>,
}

impl JobStatus {
    /// Documents that ended, plus the finished share of open ones. It grows smoothly, and shrinks
    /// only if a flow discovers more tasks.
    pub fn done(&self) -> f64 {
        let tasks = self.tasks_present + self.tasks_missing;
        let part = self.tasks_present as f64 / tasks.max(1) as f64;
        // A document whose tasks are all done still has to be published, so it counts less than 1.
        self.counts.ended() as f64 + 0.9 * part * self.open as f64
    }

    pub fn has_ended(&self) -> bool {
        self.ended_ms.is_some()
    }

    /// Whether it is paused until someone raises the budget or corrects the key.
    pub fn needs_attention(&self) -> bool {
        !self.has_ended()
            && self.paused.is_some_and(|paused| {
                matches!(
                    paused.reason,
                    PauseReason::Budget | PauseReason::Credentials
                )
            })
    }

    // A job without any other record.
    fn unknown(job: &JobId, state: &'static str, now_ms: u64) -> Self {
        Self {
            job: job.clone(),
            name: None,
            label: String::new(),
            state,
            total: 0,
            counts: EntryCounts::default(),
            open: 0,
            tasks_present: 0,
            tasks_missing: 0,
            reasons: BTreeMap::new(),
            submitted_ms: job.time_ms().unwrap_or(now_ms),
            ended_ms: None,
            documents_per_second: None,
            eta_seconds: None,
            paused: None,
            waiting: None,
            problem: None,
        }
    }

    fn new(manifest: &JobManifest, state: &'static str, counts: EntryCounts) -> Self {
        Self {
            name: manifest.options.name.clone(),
            label: manifest.options.label.clone(),
            total: manifest.entries,
            counts,
            submitted_ms: manifest.submitted_ms,
            ..Self::unknown(&manifest.job, state, 0)
        }
    }

    /// A job with a damaged object, or in a format that this program does not know.
    pub(crate) fn unreadable(job: &JobId, now_ms: u64) -> Self {
        let next = "update stemma if a newer version wrote it, or restore the object from a backup";
        Self {
            problem: Some(JobProblem {
                code: "job.unreadable",
                message: format!("an object below jobs/{job}/ cannot be read"),
                next: next.into(),
            }),
            ..Self::unknown(job, "unreadable", now_ms)
        }
    }

    /// What its coordinator reports, while the store that holds the rest does not answer.
    pub fn from_progress(progress: &JobProgress) -> Self {
        Self {
            total: progress.entries,
            counts: progress.counts.clone(),
            open: progress.open,
            tasks_present: progress.tasks_present,
            tasks_missing: progress.tasks_missing,
            waiting: progress.waiting.clone(),
            ..Self::unknown(&progress.job, "running", progress.at_ms)
        }
        .with_rates(progress.at_ms)
    }

    fn with_rates(mut self, until_ms: u64) -> Self {
        let done = self.done();
        let seconds = until_ms.saturating_sub(self.submitted_ms) as f64 / 1e3;
        if done > 0.0 && seconds > 0.0 {
            // Includes open documents: when many start together, few have ended at first.
            let rate = done / seconds;
            self.documents_per_second = Some(rate);
            self.eta_seconds =
                (!self.has_ended()).then(|| (self.total as f64 - done).max(0.0) / rate);
        }
        self
    }
}

impl Operations {
    /// The state of a job; `live` holds the latest reports of coordinators.
    pub async fn job_status(
        &self,
        manifest: &JobManifest,
        live: &[JobProgress],
    ) -> PortResult<JobStatus> {
        let blobs = self.blobs();
        let now = self.ports.env.now_ms();
        if let Some(report) = jobs::report(blobs, &manifest.job).await? {
            return Ok(ended_view(manifest, report));
        }
        let control = jobs::load_control(blobs, &manifest.job).await?;
        let progress = live
            .iter()
            .find(|progress| progress.job == manifest.job && progress.entries > 0);
        let state = match (control.cancelled, control.paused, progress) {
            (Some(_), ..) => "cancelling",
            (_, Some(_), _) => "paused",
            (_, _, Some(_)) => "running",
            _ if self.is_live => "waiting",
            _ if self.writer().is_some() => "running",
            _ => "interrupted",
        };
        let mut view = match progress {
            Some(progress) => JobStatus {
                open: progress.open,
                tasks_present: progress.tasks_present,
                tasks_missing: progress.tasks_missing,
                waiting: progress.waiting.clone(),
                ..JobStatus::new(manifest, state, progress.counts.clone())
            },
            None => JobStatus::new(manifest, state, EntryCounts::default()),
        };
        if progress.is_none() || view.counts.failed > 0 {
            let saved = jobs::saved_progress(blobs, &manifest.job).await?;
            if progress.is_none() {
                view.counts = saved.counts;
            }
            view.reasons = saved.reasons;
        }
        view.paused = control.paused;
        Ok(view.with_rates(now))
    }

    /// The state of a job with the latest reports of coordinators. Its end is in the store, and so found also while the ledger
    /// does not answer.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when the store does not answer, or the ledger does not and the job has not ended.
    pub async fn current_status(&self, manifest: &JobManifest) -> PortResult<JobStatus> {
        let live = self.live_progress().await;
        let reports = live.as_deref().unwrap_or_default();
        let status = self.job_status(manifest, reports).await?;
        match live {
            Err(error) if !status.has_ended() && !status.needs_attention() => Err(error),
            _ => Ok(status),
        }
    }

    /// The latest reports of coordinators; empty without a cluster.
    pub async fn live_progress(&self) -> PortResult<Vec<JobProgress>> {
        let ledger = self.ports.ledger.raw();
        let records = ledger
            .status_records(StatusTopic::Jobs, self.ports.env.now_ms())
            .await?;
        Ok(JobProgress::merge(records.iter().filter_map(|record| {
            serde_json::from_slice(&record.body).ok()
        })))
    }
}

impl Operations {
    /// What a job has used of its budget.
    pub async fn job_spending(
        &self,
        manifest: &JobManifest,
        status: &JobStatus,
    ) -> PortResult<Spending> {
        let control = jobs::load_control(self.blobs(), &manifest.job).await?;
        let until_ms = status.ended_ms.unwrap_or_else(|| self.ports.env.now_ms());
        let scope = format!("c/{}", self.collection());
        // Prices belong to the workers: sums of old records do not say what they cost.
        let times = (manifest.submitted_ms, until_ms);
        let measure = SpendMeasure::Tokens;
        let job = &manifest.job;
        let used = calls::job_spend(self.blobs(), &scope, job, times, measure, |sum| {
            SpendAmount {
                nanodollars: None,
                tokens: sum.prompt_tokens + sum.output_tokens,
            }
        })
        .await?;
        Ok(Spending {
            priority: control.priority.unwrap_or(manifest.priority),
            budget: control.budget.or(manifest.options.budget),
            tokens: used.tokens,
            nanodollars: used.nanodollars,
        })
    }
}

fn ended_view(manifest: &JobManifest, report: JobReport) -> JobStatus {
    let state = match report.close {
        JobEndReason::Finished => "finished",
        JobEndReason::Cancelled => "cancelled",
        JobEndReason::TooManyFailed => "stopped",
    };
    let view = JobStatus {
        reasons: report.reasons,
        ended_ms: Some(report.ended_ms),
        ..JobStatus::new(manifest, state, report.counts)
    };
    view.with_rates(report.ended_ms)
}

#[cfg(test)]
mod tests {
    use stemma_document::Collection;
    use stemma_engine::Ports;
    use stemma_engine::flow::JobOptions;
    use stemma_engine_testing::fault::{FaultInjector, FaultPlan, Outage};
    use stemma_store::Env;

    use super::*;

    fn progress(present: u64, missing: u64, done: u64) -> JobProgress {
        JobProgress {
            job: JobId("j-00000000000e1".into()),
            coordinator: "c".into(),
            at_ms: 10_000,
            entries: 100,
            counts: EntryCounts {
                done,
                ..EntryCounts::default()
            },
            open: 50,
            tasks_present: present,
            tasks_missing: missing,
            runs: Vec::new(),
            waiting: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_job_is_seen_while_the_ledger_is_away() {
        let env = Env::system();
        let ports = Ports::memory(&env);
        let plan = FaultPlan {
            outages: vec![Outage {
                operations: "ledger.",
                during: 0..u64::MAX,
                transient: false,
            }],
            ..FaultPlan::default()
        };
        let ports = FaultInjector::new(env.clone(), plan).wrap(&ports);
        let operations = Operations::live(ports, Collection::default());
        let manifest = JobManifest {
            job: JobId("j-00000000000e1".into()),
            collection: "default".into(),
            settings: String::new(),
            priority: Priority::Bulk,
            entries: 1,
            submitted_ms: 1_000,
            options: JobOptions::default(),
        };
        let running = operations.current_status(&manifest).await;
        assert_eq!(running.unwrap_err().operation, "ledger.status_records");
        let report = JobReport {
            job: manifest.job.clone(),
            close: JobEndReason::Finished,
            counts: EntryCounts::default(),
            reasons: BTreeMap::new(),
            failures: Vec::new(),
            tasks: 3,
            submitted_ms: 1_000,
            ended_ms: 2_000,
        };
        let key = format!("jobs/{}/report.json", manifest.job);
        let body = serde_json::to_vec(&report).unwrap().into();
        operations.blobs().put(&key, body).await.unwrap();
        let ended = operations.current_status(&manifest).await.unwrap();
        assert_eq!(ended.state, "finished");
    }

    #[test]
    fn rate_and_eta_are_known_from_the_first_finished_task() {
        let view = JobStatus::from_progress(&progress(0, 50, 0));
        assert_eq!((view.documents_per_second, view.eta_seconds), (None, None));
        let view = JobStatus::from_progress(&progress(1, 50, 0));
        let rate = view.documents_per_second.unwrap();
        let eta = view.eta_seconds.unwrap();
        assert!(rate > 0.0 && (eta * rate - 100.0).abs() < 1.0, "{view:?}");
    }
}
