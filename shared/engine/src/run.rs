//! An open run in the hands of a coordinator: what is known of it, and one replay at a time.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};

use crate::artifact;
use crate::blobs::list_all;
use crate::env::{Env, Millis};
use crate::failure::FailureRecord;
use crate::flow::{Finish, Flow};
use crate::key::{RunHeader, TaskKey};
use crate::ledger::{Entry, Outcomes};
use crate::message::{TaskMessage, encode};
use crate::port::{PortError, ask};
use crate::ports::Ports;
use crate::queue::QueueName;
use crate::replay::{Memo, Replay, Replayed, Stop, Wanted};

/// The wait before a wanted task may be published again.
pub(crate) const PATIENCE_MS: Millis = 60_000;
/// Outcomes of existing artifacts read at once.
const READS_AT_ONCE: usize = 16;
/// Tasks published in one call.
const PUBLISH_AT_ONCE: usize = 500;

/// What a coordinator knows of a run.
pub(crate) struct OpenRun<W: Flow> {
    pub(crate) header: RunHeader,
    settings: Arc<W::Settings>,
    epoch: Option<u64>,
    cursor: u64,
    known: HashMap<TaskKey, Entry>,
    /// Wanted in this or an earlier replay; no longer news.
    asked: HashSet<TaskKey>,
    /// Artifacts of the subject that existed when the run was opened.
    existing: HashSet<TaskKey>,
    memo: Memo,
    /// Tasks missing at the last replay, and outcomes that were there before anyone asked.
    pub(crate) progress: Progress,
}

/// How far a run is, in tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Tasks with an outcome.
    pub present: usize,
    /// Tasks asked for that have none yet.
    pub missing: usize,
    /// Outcomes that existed before this run asked: paid for earlier.
    pub reused: usize,
}

/// What a replay came to.
pub(crate) enum Step {
    Waiting,
    Finished(Finish),
    Failed(FailureRecord),
}

impl<W: Flow> OpenRun<W> {
    pub(crate) fn new(header: RunHeader, settings: Arc<W::Settings>) -> Self {
        Self {
            header,
            settings,
            epoch: None,
            cursor: 0,
            known: HashMap::new(),
            asked: HashSet::new(),
            existing: HashSet::new(),
            memo: Memo::default(),
            progress: Progress::default(),
        }
    }

    /// Reads what is new, replays the flow, publishes what is wanted for the first time, and again what is overdue.
    pub(crate) async fn replay(&mut self, env: &Env, ports: &Ports, overdue: bool) -> Result<Step, PortError> {
        self.catch_up(env, ports).await?;
        let mut overdue = if overdue { self.overdue(env, ports).await? } else { BTreeSet::new() };
        loop {
            let asked = &self.asked;
            let quiet = |key: &TaskKey| asked.contains(key) && !overdue.contains(key);
            let header = &self.header;
            let replayed: Replayed<Finish> =
                Replay::of(self.settings.as_ref(), &self.known, &quiet, &mut self.memo, |replay| {
                    W::flow(replay, header)
                });
            self.progress.present = self.known.len();
            self.progress.missing = replayed.missing;
            match replayed.result {
                Ok(finish) => return Ok(Step::Finished(finish)),
                Err(Stop::Failed(record)) => return Ok(Step::Failed(record)),
                Err(Stop::Wanting) => {}
            }
            self.asked.extend(replayed.wanted.iter().map(|wanted| wanted.key));
            let there = |wanted: &Wanted| self.existing.contains(&wanted.key);
            let (existing, missing): (Vec<_>, Vec<_>) = replayed.wanted.into_iter().partition(there);
            let (again, new) = missing.into_iter().partition(|wanted| overdue.remove(&wanted.key));
            let reused = self.reuse(env, ports, existing).await?;
            self.publish_new(env, ports, new).await?;
            self.publish(env, ports, again).await?;
            if !reused {
                return Ok(Step::Waiting);
            }
        }
    }

    /// Reads the outcomes recorded since the last replay. When the ledger lost its memory (or on the first call),
    /// establishes from the blobs what exists (I-1).
    async fn catch_up(&mut self, env: &Env, ports: &Ports) -> Result<(), PortError> {
        let run = self.header.at.run.clone();
        let mut news: Outcomes = ask(env, || ports.ledger.outcomes(&run, self.cursor)).await?;
        if self.epoch != Some(news.epoch) {
            self.establish(env, ports).await?;
            news = ask(env, || ports.ledger.outcomes(&run, 0)).await?;
            self.epoch = Some(news.epoch);
        }
        self.cursor = news.next;
        self.known.extend(news.entries);
        Ok(())
    }

