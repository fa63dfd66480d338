//! The walk of a document whose structure and summaries a model is asked about: a flow of its own beside the one on the
//! screen.
//!
//! The outline comes first, in rounds: each walks the method (see [`super::outline`]) as far as the answers go, and leaves
//! the questions it stopped at. Then the model is asked what each section says, leaves first. The tree is made from all that.

use std::sync::Arc;

use stemma_document::Digest;
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::Stage;
use stemma_engine::{Failure, FailureRecord, TaskKey};

use super::answer_set::extend_digest;
use super::questions::{QuestionId, QuestionKind, QuestionRef, StructureReply};
use super::section_answers::{ReplyResult, SectionAnswers};
use super::summary_plan::{PlanPage, SummaryPlan};
use crate::FilingFlow;
use crate::settings::OnModelFailure;
use crate::stages::{
    Assemble, DetectToc, DraftOutcome, DraftOutline, LoadPlanPage, Locate, ReadContents,
    ReadWindow, Repair, VerifyTitle,
};

/// Rounds after which a method that still asks has a fault.
const MAX_ROUNDS: usize = 64;

/// The tree of a text under `source`: its digest, and the artifact whose blob `tree_by_llm` holds it.
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
    let summaries = plan.summaries.ask_all(replay)?;
    let described = plan.summaries.ask_description(replay, &summaries)?;
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

/// The plan of the sections, and the digest of the answers that their outline was found with.
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
        format!("the outline asks on after {MAX_ROUNDS} rounds"),
    );
    Err(FlowStop::Failed(FailureRecord::new(
        failure,
        DraftOutline::NAME,
        1,
        0,
    )))
}

/// What a round came to.
#[derive(Clone)]
enum RoundResult {
    /// Nothing is left to ask about the structure.
    Done(Arc<SummaryPlan>),
    /// All its questions have answers: its key, and the digest of all answers so far.
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

/// What a round drafted: whether it is the last, and all its parts.
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

/// The answers to the questions of a round, in their order; all are asked at once.
fn ask_questions(
    replay: &mut Replay<'_, FilingFlow>,
    source: TaskKey,
    round: TaskKey,
    questions: &[QuestionId],
) -> Result<Vec<(QuestionId, ReplyResult<StructureReply>)>, FlowStop> {
    let mut replies: Vec<(usize, ReplyResult<StructureReply>)> =
        Vec::with_capacity(questions.len());
    let mut missing = None;
    let mut kind =
        |answers: Result<Vec<(usize, ReplyResult<StructureReply>)>, FlowStop>| match answers {
            Ok(answers) => replies.extend(answers),
            Err(stop) => missing = Some(stop),
        };
    let of = |kind: QuestionKind| {
        questions
            .iter()
            .enumerate()
            .filter(move |(_, questions)| questions.kind == kind)
            .map(move |(at, questions): (usize, &QuestionId)| {
                let index = u32::try_from(at).unwrap_or(u32::MAX);
                (
                    at,
                    QuestionRef {
                        reads: questions.reads,
                        source,
                        round,
                        at: index,
                    },
                )
            })
    };
    kind(ask_wave(replay, of(QuestionKind::DetectToc), DetectToc));
    kind(ask_wave(
        replay,
        of(QuestionKind::ReadContents),
        ReadContents,
    ));
    kind(ask_wave(replay, of(QuestionKind::ReadWindow), ReadWindow));
    kind(ask_wave(replay, of(QuestionKind::Locate), Locate));
    kind(ask_wave(replay, of(QuestionKind::VerifyTitle), VerifyTitle));
    kind(ask_wave(replay, of(QuestionKind::Repair), Repair));
    if let Some(stop) = missing {
        return Err(stop);
    }
    replies.sort_by_key(|(at, _)| *at);
    Ok(questions
        .iter()
        .copied()
        .zip(replies.into_iter().map(|(_, reply)| reply))
        .collect())
}

/// The answers to the questions of one kind, with their indices.
fn ask_wave<S: Stage<Work = FilingFlow, Outcome = StructureReply>>(
    replay: &mut Replay<'_, FilingFlow>,
    questions: impl Iterator<Item = (usize, QuestionRef)>,
    stage: fn(QuestionRef) -> S,
) -> Result<Vec<(usize, ReplyResult<StructureReply>)>, FlowStop> {
    let (indices, refs): (Vec<usize>, Vec<QuestionRef>) = questions.unzip();
    let answers = replay.results(refs.into_iter().map(stage))?;
    Ok(indices
        .into_iter()
        .zip(
            answers
                .into_iter()
                .map(|answer| answer.map_err(|record| record.code)),
        )
        .collect())
}

/// Stops at the first question that failed, by the code of its failure.
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

/// Settings that ask for a model and name none: refused at submission, and here.
fn no_model_error() -> FlowStop {
    let failure = Failure::permanent(
        "config.no_model",
        "structure = \"llm\" needs a model, and the settings name none",
    )
    .with_next("set model.name and model.base_url, or structure = \"auto\"");
    FlowStop::Failed(FailureRecord::new(failure, "submit", 1, 0))
}
