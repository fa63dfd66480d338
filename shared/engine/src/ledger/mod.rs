//! The ledger port: shared short-term state. Outcomes of runs, requested tasks, leases, and what is due.
//!
//! It is a cache and a coordination aid: losing it costs time, never results (I-1). Every adapter guarantees: each call
//! is atomic; the first outcome recorded for a task of a run stays; [`Ledger::request_tasks`] returns a key as new
//! once; a lease has one holder at a time. Callers pass the time, so that a simulation controls the clock.

mod memory;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stemma_store::env::Millis;
use stemma_store::failure::FailureRecord;
use stemma_store::key::{JobId, RunId, RunRef, TaskKey};
use stemma_store::port_error::PortResult;

pub use memory::MemoryLedger;

use crate::queue::Lane;

/// How long a living holder may take to renew its lease once the ledger answers again, or has lost everything.
/// Two renewals: a busy machine may be late with one.
pub const RENEWAL_GRACE: Duration = Duration::from_millis(6_500);

/// The longest a lost task waits until it is published again. A task that takes longer has a lease.
pub const MAX_REPUBLISH_WAIT: Duration = Duration::from_secs(900);

/// A lease that ends later than this from now was taken by a holder whose clock is ahead, and is shortened to it: after a
/// crash of such a holder nobody could execute its task until that time has come.
pub const MAX_LEASE: Duration = Duration::from_secs(120);

/// Code of the [`Retry`] of a task that waits for a batch of a provider.
pub const BATCH_CODE: &str = "model.batch";

/// A time later than this from now was set by a process whose clock is ahead: whatever is due then is due now.
pub const FAR_FUTURE: Duration = Duration::from_secs(1_500);

/// Result of a task in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskOutcome {
    /// The outcome as JSON, at most [`stemma_store::artifact::MAX_OUTCOME_BYTES`]; its artifact exists.
    Done(Bytes),
    /// The task failed permanently in this run.
    Failed(FailureRecord),
}

/// Outcomes of a run recorded after a cursor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutcomeBatch {
    /// Changes when the run was forgotten or the ledger lost everything. The run may then have ended elsewhere, and its
    /// state must be rebuilt from the blobs.
    pub epoch: u64,
    /// Whether the run is parked, see [`Ledger::park_run`].
    pub parked: bool,
    /// In order of recording.
    pub entries: Vec<(TaskKey, TaskOutcome)>,
    /// Cursor of the next read.
    pub next: u64,
}

/// Answer to a lease request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lease {
    Granted {
        /// Failed attempts counted so far.
        attempts: u32,
        /// Expired leases of this task whose holders crashed, see [`Ledger::lease`].
        crashes: u32,
        /// Whether the ledger knows the request of the task; if not, it may have lost how the task ended.
        is_requested: bool,
    },
    /// The task has an outcome or permanent failure in this run.
    Ended,
    LeasedElsewhere {
        holder: String,
        until_ms: Millis,
    },
    /// The run is parked, and the task is due once it no longer is: its message is not needed.
    Parked,
    /// A copy of a message whose retry was executed already; another message of the task is under way.
    Outdated,
}

/// How the message of a task came to a process that asks for its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryKind {
    /// Published by the coordinator, or the lease is renewed.
    Published,
    /// Published again for the [`Retry`] with this `next_ms`. It only identifies the retry: clocks differ.
    Retried(Millis),
    /// Delivered before: a process may have crashed, and the message may be the only one left.
    Redelivered,
}

/// A task to be requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSpec {
    pub key: TaskKey,
    pub stage: String,
    pub lane: Lane,
}

/// Why a task was released, and when it is due again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    pub code: String,
    /// Earliest time of the next attempt.
    pub next_ms: Millis,
    /// Whether the attempt counts.
    pub counted: bool,
}

/// A requested task without an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTask {
    pub key: TaskKey,
    pub stage: String,
    pub lane: Lane,
    /// Time of the last publication.
    pub published_ms: Millis,
    /// Earliest time of the next publication.
    pub due_ms: Millis,
    pub attempts: u32,
    /// Holder and expiry of the lease.
    pub lease: Option<(String, Millis)>,
    /// Reason of the last release; `None` before the first and while the task is leased.
    pub retry: Option<Retry>,
}

