//! An open run in the hands of a coordinator: what is known of it, and one replay at a time.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use tracing::Instrument;

use crate::artifact;
use crate::blobs::list_all;
use crate::env::{Env, Millis};
use crate::failure::{Failure, FailureRecord};
use crate::flow::{Finish, Flow};
use crate::key::{RunHeader, TaskKey};
use crate::ledger::{Due, Entry, Want};
use crate::measure;
use crate::message::{TaskMessage, encode};
use crate::perform::record_failure;
use crate::port::{PortError, ask};
use crate::ports::Ports;
use crate::queue::{Message, QueueName};
use crate::replay::{Memo, Replay, Replayed, Stop, Wanted};
use crate::trace::Trace;
use crate::waits::Waits;

/// The least wait before a wanted task may be published again.
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
    /// Wanted in this or an earlier replay, so no longer news; when this coordinator last published it.
    asked: HashMap<TaskKey, Millis>,
    /// What this coordinator had asked for when the ledger forgot the run: it is on its way, or in work.
    under_way: HashMap<TaskKey, Millis>,
    /// What all runs of this coordinator wait, for the patience with overdue tasks.
    waits: Arc<Waits>,
    /// The flow has been replayed over everything that is known.
    settled: bool,
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
    /// The ledger has another memory of the run than this one: it ended elsewhere, or is to be taken up anew.
    Forgotten,
    Finished(Finish),
    Failed(FailureRecord),
}

impl<W: Flow> OpenRun<W> {
    pub(crate) fn new(header: RunHeader, settings: Arc<W::Settings>, waits: Arc<Waits>) -> Self {
        Self {
            header,
            settings,
            epoch: None,
            cursor: 0,
            known: HashMap::new(),
            asked: HashMap::new(),
            under_way: HashMap::new(),
            waits,
            settled: false,
            existing: HashSet::new(),
            memo: Memo::default(),
            progress: Progress::default(),
        }
    }

    /// The same for a run of which an earlier memory was lost with the ledger: what was asked for a moment ago is not
    /// asked for again, though the ledger no longer knows. If its messages were lost as well, it is overdue soon.
    pub(crate) fn after(mut self, before: Self) -> Self {
        self.under_way = before.under_way;
        let known = before.known;
        self.under_way.extend(
            before
                .asked
                .into_iter()
                .filter(|(key, _)| !known.contains_key(key)),
        );
        self
    }

    /// Reads what is new, replays the flow, publishes what is wanted for the first time, and again what is overdue. A
    /// run that is `held` asks for nothing, and ends where it needs nothing more.
    pub(crate) async fn replay(
        &mut self,
        env: &Env,
        ports: &Ports,
        overdue: bool,
        held: bool,
    ) -> Result<Step, PortError> {
        if !self.catch_up(env, ports).await? {
            return Ok(Step::Forgotten);
        }
        let mut overdue = if overdue && !held {
            self.overdue(env, ports).await?
        } else {
            BTreeSet::new()
        };
        if self.settled && overdue.is_empty() {
            return Ok(Step::Waiting); // woken for nothing: the flow would say what it said before
        }
        loop {
            let replayed = self.walk(&overdue, env.now_ms());
            self.progress.present = self.known.len();
            self.progress.missing = replayed.missing;
            match replayed.result {
                Ok(finish) => return Ok(Step::Finished(finish)),
                Err(Stop::Failed(record)) => return Ok(Step::Failed(record)),
                Err(Stop::Wanting) if held => {
                    self.settled = false; // what is wanted now is asked for when it goes on
                    return Ok(Step::Waiting);
                }
                Err(Stop::Wanting) => {}
            }
            let now = env.now_ms();
            self.asked
                .extend(replayed.wanted.iter().map(|wanted| (wanted.key, now)));
            let (existing, missing): (Vec<_>, Vec<_>) = replayed
                .wanted
                .into_iter()
                .partition(|wanted: &Wanted| self.existing.contains(&wanted.key));
            let (torn, reused) = self.reuse(env, ports, existing).await?;
            let missing = missing.into_iter().chain(torn);
            let (again, new) = missing.partition(|wanted| overdue.remove(&wanted.key));
            self.publish_new(env, ports, new).await?;
            self.publish(env, ports, again, true).await?;
            if !reused {
                self.settled = true;
                return Ok(Step::Waiting);
            }
        }
    }

