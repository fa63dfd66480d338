//! The part of the flow that asks a model about structure and summaries.
//!
//! The outline comes first, in rounds. Each round runs the outline method (`llm::outline_round`) as far as
//! the answers go, and leaves the questions at which it stopped. Then come the summaries, leaves first. The
//! tree is assembled from the draft and all answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use stemma_document::Digest;
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::Stage;
use stemma_engine::{Failure, FailureRecord, TaskKey, TaskKeyBuilder};

use crate::FilingFlow;
use crate::llm::{
    PlanPage, QuestionId, QuestionRef, ReplyResult, SectionAnswers, StructureReply, SummaryAnswer,
    SummaryAnswers, SummaryPlan, SummaryTree, extend_digest,
};
use crate::settings::OnModelFailure;
use crate::stages::{
    Assemble, Describe, DetectTocQuestion, DraftOutcome, DraftOutline, LoadPlanPage,
    LocateQuestion, Question, QuestionStage, ReadContentsQuestion, ReadWindowQuestion,
    RepairQuestion, Summarize, VerifyTitleQuestion,
};

// A method that still asks after so many rounds has a bug.
const MAX_ROUNDS: usize = 64;

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
        let all = answers
            .summaries
            .iter()
            .chain([&answers.description])
            .flatten();
        fail_on_error(all.filter_map(|(_, answer)| answer.as_ref().err()))?;
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

// The plan of the sections, and the digest of the answers that led to their outline.
fn plan_sections(
    replay: &mut Replay<'_, FilingFlow>,
    text: Digest,
    source: TaskKey,
) -> Result<(Arc<SummaryPlan>, Digest), FlowStop> {
    let mut draft = DraftOutline::first(text, source);
    for _ in 0..MAX_ROUNDS {
        match run_round(replay, &draft)? {
            RoundResult::Done(plan) => return Ok((plan, draft.answers)),
            RoundResult::Answered(before, answers) => {
                draft = DraftOutline {
                    before: Some(before),
                    answers,
                    ..draft
                }
            }
        }
    }
    let failure = Failure::permanent(
        "model.rounds",
        format!("the outline still has open questions after {MAX_ROUNDS} rounds"),
    );
    Err(FlowStop::Failed(FailureRecord::new(
        failure,
        DraftOutline::NAME,
        1,
        0,
    )))
}

#[derive(Clone)]
enum RoundResult {
    Done(Arc<SummaryPlan>),
    /// All questions of the round are answered: the key of the round, and the digest of all answers so far.
    Answered(TaskKey, Digest),
}

fn run_round(
    replay: &mut Replay<'_, FilingFlow>,
    draft: &DraftOutline,
) -> Result<RoundResult, FlowStop> {
    let key = draft.key(replay.settings());
    replay.sub_flow(
        "round",
        |identity| {
            identity.text(&key.to_string());
        },
        |replay| {
            let (done, parts) = draft_pages(replay, draft, key)?;
            if done {
                return Ok(RoundResult::Done(Arc::new(SummaryPlan::from_pages(
                    key,
                    draft.source,
                    parts,
                ))));
            }
            let questions: Vec<QuestionId> =
                parts.into_iter().flat_map(|part| part.questions).collect();
            let answers = ask_questions(replay, draft.source, key, &questions)?;
            let on_failure = replay
                .settings()
                .model
                .as_ref()
                .map(|model| model.on_failure);
            if on_failure == Some(OnModelFailure::Fail) {
                fail_on_error(
                    answers
                        .iter()
                        .filter_map(|(_, answer)| answer.as_ref().err()),
                )?;
            }
            Ok(RoundResult::Answered(
                key,
                extend_digest(draft.answers, &answers),
            ))
        },
    )
}

