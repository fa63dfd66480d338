//! What processes and jobs say about themselves on the ledger's boards, for `status`, `why` and scaling: never for
//! logic. A process that says nothing for [`SILENT_AFTER`] is gone.

mod record;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::env::Millis;
use crate::key::{Class, JobId, RunId, TaskKey};
use crate::queue::Lane;

pub(crate) use record::{Close, Underway};
pub use record::{Presence, beat};

/// How often a process says that it lives.
pub const BEAT_EVERY: Duration = Duration::from_secs(2);
/// How long a beat is believed.
pub const SILENT_AFTER: Duration = Duration::from_secs(10);
/// Tasks named in a beat; the counts are complete.
pub const TASKS_NAMED: usize = 64;

/// A living process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
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
    pub lanes: Vec<LaneBeat>,
    /// What it works on now, oldest first; at most [`TASKS_NAMED`].
    pub tasks: Vec<TaskBeat>,
    /// What it has done since it started, by stage.
    pub stages: BTreeMap<String, StageBeat>,
    /// The models it asks, by bucket of the shared limiter.
    pub models: BTreeMap<String, ModelBeat>,
}

/// A lane in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneBeat {
    /// The lane.
    pub lane: Lane,
    /// The class.
    pub class: Class,
    /// Tasks it takes at once.
    pub slots: u16,
    /// Tasks it works on.
    pub busy: u16,
}

/// A task in work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskBeat {
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
pub struct StageBeat {
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
pub struct ModelBeat {
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
/// runs that it looks after. [`JobProgress::merged`] puts them together.
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
    pub counts: crate::jobs::Counts,
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
    pub fn merged(said: impl IntoIterator<Item = JobProgress>) -> Vec<JobProgress> {
        let mut jobs: BTreeMap<JobId, JobProgress> = BTreeMap::new();
        for said in said {
            match jobs.remove(&said.job) {
                None => jobs.insert(said.job.clone(), said),
                Some(other) => jobs.insert(said.job.clone(), said.joined(other)),
            };
        }
        jobs.into_values().collect()
    }

    fn joined(self, other: JobProgress) -> JobProgress {
        let tasks_present = self.tasks_present + other.tasks_present;
        let tasks_missing = self.tasks_missing + other.tasks_missing;
        let rank = |said: &JobProgress| (said.entries > 0, said.counts.ended(), said.at_ms);
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
    fn the_tasks_of_a_job_are_added_up_its_entries_are_not() {
        let said = |coordinator: &str, entries, done, tasks| JobProgress {
            job: JobId("j".into()),
            coordinator: coordinator.into(),
            at_ms: 0,
            entries,
            counts: crate::jobs::Counts {
                done,
                ..Default::default()
            },
            open: 1,
            tasks_present: tasks,
            tasks_missing: 1,
            runs: Vec::new(),
        };
        let merged =
            JobProgress::merged([said("a", 0, 0, 5), said("b", 10, 4, 7), said("c", 10, 3, 0)]);
        let [job] = merged.as_slice() else {
            panic!("{merged:?}")
        };
        let seen = (
            job.coordinator.as_str(),
            job.entries,
            job.counts.done,
            job.tasks_present,
            job.tasks_missing,
        );
        assert_eq!(seen, ("b", 10, 4, 12, 3));
    }
}
