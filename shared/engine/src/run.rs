//! An open run held by a coordinator: its outcomes and requests, and one replay at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_store::artifact;
use stemma_store::blobs::{Blobs, list_all};
use stemma_store::env::Millis;
use stemma_store::failure::{Failure, FailureRecord};
use stemma_store::key::{RunHeader, TaskKey, artifacts_prefix, failures_prefix};
use stemma_store::latency::LatencyHistogram;
use stemma_store::port_error::{PortError, PortResult};
use tracing::Instrument;

use crate::flow::{Flow, FlowOutput};
use crate::heartbeat::{OldestTask, RunProgress};
use crate::ledger::{Ledger, RENEWAL_GRACE, ScheduledItem, TaskOutcome, TaskSpec};
use crate::message::{TaskMessage, encode};
use crate::metrics;
use crate::outcome::record_failure;
use crate::ports::Ports;
use crate::queue::{Lane, Message, Queue, QueueName, RetryDelay};
use crate::replay::{FlowStop, Memo, Replay, ReplayResult, TaskRequest};
use crate::schedule::REPUBLISH_AFTER_MS;
use crate::trace::RunTrace;

// Concurrent reads of existing artifacts.
const READS_AT_ONCE: usize = 16;
// Tasks published in one call.
const PUBLISH_AT_ONCE: usize = 500;

pub(crate) struct OpenRun<W: Flow> {
    pub(crate) header: RunHeader,
    settings: Arc<W::Settings>,
    epoch: Option<u64>,
    cursor: u64,
    outcomes: HashMap<TaskKey, TaskOutcome>,
    // Requested in this or an earlier replay, and when this coordinator last published it.
    requested: HashMap<TaskKey, Millis>,
    // Requested without an outcome so far.
    unfinished: HashMap<TaskKey, UnfinishedTask>,
    // Requested by this coordinator before the ledger lost the run: still queued or running.
    in_flight: HashMap<TaskKey, Millis>,
    // Publish-to-outcome latencies of all runs of this coordinator, for the overdue limit.
    latencies: Arc<LatencyHistogram>,
    // Whether the flow was replayed over all known outcomes.
    settled: bool,
    // Artifacts in the run's scope that existed when the run was loaded.
    existing: HashSet<TaskKey>,
    memo: Memo,
    // Lanes on which tasks of the run have ended.
    lanes_begun: BTreeSet<Lane>,
    // Whether the ledger has the run as parked.
    parked: bool,
    pub(crate) progress: RunProgress,
}

// Why tasks are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Publication {
    Requested,
    // Requested long before the ledger lost the run. Perhaps a worker executes it and has not yet renewed its lease.
    RequestedBeforeLoss,
    Overdue,
}

struct UnfinishedTask {
    lane: Lane,
    /// When this coordinator first requested it, or the run or the task went on after a pause.
    since_ms: Millis,
    /// For a batch of a provider, which may take a day.
    waits: bool,
}

/// Result of a replay.
pub(crate) enum ReplayStep {
    Waiting,
    /// The ledger has started a new epoch of the run: it ended elsewhere, or must be loaded again.
    EpochChanged,
    Finished(FlowOutput),
    Failed(FailureRecord),
}

impl<W: Flow> OpenRun<W> {
    pub(crate) fn new(
        header: RunHeader,
        settings: Arc<W::Settings>,
        latencies: Arc<LatencyHistogram>,
    ) -> Self {
        Self {
            header,
            settings,
            epoch: None,
            cursor: 0,
            outcomes: HashMap::new(),
            requested: HashMap::new(),
            unfinished: HashMap::new(),
            in_flight: HashMap::new(),
            latencies,
            settled: false,
            existing: HashSet::new(),
            memo: Memo::default(),
            lanes_begun: BTreeSet::new(),
            parked: false,
            progress: RunProgress::default(),
        }
    }

