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

/// A job in the hands of a coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobProgress {
    /// The job.
    pub job: JobId,
    /// The coordinator that looks after it.
    pub coordinator: String,
    /// When this was said.
    pub at_ms: Millis,
    /// Entries altogether.
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
