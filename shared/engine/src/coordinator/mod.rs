//! The coordinator: opens runs for jobs, replays their flows, publishes the tasks they request, and republishes what is
//! overdue. Several coordinators may run and share the flow queues; each run, and each job or part of a job, belongs to the one that
//! consumes its queue.
//!
//! A handler may be interrupted at any point (lost subscription, end of the grace period). Its work is then resumed
//! from the ledger and the blobs.

mod admission;
mod closing;
mod heads;
mod job_control;
mod job_events;
mod pick;
mod run_states;
mod runs;
mod shares;
mod sweep;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex as StdMutex;
use stemma_store::key::{JobId, RunHeader, RunId};
use stemma_store::latency::LatencyHistogram;
use stemma_store::port_error::PortResult;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::consumer::{Consumer, Disposition, Handler};
use crate::dead_letter::DeadLetterHandler;
use crate::flow::Flow;
use crate::heartbeat::{HeartbeatReporter, JobProgress, RunProgress};
use crate::jobs::{JobHead, JobReport, JobWaits, OpenJob};
use crate::message::{CoordinatorMessage, RunOutcome};
use crate::ports::Ports;
use crate::queue::{Message, QueueName, RetryDelay};
use crate::repeated_log::RepeatedLog;
use crate::round_robin::DeficitRoundRobin;
use crate::settings::SettingsCache;
use crate::zero_counters;

// Concurrent messages per flow queue. Completions of one run wait for the replay that covers them, so this must be
// well above the number of runs that replay at once.
const MESSAGES_AT_ONCE: u16 = 64;
// How long handlers may run after a stop.
const GRACE: Duration = Duration::from_secs(10);
// Deliveries of a message that the sweep repeats anyway, before it is dropped while a port is unavailable.
const MAX_WAKE_ATTEMPTS: u32 = 3;

/// Reported as it happens, for progress bars and metrics.
#[derive(Debug, Clone, PartialEq)]
pub enum CoordinatorEvent {
    Opened {
        job: JobId,
        header: Box<RunHeader>,
    },
    Replayed {
        run: RunId,
        progress: RunProgress,
    },
    EntryEnded {
        job: JobId,
        /// The run; `None` when the entry ended without one.
        run: Option<RunId>,
        /// The submitted input.
        input: Box<serde_json::Value>,
        ending: RunOutcome,
    },
    JobEnded(Box<JobReport>),
}

/// Callback for events; must not block.
pub type Observer = Arc<dyn Fn(CoordinatorEvent) + Send + Sync>;

/// Drives the jobs and runs of one kind of work.
pub struct Coordinator<W: Flow> {
    ports: Ports,
    // Maximum number of runs open at once.
    open_documents: usize,
    observer: Observer,
    heartbeat: Arc<HeartbeatReporter>,
    settings: SettingsCache<W>,
    latencies: Arc<LatencyHistogram>,
    runs: StdMutex<HashMap<RunId, Arc<runs::RunSlot<W>>>>,
    ended_runs: StdMutex<runs::EndedRuns>,
    job_controls: StdMutex<job_control::JobControlCache>,
    run_states: run_states::RunStates,
    jobs: Mutex<JobTable>,
    // Wake the tasks that admit entries and close jobs.
    admission: Notify,
    closing: Notify,
    // The flow queues with a subscription here, as bits.
    consumed: AtomicU32,
    // What others than this program may have sent, and as often as they like.
    foreign_messages: RepeatedLog,
}

#[derive(Default)]
struct JobTable {
    // Jobs and parts of jobs, by their ids.
    open: BTreeMap<JobId, OpenJob>,
    // Jobs that are divided into parts.
    heads: BTreeMap<JobId, JobHead>,
    // Jobs that could not be loaded.
    unloaded: BTreeMap<JobId, JobWaits>,
    round_robin: DeficitRoundRobin,
    // The progress last posted for each job.
    posted: BTreeMap<JobId, JobProgress>,
}

impl<W: Flow> Coordinator<W> {
    /// A coordinator that opens at most `open_documents` runs at once and reports as the process of `heartbeat`.
    pub fn new(
        ports: Ports,
        open_documents: usize,
        observer: Observer,
        heartbeat: Arc<HeartbeatReporter>,
    ) -> Arc<Self> {
        zero_counters::register_coordinator();
        Arc::new(Self {
            ports,
            open_documents: open_documents.max(1),
            observer,
            heartbeat,
            settings: SettingsCache::default(),
            latencies: Arc::default(),
            runs: StdMutex::default(),
            ended_runs: StdMutex::default(),
            job_controls: StdMutex::default(),
            run_states: run_states::RunStates::default(),
            jobs: Mutex::default(),
            admission: Notify::new(),
            closing: Notify::new(),
            consumed: AtomicU32::default(),
            foreign_messages: RepeatedLog::default(),
        })
    }