    // Carries over requests from a run whose ledger state was lost: tasks published a moment ago are not published
    // again, and others a little later. If messages of the former were lost too, they become overdue soon.
    pub(crate) fn carry_over(mut self, previous: Self) -> Self {
        self.in_flight = previous.in_flight;
        let outcomes = previous.outcomes;
        self.in_flight.extend(
            previous
                .requested
                .into_iter()
                .filter(|(key, _)| !outcomes.contains_key(key)),
        );
        self
    }

    // Fetches new outcomes, replays the flow, publishes new requests and republishes overdue ones. A paused run
    // publishes nothing, and ends if it needs nothing more; workers give its queued tasks back.
    pub(crate) async fn replay(
        &mut self,
        ports: &Ports,
        overdue: bool,
        is_paused: bool,
    ) -> PortResult<ReplayStep> {
        if !self.fetch_outcomes(ports).await? {
            return Ok(ReplayStep::EpochChanged);
        }
        if self.parked != is_paused {
            let run = &self.header.at.run;
            ports.ledger.park_run(run, is_paused).await?;
            self.parked = is_paused;
            let now = ports.env.now_ms();
            self.unfinished
                .values_mut()
                .for_each(|task| task.since_ms = now);
        }
        let mut overdue = if overdue && !is_paused {
            self.find_waiting(ports).await?;
            self.overdue(ports).await?
        } else {
            BTreeSet::new()
        };
        let mut republished: Vec<TaskKey> = overdue.iter().copied().collect();
        if self.settled && overdue.is_empty() {
            return Ok(ReplayStep::Waiting); // nothing new: the flow would return the same
        }
        loop {
            let replayed = self.replay_flow(&overdue, ports.env.now_ms());
            self.progress.present = self.outcomes.len();
            self.progress.missing = replayed.missing;
            self.lanes_begun.extend(replayed.lanes_with_outcomes);
            match replayed.result {
                Ok(finish) => return Ok(ReplayStep::Finished(finish)),
                Err(FlowStop::Failed(record)) => return Ok(ReplayStep::Failed(record)),
                Err(FlowStop::Pending) if is_paused => {
                    self.settled = false; // publish the new requests when the job resumes
                    return Ok(ReplayStep::Waiting);
                }
                Err(FlowStop::Pending) => {}
            }
            let now = ports.env.now_ms();
            self.requested
                .extend(replayed.requests.iter().map(|request| (request.key, now)));
            for request in &replayed.requests {
                let task = UnfinishedTask {
                    lane: request.lane,
                    since_ms: now,
                    waits: false,
                };
                self.unfinished.entry(request.key).or_insert(task);
            }
            let (existing, missing): (Vec<_>, Vec<_>) = replayed
                .requests
                .into_iter()
                .partition(|request: &TaskRequest| self.existing.contains(&request.key));
            let (torn, reused) = self.reuse_artifacts(ports, existing).await?;
            let missing = missing.into_iter().chain(torn);
            let (again, new) = missing.partition(|request| overdue.remove(&request.key));
            self.publish_new(ports, new).await?;
            self.publish(ports, again, Publication::Overdue).await?;
            // Only now, so that a publication that fails is repeated soon.
            if !republished.is_empty() {
                let run = &self.header.at.run;
                let keys = std::mem::take(&mut republished);
                ports.ledger.mark_republished(run, &keys, now).await?;
            }
            if !reused {
                self.settled = true;
                return Ok(ReplayStep::Waiting);
            }
        }
    }

    /// The oldest unfinished task of each lane that should be executed: not while the run is parked, and none that waits for
    /// a batch.
    pub(crate) fn oldest_tasks(&self) -> Vec<OldestTask> {
        let mut oldest: BTreeMap<Lane, Millis> = BTreeMap::new();
        for task in self
            .unfinished
            .values()
            .filter(|task| !self.parked && !task.waits)
        {
            let first = oldest.entry(task.lane).or_insert(task.since_ms);
            *first = (*first).min(task.since_ms);
        }
        let priority = self.header.priority;
        oldest
            .into_iter()
            .map(|(lane, since_ms)| OldestTask {
                lane,
                priority,
                since_ms,
            })
            .collect()
    }

