//! What is shown of two documents side by side.

use serde::Serialize;
use stemma_diff::{Churn, Outcome, Pair};
use utoipa::ToSchema;

use crate::documents::rounded;
use crate::{DocumentView, SectionView};

/// Two documents side by side.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ComparisonView {
    /// The document before.
    pub left: ComparedView,
    /// The document after.
    pub right: ComparedView,
    /// How many sections of each outcome there are.
    pub counts: CountsView,
    /// How much of all words changed.
    pub changed: ChurnView,
    /// How much of each Item changed, all below it included.
    pub items: Vec<ItemChurnView>,
    /// What could not be compared, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Every section of both once, in the order of the right.
    pub pairs: Vec<PairView>,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ComparedView {
    /// The document.
    pub document: DocumentView,
    /// What of it was compared, to paste back.
    pub locator: String,
    /// Whether its text is in the store.
    pub has_text: bool,
}

/// How many sections of each outcome there are. A section that moved or was renamed has an outcome besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, ToSchema)]
pub struct CountsView {
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
pub struct ChurnView {
    /// Words before.
    pub left_words: u64,
    /// Words after.
    pub right_words: u64,
    /// Share of the words of both that only one has, 0 to 1; `null` where a text is not known.
    pub changed: Option<f64>,
}

/// How much of an Item changed.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ItemChurnView {
    /// Its section before; `null` where it was added.
    pub left: Option<SideView>,
    /// Its section after; `null` where it was removed.
    pub right: Option<SideView>,
    /// How much changed.
    #[serde(flatten)]
    pub churn: ChurnView,
}

/// A section with its partner, or without one.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PairView {
    /// `unchanged`, `modified`, `added`, `removed`, `unknown`: of its own text, up to its first sub-section.
    #[schema(value_type = String)]
    pub outcome: Outcome,
    /// Whether its title has other words; numbers and dates do not count.
    pub renamed: bool,
    /// Whether it stands below another section, or in another order.
    pub moved: bool,
    /// Share of words of its own text that both have, 0 to 1.
    pub similarity: Option<f64>,
    /// The section before.
    pub left: Option<SideView>,
    /// The section after.
    pub right: Option<SideView>,
    /// Where most of its text stands on the other side, where it has no partner: locator of a section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stands_in: Option<String>,
    /// Sentences that were removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<SentenceView>,
    /// Sentences that were added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<SentenceView>,
    /// Sentences that were reworded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reworded: Vec<RewordedView>,
}

/// A section of one side.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SideView {
    /// Its level, 1 for top sections.
    pub depth: usize,
    /// The Item it is: `item-1A`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// The section.
    #[serde(flatten)]
    pub section: SectionView,
}

/// A sentence as it stands in its document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SentenceView {
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
pub struct RewordedView {
    /// Before.
    pub left: SentenceView,
    /// After.
    pub right: SentenceView,
}

impl CountsView {
    pub(super) fn of(pairs: &[&Pair]) -> Self {
        let mut counts = Self::default();
        for pair in pairs {
            *match pair.outcome {
                Outcome::Unchanged => &mut counts.unchanged,
                Outcome::Modified => &mut counts.modified,
                Outcome::Added => &mut counts.added,
                Outcome::Removed => &mut counts.removed,
                Outcome::Unknown => &mut counts.unknown,
            } += 1;
            counts.renamed += usize::from(pair.renamed);
            counts.moved += usize::from(pair.moved);
        }
        counts
    }

    /// Sections that are not simply the same.
    pub fn differing(&self) -> usize {
        self.modified + self.added + self.removed
    }
}

impl ChurnView {
    pub(super) fn of(churn: Churn) -> Self {
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
                    rounded(share).max(0.001)
                } else {
                    0.0
                }
            }),
        }
    }
}
