//! Replay: a flow is ordinary code that reads outcomes and stops where one is missing.
//!
//! It runs again from the start whenever completions arrive: known outcomes are looked up, missing ones are requested.
//! A flow must be deterministic: no clock, randomness or IO (I-4).

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use stemma_store::failure::{Failure, FailureRecord};
use stemma_store::key::{TaskKey, TaskKeyBuilder};

use crate::ledger::TaskOutcome;
use crate::queue::Lane;
use crate::stage::{Stage, Work};

/// Why a flow stopped before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowStop {
    /// Outcomes are missing; their tasks have been requested.
    Pending,
    /// A failure that ends the run.
    Failed(FailureRecord),
}

/// A task requested by the flow that has no outcome yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRequest {
    pub key: TaskKey,
    pub stage: &'static str,
    pub revision: u32,
    pub lane: Lane,
    pub payload: String,
}

// Results of finished sub-flows, kept with the open run so that later replays do not walk them again.
#[derive(Default)]
pub struct Memo(HashMap<TaskKey, Arc<dyn Any + Send + Sync>>);

/// One replay of a flow.
pub struct Replay<'a, W: Work> {
    settings: &'a W::Settings,
    outcomes: &'a HashMap<TaskKey, TaskOutcome>,
    // Tasks requested before: their payload is not needed again.
    is_requested: &'a dyn Fn(&TaskKey) -> bool,
    memo: &'a mut Memo,
    requests: BTreeMap<usize, TaskRequest>,
    visited: HashSet<TaskKey>,
    missing: usize,
    lanes_with_outcomes: BTreeSet<Lane>,
}

/// Result of a replay.
pub struct ReplayResult<T> {
    pub result: Result<T, FlowStop>,
    /// New requests, in the order the flow made them.
    pub requests: Vec<TaskRequest>,
    /// Number of all missing tasks, including those requested before.
    pub missing: usize,
    /// The lanes of the tasks whose outcomes were read.
    pub lanes_with_outcomes: BTreeSet<Lane>,
}

impl<'a, W: Work> Replay<'a, W> {
    /// Runs `flow` over the known outcomes. Missing tasks for which `is_requested` returns true are counted, but not
    /// returned as requests.
    pub fn run<T>(
        settings: &'a W::Settings,
        outcomes: &'a HashMap<TaskKey, TaskOutcome>,
        is_requested: &'a dyn Fn(&TaskKey) -> bool,
        memo: &'a mut Memo,
        flow: impl FnOnce(&mut Replay<'a, W>) -> Result<T, FlowStop>,
    ) -> ReplayResult<T> {
        let mut replay = Replay {
            settings,
            outcomes,
            is_requested,
            memo,
            requests: BTreeMap::new(),
            visited: HashSet::new(),
            missing: 0,
            lanes_with_outcomes: BTreeSet::new(),
        };
        let result = flow(&mut replay);
        ReplayResult {
            result,
            requests: replay.requests.into_values().collect(),
            missing: replay.missing,
            lanes_with_outcomes: replay.lanes_with_outcomes,
        }
    }

    pub fn settings(&self) -> &'a W::Settings {
        self.settings
    }

    /// The outcome of a task; a failed task stops the flow.
    ///
    /// # Errors
    /// [`FlowStop`] when the outcome is missing or the task failed.
    pub fn outcome<S: Stage<Work = W>>(&mut self, stage: &S) -> Result<S::Outcome, FlowStop> {
        self.result(stage)?.map_err(FlowStop::Failed)
    }

    /// The outcome of a task, or its failure, which the flow can handle.
    ///
    /// # Errors
    /// [`FlowStop::Pending`] when both are missing.
    pub fn result<S: Stage<Work = W>>(
        &mut self,
        stage: &S,
    ) -> Result<Result<S::Outcome, FailureRecord>, FlowStop> {
        self.result_for_key(stage, stage.key(self.settings))
    }

