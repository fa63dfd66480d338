//! Recovers lost work: the sweep wakes what is due, the scan finds jobs that the ledger has lost.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Coordinator;
use crate::flow::Flow;
use crate::jobs;
use crate::key::{JobId, RunRef};
use crate::ledger::{Ledger, ScheduledItem};
use crate::message::CoordinatorMessage;
use crate::outcome::notify_coordinator;
use crate::port_error::PortResult;
use crate::schedule::REPUBLISH_AFTER_MS;

// How often the due-time index is read.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
// Items claimed from the due-time index per sweep.
const SWEEP_LIMIT: usize = 500;
// How often the job list is scanned for jobs that the ledger has lost.
const SCAN_EVERY: Duration = Duration::from_secs(60);
// Jobs read per scan.
const SCAN_LIMIT: usize = 1_000;

/// Position of the scan in the list of jobs, which is in order of submission.
#[derive(Default)]
struct ScanCursor {
    // All jobs up to this one have ended.
    ended: Option<JobId>,
    // Where the next scan starts, if not after `ended`.
    next: Option<JobId>,
}

impl<W: Flow> Coordinator<W> {
    pub(super) async fn wake_run(&self, at: &RunRef) -> PortResult<()> {
        notify_coordinator(&self.ports, &CoordinatorMessage::Wake(at.clone())).await
    }

    async fn wake_job(&self, job: JobId) -> PortResult<()> {
        notify_coordinator(&self.ports, &CoordinatorMessage::Job(job)).await
    }

    // Wakes what is due. Bounded reads of the index, never a walk over all runs.
    pub(super) async fn sweep(self: Arc<Self>, stop: CancellationToken) {
        while self.sleep_or_stop(SWEEP_EVERY, &stop).await {
            if let Err(error) = self.sweep_once().await {
                tracing::warn!(%error, "sweep interrupted; it continues next time");
            }
        }
    }

    async fn sweep_once(&self) -> PortResult<()> {
        let now = self.env.now_ms();
        let items = self
            .ports
            .ledger
            .claim_due(now, now + REPUBLISH_AFTER_MS, SWEEP_LIMIT)
            .await?;
        for item in items {
            match item {
                ScheduledItem::Run(at) => self.wake_run(&at).await?,
                ScheduledItem::Job(job) => self.wake_job(job).await?,
            }
        }
        Ok(())
    }

    // Finds jobs that have not ended and that the ledger may have forgotten (I-1), a bounded number at a time.
    pub(super) async fn scan(self: Arc<Self>, stop: CancellationToken) {
        let mut cursor = ScanCursor::default();
        loop {
            if let Err(error) = self.scan_once(&mut cursor).await {
                tracing::warn!(%error, "job scan interrupted; trying again");
            }
            self.evict_idle();
            if !self.sleep_or_stop(SCAN_EVERY, &stop).await {
                return;
            }
        }
    }

    async fn scan_once(&self, cursor: &mut ScanCursor) -> PortResult<()> {
        let blobs = &self.ports.blobs;
        let mut all_ended = cursor.next.is_none();
        let after = cursor.next.as_ref().or(cursor.ended.as_ref());
        let ids = jobs::list(blobs, after, SCAN_LIMIT).await?;
        let more = ids.len() == SCAN_LIMIT;
        let last = ids.last().cloned();
        for id in ids {
            // A job whose report cannot be read has ended.
            let report = self.readable(&id, jobs::report(blobs, &id).await)?;
            let ended = report.is_none_or(|report| report.is_some());
            all_ended &= ended;
            if all_ended {
                cursor.ended = Some(id);
            } else if !ended {
                self.reschedule_job(id).await?;
            }
        }
        cursor.next = last.filter(|_| more);
        Ok(())
    }

    async fn reschedule_job(&self, job: JobId) -> PortResult<()> {
        let item = ScheduledItem::Job(job.clone());
        let at = self.env.now_ms() + REPUBLISH_AFTER_MS;
        self.ports.ledger.schedule(&item, at).await?;
        let table = self.jobs.lock().await;
        let is_here = table.open.contains_key(&job) || table.heads.contains_key(&job);
        drop(table);
        if is_here {
            Ok(())
        } else {
            self.wake_job(job).await
        }
    }

    /// Sleeps for `duration`; false when `stop` came first.
    pub(super) async fn sleep_or_stop(&self, duration: Duration, stop: &CancellationToken) -> bool {
        tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = self.env.sleep(duration) => true,
        }
    }
}
