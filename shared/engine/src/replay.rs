//! Replay: a flow is ordinary code that asks for outcomes and stops where some are missing.
//!
//! It is run again from the start whenever completions arrive; what is known is looked up, what is missing is wanted.
//! A flow must be deterministic: no clock, randomness or IO (I-4).

use std::any::Any;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::failure::{Failure, FailureRecord};
use crate::key::{TaskKey, TaskKeyBuilder};
use crate::ledger::TaskOutcome;
use crate::queue::Lane;
use crate::stage::{Stage, Work};

/// Why a flow did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowStop {
    /// Outcomes are missing; they are wanted now.
    Pending,
    /// A failure that the flow does not go on from.
    Failed(FailureRecord),
}

/// A task the flow asked for that has no outcome yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRequest {
    /// Its key.
    pub key: TaskKey,
    /// The stage.
    pub stage: &'static str,
    /// Its revision.
    pub revision: u32,
    /// Who runs it.
    pub lane: Lane,
    /// The stage struct as JSON.
    pub payload: String,
}

/// What finished sub-flows returned; kept with the open run, so that a replay does not walk them again.
#[derive(Default)]
pub struct Memo(HashMap<TaskKey, Arc<dyn Any + Send + Sync>>);

/// One replay of a flow.
pub struct Replay<'a, W: Work> {
    settings: &'a W::Settings,
    outcomes: &'a HashMap<TaskKey, TaskOutcome>,
    /// Tasks wanted before, whose payload no one needs again.
    is_requested: &'a dyn Fn(&TaskKey) -> bool,
    memo: &'a mut Memo,
    requests: BTreeMap<usize, TaskRequest>,
    visited: HashSet<TaskKey>,
    missing: usize,
}

/// What a replay came to.
pub struct ReplayResult<T> {
    /// The flow's result.
    pub result: Result<T, FlowStop>,
    /// New wants, in the order they were asked for.
    pub requests: Vec<TaskRequest>,
    /// How many tasks are missing altogether.
    pub missing: usize,
}

impl<'a, W: Work> Replay<'a, W> {
    /// Runs `flow` over what is known. Wants for which `is_requested` holds are counted, but carry no payload and are not
    /// returned.
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
        };
        let result = flow(&mut replay);
        ReplayResult {
            result,
            requests: replay.requests.into_values().collect(),
            missing: replay.missing,
        }
    }

    /// The settings of the run.
    pub fn settings(&self) -> &'a W::Settings {
        self.settings
    }

    /// The outcome of one task; a failure stops the flow.
    ///
    /// # Errors
    /// [`FlowStop`] when it is missing or failed.
    pub fn outcome<S: Stage<Work = W>>(&mut self, stage: &S) -> Result<S::Outcome, FlowStop> {
        self.result(stage)?.map_err(FlowStop::Failed)
    }

    /// The outcome of one task, or its failure for the flow to judge.
    ///
    /// # Errors
    /// [`FlowStop::Pending`] when it is missing.
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
        match self.outcomes.get(&key) {
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

    /// The outcomes (or failures) of many tasks, asked for at once.
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
        // While one is missing no one reads the others: thousands of outcomes are not parsed in vain.
        let outcomes = self.outcomes;
        for (stage, key) in keyed.iter().filter(|(_, key)| !outcomes.contains_key(key)) {
            self.request(stage, *key);
        }
        if keyed.iter().any(|(_, key)| !outcomes.contains_key(key)) {
            return Err(FlowStop::Pending);
        }
        keyed
            .iter()
            .map(|(stage, key)| self.result_for_key(stage, *key))
            .collect()
    }

    /// A part of the flow with a memo of its own: once it has come to its end it is not walked again while the run
    /// stays open. `builder` names what it depends on beside the outcomes it asks for.
    ///
    /// To let two parts want at the same time, ask both before using `?` on either.
    ///
    /// # Errors
    /// What the part stops with.
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
            return; // two places of one document that read the same are one task
        }
        self.missing += 1;
        if (self.is_requested)(&key) {
            return;
        }
        // A stage struct is plain data: it can always be written as JSON.
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