// Whether the round is the last one, and all pages of its plan.
fn draft_pages(
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

fn ask_questions(
    replay: &mut Replay<'_, FilingFlow>,
    source: TaskKey,
    round: TaskKey,
    questions: &[QuestionId],
) -> Result<Vec<(QuestionId, ReplyResult<StructureReply>)>, FlowStop> {
    let refs: Vec<QuestionRef> = questions
        .iter()
        .zip(0..)
        .map(|(question, at)| QuestionRef {
            reads: question.reads,
            source,
            round,
            at,
        })
        .collect();
    // All kinds are asked before the first pending one stops the flow, so that one wave publishes all tasks of the round.
    let waves = [
        ask_kind::<DetectTocQuestion>(replay, questions, &refs),
        ask_kind::<ReadContentsQuestion>(replay, questions, &refs),
        ask_kind::<ReadWindowQuestion>(replay, questions, &refs),
        ask_kind::<LocateQuestion>(replay, questions, &refs),
        ask_kind::<VerifyTitleQuestion>(replay, questions, &refs),
        ask_kind::<RepairQuestion>(replay, questions, &refs),
    ];
    let mut replies = BTreeMap::new();
    let mut pending = None;
    for wave in waves {
        match wave {
            Ok(answers) => replies.extend(answers),
            Err(stop) => pending = Some(stop),
        }
    }
    match pending {
        Some(stop) => Err(stop),
        None => Ok(questions
            .iter()
            .copied()
            .zip(replies.into_values())
            .collect()),
    }
}

// Replies by their index in the round.
fn ask_kind<Q: Question>(
    replay: &mut Replay<'_, FilingFlow>,
    questions: &[QuestionId],
    refs: &[QuestionRef],
) -> Result<Vec<(usize, ReplyResult<StructureReply>)>, FlowStop> {
    let indices: Vec<usize> = (0..questions.len())
        .filter(|at| questions[*at].kind == Q::KIND)
        .collect();
    let stages = indices
        .iter()
        .map(|at| QuestionStage::<Q>::new(refs[*at].clone()));
    let answers = replay
        .results(stages)?
        .into_iter()
        .map(|answer| answer.map_err(|record| record.code));
    Ok(indices.iter().copied().zip(answers).collect())
}

// Summaries need the summaries of their sub-sections, so they are asked in waves, leaves first.
fn ask_summaries(
    replay: &mut Replay<'_, FilingFlow>,
    draft: TaskKey,
    tree: &SummaryTree,
) -> Result<Arc<SummaryAnswers>, FlowStop> {
    let mut results: Arc<SummaryAnswers> = Arc::new(vec![None; tree.len()]);
    for wave in 0..tree.waves() {
        let below = Arc::clone(&results);
        results = replay.sub_flow(
            "summaries",
            |identity: &mut TaskKeyBuilder| {
                identity.text(&draft.to_string()).number(wave as u64);
            },
            |replay| {
                let (indices, stages): (Vec<usize>, Vec<Summarize>) = tree
                    .wave_tasks(wave, &below)
                    .into_iter()
                    .map(|(index, task)| (index, Summarize(task)))
                    .unzip();
                let keys: Vec<TaskKey> = stages
                    .iter()
                    .map(|stage| stage.key(replay.settings()))
                    .collect();
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
    let answer = replay.result(&describe)?;
    Ok(Some((
        describe.key(replay.settings()),
        answer.map_err(|record| record.code),
    )))
}

// Stops the flow at the first failed question.
fn fail_on_error<'a>(mut codes: impl Iterator<Item = &'a String>) -> Result<(), FlowStop> {
    match codes.next() {
        None => Ok(()),
        Some(code) => {
            let failure = Failure::permanent(
                code,
                "the model did not answer a question about this document",
            )
            .with_next("run it again, or set model.on_failure to `gap` or `offline`");
            Err(FlowStop::Failed(FailureRecord::new(failure, "model", 1, 0)))
        }
    }
}

// Submission refuses these settings too.
fn no_model_error() -> FlowStop {
    let failure = Failure::permanent(
        "config.no_model",
        "structure = \"llm\" needs a model, and the settings do not name one",
    )
    .with_next("set model.name and model.base_url, or structure = \"auto\"");
    FlowStop::Failed(FailureRecord::new(failure, "submit", 1, 0))
}
