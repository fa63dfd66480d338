//! Job admission: loads jobs from their cursor, opens their entries fairly, and closes finished jobs.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use futures::future::{join_all, try_join_all};
use futures::stream::{self, StreamExt, TryStreamExt};

use super::{Coordinator, CoordinatorEvent, JobTable};
use crate::env::Millis;
use crate::failure::FailureRecord;
use crate::flow::{ClaimOutcome, Flow, RunState};
use crate::jobs::{JobEntry, JobManifest, JobStep, OpenJob};
use crate::key::{JobId, Priority, RunHeader, RunId};
use crate::ledger::{Ledger, ScheduledItem};
use crate::message::RunOutcome;
use crate::metrics;
use crate::port_error::{PortError, PortResult};
use crate::schedule::REPUBLISH_AFTER_MS;

// Entries claimed concurrently.
const CLAIMS_AT_ONCE: usize = 16;
// One slot in this many is only for interactive jobs.
const INTERACTIVE_SHARE: usize = 8;
// Concurrent lookups of run outcomes.
const LOOKUPS_AT_ONCE: usize = 16;
// A long admission pass posts job progress at this interval, so that `status` does not look frozen.
const PROGRESS_INTERVAL_MS: Millis = 1_000;
// Every job is woken each minute. One that was idle for this long has moved to another coordinator, so drop it here.
const JOB_IDLE_MS: Millis = 10 * REPUBLISH_AFTER_MS;

/// An entry that was taken from its job and is not yet bound to a run.
struct ClaimedEntry {
    manifest: JobManifest,
    number: u64,
    entry: JobEntry,
}

impl<W: Flow> Coordinator<W> {
    /// Loads a job, or checks an open one for runs that ended without a notification; then admits entries.
    pub(super) async fn on_job_due(&self, job: &JobId) -> PortResult<()> {
        let mut table = self.jobs.lock().await;
        match table.open.get_mut(job) {
            None => {
                drop(table);
                let loaded = OpenJob::load(&self.env, &self.ports.blobs, job).await;
                let mut table = self.jobs.lock().await;
                let open = match loaded {
                    Ok(open) => open,
                    // Loaded again by the poll.
                    Err(error) => {
                        let waits = table.unloaded.entry(job.clone()).or_default();
                        if waits.failed(JobStep::Load, &error, self.env.now_ms()) {
                            tracing::warn!(%job, %error, "the job cannot be loaded; it waits");
                        }
                        return Ok(());
                    }
                };
                table.unloaded.remove(job);
                let Some(open) = open else {
                    drop(table);
                    let item = ScheduledItem::Job(job.clone());
                    return self.ports.ledger.unschedule(&item).await;
                };
                table.open.entry(job.clone()).or_insert(open);
                drop(table);
                let item = ScheduledItem::Job(job.clone());
                let at = self.env.now_ms() + REPUBLISH_AFTER_MS;
                self.ports.ledger.schedule(&item, at).await?;
            }
            Some(open) => {
                open.last_event_ms = self.env.now_ms();
                let waiting: Vec<RunHeader> = open
                    .open_runs
                    .values()
                    .map(|(_, header)| header.clone())
                    .collect();
                drop(table);
                let ended = self.find_ended_runs(job, waiting).await?;
                let mut table = self.jobs.lock().await;
                for (run, ending) in ended {
                    self.apply_run_outcome(&mut table, job, &run, &ending, 0);
                }
            }
        }
        self.admit().await
    }

    // Looks up the outcomes of runs that this coordinator does not own. The ledger may have lost the watcher and the
    // schedule entry of a run, so both are written again (I-1).
    async fn find_ended_runs(
        &self,
        job: &JobId,
        runs: Vec<RunHeader>,
    ) -> PortResult<Vec<(RunId, RunOutcome)>> {
        let lookups = stream::iter(runs).map(|header| async move {
            self.watch_run(job, &header).await?;
            if self.owns_run(&header.at.run) {
                return Ok(None);
            }
            let ending = W::run_outcome(&self.ports, &header).await?;
            Ok::<_, PortError>(ending.map(|ending| (header.at.run, ending)))
        });
        let endings: Vec<Option<_>> = lookups.buffered(LOOKUPS_AT_ONCE).try_collect().await?;
        Ok(endings.into_iter().flatten().collect())
    }

