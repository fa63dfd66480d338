//! Compares two filings section by section: last year's risk factors with this year's.
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
use stemma_reading::document_reading::LineReadings;

pub use churn::{Churn, ItemChurn};
use features::{DocumentFeatures, Interner, SectionFeatures, number_texts};
pub use features::{MAX_SECTIONS, MAX_WORDS};
use matching::match_sections;
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
    /// What its lines are; without, they are read by their words.
    pub readings: Option<&'a LineReadings>,
    /// Only this section and its descendants.
    pub within: Option<SectionId>,
}

impl<'a> AlignInput<'a> {
    pub fn new(tree: &'a SectionTree, body: Option<&'a SourceBody>) -> Self {
        Self {
            tree,
            body,
            readings: None,
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
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
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
        let status = match self.status {
            DiffStatus::Added => DiffStatus::Removed,
            DiffStatus::Removed => DiffStatus::Added,
            other => other,
        };
        let reworded = self.reworded;
        Self {
            left: self.right,
            right: self.left,
            status,
            removed: self.added,
            added: self.removed,
            reworded: reworded
                .into_iter()
                .map(|SentenceRewording { left, right }| SentenceRewording {
                    left: right,
                    right: left,
                })
                .collect(),
            ..self
        }
    }
}

/// The change of a section's own text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
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
    #[default]
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
    let (first, second) = if swapped {
        (right, left)
    } else {
        (left, right)
    };
    // An unknown form is assumed to be the other's.
    let first_form = titles::form_family(form_of(first).or(form_of(second)));
    let second_form = titles::form_family(form_of(second).or(form_of(first)));
    let mut numbered = Interner::default();
    let mut first = DocumentFeatures::new(first, first_form, &mut numbered)?;
    let mut second = DocumentFeatures::new(second, second_form, &mut numbered)?;
    number_texts(&mut first, &mut second);
    let lexicon = &numbered.lexicon;
    let weights = TermWeights::new([&first, &second], lexicon);
    let same_form = first_form == second_form;
    let matched = match_sections(&first, &second, &weights, lexicon.len(), same_form);
    let moved = moves::moved_sections(&first, &second, &matched, same_form);
    let builder = PairBuilder {
        left: Side::new(&first),
        right: Side::new(&second),
        weights: &weights,
        lexicon,
        sentences: options.sentences,
    };
    let pairs = moves::pair_order(&matched, swapped)
        .into_iter()
        .map(|(left, right)| {
            let pair = builder.pair(left, right, &moved);
            if swapped { pair.mirrored() } else { pair }
        })
        .collect();
    let (items, all) = churn::churn(&first, &second, &matched, lexicon, swapped);
    Ok(Alignment { pairs, items, all })
}

fn form_of<'a>(input: &AlignInput<'a>) -> Option<&'a str> {
    let form = input.tree.facts.form.as_ref();
    form.map(|fact| fact.value.as_str())
}

// A total order of documents by content.
fn document_order(left: &AlignInput<'_>, right: &AlignInput<'_>) -> std::cmp::Ordering {
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

    let form_order = (left.within, left.body.is_some(), form_of(left)).cmp(&(
        right.within,
        right.body.is_some(),
        form_of(right),
    ));
    form_order
        .then_with(|| sections(left).cmp(sections(right)))
        .then_with(|| lines(left).cmp(lines(right)))
}

// One of the two documents.
struct Side<'t> {
    features: &'t DocumentFeatures<'t>,
    sentence_keys: HashSet<u32>,
    index: SentenceIndex,
}

impl<'t> Side<'t> {
    fn new(features: &'t DocumentFeatures<'t>) -> Self {
        Self {
            features,
            sentence_keys: features.keys.iter().copied().collect(),
            index: SentenceIndex::new(features),
        }
    }

    fn node(&self, at: u32) -> &SectionFeatures<'t> {
        &self.features.nodes[at as usize]
    }
}

struct PairBuilder<'t> {
    left: Side<'t>,
    right: Side<'t>,
    weights: &'t TermWeights,
    lexicon: &'t Lexicon,
    // The most sentences that are quoted of each kind.
    sentences: usize,
}

