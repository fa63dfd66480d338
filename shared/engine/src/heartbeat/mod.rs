//! Status that processes and jobs publish in the ledger, for `status`, `why` and scaling. Logic does not depend on it, except
//! that coordinators share their queues by it, which the broker keeps safe. A process without a heartbeat for
//! [`HEARTBEAT_TTL`] counts as gone.

mod reporter;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stemma_store::env::Millis;
use stemma_store::key::{JobId, Priority, RunId, TaskKey};
use stemma_store::model_status::ModelStatus;
use stemma_store::port_monitor::PortTrouble;

use crate::jobs::JobWait;
use crate::queue::Lane;

pub(crate) use reporter::{AttemptOutcome, RunningTask};
pub use reporter::{HeartbeatReporter, send_heartbeats};

/// Interval of heartbeats.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);
/// How long a heartbeat is valid.
pub const HEARTBEAT_TTL: Duration = Duration::from_secs(10);
/// Tasks listed in a heartbeat; the counts are complete.
pub const MAX_LISTED_TASKS: usize = 64;

/// Status of a live process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Name of the process, as in leases.
    pub process: String,
    /// `coordinator`, `worker`, `assembler` or `query`; `all` when they share a process.
    pub service: String,
    pub version: String,
    /// Start of the process.
    pub since_ms: Millis,
    /// Time of this heartbeat.
    pub at_ms: Millis,
    /// Draining: takes no new tasks.
    pub draining: bool,
    pub lanes: Vec<LaneStatus>,
    /// Running tasks, oldest first; at most [`MAX_LISTED_TASKS`].
    pub tasks: Vec<TaskStatus>,
    /// Work since the start, by stage.
    pub stages: BTreeMap<String, StageStatus>,
    /// Models in use, by bucket of the shared limiter.
    pub models: BTreeMap<String, ModelStatus>,
    /// Trouble with servers.
    #[serde(default)]
    pub troubles: Vec<PortTrouble>,
    /// For a coordinator: when the oldest of its unfinished tasks was requested, by lane.
    #[serde(default)]
    pub unfinished: Vec<OldestTask>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneStatus {
    pub lane: Lane,
    #[serde(rename = "class")]
    pub priority: Priority,
    /// Maximum number of concurrent tasks.
    pub slots: u16,
    /// Number of running tasks.
    pub busy: u16,
    /// When the latest of the tasks taken so far was published. Lanes are first in, first out: what waits is not older.
    #[serde(default)]
    pub taken_ms: Option<Millis>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldestTask {
    pub lane: Lane,
    #[serde(rename = "class")]
    pub priority: Priority,
    pub since_ms: Millis,
}

/// What a process reports in addition to what its [`HeartbeatReporter`] collects.
#[derive(Debug, Clone, Default)]
pub struct HeartbeatExtras {
    pub models: BTreeMap<String, ModelStatus>,
    pub troubles: Vec<PortTrouble>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStatus {
    pub run: RunId,
    pub key: TaskKey,
    pub stage: String,
    pub since_ms: Millis,
}

/// Work of a process on one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StageStatus {
    /// Tasks with an outcome.
    pub done: u64,
    /// Tasks that failed permanently.
    pub failed: u64,
    /// Attempts that are retried.
    pub retried: u64,
    /// Tasks with an outcome in the last minute.
    pub last_minute: u64,
    /// Median duration of a task over the last minutes, in milliseconds.
    pub p50_ms: u64,
    /// 95th percentile of that duration, in milliseconds.
    pub p95_ms: u64,
}

/// Progress of a run, in tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunProgress {
    pub present: usize,
    /// Requested tasks without an outcome.
    pub missing: usize,
    /// Outcomes of artifacts that existed before this run requested them.
    pub reused: usize,
}

/// Progress of a job as one coordinator sees it. The coordinator that owns the job knows its entries; others have parts of
/// it, and each knows the tasks of the runs it owns. [`JobProgress::merge`] combines them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobProgress {
    pub job: JobId,
    pub coordinator: String,
    pub at_ms: Millis,
    /// Number of entries; 0 if another coordinator owns the job.
    pub entries: u64,
    pub counts: crate::jobs::EntryCounts,
    /// Number of open runs.
    pub open: u64,
    /// Tasks of open runs with an outcome.
    pub tasks_present: u64,
    /// Requested tasks of open runs without an outcome.
    pub tasks_missing: u64,
    /// The first open runs, oldest first.
    pub runs: Vec<RunId>,
    /// Why entries are not taken up at present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<JobWait>,
}

impl JobProgress {
    /// Combines the reports of several coordinators into one per job, in order of job ids. If two claim to own a job
    /// (one has just taken it over), the one that knows of more ended entries wins.
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
        let (owner, other) = if self.rank() >= other.rank() {
            (self, other)
        } else {
            (other, self)
        };
        let mut merged = JobProgress {
            tasks_present,
            tasks_missing,
            waiting: owner.waiting.or(other.waiting),
            ..owner
        };
        // Two owners count the same entries, parts different ones.
        if other.entries == 0 {
            merged.counts.add_all(&other.counts);
            merged.open += other.open;
            merged.runs.extend(other.runs);
        }
        merged
    }

    fn rank(&self) -> (bool, u64, Millis) {
        (self.entries > 0, self.counts.ended(), self.at_ms)
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
            waiting: None,
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
