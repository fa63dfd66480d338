//! The facts behind a diagnosis, gathered with a bounded number of port calls whatever the size of the archive.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{join3, try_join, try_join_all};
use serde::de::DeserializeOwned;
use stemma_store::env::Millis;
use stemma_store::key::{JobId, Priority, RunHeader, RunId};
use stemma_store::port_error::{PortError, PortResult};

use super::servers::{ServerTrouble, reported_troubles};
use crate::dead_letter::{self, DeadLetter};
use crate::heartbeat::{HEARTBEAT_INTERVAL, Heartbeat, JobProgress};
use crate::jobs::{self, JobControl, JobManifest, JobReport};
use crate::ledger::{self, OpenTask, StatusRecord, StatusTopic};
use crate::message::RunOutcome;
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
    /// Servers in trouble; what only they know is missing here.
    pub troubles: Vec<ServerTrouble>,
}

#[derive(Debug, Clone)]
pub struct JobFacts {
    pub job: JobId,
    pub submitted_ms: Millis,
    pub control: JobControl,
    /// `None` while the job has not ended.
    pub report: Option<JobReport>,
    /// The queue of its messages to coordinators, if none takes them.
    pub untaken: Option<QueueName>,
}

#[derive(Debug, Clone)]
pub struct RunFacts {
    pub run: RunId,
    /// Blob prefix of its document.
    pub scope: String,
    pub priority: Priority,
    /// `None` while the run has not ended.
    pub outcome: Option<RunOutcome>,
    /// Tasks without an outcome.
    pub tasks: Vec<OpenTask>,
    /// Number of tasks with an outcome.
    pub present: u64,
    /// Dead letters of the run.
    pub dead: Vec<DeadLetter>,
    /// The queue of its messages to coordinators, if none takes them.
    pub untaken: Option<QueueName>,
}

/// How long broker and Redis are waited for. People wait for the answer, and ask when servers are unavailable.
const LOOK_TIMEOUT: Duration = Duration::from_millis(1_500);
/// How often Redis is asked again while it knows of no coordinator, worker or assembler.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// After this time every live process has posted a heartbeat, also to a Redis that was empty.
const ALL_POSTED: Duration = HEARTBEAT_INTERVAL.saturating_add(LOOK_AGAIN);

/// Gathers what does not depend on a job or run: heartbeats, progress and queue levels. A server that does not answer is
/// one of the facts.
pub async fn gather_context(ports: &Ports) -> DiagnosisContext {
    gather(ports, ALL_POSTED).await
}

/// Like [`gather_context`], for pages that look again soon: does not wait for processes that have not posted yet.
pub async fn gather_context_at_once(ports: &Ports) -> DiagnosisContext {
    gather(ports, Duration::ZERO).await
}

async fn gather(ports: &Ports, patience: Duration) -> DiagnosisContext {
    let status = read_status(ports, patience);
    let depths = within(LOOK_TIMEOUT, "queue.depth", read_depths(ports));
    // No process can post a heartbeat to a Redis that is full, and the last ones are read all the same.
    let writable = ledger::check_writable(ports.ledger.raw().as_ref());
    let writable = within(LOOK_TIMEOUT, "ledger.post", writable);
    let (status, depths, writable) = join3(status, depths, writable).await;
    let redis = status.as_ref().err().or(writable.as_ref().err());
    let troubles = [redis, depths.as_ref().err()].into_iter().flatten();
    let mut troubles: Vec<_> = troubles.filter_map(ServerTrouble::from_error).collect();
    let (processes, jobs) = status.unwrap_or_default();
    troubles.extend(reported_troubles(&processes));
    DiagnosisContext {
        now_ms: ports.env.now_ms(),
        processes,
        jobs,
        depths: depths.unwrap_or_default(),
        troubles,
        ..DiagnosisContext::default()
    }
}

async fn within<T>(
    limit: Duration,
    operation: &'static str,
    read: impl Future<Output = PortResult<T>>,
) -> PortResult<T> {
    let read = tokio::time::timeout(limit, read).await;
    read.unwrap_or_else(|_| Err(PortError::transient(operation, "no answer in time")))
}

// Heartbeats of processes, and progress of jobs. A Redis that was emptied a moment ago knows of no process until the next
// heartbeats, so it is asked until then.
async fn read_status(
    ports: &Ports,
    patience: Duration,
) -> PortResult<(Vec<Heartbeat>, Vec<JobProgress>)> {
    let until_ms = ports.env.now_ms() + patience.as_millis() as Millis;
    loop {
        let now = ports.env.now_ms();
        let ledger = ports.ledger.raw();
        let processes = ledger.status_records(StatusTopic::Processes, now);
        let jobs = ledger.status_records(StatusTopic::Jobs, now);
        let records = within(LOOK_TIMEOUT, "ledger.status", try_join(processes, jobs));
        let (processes, jobs) = records.await?;
        let processes: Vec<Heartbeat> = decode(&processes).collect();
        if has_all_services(&processes) || now >= until_ms {
            return Ok((processes, JobProgress::merge(decode(&jobs))));
        }
        ports.env.sleep(LOOK_AGAIN).await;
    }
}

fn decode<T: DeserializeOwned>(records: &[StatusRecord]) -> impl Iterator<Item = T> {
    records
        .iter()
        .filter_map(|record| serde_json::from_slice(&record.body).ok())
}

fn has_all_services(processes: &[Heartbeat]) -> bool {
    ["coordinator", "worker", "assembler"]
        .into_iter()
        .all(|service| {
            let mut alive = processes.iter().map(|process| process.service.as_str());
            alive.any(|other| other == service || other == "all")
        })
}

async fn read_depths(ports: &Ports) -> PortResult<BTreeMap<(Lane, Priority), Depth>> {
    let lanes = Lane::ALL
        .into_iter()
        .flat_map(|lane| [(lane, Priority::Bulk), (lane, Priority::Interactive)]);
    let depths = lanes.map(|(lane, priority)| async move {
        let queues = QueueName::for_lane(lane, priority);
        let depths = try_join_all(queues.map(|queue| ports.queue.raw().depth(queue))).await?;
        let depth = depths.into_iter().fold(Depth::default(), Depth::plus);
        Ok::<_, PortError>(((lane, priority), depth))
    });
    Ok(try_join_all(depths).await?.into_iter().collect())
}

// The queue, if the broker says that nobody consumes it.
async fn untaken(ports: &Ports, flow: QueueName) -> Option<QueueName> {
    let depth = within(LOOK_TIMEOUT, "queue.depth", ports.queue.raw().depth(flow)).await;
    depth
        .is_ok_and(|depth| depth.consumers == 0)
        .then_some(flow)
}

/// The facts about a job.
pub async fn job_facts(ports: &Ports, manifest: &JobManifest) -> PortResult<JobFacts> {
    let blobs = ports.blobs.raw().as_ref();
    Ok(JobFacts {
        untaken: untaken(ports, QueueName::flow_for(&manifest.job.0)).await,
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
    let dead = dead_letter::for_run(ports.blobs.raw().as_ref(), &header.at);
    let (tasks, dead) = try_join(ports.ledger.raw().open_tasks(run), dead).await?;
    // Reading the outcomes of a run that the ledger does not know would create state for it.
    let present = if tasks.is_empty() {
        0
    } else {
        ports.ledger.raw().outcomes(run, 0).await?.entries.len() as u64
    };
    Ok(RunFacts {
        untaken: untaken(ports, QueueName::for_run(run)).await,
        run: run.clone(),
        scope: header.at.scope.clone(),
        priority: header.priority,
        outcome: ending,
        tasks,
        present,
        dead,
    })
}
