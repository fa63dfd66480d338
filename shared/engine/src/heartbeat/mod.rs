//! What processes and jobs say about themselves on the ledger's boards, for `status`, `why` and scaling: never for
//! logic. A process that says nothing for [`HEARTBEAT_TTL`] is gone.

mod reporter;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::env::Millis;
use crate::key::{JobId, Priority, RunId, TaskKey};
use crate::queue::Lane;

pub(crate) use reporter::{AttemptOutcome, RunningTask};
pub use reporter::{HeartbeatReporter, send_heartbeats};

/// How often a process says that it lives.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);
/// How long a beat is believed.
pub const HEARTBEAT_TTL: Duration = Duration::from_secs(10);
/// Tasks named in a beat; the counts are complete.
pub const MAX_LISTED_TASKS: usize = 64;

/// A living process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Its name, as in leases.
    pub process: String,
    /// `coordinator`, `worker`, `assembler` or `query`; `all` where they share a process.
    pub service: String,
    /// Version of the program.
    pub version: String,
    /// When it started.
    pub since_ms: Millis,
    /// When this was said.
    pub at_ms: Millis,
    /// Whether it is draining and takes nothing new.
    pub draining: bool,
    /// The lanes it takes tasks from.
    pub lanes: Vec<LaneStatus>,
    /// What it works on now, oldest first; at most [`MAX_LISTED_TASKS`].
    pub tasks: Vec<TaskStatus>,
    /// What it has done since it started, by stage.
    pub stages: BTreeMap<String, StageStatus>,
    /// The models it asks, by bucket of the shared limiter.
    pub models: BTreeMap<String, ModelStatus>,
}

/// A lane in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneStatus {
    /// The lane.
    pub lane: Lane,
    /// The class.
    pub class: Priority,
    /// Tasks it takes at once.
    pub slots: u16,
    /// Tasks it works on.
    pub busy: u16,
}

/// A task in work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// The run.
    pub run: RunId,
    /// The task.
    pub key: TaskKey,
    /// Its stage.
    pub stage: String,
    /// Since when.
    pub since_ms: Millis,
}

/// What a process has done of one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StageStatus {
    /// Tasks that ended with an outcome.
    pub done: u64,
    /// Tasks that failed for good.
    pub failed: u64,
    /// Attempts that are tried again.
    pub retried: u64,
    /// Tasks that ended with an outcome in the last minute.
    pub last_minute: u64,
    /// Median time of a task in milliseconds, over the last minutes.
    pub p50_ms: u64,
    /// What 95 of 100 tasks did not exceed, in milliseconds.
    pub p95_ms: u64,
}

/// A model as a process sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelStatus {
    /// Calls answered in the last minute.
    pub requests_last_minute: u64,
    /// Tokens they used, prompt and reply.
    pub tokens_last_minute: u64,
    /// The shared limits: requests and tokens per minute; 0 where there is none.
    pub requests_limit: u32,
    /// See `requests_limit`.
    pub tokens_limit: u32,
    /// Tasks that wait for a permit.
    pub waiting: u32,
    /// Calls under way.
    pub calling: u32,
    /// Median and 95th percentile of a call in milliseconds.
    pub p50_ms: u64,
    /// See `p50_ms`.
    pub p95_ms: u64,
    /// Until when no call is made because too many failed.
    pub breaker_open_until_ms: Option<Millis>,
    /// Until when the provider asked everyone to wait.
    pub paused_until_ms: Option<Millis>,
    /// Code of the last failed call.
    pub last_error: Option<String>,
}

/// A job as one coordinator sees it: the one that looks after the job knows its entries, each knows the tasks of the
/// runs that it looks after. [`JobProgress::merge`] puts them together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobProgress {
    /// The job.
    pub job: JobId,
    /// The coordinator that looks after it.
    pub coordinator: String,
    /// When this was said.
    pub at_ms: Millis,
    /// Entries altogether; 0 where another coordinator looks after the job.
    pub entries: u64,
    /// Entries that ended, by state.
    pub counts: crate::jobs::EntryCounts,
    /// Runs that are open.
    pub open: u64,
    /// Tasks of open runs that have an outcome.
    pub tasks_present: u64,
    /// Tasks of open runs that are asked for and have none.
    pub tasks_missing: u64,
    /// The first open runs, oldest first.
    pub runs: Vec<RunId>,
}

impl JobProgress {
    /// What several coordinators say of jobs, one progress per job, in order of their ids. Where two say that they look
    /// after a job (one has just taken it over), the one that knows more endings counts.
    pub fn merge(reports: impl IntoIterator<Item = JobProgress>) -> Vec<JobProgress> {
        let mut jobs: BTreeMap<JobId, JobProgress> = BTreeMap::new();
        for reports in reports {
            match jobs.remove(&reports.job) {
                None => jobs.insert(reports.job.clone(), reports),
                Some(other) => jobs.insert(reports.job.clone(), reports.merge_with(other)),
            };
        }
        jobs.into_values().collect()
    }

    fn merge_with(self, other: JobProgress) -> JobProgress {
        let tasks_present = self.tasks_present + other.tasks_present;
        let tasks_missing = self.tasks_missing + other.tasks_missing;
        let rank = |progress: &JobProgress| {
            (
                progress.entries > 0,
                progress.counts.ended(),
                progress.at_ms,
            )
        };
        let (first, _) = if rank(&self) >= rank(&other) {
            (self, other)
        } else {
            (other, self)
        };
        JobProgress {
            tasks_present,
            tasks_missing,
            ..first
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_adds_tasks_and_keeps_latest_entry_counts() {
        let progress = |coordinator: &str, entries, done, tasks| JobProgress {
            job: JobId("j".into()),
            coordinator: coordinator.into(),
            at_ms: 0,
            entries,
            counts: crate::jobs::EntryCounts {
                done,
                ..Default::default()
            },
            open: 1,
            tasks_present: tasks,
            tasks_missing: 1,
            runs: Vec::new(),
        };
        let merged = JobProgress::merge([
            progress("a", 0, 0, 5),
            progress("b", 10, 4, 7),
            progress("c", 10, 3, 0),
        ]);
        let [job] = merged.as_slice() else {
            panic!("{merged:?}")
        };
        let actual = (
            job.coordinator.as_str(),
            job.entries,
            job.counts.done,
            job.tasks_present,
            job.tasks_missing,
        );
        assert_eq!(actual, ("b", 10, 4, 12, 3));
    }
}
