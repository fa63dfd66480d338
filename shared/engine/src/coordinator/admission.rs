//! Admission: claims the entries of jobs and starts their runs, many at once, while there are free slots.
//!
//! One task admits; handlers only wake it. The table of jobs is locked to choose entries and to apply outcomes, not while
//! ports are called. A call that fails makes its job wait; the others go on.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use stemma_store::env::Millis;
use stemma_store::failure::FailureRecord;
use stemma_store::key::{JobId, RunHeader};
use stemma_store::port_error::{PortError, PortResult};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::pick::PickedEntry;
use super::{Coordinator, CoordinatorEvent, JobTable};
use crate::flow::{ClaimOutcome, Flow, RunState};
use crate::jobs::{JobStep, OpenJob};
use crate::message::RunOutcome;
use crate::metrics;
use crate::schedule::REPUBLISH_AFTER_MS;

// Entries that are claimed and started at the same time. At 25 ms a call an entry takes about 60 ms.
const CLAIMS_AT_ONCE: usize = 64;
// Jobs whose entries are read at the same time.
const LOADS_AT_ONCE: usize = 16;
// Runs started again at the same time.
const STARTS_AT_ONCE: usize = 16;
// Every job is woken each minute. One that was idle for this long has moved to another coordinator, so drop it here.
const JOB_IDLE_MS: Millis = 10 * REPUBLISH_AFTER_MS;

impl<W: Flow> Coordinator<W> {
    /// Wakes admission.
    pub(super) fn admit(&self) {
        self.admission.notify_one();
        self.closing.notify_one();
    }