    // A flow that panics has failed: it is deterministic, so the same replay would panic again (I-10).
    fn replay_flow(
        &mut self,
        overdue: &BTreeSet<TaskKey>,
        now_ms: Millis,
    ) -> ReplayResult<FlowOutput> {
        let requested = &self.requested;
        let outcomes = &self.outcomes;
        let header = &self.header;
        let settings = self.settings.as_ref();
        let memo = &mut self.memo;
        let walk = AssertUnwindSafe(|| {
            Replay::run(
                settings,
                outcomes,
                &|key| requested.contains_key(key) && !overdue.contains(key),
                memo,
                |replay| W::flow(replay, header),
            )
        });
        catch_unwind(walk).unwrap_or_else(|_| {
            let failure = Failure::permanent(
                "engine.flow_panic",
                "the flow panicked; see the coordinator's log",
            );
            let result = Err(FlowStop::Failed(FailureRecord::new(
                failure, "flow", 1, now_ms,
            )));
            ReplayResult {
                result,
                requests: Vec::new(),
                missing: 0,
                lanes_with_outcomes: BTreeSet::new(),
            }
        })
    }

    // Reads the outcomes recorded since the last replay. The first call rebuilds the ledger state from the blobs (I-1).
    // Returns false when the ledger has lost the run.
    async fn fetch_outcomes(&mut self, ports: &Ports) -> PortResult<bool> {
        let run = self.header.at.run.clone();
        let mut batch = ports.ledger.outcomes(&run, self.cursor).await?;
        if self.epoch.is_some_and(|epoch| epoch != batch.epoch) {
            return Ok(false);
        }
        while self.epoch != Some(batch.epoch) {
            self.rebuild_from_blobs(ports).await?;
            self.epoch = Some(batch.epoch); // if it is lost again meanwhile, the next batch has another epoch
            batch = ports.ledger.outcomes(&run, 0).await?;
        }
        self.cursor = batch.next;
        self.parked = batch.parked;
        self.settled &= batch.entries.is_empty();
        let now = ports.env.now_ms();
        for (key, entry) in batch.entries {
            self.unfinished.remove(&key);
            if self.outcomes.insert(key, entry).is_none()
                && let Some(published) = self.requested.get(&key)
            {
                self.latencies.record(now, now.saturating_sub(*published));
            }
        }
        Ok(true)
    }

    async fn rebuild_from_blobs(&mut self, ports: &Ports) -> PortResult<()> {
        let run = &self.header.at.run;
        let scope = &self.header.at.scope;
        let artifacts = artifacts_prefix(scope);
        let failures = failures_prefix(run);
        let item = ScheduledItem::Run(self.header.at.clone());
        let due_ms = ports.env.now_ms() + REPUBLISH_AFTER_MS;
        // Side by side: every run waits for this before it begins.
        let (keys, failed, ()) = tokio::try_join!(
            list_all(&ports.blobs, &artifacts),
            list_all(&ports.blobs, &failures),
            ports.ledger.schedule(&item, due_ms),
        )?;
        self.existing = keys
            .iter()
            .filter_map(|key| key.strip_prefix(&artifacts)?.parse().ok())
            .collect();
        for name in failed {
            let key = name
                .strip_prefix(&failures)
                .and_then(|name| name.strip_suffix(".json")?.parse::<TaskKey>().ok());
            let (Some(key), Some(json)) = (key, ports.blobs.get(&name).await?) else {
                continue;
            };
            if let Ok(record) = serde_json::from_slice(&json) {
                ports
                    .ledger
                    .record(
                        run,
                        &key,
                        TaskOutcome::Failed(FailureRecord::clone(&record)),
                    )
                    .await?;
            }
        }
        Ok(())
    }

