//! What a model is asked about a document: questions about its structure, then sections, each by the digest of exactly
//! what the question will hold. The flow reads it; no text is in it.

use serde::{Deserialize, Serialize};
use stemma_document::{ModelAnswers, SectionTree, Source};
use stemma_engine::TaskKey;

use super::asks::QuestionId;
use super::summaries::{Planned, Summaries, planned};
use crate::settings::Settings;
use stemma_outline::structure::Draft;

/// Questions, or sections, of one part of a plan: an outcome holds at most 64 KiB.
pub(crate) const PER_PART: usize = 300;

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
pub struct Part {
    /// Questions about structure, before there is an outline.
    pub asked: Vec<QuestionId>,
    /// Per section, once there is one.
    pub sections: Vec<Planned>,
}

/// The plan of a document, put together from its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The artifact that holds the draft.
    pub(crate) draft: TaskKey,
    /// The summaries.
    pub(crate) summaries: Summaries,
}

/// Plans the questions about the sections of a document, in parts of [`PER_PART`].
pub(crate) fn plan(source: &Source, tree: &SectionTree, settings: &Settings) -> Vec<Part> {
    let sections = planned(source, tree, settings);
    let parts: Vec<Part> = sections
        .chunks(PER_PART)
        .map(|some: &[Planned]| Part {
            sections: some.to_vec(),
            ..Part::default()
        })
        .collect();
    if parts.is_empty() {
        vec![Part::default()]
    } else {
        parts
    }
}

impl Plan {
    /// Puts a plan together.
    pub(crate) fn of(draft: TaskKey, source: TaskKey, parts: Vec<Part>) -> Self {
        let sections = parts.into_iter().flat_map(|part| part.sections).collect();
        Self {
            draft,
            summaries: Summaries::of(draft, source, sections),
        }
    }
}
