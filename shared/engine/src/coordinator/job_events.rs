//! What happens to open jobs: they become due, their runs end, and their queues move to other coordinators.

use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_store::key::{JobId, RunHeader, RunId};
use stemma_store::port_error::{PortError, PortResult};

use super::{Coordinator, CoordinatorEvent, JobTable};
use crate::flow::Flow;
use crate::jobs::{JobStep, LoadedJob, OpenJob};
use crate::ledger::{Ledger, ScheduledItem};
use crate::message::RunOutcome;
use crate::metrics;
use crate::queue::QueueName;

// Concurrent lookups of run outcomes.
const LOOKUPS_AT_ONCE: usize = 16;

impl<W: Flow> Coordinator<W> {
    /// Loads a job or part of a job, or checks an open one for runs or parts that ended without a notification; then admits
    /// entries.
    pub(super) async fn on_job_due(&self, job: &JobId) -> PortResult<()> {
        // Perhaps the notification of a command. Those of parts come from the sweep.
        if job.split().1.is_none() {
            self.forget_pause(job);
        }
        let mut table = self.jobs.lock().await;
        if let Some(head) = table.heads.get_mut(job) {
            head.last_event_ms = self.ports.env.now_ms();
            let parts = head.open_parts();
            drop(table);
            self.check_parts(job, parts).await?;
            self.admit();
            return Ok(());
        }
        match table.open.get_mut(job) {
            None => {
                drop(table);
                let (loaded, control) =
                    tokio::join!(OpenJob::load(&self.ports, job), self.job_control(job));
                let mut table = self.jobs.lock().await;
                if !self.consumes(QueueName::flow_for(&job.0)) {
                    let text = format!("{job} belongs to another coordinator by now");
                    return Err(PortError::transient("queue.next", text));
                }
                let open = match loaded {
                    Ok(open) => open,
                    // Loaded again by the poll.
                    Err(error) => {
                        let waits = table.unloaded.entry(job.clone()).or_default();
                        if waits.failed(JobStep::Load, &error, self.ports.env.now_ms()) {
                            tracing::warn!(%job, %error, "the job cannot be loaded; it waits");
                        }
                        return Ok(());
                    }
                };
                table.unloaded.remove(job);
                let has_result = matches!(open, LoadedJob::PartEnded);
                let mut with_result = Vec::new();
                let is_open = match open {
                    LoadedJob::Open(mut open) => {
                        if let Err(error) = control {
                            self.wait_after(&mut open, JobStep::ReadControl, &error);
                        }
                        table.open.entry(job.clone()).or_insert(*open);
                        true
                    }
                    LoadedJob::Head(head) => {
                        with_result = head.open_parts();
                        table.heads.entry(job.clone()).or_insert(*head);
                        true
                    }
                    LoadedJob::PartEnded | LoadedJob::Ended => false,
                };
                drop(table);
                if has_result {
                    self.announce_part(job).await?;
                }
                self.check_parts(job, with_result).await?;
                if !is_open {
                    let item = ScheduledItem::Job(job.clone());
                    return self.ports.ledger.unschedule(&item).await;
                }
                self.schedule(ScheduledItem::Job(job.clone())).await?;
            }
            Some(open) => {
                open.last_event_ms = self.ports.env.now_ms();
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
        self.admit();
        Ok(())
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
            let ending = self.run_outcome(&header).await?;
            Ok::<_, PortError>(ending.map(|ending| (header.at.run, ending)))
        });
        let endings: Vec<Option<_>> = lookups.buffered(LOOKUPS_AT_ONCE).try_collect().await?;
        Ok(endings.into_iter().flatten().collect())
    }

    /// Registers `job` as a watcher of the run, and schedules the run. In this order: a run that ends meanwhile is due once more,
    /// and forgotten. A crash between the two leaves watchers that expire.
    pub(super) async fn watch_run(&self, job: &JobId, header: &RunHeader) -> PortResult<()> {
        self.ports.ledger.add_watcher(&header.at.run, job).await?;
        self.schedule(ScheduledItem::Run(header.at.clone())).await
    }

    /// Looks up how a run or a part ended that a job waits for. One that the job does not wait for, or that is open, is left
    /// alone: a message alone ends nothing.
    pub(super) async fn on_run_ended(
        &self,
        job: &JobId,
        run: &RunId,
        tasks: u64,
    ) -> PortResult<()> {
        let mut table = self.jobs.lock().await;
        if table.heads.contains_key(job) {
            drop(table);
            self.check_parts(job, vec![JobId(run.0.clone())]).await?;
            self.admit();
            return Ok(());
        }
        let Some(open) = table.open.get_mut(job) else {
            drop(table);
            return self.on_job_due(job).await;
        };
        open.last_event_ms = self.ports.env.now_ms();
        let waits = open.open_runs.get(run);
        let waits = waits.map(|(_, header)| header.clone());
        drop(table);
        let Some(header) = waits else {
            return Ok(());
        };
        let Some(ending) = self.run_outcome(&header).await? else {
            if let Some(repeated) = self.foreign_messages.note("ended", self.ports.env.now_ms()) {
                tracing::warn!(%job, %run, repeated, "a message says that a run has ended, but it is open");
            }
            return Ok(());
        };
        let mut table = self.jobs.lock().await;
        self.apply_run_outcome(&mut table, job, run, &ending, tasks);
        drop(table);
        self.admit();
        Ok(())
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
        let whole = open.manifest.job.clone();
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
                job: whole.clone(),
                run: Some(run.clone()),
                input,
                ending,
            });
        }
    }

    /// Drops the jobs and runs of a queue that is consumed elsewhere from now on: they take slots of its consumer. The jobs
    /// are due at once, so that the sweep wakes them there.
    pub(super) async fn release_queue(&self, queue: QueueName) {
        let is_of_queue = |id: &JobId| QueueName::flow_for(&id.0) == queue;
        let mut table = self.jobs.lock().await;
        table.unloaded.retain(|id, _| !is_of_queue(id));
        table.posted.retain(|id, _| !is_of_queue(id));
        let released: Vec<JobId> = table
            .open
            .extract_if(.., |id, _| is_of_queue(id))
            .map(|(id, _)| id)
            .collect();
        let heads = table.heads.extract_if(.., |id, _| is_of_queue(id));
        let released: Vec<JobId> = heads.map(|(id, _)| id).chain(released).collect();
        drop(table);
        self.runs
            .lock()
            .retain(|run, _| QueueName::for_run(run) != queue);
        let now = self.ports.env.now_ms();
        let items: Vec<_> = released.into_iter().map(ScheduledItem::Job).collect();
        let ledger = self.ports.ledger.raw();
        let handed = try_join_all(items.iter().map(|item| ledger.schedule(item, now))).await;
        if let Err(error) = handed {
            tracing::debug!(%queue, %error, "cannot hand jobs over at once; they are due within a minute");
        }
    }
}