    /// Registers `job` as a watcher of the run, and schedules the run.
    async fn watch_run(&self, job: &JobId, header: &RunHeader) -> PortResult<()> {
        let ledger = &self.ports.ledger;
        ledger.add_watcher(&header.at.run, job).await?;
        let item = ScheduledItem::Run(header.at.clone());
        let due_ms = self.env.now_ms() + REPUBLISH_AFTER_MS;
        ledger.schedule(&item, due_ms).await
    }

    pub(super) async fn on_run_ended(
        &self,
        job: &JobId,
        run: &RunId,
        ending: &RunOutcome,
        tasks: u64,
    ) -> PortResult<()> {
        let mut table = self.jobs.lock().await;
        let Some(open) = table.open.get_mut(job) else {
            drop(table);
            return self.on_job_due(job).await;
        };
        open.last_event_ms = self.env.now_ms();
        self.apply_run_outcome(&mut table, job, run, ending, tasks);
        drop(table);
        self.admit().await
    }

    fn apply_run_outcome(
        &self,
        table: &mut JobTable,
        job: &JobId,
        run: &RunId,
        ending: &RunOutcome,
        tasks: u64,
    ) {
        let Some(open) = table.open.get_mut(job) else {
            return;
        };
        let input = open
            .open_runs
            .get(run)
            .map(|(_, header)| header.input.clone())
            .unwrap_or_default();
        for _ in 0..open.end_run(run, ending, tasks) {
            metrics::entry_ended(ending.name());
            let input = Box::new(input.clone());
            let ending = ending.clone();
            (self.observer)(CoordinatorEvent::EntryEnded {
                job: job.clone(),
                run: Some(run.clone()),
                input,
                ending,
            });
        }
    }

    /// Opens runs while there is capacity, fairly between collections, and closes jobs that have nothing left. One pass
    /// runs at a time; a call during a pass returns at once and makes the pass go round again.
    pub(super) async fn admit(&self) -> PortResult<()> {
        self.admission_requests.fetch_add(1, Ordering::SeqCst);
        while let Ok(pass) = self.admission_pass.try_lock() {
            let requests = self.admission_requests.load(Ordering::SeqCst);
            self.run_admission_pass().await?;
            drop(pass);
            if self.admission_requests.load(Ordering::SeqCst) == requests {
                break;
            }
        }
        Ok(())
    }

    // The table is locked only between calls to ports that take long, so that a job of many entries delays no other. A call
    // that fails makes its job wait; the others go on.
    async fn run_admission_pass(&self) -> PortResult<()> {
        let mut table = self.jobs.lock().await;
        let idle_since = self.env.now_ms().saturating_sub(JOB_IDLE_MS);
        table.open.retain(|_, job| job.last_event_ms >= idle_since);
        table.open.values_mut().for_each(OpenJob::recover);
        drop(table);
        self.start_unstarted().await;
        let mut posted_ms = self.env.now_ms();
        loop {
            self.refresh_controls().await;
            let mut table = self.jobs.lock().await;
            self.close_cancelled(&mut table).await;
            if self.env.now_ms() > posted_ms + PROGRESS_INTERVAL_MS {
                posted_ms = self.env.now_ms();
                self.post_progress(&mut table).await.ok(); // best effort: posted again on the next poll
                self.save_cursors(&mut table).await;
            }
            let batch = self.next_entries(&mut table).await;
            drop(table);
            if batch.is_empty() {
                let mut table = self.jobs.lock().await;
                return self.finish_jobs(&mut table).await;
            }
            self.claim_batch(batch).await;
        }
    }

    // The record of a claim must not depend on the start of its run: a job that is adopted claims its entries again.
    async fn claim_recorded(&self, entry: &ClaimedEntry) -> PortResult<ClaimOutcome> {
        let claim = W::claim(&self.ports, &entry.manifest, &entry.entry).await?;
        if let ClaimOutcome::Run(header) = &claim {
            self.record_state(header, RunState::Claimed).await?;
        }
        Ok(claim)
    }

