//! What the model answered about a document: told alike by the flow, from its ledger, and by the stage that makes the tree,
//! from the artifacts themselves.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use stemma_document::{Digest, ModelAnswers};
use stemma_engine::blobs::list_all;
use stemma_engine::key::failures_prefix;
use stemma_engine::port::ask;
use stemma_engine::stage::{Stage, Task};
use stemma_engine::{Failure, FailureRecord, TaskKey, artifact};

use super::Spent;
use super::plan::Plan;
use crate::Filings;

/// Artifacts that are read at once.
pub(crate) const AT_ONCE: usize = 32;

/// An answer, or the code of the failure that came instead.
pub(crate) type Answer<T> = Result<T, String>;

/// A summary, which lies in the blob `summary` beside this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Digest of title and summary, as far as what is above reads that.
    pub digest: Digest,
    /// What it cost.
    pub spent: Spent,
}

/// All answers about the sections of a document.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Answers {
    /// Per section, with the task that made it.
    pub(crate) summaries: Vec<Option<(TaskKey, Answer<Told>)>>,
    /// About the document as a whole.
    pub(crate) described: Option<(TaskKey, Answer<Told>)>,
}

impl Answers {
    /// Digest of all that a tree made from them holds.
    pub(crate) fn digest(&self) -> Digest {
        // Plain data can always be written as JSON.
        Digest::of(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// The numbers for the tree: those about its outline, and what each task cost, counted once.
    pub(crate) fn summed(outline: &ModelAnswers, spent: &BTreeMap<TaskKey, Spent>) -> ModelAnswers {
        let sum = |part: fn(&Spent) -> u32| {
            spent
                .values()
                .map(|spent| u64::from(part(spent)))
                .sum::<u64>()
        };
        ModelAnswers {
            calls: outline
                .calls
                .saturating_add(u32::try_from(spent.len()).unwrap_or(u32::MAX)),
            prompt_tokens: outline.prompt_tokens + sum(|spent| spent.prompt_tokens),
            output_tokens: outline.output_tokens + sum(|spent| spent.output_tokens),
            ..outline.clone()
        }
    }
}

/// Reads all answers of a run from its artifacts, and what each task cost. What failed in this run counts as failed, as it
/// does for the flow, though another run may have an artifact by now.
pub(crate) async fn gather(
    task: &Task<'_, Filings>,
    plan: &Plan,
) -> Result<(Answers, BTreeMap<TaskKey, Spent>), Failure> {
    let mut reading = Reading {
        task,
        failed: failed(task).await?,
        spent: BTreeMap::new(),
    };
    let mut answers = Answers {
        summaries: vec![None; plan.summaries.len()],
        described: None,
    };
    for wave in 0..plan.summaries.waves() {
        let asked = plan.summaries.ask(wave, &answers.summaries);
        for (index, key, answer) in reading.all(asked, |told: &Told| told.spent).await? {
            answers.summaries[index] = Some((key, answer));
        }
    }
    let describe = plan
        .summaries
        .describe(&answers.summaries)
        .map(|stage| (0, stage));
    let asked = reading
        .all(describe.into_iter().collect(), |told: &Told| told.spent)
        .await?;
    answers.described = asked
        .into_iter()
        .next()
        .map(|(_, key, answer)| (key, answer));
    Ok((answers, reading.spent))
}

struct Reading<'a> {
    task: &'a Task<'a, Filings>,
    /// Codes of the failures of this run.
    failed: BTreeMap<TaskKey, String>,
    spent: BTreeMap<TaskKey, Spent>,
}

impl Reading<'_> {
    async fn all<S: Stage<Work = Filings>>(
        &mut self,
        asked: Vec<(usize, S)>,
        spent: fn(&S::Outcome) -> Spent,
    ) -> Result<Vec<(usize, TaskKey, Answer<S::Outcome>)>, Failure> {
        let task = self.task;
        let failed = &self.failed;
        let all: Vec<_> = stream::iter(asked)
            .map(|(index, stage): (usize, S)| async move {
                let key = stage.key(task.settings);
                let answer = match failed.get(&key) {
                    Some(code) => Err(code.clone()),
                    None => Ok(outcome::<S>(task, &key).await?),
                };
                Ok::<_, Failure>((index, key, answer))
            })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        for (_, key, answer) in &all {
            if let Ok(outcome) = answer {
                self.spent.insert(*key, spent(outcome));
            }
        }
        Ok(all)
    }
}

/// The failures of this run, by task.
pub(crate) async fn failed(task: &Task<'_, Filings>) -> Result<BTreeMap<TaskKey, String>, Failure> {
    let blobs = task.ports.blobs.as_ref();
    let prefix = failures_prefix(&task.run.run);
    let mut failed = BTreeMap::new();
    for name in ask(task.env, || list_all(blobs, &prefix)).await? {
        let key = name
            .rsplit('/')
            .next()
            .and_then(|name| name.strip_suffix(".json")?.parse::<TaskKey>().ok());
        let (Some(key), Some(json)) = (key, ask(task.env, || blobs.get(&name)).await?) else {
            continue;
        };
        let record = serde_json::from_slice(&json).map(|record: FailureRecord| record.code);
        failed.insert(
            key,
            record.unwrap_or_else(|_| "engine.failure_unreadable".into()),
        );
    }
    Ok(failed)
}

/// The outcome of a task that has not failed.
pub(crate) async fn outcome<S: Stage<Work = Filings>>(
    task: &Task<'_, Filings>,
    key: &TaskKey,
) -> Result<S::Outcome, Failure> {
    let blobs = task.ports.blobs.as_ref();
    let found = ask(task.env, || artifact::outcome(blobs, &task.run.scope, key)).await?;
    // It had an outcome when the flow asked for this, so it was torn since.
    let found = found.ok_or_else(|| {
        Failure::transient(
            "model.answer_missing",
            format!("{} {key} has gone", S::NAME),
        )
    })?;
    serde_json::from_slice(&found).map_err(|error| {
        Failure::permanent(
            "engine.outcome_unreadable",
            format!("{} {key}: {error}", S::NAME),
        )
    })
}
