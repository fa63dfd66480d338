//! Reads the answers of a run from their artifacts, as the flow has them in its ledger.
//!
//! A task that failed in this run counts as failed even if another run has written its artifact since. The
//! stage must see exactly what the flow saw, or its key would name other answers.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use stemma_document::Digest;
use stemma_engine::stage::Stage;
use stemma_store::blobs::{Blobs, list_all};
use stemma_store::key::failures_prefix;
use stemma_store::{Failure, FailureRecord, TaskKey};

use super::{Describe, ReadWindow, Summarize};
use crate::llm::{
    ReplyResult, SectionAnswers, StageUsage, SummaryPlan, SummaryRef, WindowRef, WindowReplies,
};
use crate::{FilingFlow, FilingTask};

const MAX_CONCURRENT_READS: usize = 32;

/// The replies to planned windows, in their order.
pub(super) async fn read_replies(
    task: &FilingTask<'_>,
    source: TaskKey,
    plan: TaskKey,
    windows: Vec<Digest>,
) -> Result<WindowReplies, Failure> {
    let failed = &failed_tasks(task).await?;
    stream::iter(windows.into_iter().zip(0..))
        .map(|(reads, at): (Digest, u32)| async move {
            let window = ReadWindow(WindowRef {
                reads,
                source,
                plan,
                at,
            });
            Ok::<_, Failure>((reads, read_reply(task, failed, &window).await?.1))
        })
        .buffered(MAX_CONCURRENT_READS)
        .try_collect()
        .await
}

/// All answers about the sections of a document, and what each task cost.
pub(super) async fn read_section_answers(
    task: &FilingTask<'_>,
    plan: &SummaryPlan,
) -> Result<(SectionAnswers, BTreeMap<TaskKey, StageUsage>), Failure> {
    let failed = &failed_tasks(task).await?;
    let mut answers = SectionAnswers {
        summaries: vec![None; plan.summaries.len()],
        description: None,
    };
    // The tasks of a round depend on the answers of the rounds below it.
    for round in 0..plan.summaries.rounds() {
        let tasks = plan.summaries.round_tasks(round, &answers.summaries);
        let read: Vec<(usize, (TaskKey, ReplyResult<SummaryRef>))> = stream::iter(tasks)
            .map(|(index, summary)| async move {
                Ok::<_, Failure>((index, read_reply(task, failed, &Summarize(summary)).await?))
            })
            .buffered(MAX_CONCURRENT_READS)
            .try_collect()
            .await?;
        for (index, answer) in read {
            answers.summaries[index] = Some(answer);
        }
    }
    if let Some(description) = plan.summaries.description_task(&answers.summaries) {
        answers.description = Some(read_reply(task, failed, &Describe(description)).await?);
    }
    let all = answers.summaries.iter().chain([&answers.description]);
    let usage = all
        .flatten()
        .filter_map(|(key, answer)| Some((*key, answer.as_ref().ok()?.usage)))
        .collect();
    Ok((answers, usage))
}

// The key of a task, with its outcome or the code of its failure in this run.
async fn read_reply<S: Stage<Work = FilingFlow>>(
    task: &FilingTask<'_>,
    failed: &BTreeMap<TaskKey, String>,
    stage: &S,
) -> Result<(TaskKey, ReplyResult<S::Outcome>), Failure> {
    let key = stage.key(task.settings);
    match failed.get(&key) {
        Some(code) => Ok((key, Err(code.clone()))),
        None => Ok((key, Ok(task_outcome::<S>(task, &key).await?))),
    }
}

async fn failed_tasks(task: &FilingTask<'_>) -> Result<BTreeMap<TaskKey, String>, Failure> {
    let blobs = &task.ports.blobs;
    let prefix = failures_prefix(&task.run.run);
    let mut failed = BTreeMap::new();
    for name in list_all(blobs, &prefix).await? {
        let file = name
            .rsplit('/')
            .next()
            .and_then(|file| file.strip_suffix(".json"));
        let key = file.and_then(|file| file.parse::<TaskKey>().ok());
        let (Some(key), Some(json)) = (key, blobs.get(&name).await?) else {
            continue;
        };
        let code = serde_json::from_slice(&json).map(|record: FailureRecord| record.code);
        failed.insert(
            key,
            code.unwrap_or_else(|_| "engine.failure_unreadable".into()),
        );
    }
    Ok(failed)
}

async fn task_outcome<S: Stage<Work = FilingFlow>>(
    task: &FilingTask<'_>,
    key: &TaskKey,
) -> Result<S::Outcome, Failure> {
    let json = task.outcome(key).await?;
    serde_json::from_slice(&json).map_err(|error| {
        let message = format!("{} {key}: {error}", S::NAME);
        Failure::permanent("engine.outcome_unreadable", message)
    })
}
