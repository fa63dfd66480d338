//! `draft_outline`: one round of the outline method (see [`crate::llm::outline_round`]).
//!
//! Each round starts from the beginning with all answers so far. It ends with further questions or with the
//! outline.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stemma_document::{Digest, SectionTree};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, StageResult};
use stemma_engine::{Failure, TaskKey, TaskKeyBuilder};

use super::codec::{decode_source, parse_json, source_error, to_json, tree_settings};
use super::replies::read_replies;
use crate::llm::{
    AnswerSet, DraftBlob, ITEMS_PER_PAGE, OutlineRound, PlanPage, QuestionId, empty_digest,
    outline_round, plan_pages,
};
use crate::settings::RunSettings;
use crate::{FilingFlow, FilingTask};
use stemma_outline::enrich;

/// Drafts the outline of a text as far as the answers go. Key: the text, the settings of structure, sections
/// and model, and all answers so far.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DraftOutline {
    pub(crate) text: Digest,
    /// The artifact whose blob `source` holds the text.
    pub(crate) source: TaskKey,
    /// The previous round; `None` in the first.
    pub(crate) before: Option<TaskKey>,
    /// Digest of all answers so far.
    pub(crate) answers: Digest,
}

/// A round with open questions leaves the blobs `asks` and `known`, the last round the blob `draft`. The blob
/// `plan` holds all pages of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DraftOutcome {
    /// Whether the structure is final: the pages then plan sections, else questions.
    pub(crate) done: bool,
    /// Digest of the blob `plan`.
    pub(crate) plan: Digest,
    /// Number of pages of the plan.
    pub(crate) parts: u32,
    /// The first page. Most plans have no other.
    pub(crate) first: PlanPage,
}

#[async_trait]
impl Stage for DraftOutline {
    type Work = FilingFlow;
    type Outcome = DraftOutcome;

    const NAME: &'static str = "draft_outline";
    const REVISION: u32 = 2;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        identity
            .bytes(self.text.as_bytes())
            .bytes(self.answers.as_bytes());
        identity.text(&tree_settings(settings));
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<DraftOutcome> {
        let answers = self.load_answers(task).await?;
        let packed = task.blob(&self.source, "source").await?;
        let settings = task.settings.clone();
        let outcome = task
            .env
            .compute(move || draft_round(packed, &answers, &settings))
            .await;
        outcome.map_err(|panic| Failure::transient("structure.crashed", panic))?
    }
}

impl DraftOutline {
    pub(crate) fn first(text: Digest, source: TaskKey) -> Self {
        Self {
            text,
            source,
            before: None,
            answers: empty_digest(),
        }
    }

    // All answers of previous rounds, as the flow has them.
    async fn load_answers(&self, task: &FilingTask<'_>) -> Result<AnswerSet, Failure> {
        let Some(before) = self.before else {
            return Ok(AnswerSet::default());
        };
        let mut answers: AnswerSet = parse_json(&task.blob(&before, "known").await?)?;
        let parts: Vec<PlanPage> = parse_json(&task.blob(&before, "plan").await?)?;
        let questions: Vec<QuestionId> =
            parts.into_iter().flat_map(|part| part.questions).collect();
        answers.extend(read_replies(task, self.source, before, questions).await?);
        if answers.digest() != self.answers {
            let message = "the answers differ from those that the flow read";
            return Err(Failure::transient("model.answers_changed", message));
        }
        Ok(answers)
    }
}

// Pure (I-12).
fn draft_round(
    packed: Bytes,
    answers: &AnswerSet,
    settings: &RunSettings,
) -> StageResult<DraftOutcome> {
    let source = decode_source(packed)?;
    match outline_round(&source, settings, answers).map_err(source_error)? {
        OutlineRound::Pending(pending) => {
            let (ids, questions): (Vec<_>, Vec<_>) = pending.into_iter().unzip();
            let parts = ids.chunks(ITEMS_PER_PAGE).map(|some| PlanPage {
                questions: some.to_vec(),
                ..PlanPage::default()
            });
            draft_output(
                false,
                parts.collect(),
                vec![("asks", to_json(&questions)?), ("known", to_json(answers)?)],
            )
        }
        OutlineRound::Done(draft, answers) => {
            let tree = SectionTree::build(&draft.outline, draft.method, Vec::new());
            let tree = enrich::measure_tree(tree, &source);
            let parts = plan_pages(&source, &tree, settings);
            let blob = DraftBlob {
                tree,
                draft: *draft,
                answers,
            };
            draft_output(true, parts, vec![("draft", to_json(&blob)?)])
        }
    }
}

fn draft_output(
    done: bool,
    parts: Vec<PlanPage>,
    mut blobs: Vec<(&'static str, Bytes)>,
) -> StageResult<DraftOutcome> {
    let plan = to_json(&parts)?;
    let outcome = DraftOutcome {
        done,
        plan: Digest::from_content(&plan),
        parts: u32::try_from(parts.len()).unwrap_or(u32::MAX),
        first: parts.into_iter().next().unwrap_or_default(),
    };
    blobs.push(("plan", plan));
    Ok(StageOutput::new(outcome, blobs))
}
