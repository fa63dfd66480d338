//! A ledger in memory: the embedded default.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{Board, Due, Entry, Lease, Ledger, Notice, OpenTask, Outcomes, Retry, Want};
use crate::env::Millis;
use crate::key::{JobId, RunId, TaskKey};
use crate::port::PortError;
use crate::queue::Lane;

/// Short-term memory of one process.
#[derive(Default)]
pub struct MemoryLedger(Mutex<State>);

#[derive(Default)]
struct State {
    /// Memories of runs begun so far: each names itself by the count.
    begun: u64,
    runs: HashMap<RunId, Run>,
    due: BTreeSet<(Millis, Due)>,
    due_at: BTreeMap<Due, Millis>,
    boards: BTreeMap<(Board, String), Notice>,
}

#[derive(Default)]
struct Run {
    epoch: u64,
    log: Vec<(TaskKey, Entry)>,
    ended: HashSet<TaskKey>,
    open: BTreeMap<TaskKey, Task>,
    watchers: BTreeSet<JobId>,
}

#[derive(Default)]
struct Task {
    /// The stage and lane of a wanted task; `None` while no one is known to want it.
    wanted: Option<(String, Lane)>,
    published_ms: Millis,
    due_ms: Millis,
    attempts: u32,
    crashes: u32,
    lease: Option<(String, Millis)>,
    retry: Option<Retry>,
}

impl MemoryLedger {
    /// Loses everything, as a restarted Redis would: for tests.
    pub fn flush(&self) {
        let mut state = self.state();
        *state = State {
            begun: state.begun,
            ..State::default()
        };
    }

    /// How many runs it remembers: for tests of what is forgotten.
    pub fn runs(&self) -> usize {
        self.state().runs.len()
    }

    /// How many things are to be looked at again: for tests of what is forgotten.
    pub fn scheduled(&self) -> usize {
        self.state().due.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn run(&mut self, run: &RunId) -> &mut Run {
        let begun = &mut self.begun;
        self.runs.entry(run.clone()).or_insert_with(|| {
            *begun += 1;
            Run {
                epoch: *begun,
                ..Run::default()
            }
        })
    }

    fn move_due(&mut self, due: &Due, at_ms: Millis) {
        if let Some(before) = self.due_at.insert(due.clone(), at_ms) {
            self.due.remove(&(before, due.clone()));
        }
        self.due.insert((at_ms, due.clone()));
    }
}

impl Run {
    /// Whether more is left of it than leases of late workers that ran out: every look at what is due tidies up.
    fn matters(&self, now_ms: Millis) -> bool {
        !self.log.is_empty()
            || !self.watchers.is_empty()
            || self
                .open
                .values()
                .any(|task: &Task| task.wanted.is_some() || task.live_lease(now_ms).is_some())
    }
}

impl Task {
    fn live_lease(&self, now_ms: Millis) -> Option<&(String, Millis)> {
        self.lease.as_ref().filter(|(_, until)| *until > now_ms)
    }

    fn is_overdue(&self, now_ms: Millis) -> bool {
        self.wanted.is_some() && self.due_ms <= now_ms && self.live_lease(now_ms).is_none()
    }