    /// Admits entries whenever it is woken, until `stop`.
    pub(super) async fn run_admission(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.admission.notified() => self.run_admission_pass(&stop).await,
            }
        }
    }

    // Claims until no entry can be taken. A slot that becomes free meanwhile is taken at once.
    async fn run_admission_pass(self: &Arc<Self>, stop: &CancellationToken) {
        let idle_since = self.ports.env.now_ms().saturating_sub(JOB_IDLE_MS);
        let mut table = self.jobs.lock().await;
        table.open.retain(|_, job| job.last_event_ms >= idle_since);
        table
            .heads
            .retain(|_, head| head.last_event_ms >= idle_since);
        drop(table);
        self.start_unstarted().await;
        // Tasks of their own: they lock the table, for which this one waits too.
        let mut claims = JoinSet::new();
        let mut loads = JoinSet::new();
        loop {
            if !stop.is_cancelled() {
                for (job, key) in self.start_loads(LOADS_AT_ONCE - loads.len()).await {
                    let coordinator = Arc::clone(self);
                    loads.spawn(async move { coordinator.load_entries(job, key).await });
                }
                let picked = self.pick_entries(CLAIMS_AT_ONCE - claims.len()).await;
                for entry in picked {
                    let coordinator = Arc::clone(self);
                    claims.spawn(async move { coordinator.admit_entry(entry).await });
                }
            }
            if claims.is_empty() && loads.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                Some(_) = claims.join_next() => {}
                Some(_) = loads.join_next() => {}
                () = self.admission.notified(), if claims.len() < CLAIMS_AT_ONCE => {}
            }
        }
        self.closing.notify_one();
    }

    // The record of a claim must not depend on the start of its run: a job that is adopted claims its entries again.
    async fn claim_recorded(&self, entry: &PickedEntry) -> PortResult<ClaimOutcome> {
        let claim = W::claim(&self.ports, &entry.manifest, &entry.entry).await?;
        if let ClaimOutcome::Run(header) = &claim {
            self.record_state(header, RunState::Claimed).await?;
        }
        Ok(claim)
    }

    async fn admit_entry(&self, entry: PickedEntry) {
        let job = entry.job.clone();
        let claimed = self.claim_recorded(&entry).await;
        let mut table = self.jobs.lock().await;
        let Some(open) = table.open.get_mut(&job) else {
            return; // released meanwhile
        };
        let header = match claimed {
            Err(error) if !error.is_permanent() => {
                open.put_back(entry.number);
                return self.wait_after(open, JobStep::ClaimEntry, &error);
            }
            Err(error) => return self.on_claim_failed(&mut table, &entry, &error),
            Ok(ClaimOutcome::Ended(ending)) => {
                open.waits.succeeded(JobStep::ClaimEntry);
                return self.on_entry_ended(&mut table, &entry, ending);
            }
            Ok(ClaimOutcome::After(header)) => {
                open.wait_for_run(entry.number, header.clone());
                header
            }
            Ok(ClaimOutcome::Run(header)) => {
                open.add_run(entry.number, header.clone());
                header
            }
        };
        open.waits.succeeded(JobStep::ClaimEntry);
        drop(table);
        // A run may end at once, so the table has it before it is woken.
        self.start_run((job, header)).await;
    }

    // Starts a claimed run. If that fails, the job waits, and a later pass starts the run.
    async fn start_run(&self, (job, header): (JobId, RunHeader)) {
        let started = match self.watch_run(&job, &header).await {
            Ok(()) => self.wake_run(&header.at).await,
            failed => failed,
        };
        let mut table = self.jobs.lock().await;
        if let Some(open) = table.open.get_mut(&job) {
            match &started {
                Ok(()) => {
                    open.unstarted.remove(&header.at.run);
                    open.waits.succeeded(JobStep::StartRun);
                }
                Err(error) => {
                    if open.open_runs.contains_key(&header.at.run) {
                        open.unstarted.insert(header.at.run.clone());
                    }
                    self.wait_after(open, JobStep::StartRun, error);
                }
            }
        }
        drop(table);
        if started.is_ok() {
            let header = Box::new(header);
            let (job, _) = job.split();
            (self.observer)(CoordinatorEvent::Opened { job, header });
        }
    }

    async fn start_unstarted(&self) {
        let now = self.ports.env.now_ms();
        let table = self.jobs.lock().await;
        let due = table.open.iter().filter(|(_, job)| !job.waits.holds(now));
        let runs: Vec<_> = due
            .flat_map(|(id, job)| {
                let headers = job
                    .unstarted
                    .iter()
                    .filter_map(|run| job.open_runs.get(run));
                headers.map(|(_, header)| (id.clone(), header.clone()))
            })
            .collect();
        drop(table);
        let starts = stream::iter(runs).map(|run| self.start_run(run));
        starts
            .buffer_unordered(STARTS_AT_ONCE)
            .collect::<()>()
            .await;
    }

    /// Makes a job wait after a failed call: nothing more is tried for a few seconds, and its progress says why.
    pub(super) fn wait_after(&self, job: &mut OpenJob, step: JobStep, error: &PortError) {
        if job.waits.failed(step, error, self.ports.env.now_ms()) {
            tracing::warn!(job = %job.manifest.job, %error, "the job waits");
        }
    }

    // An entry that cannot be claimed ends as failed and is listed in the report; the job goes on (I-10).
    fn on_claim_failed(&self, table: &mut JobTable, entry: &PickedEntry, error: &PortError) {
        let record = FailureRecord {
            code: "engine.claim".into(),
            message: error.to_string(),
            next: Some("check that the store can be written, then submit again".into()),
            stage: "submit".into(),
            attempts: 1,
            at_ms: self.ports.env.now_ms(),
        };
        self.on_entry_ended(table, entry, RunOutcome::Failed(record.clipped()));
    }

    fn on_entry_ended(&self, table: &mut JobTable, entry: &PickedEntry, ending: RunOutcome) {
        let Some(open) = table.open.get_mut(&entry.job) else {
            return;
        };
        if !open.end_claim(entry.number, &ending) {
            return;
        }
        metrics::entry_ended(ending.name());
        let job = entry.manifest.job.clone();
        let input = Box::new(entry.entry.input.clone());
        (self.observer)(CoordinatorEvent::EntryEnded {
            job,
            run: None,
            input,
            ending,
        });
    }
}
