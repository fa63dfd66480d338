//! Open runs: serialized replays, and closing a run when it ends.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex as StdMutex;
use stemma_store::env::Millis;
use stemma_store::failure::{Failure, FailureRecord};
use stemma_store::key::{JobId, RunHeader, RunId, RunRef, run_failure_key};
use stemma_store::port_error::PortResult;
use tokio::sync::Mutex;

use super::job_control::RunDemand;
use super::{Coordinator, CoordinatorEvent};
use crate::flow::{Flow, RunRecord, RunState};
use crate::heartbeat::{OldestTask, RunProgress};
use crate::ledger::{Ledger, ScheduledItem};
use crate::message::{CoordinatorMessage, RunOutcome};
use crate::metrics;
use crate::outcome::{notify_coordinator, store_failure};
use crate::run::{OpenRun, ReplayStep};
use crate::schedule::REPUBLISH_AFTER_MS;
use crate::trace::RunTrace;

// Upper bound of the pause between replays of one run that is derived from how long a replay takes.
const COALESCE_MS: Millis = 250;
// Walking a flow takes time in proportion to its tasks. Large runs collect completions for one more millisecond per
// this many tasks, so that completions trickling in for an hour do not each cost a replay.
const TASKS_PER_MS: usize = 12;
// Upper bound of that pause, whatever the number of tasks.
const MAX_COALESCE_MS: Millis = 1_000;
// Ended runs that are remembered, so that late completions cost nothing.
const MAX_ENDED_RUNS: usize = 10_000;
// Every open run is woken each minute; one that was not replayed here for this long belongs to another coordinator.
const OWNERSHIP_MS: Millis = 3 * REPUBLISH_AFTER_MS;

// Per-run state. Each completion takes a ticket; a replay covers all tickets issued before it started, so concurrent
// completions share one replay.
pub(super) struct RunSlot<W: Flow> {
    tickets: AtomicU64,
    // Time of the first message here. The true start of the run, unless another coordinator had it before.
    started_ms: Millis,
    // Time of the last message.
    touched_ms: AtomicU64,
    // Time of the last replay; 0 before the first.
    replayed_ms: AtomicU64,
    // The job that opened the run, and the run's progress.
    progress: StdMutex<Option<(JobId, RunProgress)>>,
    // The run's oldest unfinished task of each lane.
    oldest: StdMutex<Vec<OldestTask>>,
    state: Mutex<RunSlotState<W>>,
}

struct RunSlotState<W: Flow> {
    open: Option<OpenRun<W>>,
    covered: u64,
    not_before_ms: Millis,
}

/// Ids of the most recently ended runs.
#[derive(Default)]
pub(super) struct EndedRuns {
    ids: HashSet<RunId>,
    order: VecDeque<RunId>,
}

impl EndedRuns {
    fn remember(&mut self, run: &RunId) {
        if self.ids.insert(run.clone()) {
            self.order.push_back(run.clone());
        }
        if self.order.len() > MAX_ENDED_RUNS
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }
}

/// Who handles a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handled {
    Here,
    /// It is about a run of a newer program: a newer coordinator has to get the queue.
    Elsewhere,
}

/// Result of loading a run.
enum LoadedRun<W: Flow> {
    Open(Box<OpenRun<W>>),
    Ended(RunOutcome),
    /// It has a newer flow revision, or settings that only a newer program reads.
    Foreign,
    /// It has no header of its own: nobody can process it.
    Lost,
}