    fn published(&mut self, now_ms: Millis) {
        let wait = self.due_ms.saturating_sub(self.published_ms);
        self.published_ms = now_ms;
        self.due_ms = now_ms + 2 * wait.max(1);
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn outcomes(&self, run: &RunId, since: u64) -> Result<Outcomes, PortError> {
        let mut state = self.state();
        let Run { epoch, log, .. } = state.run(run);
        let from = usize::try_from(since).unwrap_or(usize::MAX).min(log.len());
        Ok(Outcomes {
            epoch: *epoch,
            entries: log[from..].to_vec(),
            next: log.len() as u64,
        })
    }

    async fn record(&self, run: &RunId, key: &TaskKey, entry: Entry) -> Result<(), PortError> {
        let mut state = self.state();
        let run = state.run(run);
        if run.ended.insert(*key) {
            run.log.push((*key, entry));
            run.open.remove(key);
        }
        Ok(())
    }

    async fn want(
        &self,
        run: &RunId,
        tasks: &[Want],
        now_ms: Millis,
        due_ms: Millis,
    ) -> Result<Vec<TaskKey>, PortError> {
        let mut state = self.state();
        let run = state.run(run);
        let mut new = Vec::new();
        for want in tasks {
            if run.ended.contains(&want.key) {
                continue;
            }
            let task = run.open.entry(want.key).or_default();
            if task.wanted.is_none() {
                task.wanted = Some((want.stage.clone(), want.lane));
                (task.published_ms, task.due_ms) = (now_ms, due_ms);
                new.push(want.key);
            }
        }
        Ok(new)
    }

    async fn overdue(&self, run: &RunId, now_ms: Millis) -> Result<Vec<TaskKey>, PortError> {
        let mut state = self.state();
        let Some(run) = state.runs.get_mut(run) else {
            return Ok(Vec::new());
        };
        let overdue = run
            .open
            .iter_mut()
            .filter(|(_, task)| task.is_overdue(now_ms));
        Ok(overdue
            .map(|(key, task)| {
                task.published(now_ms);
                *key
            })
            .collect())
    }

    async fn open_tasks(&self, run: &RunId) -> Result<Vec<OpenTask>, PortError> {
        let state = self.state();
        let Some(run) = state.runs.get(run) else {
            return Ok(Vec::new());
        };
        let wanted = run
            .open
            .iter()
            .filter_map(|(key, task)| Some((key, task, task.wanted.clone()?)));
        Ok(wanted
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
    ) -> Result<Lease, PortError> {
        let mut state = self.state();
        let run = state.run(run);
        if run.ended.contains(key) {
            return Ok(Lease::Ended);
        }
        let task = run.open.entry(*key).or_default();
        match &task.lease {
            Some((by, until)) if *until > now_ms && by != holder => {
                return Ok(Lease::Held {
                    holder: by.clone(),
                    until_ms: *until,
                });
            }
            Some((_, until)) if *until <= now_ms => task.crashes += 1,
            _ => {}
        }
        task.lease = Some((holder.to_string(), until_ms));
        task.retry = None;
        Ok(Lease::Granted {
            attempts: task.attempts,
            crashes: task.crashes,
            wanted: task.wanted.is_some(),
        })
    }

    async fn release(
        &self,
        run: &RunId,
        key: &TaskKey,
        holder: &str,
        retry: Option<&Retry>,
    ) -> Result<u32, PortError> {
        let mut state = self.state();
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

    async fn schedule(&self, due: &Due, at_ms: Millis) -> Result<(), PortError> {
        let mut state = self.state();
        if state.due_at.get(due).is_none_or(|at| *at > at_ms) {
            state.move_due(due, at_ms);
        }
        Ok(())
    }

    async fn due(
        &self,
        now_ms: Millis,
        again_ms: Millis,
        limit: usize,
    ) -> Result<Vec<Due>, PortError> {
        let mut state = self.state();
        state.runs.retain(|_, run| run.matters(now_ms));
        let ripe = state
            .due
            .iter()
            .take_while(|(at, _)| *at <= now_ms)
            .take(limit);
        let ripe: Vec<Due> = ripe.map(|(_, due)| due.clone()).collect();
        for due in &ripe {
            state.move_due(due, again_ms);
        }
        Ok(ripe)
    }

    async fn unschedule(&self, due: &Due) -> Result<(), PortError> {
        let mut state = self.state();
        if let Some(at) = state.due_at.remove(due) {
            state.due.remove(&(at, due.clone()));
        }
        Ok(())
    }

    async fn watch(&self, run: &RunId, job: &JobId) -> Result<(), PortError> {
        self.state().run(run).watchers.insert(job.clone());
        Ok(())
    }

    async fn watchers(&self, run: &RunId) -> Result<Vec<JobId>, PortError> {
        Ok(self
            .state()
            .runs
            .get(run)
            .map(|run| run.watchers.iter().cloned().collect())
            .unwrap_or_default())
    }

    async fn forget(&self, run: &RunId) -> Result<(), PortError> {
        self.state().runs.remove(run);
        Ok(())
    }

    async fn post(&self, board: Board, notice: Notice, now_ms: Millis) -> Result<(), PortError> {
        let mut state = self.state();
        state.boards.retain(|_, notice| notice.until_ms > now_ms);
        state.boards.insert((board, notice.name.clone()), notice);
        Ok(())
    }

    async fn notices(&self, board: Board, now_ms: Millis) -> Result<Vec<Notice>, PortError> {
        let state = self.state();
        let here = state
            .boards
            .iter()
            .filter(|((on, _), notice)| *on == board && notice.until_ms > now_ms);
        Ok(here.map(|(_, notice)| notice.clone()).collect())
    }
}
