//! What people say about open jobs while they run (cancel, pause, priority), and what jobs say about themselves.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::future::try_join_all;
use tokio_util::sync::CancellationToken;

use super::{Coordinator, JobTable};
use crate::env::Millis;
use crate::flow::Flow;
use crate::jobs::{self, CancelReason, Standing};
use crate::key::{JobId, RunHeader, RunId, RunRef};
use crate::ledger::{Board, Notice};
use crate::message::{News, encode};
use crate::port::{PortError, ask};
use crate::presence::{JobProgress, SILENT_AFTER};
use crate::queue::QueueName;
use crate::run::{PATIENCE_MS, Progress};

/// How often open jobs are attended to.
const ATTEND_EVERY: Duration = Duration::from_secs(1);
/// How long it is believed where a job stands.
const STANDING_MS: Millis = 1_000;
/// Standings remembered before old ones are forgotten.
const STANDINGS_KEPT: usize = 1_000;
/// How long after the last news of a job it is spoken for: every job is woken each minute.
const SPOKEN_FOR_MS: Millis = 3 * PATIENCE_MS;
/// Open runs named in a job's progress.
const RUNS_NAMED: usize = 16;
/// Runs told at once that a job was cancelled.
const TOLD_AT_ONCE: usize = 500;

/// Where jobs stand, and when that was read.
#[derive(Default)]
pub(super) struct Standings(HashMap<JobId, (Millis, Standing)>);

/// Whether new work of a run is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    Wanted,
    /// Not now: every job that waits for it is paused.
    Held,
    /// Never: every job that waited for it was cancelled.
    Abandoned,
}

impl<W: Flow> Coordinator<W> {
    /// Where a job stands, as of at most a second ago.
    pub(super) async fn standing(&self, job: &JobId) -> Result<Standing, PortError> {
        let now = self.env.now_ms();
        let known = self
            .standings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .get(job)
            .copied();
        match known {
            Some((read_ms, standing))
                if standing.cancelled.is_some() || now < read_ms + STANDING_MS =>
            {
                Ok(standing)
            }
            _ => {
                let standing =
                    ask(&self.env, || jobs::standing(self.ports.blobs.as_ref(), job)).await?;
                let mut standings = self
                    .standings
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                if standings.0.len() >= STANDINGS_KEPT {
                    standings
                        .0
                        .retain(|_, (read_ms, _)| now < *read_ms + STANDING_MS);
                }
                standings.0.insert(job.clone(), (now, standing));
                Ok(standing)
            }
        }
    }

    /// Whether anyone waits for a run. Almost always the job that opened it does; only where it does not, the ledger is
    /// asked for others.
    pub(super) async fn demand(&self, run: &RunHeader) -> Result<Demand, PortError> {
        if self.standing(&run.opened_by).await?.is_running() {
            return Ok(Demand::Wanted);
        }
        let mut waiting = ask(&self.env, || self.ports.ledger.watchers(&run.at.run)).await?;
        if waiting.is_empty() {
            waiting.push(run.opened_by.clone());
        }
        let mut demand = Demand::Abandoned;
        for job in waiting {
            match self.standing(&job).await? {
                standing if standing.is_running() => return Ok(Demand::Wanted),
                standing if standing.cancelled.is_none() => demand = Demand::Held,
                _ => {}
            }
        }
        Ok(demand)
    }

    /// A job that waited for a run was cancelled.
    pub(super) async fn abandoned(&self, job: JobId, run: &RunRef) -> Result<(), PortError> {
        self.standings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .remove(&job);
        self.replay(run, true).await
    }

    /// Ends jobs that were cancelled, or have more failures than they allow. What waits only for them is told first: a
    /// job without a report is closed again.
    pub(super) async fn close_cancelled(&self, table: &mut JobTable) -> Result<(), PortError> {
        for (id, job) in &mut table.open {
            if job.failed_too_much() {
                jobs::cancel(&self.env, &self.ports, id, CancelReason::TooManyFailed).await?;
                self.standings
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
                    .remove(id);
            }
            if let Some(cancelled) = self.standing(id).await?.cancelled {
                let runs: Vec<RunRef> = job
                    .open
                    .values()
                    .map(|(_, header)| header.at.clone())
                    .collect();
                self.tell_abandoned(id, runs).await?;
                job.close(cancelled);
            }
        }
        Ok(())
    }