    /// Reuses existing artifacts. Returns the requests whose artifact turned out to be missing (torn or removed), and
    /// whether any was reused.
    async fn reuse_artifacts(
        &mut self,
        ports: &Ports,
        requests: Vec<TaskRequest>,
    ) -> PortResult<(Vec<TaskRequest>, bool)> {
        let run = &self.header.at.run;
        let scope = &self.header.at.scope;
        let reads: Vec<_> = stream::iter(requests)
            .map(|request: TaskRequest| async move {
                let blobs = &ports.blobs;
                let outcome = artifact::readable_outcome(blobs, scope, &request.key).await?;
                if let Some(outcome) = &outcome {
                    ports
                        .ledger
                        .record(run, &request.key, TaskOutcome::Done(outcome.clone()))
                        .await?;
                }
                Ok::<_, PortError>((request, outcome))
            })
            .buffered(READS_AT_ONCE)
            .try_collect()
            .await?;
        let mut torn = Vec::new();
        let mut any = false;
        for (request, outcome) in reads {
            match outcome {
                Some(outcome) => {
                    self.unfinished.remove(&request.key);
                    self.outcomes
                        .insert(request.key, TaskOutcome::Done(outcome));
                    self.progress.reused += 1;
                    any = true;
                }
                None => {
                    self.existing.remove(&request.key);
                    torn.push(request);
                }
            }
        }
        Ok((torn, any))
    }

    // Publishes only what the ledger did not know: another coordinator may have published it first.
    async fn publish_new(&self, ports: &Ports, requests: Vec<TaskRequest>) -> PortResult<()> {
        if requests.is_empty() {
            return Ok(());
        }
        let tasks: Vec<TaskSpec> = requests
            .iter()
            .map(|request: &TaskRequest| TaskSpec {
                key: request.key,
                stage: request.stage.into(),
                lane: request.lane,
            })
            .collect();
        let now = ports.env.now_ms();
        let new = ports
            .ledger
            .request_tasks(&self.header.at.run, &tasks, now, now + REPUBLISH_AFTER_MS)
            .await?;
        let recent_ms = now.saturating_sub(REPUBLISH_AFTER_MS);
        let new: HashSet<TaskKey> = new.into_iter().collect();
        let requests = requests
            .into_iter()
            .filter(|request| new.contains(&request.key));
        let (known, unknown): (Vec<_>, Vec<_>) =
            requests.partition(|request| self.in_flight.contains_key(&request.key));
        let old = known
            .into_iter()
            .filter(|request| self.in_flight[&request.key] <= recent_ms)
            .collect();
        self.publish(ports, unknown, Publication::Requested).await?;
        self.publish(ports, old, Publication::RequestedBeforeLoss)
            .await
    }

    // Asks the ledger which tasks wait for a batch. Only those that ask a model can, and no young one matters.
    async fn find_waiting(&mut self, ports: &Ports) -> PortResult<()> {
        let now = ports.env.now_ms();
        if !self
            .unfinished
            .values()
            .any(|task| task.lane == Lane::Llm && task.since_ms + REPUBLISH_AFTER_MS <= now)
        {
            return Ok(());
        }
        for open in ports.ledger.open_tasks(&self.header.at.run).await? {
            if let Some(task) = self.unfinished.get_mut(&open.key) {
                let waited = std::mem::replace(&mut task.waits, open.waits_for_batch(now));
                if waited && !task.waits {
                    task.since_ms = now;
                }
            }
        }
        Ok(())
    }

