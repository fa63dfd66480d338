//! Recovers lost work: the sweep wakes what is due, the scan finds jobs that the ledger has lost.

use std::sync::Arc;
use std::time::Duration;

use stemma_store::key::{JobId, RunRef};
use stemma_store::port_error::PortResult;
use tokio_util::sync::CancellationToken;

use super::Coordinator;
use crate::flow::Flow;
use crate::jobs::JobScan;
use crate::ledger::{Ledger, ScheduledItem};
use crate::message::CoordinatorMessage;
use crate::message_auth::check_run;
use crate::outcome::notify_coordinator;
use crate::schedule::REPUBLISH_AFTER_MS;

// How often the due-time index is read.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
// Items claimed from the due-time index per sweep.
const SWEEP_LIMIT: usize = 500;
// How often the job list is scanned for jobs that the ledger has lost.
const SCAN_EVERY: Duration = Duration::from_secs(60);
// How often the first walk lists the next thousand jobs: a million in four minutes.
const PAGE_EVERY: Duration = Duration::from_millis(250);

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
        let now = self.ports.env.now_ms();
        let items = self
            .ports
            .ledger
            .claim_due(now, now + REPUBLISH_AFTER_MS, SWEEP_LIMIT)
            .await?;
        for item in items {
            match item {
                ScheduledItem::Run(at) if check_run::<W>(&at).is_err() => {
                    tracing::error!(run = %at.run, "the ledger has a run whose header or scope is not its own");
                    let item = ScheduledItem::Run(at);
                    self.ports.ledger.unschedule(&item).await?;
                }
                ScheduledItem::Run(at) => self.wake_run(&at).await?,
                ScheduledItem::Job(job) => self.wake_job(job).await?,
            }
        }
        Ok(())
    }

    // Finds jobs that have not ended and that the ledger may have forgotten (I-1), a bounded number at a time.
    pub(super) async fn scan(self: Arc<Self>, stop: CancellationToken) {
        let mut scan = JobScan::default();
        loop {
            let more = self.scan_once(&mut scan).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "job scan interrupted; trying again");
                false
            });
            self.evict_idle();
            let pause = if more { PAGE_EVERY } else { SCAN_EVERY };
            if !self.sleep_or_stop(pause, &stop).await {
                return;
            }
        }
    }

    // Returns whether more jobs wait to be listed.
    async fn scan_once(&self, scan: &mut JobScan) -> PortResult<bool> {
        let step = scan.step(&self.ports.blobs).await?;
        for job in step.open {
            self.reschedule_job(job).await?;
        }
        Ok(step.more)
    }

    /// Has the sweep wake an item in a minute, unless it is due earlier.
    pub(super) async fn schedule(&self, item: ScheduledItem) -> PortResult<()> {
        let at = self.ports.env.now_ms() + REPUBLISH_AFTER_MS;
        self.ports.ledger.schedule(&item, at).await
    }

    async fn reschedule_job(&self, job: JobId) -> PortResult<()> {
        self.schedule(ScheduledItem::Job(job.clone())).await?;
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
            () = self.ports.env.sleep(duration) => true,
        }
    }
}