    /// Runs until `stop`, then drains. Dropping the future aborts everything, like a crash.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut parts = JoinSet::new();
        parts.spawn(Arc::clone(&self).consume_flows(stop.clone()));
        let dead_letters = DeadLetterHandler::<W>::new(self.ports.clone());
        let dead = self.consumer(QueueName::Dead, 1);
        parts.spawn(dead.run(Arc::new(dead_letters), stop.clone()));
        parts.spawn(Arc::clone(&self).run_admission(stop.clone()));
        parts.spawn(Arc::clone(&self).run_closing(stop.clone()));
        parts.spawn(Arc::clone(&self).sweep(stop.clone()));
        parts.spawn(Arc::clone(&self).poll_job_controls(stop.clone()));
        parts.spawn(Arc::clone(&self).scan(stop));
        while let Some(part) = parts.join_next().await {
            if let Err(error) = part {
                tracing::error!(%error, "a coordinator task ended early");
            }
        }
    }

    fn consumer(&self, name: QueueName, concurrency: u16) -> Consumer {
        Consumer {
            env: self.ports.env.clone(),
            queue: self.ports.queue.clone(),
            name,
            concurrency,
            grace: GRACE,
            heartbeat: Arc::clone(&self.heartbeat),
        }
    }

    async fn dispatch(&self, message: CoordinatorMessage) -> PortResult<runs::Handled> {
        match message {
            CoordinatorMessage::Completed(run) => return self.replay(&run, false).await,
            CoordinatorMessage::Wake(run) => return self.replay(&run, true).await,
            CoordinatorMessage::Job(job) => self.on_job_due(&job).await?,
            CoordinatorMessage::Ended {
                job, run, tasks, ..
            } => self.on_run_ended(&job, &run, tasks).await?,
            CoordinatorMessage::Abandoned { job, run, resumed } => {
                match resumed {
                    true => self.forget_pause(&job),
                    false => self.forget_control(&job),
                }
                return self.replay(&run, true).await;
            }
        }
        Ok(runs::Handled::Here)
    }
}

#[async_trait]
impl<W: Flow> Handler for Coordinator<W> {
    async fn handle(&self, message: &Message, _redeliveries: u32) -> Disposition {
        let decoded: CoordinatorMessage = match serde_json::from_slice(&message.body) {
            Ok(decoded) => decoded,
            Err(error) => {
                return Disposition::DeadLetter(format!(
                    "it is not a coordinator message: {error}"
                ));
            }
        };
        let keys = &self.ports.message_keys;
        if let Err(refusal) = keys.admit_notification::<W>(message, &decoded) {
            return Disposition::Refuse(refusal.to_string());
        }
        // The sweep repeats wake-ups. If they were retried as well, they would pile up while a port is unavailable.
        let repeated = matches!(
            decoded,
            CoordinatorMessage::Wake(_) | CoordinatorMessage::Job(_)
        );
        let queue = decoded.queue();
        match self.dispatch(decoded).await {
            Ok(runs::Handled::Here) => Disposition::Ack,
            // Not acknowledged at once: until its run is woken, a newer coordinator would not know of it.
            Ok(runs::Handled::Elsewhere) => {
                let attempts = message.attempts.saturating_add(1);
                let is_repeated = repeated || attempts > MAX_WAKE_ATTEMPTS;
                Disposition::HandOver {
                    attempts: (!is_repeated).then_some(attempts),
                }
            }
            Err(error) if repeated && message.attempts >= MAX_WAKE_ATTEMPTS => {
                tracing::warn!(%queue, %error, "a port is unavailable; the sweep will repeat the wake-up");
                Disposition::Ack
            }
            Err(error) => {
                tracing::warn!(%queue, attempts = message.attempts, %error, "a port is unavailable; the message will be redelivered");
                Disposition::Retry {
                    delay: RetryDelay::Short,
                    attempts: message.attempts.saturating_add(1),
                    retry_ms: None,
                }
            }
        }
    }
}
