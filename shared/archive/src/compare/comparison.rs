//! What is shown of two documents side by side.

use serde::Serialize;
use stemma_diff::{Churn, DiffStatus, Pair};
use utoipa::ToSchema;

use crate::documents::rounded_share;
use crate::{DocumentInfo, SectionInfo};

/// Two documents side by side.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Comparison {
    /// The document before.
    pub left: ComparedSide,
    /// The document after.
    pub right: ComparedSide,
    /// How many sections of each outcome there are.
    pub counts: OutcomeCounts,
    /// How much of all words changed.
    pub changed: TextChurn,
    /// How much of each Item changed, all below it included.
    pub items: Vec<ItemTextChurn>,
    /// What could not be compared, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Every section of both once, in the order of the right.
    pub pairs: Vec<SectionPair>,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ComparedSide {
    /// The document.
    pub document: DocumentInfo,
    /// What of it was compared, to paste back.
    pub locator: String,
    /// Whether its text is in the store.
    pub has_text: bool,
}

/// How many sections of each outcome there are. A section that moved or was renamed has an outcome besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, ToSchema)]
pub struct OutcomeCounts {
    /// Word by word the same.
    pub unchanged: usize,
    /// With other words.
    pub modified: usize,
    /// Only in the document after.
    pub added: usize,
    /// Only in the document before.
    pub removed: usize,
    /// In both, the text of one is not known.
    pub unknown: usize,
    /// With another title.
    pub renamed: usize,
    /// At another place.
    pub moved: usize,
}

/// How much of a text changed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, ToSchema)]
pub struct TextChurn {
    /// Words before.
    pub left_words: u64,
    /// Words after.
    pub right_words: u64,
    /// Share of the words of both that only one has, 0 to 1; `null` where a text is not known.
    pub changed: Option<f64>,
}

/// How much of an Item changed.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ItemTextChurn {
    /// Its section before; `null` where it was added.
    pub left: Option<PairedSection>,
    /// Its section after; `null` where it was removed.
    pub right: Option<PairedSection>,
    /// How much changed.
    #[serde(flatten)]
    pub churn: TextChurn,
}

/// A section with its partner, or without one.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SectionPair {
    /// `unchanged`, `modified`, `added`, `removed`, `unknown`: of its own text, up to its first sub-section.
    #[schema(value_type = String)]
    pub outcome: DiffStatus,
    /// Whether its title has other words; numbers and dates do not count.
    pub renamed: bool,
    /// Whether it stands below another section, or in another order.
    pub moved: bool,
    /// Share of words of its own text that both have, 0 to 1.
    pub similarity: Option<f64>,
    /// The section before.
    pub left: Option<PairedSection>,
    /// The section after.
    pub right: Option<PairedSection>,
    /// Where most of its text stands on the other side, where it has no partner: locator of a section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stands_in: Option<String>,
    /// Sentences that were removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<ChangedSentence>,
    /// Sentences that were added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<ChangedSentence>,
    /// Sentences that were reworded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reworded: Vec<RewordedSentence>,
}

/// A section of one side.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PairedSection {
    /// Its level, 1 for top sections.
    pub depth: usize,
    /// The Item it is: `item-1A`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// The section.
    #[serde(flatten)]
    pub section: SectionInfo,
}

/// A sentence as it stands in its document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ChangedSentence {
    /// The sentence, at most 400 characters.
    pub text: String,
    /// The physical page it begins on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The line it begins on, on its page or in the text.
    pub line: u32,
}

/// A sentence before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RewordedSentence {
    /// Before.
    pub left: ChangedSentence,
    /// After.
    pub right: ChangedSentence,
}

impl OutcomeCounts {
    pub(super) fn from_pairs(pairs: &[&Pair]) -> Self {
        let mut counts = Self::default();
        for pair in pairs {
            *match pair.status {
                DiffStatus::Unchanged => &mut counts.unchanged,
                DiffStatus::Modified => &mut counts.modified,
                DiffStatus::Added => &mut counts.added,
                DiffStatus::Removed => &mut counts.removed,
                DiffStatus::Unknown => &mut counts.unknown,
            } += 1;
            counts.renamed += usize::from(pair.renamed);
            counts.moved += usize::from(pair.moved);
        }
        counts
    }

    /// Sections that are not simply the same.
    pub fn changed_sections(&self) -> usize {
        self.modified + self.added + self.removed
    }
}

impl TextChurn {
    pub(super) fn from_churn(churn: Churn) -> Self {
        let Churn {
            left_words,
            right_words,
            changed,
        } = churn;
        // What changed a little did not change not at all.
        Self {
            left_words,
            right_words,
            changed: changed.map(|share: f32| {
                if share > 0.0 {
                    rounded_share(share).max(0.001)
                } else {
                    0.0
                }
            }),
        }
    }
}
