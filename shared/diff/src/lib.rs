//! Compares two filings section by section: last year's risk factors beside this year's.
//!
//! Sections are matched by Item, by title without number and date, and by their words weighted by rarity; matched parents and
//! neighbors support a pair. Each section is then unchanged, modified, added or removed, and may also be renamed or moved. No
//! model is involved. The result is deterministic, and swapping the documents mirrors it. Time grows with the size of both
//! documents, not with their product.
//!
//! ```
//! # fn show(left: &stemma_document::SectionTree, right: &stemma_document::SectionTree) -> Result<(), stemma_diff::AlignError> {
//! use stemma_diff::{AlignInput, AlignOptions, align};
//! let alignment = align(&AlignInput::new(left, None), &AlignInput::new(right, None), &AlignOptions::default())?;
//! for pair in &alignment.pairs {
//!     println!("{:?} {:?}: {}", pair.left, pair.right, pair.status.as_str());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A text is never called unchanged when it is not available, or when its words differ.

mod churn;
mod features;
mod matching;
mod moves;
mod prior_filing;
mod sentence_diff;
mod sentence_index;
mod sentences;
mod similarity;
#[cfg(test)]
mod tests;
mod titles;

use std::collections::HashSet;

use serde::Serialize;
use stemma_document::{PageNo, SectionId, SectionSpan, SectionTree, SourceBody};

pub use churn::{Churn, ItemChurn};
use features::{DocumentFeatures, Interner, number_texts};
pub use features::{MAX_SECTIONS, MAX_WORDS};
use matching::{SectionMatches, match_sections};
pub use prior_filing::{PriorFilingError, filing_for_year, filings_of_issuers, prior_filing};
use sentence_diff::{SentenceDiff, diff_sentences};
use sentence_index::SentenceIndex;
use sentences::Lexicon;
use similarity::TermWeights;

// Longer quoted sentences are cut.
const SENTENCE_CHARS: usize = 400;
// Shorter sentences are not worth quoting.
const MIN_QUOTED_WORDS: usize = 6;

/// A document, or one of its sections with all descendants, to be aligned.
#[derive(Debug, Clone, Copy)]
pub struct AlignInput<'a> {
    pub tree: &'a SectionTree,
    /// `None` when the text is not available, as for an imported tree.
    pub body: Option<&'a SourceBody>,
    /// Only this section and its descendants.
    pub within: Option<SectionId>,
}

