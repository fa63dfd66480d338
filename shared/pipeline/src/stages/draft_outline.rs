//! Draft_outline: what rules find, what a model is to be asked about it, and, once nothing is left to ask, the outline.
//!
//! One round of the method (see [`crate::llm::outline_round`]): it is walked anew with all answers so far, as far as they go.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stemma_document::{Digest, SectionTree};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, TaskContext};
use stemma_engine::{Failure, TaskKey, TaskKeyBuilder};
use stemma_extract::EncodedSource;

use crate::FilingFlow;
use crate::llm::{
    AnswerSet, DraftBlob, ITEMS_PER_PAGE, OutlineRound, PlanPage, QuestionId, empty_digest,
    outline_round, plan_pages, read_replies,
};
use crate::settings::RunSettings;
use stemma_outline::enrich;

/// Drafts the outline of a text, as far as the answers go. Key: the text, the settings of structure, sections and model,
/// and all answers so far.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DraftOutline {
    /// Digest of the text.
    pub text: Digest,
    /// The artifact whose blob `decode` holds it.
    pub source: TaskKey,
    /// The round before; `None`: this is the first.
    pub before: Option<TaskKey>,
    /// Digest of all answers so far.
    pub answers: Digest,
}

/// What was drafted. A round that asks leaves the blobs `asks` and `load_answers`, the last one `draft_round`; all parts are the blob
/// `plan_pages`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftOutcome {
    /// Whether nothing is left to ask about the structure: the parts plan the sections.
    pub done: bool,
    /// Digest of the blob `plan_pages`.
    pub plan: Digest,
    /// Parts of the plan.
    pub parts: u32,
    /// The first of them; mostly there is no other.
    pub first: PlanPage,
}

#[async_trait]
impl Stage for DraftOutline {
    type Work = FilingFlow;
    type Outcome = DraftOutcome;

    const NAME: &'static str = "draft_outline";
    const REVISION: u32 = 2;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        let settings = (
            &settings.structure,
            &settings.outline,
            &settings.sections,
            &settings.model,
        );
        identity
            .bytes(self.text.as_bytes())
            .bytes(self.answers.as_bytes());
        identity.text(&serde_json::to_string(&settings).unwrap_or_default());
    }

    async fn run(
        &self,
        task: &TaskContext<'_, FilingFlow>,
    ) -> Result<StageOutput<DraftOutcome>, Failure> {
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
    /// The first round.
    pub(crate) fn first(text: Digest, source: TaskKey) -> Self {
        Self {
            text,
            source,
            before: None,
            answers: empty_digest(),
        }
    }

    /// The answers of all rounds before, as the flow had them.
    async fn load_answers(&self, task: &TaskContext<'_, FilingFlow>) -> Result<AnswerSet, Failure> {
        let Some(before) = self.before else {
            return Ok(AnswerSet::default());
        };
        let mut answers: AnswerSet = parse_json(&task.blob(&before, "known").await?)?;
        let parts: Vec<PlanPage> = parse_json(&task.blob(&before, "plan").await?)?;
        let questions: Vec<QuestionId> =
            parts.into_iter().flat_map(|part| part.questions).collect();
        answers.extend(read_replies(task, self.source, before, questions).await?);
        if answers.digest() != self.answers {
            let message =
                "answers are not those that the flow read; someone changed them meanwhile";
            return Err(Failure::transient("model.answers_changed", message));
        }
        Ok(answers)
    }
}

fn parse_json<T: serde::de::DeserializeOwned>(json: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(json)
        .map_err(|error| Failure::permanent("structure.json", error.to_string()))
}

fn to_json<T: Serialize>(value: &T) -> Result<Bytes, Failure> {
    let json = serde_json::to_vec(value);
    json.map(Bytes::from)
        .map_err(|error| Failure::permanent("structure.json", error.to_string()))
}

/// One round over a packed source: pure (I-12).
fn draft_round(
    packed: Bytes,
    answers: &AnswerSet,
    settings: &RunSettings,
) -> Result<StageOutput<DraftOutcome>, Failure> {
    let unreadable =
        |error: &dyn std::fmt::Display| Failure::permanent("structure.source", error.to_string());
    let source = EncodedSource::open(packed)
        .and_then(EncodedSource::decode)
        .map_err(|error| unreadable(&error))?;
    match outline_round(&source, settings, answers).map_err(|error| unreadable(&error))? {
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
) -> Result<StageOutput<DraftOutcome>, Failure> {
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
