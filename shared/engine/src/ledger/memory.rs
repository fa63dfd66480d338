//! An in-memory ledger: the single-process default.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use stemma_store::env::Millis;
use stemma_store::key::{JobId, RunId, TaskKey};
use stemma_store::port_error::PortResult;

use super::{
    DeliveryKind, FAR_FUTURE, Lease, Ledger, MAX_LEASE, MAX_REPUBLISH_WAIT, OpenTask, OutcomeBatch,
    RENEWAL_GRACE, Retry, ScheduledItem, StatusRecord, StatusTopic, TaskOutcome, TaskSpec,
};
use crate::queue::Lane;

/// Shared short-term state of one process.
#[derive(Default)]
pub struct MemoryLedger(Mutex<LedgerState>);

#[derive(Default)]
struct LedgerState {
    // Number of run epochs started so far; the next epoch is named by the next number.
    last_epoch: u64,
    runs: HashMap<RunId, RunState>,
    due: BTreeSet<(Millis, ScheduledItem)>,
    due_at: BTreeMap<ScheduledItem, Millis>,
    status_records: BTreeMap<(StatusTopic, String), StatusRecord>,
    // Results that are not stored yet, and until when they are kept.
    held: HashMap<(RunId, TaskKey), (Bytes, Millis)>,
}

#[derive(Default)]
struct RunState {
    epoch: u64,
    log: Vec<(TaskKey, TaskOutcome)>,
    ended: HashSet<TaskKey>,
    open: BTreeMap<TaskKey, TaskState>,
    watchers: BTreeSet<JobId>,
    parked: bool,
}

#[derive(Default)]
struct TaskState {
    // Stage and lane of a requested task; `None` if the task is only leased.
    request: Option<(String, Lane)>,
    published_ms: Millis,
    due_ms: Millis,
    attempts: u32,
    crashes: u32,
    lease: Option<(String, Millis)>,
    // The lease expired, and was extended so that its holder can renew it.
    in_grace: bool,
    // The message was redelivered although the holder has the lease.
    crash_suspected: bool,
    retry: Option<Retry>,
    // A lease was asked for while the run was parked.
    parked: bool,
}

impl MemoryLedger {
    /// Loses everything, like a restarted Redis; for tests.
    pub fn flush(&self) {
        let mut state = self.0.lock();
        *state = LedgerState {
            last_epoch: state.last_epoch,
            ..LedgerState::default()
        };
    }

    /// Number of known runs; for tests.
    pub fn runs(&self) -> usize {
        self.0.lock().runs.len()
    }

    /// Number of runs that have only watchers; for tests.
    pub fn watched_runs(&self) -> usize {
        let state = self.0.lock();
        state
            .runs
            .values()
            .filter(|run| run.open.is_empty() && run.log.is_empty())
            .count()
    }

    /// Number of runs that have only requests; for tests.
    pub fn requested_runs(&self) -> usize {
        let state = self.0.lock();
        state
            .runs
            .values()
            .filter(|run| {
                let all_idle = run.open.values().all(|task| task.lease.is_none());
                run.log.is_empty() && run.watchers.is_empty() && !run.open.is_empty() && all_idle
            })
            .count()
    }

    /// Number of scheduled items; for tests.
    pub fn scheduled(&self) -> usize {
        self.0.lock().due.len()
    }
}

impl LedgerState {
    fn run(&mut self, run: &RunId) -> &mut RunState {
        let last_epoch = &mut self.last_epoch;
        self.runs.entry(run.clone()).or_insert_with(|| {
            *last_epoch += 1;
            RunState {
                epoch: *last_epoch,
                ..RunState::default()
            }
        })
    }

    fn reschedule(&mut self, item: &ScheduledItem, at_ms: Millis) {
        if let Some(before) = self.due_at.insert(item.clone(), at_ms) {
            self.due.remove(&(before, item.clone()));
        }
        self.due.insert((at_ms, item.clone()));
    }
}

fn millis(duration: Duration) -> Millis {
    duration.as_millis() as Millis
}

impl RunState {
    // A run with only expired leases may be forgotten; every `claim_due` cleans up.
    fn is_live(&self, now_ms: Millis) -> bool {
        !self.log.is_empty()
            || !self.watchers.is_empty()
            || self
                .open
                .values()
                .any(|task: &TaskState| task.request.is_some() || task.live_lease(now_ms).is_some())
    }
}

impl TaskState {
    fn live_lease(&self, now_ms: Millis) -> Option<&(String, Millis)> {
        self.lease.as_ref().filter(|(_, until)| *until > now_ms)
    }

    fn is_overdue(&self, due_by_ms: Millis, now_ms: Millis) -> bool {
        let is_due =
            self.parked || self.due_ms <= due_by_ms || self.due_ms > now_ms + millis(FAR_FUTURE);
        self.request.is_some() && is_due && self.live_lease(due_by_ms).is_none()
    }

