//! The part of the flow that asks a model about structure and summaries.
//!
//! Rules draft the outline and plan the windows that the model reads. Its replies add headings to the draft.
//! Then come the summaries, leaves first. The tree is assembled from the draft and all answers.

use std::sync::Arc;

use stemma_document::Digest;
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::Stage;
use stemma_store::{Failure, FailureRecord, TaskKey, TaskKeyBuilder};

use crate::FilingFlow;
use crate::llm::{
    PlanPage, SectionAnswers, SummaryAnswer, SummaryAnswers, SummaryPlan, SummaryTree, WindowRef,
    WindowReplies, replies_digest,
};
use crate::settings::OnModelFailure;
use crate::stages::{
    Assemble, Describe, DraftOutcome, DraftOutline, LoadPlanPage, ReadWindow, ReadWindows,
    Summarize,
};

/// Builds the tree of a text with a model. Returns its digest and the artifact whose blob `tree` holds it.
pub(crate) fn tree_by_llm(
    replay: &mut Replay<'_, FilingFlow>,
    text: Digest,
    source: TaskKey,
) -> Result<(Digest, TaskKey), FlowStop> {
    let settings = replay.settings();
    let Some(model) = &settings.model else {
        return Err(no_model_error());
    };

    let (plan, answers_digest) = plan_sections(replay, text, source)?;
    let summaries = ask_summaries(replay, plan.draft, &plan.summaries)?;
    let described = ask_description(replay, &plan.summaries, &summaries)?;
    let answers = SectionAnswers {
        summaries: summaries.to_vec(),
        description: described,
    };
    if model.on_failure == OnModelFailure::Fail {
        let all = answers.summaries.iter().chain([&answers.description]);
        fail_on_error(
            all.flatten()
                .filter_map(|(_, answer)| answer.as_ref().err()),
        )?;
    }
    let assemble = Assemble {
        text,
        source,
        draft: plan.draft,
        drafted: answers_digest,
        answers: answers.digest(),
    };
    let tree = replay.outcome(&assemble)?;
    Ok((tree.digest, assemble.key(settings)))
}

// The plan of the sections, and the digest of the replies that led to their outline.
fn plan_sections(
    replay: &mut Replay<'_, FilingFlow>,
    text: Digest,
    source: TaskKey,
) -> Result<(Arc<SummaryPlan>, Digest), FlowStop> {
    let planned = DraftOutline {
        text,
        source,
        read: None,
    };
    match load_plan(replay, &planned)? {
        LoadedPlan::Sections(plan) => Ok((plan, planned.replies_digest())),
        LoadedPlan::Read(read) => {
            let drafted = DraftOutline {
                read: Some(read),
                ..planned
            };
            match load_plan(replay, &drafted)? {
                LoadedPlan::Sections(plan) => Ok((plan, drafted.replies_digest())),
                LoadedPlan::Read(_) => Err(unfinished_error()),
            }
        }
    }
}

#[derive(Clone)]
enum LoadedPlan {
    Sections(Arc<SummaryPlan>),
    /// All windows of the plan have replies.
    Read(ReadWindows),
}

fn load_plan(
    replay: &mut Replay<'_, FilingFlow>,
    draft: &DraftOutline,
) -> Result<LoadedPlan, FlowStop> {
    let key = draft.key(replay.settings());
    replay.sub_flow(
        "plan",
        |identity| {
            identity.text(&key.to_string());
        },
        |replay| {
            let (done, parts) = plan_pages(replay, draft, key)?;
            if done {
                let plan = SummaryPlan::from_pages(key, draft.source, parts);
                return Ok(LoadedPlan::Sections(Arc::new(plan)));
            }
            let windows: Vec<Digest> = parts.into_iter().flat_map(|part| part.windows).collect();
            let replies = read_windows(replay, draft.source, key, &windows)?;
            let model = replay.settings().model.as_ref();
            if model.is_some_and(|model| model.on_failure == OnModelFailure::Fail) {
                fail_on_error(replies.iter().filter_map(|(_, reply)| reply.as_ref().err()))?;
            }
            Ok(LoadedPlan::Read(ReadWindows {
                plan: key,
                replies: replies_digest(&replies),
            }))
        },
    )
}

