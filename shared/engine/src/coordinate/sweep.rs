//! What brings everything back that was lost on the way: the due-time index, and behind it the list of jobs.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Coordinator;
use crate::flow::Flow;
use crate::jobs;
use crate::key::{JobId, RunRef};
use crate::ledger::Due;
use crate::message::{News, encode};
use crate::port::{PortError, ask};
use crate::queue::QueueName;
use crate::run::PATIENCE_MS;

/// How often the due-time index is looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Things taken from the due-time index per look.
const SWEEP_LIMIT: usize = 500;
/// How often jobs that a forgetful ledger lost are looked for.
const SCAN_EVERY: Duration = Duration::from_secs(60);
/// Jobs looked at per scan.
const SCAN_LIMIT: usize = 1_000;

/// How far the scan is in the list of jobs, which is in order of submission.
#[derive(Default)]
struct Place {
    /// All jobs up to this one have ended.
    ended: Option<JobId>,
    /// Where the next look begins, if not there.
    next: Option<JobId>,
}

impl<W: Flow> Coordinator<W> {
    pub(super) async fn wake(&self, at: &RunRef) -> Result<(), PortError> {
        let news = encode(&News::Wake(at.clone()))?;
        ask(&self.env, || {
            self.ports
                .queue
                .publish(QueueName::of_run(&at.run), vec![news.clone()])
        })
        .await
    }

    async fn wake_job(&self, job: JobId) -> Result<(), PortError> {
        let queue = QueueName::flow(&job.0);
        let news = encode(&News::Job(job))?;
        ask(&self.env, || {
            self.ports.queue.publish(queue, vec![news.clone()])
        })
        .await
    }

    /// Wakes what is due, in bounded looks: never a walk over everything.
    pub(super) async fn sweep(self: Arc<Self>, stop: CancellationToken) {
        while self.pause(SWEEP_EVERY, &stop).await {
            if let Err(error) = self.sweep_once().await {
                tracing::warn!(%error, "sweep interrupted; it goes on at the next look");
            }
        }
    }

    async fn sweep_once(&self) -> Result<(), PortError> {
        let now = self.env.now_ms();
        let due = ask(&self.env, || {
            self.ports.ledger.due(now, now + PATIENCE_MS, SWEEP_LIMIT)
        })
        .await?;
        for due in due {
            match due {
                Due::Run(at) => self.wake(&at).await?,
                Due::Job(job) => self.wake_job(job).await?,
            }
        }
        Ok(())
    }

    /// Finds jobs that have not ended and that the ledger may have forgotten (I-1), some at a time, round and round.
    pub(super) async fn scan(self: Arc<Self>, stop: CancellationToken) {
        let mut place = Place::default();
        loop {
            if let Err(error) = self.scan_once(&mut place).await {
                tracing::warn!(%error, "scan for jobs interrupted; it is done again");
            }
            self.let_go();
            if !self.pause(SCAN_EVERY, &stop).await {
                return;
            }
        }
    }

    async fn scan_once(&self, place: &mut Place) -> Result<(), PortError> {
        let blobs = self.ports.blobs.as_ref();
        let mut all_ended = place.next.is_none();
        let after = place.next.as_ref().or(place.ended.as_ref());
        let ids = ask(&self.env, || jobs::list(blobs, after, SCAN_LIMIT)).await?;
        let more = ids.len() == SCAN_LIMIT;
        let last = ids.last().cloned();
        for id in ids {
            let ended = ask(&self.env, || jobs::report(blobs, &id)).await?.is_some();
            all_ended &= ended;
            if all_ended {
                place.ended = Some(id);
            } else if !ended {
                self.remind(id).await?;
            }
        }
        place.next = last.filter(|_| more);
        Ok(())
    }

    async fn remind(&self, job: JobId) -> Result<(), PortError> {
        let due = Due::Job(job.clone());
        let at = self.env.now_ms() + PATIENCE_MS;
        ask(&self.env, || self.ports.ledger.schedule(&due, at)).await?;
        if self.jobs.lock().await.open.contains_key(&job) {
            Ok(())
        } else {
            self.wake_job(job).await
        }
    }

    /// Waits; false when it is time to stop.
    pub(super) async fn pause(&self, duration: Duration, stop: &CancellationToken) -> bool {
        tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = self.env.sleep(duration) => true,
        }
    }
}