impl<'a> AlignInput<'a> {
    pub fn new(tree: &'a SectionTree, body: Option<&'a SourceBody>) -> Self {
        Self {
            tree,
            body,
            within: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlignOptions {
    /// Maximum quoted sentences per pair and kind: added, removed, reworded.
    pub sentences: usize,
}

impl Default for AlignOptions {
    fn default() -> Self {
        Self { sentences: 3 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlignError {
    /// One document has too many sections.
    #[error("a document of more than {most} sections is not aligned")]
    TooManySections {
        /// [`MAX_SECTIONS`].
        most: usize,
    },
    /// One document has too much text, or overlapping sections.
    #[error("a document of more than {most} words is not aligned")]
    TooManyWords {
        /// [`MAX_WORDS`].
        most: usize,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alignment {
    /// Every section of both documents exactly once, in the order of the right. A section of the left alone comes after the one it
    /// followed there.
    pub pairs: Vec<Pair>,
    /// Changes per Item, including its descendants, in the order of the right.
    pub items: Vec<ItemChurn>,
    /// Changes of the whole document.
    pub all: Churn,
}

/// A section with its partner, or without one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// `None` when the section was added.
    pub left: Option<SectionId>,
    /// `None` when the section was removed.
    pub right: Option<SectionId>,
    /// The change of the section's own text.
    #[serde(rename = "outcome")]
    pub status: DiffStatus,
    /// Whether the words of the title changed. Numbers and dates do not count.
    pub renamed: bool,
    /// Whether the section has another parent, or another position among its siblings.
    pub moved: bool,
    /// Share of the words of both own texts that both have, 0 to 1; `None` when there is nothing to compare.
    pub similarity: Option<f32>,
    /// For a section without a partner: the section of the other document that has most of its words, when it was split off or
    /// merged.
    pub stands_in: Option<SectionId>,
    /// Sentences of the left only.
    pub removed: Vec<QuotedSentence>,
    /// Sentences of the right only.
    pub added: Vec<QuotedSentence>,
    /// Sentences that changed words.
    pub reworded: Vec<SentenceRewording>,
}

impl Pair {
    // The same pair with left and right swapped.
    fn mirrored(self) -> Self {
        let outcome = match self.status {
            DiffStatus::Added => DiffStatus::Removed,
            DiffStatus::Removed => DiffStatus::Added,
            other => other,
        };
        let reworded = self
            .reworded
            .into_iter()
            .map(|SentenceRewording { left, right }| SentenceRewording {
                left: right,
                right: left,
            })
            .collect();
        let left = self.right;
        let right = self.left;
        let removed = self.added;
        let added = self.removed;
        Self {
            left,
            right,
            status: outcome,
            removed,
            added,
            reworded,
            ..self
        }
    }
}

/// The change of a section's own text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffStatus {
    /// The same words.
    Unchanged,
    Modified,
    /// Only the right has the section.
    Added,
    /// Only the left has the section.
    Removed,
    /// Both have it, but a text is not available.
    Unknown,
}

impl DiffStatus {
    /// All, in display order.
    pub const ALL: [DiffStatus; 5] = [
        DiffStatus::Modified,
        DiffStatus::Added,
        DiffStatus::Removed,
        DiffStatus::Unchanged,
        DiffStatus::Unknown,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            DiffStatus::Unchanged => "unchanged",
            DiffStatus::Modified => "modified",
            DiffStatus::Added => "added",
            DiffStatus::Removed => "removed",
            DiffStatus::Unknown => "unknown",
        }
    }
}

/// A sentence quoted from its document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuotedSentence {
    /// White space folded; at most 400 characters.
    pub text: String,
    /// Physical page (1-based) it begins on; `None` in documents without pages.
    pub page: Option<u32>,
    /// Line (1-based) it begins on, of its page or of the text.
    pub line: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SentenceRewording {
    pub left: QuotedSentence,
    pub right: QuotedSentence,
}

/// Aligns two documents.
///
/// # Errors
/// [`AlignError`] when a document is too large.
pub fn align(
    left: &AlignInput<'_>,
    right: &AlignInput<'_>,
    options: &AlignOptions,
) -> Result<Alignment, AlignError> {
    // Always work in one order of the two, whatever is called left: swapped arguments then give the mirrored result.
    let swapped = document_order(left, right).is_gt();
    let (one, other) = if swapped {
        (right, left)
    } else {
        (left, right)
    };
    let one_own_form = form_of(one);
    let other_own_form = form_of(other);
    // An unknown form is assumed to be the other's.
    let one_form = titles::form_family(one_own_form.as_deref().or(other_own_form.as_deref()));
    let other_form = titles::form_family(other_own_form.as_deref().or(one_own_form.as_deref()));
    let mut numbered = Interner::default();
    let mut one = DocumentFeatures::new(one, one_form, &mut numbered)?;
    let mut other = DocumentFeatures::new(other, other_form, &mut numbered)?;
    number_texts(&mut one, &mut other);
    let lexicon = &numbered.lexicon;
    let weights = TermWeights::new([&one, &other], lexicon);
    let same_form = one_form == other_form;
    let matched = match_sections(&one, &other, &weights, lexicon.len(), same_form);
    let moved = moves::moved_sections(&one, &other, &matched, same_form);
    let builder = AlignmentBuilder {
        left: &one,
        right: &other,
        weights: &weights,
        lexicon,
        options,
        matched: &matched,
    };
    Ok(builder.build(&moved, swapped))
}

fn form_of(input: &AlignInput<'_>) -> Option<String> {
    input
        .tree
        .facts
        .form
        .as_ref()
        .map(|fact| fact.value.clone())
}

// A total order of documents by content.
fn document_order(one: &AlignInput<'_>, other: &AlignInput<'_>) -> std::cmp::Ordering {
    fn lines<'a>(compared: &AlignInput<'a>) -> impl Iterator<Item = &'a str> {
        compared
            .body
            .map(stemma_document::text::all_lines)
            .unwrap_or_default()
            .into_iter()
            .map(|line| line.text)
    }
    fn sections<'a>(
        compared: &AlignInput<'a>,
    ) -> impl Iterator<Item = (usize, &'a str, Option<PageNo>, u32)> {
        compared.tree.walk().map(|(depth, section)| {
            let (page, line) = match section.span {
                SectionSpan::Pages { from, .. } => (Some(from.page), from.line),
                SectionSpan::Lines { start, .. } => (None, start),
            };
            (depth, section.title.as_str(), page, line)
        })
    }

    let form_order = (one.within, one.body.is_some(), form_of(one)).cmp(&(
        other.within,
        other.body.is_some(),
        form_of(other),
    ));
    form_order
        .then_with(|| sections(one).cmp(sections(other)))
        .then_with(|| lines(one).cmp(lines(other)))
}

struct AlignmentBuilder<'t> {
    left: &'t DocumentFeatures<'t>,
    right: &'t DocumentFeatures<'t>,
    weights: &'t TermWeights,
    lexicon: &'t Lexicon,
    options: &'t AlignOptions,
    matched: &'t SectionMatches,
}

impl AlignmentBuilder<'_> {
    // `swapped`: the caller's left is the right here.
    fn build(&self, moved: &[bool], swapped: bool) -> Alignment {
        let left_keys = self.sentence_keys(self.left);
        let right_keys = self.sentence_keys(self.right);
        let sentence_indexes = [
            SentenceIndex::new(self.left),
            SentenceIndex::new(self.right),
        ];
        let mut pairs = Vec::new();
        for (one, other) in moves::pair_order(self.matched, swapped) {
            let pair = match (one, other) {
                (Some(one), Some(other)) => {
                    self.matched_pair(one, other, moved[one as usize], &left_keys, &right_keys)
                }
                (Some(one), None) => self.unmatched_pair(
                    self.left,
                    one,
                    DiffStatus::Removed,
                    &right_keys,
                    &sentence_indexes[1],
                    self.right,
                ),
                (None, Some(other)) => self.unmatched_pair(
                    self.right,
                    other,
                    DiffStatus::Added,
                    &left_keys,
                    &sentence_indexes[0],
                    self.left,
                ),
                (None, None) => continue,
            };
            pairs.push(if swapped { pair.mirrored() } else { pair });
        }
        let (items, all) = churn::churn(self.left, self.right, self.matched, self.lexicon, swapped);
        Alignment { pairs, items, all }
    }

