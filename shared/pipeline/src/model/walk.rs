//! The walk of a document whose structure and summaries a model is asked about: a flow of its own beside the one on the
//! screen.
//!
//! The outline comes first, in rounds: each walks the method (see [`super::outline`]) as far as the answers go, and leaves
//! the questions it stopped at. Then the model is asked what each section says, leaves first. The tree is made from all that.

use std::sync::Arc;

use stemma_document::Digest;
use stemma_engine::replay::{Replay, Stop};
use stemma_engine::stage::Stage;
use stemma_engine::{Failure, FailureRecord, TaskKey};

use super::answers::{Answer, Answers};
use super::asks::{Kind, Pointer, QuestionId, Reply};
use super::known::said_behind;
use super::plan::{Part, Plan};
use crate::Filings;
use crate::settings::OnModelFailure;
use crate::stages::{
    Assemble, DetectToc, DraftOutline, DraftPart, Drafted, Locate, ReadContents, ReadWindow,
    Repair, VerifyTitle,
};

/// Rounds after which a method that still asks has a fault.
const MAX_ROUNDS: usize = 64;

/// The tree of a text under `source`: its digest, and the artifact whose blob `tree` holds it.
pub(crate) fn tree(
    replay: &mut Replay<'_, Filings>,
    text: Digest,
    source: TaskKey,
) -> Result<(Digest, TaskKey), Stop> {
    let settings = replay.settings();
    let Some(model) = &settings.model else {
        return Err(no_model());
    };

    let (plan, drafted) = plan(replay, text, source)?;
    let summaries = plan.summaries.ask_all(replay)?;
    let described = plan.summaries.ask_description(replay, &summaries)?;
    let answers = Answers {
        summaries: summaries.to_vec(),
        described,
    };
    if model.on_failure == OnModelFailure::Fail {
        let all = answers
            .summaries
            .iter()
            .chain([&answers.described])
            .flatten();
        answered(all.filter_map(|(_, answer)| answer.as_ref().err()))?;
    }
    let assemble = Assemble {
        text,
        source,
        draft: plan.draft,
        drafted,
        answers: answers.digest(),
    };
    let tree = replay.one(&assemble)?;
    Ok((tree.digest, assemble.key(settings)))
}