    // Tasks without an outcome in time. Under a backlog everything takes longer and nothing is lost, so due times are
    // compared with a clock that lags by three times the p99 latency, less the normal wait.
    async fn overdue(&self, ports: &Ports) -> PortResult<BTreeSet<TaskKey>> {
        let now = ports.env.now_ms();
        let behind = (3 * self.latencies.p99_ms(now)).saturating_sub(REPUBLISH_AFTER_MS);
        let keys = ports
            .ledger
            .overdue(&self.header.at.run, now.saturating_sub(behind), now)
            .await?;
        if !keys.is_empty() {
            tracing::info!(run = %self.header.at.run, tasks = keys.len(), "overdue, publishing again");
        }
        Ok(keys.into_iter().collect())
    }

    // Publishes a batch of tasks in a span of its own; its id travels with the messages.
    async fn publish(
        &self,
        ports: &Ports,
        requests: Vec<TaskRequest>,
        publication: Publication,
    ) -> PortResult<()> {
        let Some(first) = requests.first() else {
            return Ok(());
        };
        let trace = RunTrace::for_run(&self.header.at.run);
        let publish_batch = trace.publish_span_id(&first.key, ports.env.now_ms());
        let span = tracing::info_span!(
            "publish_batch",
            traceparent = trace.traceparent(&trace.root),
            span_id = publish_batch,
            run = %self.header.at.run,
            job = %self.header.opened_by,
            stage = first.stage,
            tasks = requests.len(),
            ?publication,
        );
        let below = Some(trace.traceparent(&publish_batch));
        self.publish_requests(ports, requests, publication, &below)
            .instrument(span)
            .await
    }

    async fn publish_requests(
        &self,
        ports: &Ports,
        requests: Vec<TaskRequest>,
        publication: Publication,
        trace: &Option<String>,
    ) -> PortResult<()> {
        let again = publication == Publication::Overdue;
        let mut by_queue: Vec<(QueueName, Vec<_>)> = Vec::new();
        for request in requests {
            // What is published again may be of a newer coordinator that went, so all workers must receive it.
            let continues = !again && self.lanes_begun.contains(&request.lane);
            let queue = QueueName::for_task(request.lane, self.header.priority, continues);
            let key = request.key;
            let stage = request.stage;
            let message = match self.task_message(ports, request, ports.env.now_ms()) {
                Ok(message) => Message {
                    trace: trace.clone(),
                    ..message
                },
                Err(error) => {
                    self.fail_task(ports, &key, stage, error).await?;
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
                let batch = batch.to_vec();
                if publication != Publication::RequestedBeforeLoss {
                    ports.queue.publish(queue, batch).await?;
                    continue;
                }
                let delay = RetryDelay::at_least(RENEWAL_GRACE.as_millis() as Millis);
                try_join_all(
                    batch
                        .into_iter()
                        .map(|message| ports.queue.publish_later(queue, message, delay)),
                )
                .await?;
            }
            metrics::published(queue, messages.len(), again);
        }
        Ok(())
    }

    // A task that does not fit in a message fails visibly instead of blocking the run (I-10).
    async fn fail_task(
        &self,
        ports: &Ports,
        key: &TaskKey,
        stage: &str,
        error: PortError,
    ) -> PortResult<()> {
        let failure = Failure::permanent(
            "engine.message",
            format!("{stage} cannot be sent: {}", error.message),
        );
        let record = FailureRecord::new(failure, stage, 1, ports.env.now_ms());
        record_failure(ports, &self.header.at, key, record).await
    }

    fn task_message(
        &self,
        ports: &Ports,
        request: TaskRequest,
        published_ms: Millis,
    ) -> PortResult<Message> {
        let payload = serde_json::value::RawValue::from_string(request.payload)
            .map_err(|error| PortError::permanent("queue.encode", error.to_string()))?;
        let mut task = TaskMessage {
            run: self.header.at.clone(),
            key: request.key,
            stage: request.stage.into(),
            revision: request.revision,
            settings: self.header.settings.clone(),
            priority: self.header.priority,
            published_ms,
            payload,
            signature: None,
        };
        ports.message_keys.sign_task(&mut task);
        encode(&task)
    }
}
