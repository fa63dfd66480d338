//! The facts behind a diagnosis, gathered with a bounded number of port calls whatever the size of the archive.

use std::collections::BTreeMap;

use futures::future::{try_join, try_join_all};

use crate::blobs::Blobs;
use crate::dead_letter::{self, DeadLetter};
use crate::env::Millis;
use crate::heartbeat::{Heartbeat, JobProgress};
use crate::jobs::JobManifest;
use crate::jobs::{self, JobControl, JobReport};
use crate::key::{JobId, Priority, RunHeader, RunId};
use crate::ledger::{OpenTask, StatusTopic};
use crate::message::RunOutcome;
use crate::port_error::{PortError, PortResult};
use crate::ports::Ports;
use crate::queue::{Depth, Lane, QueueName};

/// Snapshot of everything that the diagnosis rules read.
#[derive(Debug, Clone, Default)]
pub struct DiagnosisContext {
    pub now_ms: Millis,
    /// The job in question; `None` if unknown.
    pub job: Option<JobFacts>,
    pub run: Option<RunFacts>,
    /// Heartbeats of live processes.
    pub processes: Vec<Heartbeat>,
    /// Progress of jobs in work.
    pub jobs: Vec<JobProgress>,
    /// Fill level of the lane queues.
    pub depths: BTreeMap<(Lane, Priority), Depth>,
}

#[derive(Debug, Clone)]
pub struct JobFacts {
    pub job: JobId,
    pub submitted_ms: Millis,
    pub control: JobControl,
    /// `None` while the job has not ended.
    pub report: Option<JobReport>,
}

#[derive(Debug, Clone)]
pub struct RunFacts {
    pub run: RunId,
    pub class: Priority,
    /// `None` while the run has not ended.
    pub outcome: Option<RunOutcome>,
    /// Tasks without an outcome.
    pub tasks: Vec<OpenTask>,
    /// Number of tasks with an outcome.
    pub present: u64,
    /// Dead letters of the run.
    pub dead: Vec<DeadLetter>,
}

/// Gathers what does not depend on a job or run: heartbeats, progress and queue levels.
pub async fn gather_context(ports: &Ports, now_ms: Millis) -> PortResult<DiagnosisContext> {
    let lanes = Lane::ALL
        .into_iter()
        .flat_map(|lane| [(lane, Priority::Bulk), (lane, Priority::Interactive)]);
    let depths = lanes.map(|(lane, class)| async move {
        Ok::<_, PortError>((
            (lane, class),
            ports
                .queue
                .raw()
                .depth(QueueName::Lane(lane, class))
                .await?,
        ))
    });
    let ledger = ports.ledger.raw();
    let records = try_join(
        ledger.status_records(StatusTopic::Processes, now_ms),
        ledger.status_records(StatusTopic::Jobs, now_ms),
    );
    let ((processes, job_records), depths) = try_join(records, try_join_all(depths)).await?;
    let processes = processes
        .iter()
        .filter_map(|record| serde_json::from_slice(&record.body).ok())
        .collect();
    let jobs = JobProgress::merge(
        job_records
            .iter()
            .filter_map(|record| serde_json::from_slice(&record.body).ok()),
    );
    Ok(DiagnosisContext {
        now_ms,
        processes,
        jobs,
        depths: depths.into_iter().collect(),
        ..DiagnosisContext::default()
    })
}

/// The facts about a job.
pub async fn job_facts(blobs: &dyn Blobs, manifest: &JobManifest) -> PortResult<JobFacts> {
    Ok(JobFacts {
        job: manifest.job.clone(),
        submitted_ms: manifest.submitted_ms,
        control: jobs::load_control(blobs, &manifest.job).await?,
        report: jobs::report(blobs, &manifest.job).await?,
    })
}

/// The facts about a run that has the given outcome.
pub async fn run_facts(
    ports: &Ports,
    header: &RunHeader,
    ending: Option<RunOutcome>,
) -> PortResult<RunFacts> {
    let run = &header.at.run;
    let dead = dead_letter::list(ports.blobs.raw().as_ref(), DEAD_LETTERS_READ);
    let (tasks, dead) = try_join(ports.ledger.raw().open_tasks(run), dead).await?;
    // Reading the outcomes of a run that the ledger does not know would create state for it.
    let present = if tasks.is_empty() {
        0
    } else {
        ports.ledger.raw().outcomes(run, 0).await?.entries.len() as u64
    };
    let dead = dead
        .into_iter()
        .filter(|letter| letter.run.as_ref().is_some_and(|at| at.run == *run))
        .collect();
    Ok(RunFacts {
        run: run.clone(),
        class: header.class,
        outcome: ending,
        tasks,
        present,
        dead,
    })
}

// Dead letters searched for those of the run.
const DEAD_LETTERS_READ: usize = 200;
