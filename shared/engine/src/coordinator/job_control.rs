//! Applies job controls (cancel, pause, priority) to open jobs, and publishes job progress.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_store::env::Millis;
use stemma_store::key::{JobId, RunHeader, RunId, RunRef};
use stemma_store::port_error::{PortError, PortResult};
use tokio_util::sync::CancellationToken;

use super::{Coordinator, JobTable};
use crate::flow::Flow;
use crate::heartbeat::{HEARTBEAT_INTERVAL, HEARTBEAT_TTL, JobProgress, RunProgress};
use crate::jobs::{self, JobControl, JobStep};
use crate::ledger::{Ledger, StatusRecord, StatusTopic};
use crate::message::{CoordinatorMessage, encode_notification};
use crate::queue::{Queue, QueueName};
use crate::schedule::REPUBLISH_AFTER_MS;

// How often the controls of open jobs are polled.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
// How long a cached control is used before it is read again.
const CONTROL_TTL_MS: Millis = 1_000;
// The same for a paused job, which may stay paused for weeks: reading costs two listings. Who resumes, cancels or changes a job
// notifies its coordinator; others that have parts of it, or whose notification is lost, take this long.
const PAUSED_CONTROL_TTL_MS: Millis = 15_000;
// Controls read, or progress records posted, concurrently.
const CALLS_AT_ONCE: usize = 32;
// Expired controls are evicted once the cache holds this many.
const MAX_CACHED_CONTROLS: usize = 1_000;
// Every job is woken each minute, so a job without an event for three of them is reported by another coordinator.
const PROGRESS_TTL_MS: Millis = 3 * REPUBLISH_AFTER_MS;
// Open runs listed in a job's progress.
const MAX_LISTED_RUNS: usize = 16;
// Messages about runs published in one call.
const NOTIFY_BATCH: usize = 500;

// Job controls, and when they were read.
#[derive(Default)]
pub(super) struct JobControlCache(HashMap<JobId, (Millis, JobControl)>);

impl JobControlCache {
    fn valid(&self, job: &JobId, now: Millis) -> Option<JobControl> {
        let (read_ms, control) = self.0.get(job)?;
        (now < read_ms + ttl_ms(control)).then_some(*control)
    }
}

fn ttl_ms(control: &JobControl) -> Millis {
    match control {
        control if control.cancelled.is_some() => Millis::MAX / 2, // for good
        control if control.paused.is_some() => PAUSED_CONTROL_TTL_MS,
        _ => CONTROL_TTL_MS,
    }
}

/// Whether the tasks of a run should be requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunDemand {
    Active,
    /// Every job that waits for the run is paused.
    Paused,
    /// Every job that waited for the run was cancelled.
    Abandoned,
}

impl<W: Flow> Coordinator<W> {
    /// The control state of a job, or of the job of a part: at most one second old, or 15 while the job is paused.
    pub(super) async fn job_control(&self, job: &JobId) -> PortResult<JobControl> {
        let (job, _) = &job.split();
        let now = self.ports.env.now_ms();
        let cached = self.job_controls.lock().valid(job, now);
        if let Some(control) = cached {
            return Ok(control);
        }
        let control = jobs::load_control(&self.ports.blobs, job).await?;
        let mut cache = self.job_controls.lock();
        if cache.0.len() >= MAX_CACHED_CONTROLS {
            cache
                .0
                .retain(|_, (read_ms, _)| now < *read_ms + CONTROL_TTL_MS);
        }
        cache.0.insert(job.clone(), (now, control));
        Ok(control)
    }

    /// Reads the controls of all open jobs that are not cached, many at once and without holding the table: one after the
    /// other, hundreds of jobs would take longer than their controls are valid. A job whose control cannot be read waits.
    pub(super) async fn refresh_controls(&self) {
        let now = self.ports.env.now_ms();
        let table = self.jobs.lock().await;
        let due = table.open.values().filter(|job| !job.waits.holds(now));
        let mut jobs: BTreeSet<JobId> = due.map(|job| job.manifest.job.clone()).collect();
        jobs.extend(table.heads.keys().cloned());
        drop(table);
        let reads = stream::iter(jobs).map(|job| async move {
            let control = self.job_control(&job).await.map(drop);
            (job, control)
        });
        let reads: BTreeMap<_, _> = reads.buffer_unordered(CALLS_AT_ONCE).collect().await;
        let mut table = self.jobs.lock().await;
        for job in table.open.values_mut() {
            match reads.get(&job.manifest.job) {
                Some(Ok(())) => job.waits.succeeded(JobStep::ReadControl),
                Some(Err(error)) => self.wait_after(job, JobStep::ReadControl, error),
                None => {}
            }
        }
    }

