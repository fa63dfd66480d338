//! The coordinator: takes up jobs, opens runs, replays their flows, publishes what they want, and looks after what is
//! overdue. Any number of them may run; a run and a job are each looked after by the one that consumes their queue.
//!
//! Any handler may be cut off at any point (a lost subscription, the end of the grace period): what it had in its
//! hands is then taken up again from the ledger and the blobs.

mod admission;
mod job_control;
mod runs;
mod sweep;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::consumer::{Consumer, Disposition, Handler};
use crate::dead_letter::DeadLetterHandler;
use crate::env::Env;
use crate::flow::Flow;
use crate::heartbeat::{HeartbeatReporter, JobProgress};
use crate::jobs::{JobReport, OpenJob};
use crate::key::{JobId, RunHeader, RunId};
use crate::latency::LatencyHistogram;
use crate::message::{CoordinatorMessage, RunOutcome};
use crate::port_error::PortError;
use crate::ports::Ports;
use crate::queue::{Message, QueueName, RetryDelay};
use crate::round_robin::DeficitRoundRobin;
use crate::run::RunProgress;
use crate::settings::SettingsCache;

/// News handled at once per flow queue: completions wait for the replay that covers them.
const MESSAGES_AT_ONCE: u16 = 64;
/// How long handlers may go on after a stop.
const GRACE: Duration = Duration::from_secs(10);
/// How often news that the sweep would bring again is tried when a port is away.
const MAX_WAKE_ATTEMPTS: u32 = 3;

/// What a coordinator reports as it happens: for progress bars and metrics.
#[derive(Debug, Clone, PartialEq)]
pub enum CoordinatorEvent {
    /// A run was opened for a job.
    Opened {
        /// The job.
        job: JobId,
        /// The run.
        header: Box<RunHeader>,
    },
    /// A run was replayed.
    Replayed {
        /// The run.
        run: RunId,
        /// How far it is.
        progress: RunProgress,
    },
    /// An entry of a job ended.
    EntryEnded {
        /// The job.
        job: JobId,
        /// The run; `None` when the entry ended without one.
        run: Option<RunId>,
        /// What was submitted.
        input: Box<serde_json::Value>,
        /// How it ended.
        ending: RunOutcome,
    },
    /// A job ended.
    JobEnded(Box<JobReport>),
}

/// Told of events; must not block.
pub type Observer = Arc<dyn Fn(CoordinatorEvent) + Send + Sync>;

/// Drives runs and jobs of one kind of work.
pub struct Coordinator<W: Flow> {
    env: Env,
    ports: Ports,
    /// Runs open at once.
    open_documents: usize,
    observer: Observer,
    presence: Arc<HeartbeatReporter>,
    settings: SettingsCache<W>,
    latencies: Arc<LatencyHistogram>,
    runs: StdMutex<HashMap<RunId, Arc<runs::RunSlot<W>>>>,
    ended_runs: StdMutex<runs::EndedRuns>,
    job_controls: StdMutex<job_control::JobControlCache>,
    jobs: Mutex<JobTable>,
}

#[derive(Default)]
struct JobTable {
    open: BTreeMap<JobId, OpenJob>,
    round_robin: DeficitRoundRobin,
    /// What was said last about each job.
    posted: BTreeMap<JobId, JobProgress>,
}

impl<W: Flow> Coordinator<W> {
    /// A coordinator in the process of `heartbeat` that opens at most `open_documents` runs at once.
    pub fn new(
        env: Env,
        ports: Ports,
        open_documents: usize,
        observer: Observer,
        presence: Arc<HeartbeatReporter>,
    ) -> Arc<Self> {
        Arc::new(Self {
            env,
            ports,
            open_documents: open_documents.max(1),
            observer,
            presence,
            settings: SettingsCache::default(),
            latencies: Arc::default(),
            runs: StdMutex::default(),
            ended_runs: StdMutex::default(),
            job_controls: StdMutex::default(),
            jobs: Mutex::default(),
        })
    }

    /// Coordinates until `stop`, then drains. Dropping the future ends everything at once, as a crash would.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let consumer = |name, concurrency| Consumer {
            env: self.env.clone(),
            queue: Arc::clone(&self.ports.queue),
            name,
            concurrency,
            grace: GRACE,
            presence: Arc::clone(&self.presence),
        };
        let handler: Arc<dyn Handler> = Arc::<Self>::clone(&self);
        let mut parts = JoinSet::new();
        for name in QueueName::flows() {
            parts.spawn(consumer(name, MESSAGES_AT_ONCE).run(Arc::clone(&handler), stop.clone()));
        }
        let dead_letters = Arc::new(DeadLetterHandler {
            env: self.env.clone(),
            ports: self.ports.clone(),
        });
        parts.spawn(consumer(QueueName::Dead, 1).run(dead_letters, stop.clone()));
        parts.spawn(Arc::clone(&self).sweep(stop.clone()));
        parts.spawn(Arc::clone(&self).poll_job_controls(stop.clone()));
        parts.spawn(Arc::clone(&self).scan(stop));
        while let Some(part) = parts.join_next().await {
            if let Err(error) = part {
                tracing::error!(%error, "a part of the coordinator ended early");
            }
        }
    }

    async fn dispatch(&self, message: CoordinatorMessage) -> Result<(), PortError> {
        match message {
            CoordinatorMessage::Completed(run) => self.replay(&run, false).await,
            CoordinatorMessage::Wake(run) => self.replay(&run, true).await,
            CoordinatorMessage::Job(job) => self.on_job_due(&job).await,
            CoordinatorMessage::Ended {
                job,
                run,
                ending,
                tasks,
            } => self.on_run_ended(&job, &run, &ending, tasks).await,
            CoordinatorMessage::Abandoned { job, run } => self.on_run_abandoned(job, &run).await,
        }
    }
}

#[async_trait]
impl<W: Flow> Handler for Coordinator<W> {
    async fn handle(&self, message: &Message, _redeliveries: u32) -> Disposition {
        let decoded: CoordinatorMessage = match serde_json::from_slice(&message.body) {
            Ok(decoded) => decoded,
            Err(error) => {
                tracing::error!(%error, "news that cannot be read");
                return Disposition::DeadLetter;
            }
        };
        // Wake-ups come from an index that repeats them: kept as well, they would pile up while a port is away.
        let repeated = matches!(
            decoded,
            CoordinatorMessage::Wake(_) | CoordinatorMessage::Job(_)
        );
        match self.dispatch(decoded).await {
            Ok(()) => Disposition::Ack,
            Err(error) if repeated && message.attempts >= MAX_WAKE_ATTEMPTS => {
                tracing::warn!(%error, "a port is away; left to the sweep");
                Disposition::Ack
            }
            Err(error) => {
                tracing::warn!(%error, "a port is away; the news comes again");
                Disposition::Retry {
                    delay: RetryDelay::Short,
                    attempts: message.attempts.saturating_add(1),
                }
            }
        }
    }
}
