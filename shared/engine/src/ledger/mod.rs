//! The port to shared short-term memory: which outcomes a run has, what was asked for, who works on what, what is due.
//!
//! It is a cache and a coordination aid: losing it costs time, never results (I-1). What every adapter promises: each
//! call is atomic; the first outcome recorded for a task of a run stays; [`Ledger::request_tasks`] returns a key as new once;
//! a lease is held by one holder at a time. Times are given by the caller, so that a simulation owns the clock.

mod memory;
mod redis;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use self::redis::RedisLedger;
pub use memory::MemoryLedger;

use crate::env::Millis;
use crate::failure::FailureRecord;
use crate::key::{JobId, RunId, RunRef, TaskKey};
use crate::port_error::PortError;
use crate::queue::Lane;

/// What became of a task in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskOutcome {
    /// Its artifact exists; this is its outcome as JSON, at most [`crate::stage::MAX_OUTCOME_BYTES`].
    Done(Bytes),
    /// It failed for good in this run.
    Failed(FailureRecord),
}

/// The outcomes of a run recorded since a cursor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutcomeBatch {
    /// Names this memory of the run. It is another one after the run was forgotten, or the ledger lost everything:
    /// then the run may have ended elsewhere, or everything known of it must be established anew.
    pub epoch: u64,
    /// In order of recording.
    pub entries: Vec<(TaskKey, TaskOutcome)>,
    /// The cursor to continue from.
    pub next: u64,
}

/// Whether a worker may work on a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lease {
    /// It may.
    Granted {
        /// Failed attempts on record.
        attempts: u32,
        /// Leases of this task that ran out: whoever held them went away without a word.
        crashes: u32,
        /// Whether the ledger knows that the run wants this task; if not, it may have forgotten how it ended.
        is_requested: bool,
    },
    /// No one needs to: the task has an outcome or a final failure in this run.
    Ended,
    /// Someone else does.
    LeasedElsewhere {
        /// Who.
        holder: String,
        /// Until when, unless renewed.
        until_ms: Millis,
    },
}

/// A task that a run wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSpec {
    /// The task.
    pub key: TaskKey,
    /// Its stage.
    pub stage: String,
    /// Who runs it.
    pub lane: Lane,
}

/// Why a task was given back, and when it comes again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Code of the failure.
    pub code: String,
    /// When it is tried again at the earliest.
    pub next_ms: Millis,
    /// Whether the attempt counts.
    pub counted: bool,
}

/// A wanted task without an outcome, as `why` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTask {
    /// The task.
    pub key: TaskKey,
    /// Its stage.
    pub stage: String,
    /// Who runs it.
    pub lane: Lane,
    /// When it was last published.
    pub published_ms: Millis,
    /// When it may be published again.
    pub due_ms: Millis,
    /// Failed attempts.
    pub attempts: u32,
    /// Who holds its lease, and until when.
    pub lease: Option<(String, Millis)>,
    /// The last reason it was given back for; `None` before the first, and while someone works on it.
    pub retry: Option<Retry>,
}

/// What notices are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatusTopic {
    /// Living processes: [`crate::presence::Beat`].
    Processes,
    /// Jobs in work: [`crate::presence::JobProgress`].
    Jobs,
}

impl StatusTopic {
    /// Its stable name.
    pub fn name(self) -> &'static str {
        match self {
            StatusTopic::Processes => "processes",
            StatusTopic::Jobs => "jobs",
        }
    }
}

/// A short-lived word for people who look: gone after its time, or with the ledger, and no logic rests on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusRecord {
    /// Who or what it is about; a later notice of the same name takes its place.
    pub name: String,
    /// JSON.
    pub body: Bytes,
    /// When it goes.
    pub until_ms: Millis,
}

/// Something to look at again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduledItem {
    /// A run: is anything it wants overdue?
    Run(RunRef),
    /// A job: has anything it waits for ended?
    Job(JobId),
}

