//! The coordinator: takes up jobs, opens runs, replays their flows, publishes what they want, and looks after what is
//! overdue. Any number of them may run; a run and a job are each looked after by the one that consumes their queue.
//!
//! Any handler may be cut off at any point (a lost subscription, the end of the grace period): what it had in its
//! hands is then taken up again from the ledger and the blobs.

mod admit;
mod attend;
mod runs;
mod sweep;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::admission::Fairness;
use crate::consume::{Consumer, Disposition, Handler};
use crate::env::Env;
use crate::flow::Flow;
use crate::jobs::{OpenJob, Report};
use crate::key::{JobId, RunHeader, RunId};
use crate::message::{Ending, News};
use crate::perform::Undertaker;
use crate::port::PortError;
use crate::ports::Ports;
use crate::presence::{JobProgress, Presence};
use crate::queue::{Message, QueueName, Rung};
use crate::run::Progress;
use crate::settings::SettingsCache;
use crate::waits::Waits;

pub use runs::run_failure_key;

/// News handled at once per flow queue: completions wait for the replay that covers them.
const NEWS_AT_ONCE: u16 = 64;
/// How long handlers may go on after a stop.
const GRACE: Duration = Duration::from_secs(10);
/// How often news that the sweep would bring again is tried when a port is away.
const WAKE_TRIES: u32 = 3;

/// What a coordinator reports as it happens: for progress bars and metrics.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
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
        progress: Progress,
    },
    /// An entry of a job ended.
    Ended {
        /// The job.
        job: JobId,
        /// The run; `None` when the entry ended without one.
        run: Option<RunId>,
        /// What was submitted.
        input: Box<serde_json::Value>,
        /// How it ended.
        ending: Ending,
    },
    /// A job ended.
    JobEnded(Box<Report>),
}

/// Told of events; must not block.
pub type Observer = Arc<dyn Fn(Event) + Send + Sync>;

/// Drives runs and jobs of one kind of work.
pub struct Coordinator<W: Flow> {
    env: Env,
    ports: Ports,
    /// Runs open at once.
    open_documents: usize,
    observer: Observer,
    presence: Arc<Presence>,
    settings: SettingsCache<W>,
    waits: Arc<Waits>,
    runs: StdMutex<HashMap<RunId, Arc<runs::Slot<W>>>>,
    ended: StdMutex<runs::Recent>,
    standings: StdMutex<attend::Standings>,
    jobs: Mutex<JobTable>,
}

#[derive(Default)]
struct JobTable {
    open: BTreeMap<JobId, OpenJob>,
    fairness: Fairness,
    /// What was said last about each job.
    said: BTreeMap<JobId, JobProgress>,
}

impl<W: Flow> Coordinator<W> {
    /// A coordinator in the process of `presence` that opens at most `open_documents` runs at once.
    pub fn new(
        env: Env,
        ports: Ports,
        open_documents: usize,
        observer: Observer,
        presence: Arc<Presence>,
    ) -> Arc<Self> {
        Arc::new(Self {
            env,
            ports,
            open_documents: open_documents.max(1),
            observer,
            presence,
            settings: SettingsCache::default(),
            waits: Arc::default(),
            runs: StdMutex::default(),
            ended: StdMutex::default(),
            standings: StdMutex::default(),
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
        let news: Arc<dyn Handler> = Arc::<Self>::clone(&self);
        let mut parts = JoinSet::new();
        for name in QueueName::flows() {
            parts.spawn(consumer(name, NEWS_AT_ONCE).run(Arc::clone(&news), stop.clone()));
        }
        let undertaker = Arc::new(Undertaker {
            env: self.env.clone(),
            ports: self.ports.clone(),
        });
        parts.spawn(consumer(QueueName::Dead, 1).run(undertaker, stop.clone()));
        parts.spawn(Arc::clone(&self).sweep(stop.clone()));
        parts.spawn(Arc::clone(&self).attend(stop.clone()));
        parts.spawn(Arc::clone(&self).scan(stop));
        while let Some(part) = parts.join_next().await {
            if let Err(error) = part {
                tracing::error!(%error, "a part of the coordinator ended early");
            }
        }
    }

    async fn news(&self, news: News) -> Result<(), PortError> {
        match news {
            News::Completed(run) => self.replay(&run, false).await,
            News::Wake(run) => self.replay(&run, true).await,
            News::Job(job) => self.look_after(&job).await,
            News::Ended {
                job,
                run,
                ending,
                tasks,
            } => self.run_ended(&job, &run, &ending, tasks).await,
            News::Abandoned { job, run } => self.abandoned(job, &run).await,
        }
    }
}

#[async_trait]
impl<W: Flow> Handler for Coordinator<W> {
    async fn handle(&self, message: &Message, _redeliveries: u32) -> Disposition {
        let news: News = match serde_json::from_slice(&message.body) {
            Ok(news) => news,
            Err(error) => {
                tracing::error!(%error, "news that cannot be read");
                return Disposition::Dead;
            }
        };
        // Wake-ups come from an index that repeats them: kept as well, they would pile up while a port is away.
        let repeated = matches!(news, News::Wake(_) | News::Job(_));
        match self.news(news).await {
            Ok(()) => Disposition::Ack,
            Err(error) if repeated && message.attempts >= WAKE_TRIES => {
                tracing::warn!(%error, "a port is away; left to the sweep");
                Disposition::Ack
            }
            Err(error) => {
                tracing::warn!(%error, "a port is away; the news comes again");
                Disposition::Later {
                    rung: Rung::Short,
                    attempts: message.attempts.saturating_add(1),
                }
            }
        }
    }
}