impl OpenTask {
    /// Whether the task is out of work until a provider has executed a batch. Its message is published again then, and it
    /// waits no more once somebody has taken that.
    pub fn waits_for_batch(&self, now_ms: Millis) -> bool {
        self.retry
            .as_ref()
            .is_some_and(|retry| retry.code == BATCH_CODE && retry.next_ms > now_ms)
    }
}

/// Topic of status records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatusTopic {
    /// Live processes: [`crate::heartbeat::Heartbeat`].
    Processes,
    /// Jobs in work: [`crate::heartbeat::JobProgress`].
    Jobs,
}

impl StatusTopic {
    pub fn name(self) -> &'static str {
        match self {
            StatusTopic::Processes => "processes",
            StatusTopic::Jobs => "jobs",
        }
    }
}

/// A status record for `status` and `why`. It expires after its TTL or is lost with the ledger, so scheduling logic
/// never reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusRecord {
    /// Subject of the record; a later record of the same name replaces it.
    pub name: String,
    /// JSON.
    pub body: Bytes,
    /// Expiry.
    pub until_ms: Millis,
}

/// Asks whether the ledger accepts writes: a Redis that is full answers, and refuses them.
///
/// # Errors
/// [`stemma_store::PortError`] when it does not accept them, or does not answer.
pub async fn check_writable(ledger: &dyn Ledger) -> PortResult<()> {
    let expired = StatusRecord {
        name: "probe".into(),
        body: Bytes::new(),
        until_ms: 0,
    };
    ledger.post_status(StatusTopic::Processes, expired, 0).await
}

/// An item of the due-time index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduledItem {
    /// A run whose overdue tasks are to be checked.
    Run(RunRef),
    /// A job whose open runs are to be checked.
    Job(JobId),
}

