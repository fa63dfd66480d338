//! The result of a comparison.

use serde::Serialize;
use stemma_diff::{Churn, DiffStatus, Pair, QuotedSentence};
use stemma_document::rounding::rounded_share;
use utoipa::ToSchema;

use crate::{ApiError, CompareRequest, DocumentInfo, SectionInfo, cursor};

/// Two documents with their sections aligned.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Comparison {
    /// The earlier document.
    pub left: ComparedSide,
    /// The later document.
    pub right: ComparedSide,
    /// Number of sections by outcome.
    pub counts: OutcomeCounts,
    /// Changes of the whole text.
    pub changed: TextChurn,
    /// Changes by Item, with all subsections.
    pub items: Vec<ItemTextChurn>,
    /// Parts that could not be compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Sections with their partners, in the order of the right; every section of both occurs once.
    pub pairs: Vec<SectionPair>,
    /// Number of pairs with the requested outcomes.
    pub total: usize,
    /// Cursor of the next page; `null` on the last.
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ComparedSide {
    pub document: DocumentInfo,
    /// Locator of the compared part.
    pub locator: String,
    /// Whether its text is in the store.
    pub has_text: bool,
}

/// Number of sections by outcome. A section that moved or was renamed also has an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, ToSchema)]
pub struct OutcomeCounts {
    /// With the same words.
    pub unchanged: usize,
    /// With changed words.
    pub modified: usize,
    /// Only in the later document.
    pub added: usize,
    /// Only in the earlier document.
    pub removed: usize,
    /// In both; the text of one is not stored.
    pub unknown: usize,
    /// With a changed title.
    pub renamed: usize,
    /// At a different position.
    pub moved: usize,
}

/// How much of a text changed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, ToSchema)]
pub struct TextChurn {
    /// Words of the earlier text.
    pub left_words: u64,
    /// Words of the later text.
    pub right_words: u64,
    /// Share of the words of both that only one has, 0 to 1; `null` if a text is not stored.
    pub changed: Option<f64>,
}

/// How much of an Item changed.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ItemTextChurn {
    /// Its earlier section; `null` if it was added.
    pub left: Option<PairedSection>,
    /// Its later section; `null` if it was removed.
    pub right: Option<PairedSection>,
    #[serde(flatten)]
    pub churn: TextChurn,
}

/// A section and its partner in the other document, if it has one.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SectionPair {
    /// `unchanged`, `modified`, `added`, `removed`, `unknown`: of its own text, up to its first sub-section.
    #[schema(value_type = String)]
    pub outcome: DiffStatus,
    /// Whether its title has other words; numbers and dates do not count.
    pub renamed: bool,
    /// Whether its parent or its order changed.
    pub moved: bool,
    /// Share of words of its own text that both have, 0 to 1.
    pub similarity: Option<f64>,
    /// The earlier section.
    pub left: Option<PairedSection>,
    /// The later section.
    pub right: Option<PairedSection>,
    /// Without a partner: locator of the section of the other document with most of its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stands_in: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<ChangedSentence>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<ChangedSentence>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reworded: Vec<RewordedSentence>,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PairedSection {
    /// Its level, 1 for top sections.
    pub depth: usize,
    /// The Item of the section: `item-1A`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    #[serde(flatten)]
    pub section: SectionInfo,
}

/// A quoted sentence.
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

/// A sentence in both versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RewordedSentence {
    pub left: ChangedSentence,
    pub right: ChangedSentence,
}

impl Comparison {
    // Keeps one page of the pairs. The cursor is bound to both versions: a new version changes the pairs.
    pub(super) fn paginate(
        &mut self,
        request: &CompareRequest,
        limit: usize,
    ) -> Result<(), ApiError> {
        let cursor_key = format!(
            "{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{} {}",
            request.left,
            request.right,
            request.item,
            request.sentences,
            request.outcomes,
            self.left.document.version,
            self.right.document.version
        );
        let skip = cursor::decode_offset(request.cursor.as_deref(), &cursor_key)?;
        self.pairs.drain(..skip.min(self.total));
        self.pairs.truncate(limit);
        let next = skip + self.pairs.len();
        self.next_cursor =
            (next < self.total).then(|| cursor::encode(&cursor_key, &next.to_string()));
        Ok(())
    }
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
}

impl From<&QuotedSentence> for ChangedSentence {
    fn from(quoted: &QuotedSentence) -> Self {
        Self {
            text: quoted.text.clone(),
            page: quoted.page,
            line: quoted.line,
        }
    }
}

impl TextChurn {
    pub(super) fn from_churn(churn: Churn) -> Self {
        Self {
            left_words: churn.left_words,
            right_words: churn.right_words,
            // A small change is not rounded to none.
            changed: churn.changed.map(|share| match share > 0.0 {
                true => rounded_share(share).max(0.001),
                false => 0.0,
            }),
        }
    }
}
