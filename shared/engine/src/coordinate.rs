//! The coordinator: takes up jobs, opens runs, replays their flows, publishes what they want, and looks after what is
//! overdue. Any number of them may run; a run and a job are each looked after by the one that consumes their queue.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::admission::Fairness;
use crate::consume::{Consumer, Disposition, Handler};
use crate::env::{Env, Millis};
use crate::failure::FailureRecord;
use crate::flow::{Claim, Flow, JobEntry, Manifest};
use crate::jobs::{self, OpenJob, Report};
use crate::key::{Class, JobId, RunHeader, RunId, RunRef};
use crate::ledger::Due;
use crate::message::{Ending, News, encode};
use crate::perform::Undertaker;
use crate::port::{PortError, ask};
use crate::ports::Ports;
use crate::queue::{Message, QueueName, Rung};
use crate::run::{OpenRun, PATIENCE_MS, Progress, Step};
use crate::settings::SettingsCache;

/// Entries claimed at once.
const CLAIMS_AT_ONCE: usize = 16;
/// News handled at once per flow queue: completions wait for the replay that covers them.
const NEWS_AT_ONCE: u16 = 64;
/// How often the due-time index is looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Things taken from the due-time index per look.
const SWEEP_LIMIT: usize = 500;
/// How often jobs that a forgetful ledger lost are looked for.
const SCAN_EVERY: Duration = Duration::from_secs(60);
/// Jobs looked at per scan.
const SCAN_LIMIT: usize = 1_000;
/// The longest time completions are collected before the next replay of their run.
const COALESCE_MS: Millis = 250;
/// Ended runs remembered, so that late completions cost nothing.
const ENDED_REMEMBERED: usize = 10_000;
/// How long handlers may go on after a stop.
const GRACE: Duration = Duration::from_secs(10);

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
    settings: SettingsCache<W>,
    runs: StdMutex<HashMap<RunId, Arc<Slot<W>>>>,
    ended: StdMutex<Recent>,
    jobs: Mutex<JobTable>,
}

/// A run's place: tickets are given to completions, and a replay covers all tickets given before it began.
struct Slot<W: Flow> {
    tickets: AtomicU64,
    state: Mutex<SlotState<W>>,
}

struct SlotState<W: Flow> {
    open: Option<OpenRun<W>>,
    covered: u64,
    not_before_ms: Millis,
}

#[derive(Default)]
struct JobTable {
    open: BTreeMap<JobId, OpenJob>,
    fairness: Fairness,
}

/// The runs that ended last.
#[derive(Default)]
struct Recent {
    known: HashSet<RunId>,
    order: VecDeque<RunId>,
}

impl Recent {
    fn remember(&mut self, run: &RunId) {
        if self.known.insert(run.clone()) {
            self.order.push_back(run.clone());
        }
        if self.order.len() > ENDED_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

impl JobTable {
    fn put_back(&mut self, job: &JobId, number: u64, entry: JobEntry) {
        if let Some(open) = self.open.get_mut(job) {
            open.put_back(number, entry);
        }
    }
}

impl<W: Flow> Coordinator<W> {
    /// A coordinator that opens at most `open_documents` runs at once.
    pub fn new(env: Env, ports: Ports, open_documents: usize, observer: Observer) -> Arc<Self> {
        Arc::new(Self {
            env,
            ports,
            open_documents: open_documents.max(1),
            observer,
            settings: SettingsCache::default(),
            runs: StdMutex::default(),
            ended: StdMutex::default(),
            jobs: Mutex::default(),
        })
    }

    /// Coordinates until `stop`, then drains.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let consumer = |name, concurrency| Consumer {
            env: self.env.clone(),
            queue: Arc::clone(&self.ports.queue),
            name,
            concurrency,
            grace: GRACE,
        };
        let news: Arc<dyn Handler> = Arc::<Self>::clone(&self);
        let mut parts: Vec<_> = QueueName::flows()
            .map(|name| self.env.spawn(consumer(name, NEWS_AT_ONCE).run(Arc::clone(&news), stop.clone())))
            .collect();
        let undertaker = Arc::new(Undertaker { env: self.env.clone(), ports: self.ports.clone() });
        parts.push(self.env.spawn(consumer(QueueName::Dead, 1).run(undertaker, stop.clone())));
        parts.push(self.env.spawn(Arc::clone(&self).sweep(stop.clone())));
        parts.push(self.env.spawn(Arc::clone(&self).scan(stop)));
        for part in parts {
            if let Err(error) = part.await {
                tracing::error!(%error, "a part of the coordinator ended early");
            }
        }
    }