    /// The control state of a job as it was last read, which [`Self::refresh_controls`] keeps current.
    pub(super) fn cached_control(&self, job: &JobId) -> Option<JobControl> {
        let cached = self.job_controls.lock();
        cached.0.get(&job.split().0).map(|(_, control)| *control)
    }

    // Whether any job waits for the run. The job that opened it almost always does, so the ledger is only asked for
    // other watchers when that job is not running.
    pub(super) async fn run_demand(&self, run: &RunHeader) -> PortResult<RunDemand> {
        if self.job_control(&run.opened_by).await?.is_running() {
            return Ok(RunDemand::Active);
        }
        let mut waiting = self.ports.ledger.watchers(&run.at.run).await?;
        if waiting.is_empty() {
            waiting.push(run.opened_by.clone());
        }
        let mut demand = RunDemand::Abandoned;
        for job in waiting {
            match self.job_control(&job).await? {
                control if control.is_running() => return Ok(RunDemand::Active),
                control if control.cancelled.is_none() => demand = RunDemand::Paused,
                _ => {}
            }
        }
        Ok(demand)
    }

    /// Makes the next caller read the control of a job again.
    pub(super) fn forget_control(&self, job: &JobId) {
        self.job_controls.lock().0.remove(&job.split().0);
    }

    /// Makes the next caller read the control of a job again if it was paused, as others say that it is no longer.
    pub(super) fn forget_pause(&self, job: &JobId) {
        let (job, _) = job.split();
        let mut cache = self.job_controls.lock();
        let cached = cache.0.get(&job);
        if cached.is_some_and(|(_, control)| control.paused.is_some()) {
            cache.0.remove(&job);
        }
    }

    pub(super) async fn notify_abandoned(&self, job: &JobId, runs: Vec<RunRef>) -> PortResult<()> {
        let messages = runs.into_iter().map(|run| CoordinatorMessage::Abandoned {
            job: job.clone(),
            run,
            resumed: false,
        });
        self.notify_all(messages).await
    }

    // Publishes messages to their queues, many at once.
    async fn notify_all(
        &self,
        notifications: impl Iterator<Item = CoordinatorMessage>,
    ) -> PortResult<()> {
        let mut messages: BTreeMap<QueueName, Vec<_>> = BTreeMap::new();
        for message in notifications {
            let queue = messages.entry(message.queue()).or_default();
            queue.push(encode_notification(&self.ports.message_keys, &message)?);
        }
        let sends = messages.iter().map(|(queue, messages)| async move {
            for batch in messages.chunks(NOTIFY_BATCH) {
                self.ports.queue.publish(*queue, batch.to_vec()).await?;
            }
            Ok::<_, PortError>(())
        });
        try_join_all(sends).await.map(|_| ())
    }

    /// Polls the controls of open jobs every second, and posts their progress.
    pub(super) async fn poll_job_controls(self: Arc<Self>, stop: CancellationToken) {
        while self.sleep_or_stop(POLL_INTERVAL, &stop).await {
            if let Err(error) = self.poll_job_controls_once().await {
                tracing::debug!(%error, "cannot poll job controls; trying again");
            }
        }
    }

    async fn poll_job_controls_once(&self) -> PortResult<()> {
        self.heartbeat.set_unfinished(self.oldest_tasks());
        self.refresh_controls().await;
        let now = self.ports.env.now_ms();
        let mut table = self.jobs.lock().await;
        let mut changed = false;
        let mut affected = Vec::new();
        for (id, job) in &mut table.open {
            changed |= !job.waits.is_empty() && !job.waits.holds(now);
            let Some(control) = self.cached_control(id) else {
                continue;
            };
            changed |= control.cancelled.is_some();
            // Their tasks are parked, or published again.
            let is_paused = control.paused.is_some();
            if job.paused != is_paused && control.cancelled.is_none() {
                affected.extend(job.open_runs.values().map(|(_, header)| {
                    let run = header.at.clone();
                    if is_paused {
                        return CoordinatorMessage::Wake(run);
                    }
                    // Its coordinator may still know the job as paused.
                    CoordinatorMessage::Abandoned {
                        job: job.manifest.job.clone(),
                        run,
                        resumed: true,
                    }
                }));
                changed = true;
            }
            job.paused = is_paused;
        }
        let unloaded = table.unloaded.iter().filter(|(_, waits)| !waits.holds(now));
        let unloaded: Vec<JobId> = unloaded.map(|(id, _)| id.clone()).collect();
        drop(table);
        for job in &unloaded {
            self.on_job_due(job).await?;
        }
        self.notify_all(affected.into_iter()).await?;
        if changed {
            self.admit();
        }
        self.post_progress().await
    }