    /// One walk of the flow. A flow that panics has failed: the same walk would panic again (I-10).
    fn walk(&mut self, overdue: &BTreeSet<TaskKey>, now_ms: Millis) -> Replayed<Finish> {
        let asked = &self.asked;
        let known = &self.known;
        let header = &self.header;
        let quiet = |key: &TaskKey| asked.contains_key(key) && !overdue.contains(key);
        let settings = self.settings.as_ref();
        let memo = &mut self.memo;
        let walk = AssertUnwindSafe(|| {
            Replay::of(settings, known, &quiet, memo, |replay| {
                W::flow(replay, header)
            })
        });
        catch_unwind(walk).unwrap_or_else(|_| {
            let failure = Failure::permanent(
                "engine.flow_panic",
                "the flow panicked; the coordinator's log says where",
            );
            let result = Err(Stop::Failed(FailureRecord::of(failure, "flow", 1, now_ms)));
            Replayed {
                result,
                wanted: Vec::new(),
                missing: 0,
            }
        })
    }

    /// Reads the outcomes recorded since the last replay; on the first call, establishes from the blobs what exists
    /// (I-1). False when the ledger lost its memory of the run.
    async fn catch_up(&mut self, env: &Env, ports: &Ports) -> Result<bool, PortError> {
        let run = self.header.at.run.clone();
        let mut news = ask(env, || ports.ledger.outcomes(&run, self.cursor)).await?;
        if self.epoch.is_some_and(|epoch| epoch != news.epoch) {
            return Ok(false);
        }
        while self.epoch != Some(news.epoch) {
            self.establish(env, ports).await?;
            self.epoch = Some(news.epoch); // if it is forgotten again meanwhile, the next answer says so
            news = ask(env, || ports.ledger.outcomes(&run, 0)).await?;
        }
        self.cursor = news.next;
        self.settled &= news.entries.is_empty();
        let now = env.now_ms();
        for (key, entry) in news.entries {
            if self.known.insert(key, entry).is_none()
                && let Some(published) = self.asked.get(&key)
            {
                self.waits.note(now, now.saturating_sub(*published));
            }
        }
        Ok(true)
    }

    async fn establish(&mut self, env: &Env, ports: &Ports) -> Result<(), PortError> {
        let run = &self.header.at.run;
        let scope = &self.header.at.scope;
        let artifacts = format!("{scope}/a/");
        let keys = ask(env, || list_all(ports.blobs.as_ref(), &artifacts)).await?;
        self.existing = keys
            .iter()
            .filter_map(|key| key.strip_prefix(&artifacts)?.parse().ok())
            .collect();
        let failures = format!("runs/{run}/failed/");
        for name in ask(env, || list_all(ports.blobs.as_ref(), &failures)).await? {
            let key = name
                .strip_prefix(&failures)
                .and_then(|name| name.strip_suffix(".json")?.parse::<TaskKey>().ok());
            let (Some(key), Some(json)) = (key, ask(env, || ports.blobs.get(&name)).await?) else {
                continue;
            };
            if let Ok(record) = serde_json::from_slice(&json) {
                ask(env, || {
                    ports
                        .ledger
                        .record(run, &key, Entry::Failed(FailureRecord::clone(&record)))
                })
                .await?;
            }
        }
        let due = Due::Run(self.header.at.clone());
        let look = env.now_ms() + PATIENCE_MS;
        ask(env, || ports.ledger.schedule(&due, look)).await
    }

    /// Takes over outcomes of artifacts that exist. Returns what turned out not to exist (torn, or removed meanwhile),
    /// and whether there was anything to take over.
    async fn reuse(
        &mut self,
        env: &Env,
        ports: &Ports,
        wanted: Vec<Wanted>,
    ) -> Result<(Vec<Wanted>, bool), PortError> {
        let run = &self.header.at.run;
        let scope = &self.header.at.scope;
        let reads: Vec<_> = stream::iter(wanted)
            .map(|wanted: Wanted| async move {
                let blobs = ports.blobs.as_ref();
                let outcome = ask(env, || artifact::outcome(blobs, scope, &wanted.key)).await?;
                if let Some(outcome) = &outcome {
                    ask(env, || {
                        ports
                            .ledger
                            .record(run, &wanted.key, Entry::Done(outcome.clone()))
                    })
                    .await?;
                }
                Ok::<_, PortError>((wanted, outcome))
            })
            .buffered(READS_AT_ONCE)
            .try_collect()
            .await?;
        let mut torn = Vec::new();
        let mut any = false;
        for (wanted, outcome) in reads {
            match outcome {
                Some(outcome) => {
                    self.known.insert(wanted.key, Entry::Done(outcome));
                    self.progress.reused += 1;
                    any = true;
                }
                None => {
                    self.existing.remove(&wanted.key);
                    torn.push(wanted);
                }
            }
        }
        Ok((torn, any))
    }