/// Shared short-term state.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Outcomes of `run` recorded after cursor `since` (0 for all). Starts a new epoch if the run is unknown.
    async fn outcomes(&self, run: &RunId, since: u64) -> PortResult<OutcomeBatch>;

    /// Records the result of a task; a second record of the same task is ignored.
    ///
    /// # Errors
    /// [`stemma_store::PortError`]; it may be recorded all the same.
    async fn record(&self, run: &RunId, key: &TaskKey, entry: TaskOutcome) -> PortResult<()>;

    /// Records that `run` requests these tasks, published at `now_ms` and not to be published again before `due_ms`.
    /// Returns the keys that were not requested before, in the order given.
    ///
    /// # Errors
    /// [`stemma_store::PortError`]; they may be recorded all the same.
    async fn request_tasks(
        &self,
        run: &RunId,
        tasks: &[TaskSpec],
        now_ms: Millis,
        due_ms: Millis,
    ) -> PortResult<Vec<TaskKey>>;

    /// The requested tasks of `run` without an outcome and without a live lease that were due by `due_by_ms`, at most
    /// `now_ms`, or are due in the [`FAR_FUTURE`], or were parked, in key order. The caller publishes them, then calls
    /// [`Ledger::mark_republished`].
    async fn overdue(
        &self,
        run: &RunId,
        due_by_ms: Millis,
        now_ms: Millis,
    ) -> PortResult<Vec<TaskKey>>;

    /// Records that these tasks were published again at `now_ms`. Each is due again after twice its previous wait, at most
    /// [`MAX_REPUBLISH_WAIT`]; after the same if it was parked.
    async fn mark_republished(
        &self,
        run: &RunId,
        keys: &[TaskKey],
        now_ms: Millis,
    ) -> PortResult<()>;

    /// The requested tasks of `run` without an outcome, in key order.
    async fn open_tasks(&self, run: &RunId) -> PortResult<Vec<OpenTask>>;

    /// Takes or renews the lease of a task until `until_ms`, at most [`MAX_LEASE`] from now. If the lease of another holder has expired, the holder may
    /// be alive: while the ledger was unavailable nobody could renew. The first request therefore only extends that lease by
    /// [`RENEWAL_GRACE`]; unless its holder renews it meanwhile, a later request takes it over. That counts as a crash if
    /// the message was redelivered since the holder last renewed the lease: one that a live holder could not release
    /// (the ledger was unavailable) expires, too, but its message was answered. Copies of a message that a broker delivers twice
    /// would stay as long as the task is retried, so all but the first are [`Lease::Outdated`]. Leases work even if the run is unknown: after a
    /// loss of the ledger, renewals keep running tasks from being executed twice. A run with only
    /// expired leases may be forgotten.
    async fn lease(
        &self,
        run: &RunId,
        key: &TaskKey,
        holder: &str,
        now_ms: Millis,
        until_ms: Millis,
        delivery: DeliveryKind,
    ) -> PortResult<Lease>;

    /// Parks a run for which nobody waits at present, or goes on with it. Tasks of a parked run are not leased, though leases
    /// are renewed. Those that were asked for are overdue, whatever their due time, until they are published again. Does
    /// nothing to an unknown run.
    async fn park_run(&self, run: &RunId, parked: bool) -> PortResult<()>;

    /// Releases a lease if `holder` still has it, so a repeated call has no effect. A counted `retry` counts the
    /// attempt; without `retry` the task is released as if it had never been leased. Returns the failed attempts
    /// counted so far.
    ///
    /// # Errors
    /// [`stemma_store::PortError`]; the lease then expires.
    async fn release(
        &self,
        run: &RunId,
        key: &TaskKey,
        holder: &str,
        retry: Option<&Retry>,
    ) -> PortResult<u32>;

    /// Adds an item to the due-time index, unless it is there with an earlier time.
    async fn schedule(&self, item: &ScheduledItem, at_ms: Millis) -> PortResult<()>;

    /// Up to `limit` items due by `now_ms`, earliest first, then those due in the [`FAR_FUTURE`]. Each is moved to `again_ms`, so that two callers do not get
    /// the same items.
    async fn claim_due(
        &self,
        now_ms: Millis,
        again_ms: Millis,
        limit: usize,
    ) -> PortResult<Vec<ScheduledItem>>;

    /// Removes an item from the due-time index.
    async fn unschedule(&self, item: &ScheduledItem) -> PortResult<()>;

    /// Records that `job` waits for the end of `run`.
    async fn add_watcher(&self, run: &RunId, job: &JobId) -> PortResult<()>;

    /// The jobs that wait for the end of `run`, in order of ids.
    async fn watchers(&self, run: &RunId) -> PortResult<Vec<JobId>>;

    /// Keeps the result of a task that is not stored yet until `until_ms`, for whoever executes the task next if this
    /// process ends before it has stored it. May be lost like everything else.
    async fn hold_result(
        &self,
        run: &RunId,
        key: &TaskKey,
        result: Bytes,
        now_ms: Millis,
        until_ms: Millis,
    ) -> PortResult<()>;

    /// The result that is kept for a task.
    async fn held_result(
        &self,
        run: &RunId,
        key: &TaskKey,
        now_ms: Millis,
    ) -> PortResult<Option<Bytes>>;

    /// Drops the result that is kept for a task, because it is stored.
    async fn drop_result(&self, run: &RunId, key: &TaskKey) -> PortResult<()>;

    /// Forgets an ended run and its watchers. A late worker may start a new epoch afterwards; its completion message
    /// makes the coordinator forget that too.
    async fn forget_run(&self, run: &RunId) -> PortResult<()>;

    /// Posts a status record. A topic holds hundreds of records, not millions.
    async fn post_status(
        &self,
        topic: StatusTopic,
        record: StatusRecord,
        now_ms: Millis,
    ) -> PortResult<()>;

    /// The records of a topic that have not expired by `now_ms`, in order of names.
    async fn status_records(
        &self,
        topic: StatusTopic,
        now_ms: Millis,
    ) -> PortResult<Vec<StatusRecord>>;
}