    // Posts the progress of jobs where it has changed, or where the posted record would expire. The table is not locked
    // while records are posted: with hundreds of jobs, a slow ledger would stop admission.
    async fn post_progress(&self) -> PortResult<()> {
        let now = self.ports.env.now_ms();
        let reports = self.changed_progress(&mut *self.jobs.lock().await, now);
        let posts = stream::iter(reports).map(|report| async move {
            self.post_job_progress(&report, now).await?;
            Ok::<_, PortError>(report)
        });
        let mut posts = posts.buffer_unordered(CALLS_AT_ONCE);
        while let Some(posted) = posts.try_next().await? {
            let mut table = self.jobs.lock().await;
            table.posted.insert(posted.job.clone(), posted);
        }
        Ok(())
    }

    fn changed_progress(&self, table: &mut JobTable, now: Millis) -> Vec<JobProgress> {
        let mut tasks = self.tasks_by_job();
        let mut reports: BTreeMap<JobId, JobProgress> = BTreeMap::new();
        for (id, head) in &table.heads {
            let mut report = self.job_progress(id, tasks.remove(id).unwrap_or_default(), now);
            report.entries = head.manifest.entries;
            report.counts = head.counts().clone();
            report.waiting = head.waits.longest().cloned();
            reports.insert(id.clone(), report);
        }
        for job in table
            .open
            .values()
            .filter(|job| job.last_event_ms + PROGRESS_TTL_MS > now)
        {
            let id = &job.manifest.job;
            let report = reports.entry(id.clone()).or_insert_with(|| {
                self.job_progress(id, tasks.remove(id).unwrap_or_default(), now)
            });
            if !job.is_part() {
                report.entries = job.manifest.entries;
            }
            report.counts.add_all(job.counts());
            report.open += job.open_runs.len() as u64;
            let room = MAX_LISTED_RUNS.saturating_sub(report.runs.len());
            report.runs.extend(job.open_runs.keys().take(room).cloned());
            if report.waiting.is_none() {
                report.waiting = job.waits.longest().cloned();
            }
        }
        let mut reports: Vec<JobProgress> = reports.into_values().collect();
        for (id, waits) in &table.unloaded {
            let mut report = self.job_progress(id, tasks.remove(id).unwrap_or_default(), now);
            report.waiting = waits.longest().cloned();
            reports.push(report);
        }
        reports.extend(
            tasks
                .into_iter()
                .map(|(id, progress)| self.job_progress(&id, progress, now)),
        );
        table
            .posted
            .retain(|id, _| reports.iter().any(|report| report.job == *id));
        reports.retain(|report| {
            table.posted.get(&report.job).is_none_or(|last| {
                let stale = last.at_ms + HEARTBEAT_INTERVAL.as_millis() as Millis <= now;
                stale
                    || JobProgress {
                        at_ms: last.at_ms,
                        ..report.clone()
                    } != *last
            })
        });
        reports
    }

    async fn post_job_progress(&self, progress: &JobProgress, now: Millis) -> PortResult<()> {
        let body = serde_json::to_vec(progress)
            .map_err(|error| PortError::permanent("ledger.post", error.to_string()))?;
        let name = format!("{}.{}", progress.job, progress.coordinator);
        let record = StatusRecord {
            name,
            body: body.into(),
            until_ms: now + HEARTBEAT_TTL.as_millis() as Millis,
        };
        // Not retried: the next record follows in a second.
        self.ports
            .ledger
            .raw()
            .post_status(StatusTopic::Jobs, record, now)
            .await
    }

    fn job_progress(&self, job: &JobId, tasks: RunProgress, now: Millis) -> JobProgress {
        JobProgress {
            job: job.clone(),
            coordinator: self.heartbeat.process().into(),
            at_ms: now,
            entries: 0,
            counts: jobs::EntryCounts::default(),
            open: 0,
            tasks_present: tasks.present as u64,
            tasks_missing: tasks.missing as u64,
            runs: Vec::<RunId>::new(),
            waiting: None,
        }
    }
}
