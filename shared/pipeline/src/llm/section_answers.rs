//! What the model answered about a document: told alike by the flow, from its ledger, and by the stage that makes the tree,
//! from the artifacts themselves.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use stemma_document::{Digest, ModelAnswers};
use stemma_engine::blobs::list_all;
use stemma_engine::key::failures_prefix;
use stemma_engine::port_error::with_retry;
use stemma_engine::stage::{Stage, TaskContext};
use stemma_engine::{Failure, FailureRecord, TaskKey, artifact};

use super::StageUsage;
use super::summary_plan::SummaryPlan;
use crate::FilingFlow;

/// Artifacts that are read at once.
pub(crate) const MAX_CONCURRENT_READS: usize = 32;

/// An answer, or the code of the failure that came instead.
pub(crate) type ReplyResult<T> = Result<T, String>;

/// A summary, which lies in the blob `summary` beside this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryRef {
    /// Digest of title and summary, as far as what is above reads that.
    pub digest: Digest,
    /// What it cost.
    #[serde(rename = "spent")]
    pub usage: StageUsage,
}

/// All answers about the sections of a document.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct SectionAnswers {
    /// Per section, with the task that made it.
    pub(crate) summaries: Vec<Option<(TaskKey, ReplyResult<SummaryRef>)>>,
    /// About the document as a whole.
    #[serde(rename = "described")]
    pub(crate) description: Option<(TaskKey, ReplyResult<SummaryRef>)>,
}

impl SectionAnswers {
    /// Digest of all that a tree made from them holds.
    pub(crate) fn digest(&self) -> Digest {
        // Plain data can always be written as JSON.
        Digest::from_content(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// The numbers for the tree: those about its outline, and what each task cost, counted once.
    pub(crate) fn usage_totals(
        outline: &ModelAnswers,
        usage: &BTreeMap<TaskKey, StageUsage>,
    ) -> ModelAnswers {
        let sum = |part: fn(&StageUsage) -> u32| {
            usage
                .values()
                .map(|usage| u64::from(part(usage)))
                .sum::<u64>()
        };
        ModelAnswers {
            calls: outline
                .calls
                .saturating_add(u32::try_from(usage.len()).unwrap_or(u32::MAX)),
            prompt_tokens: outline.prompt_tokens + sum(|usage| usage.prompt_tokens),
            output_tokens: outline.output_tokens + sum(|usage| usage.output_tokens),
            ..outline.clone()
        }
    }
}

/// Reads all answers of a run from its artifacts, and what each task cost. What failed in this run counts as failed, as it
/// does for the flow, though another run may have an artifact by now.
pub(crate) async fn collect_answers(
    task: &TaskContext<'_, FilingFlow>,
    plan: &SummaryPlan,
) -> Result<(SectionAnswers, BTreeMap<TaskKey, StageUsage>), Failure> {
    let mut reader = ArtifactReader {
        task,
        failed: failed_tasks(task).await?,
        usage: BTreeMap::new(),
    };
    let mut answers = SectionAnswers {
        summaries: vec![None; plan.summaries.len()],
        description: None,
    };
    for wave in 0..plan.summaries.waves() {
        let stages = plan.summaries.wave_stages(wave, &answers.summaries);
        for (index, key, answer) in reader
            .read_all(stages, |summary: &SummaryRef| summary.usage)
            .await?
        {
            answers.summaries[index] = Some((key, answer));
        }
    }
    let describe = plan
        .summaries
        .description_stage(&answers.summaries)
        .map(|stage| (0, stage));
    let stages = reader
        .read_all(describe.into_iter().collect(), |summary: &SummaryRef| {
            summary.usage
        })
        .await?;
    answers.description = stages
        .into_iter()
        .next()
        .map(|(_, key, answer)| (key, answer));
    Ok((answers, reader.usage))
}

struct ArtifactReader<'a> {
    task: &'a TaskContext<'a, FilingFlow>,
    /// Codes of the failures of this run.
    failed: BTreeMap<TaskKey, String>,
    usage: BTreeMap<TaskKey, StageUsage>,
}

impl ArtifactReader<'_> {
    async fn read_all<S: Stage<Work = FilingFlow>>(
        &mut self,
        stages: Vec<(usize, S)>,
        usage_of: fn(&S::Outcome) -> StageUsage,
    ) -> Result<Vec<(usize, TaskKey, ReplyResult<S::Outcome>)>, Failure> {
        let task = self.task;
        let failed = &self.failed;
        let all: Vec<_> = stream::iter(stages)
            .map(|(index, stage): (usize, S)| async move {
                let key = stage.key(task.settings);
                let answer = match failed.get(&key) {
                    Some(code) => Err(code.clone()),
                    None => Ok(task_outcome::<S>(task, &key).await?),
                };
                Ok::<_, Failure>((index, key, answer))
            })
            .buffered(MAX_CONCURRENT_READS)
            .try_collect()
            .await?;
        for (_, key, answer) in &all {
            if let Ok(outcome) = answer {
                self.usage.insert(*key, usage_of(outcome));
            }
        }
        Ok(all)
    }
}

/// The failures of this run, by task.
pub(crate) async fn failed_tasks(
    task: &TaskContext<'_, FilingFlow>,
) -> Result<BTreeMap<TaskKey, String>, Failure> {
    let blobs = task.ports.blobs.as_ref();
    let prefix = failures_prefix(&task.run.run);
    let mut failed = BTreeMap::new();
    for name in with_retry(task.env, || list_all(blobs, &prefix)).await? {
        let key = name
            .rsplit('/')
            .next()
            .and_then(|name| name.strip_suffix(".json")?.parse::<TaskKey>().ok());
        let (Some(key), Some(json)) = (key, with_retry(task.env, || blobs.get(&name)).await?)
        else {
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
pub(crate) async fn task_outcome<S: Stage<Work = FilingFlow>>(
    task: &TaskContext<'_, FilingFlow>,
    key: &TaskKey,
) -> Result<S::Outcome, Failure> {
    let blobs = task.ports.blobs.as_ref();
    let json = with_retry(task.env, || artifact::outcome(blobs, &task.run.scope, key)).await?;
    // It had an outcome when the flow asked for this, so it was torn since.
    let json = json.ok_or_else(|| {
        Failure::transient(
            "model.answer_missing",
            format!("{} {key} has gone", S::NAME),
        )
    })?;
    serde_json::from_slice(&json).map_err(|error| {
        Failure::permanent(
            "engine.outcome_unreadable",
            format!("{} {key}: {error}", S::NAME),
        )
    })
}