    async fn establish(&mut self, env: &Env, ports: &Ports) -> Result<(), PortError> {
        let (run, scope) = (&self.header.at.run, &self.header.at.scope);
        let artifacts = format!("{scope}/a/");
        let keys = ask(env, || list_all(ports.blobs.as_ref(), &artifacts)).await?;
        self.existing = keys.iter().filter_map(|key| key.strip_prefix(&artifacts)?.parse().ok()).collect();
        let failures = format!("runs/{run}/failed/");
        for name in ask(env, || list_all(ports.blobs.as_ref(), &failures)).await? {
            let key = name.strip_prefix(&failures).and_then(|name| name.strip_suffix(".json")?.parse::<TaskKey>().ok());
            let (Some(key), Some(json)) = (key, ask(env, || ports.blobs.get(&name)).await?) else { continue };
            if let Ok(record) = serde_json::from_slice(&json) {
                ask(env, || ports.ledger.record(run, &key, Entry::Failed(FailureRecord::clone(&record)))).await?;
            }
        }
        self.asked.clear(); // what was wanted is forgotten with the ledger
        self.known.clear();
        Ok(())
    }

    /// Takes over outcomes of artifacts that exist; true when there were any.
    async fn reuse(&mut self, env: &Env, ports: &Ports, wanted: Vec<Wanted>) -> Result<bool, PortError> {
        let (run, scope) = (&self.header.at.run, &self.header.at.scope);
        let read = |wanted: Wanted| async move {
            let blobs = ports.blobs.as_ref();
            let outcome = ask(env, || artifact::outcome(blobs, scope, &wanted.key)).await?;
            if let Some(outcome) = &outcome {
                ask(env, || ports.ledger.record(run, &wanted.key, Entry::Done(outcome.clone()))).await?;
            }
            Ok::<_, PortError>((wanted, outcome))
        };
        let reads: Vec<_> = stream::iter(wanted).map(read).buffered(READS_AT_ONCE).try_collect().await?;
        let mut torn = Vec::new();
        let mut any = false;
        for (wanted, outcome) in reads {
            match outcome {
                Some(outcome) => {
                    self.known.insert(wanted.key, Entry::Done(outcome));
                    self.progress.reused += 1;
                    any = true;
                }
                None => torn.push(wanted),
            }
        }
        self.publish_new(env, ports, torn).await?;
        Ok(any)
    }

    /// Publishes what the ledger has not heard of yet: another coordinator may have been first.
    async fn publish_new(&self, env: &Env, ports: &Ports, wanted: Vec<Wanted>) -> Result<(), PortError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let keys: Vec<TaskKey> = wanted.iter().map(|wanted| wanted.key).collect();
        let now = env.now_ms();
        let new = ask(env, || ports.ledger.want(&self.header.at.run, &keys, now, now + PATIENCE_MS)).await?;
        let new: HashSet<TaskKey> = new.into_iter().collect();
        self.publish(env, ports, wanted.into_iter().filter(|wanted| new.contains(&wanted.key)).collect()).await
    }

    async fn overdue(&self, env: &Env, ports: &Ports) -> Result<BTreeSet<TaskKey>, PortError> {
        let now = env.now_ms();
        let keys = ask(env, || ports.ledger.overdue(&self.header.at.run, now)).await?;
        if !keys.is_empty() {
            tracing::info!(run = %self.header.at.run, tasks = keys.len(), "overdue, publishing again");
        }
        Ok(keys.into_iter().collect())
    }

    async fn publish(&self, env: &Env, ports: &Ports, wanted: Vec<Wanted>) -> Result<(), PortError> {
        let mut by_queue: Vec<(QueueName, Vec<_>)> = Vec::new();
        for wanted in wanted {
            let queue = QueueName::Lane(wanted.lane, self.header.class);
            let message = self.message(wanted)?;
            match by_queue.iter_mut().find(|(name, _)| *name == queue) {
                Some((_, messages)) => messages.push(message),
                None => by_queue.push((queue, vec![message])),
            }
        }
        for (queue, messages) in by_queue {
            for batch in messages.chunks(PUBLISH_AT_ONCE) {
                ask(env, || ports.queue.publish(queue, batch.to_vec())).await?;
            }
        }
        Ok(())
    }

    fn message(&self, wanted: Wanted) -> Result<crate::queue::Message, PortError> {
        let payload = serde_json::value::RawValue::from_string(wanted.payload)
            .map_err(|error| PortError::lasting("queue", "encode", error.to_string()))?;
        encode(&TaskMessage {
            run: self.header.at.clone(),
            key: wanted.key,
            stage: wanted.stage.into(),
            revision: wanted.revision,
            settings: self.header.settings.clone(),
            class: self.header.class,
            payload,
        })
    }
}
