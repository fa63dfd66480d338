//! Replay: a flow is ordinary code that asks for outcomes and stops where some are missing.
//!
//! It is run again from the start whenever completions arrive; what is known is looked up, what is missing is wanted.
//! A flow must be deterministic: no clock, randomness or IO (I-4).

use std::any::Any;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::failure::{Failure, FailureRecord};
use crate::key::{Identity, TaskKey};
use crate::ledger::Entry;
use crate::queue::Lane;
use crate::stage::{Stage, Work};

/// Why a flow did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Outcomes are missing; they are wanted now.
    Wanting,
    /// A failure that the flow does not go on from.
    Failed(FailureRecord),
}

/// A task the flow asked for that has no outcome yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
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
    known: &'a HashMap<TaskKey, Entry>,
    /// Tasks wanted before, whose payload no one needs again.
    quiet: &'a dyn Fn(&TaskKey) -> bool,
    memo: &'a mut Memo,
    wanted: BTreeMap<usize, Wanted>,
    seen: HashSet<TaskKey>,
    missing: usize,
}

/// What a replay came to.
pub struct Replayed<T> {
    /// The flow's result.
    pub result: Result<T, Stop>,
    /// New wants, in the order they were asked for.
    pub wanted: Vec<Wanted>,
    /// How many tasks are missing altogether.
    pub missing: usize,
}

impl<'a, W: Work> Replay<'a, W> {
    /// Runs `flow` over what is known. Wants for which `quiet` holds are counted, but carry no payload and are not
    /// returned.
    pub fn of<T>(
        settings: &'a W::Settings,
        known: &'a HashMap<TaskKey, Entry>,
        quiet: &'a dyn Fn(&TaskKey) -> bool,
        memo: &'a mut Memo,
        flow: impl FnOnce(&mut Replay<'a, W>) -> Result<T, Stop>,
    ) -> Replayed<T> {
        let mut replay = Replay {
            settings,
            known,
            quiet,
            memo,
            wanted: BTreeMap::new(),
            seen: HashSet::new(),
            missing: 0,
        };
        let result = flow(&mut replay);
        Replayed {
            result,
            wanted: replay.wanted.into_values().collect(),
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
    /// [`Stop`] when it is missing or failed.
    pub fn one<S: Stage<Work = W>>(&mut self, stage: &S) -> Result<S::Outcome, Stop> {
        self.maybe(stage)?.map_err(Stop::Failed)
    }

    /// The outcome of one task, or its failure for the flow to judge.
    ///
    /// # Errors
    /// [`Stop::Wanting`] when it is missing.
    pub fn maybe<S: Stage<Work = W>>(
        &mut self,
        stage: &S,
    ) -> Result<Result<S::Outcome, FailureRecord>, Stop> {
        self.with_key(stage, stage.key(self.settings))
    }

    fn with_key<S: Stage<Work = W>>(
        &mut self,
        stage: &S,
        key: TaskKey,
    ) -> Result<Result<S::Outcome, FailureRecord>, Stop> {
        match self.known.get(&key) {
            Some(Entry::Done(outcome)) => {
                serde_json::from_slice(outcome).map(Ok).map_err(|error| {
                    let message = format!("outcome of {} ({key}) cannot be read: {error}", S::NAME);
                    Stop::Failed(FailureRecord::of(
                        Failure::permanent("engine.outcome_unreadable", message),
                        S::NAME,
                        1,
                        0,
                    ))
                })
            }
            Some(Entry::Failed(record)) => Ok(Err(record.clone())),
            None => {
                self.want(stage, key);
                Err(Stop::Wanting)
            }
        }
    }

    /// The outcomes (or failures) of many tasks, asked for at once.
    ///
    /// # Errors
    /// [`Stop::Wanting`] when any is missing.
    pub fn all<S: Stage<Work = W>>(
        &mut self,
        stages: impl IntoIterator<Item = S>,
    ) -> Result<Vec<Result<S::Outcome, FailureRecord>>, Stop> {
        let keyed: Vec<(S, TaskKey)> = stages
            .into_iter()
            .map(|stage| keyed(stage, self.settings))
            .collect();
        // While one is missing no one reads the others: thousands of outcomes are not parsed in vain.
        let known = self.known;
        for (stage, key) in keyed.iter().filter(|(_, key)| !known.contains_key(key)) {
            self.want(stage, *key);
        }
        if keyed.iter().any(|(_, key)| !known.contains_key(key)) {
            return Err(Stop::Wanting);
        }
        keyed
            .iter()
            .map(|(stage, key)| self.with_key(stage, *key))
            .collect()
    }

    /// A part of the flow with a memo of its own: once it has come to its end it is not walked again while the run
    /// stays open. `identity` names what it depends on beside the outcomes it asks for.
    ///
    /// To let two parts want at the same time, ask both before using `?` on either.
    ///
    /// # Errors
    /// What the part stops with.
    pub fn sub<T: Clone + Send + Sync + 'static>(
        &mut self,
        name: &str,
        identity: impl FnOnce(&mut Identity),
        part: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let mut key = TaskKey::identity(name, 0);
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

    fn want<S: Stage<Work = W>>(&mut self, stage: &S, key: TaskKey) {
        if !self.seen.insert(key) {
            return; // two places of one document that read the same are one task
        }
        self.missing += 1;
        if (self.quiet)(&key) {
            return;
        }
        // A stage struct is plain data: it can always be written as JSON.
        let payload = serde_json::to_string(stage).unwrap_or_default();
        let wanted = Wanted {
            key,
            stage: S::NAME,
            revision: S::REVISION,
            lane: S::LANE,
            payload,
        };
        self.wanted.insert(self.missing, wanted);
    }
}

fn keyed<S: Stage>(stage: S, settings: &<S::Work as Work>::Settings) -> (S, TaskKey) {
    let key = stage.key(settings);
    (stage, key)
}