impl PairBuilder<'_> {
    fn pair(&self, left: Option<u32>, right: Option<u32>, moved: &[bool]) -> Pair {
        let mut pair = Pair {
            left: left.map(|at| self.left.node(at).section.id),
            right: right.map(|at| self.right.node(at).section.id),
            ..Pair::default()
        };
        match (left, right) {
            (Some(left_at), Some(right_at)) => {
                pair.renamed = self.left.node(left_at).title != self.right.node(right_at).title;
                pair.moved = moved[left_at as usize];
                self.compare_texts(left_at, right_at, &mut pair);
            }
            (Some(at), None) => {
                pair.status = DiffStatus::Removed;
                (pair.removed, pair.stands_in) = self.unmatched(&self.left, at, &self.right);
            }
            (None, Some(at)) => {
                pair.status = DiffStatus::Added;
                (pair.added, pair.stands_in) = self.unmatched(&self.right, at, &self.left);
            }
            (None, None) => {}
        }
        pair
    }

    fn compare_texts(&self, left_at: u32, right_at: u32, pair: &mut Pair) {
        let left = &self.left;
        let right = &self.right;
        if !left.features.has_text || !right.features.has_text {
            return;
        }
        if left.node(left_at).body == right.node(right_at).body {
            (pair.status, pair.similarity) = (DiffStatus::Unchanged, Some(1.0));
            return;
        }
        let changes = diff_sentences(
            (left.features, left.node(left_at).sentences),
            (right.features, right.node(right_at).sentences),
            self.lexicon,
        );
        pair.status = DiffStatus::Modified;
        pair.similarity = Some(changes.similarity());
        pair.removed = self.top_sentences(left, changes.removed.iter().copied(), right);
        pair.added = self.top_sentences(right, changes.added.iter().copied(), left);
        pair.reworded = self.top_reworded(&changes);
    }

    // Quotes of a section without a partner, and the section of the other document that has most of its words.
    fn unmatched(
        &self,
        side: &Side<'_>,
        at: u32,
        others: &Side<'_>,
    ) -> (Vec<QuotedSentence>, Option<SectionId>) {
        let (first, last) = side.node(at).sentences;
        let stands_in = others.index.main_section(side.features, at);
        (
            self.top_sentences(side, first..last, others),
            stands_in.map(|(section, _)| others.node(section).section.id),
        )
    }

    // The sentences with the highest term weight, in reading order, except those that occur anywhere in the other document.
    fn top_sentences(
        &self,
        side: &Side<'_>,
        sentences: impl Iterator<Item = u32>,
        others: &Side<'_>,
    ) -> Vec<QuotedSentence> {
        let features = side.features;
        let mut candidates: Vec<(f32, u32)> = sentences
            .filter(|at| !others.sentence_keys.contains(&features.keys[*at as usize]))
            .filter(|at| is_quotable(features.sentence(*at), self.lexicon))
            .map(|at| {
                let words = features.sentence(at).iter();
                (words.map(|word| self.weights.weight(*word)).sum(), at)
            })
            .collect();
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        candidates.truncate(self.sentences);
        candidates.sort_unstable_by_key(|(_, at)| *at);
        candidates
            .into_iter()
            .map(|(_, at)| quote_sentence(features, at))
            .collect()
    }

    // The sentences with most changed words, in reading order, without table rows.
    fn top_reworded(&self, changes: &SentenceDiff) -> Vec<SentenceRewording> {
        let left = self.left.features;
        let right = self.right.features;
        let mut candidates: Vec<(usize, u32, u32)> = changes
            .reworded
            .iter()
            .filter(|(one, ..)| is_quotable(left.sentence(*one), self.lexicon))
            .map(|(one, other, common)| {
                let words = left.sentence(*one).len() + right.sentence(*other).len();
                (words - 2 * (*common as usize), *one, *other)
            })
            .collect();
        candidates.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        candidates.truncate(self.sentences);
        candidates.sort_unstable_by_key(|(_, one, _)| *one);
        candidates
            .into_iter()
            .map(|(_, one, other)| SentenceRewording {
                left: quote_sentence(left, one),
                right: quote_sentence(right, other),
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
