//! Heads of jobs that are divided into parts: parts are woken, and their results added up.

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_store::blobs::{get_json, put_json};
use stemma_store::key::{JobId, RunId};
use stemma_store::port_error::{PortError, PortResult};

use super::Coordinator;
use crate::flow::Flow;
use crate::jobs::{EndedEntries, JobHead, JobStep, part_key};
use crate::ledger::{Ledger, ScheduledItem};
use crate::message::{CoordinatorMessage, RunOutcome};
use crate::outcome::notify_coordinator;

// Parts woken, read or stored at the same time.
const PARTS_AT_ONCE: usize = 16;

impl<W: Flow> Coordinator<W> {
    /// Adds the results of these parts of a job, if there are any. The others are scheduled again: the ledger may have
    /// forgotten them.
    pub(super) async fn check_parts(&self, job: &JobId, parts: Vec<JobId>) -> PortResult<()> {
        let reads = stream::iter(parts).map(|id| async move {
            let part = id.split().1.filter(|part| id == job.part(*part));
            let Some(part) = part else {
                return Ok(None);
            };
            let key = part_key(job, part);
            let result: Option<EndedEntries> = get_json(&self.ports.blobs, &key).await?;
            if result.is_none() {
                self.schedule(ScheduledItem::Job(id)).await?;
            }
            Ok::<_, PortError>(result.map(|result| (part, result)))
        });
        let results: Vec<_> = reads.buffered(PARTS_AT_ONCE).try_collect().await?;
        let mut table = self.jobs.lock().await;
        if let Some(head) = table.heads.get_mut(job) {
            head.last_event_ms = self.ports.env.now_ms();
            for (part, result) in results.into_iter().flatten() {
                head.end_part(part, &result);
            }
        }
        Ok(())
    }

    /// Wakes the next parts of jobs that are running.
    pub(super) async fn wake_parts(&self) {
        let now = self.ports.env.now_ms();
        let mut table = self.jobs.lock().await;
        let mut parts = Vec::new();
        for (id, head) in &mut table.heads {
            let is_running = self
                .cached_control(id)
                .is_some_and(|control| control.is_running());
            if is_running && !head.waits.holds(now) {
                let woken = head.take_parts();
                parts.extend(woken.into_iter().map(|part| (id.clone(), part)));
            }
        }
        drop(table);
        let wakes = stream::iter(parts).map(|(job, part)| async move {
            if let Err(error) = self.wake_part(part).await {
                // The part is open: it is scheduled when the job is due.
                let mut table = self.jobs.lock().await;
                if let Some(head) = table.heads.get_mut(&job) {
                    self.head_waits(head, &error);
                }
            }
        });
        let wakes = wakes.buffer_unordered(PARTS_AT_ONCE);
        wakes.collect::<()>().await;
    }

    async fn wake_part(&self, part: JobId) -> PortResult<()> {
        self.schedule(ScheduledItem::Job(part.clone())).await?;
        notify_coordinator(&self.ports, &CoordinatorMessage::Job(part)).await
    }

    /// Stores the results of parts whose entries have all ended, and tells the heads.
    pub(super) async fn finish_parts(&self) {
        let now = self.ports.env.now_ms();
        let table = self.jobs.lock().await;
        let due = table.open.iter().filter(|(_, job)| !job.waits.holds(now));
        let due: Vec<_> = due
            .filter_map(|(id, job)| Some((id.clone(), job.finished_part()?)))
            .collect();
        drop(table);
        let finishes = stream::iter(due).map(|(id, (key, result))| async move {
            let finished = self.finish_part(&id, &key, &result).await;
            let mut table = self.jobs.lock().await;
            match finished {
                Ok(()) => drop(table.open.remove(&id)),
                Err(error) => {
                    if let Some(job) = table.open.get_mut(&id) {
                        self.wait_after(job, JobStep::Save, &error);
                    }
                }
            }
        });
        let finishes = finishes.buffer_unordered(PARTS_AT_ONCE);
        finishes.collect::<()>().await;
    }

    async fn finish_part(&self, id: &JobId, key: &str, result: &EndedEntries) -> PortResult<()> {
        put_json(&self.ports.blobs, key, result).await?;
        self.announce_part(id).await?;
        let item = ScheduledItem::Job(id.clone());
        self.ports.ledger.unschedule(&item).await
    }

    /// Tells the head of a job that a part has a result.
    pub(super) async fn announce_part(&self, id: &JobId) -> PortResult<()> {
        let ended = CoordinatorMessage::Ended {
            job: id.split().0,
            run: RunId(id.0.clone()),
            ending: Some(RunOutcome::Done),
            tasks: 0,
        };
        notify_coordinator(&self.ports, &ended).await
    }

    /// Makes a head wait after a failed call.
    pub(super) fn head_waits(&self, head: &mut JobHead, error: &PortError) {
        if head
            .waits
            .failed(JobStep::Save, error, self.ports.env.now_ms())
        {
            tracing::warn!(job = %head.manifest.job, %error, "the job waits");
        }
    }
}