    fn sentence_keys(&self, side: &DocumentFeatures<'_>) -> HashSet<u32> {
        side.keys.iter().copied().collect()
    }

    fn matched_pair(
        &self,
        one: u32,
        other: u32,
        moved: bool,
        left_keys: &HashSet<u32>,
        right_keys: &HashSet<u32>,
    ) -> Pair {
        let left = &self.left.nodes[one as usize];
        let right = &self.right.nodes[other as usize];
        let compared = self.left.has_text && self.right.has_text;
        let mut pair = Pair {
            left: Some(left.section.id),
            right: Some(right.section.id),
            status: DiffStatus::Unknown,
            renamed: left.title != right.title,
            moved,
            similarity: None,
            stands_in: None,
            removed: Vec::new(),
            added: Vec::new(),
            reworded: Vec::new(),
        };
        if !compared {
            return pair;
        }
        if left.body == right.body {
            (pair.status, pair.similarity) = (DiffStatus::Unchanged, Some(1.0));
            return pair;
        }
        let changes = diff_sentences(
            (self.left, left.sentences),
            (self.right, right.sentences),
            self.lexicon,
        );
        pair.status = DiffStatus::Modified;
        pair.similarity = Some(changes.similarity());
        pair.removed = self.top_sentences(self.left, &changes.removed, right_keys);
        pair.added = self.top_sentences(self.right, &changes.added, left_keys);
        pair.reworded = self.top_reworded(&changes);
        pair
    }