    async fn news(&self, news: News) -> Result<Disposition, PortError> {
        match news {
            News::Completed(run) => self.replay(&run, false).await,
            News::Wake(run) => self.replay(&run, true).await,
            News::Job(job) => self.look_after(&job).await.map(|()| Disposition::Ack),
            News::Ended { job, run, ending } => self.run_ended(&job, &run, ending).await.map(|()| Disposition::Ack),
        }
    }

    // ---- runs ----

    /// Replays a run, at most one replay at a time; returns once a replay that began after this call has ended.
    async fn replay(&self, at: &RunRef, wake: bool) -> Result<Disposition, PortError> {
        if self.has_ended(&at.run) {
            return Ok(Disposition::Ack);
        }
        let slot = self.slot(&at.run);
        let ticket = slot.tickets.fetch_add(1, Ordering::SeqCst) + 1;
        let mut state = slot.state.lock().await;
        if state.covered >= ticket && !wake {
            return Ok(Disposition::Ack);
        }
        let wait = state.not_before_ms.saturating_sub(self.env.now_ms());
        if wait > 0 {
            self.env.sleep(Duration::from_millis(wait)).await;
        }
        if state.open.is_none() {
            match self.adopt(at).await? {
                Adopted::Run(open) => state.open = Some(*open),
                Adopted::Over => return Ok(Disposition::Ack),
                Adopted::NotOurs => return Ok(Disposition::Later { rung: Rung::Medium, attempts: 0 }),
            }
        }
        let Some(open) = state.open.as_mut() else { return Ok(Disposition::Ack) };
        let covers = slot.tickets.load(Ordering::SeqCst);
        let began = self.env.now_ms();
        let step = match open.replay(&self.env, &self.ports, wake).await {
            Ok(step) => step,
            Err(error) => {
                // What it believed to have asked for may never have been published: begin anew from the ledger.
                state.open = None;
                return Err(error);
            }
        };
        // A replay may take at most about a tenth of a run's time; completions that arrive meanwhile share the next.
        let now = self.env.now_ms();
        state.not_before_ms = now + (10 * (now - began)).min(COALESCE_MS);
        state.covered = covers;
        let Some(open) = state.open.as_ref() else { return Ok(Disposition::Ack) };
        (self.observer)(Event::Replayed { run: at.run.clone(), progress: open.progress });
        let ending = match step {
            Step::Waiting => return Ok(Disposition::Ack),
            Step::Finished(finish) if finish.gaps == 0 => Ending::Done,
            Step::Finished(finish) => Ending::DoneWithGaps(finish.gaps),
            Step::Failed(record) => Ending::Failed(record),
        };
        self.close(at, ending).await?;
        state.open = None;
        Ok(Disposition::Ack)
    }

    /// Takes up a run that this coordinator does not hold.
    async fn adopt(&self, at: &RunRef) -> Result<Adopted<W>, PortError> {
        let blobs = self.ports.blobs.as_ref();
        let json = ask(&self.env, || blobs.get(&at.header)).await?;
        let Some(header) = json.and_then(|json| serde_json::from_slice::<RunHeader>(&json).ok()) else {
            tracing::error!(run = %at.run, header = at.header, "news of a run without a readable header");
            return Ok(Adopted::Over);
        };
        if header.flow_revision > W::REVISION {
            return Ok(Adopted::NotOurs);
        }
        if W::ending(&self.env, &self.ports, &header).await?.is_some() {
            self.remember_ended(&at.run);
            return Ok(Adopted::Over);
        }
        match self.settings.load(&self.env, blobs, &header.settings).await? {
            Some(settings) => Ok(Adopted::Run(Box::new(OpenRun::new(header, settings)))),
            None => Ok(Adopted::NotOurs),
        }
    }