    fn result_for_key<S: Stage<Work = W>>(
        &mut self,
        stage: &S,
        key: TaskKey,
    ) -> Result<Result<S::Outcome, FailureRecord>, FlowStop> {
        let outcome = self.outcomes.get(&key);
        if outcome.is_some() {
            self.lanes_with_outcomes.insert(S::LANE);
        }
        match outcome {
            Some(TaskOutcome::Done(outcome)) => {
                serde_json::from_slice(outcome).map(Ok).map_err(|error| {
                    let message = format!("outcome of {} ({key}) cannot be read: {error}", S::NAME);
                    FlowStop::Failed(FailureRecord::new(
                        Failure::permanent("engine.outcome_unreadable", message),
                        S::NAME,
                        1,
                        0,
                    ))
                })
            }
            Some(TaskOutcome::Failed(record)) => Ok(Err(record.clone())),
            None => {
                self.request(stage, key);
                Err(FlowStop::Pending)
            }
        }
    }

    /// The outcomes or failures of several tasks, requested together.
    ///
    /// # Errors
    /// [`FlowStop::Pending`] when any is missing.
    pub fn results<S: Stage<Work = W>>(
        &mut self,
        stages: impl IntoIterator<Item = S>,
    ) -> Result<Vec<Result<S::Outcome, FailureRecord>>, FlowStop> {
        let keyed: Vec<(S, TaskKey)> = stages
            .into_iter()
            .map(|stage| keyed(stage, self.settings))
            .collect();
        // While one outcome is missing the others are not used, so thousands of them are not parsed in vain.
        let outcomes = self.outcomes;
        for (stage, key) in keyed.iter().filter(|(_, key)| !outcomes.contains_key(key)) {
            self.request(stage, *key);
        }
        if keyed.iter().any(|(_, key)| outcomes.contains_key(key)) {
            self.lanes_with_outcomes.insert(S::LANE);
        }
        if keyed.iter().any(|(_, key)| !outcomes.contains_key(key)) {
            return Err(FlowStop::Pending);
        }
        keyed
            .iter()
            .map(|(stage, key)| self.result_for_key(stage, *key))
            .collect()
    }

    /// A memoized part of the flow: once it has finished it is not walked again while the run stays open. `identity`
    /// adds what the part depends on in addition to the outcomes it reads.
    ///
    /// To let two parts request tasks in the same replay, call both before using `?` on either.
    ///
    /// # Errors
    /// Returns the [`FlowStop`] of `part`.
    pub fn sub_flow<T: Clone + Send + Sync + 'static>(
        &mut self,
        name: &str,
        identity: impl FnOnce(&mut TaskKeyBuilder),
        part: impl FnOnce(&mut Self) -> Result<T, FlowStop>,
    ) -> Result<T, FlowStop> {
        let mut key = TaskKey::builder(name, 0);
        identity(&mut key);
        let key = key.finish();
        if let Some(value) = self
            .memo
            .0
            .get(&key)
            .and_then(|value| value.downcast_ref::<T>())
        {
            return Ok(value.clone());
        }
        let value = part(self)?;
        self.memo.0.insert(key, Arc::new(value.clone()));
        Ok(value)
    }

    fn request<S: Stage<Work = W>>(&mut self, stage: &S, key: TaskKey) {
        if !self.visited.insert(key) {
            return; // two parts of a document that read the same content share one task
        }
        self.missing += 1;
        if (self.is_requested)(&key) {
            return;
        }
        // Stages are plain data and always serialize.
        let payload = serde_json::to_string(stage).unwrap_or_default();
        let task_request = TaskRequest {
            key,
            stage: S::NAME,
            revision: S::REVISION,
            lane: S::LANE,
            payload,
        };
        self.requests.insert(self.missing, task_request);
    }
}

fn keyed<S: Stage>(stage: S, settings: &<S::Work as Work>::Settings) -> (S, TaskKey) {
    let key = stage.key(settings);
    (stage, key)
}
