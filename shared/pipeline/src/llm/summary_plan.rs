//! What a model is asked about a document: questions about its structure, then sections, each by the digest of exactly
//! what the question will hold. The flow reads it; no text is in it.

use serde::{Deserialize, Serialize};
use stemma_document::{ModelAnswers, SectionTree, Source};
use stemma_engine::TaskKey;

use super::questions::QuestionId;
use super::summaries::{SectionPlan, SummaryTree, plan_summaries};
use crate::settings::RunSettings;
use stemma_outline::structure::Draft;

/// Questions, or sections, of one part of a plan: an outcome holds at most 64 KiB.
pub(crate) const ITEMS_PER_PAGE: usize = 300;

/// What [`DraftOutline`](crate::stages::DraftOutline) leaves for the stages after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DraftBlob {
    /// What rules and answers found.
    pub(crate) draft: Draft,
    /// The numbers of the answers it was found with.
    pub(crate) answers: ModelAnswers,
    /// The tree of it, measured; its sections have the indices of the plan.
    pub(crate) tree: SectionTree,
}

/// A stretch of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlanPage {
    /// Questions about structure, before there is an outline.
    #[serde(rename = "asked")]
    pub questions: Vec<QuestionId>,
    /// Per section, once there is one.
    pub sections: Vec<SectionPlan>,
}

/// The plan of a document, put together from its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SummaryPlan {
    /// The artifact that holds the draft.
    pub(crate) draft: TaskKey,
    /// The summaries.
    pub(crate) summaries: SummaryTree,
}

/// Plans the questions about the sections of a document, in parts of [`ITEMS_PER_PAGE`].
pub(crate) fn plan_pages(
    source: &Source,
    tree: &SectionTree,
    settings: &RunSettings,
) -> Vec<PlanPage> {
    let sections = plan_summaries(source, tree, settings);
    let parts: Vec<PlanPage> = sections
        .chunks(ITEMS_PER_PAGE)
        .map(|some: &[SectionPlan]| PlanPage {
            sections: some.to_vec(),
            ..PlanPage::default()
        })
        .collect();
    if parts.is_empty() {
        vec![PlanPage::default()]
    } else {
        parts
    }
}

impl SummaryPlan {
    /// Puts a plan together.
    pub(crate) fn from_pages(draft: TaskKey, source: TaskKey, parts: Vec<PlanPage>) -> Self {
        let sections = parts.into_iter().flat_map(|part| part.sections).collect();
        Self {
            draft,
            summaries: SummaryTree::new(draft, source, sections),
        }
    }
}