/// The plan of the sections, and the digest of the answers that their outline was found with.
fn plan(
    replay: &mut Replay<'_, Filings>,
    text: Digest,
    source: TaskKey,
) -> Result<(Arc<Plan>, Digest), Stop> {
    let mut draft = DraftOutline::first(text, source);
    for _ in 0..MAX_ROUNDS {
        match round(replay, &draft)? {
            Round::Done(plan) => return Ok((plan, draft.answers)),
            Round::Answered(before, answers) => {
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
    Err(Stop::Failed(FailureRecord::of(
        failure,
        DraftOutline::NAME,
        1,
        0,
    )))
}

/// What a round came to.
#[derive(Clone)]
enum Round {
    /// Nothing is left to ask about the structure.
    Done(Arc<Plan>),
    /// All its questions have answers: its key, and the digest of all answers so far.
    Answered(TaskKey, Digest),
}

fn round(replay: &mut Replay<'_, Filings>, draft: &DraftOutline) -> Result<Round, Stop> {
    let key = draft.key(replay.settings());
    replay.sub(
        "round",
        |identity| {
            identity.text(&key.to_string());
        },
        |replay| {
            let (done, parts) = drafted(replay, draft, key)?;
            if done {
                return Ok(Round::Done(Arc::new(Plan::of(key, draft.source, parts))));
            }
            let asked: Vec<QuestionId> = parts.into_iter().flat_map(|part| part.asked).collect();
            let answers = ask(replay, draft.source, key, &asked)?;
            let on_failure = replay
                .settings()
                .model
                .as_ref()
                .map(|model| model.on_failure);
            if on_failure == Some(OnModelFailure::Fail) {
                answered(
                    answers
                        .iter()
                        .filter_map(|(_, answer)| answer.as_ref().err()),
                )?;
            }
            Ok(Round::Answered(key, said_behind(draft.answers, &answers)))
        },
    )
}

/// What a round drafted: whether it is the last, and all its parts.
fn drafted(
    replay: &mut Replay<'_, Filings>,
    draft: &DraftOutline,
    key: TaskKey,
) -> Result<(bool, Vec<Part>), Stop> {
    let Drafted {
        done,
        plan,
        parts,
        first,
    } = replay.one(draft)?;
    let rest = (1..parts).map(|part| DraftPart {
        plan,
        draft: key,
        part,
    });
    let mut all = vec![first];
    for part in replay.all(rest)? {
        all.push(part.map_err(Stop::Failed)?);
    }
    Ok((done, all))
}

/// The answers to the questions of a round, in their order; all are asked at once.
fn ask(
    replay: &mut Replay<'_, Filings>,
    source: TaskKey,
    round: TaskKey,
    asked: &[QuestionId],
) -> Result<Vec<(QuestionId, Answer<Reply>)>, Stop> {
    let mut replies: Vec<(usize, Answer<Reply>)> = Vec::with_capacity(asked.len());
    let mut missing = None;
    let mut kind = |found: Result<Vec<(usize, Answer<Reply>)>, Stop>| match found {
        Ok(found) => replies.extend(found),
        Err(stop) => missing = Some(stop),
    };
    let of = |kind: Kind| {
        asked
            .iter()
            .enumerate()
            .filter(move |(_, asked)| asked.kind == kind)
            .map(move |(at, asked): (usize, &QuestionId)| {
                let index = u32::try_from(at).unwrap_or(u32::MAX);
                (
                    at,
                    Pointer {
                        reads: asked.reads,
                        source,
                        round,
                        at: index,
                    },
                )
            })
    };
    kind(wave(replay, of(Kind::DetectToc), DetectToc));
    kind(wave(replay, of(Kind::ReadContents), ReadContents));
    kind(wave(replay, of(Kind::ReadWindow), ReadWindow));
    kind(wave(replay, of(Kind::Locate), Locate));
    kind(wave(replay, of(Kind::VerifyTitle), VerifyTitle));
    kind(wave(replay, of(Kind::Repair), Repair));
    if let Some(stop) = missing {
        return Err(stop);
    }
    replies.sort_by_key(|(at, _)| *at);
    Ok(asked
        .iter()
        .copied()
        .zip(replies.into_iter().map(|(_, reply)| reply))
        .collect())
}

/// The answers to the questions of one kind, with their indices.
fn wave<S: Stage<Work = Filings, Outcome = Reply>>(
    replay: &mut Replay<'_, Filings>,
    asked: impl Iterator<Item = (usize, Pointer)>,
    stage: fn(Pointer) -> S,
) -> Result<Vec<(usize, Answer<Reply>)>, Stop> {
    let (indices, pointers): (Vec<usize>, Vec<Pointer>) = asked.unzip();
    let answers = replay.all(pointers.into_iter().map(stage))?;
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
fn answered<'a>(mut codes: impl Iterator<Item = &'a String>) -> Result<(), Stop> {
    match codes.next() {
        None => Ok(()),
        Some(code) => {
            let failure = Failure::permanent(
                code,
                "the model did not answer a question about this document",
            )
            .with_next("run it again, or set model.on_failure to `gap` or `offline`");
            Err(Stop::Failed(FailureRecord::of(failure, "model", 1, 0)))
        }
    }
}

/// Settings that ask for a model and name none: refused at submission, and here.
fn no_model() -> Stop {
    let failure = Failure::permanent(
        "config.no_model",
        "structure = \"llm\" needs a model, and the settings name none",
    )
    .with_next("set model.name and model.base_url, or structure = \"auto\"");
    Stop::Failed(FailureRecord::of(failure, "submit", 1, 0))
}
