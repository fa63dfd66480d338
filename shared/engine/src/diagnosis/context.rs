//! What a diagnosis reads, and how it is gathered: a bounded number of questions to the ports, whatever the size of the
//! archive.

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
use crate::port_error::PortError;
use crate::ports::Ports;
use crate::queue::{Depth, Lane, QueueName};

/// Everything a diagnosis rests on, as it was at one moment.
#[derive(Debug, Clone, Default)]
pub struct DiagnosisContext {
    /// The moment.
    pub now_ms: Millis,
    /// The job that waits; `None` where none is known to.
    pub job: Option<JobFacts>,
    /// The run in question.
    pub run: Option<RunFacts>,
    /// Processes that live.
    pub processes: Vec<Heartbeat>,
    /// Jobs in work.
    pub jobs: Vec<JobProgress>,
    /// How full the lanes are.
    pub depths: BTreeMap<(Lane, Priority), Depth>,
}

/// What is known of a job.
#[derive(Debug, Clone)]
pub struct JobFacts {
    /// The job.
    pub job: JobId,
    /// When it was submitted.
    pub submitted_ms: Millis,
    /// What was said about it.
    pub control: JobControl,
    /// How it ended, if it has.
    pub report: Option<JobReport>,
}

/// What is known of a run.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// The run.
    pub run: RunId,
    /// Who waits for it.
    pub class: Priority,
    /// How it ended, if it has.
    pub outcome: Option<RunOutcome>,
    /// Its tasks that have no outcome.
    pub tasks: Vec<OpenTask>,
    /// Its tasks that have one.
    pub present: u64,
    /// Its dead letters.
    pub dead: Vec<DeadLetter>,
}

/// Gathers what is common to all questions: boards and lanes.
///
/// # Errors
/// [`PortError`] when a port is away.
pub async fn gather_context(ports: &Ports, now_ms: Millis) -> Result<DiagnosisContext, PortError> {
    let lanes = Lane::ALL
        .into_iter()
        .flat_map(|lane| [(lane, Priority::Bulk), (lane, Priority::Interactive)]);
    let depths = lanes.map(|(lane, class)| async move {
        Ok::<_, PortError>((
            (lane, class),
            ports.queue.depth(QueueName::Lane(lane, class)).await?,
        ))
    });
    let ledger = &ports.ledger;
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

/// What is known of a job.
///
/// # Errors
/// [`PortError`] when the store is away.
pub async fn job_facts(blobs: &dyn Blobs, manifest: &JobManifest) -> Result<JobFacts, PortError> {
    Ok(JobFacts {
        job: manifest.job.clone(),
        submitted_ms: manifest.submitted_ms,
        control: jobs::load_control(blobs, &manifest.job).await?,
        report: jobs::report(blobs, &manifest.job).await?,
    })
}

/// What is known of a run that ended as `outcome` says.
///
/// # Errors
/// [`PortError`] when a port is away.
pub async fn run_facts(
    ports: &Ports,
    header: &RunHeader,
    ending: Option<RunOutcome>,
) -> Result<RunFacts, PortError> {
    let run = &header.at.run;
    let dead = dead_letter::list(ports.blobs.as_ref(), DEAD_LETTERS_READ);
    let (tasks, dead) = try_join(ports.ledger.open_tasks(run), dead).await?;
    // Nothing that no one wants any more is asked for its outcomes: that would begin a memory of the run.
    let present = if tasks.is_empty() {
        0
    } else {
        ports.ledger.outcomes(run, 0).await?.entries.len() as u64
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

/// Dead letters looked through for those of a run.
const DEAD_LETTERS_READ: usize = 200;