    async fn close(&self, at: &RunRef, ending: Ending) -> Result<(), PortError> {
        let (env, ledger) = (&self.env, &self.ports.ledger);
        if let Ending::Failed(record) = &ending {
            self.keep_failure(&at.run, record).await?;
        }
        for job in ask(env, || ledger.watchers(&at.run)).await? {
            let queue = QueueName::flow(&job.0);
            let news = encode(&News::Ended { job, run: at.run.clone(), ending: ending.clone() })?;
            ask(env, || self.ports.queue.publish(queue, vec![news.clone()])).await?;
        }
        let due = Due::Run(at.clone());
        ask(env, || ledger.unschedule(&due)).await?;
        ask(env, || ledger.forget(&at.run)).await?;
        self.remember_ended(&at.run);
        Ok(())
    }

    async fn keep_failure(&self, run: &RunId, record: &FailureRecord) -> Result<(), PortError> {
        let json = serde_json::to_vec(record).map_err(|error| PortError::lasting("blobs", "put", error.to_string()))?;
        let key = run_failure_key(run);
        ask(&self.env, || self.ports.blobs.put(&key, json.clone().into())).await.map(|_| ())
    }

    fn slot(&self, run: &RunId) -> Arc<Slot<W>> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let state = SlotState { open: None, covered: 0, not_before_ms: 0 };
            Arc::new(Slot { tickets: AtomicU64::new(0), state: Mutex::new(state) })
        };
        Arc::clone(runs.entry(run.clone()).or_insert_with(new))
    }

    fn has_ended(&self, run: &RunId) -> bool {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).known.contains(run)
    }

    fn remember_ended(&self, run: &RunId) {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).remember(run);
    }

    // ---- jobs ----

    /// Takes a job up, or looks whether runs it waits for ended unheard; then admits.
    async fn look_after(&self, job: &JobId) -> Result<(), PortError> {
        let mut table = self.jobs.lock().await;
        match table.open.get(job) {
            None => {
                let Some(open) = OpenJob::take_up(&self.env, self.ports.blobs.as_ref(), job).await? else {
                    let due = Due::Job(job.clone());
                    return ask(&self.env, || self.ports.ledger.unschedule(&due)).await;
                };
                table.open.insert(job.clone(), open);
                let due = Due::Job(job.clone());
                let at = self.env.now_ms() + PATIENCE_MS;
                ask(&self.env, || self.ports.ledger.schedule(&due, at)).await?;
            }
            Some(open) => {
                let waiting: Vec<RunHeader> = open.open.values().map(|(_, header)| header.clone()).collect();
                self.look_for_endings(&mut table, job, waiting).await?;
            }
        }
        self.admit(&mut table).await
    }

    /// Asks the blobs about runs that no one here holds; wakes those that have not ended.
    async fn look_for_endings(&self, table: &mut JobTable, job: &JobId, runs: Vec<RunHeader>) -> Result<(), PortError> {
        for header in runs {
            if self.holds(&header.at.run) {
                continue;
            }
            match W::ending(&self.env, &self.ports, &header).await? {
                Some(ending) => self.note_ending(table, job, &header.at.run, ending),
                None => self.wake(&header.at).await?,
            }
        }
        Ok(())
    }

    fn holds(&self, run: &RunId) -> bool {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).contains_key(run)
    }

    async fn run_ended(&self, job: &JobId, run: &RunId, ending: Ending) -> Result<(), PortError> {
        let mut table = self.jobs.lock().await;
        if !table.open.contains_key(job) {
            drop(table);
            return self.look_after(job).await;
        }
        self.note_ending(&mut table, job, run, ending);
        self.admit(&mut table).await
    }

    fn note_ending(&self, table: &mut JobTable, job: &JobId, run: &RunId, ending: Ending) {
        let Some(open) = table.open.get_mut(job) else { return };
        let input = open.open.get(run).map(|(_, header)| header.input.clone()).unwrap_or_default();
        if open.run_ended(run, ending.clone()) {
            (self.observer)(Event::Ended { job: job.clone(), run: Some(run.clone()), input: Box::new(input), ending });
        }
    }

    /// Opens runs while there is room, fairly between collections; closes jobs that have nothing left.
    async fn admit(&self, table: &mut JobTable) -> Result<(), PortError> {
        loop {
            let (batch, stopped) = self.next_entries(table).await;
            let claims = batch.iter().map(|(manifest, _, entry)| W::claim(&self.env, &self.ports, manifest, entry));
            let claims = join_all(claims).await;
            let mut stopped = stopped;
            let done = batch.is_empty();
            for ((manifest, number, entry), claim) in batch.into_iter().zip(claims) {
                let claimed = match claim {
                    Ok(claim) => self.claimed(table, &manifest, number, &entry, claim).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = claimed {
                    if error.passing {
                        table.put_back(&manifest.job, number, entry);
                        stopped = Err(error);
                    } else {
                        self.claim_failed(table, &manifest, number, entry.input, &error);
                    }
                }
            }
            stopped?; // what was put back is claimed when this news comes again
            if done {
                return self.finish_jobs(table).await;
            }
        }
    }

    fn open_runs(&self, table: &JobTable) -> usize {
        table.open.values().map(|job| job.open.len()).sum()
    }

    /// As many next entries as there is room for, at most [`CLAIMS_AT_ONCE`], and what stopped it early.
    async fn next_entries(&self, table: &mut JobTable) -> (Vec<(Manifest, u64, JobEntry)>, Result<(), PortError>) {
        let mut batch = Vec::new();
        while batch.len() < CLAIMS_AT_ONCE && self.open_runs(table) + batch.len() < self.open_documents {
            match self.next_entry(table).await {
                Ok(Some(entry)) => batch.push(entry),
                Ok(None) => break,
                Err(error) => return (batch, Err(error)),
            }
        }
        (batch, Ok(()))
    }

    /// The next entry by fairness, taken from its job.
    async fn next_entry(&self, table: &mut JobTable) -> Result<Option<(Manifest, u64, JobEntry)>, PortError> {
        let mut first: BTreeMap<String, (JobId, u64)> = BTreeMap::new();
        for (id, job) in &mut table.open {
            let interactive = job.manifest.class == Class::Interactive;
            if first.contains_key(&job.manifest.collection) && !interactive {
                continue;
            }
            if let Some(weight) = job.peek(&self.env, self.ports.blobs.as_ref()).await? {
                first.insert(job.manifest.collection.clone(), (id.clone(), weight));
            }
        }
        let heads = first.iter().map(|(name, (_, weight))| (name.clone(), *weight)).collect();
        let picked = table.fairness.next(&heads).and_then(|name| first.remove(&name));
        let job = picked.and_then(|(id, _)| table.open.get_mut(&id));
        Ok(job.and_then(|job| job.take().map(|(number, entry)| (job.manifest.clone(), number, entry))))
    }

    async fn claimed(
        &self,
        table: &mut JobTable,
        manifest: &Manifest,
        number: u64,
        entry: &JobEntry,
        claim: Claim,
    ) -> Result<(), PortError> {
        let job = &manifest.job;
        let Some(open) = table.open.get_mut(job) else { return Ok(()) };
        match claim {
            Claim::Ended(ending) => {
                open.entry_ended(number, format!("entry {number}"), ending.clone());
                let input = Box::new(entry.input.clone());
                (self.observer)(Event::Ended { job: job.clone(), run: None, input, ending });
                Ok(())
            }
            Claim::Run(header) => {
                let at = header.at.clone();
                open.opened(number, header.clone());
                (self.observer)(Event::Opened { job: job.clone(), header: Box::new(header) });
                ask(&self.env, || self.ports.ledger.watch(&at.run, job)).await?;
                let due = Due::Run(at.clone());
                let first_look = self.env.now_ms() + PATIENCE_MS;
                ask(&self.env, || self.ports.ledger.schedule(&due, first_look)).await?;
                self.wake(&at).await
            }
        }
    }

    /// An entry that cannot be claimed ends failed and visible; the job goes on (I-10).
    fn claim_failed(
        &self,
        table: &mut JobTable,
        manifest: &Manifest,
        number: u64,
        input: serde_json::Value,
        error: &PortError,
    ) {
        let record = FailureRecord {
            code: "engine.claim".into(),
            message: error.to_string(),
            next: Some("check that the store can be written, then submit again".into()),
            stage: "submit".into(),
            attempts: 1,
            at_ms: self.env.now_ms(),
        };
        let Some(open) = table.open.get_mut(&manifest.job) else { return };
        let ending = Ending::Failed(record);
        open.entry_ended(number, format!("entry {number}"), ending.clone());
        (self.observer)(Event::Ended { job: manifest.job.clone(), run: None, input: Box::new(input), ending });
    }

    async fn finish_jobs(&self, table: &mut JobTable) -> Result<(), PortError> {
        let blobs = self.ports.blobs.as_ref();
        let mut finished = Vec::new();
        for (id, job) in &mut table.open {
            job.save(&self.env, blobs).await?;
            if let Some(report) = job.finish(&self.env, blobs).await? {
                finished.push((id.clone(), report));
            }
        }
        for (job, report) in finished {
            table.open.remove(&job);
            let due = Due::Job(job);
            ask(&self.env, || self.ports.ledger.unschedule(&due)).await?;
            (self.observer)(Event::JobEnded(Box::new(report)));
        }
        Ok(())
    }

    // ---- the sweep ----

    async fn wake(&self, at: &RunRef) -> Result<(), PortError> {
        let news = encode(&News::Wake(at.clone()))?;
        ask(&self.env, || self.ports.queue.publish(QueueName::of_run(&at.run), vec![news.clone()])).await
    }

    /// Wakes what is due, in bounded looks: never a walk over everything.
    async fn sweep(self: Arc<Self>, stop: CancellationToken) {
        while self.pause(SWEEP_EVERY, &stop).await {
            if let Err(error) = self.sweep_once().await {
                tracing::warn!(%error, "sweep interrupted; it goes on at the next look");
            }
        }
    }

    async fn sweep_once(&self) -> Result<(), PortError> {
        let now = self.env.now_ms();
        let due = ask(&self.env, || self.ports.ledger.due(now, now + PATIENCE_MS, SWEEP_LIMIT)).await?;
        for due in due {
            match due {
                Due::Run(at) => self.wake(&at).await?,
                Due::Job(job) => self.wake_job(job).await?,
            }
        }
        Ok(())
    }

    async fn wake_job(&self, job: JobId) -> Result<(), PortError> {
        let queue = QueueName::flow(&job.0);
        let news = encode(&News::Job(job))?;
        ask(&self.env, || self.ports.queue.publish(queue, vec![news.clone()])).await
    }

    /// Finds jobs that have not ended and that the ledger may have forgotten (I-1). Jobs are listed oldest first; the
    /// place is kept where all before have ended.
    async fn scan(self: Arc<Self>, stop: CancellationToken) {
        let mut ended_before: Option<JobId> = None;
        loop {
            if let Err(error) = self.scan_once(&mut ended_before).await {
                tracing::warn!(%error, "scan for jobs interrupted; it is done again");
            }
            if !self.pause(SCAN_EVERY, &stop).await {
                return;
            }
        }
    }

    async fn scan_once(&self, ended_before: &mut Option<JobId>) -> Result<(), PortError> {
        let blobs = self.ports.blobs.as_ref();
        let ids = ask(&self.env, || jobs::list(blobs, ended_before.as_ref(), SCAN_LIMIT)).await?;
        let mut all_ended = true;
        for id in ids {
            if ask(&self.env, || jobs::report(blobs, &id)).await?.is_some() {
                if all_ended {
                    *ended_before = Some(id);
                }
                continue;
            }
            all_ended = false;
            let due = Due::Job(id);
            let now = self.env.now_ms();
            ask(&self.env, || self.ports.ledger.schedule(&due, now + PATIENCE_MS)).await?;
            if let Due::Job(id) = due
                && !self.jobs.lock().await.open.contains_key(&id)
            {
                self.wake_job(id).await?;
            }
        }
        Ok(())
    }

    /// Waits; false when it is time to stop.
    async fn pause(&self, duration: Duration, stop: &CancellationToken) -> bool {
        tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = self.env.sleep(duration) => true,
        }
    }
}

enum Adopted<W: Flow> {
    Run(Box<OpenRun<W>>),
    Over,
    NotOurs,
}

/// Blob key of the record of a run that failed as a whole.
pub fn run_failure_key(run: &RunId) -> String {
    format!("runs/{run}/failed/document.json")
}

#[async_trait]
impl<W: Flow> Handler for Coordinator<W> {
    async fn handle(&self, message: &Message) -> Disposition {
        let news: News = match serde_json::from_slice(&message.body) {
            Ok(news) => news,
            Err(error) => {
                tracing::error!(%error, "news that cannot be read");
                return Disposition::Dead;
            }
        };
        match self.news(news).await {
            Ok(disposition) => disposition,
            Err(error) => {
                tracing::warn!(%error, "a port is away; the news comes again");
                Disposition::Later { rung: Rung::Short, attempts: message.attempts }
            }
        }
    }
}