    fn unmatched_pair(
        &self,
        side: &DocumentFeatures<'_>,
        at: u32,
        outcome: DiffStatus,
        elsewhere: &HashSet<u32>,
        others_index: &SentenceIndex,
        others: &DocumentFeatures<'_>,
    ) -> Pair {
        let node = &side.nodes[at as usize];
        let sentences: Vec<u32> = (node.sentences.0..node.sentences.1).collect();
        let sentences_shown = self.top_sentences(side, &sentences, elsewhere);
        let (left, right) = match outcome {
            DiffStatus::Removed => (Some(node.section.id), None),
            _ => (None, Some(node.section.id)),
        };
        let (removed, added) = if left.is_some() {
            (sentences_shown, Vec::new())
        } else {
            (Vec::new(), sentences_shown)
        };
        let stands_in = others_index
            .main_section(side, at)
            .map(|(section, _)| others.nodes[section as usize].section.id);
        let renamed = false;
        let moved = false;
        let similarity = None;
        let reworded = Vec::new();
        Pair {
            left,
            right,
            status: outcome,
            renamed,
            moved,
            similarity,
            stands_in,
            removed,
            added,
            reworded,
        }
    }

    // The sentences with the highest term weight, in reading order, except those that occur elsewhere in the other document.
    fn top_sentences(
        &self,
        side: &DocumentFeatures<'_>,
        sentences: &[u32],
        elsewhere: &HashSet<u32>,
    ) -> Vec<QuotedSentence> {
        let lexicon = self.lexicon;
        let mut candidates: Vec<(f32, u32)> = sentences
            .iter()
            .filter_map(|at: &u32| {
                let words = side.sentence(*at);
                let weight: f32 = words.iter().map(|word| self.weights.weight(*word)).sum();
                let is_new = !elsewhere.contains(&side.keys[*at as usize]);
                (is_new && is_quotable(words, lexicon)).then_some((weight, *at))
            })
            .collect();
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        candidates.truncate(self.options.sentences);
        candidates.sort_unstable_by_key(|(_, at)| *at);
        candidates
            .into_iter()
            .map(|(_, at)| quote_sentence(side, at))
            .collect()
    }

    // The sentences with most changed words, in reading order, without table rows.
    fn top_reworded(&self, changes: &SentenceDiff) -> Vec<SentenceRewording> {
        let lexicon = self.lexicon;
        let mut candidates: Vec<(usize, u32, u32)> = changes
            .reworded
            .iter()
            .filter_map(|(one, other, common): &(u32, u32, u32)| {
                let left = self.left.sentence(*one);
                let right = self.right.sentence(*other);
                let changed = left.len() + right.len() - 2 * (*common as usize);

                is_quotable(left, lexicon).then_some((changed, *one, *other))
            })
            .collect();
        candidates.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        candidates.truncate(self.options.sentences);
        candidates.sort_unstable_by_key(|(_, one, _)| *one);
        candidates
            .into_iter()
            .map(|(_, one, other)| SentenceRewording {
                left: quote_sentence(self.left, one),
                right: quote_sentence(self.right, other),
            })
            .collect()
    }
}

// At least six words with letters, which make up two thirds: table rows say nothing without their column headings.
fn is_quotable(words: &[sentences::Word], lexicon: &Lexicon) -> bool {
    let lettered = words
        .iter()
        .filter(|word| lexicon.has_letter(**word))
        .count();
    lettered >= MIN_QUOTED_WORDS && lettered * 3 >= words.len() * 2
}
fn quote_sentence(side: &DocumentFeatures<'_>, at: u32) -> QuotedSentence {
    let (text, line) = side.quote(at, SENTENCE_CHARS);
    let page = line.and_then(|line| line.page).map(|page| page.get());
    QuotedSentence {
        text,
        page,
        line: line.map_or(0, |line| line.number),
    }
}