    async fn tell_abandoned(&self, job: &JobId, runs: Vec<RunRef>) -> Result<(), PortError> {
        let mut news: BTreeMap<QueueName, Vec<_>> = BTreeMap::new();
        for run in runs {
            let queue = QueueName::of_run(&run.run);
            news.entry(queue)
                .or_default()
                .push(encode(&News::Abandoned {
                    job: job.clone(),
                    run,
                })?);
        }
        let tell = news.iter().map(|(queue, news)| async move {
            for batch in news.chunks(TOLD_AT_ONCE) {
                ask(&self.env, || {
                    self.ports.queue.publish(*queue, batch.to_vec())
                })
                .await?;
            }
            Ok::<_, PortError>(())
        });
        try_join_all(tell).await.map(|_| ())
    }

    /// Looks every second at what was said about open jobs, and says how far they are.
    pub(super) async fn attend(self: Arc<Self>, stop: CancellationToken) {
        while self.pause(ATTEND_EVERY, &stop).await {
            if let Err(error) = self.attend_once().await {
                tracing::debug!(%error, "jobs not attended to; done again");
            }
        }
    }

    async fn attend_once(&self) -> Result<(), PortError> {
        let mut table = self.jobs.lock().await;
        let mut changed = false;
        let mut resumed = Vec::new();
        for (id, job) in &mut table.open {
            let standing = self.standing(id).await?;
            changed |= standing.cancelled.is_some();
            if job.paused && standing.is_running() {
                resumed.extend(job.open.values().map(|(_, header)| header.at.clone()));
                changed = true;
            }
            job.paused = standing.paused.is_some();
        }
        for at in &resumed {
            self.wake(at).await?;
        }
        if changed {
            self.admit(&mut table).await?;
        }
        self.post(&mut table).await
    }

    /// Says how far jobs are, where that has changed or would be forgotten.
    pub(super) async fn post(&self, table: &mut JobTable) -> Result<(), PortError> {
        let now = self.env.now_ms();
        let mut tasks = self.tasks_by_job();
        let mut notices = Vec::new();
        for (id, job) in table
            .open
            .iter()
            .filter(|(_, job)| job.heard_ms + SPOKEN_FOR_MS > now)
        {
            let mut said = self.progress_of(id, tasks.remove(id).unwrap_or_default(), now);
            said.entries = job.manifest.entries;
            said.counts = job.counts().clone();
            said.open = job.open.len() as u64;
            said.runs = job.open.keys().take(RUNS_NAMED).cloned().collect();
            notices.push(said);
        }
        notices.extend(
            tasks
                .into_iter()
                .map(|(id, progress)| self.progress_of(&id, progress, now)),
        );
        table
            .said
            .retain(|id, _| notices.iter().any(|said| said.job == *id));
        for said in notices {
            let news = table.said.get(&said.job).is_none_or(|last| {
                let stale = last.at_ms + SILENT_AFTER.as_millis() as Millis / 3 < now;
                stale
                    || JobProgress {
                        at_ms: last.at_ms,
                        ..said.clone()
                    } != *last
            });
            if news {
                self.post_one(&said, now).await?;
                table.said.insert(said.job.clone(), said);
            }
        }
        Ok(())
    }

    async fn post_one(&self, said: &JobProgress, now: Millis) -> Result<(), PortError> {
        let body = serde_json::to_vec(said)
            .map_err(|error| PortError::lasting("ledger", "post", error.to_string()))?;
        let name = format!("{}.{}", said.job, said.coordinator);
        let notice = Notice {
            name,
            body: body.into(),
            until_ms: now + SILENT_AFTER.as_millis() as Millis,
        };
        // Not asked twice: the next word comes in a second.
        self.ports.ledger.post(Board::Jobs, notice, now).await
    }

    fn progress_of(&self, job: &JobId, tasks: Progress, now: Millis) -> JobProgress {
        JobProgress {
            job: job.clone(),
            coordinator: self.presence.process().into(),
            at_ms: now,
            entries: 0,
            counts: jobs::Counts::default(),
            open: 0,
            tasks_present: tasks.present as u64,
            tasks_missing: tasks.missing as u64,
            runs: Vec::<RunId>::new(),
        }
    }
}
