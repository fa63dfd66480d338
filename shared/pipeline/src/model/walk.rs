//! The walk of a document every step of which is a question to a model: a flow of its own beside the one on the screen.
//!
//! Rules draft the outline; then the model is asked, all at once, which of the first pages are contents, whether each title
//! stands where it was located, and what each section says, leaves first. The tree is made from draft and answers.

use std::sync::Arc;

use stemma_document::Digest;
use stemma_engine::replay::{Replay, Stop};
use stemma_engine::stage::Stage;
use stemma_engine::{Failure, FailureRecord, TaskKey};

use super::answers::{Answer, Answers, Contents, Looked};
use super::plan::Plan;
use crate::Filings;
use crate::settings::OnModelFailure;
use crate::stages::{Assemble, DraftOutline, DraftPart};

/// The tree of a text under `source`: its digest, and the artifact whose blob `tree` holds it.
pub(crate) fn tree(replay: &mut Replay<'_, Filings>, text: Digest, source: TaskKey) -> Result<(Digest, TaskKey), Stop> {
    let settings = replay.settings();
    let Some(model) = &settings.model else { return Err(no_model()) };

    let plan = plan(replay, text, source)?;
    let (pages, titles, summaries) = (pages(replay, &plan), titles(replay, &plan), plan.summaries.ask_all(replay));
    let answers = Answers { pages: pages?, titles: titles?, summaries: summaries?.to_vec() };
    if model.on_failure == OnModelFailure::Fail {
        answered(&answers)?;
    }
    let assemble = Assemble { text, source, draft: plan.draft, answers: answers.digest() };
    let tree = replay.one(&assemble)?;
    Ok((tree.digest, assemble.key(settings)))
}

fn plan(replay: &mut Replay<'_, Filings>, text: Digest, source: TaskKey) -> Result<Arc<Plan>, Stop> {
    let draft = DraftOutline { text, source };
    let key = draft.key(replay.settings());
    replay.sub(
        "plan",
        |identity| {
            identity.text(&key.to_string());
        },
        |replay| {
            let drafted = replay.one(&draft)?;
            let rest = (1..drafted.parts).map(|part| DraftPart { plan: drafted.plan, draft: key, part });
            let mut parts = vec![drafted.first];
            for part in replay.all(rest)? {
                parts.push(part.map_err(Stop::Failed)?);
            }
            Ok(Arc::new(Plan::of(key, source, drafted.pages, parts)))
        },
    )
}

fn pages(replay: &mut Replay<'_, Filings>, plan: &Plan) -> Result<Vec<Option<Answer<Contents>>>, Stop> {
    wave(replay, "pages", plan, plan.ask_pages(), plan.pages.len())
}

fn titles(replay: &mut Replay<'_, Filings>, plan: &Plan) -> Result<Vec<Option<Answer<Looked>>>, Stop> {
    wave(replay, "titles", plan, plan.ask_titles(), plan.titles())
}

/// The answers to `asked` by their indices, of `all`.
fn wave<S: Stage<Work = Filings, Outcome: Clone>>(
    replay: &mut Replay<'_, Filings>,
    name: &str,
    plan: &Plan,
    asked: Vec<(usize, S)>,
    all: usize,
) -> Result<Vec<Option<Answer<S::Outcome>>>, Stop> {
    replay.sub(
        name,
        |identity| plan.identify(identity),
        |replay| {
            let (indices, stages): (Vec<usize>, Vec<S>) = asked.into_iter().unzip();
            let mut answers = vec![None; all];
            for (index, answer) in indices.into_iter().zip(replay.all(stages)?) {
                answers[index] = Some(answer.map_err(|record| record.code));
            }
            Ok(answers)
        },
    )
}

/// Stops at the first question without an answer.
fn answered(answers: &Answers) -> Result<(), Stop> {
    let pages = answers.pages.iter().flatten().filter_map(|answer| answer.as_ref().err());
    let titles = answers.titles.iter().flatten().filter_map(|answer| answer.as_ref().err());
    let summaries = answers.summaries.iter().flatten().filter_map(|(_, answer)| answer.as_ref().err());
    match pages.chain(titles).chain(summaries).next() {
        None => Ok(()),
        Some(code) => {
            let failure = Failure::permanent(code, "the model did not answer a question about this document")
                .with_next("run it again, or set model.on_failure to `gap` or `offline`");
            Err(Stop::Failed(FailureRecord::of(failure, "model", 1, 0)))
        }
    }
}

/// Settings that ask for a model and name none: refused at submission, and here.
fn no_model() -> Stop {
    let failure =
        Failure::permanent("config.no_model", "structure = \"llm\" needs a model, and the settings name none")
            .with_next("set model.name and model.base_url, or structure = \"auto\"");
    Stop::Failed(FailureRecord::of(failure, "submit", 1, 0))
}