    /// Publishes what the ledger has not heard of yet: another coordinator may have been first.
    async fn publish_new(
        &self,
        env: &Env,
        ports: &Ports,
        wanted: Vec<Wanted>,
    ) -> Result<(), PortError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let tasks: Vec<Want> = wanted
            .iter()
            .map(|wanted: &Wanted| Want {
                key: wanted.key,
                stage: wanted.stage.into(),
                lane: wanted.lane,
            })
            .collect();
        let now = env.now_ms();
        let new = ask(env, || {
            ports
                .ledger
                .want(&self.header.at.run, &tasks, now, now + PATIENCE_MS)
        })
        .await?;
        let lately = now.saturating_sub(PATIENCE_MS);
        let under_way =
            |key: &TaskKey| self.under_way.get(key).is_some_and(|asked| *asked > lately);
        let new: HashSet<TaskKey> = new.into_iter().filter(|key| !under_way(key)).collect();
        self.publish(
            env,
            ports,
            wanted
                .into_iter()
                .filter(|wanted| new.contains(&wanted.key))
                .collect(),
            false,
        )
        .await
    }

    /// What nobody answered for in time. With a backlog, everything takes longer and nothing is lost: the clock that
    /// due times are held against goes behind by what three times the usual wait is over the least patience (rule 9).
    async fn overdue(&self, env: &Env, ports: &Ports) -> Result<BTreeSet<TaskKey>, PortError> {
        let now = env.now_ms();
        let behind = (3 * self.waits.p99_ms(now)).saturating_sub(PATIENCE_MS);
        let keys = ask(env, || {
            ports
                .ledger
                .overdue(&self.header.at.run, now.saturating_sub(behind))
        })
        .await?;
        if !keys.is_empty() {
            tracing::info!(run = %self.header.at.run, tasks = keys.len(), "overdue, publishing again");
        }
        Ok(keys.into_iter().collect())
    }

    /// Publishes a wave under a span of its own, whose id travels with the tasks.
    async fn publish(
        &self,
        env: &Env,
        ports: &Ports,
        wanted: Vec<Wanted>,
        again: bool,
    ) -> Result<(), PortError> {
        let Some(first) = wanted.first() else {
            return Ok(());
        };
        let trace = Trace::of(&self.header.at.run);
        let wave = trace.wave(&first.key, env.now_ms());
        let span = tracing::info_span!(
            "wave",
            traceparent = trace.below(&trace.root),
            span_id = wave,
            run = %self.header.at.run,
            job = %self.header.opened_by,
            tasks = wanted.len(),
            again,
        );
        let below = Some(trace.below(&wave));
        self.publish_wave(env, ports, wanted, again, &below)
            .instrument(span)
            .await
    }

    async fn publish_wave(
        &self,
        env: &Env,
        ports: &Ports,
        wanted: Vec<Wanted>,
        again: bool,
        trace: &Option<String>,
    ) -> Result<(), PortError> {
        let mut by_queue: Vec<(QueueName, Vec<_>)> = Vec::new();
        for wanted in wanted {
            let queue = QueueName::Lane(wanted.lane, self.header.class);
            let key = wanted.key;
            let stage = wanted.stage;
            let message = match self.message(wanted, env.now_ms()) {
                Ok(message) => Message {
                    trace: trace.clone(),
                    ..message
                },
                Err(error) => {
                    self.refuse(env, ports, &key, stage, error).await?;
                    continue;
                }
            };
            match by_queue.iter_mut().find(|(name, _)| *name == queue) {
                Some((_, messages)) => messages.push(message),
                None => by_queue.push((queue, vec![message])),
            }
        }
        for (queue, messages) in by_queue {
            for batch in messages.chunks(PUBLISH_AT_ONCE) {
                ask(env, || ports.queue.publish(queue, batch.to_vec())).await?;
            }
            measure::published(queue, messages.len(), again);
        }
        Ok(())
    }

    /// A task that fits in no message has failed, visibly (I-10).
    async fn refuse(
        &self,
        env: &Env,
        ports: &Ports,
        key: &TaskKey,
        stage: &str,
        error: PortError,
    ) -> Result<(), PortError> {
        let failure = Failure::permanent(
            "engine.message",
            format!("{stage} cannot be sent: {}", error.message),
        );
        let record = FailureRecord::of(failure, stage, 1, env.now_ms());
        record_failure(env, ports, &self.header.at, key, record).await
    }

    fn message(&self, wanted: Wanted, published_ms: Millis) -> Result<Message, PortError> {
        let payload = serde_json::value::RawValue::from_string(wanted.payload)
            .map_err(|error| PortError::lasting("queue", "encode", error.to_string()))?;
        encode(&TaskMessage {
            run: self.header.at.clone(),
            key: wanted.key,
            stage: wanted.stage.into(),
            revision: wanted.revision,
            settings: self.header.settings.clone(),
            class: self.header.class,
            published_ms,
            payload,
        })
    }
}
