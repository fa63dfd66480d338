//! The plan of a document: windows to read first, then sections, each by the digest of its prompt.
//! Holds no text, because the flow reads it.

use serde::{Deserialize, Serialize};
use stemma_document::{Digest, ModelAnswers, SectionTree, Source};
use stemma_store::TaskKey;

use super::summaries::{SectionPlan, SummaryTree, plan_summaries};
use crate::settings::RunSettings;
use stemma_outline::structure::Draft;

/// Most windows or sections on one page of a plan: an outcome holds at most 64 KiB.
pub(crate) const ITEMS_PER_PAGE: usize = 300;

/// The result of [`DraftOutline`](crate::stages::DraftOutline) for later stages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DraftBlob {
    pub(crate) draft: Draft,
    /// Statistics of the replies about structure.
    pub(crate) answers: ModelAnswers,
    /// The measured tree of the draft. Its sections have the indices of the plan.
    pub(crate) tree: SectionTree,
}

/// A part of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlanPage {
    /// Digests of the prompts of windows, while the outline is open.
    #[serde(rename = "asked")]
    pub windows: Vec<Digest>,
    /// Sections, once the outline is final.
    pub sections: Vec<SectionPlan>,
}

/// The complete plan of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SummaryPlan {
    /// The artifact that holds the draft.
    pub(crate) draft: TaskKey,
    pub(crate) summaries: SummaryTree,
}

/// Plans the sections of a document, in pages of [`ITEMS_PER_PAGE`].
pub(crate) fn plan_pages(
    source: &Source,
    tree: &SectionTree,
    settings: &RunSettings,
) -> Vec<PlanPage> {
    let sections = plan_summaries(source, tree, settings);
    let parts = sections.chunks(ITEMS_PER_PAGE).map(|some| PlanPage {
        sections: some.to_vec(),
        ..PlanPage::default()
    });
    match sections.len() {
        0 => vec![PlanPage::default()],
        _ => parts.collect(),
    }
}

impl SummaryPlan {
    pub(crate) fn from_pages(draft: TaskKey, source: TaskKey, parts: Vec<PlanPage>) -> Self {
        let sections = parts.into_iter().flat_map(|part| part.sections).collect();
        Self {
            draft,
            summaries: SummaryTree::new(draft, source, sections),
        }
    }
}