    fn mark_published(&mut self, now_ms: Millis) {
        let wait = self.due_ms.saturating_sub(self.published_ms).max(1);
        let wait = if self.parked { wait } else { 2 * wait };
        self.parked = false;
        self.published_ms = now_ms;
        self.due_ms = now_ms + wait.min(millis(MAX_REPUBLISH_WAIT));
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn outcomes(&self, run: &RunId, since: u64) -> PortResult<OutcomeBatch> {
        let mut state = self.0.lock();
        let RunState {
            epoch, log, parked, ..
        } = state.run(run);
        let from = usize::try_from(since).unwrap_or(usize::MAX).min(log.len());
        Ok(OutcomeBatch {
            epoch: *epoch,
            parked: *parked,
            entries: log[from..].to_vec(),
            next: log.len() as u64,
        })
    }

    async fn record(&self, run: &RunId, key: &TaskKey, entry: TaskOutcome) -> PortResult<()> {
        let mut state = self.0.lock();
        let run = state.run(run);
        if run.ended.insert(*key) {
            run.log.push((*key, entry));
            run.open.remove(key);
        }
        Ok(())
    }

    async fn request_tasks(
        &self,
        run: &RunId,
        tasks: &[TaskSpec],
        now_ms: Millis,
        due_ms: Millis,
    ) -> PortResult<Vec<TaskKey>> {
        let mut state = self.0.lock();
        let run = state.run(run);
        let mut new = Vec::new();
        for task_spec in tasks {
            if run.ended.contains(&task_spec.key) {
                continue;
            }
            let task = run.open.entry(task_spec.key).or_default();
            if task.request.is_none() {
                task.request = Some((task_spec.stage.clone(), task_spec.lane));
                (task.published_ms, task.due_ms) = (now_ms, due_ms);
                new.push(task_spec.key);
            }
        }
        Ok(new)
    }

    async fn overdue(
        &self,
        run: &RunId,
        due_by_ms: Millis,
        now_ms: Millis,
    ) -> PortResult<Vec<TaskKey>> {
        let state = self.0.lock();
        let Some(run) = state.runs.get(run) else {
            return Ok(Vec::new());
        };
        let overdue = run
            .open
            .iter()
            .filter(|(_, task)| task.is_overdue(due_by_ms, now_ms));
        Ok(overdue.map(|(key, _)| *key).collect())
    }

    async fn mark_republished(
        &self,
        run: &RunId,
        keys: &[TaskKey],
        now_ms: Millis,
    ) -> PortResult<()> {
        let mut state = self.0.lock();
        if let Some(run) = state.runs.get_mut(run) {
            for key in keys {
                if let Some(task) = run.open.get_mut(key) {
                    task.mark_published(now_ms);
                }
            }
        }
        Ok(())
    }

    async fn open_tasks(&self, run: &RunId) -> PortResult<Vec<OpenTask>> {
        let state = self.0.lock();
        let Some(run) = state.runs.get(run) else {
            return Ok(Vec::new());
        };
        let open = run
            .open
            .iter()
            .filter_map(|(key, task)| Some((key, task, task.request.clone()?)));
        Ok(open
            .map(|(key, task, (stage, lane))| OpenTask {
                key: *key,
                stage,
                lane,
                published_ms: task.published_ms,
                due_ms: task.due_ms,
                attempts: task.attempts,
                lease: task.lease.clone(),
                retry: task.retry.clone(),
            })
            .collect())
    }

    async fn lease(
        &self,
        run: &RunId,
        key: &TaskKey,
        holder: &str,
        now_ms: Millis,
        until_ms: Millis,
        delivery: DeliveryKind,
    ) -> PortResult<Lease> {
        let mut state = self.0.lock();
        let run = state.run(run);
        if run.ended.contains(key) {
            return Ok(Lease::Ended);
        }
        let task = run.open.entry(*key).or_default();
        if let Some((by, until)) = task.lease.as_mut().filter(|(by, _)| by != holder) {
            task.crash_suspected |= delivery == DeliveryKind::Redelivered;
            *until = (*until).min(now_ms + millis(MAX_LEASE));
            if *until <= now_ms && !task.in_grace {
                *until = now_ms + millis(RENEWAL_GRACE);
                task.in_grace = true;
            }
            if *until > now_ms {
                return Ok(Lease::LeasedElsewhere {
                    holder: by.clone(),
                    until_ms: *until,
                });
            }
            task.crashes += u32::from(task.crash_suspected);
            task.lease = None;
        }
        if run.parked && task.lease.is_none() {
            (task.in_grace, task.crash_suspected, task.parked) = (false, false, true);
            return Ok(Lease::Parked);
        }
        if let (DeliveryKind::Retried(due_ms), Some(retry)) = (delivery, &task.retry)
            && retry.next_ms != due_ms
        {
            return Ok(Lease::Outdated);
        }
        task.in_grace = false;
        task.crash_suspected = false;
        task.parked = false;
        task.lease = Some((holder.to_string(), until_ms));
        task.retry = None;
        Ok(Lease::Granted {
            attempts: task.attempts,
            crashes: task.crashes,
            is_requested: task.request.is_some(),
        })
    }

    async fn park_run(&self, run: &RunId, parked: bool) -> PortResult<()> {
        if let Some(run) = self.0.lock().runs.get_mut(run) {
            run.parked = parked;
        }
        Ok(())
    }

    async fn release(
        &self,
        run: &RunId,
        key: &TaskKey,
        holder: &str,
        retry: Option<&Retry>,
    ) -> PortResult<u32> {
        let mut state = self.0.lock();
        let task = state
            .runs
            .get_mut(run)
            .and_then(|run| run.open.get_mut(key));
        let Some(task) = task else { return Ok(0) };
        if task.lease.as_ref().is_some_and(|(by, _)| by == holder) {
            task.lease = None;
            task.attempts += u32::from(retry.is_some_and(|retry| retry.counted));
            task.retry = retry.cloned();
        }
        Ok(task.attempts)
    }

    async fn schedule(&self, item: &ScheduledItem, at_ms: Millis) -> PortResult<()> {
        let mut state = self.0.lock();
        if state.due_at.get(item).is_none_or(|at| *at > at_ms) {
            state.reschedule(item, at_ms);
        }
        Ok(())
    }

    async fn claim_due(
        &self,
        now_ms: Millis,
        again_ms: Millis,
        limit: usize,
    ) -> PortResult<Vec<ScheduledItem>> {
        let mut state = self.0.lock();
        state.runs.retain(|_, run| run.is_live(now_ms));
        state.held.retain(|_, (_, until_ms)| *until_ms > now_ms);
        let ready = state
            .due
            .iter()
            .take_while(|(at, _)| *at <= now_ms)
            .chain(
                state
                    .due
                    .iter()
                    .filter(|(at, _)| *at > now_ms + millis(FAR_FUTURE)),
            )
            .take(limit);
        let ready: Vec<ScheduledItem> = ready.map(|(_, item)| item.clone()).collect();
        for item in &ready {
            state.reschedule(item, again_ms);
        }
        Ok(ready)
    }

    async fn unschedule(&self, item: &ScheduledItem) -> PortResult<()> {
        let mut state = self.0.lock();
        if let Some(at) = state.due_at.remove(item) {
            state.due.remove(&(at, item.clone()));
        }
        Ok(())
    }

    async fn add_watcher(&self, run: &RunId, job: &JobId) -> PortResult<()> {
        self.0.lock().run(run).watchers.insert(job.clone());
        Ok(())
    }

    async fn watchers(&self, run: &RunId) -> PortResult<Vec<JobId>> {
        Ok(self
            .0
            .lock()
            .runs
            .get(run)
            .map(|run| run.watchers.iter().cloned().collect())
            .unwrap_or_default())
    }

    async fn hold_result(
        &self,
        run: &RunId,
        key: &TaskKey,
        result: Bytes,
        _now_ms: Millis,
        until_ms: Millis,
    ) -> PortResult<()> {
        let mut state = self.0.lock();
        state.held.insert((run.clone(), *key), (result, until_ms));
        Ok(())
    }

    async fn held_result(
        &self,
        run: &RunId,
        key: &TaskKey,
        now_ms: Millis,
    ) -> PortResult<Option<Bytes>> {
        let state = self.0.lock();
        let entry = state.held.get(&(run.clone(), *key));
        let entry = entry.filter(|(_, until_ms)| *until_ms > now_ms);
        Ok(entry.map(|(result, _)| result.clone()))
    }

    async fn drop_result(&self, run: &RunId, key: &TaskKey) -> PortResult<()> {
        self.0.lock().held.remove(&(run.clone(), *key));
        Ok(())
    }

    async fn forget_run(&self, run: &RunId) -> PortResult<()> {
        self.0.lock().runs.remove(run);
        Ok(())
    }

    async fn post_status(
        &self,
        topic: StatusTopic,
        record: StatusRecord,
        now_ms: Millis,
    ) -> PortResult<()> {
        let mut state = self.0.lock();
        state
            .status_records
            .retain(|_, record| record.until_ms > now_ms);
        state
            .status_records
            .insert((topic, record.name.clone()), record);
        Ok(())
    }

    async fn status_records(
        &self,
        topic: StatusTopic,
        now_ms: Millis,
    ) -> PortResult<Vec<StatusRecord>> {
        let state = self.0.lock();
        let here = state
            .status_records
            .iter()
            .filter(|((on, _), record)| *on == topic && record.until_ms > now_ms);
        Ok(here.map(|(_, record)| record.clone()).collect())
    }
}