    async fn claim_batch(&self, batch: Vec<ClaimedEntry>) {
        let claims = batch.iter().map(|entry| self.claim_recorded(entry));
        let claims = join_all(claims).await;
        let mut opened = Vec::new();
        let mut table = self.jobs.lock().await;
        for (entry, claim) in batch.into_iter().zip(claims) {
            let error = claim.as_ref().err().filter(|error| !error.is_permanent());
            if let Some(open) = table.open.get_mut(&entry.manifest.job) {
                match error {
                    Some(error) => {
                        open.put_back(entry.number);
                        self.wait_after(open, JobStep::ClaimEntry, error);
                    }
                    None => open.waits.succeeded(JobStep::ClaimEntry),
                }
            }
            match claim {
                Ok(ClaimOutcome::Ended(ending)) => self.on_entry_ended(&mut table, &entry, ending),
                Ok(ClaimOutcome::Run(header)) => {
                    if let Some(open) = table.open.get_mut(&entry.manifest.job) {
                        open.add_run(entry.number, header.clone());
                        opened.push((entry.manifest.job, header));
                    }
                }
                Ok(ClaimOutcome::After(header)) => {
                    if let Some(open) = table.open.get_mut(&entry.manifest.job) {
                        open.wait_for_run(entry.number, header.clone());
                        opened.push((entry.manifest.job, header));
                    }
                }
                Err(error) if error.is_permanent() => {
                    self.on_claim_failed(&mut table, &entry, &error);
                }
                Err(_) => {} // put back
            }
        }
        drop(table);
        // A run may end at once, so the table has it before it is woken.
        join_all(opened.into_iter().map(|run| self.start_run(run))).await;
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
            (self.observer)(CoordinatorEvent::Opened { job, header });
        }
    }

    async fn start_unstarted(&self) {
        let now = self.env.now_ms();
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
            .buffer_unordered(CLAIMS_AT_ONCE)
            .collect::<()>()
            .await;
    }

    /// Makes a job wait after a failed call: nothing more is tried for a few seconds, and its progress says why.
    pub(super) fn wait_after(&self, job: &mut OpenJob, step: JobStep, error: &PortError) {
        if job.waits.failed(step, error, self.env.now_ms()) {
            tracing::warn!(job = %job.manifest.job, %error, "the job waits");
        }
    }

    fn open_runs(&self, table: &JobTable) -> usize {
        table.open.values().map(|job| job.open_runs.len()).sum()
    }

    // Runs of paused jobs request no tasks, so they take no slots: a job that waits for a person must not stop others.
    fn slots_in_use(&self, table: &JobTable) -> usize {
        let running = table.open.values().filter(|job| !job.paused);
        running.map(|job| job.open_runs.len()).sum()
    }

    // Slots that runs of a class may take. A share stays free of bulk work, so that a person does not wait behind it.
    fn slots_for(&self, class: Priority) -> usize {
        match class {
            Priority::Interactive => self.open_documents,
            Priority::Bulk => self.open_documents - self.open_documents / INTERACTIVE_SHARE,
        }
    }

    /// The next entries, as many as there is capacity for and at most [`CLAIMS_AT_ONCE`].
    async fn next_entries(&self, table: &mut JobTable) -> Vec<ClaimedEntry> {
        let mut batch = Vec::new();
        self.load_entries(table).await;
        while batch.len() < CLAIMS_AT_ONCE {
            let used = self.slots_in_use(table) + batch.len();
            match self.next_entry(table, used).await {
                Some(entry) => batch.push(entry),
                None => break,
            }
        }
        batch
    }

    // Loads the entries of the jobs that come next at once: one after the other, many small jobs would take long.
    async fn load_entries(&self, table: &mut JobTable) {
        let now = self.env.now_ms();
        let unloaded = table
            .open
            .values_mut()
            .filter(|job| job.needs_load() && job.may_claim(now));
        join_all(unloaded.take(CLAIMS_AT_ONCE).map(|job| self.peek(job))).await;
    }

    // The weight of the next entry of a job; `None` also if its entries cannot be read.
    async fn peek(&self, job: &mut OpenJob) -> Option<u64> {
        match job.peek(&self.env, &self.ports.blobs).await {
            Ok(weight) => {
                job.waits.succeeded(JobStep::ReadEntries);
                weight
            }
            Err(error) => {
                self.wait_after(job, JobStep::ReadEntries, &error);
                None
            }
        }
    }

    // Deficit round robin between collections; within a collection the most urgent job first, then the oldest.
    async fn next_entry(&self, table: &mut JobTable, slots_in_use: usize) -> Option<ClaimedEntry> {
        if slots_in_use >= self.open_documents {
            return None;
        }
        let now = self.env.now_ms();
        let mut first: BTreeMap<String, (Priority, JobId, u64)> = BTreeMap::new();
        for (id, job) in &mut table.open {
            let Some(control) = self.cached_control(id) else {
                continue;
            };
            let class = control.class.unwrap_or(job.manifest.class);
            if !control.is_running()
                || !job.may_claim(now)
                || slots_in_use >= self.slots_for(class)
                || first
                    .get(&job.manifest.collection)
                    .is_some_and(|(best, ..)| *best >= class)
            {
                continue;
            }
            if let Some(weight) = self.peek(job).await {
                first.insert(job.manifest.collection.clone(), (class, id.clone(), weight));
            }
        }
        let heads = first
            .iter()
            .map(|(name, (_, _, weight))| (name.clone(), *weight))
            .collect();
        let picked = table
            .round_robin
            .next(&heads)
            .and_then(|name| first.remove(&name));
        let job = picked.and_then(|(_, id, _)| table.open.get_mut(&id))?;
        let (number, entry) = job.take_next()?;
        Some(ClaimedEntry {
            manifest: job.manifest.clone(),
            number,
            entry,
        })
    }

    // An entry that cannot be claimed ends as failed and is listed in the report; the job goes on (I-10).
    fn on_claim_failed(&self, table: &mut JobTable, entry: &ClaimedEntry, error: &PortError) {
        let record = FailureRecord {
            code: "engine.claim".into(),
            message: error.to_string(),
            next: Some("check that the store can be written, then submit again".into()),
            stage: "submit".into(),
            attempts: 1,
            at_ms: self.env.now_ms(),
        };
        self.on_entry_ended(table, entry, RunOutcome::Failed(record.clipped()));
    }

    fn on_entry_ended(&self, table: &mut JobTable, entry: &ClaimedEntry, ending: RunOutcome) {
        let Some(open) = table.open.get_mut(&entry.manifest.job) else {
            return;
        };
        metrics::entry_ended(ending.name());
        open.end_entry(entry.number, &format!("entry {}", entry.number), &ending);
        let job = entry.manifest.job.clone();
        let input = Box::new(entry.entry.input.clone());
        (self.observer)(CoordinatorEvent::EntryEnded {
            job,
            run: None,
            input,
            ending,
        });
    }

    async fn save_cursors(&self, table: &mut JobTable) {
        for job in table.open.values_mut() {
            match job.save(&self.ports.blobs).await {
                Ok(()) => job.waits.succeeded(JobStep::Save),
                Err(error) => self.wait_after(job, JobStep::Save, &error),
            }
        }
    }

    async fn finish_jobs(&self, table: &mut JobTable) -> PortResult<()> {
        self.save_cursors(table).await;
        let reports = table.open.iter_mut().map(|(id, job)| async move {
            let finished = job.finish(&self.env, &self.ports.blobs).await;
            if let Err(error) = &finished {
                self.wait_after(job, JobStep::Save, error);
            }
            finished.ok().flatten().map(|report| (id.clone(), report))
        });
        let reports: Vec<_> = reports.collect();
        let finished: Vec<_> = stream::iter(reports)
            .buffer_unordered(CLAIMS_AT_ONCE)
            .filter_map(async |finished| finished)
            .collect()
            .await;
        let mut ended = Vec::new();
        for (job, report) in finished {
            table.open.remove(&job);
            (self.observer)(CoordinatorEvent::JobEnded(Box::new(report)));
            ended.push(ScheduledItem::Job(job));
        }
        try_join_all(ended.iter().map(|item| self.ports.ledger.unschedule(item))).await?;
        metrics::open(table.open.len(), self.open_runs(table));
        Ok(())
    }
}