/// Shared short-term memory.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Outcomes of `run` recorded after `since` (0: all of them). Begins a memory of the run when there is none.
    ///
    /// # Errors
    /// [`PortError`] when the ledger is away.
    async fn outcomes(&self, run: &RunId, since: u64) -> Result<OutcomeBatch, PortError>;

    /// Records what became of a task; a second record for the same task is ignored.
    ///
    /// # Errors
    /// [`PortError`]; it may be recorded all the same.
    async fn record(&self, run: &RunId, key: &TaskKey, entry: TaskOutcome)
    -> Result<(), PortError>;

    /// Notes that `run` wants these tasks, published at `now_ms` and not to be published again before `due_ms`.
    /// Returns the keys that were not wanted before, in the order given.
    ///
    /// # Errors
    /// [`PortError`]; they may be noted all the same.
    async fn request_tasks(
        &self,
        run: &RunId,
        tasks: &[TaskSpec],
        now_ms: Millis,
        due_ms: Millis,
    ) -> Result<Vec<TaskKey>, PortError>;

    /// The wanted tasks of `run` that have no outcome, no live lease, and were due by `now_ms`, in key order. Each one's next due
    /// time is set to `now_ms` + twice the wait before (the caller publishes them now).
    ///
    /// # Errors
    /// [`PortError`] when the ledger is away.
    async fn overdue(&self, run: &RunId, now_ms: Millis) -> Result<Vec<TaskKey>, PortError>;

    /// The wanted tasks of `run` without an outcome, in key order.
    ///
    /// # Errors
    /// [`PortError`] when the ledger is away.
    async fn open_tasks(&self, run: &RunId) -> Result<Vec<OpenTask>, PortError>;

    /// Asks for (or renews) the right to work on a task until `until_ms`. Taking over a lease that ran out counts a
    /// crash. The lease holds even where the ledger has no memory of the run: after a loss, renewals are what keeps
    /// running work from being done twice. A run of which nothing but run-out leases is left may be forgotten.
    ///
    /// # Errors
    /// [`PortError`] when the ledger is away.
    async fn lease(
        &self,
        run: &RunId,
        key: &TaskKey,
        holder: &str,
        now_ms: Millis,
        until_ms: Millis,
    ) -> Result<Lease, PortError>;

    /// Gives the right back, if `holder` still had it: asking twice counts once. With a `retry` that is counted, an
    /// attempt is; without one the task is handed back as if it had never been taken. Returns the failed attempts on
    /// record.
    ///
    /// # Errors
    /// [`PortError`]; the lease ends by itself.
    async fn release(
        &self,
        run: &RunId,
        key: &TaskKey,
        holder: &str,
        retry: Option<&Retry>,
    ) -> Result<u32, PortError>;

    /// Puts something on the due-time index, unless it is there with an earlier time.
    ///
    /// # Errors
    /// [`PortError`] when the ledger is away.
    async fn schedule(&self, item: &ScheduledItem, at_ms: Millis) -> Result<(), PortError>;

    /// Up to `limit` things due by `now_ms`, earliest first; each is moved to `again_ms`, so that two callers do not
    /// get the same.
    ///
    /// # Errors
    /// [`PortError`] when the ledger is away.
    async fn claim_due(
        &self,
        now_ms: Millis,
        again_ms: Millis,
        limit: usize,
    ) -> Result<Vec<ScheduledItem>, PortError>;

    /// Takes something off the due-time index.
    ///
    /// # Errors
    /// [`PortError`] when the ledger is away.
    async fn unschedule(&self, item: &ScheduledItem) -> Result<(), PortError>;

    /// Notes that `job` waits for the end of `run`.
    ///
    /// # Errors
    /// [`PortError`] when the ledger is away.
    async fn add_watcher(&self, run: &RunId, job: &JobId) -> Result<(), PortError>;

    /// The jobs that wait for the end of `run`, in order of their ids.
    ///
    /// # Errors
    /// [`PortError`] when the ledger is away.
    async fn watchers(&self, run: &RunId) -> Result<Vec<JobId>, PortError>;

    /// Forgets a run that ended, watchers included. What a late worker writes afterwards begins anew, and is forgotten
    /// with the news of it.
    ///
    /// # Errors
    /// [`PortError`] when the ledger is away.
    async fn forget_run(&self, run: &RunId) -> Result<(), PortError>;

    /// Puts a notice up; boards hold hundreds of notices, not millions.
    ///
    /// # Errors
    /// [`PortError`] when the ledger is away.
    async fn post_status(
        &self,
        topic: StatusTopic,
        record: StatusRecord,
        now_ms: Millis,
    ) -> Result<(), PortError>;

    /// The notices on a board that have not gone by `now_ms`, in order of their names.
    ///
    /// # Errors
    /// [`PortError`] when the ledger is away.
    async fn status_records(
        &self,
        topic: StatusTopic,
        now_ms: Millis,
    ) -> Result<Vec<StatusRecord>, PortError>;
}
