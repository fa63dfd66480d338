//! Ends jobs: cancels those that were stopped, saves cursors, and writes the reports of those that have no entry left.
//!
//! One task does it; the table of jobs is not locked while ports are called.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use stemma_store::blobs::put_json;
use stemma_store::key::{JobId, RunRef};
use stemma_store::port_error::PortResult;
use tokio_util::sync::CancellationToken;

use super::{Coordinator, CoordinatorEvent, JobTable};
use crate::flow::Flow;
use crate::jobs::{self, CancelReason, Cancelled, JobManifest, JobReport, JobStep, OpenJob};
use crate::ledger::{Ledger, ScheduledItem};
use crate::metrics;

// Cancelled jobs and cursors are looked for at least this often.
const CLOSE_INTERVAL: Duration = Duration::from_secs(1);
// Jobs closed at the same time.
const CLOSES_AT_ONCE: usize = 32;

impl<W: Flow> Coordinator<W> {
    /// Closes jobs whenever it is woken, and every second, until `stop`.
    pub(super) async fn run_closing(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.closing.notified() => {}
                () = self.ports.env.sleep(CLOSE_INTERVAL) => {}
            }
            self.close_stopped().await;
            self.finish_parts().await;
            self.wake_parts().await;
            self.save_cursors().await;
            self.finish_jobs().await;
        }
    }

    // Ends jobs that were cancelled or exceed their failure limit. Runs are notified before the job is closed: if this is
    // interrupted, the job has no report yet and is closed again, so no notification is lost.
    async fn close_stopped(&self) {
        let now = self.ports.env.now_ms();
        let mut table = self.jobs.lock().await;
        let exceeding = self.exceeding_jobs(&table);
        let cancelled = |id: &JobId| {
            self.cached_control(id)
                .and_then(|control| control.cancelled)
        };
        let mut stopped = Vec::new();
        for (id, job) in table.open.iter().filter(|(_, job)| !job.is_complete()) {
            let cancelled = cancelled(id);
            let is_stopped = cancelled.is_some() || exceeding.contains(&job.manifest.job);
            if is_stopped && !job.waits.holds(now) {
                let runs: Vec<RunRef> = job
                    .open_runs
                    .values()
                    .map(|(_, header)| header.at.clone())
                    .collect();
                stopped.push((id.clone(), cancelled, runs));
            }
        }
        for (id, head) in &mut table.heads {
            if let Some(cancelled) = cancelled(id) {
                head.close(cancelled); // when its parts have ended
            } else if exceeding.contains(id) {
                stopped.push((id.clone(), None, Vec::new()));
            }
        }
        drop(table);
        let stops = stream::iter(stopped).map(|(id, cancelled, runs)| async move {
            let stopped = self.stop_job(&id, cancelled, runs).await;
            let mut table = self.jobs.lock().await;
            if let Some(job) = table.open.get_mut(&id) {
                match stopped {
                    Ok(Some(cancelled)) => drop(job.close(cancelled)),
                    Ok(None) => {}
                    Err(error) => self.wait_after(job, JobStep::Save, &error),
                }
            }
        });
        stops.buffer_unordered(CLOSES_AT_ONCE).collect::<()>().await;
    }

    // The jobs with more failed entries than they allow, as far as this coordinator knows: it counts the parts that it
    // has, and those that have ended if it has the head.
    fn exceeding_jobs(&self, table: &JobTable) -> BTreeSet<JobId> {
        let mut failed: BTreeMap<&JobId, (u64, &JobManifest)> = BTreeMap::new();
        let open = table.open.values().map(|job| (&job.manifest, job.counts()));
        let heads = table
            .heads
            .values()
            .map(|head| (&head.manifest, head.counts()));
        for (manifest, counts) in open.chain(heads).filter(|(_, counts)| counts.failed > 0) {
            failed.entry(&manifest.job).or_insert((0, manifest)).0 += counts.failed;
        }
        let exceeding = failed.into_values().filter(|(failed, manifest)| {
            let allowed = manifest.options.max_failed;
            allowed.is_some_and(|most| most.exceeded(*failed, manifest.entries))
        });
        exceeding
            .map(|(_, manifest)| manifest.job.clone())
            .collect()
    }

    // Stores that the job was stopped, and tells its runs.
    async fn stop_job(
        &self,
        id: &JobId,
        cancelled: Option<Cancelled>,
        runs: Vec<RunRef>,
    ) -> PortResult<Option<Cancelled>> {
        let cancelled = match cancelled {
            Some(cancelled) => Some(cancelled),
            None => {
                let (job, _) = id.split();
                jobs::cancel(&self.ports, &job, CancelReason::TooManyFailed).await?;
                self.forget_control(id);
                self.job_control(id).await?.cancelled
            }
        };
        self.notify_abandoned(id, runs).await?;
        Ok(cancelled)
    }

    async fn save_cursors(&self) {
        let now = self.ports.env.now_ms();
        let table = self.jobs.lock().await;
        let due: Vec<_> = table
            .heads
            .iter()
            .filter(|(_, head)| !head.waits.holds(now))
            .filter_map(|(id, head)| Some((id.clone(), head.cursor_due()?)))
            .collect();
        drop(table);
        let saves = stream::iter(due).map(|(id, cursor)| async move {
            let saved = put_json(&self.ports.blobs, &cursor.key, &cursor.content).await;
            let mut table = self.jobs.lock().await;
            if let Some(head) = table.heads.get_mut(&id) {
                match saved {
                    Ok(_) => {
                        head.cursor_saved(&cursor);
                        head.waits.succeeded(JobStep::Save);
                    }
                    Err(error) => self.head_waits(head, &error),
                }
            }
        });
        saves.buffer_unordered(CLOSES_AT_ONCE).collect::<()>().await;
    }

    async fn finish_jobs(&self) {
        let now = self.ports.env.now_ms();
        let table = self.jobs.lock().await;
        let due = table.open.iter().filter(|(_, job)| !job.waits.holds(now));
        let due = due.filter_map(|(id, job)| Some((id.clone(), job.finished_report(now)?)));
        let heads = table
            .heads
            .iter()
            .filter(|(_, head)| !head.waits.holds(now))
            .filter_map(|(id, head)| Some((id.clone(), head.finished_report(now)?)));
        let due: Vec<_> = due.chain(heads).collect();
        measure_open(&table);
        drop(table);
        let finishes = stream::iter(due).map(|(id, report)| async move {
            let stored = self.store_report(&id, &report).await;
            let mut table = self.jobs.lock().await;
            match stored {
                Ok(report) => {
                    table.open.remove(&id);
                    table.heads.remove(&id);
                    drop(table);
                    (self.observer)(CoordinatorEvent::JobEnded(Box::new(report)));
                }
                Err(error) => {
                    if let Some(job) = table.open.get_mut(&id) {
                        self.wait_after(job, JobStep::Save, &error);
                    } else if let Some(head) = table.heads.get_mut(&id) {
                        self.head_waits(head, &error);
                    }
                }
            }
        });
        finishes
            .buffer_unordered(CLOSES_AT_ONCE)
            .collect::<()>()
            .await;
    }

    // Stores a report, unless another coordinator was first. Returns the one that counts.
    async fn store_report(&self, id: &JobId, written: &JobReport) -> PortResult<JobReport> {
        let blobs = &self.ports.blobs;
        put_json(blobs, &jobs::report_key(id), written).await?;
        if let Err(error) = jobs::mark_ended(blobs, id).await {
            tracing::debug!(job = %id, %error, "an ended job is not marked; the next scan reads it");
        }
        let report = jobs::report(blobs, id).await?;
        let item = ScheduledItem::Job(id.clone());
        self.ports.ledger.unschedule(&item).await?;
        Ok(report.unwrap_or_else(|| written.clone()))
    }
}

// Runs of paused jobs and of jobs that use batches may wait for hours, which is not a reason for an alert.
fn measure_open(table: &JobTable) {
    metrics::jobs_open(table.open.len());
    for state in metrics::RUN_STATES {
        let jobs = table.open.values().filter(|job| open_state(job) == state);
        metrics::open_runs(state, jobs.map(|job| job.open_runs.len()).sum());
    }
}

fn open_state(job: &OpenJob) -> &'static str {
    if job.paused {
        "paused"
    } else if job.manifest.options.batch {
        "batch"
    } else {
        "active"
    }
}