impl<W: Flow> Coordinator<W> {
    // Replays a run, one replay at a time. Returns once a replay that started after this call has ended.
    pub(super) async fn replay(&self, at: &RunRef, wake: bool) -> PortResult<Handled> {
        if !wake && self.has_ended(&at.run) {
            // A late worker may have re-created ledger state of a run that was already forgotten.
            self.ports.ledger.forget_run(&at.run).await?;
            return Ok(Handled::Here);
        }
        let slot = self.slot(&at.run);
        let ticket = slot.tickets.fetch_add(1, Ordering::SeqCst) + 1;
        let mut state = slot.state.lock().await;
        if state.covered >= ticket && !wake {
            return Ok(Handled::Here);
        }
        let wait = state.not_before_ms.saturating_sub(self.ports.env.now_ms());
        if wait > 0 {
            self.ports.env.sleep(Duration::from_millis(wait)).await;
        }
        let covers = slot.tickets.load(Ordering::SeqCst);
        let began = self.ports.env.now_ms();
        // Taken out during the replay. If the replay fails or is interrupted, the tasks it marked as requested may
        // never have been published, so the run is loaded again from the ledger.
        let mut cached = state.open.take();
        let mut lost = None;
        let (open, step) = loop {
            let mut open = match cached.take() {
                Some(open) => open,
                None => match self.load_run(at).await? {
                    LoadedRun::Open(open) => match lost.take() {
                        Some(before) => open.carry_over(before),
                        None => *open,
                    },
                    LoadedRun::Ended(ending) => {
                        self.close_run(at, ending, 0).await?;
                        return Ok(Handled::Here);
                    }
                    LoadedRun::Foreign => return Ok(Handled::Elsewhere),
                    LoadedRun::Lost => return Ok(Handled::Here),
                },
            };
            let demand = self.run_demand(&open.header).await?;
            if demand == RunDemand::Abandoned {
                self.end_run(&open, RunOutcome::Cancelled).await?;
                return Ok(Handled::Here);
            }
            match open
                .replay(&self.ports, wake, demand == RunDemand::Paused)
                .await?
            {
                ReplayStep::EpochChanged => lost = Some(open),
                step => break (open, step),
            }
        };
        // Replays may use about a tenth of a run's time; completions that arrive meanwhile share the next replay.
        let now = self.ports.env.now_ms();
        let tasks = open.progress.present + open.progress.missing;
        let large = ((tasks / TASKS_PER_MS) as Millis).min(MAX_COALESCE_MS);
        metrics::replay(now.saturating_sub(began));
        state.not_before_ms = now + (10 * now.saturating_sub(began)).min(COALESCE_MS).max(large);
        slot.replayed_ms.store(now, Ordering::Relaxed);
        *slot.progress.lock() = Some((open.header.opened_by.clone(), open.progress));
        *slot.oldest.lock() = open.oldest_tasks();
        (self.observer)(CoordinatorEvent::Replayed {
            run: at.run.clone(),
            progress: open.progress,
        });
        let ending = match step {
            ReplayStep::Waiting | ReplayStep::EpochChanged => {
                state.covered = covers;
                state.open = Some(open);
                return Ok(Handled::Here);
            }
            ReplayStep::Finished(finish) if finish.gaps == 0 => RunOutcome::Done,
            ReplayStep::Finished(finish) => RunOutcome::DoneWithGaps(finish.gaps),
            ReplayStep::Failed(record) => RunOutcome::Failed(record.clipped()),
        };
        self.end_run(&open, ending).await?;
        Ok(Handled::Here)
    }

    // A crash before the failure is stored leaves the run open, so that it ends, and is recorded, once more.
    async fn end_run(&self, open: &OpenRun<W>, ending: RunOutcome) -> PortResult<()> {
        if let Some(record) = ending.failure_record(self.ports.env.now_ms()) {
            let state = RunState::Failed(Box::new(record));
            self.record_state(&open.header, state).await?;
        }
        let tasks = open.progress.present as u64;
        self.close_run(&open.header.at, ending, tasks).await
    }

    // A header that cannot be described must not keep its run from ending. A store that refuses is waited for.
    pub(super) async fn record_state(&self, run: &RunHeader, state: RunState) -> PortResult<()> {
        let record = RunRecord {
            run: run.clone(),
            state,
        };
        match self
            .run_states
            .record(record, |records| async move {
                W::record_states(&self.ports, &records).await
            })
            .await
        {
            Err(error) if error.is_permanent() => {
                tracing::warn!(run = %run.at.run, %error, "the state of a run is not recorded; lists lack it until its document is published");
                Ok(())
            }
            recorded => recorded,
        }
    }

    async fn load_run(&self, at: &RunRef) -> PortResult<LoadedRun<W>> {
        let blobs = &self.ports.blobs;
        let header = match RunHeader::load(blobs, at).await? {
            Ok(header) => header,
            Err(error) => {
                if let Some(repeated) = self.foreign_messages.note("run", self.ports.env.now_ms()) {
                    tracing::error!(run = %at.run, %error, repeated, "message for a run without a header of its own");
                }
                let item = ScheduledItem::Run(at.clone());
                self.ports.ledger.unschedule(&item).await?;
                return Ok(LoadedRun::Lost);
            }
        };
        if header.flow_revision > W::REVISION {
            return Ok(LoadedRun::Foreign);
        }
        if let Some(ending) = self.run_outcome(&header).await? {
            return Ok(LoadedRun::Ended(ending));
        }
        let settings = self.settings.load(blobs, &header.settings).await?;
        let run =
            settings.map(|settings| OpenRun::new(header, settings, Arc::clone(&self.latencies)));
        Ok(run.map_or(LoadedRun::Foreign, |run| LoadedRun::Open(Box::new(run))))
    }

    /// How a run ended; `None` while it is open. A run whose outcome cannot be read has failed: no retry helps, and its job would
    /// wait for ever.
    pub(super) async fn run_outcome(&self, header: &RunHeader) -> PortResult<Option<RunOutcome>> {
        match W::run_outcome(&self.ports, header).await {
            Err(error) if error.is_permanent() => {
                let failure = Failure::permanent("store.unreadable", error.to_string())
                    .with_next("restore the object from a backup, or submit the document again");
                let record = FailureRecord::new(failure, "", 1, self.ports.env.now_ms());
                Ok(Some(RunOutcome::Failed(record)))
            }
            outcome => outcome,
        }
    }