// Whether the plan lists sections, and all its pages.
fn plan_pages(
    replay: &mut Replay<'_, FilingFlow>,
    draft: &DraftOutline,
    key: TaskKey,
) -> Result<(bool, Vec<PlanPage>), FlowStop> {
    let DraftOutcome {
        done,
        plan,
        parts,
        first,
    } = replay.outcome(draft)?;
    let rest = (1..parts).map(|part| LoadPlanPage {
        plan,
        draft: key,
        part,
    });
    let mut all = vec![first];
    for part in replay.results(rest)? {
        all.push(part.map_err(FlowStop::Failed)?);
    }
    Ok((done, all))
}

fn read_windows(
    replay: &mut Replay<'_, FilingFlow>,
    source: TaskKey,
    plan: TaskKey,
    windows: &[Digest],
) -> Result<WindowReplies, FlowStop> {
    let stages = windows.iter().zip(0..).map(|(reads, at)| {
        ReadWindow(WindowRef {
            reads: *reads,
            source,
            plan,
            at,
        })
    });
    let replies = replay.results(stages)?.into_iter();
    let replies = replies.map(|reply| reply.map_err(|record| record.code));
    Ok(windows.iter().copied().zip(replies).collect())
}

// Summaries need the summaries of their sub-sections, so they are asked in rounds, leaves first.
fn ask_summaries(
    replay: &mut Replay<'_, FilingFlow>,
    draft: TaskKey,
    tree: &SummaryTree,
) -> Result<Arc<SummaryAnswers>, FlowStop> {
    let mut results: Arc<SummaryAnswers> = Arc::new(vec![None; tree.len()]);
    for round in 0..tree.rounds() {
        let below = Arc::clone(&results);
        results = replay.sub_flow(
            "summaries",
            |identity: &mut TaskKeyBuilder| {
                identity.text(&draft.to_string()).number(round as u64);
            },
            |replay| {
                let (indices, stages): (Vec<usize>, Vec<Summarize>) = tree
                    .round_tasks(round, &below)
                    .into_iter()
                    .map(|(index, task)| (index, Summarize(task)))
                    .unzip();
                let settings = replay.settings();
                let keys: Vec<TaskKey> = stages.iter().map(|stage| stage.key(settings)).collect();
                let answers = replay.results(stages)?;
                let mut results = below.to_vec();
                for ((index, key), answer) in indices.into_iter().zip(keys).zip(answers) {
                    results[index] = Some((key, answer.map_err(|record| record.code)));
                }
                Ok(Arc::new(results))
            },
        )?;
    }
    Ok(results)
}

// `None` if the document has no sections.
fn ask_description(
    replay: &mut Replay<'_, FilingFlow>,
    tree: &SummaryTree,
    answers: &[SummaryAnswer],
) -> Result<SummaryAnswer, FlowStop> {
    let Some(task) = tree.description_task(answers) else {
        return Ok(None);
    };
    let describe = Describe(task);
    let answer = replay.result(&describe)?.map_err(|record| record.code);
    Ok(Some((describe.key(replay.settings()), answer)))
}

// Stops the flow at the first failed question.
fn fail_on_error<'a>(mut codes: impl Iterator<Item = &'a String>) -> Result<(), FlowStop> {
    let Some(code) = codes.next() else {
        return Ok(());
    };
    let message = "the model did not answer a question about this document";
    let failure = Failure::permanent(code, message)
        .with_next("run it again, or set model.on_failure to `gap` or `offline`");
    Err(FlowStop::Failed(FailureRecord::new(failure, "model", 1, 0)))
}

// The replies leave no window open.
fn unfinished_error() -> FlowStop {
    let failure = Failure::permanent("model.unfinished", "the outline is open after all replies");
    let stage = DraftOutline::NAME;
    FlowStop::Failed(FailureRecord::new(failure, stage, 1, 0))
}

// Submission refuses these settings too.
fn no_model_error() -> FlowStop {
    let message = "structure = \"llm\" needs a model, and the settings do not name one";
    let failure = Failure::permanent("config.no_model", message)
        .with_next("set model.name and model.base_url, or structure = \"auto\"");
    FlowStop::Failed(FailureRecord::new(failure, "submit", 1, 0))
}