    // Notifies the jobs that watch the run, then forgets it. Idempotent: if it is interrupted, the run is closed again
    // at its next wake-up.
    async fn close_run(&self, at: &RunRef, ending: RunOutcome, tasks: u64) -> PortResult<()> {
        let ledger = &self.ports.ledger;
        if let Some(record) = ending.failure_record(self.ports.env.now_ms()) {
            store_failure(&self.ports, &run_failure_key(&at.run), &record).await?;
        }
        for job in ledger.watchers(&at.run).await? {
            let ended = CoordinatorMessage::Ended {
                job,
                run: at.run.clone(),
                ending: Some(ending.clone()),
                tasks,
            };
            notify_coordinator(&self.ports, &ended).await?;
        }
        let item = ScheduledItem::Run(at.clone());
        ledger.unschedule(&item).await?;
        ledger.forget_run(&at.run).await?;
        let started_ms = self.slot(&at.run).started_ms;
        self.remember_ended(&at.run);
        let trace = RunTrace::for_run(&at.run);
        // The root span of the trace; every other span of the run names it as its parent.
        let root = tracing::info_span!("run", trace_id = trace.id, span_id = trace.root, started_ms, run = %at.run, outcome = ending.name());
        root.in_scope(|| tracing::debug!(run = %at.run, tasks, "run ended"));
        Ok(())
    }

    fn slot(&self, run: &RunId) -> Arc<RunSlot<W>> {
        let mut runs = self.runs.lock();
        let slot = runs.entry(run.clone()).or_insert_with(|| {
            Arc::new(RunSlot {
                tickets: AtomicU64::default(),
                started_ms: self.ports.env.now_ms(),
                touched_ms: AtomicU64::default(),
                replayed_ms: AtomicU64::default(),
                progress: StdMutex::default(),
                oldest: StdMutex::default(),
                state: Mutex::new(RunSlotState {
                    open: None,
                    covered: 0,
                    not_before_ms: 0,
                }),
            })
        });
        slot.touched_ms
            .store(self.ports.env.now_ms(), Ordering::Relaxed);
        Arc::clone(slot)
    }

    // A run that was replayed here before may have moved to another coordinator.
    pub(super) fn owns_run(&self, run: &RunId) -> bool {
        let runs = self.runs.lock();
        let owned_since = self.ports.env.now_ms().saturating_sub(OWNERSHIP_MS);
        runs.get(run)
            .is_some_and(|slot| slot.replayed_ms.load(Ordering::Relaxed) > owned_since)
    }

    /// Progress of the runs owned by this coordinator, by the job that opened them.
    pub(super) fn tasks_by_job(&self) -> BTreeMap<JobId, RunProgress> {
        let mut sums: BTreeMap<JobId, RunProgress> = BTreeMap::new();
        let owned_since = self.ports.env.now_ms().saturating_sub(OWNERSHIP_MS);
        let runs = self.runs.lock();
        for slot in runs
            .values()
            .filter(|slot| slot.replayed_ms.load(Ordering::Relaxed) > owned_since)
        {
            if let Some((job, progress)) = &*slot.progress.lock() {
                let sum = sums.entry(job.clone()).or_default();
                sum.present += progress.present;
                sum.missing += progress.missing;
                sum.reused += progress.reused;
            }
        }
        sums
    }

    /// The oldest unfinished task of each lane, over the runs owned by this coordinator.
    pub(super) fn oldest_tasks(&self) -> Vec<OldestTask> {
        let mut oldest: BTreeMap<_, OldestTask> = BTreeMap::new();
        let owned_since = self.ports.env.now_ms().saturating_sub(OWNERSHIP_MS);
        for slot in self.runs.lock().values() {
            if slot.replayed_ms.load(Ordering::Relaxed) <= owned_since {
                continue;
            }
            for task in slot.oldest.lock().iter() {
                let first = oldest.entry((task.lane, task.priority)).or_insert(*task);
                first.since_ms = first.since_ms.min(task.since_ms);
            }
        }
        oldest.into_values().collect()
    }

    // Drops runs without a recent message: they moved to another coordinator, or were never ours.
    pub(super) fn evict_idle(&self) {
        let long_ago = self.ports.env.now_ms().saturating_sub(2 * OWNERSHIP_MS);
        let mut runs = self.runs.lock();
        runs.retain(|_, slot| {
            Arc::strong_count(slot) > 1 || slot.touched_ms.load(Ordering::Relaxed) > long_ago
        });
    }

    fn has_ended(&self, run: &RunId) -> bool {
        self.ended_runs.lock().ids.contains(run)
    }

    fn remember_ended(&self, run: &RunId) {
        self.runs.lock().remove(run);
        self.ended_runs.lock().remember(run);
    }
}
