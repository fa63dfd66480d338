//! Which section of one document is which of another, and what became of it: last year's risk factors beside this year's.
//!
//! Sections are matched by their Item, their title without number and date, and their words (weighed by how few sections
//! have them); sections above and beside a pair speak for it. Each section then is unchanged, modified, added or removed,
//! and may besides have another title or stand elsewhere. No model is asked; the same two documents give the same answer,
//! and the other way round its mirror image. Time grows with the size of both, not with their product.
//!
//! ```
//! # fn show(left: &stemma_document::SectionTree, right: &stemma_document::SectionTree) -> Result<(), stemma_diff::AlignError> {
//! use stemma_diff::{Compared, Options, align};
//! let alignment = align(&Compared::of(left, None), &Compared::of(right, None), &Options::default())?;
//! for pair in &alignment.pairs {
//!     println!("{:?} {:?}: {}", pair.left, pair.right, pair.outcome.as_str());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What it refuses to do: call a text unchanged that it does not have, or one whose words are not the same.

mod changes;
mod churn;
mod homes;
mod likeness;
mod matching;
mod outcome;
mod previous;
mod side;
#[cfg(test)]
mod tests;
mod titles;
mod words;

use std::collections::HashSet;

use serde::Serialize;
use stemma_document::{Body, PageNo, Section, SectionId, SectionSpan, SectionTree};

use changes::{Changes, compare};
pub use churn::{Churn, ItemChurn};
use homes::Homes;
use likeness::Weights;
use matching::{Matched, matched};
pub use previous::{PreviousError, of_issuers, previous, yearly};
pub use side::{MAX_SECTIONS, MAX_WORDS};
use side::{Numbered, Side, number_texts};
use words::Lexicon;

/// Characters of a sentence that are shown.
const SENTENCE_CHARS: usize = 400;
/// Words with letters that a sentence has to be worth showing.
const TELLING_WORDS: usize = 6;

/// A document, or a section of it with all below, to be aligned.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'a> {
    /// Its tree.
    pub tree: &'a SectionTree,
    /// Its text; `None` where it is not known, as of an imported tree.
    pub body: Option<&'a Body>,
    /// Only this section and all below it.
    pub within: Option<SectionId>,
}

impl<'a> Compared<'a> {
    /// All of a document.
    pub fn of(tree: &'a SectionTree, body: Option<&'a Body>) -> Self {
        Self {
            tree,
            body,
            within: None,
        }
    }
}

/// What to tell besides the pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Sentences of each sort that are told of each pair: added, removed, reworded.
    pub sentences: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { sentences: 3 }
    }
}

/// Why two documents are not aligned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlignError {
    /// One of them has too many sections.
    #[error("a document of more than {most} sections is not aligned")]
    TooManySections {
        /// [`MAX_SECTIONS`].
        most: usize,
    },
    /// One of them has too much text, or sections that lie over each other.
    #[error("a document of more than {most} words is not aligned")]
    TooManyWords {
        /// [`MAX_WORDS`].
        most: usize,
    },
}

/// Two documents side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alignment {
    /// Every section of both exactly once: in the order of the right; a section of the left alone behind the one it
    /// followed there.
    pub pairs: Vec<Pair>,
    /// How much of each Item changed, all below it included, in the order of the right.
    pub items: Vec<ItemChurn>,
    /// How much of everything changed.
    pub all: Churn,
}

/// A section with its partner, or a section without one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// The section of the left; `None` where it was added.
    pub left: Option<SectionId>,
    /// The section of the right; `None` where it was removed.
    pub right: Option<SectionId>,
    /// What became of its own text.
    pub outcome: Outcome,
    /// Whether its title has other words. Numbers and dates do not count.
    pub renamed: bool,
    /// Whether it stands below another section, or in another order among its siblings.
    pub moved: bool,
    /// Share of the words of its own text that both have, 0 to 1; `None` where there is nothing to compare.
    pub similarity: Option<f32>,
    /// The section of the other side in whose own text most of its words stand, where it has no partner: it was divided
    /// off, or merged into it.
    pub stands_in: Option<SectionId>,
    /// Sentences of the left alone.
    pub removed: Vec<Told>,
    /// Sentences of the right alone.
    pub added: Vec<Told>,
    /// Sentences that stayed with other words.
    pub reworded: Vec<Reworded>,
}

impl Pair {
    /// The same seen from the other side.
    fn mirrored(self) -> Self {
        let outcome = match self.outcome {
            Outcome::Added => Outcome::Removed,
            Outcome::Removed => Outcome::Added,
            other => other,
        };
        let reworded = self
            .reworded
            .into_iter()
            .map(|Reworded { left, right }| Reworded {
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
            outcome,
            removed,
            added,
            reworded,
            ..self
        }
    }
}

/// What became of a section's own text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Word by word the same.
    Unchanged,
    /// Other words.
    Modified,
    /// Only the right has the section.
    Added,
    /// Only the left has it.
    Removed,
    /// Both have it, and the text of one is not known.
    Unknown,
}

impl Outcome {
    /// All, in the order of an account.
    pub const ALL: [Outcome; 5] = [
        Outcome::Modified,
        Outcome::Added,
        Outcome::Removed,
        Outcome::Unchanged,
        Outcome::Unknown,
    ];

    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Unchanged => "unchanged",
            Outcome::Modified => "modified",
            Outcome::Added => "added",
            Outcome::Removed => "removed",
            Outcome::Unknown => "unknown",
        }
    }
}

/// A sentence as it stands in its document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Told {
    /// The sentence, white space folded; at most 400 characters.
    pub text: String,
    /// The physical page it begins on; `None` in texts without pages.
    pub page: Option<u32>,
    /// The line it begins on, on its page or in the text, from 1.
    pub line: u32,
}

/// A sentence before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reworded {
    /// As the left has it.
    pub left: Told,
    /// As the right has it.
    pub right: Told,
}

/// Aligns two documents.
///
/// # Errors
/// [`AlignError`] when one of them is too large.
pub fn align(
    left: &Compared<'_>,
    right: &Compared<'_>,
    options: &Options,
) -> Result<Alignment, AlignError> {
    // All is done in one order of the two, whichever is called left: so the other way round is the mirror image.
    let swapped = order(left, right).is_gt();
    let (one, other) = if swapped {
        (right, left)
    } else {
        (left, right)
    };
    let form = |compared: &Compared<'_>| {
        compared
            .tree
            .facts
            .form
            .as_ref()
            .map(|fact| fact.value.clone())
    };
    let forms = (form(one), form(other));
    // A form that is not known is taken for the other's.
    let one_form = titles::family(forms.0.as_deref().or(forms.1.as_deref()));
    let other_form = titles::family(forms.1.as_deref().or(forms.0.as_deref()));
    let mut numbered = Numbered::default();
    let mut one = Side::read(one, one_form, &mut numbered)?;
    let mut other = Side::read(other, other_form, &mut numbered)?;
    number_texts(&mut one, &mut other);
    let lexicon = &numbered.lexicon;
    let weights = Weights::of([&one, &other], lexicon);
    let same_form = one_form == other_form;
    let matched = matched(&one, &other, &weights, lexicon.len(), same_form);
    let moved = outcome::moved(&one, &other, &matched, same_form);
    let teller = Teller {
        left: &one,
        right: &other,
        weights: &weights,
        lexicon,
        options,
        matched: &matched,
    };
    Ok(teller.tell(&moved, swapped))
}

/// An order of documents by what they say.
fn order(one: &Compared<'_>, other: &Compared<'_>) -> std::cmp::Ordering {
    fn lines<'a>(compared: &Compared<'a>) -> impl Iterator<Item = &'a str> {
        compared
            .body
            .map(stemma_document::text::all_lines)
            .unwrap_or_default()
            .into_iter()
            .map(|line| line.text)
    }
    fn sections<'a>(
        compared: &Compared<'a>,
    ) -> impl Iterator<Item = (usize, &'a str, Option<PageNo>, u32)> {
        let start = |section: &Section| match section.span {
            SectionSpan::Pages { from, .. } => (Some(from.page), from.line),
            SectionSpan::Lines { start, .. } => (None, start),
        };
        compared.tree.walk().map(move |(depth, section)| {
            let (page, line) = start(section);
            (depth, section.title.as_str(), page, line)
        })
    }
    let form = |compared: &Compared<'_>| {
        compared
            .tree
            .facts
            .form
            .as_ref()
            .map(|fact| fact.value.clone())
    };
    let known = (one.within, one.body.is_some(), form(one)).cmp(&(
        other.within,
        other.body.is_some(),
        form(other),
    ));
    known
        .then_with(|| sections(one).cmp(sections(other)))
        .then_with(|| lines(one).cmp(lines(other)))
}

/// Puts what was found into words.
struct Teller<'t> {
    left: &'t Side<'t>,
    right: &'t Side<'t>,
    weights: &'t Weights,
    lexicon: &'t Lexicon,
    options: &'t Options,
    matched: &'t Matched,
}

impl Teller<'_> {
    /// `swapped`: the left is to be called right, and the other way round.
    fn tell(&self, moved: &[bool], swapped: bool) -> Alignment {
        let left_keys = self.known(self.left);
        let right_keys = self.known(self.right);
        let homes = [Homes::of(self.left), Homes::of(self.right)];
        let mut pairs = Vec::new();
        for (one, other) in outcome::told(self.matched, swapped) {
            let pair = match (one, other) {
                (Some(one), Some(other)) => {
                    self.pair(one, other, moved[one as usize], &left_keys, &right_keys)
                }
                (Some(one), None) => self.alone(
                    self.left,
                    one,
                    Outcome::Removed,
                    &right_keys,
                    &homes[1],
                    self.right,
                ),
                (None, Some(other)) => self.alone(
                    self.right,
                    other,
                    Outcome::Added,
                    &left_keys,
                    &homes[0],
                    self.left,
                ),
                (None, None) => continue,
            };
            pairs.push(if swapped { pair.mirrored() } else { pair });
        }
        let (items, all) = churn::churn(self.left, self.right, self.matched, self.lexicon, swapped);
        Alignment { pairs, items, all }
    }

    fn known(&self, side: &Side<'_>) -> HashSet<u32> {
        side.keys.iter().copied().collect()
    }

    fn pair(
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
            outcome: Outcome::Unknown,
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
            (pair.outcome, pair.similarity) = (Outcome::Unchanged, Some(1.0));
            return pair;
        }
        let changes = compare(
            (self.left, left.sentences),
            (self.right, right.sentences),
            self.lexicon,
        );
        pair.outcome = Outcome::Modified;
        pair.similarity = Some(changes.similarity());
        pair.removed = self.most_telling(self.left, &changes.removed, right_keys);
        pair.added = self.most_telling(self.right, &changes.added, left_keys);
        pair.reworded = self.most_reworded(&changes);
        pair
    }

    fn alone(
        &self,
        side: &Side<'_>,
        at: u32,
        outcome: Outcome,
        elsewhere: &HashSet<u32>,
        homes: &Homes,
        others: &Side<'_>,
    ) -> Pair {
        let node = &side.nodes[at as usize];
        let sentences: Vec<u32> = (node.sentences.0..node.sentences.1).collect();
        let told = self.most_telling(side, &sentences, elsewhere);
        let (left, right) = match outcome {
            Outcome::Removed => (Some(node.section.id), None),
            _ => (None, Some(node.section.id)),
        };
        let (removed, added) = if left.is_some() {
            (told, Vec::new())
        } else {
            (Vec::new(), told)
        };
        let stands_in = homes
            .of_section(side, at)
            .map(|(home, _)| others.nodes[home as usize].section.id);
        let renamed = false;
        let moved = false;
        let similarity = None;
        let reworded = Vec::new();
        Pair {
            left,
            right,
            outcome,
            renamed,
            moved,
            similarity,
            stands_in,
            removed,
            added,
            reworded,
        }
    }

    /// The sentences that say most, in reading order; none that stands elsewhere in the other document.
    fn most_telling(
        &self,
        side: &Side<'_>,
        sentences: &[u32],
        elsewhere: &HashSet<u32>,
    ) -> Vec<Told> {
        let lexicon = self.lexicon;
        let mut found: Vec<(f32, u32)> = sentences
            .iter()
            .filter_map(|at: &u32| {
                let words = side.sentence(*at);
                let lettered = words
                    .iter()
                    .filter(|word| lexicon.has_letter(**word))
                    .count();
                let weight: f32 = words.iter().map(|word| self.weights.weight(*word)).sum();
                let enough = lettered >= TELLING_WORDS && lettered * 3 >= words.len() * 2;
                (enough && !elsewhere.contains(&side.keys[*at as usize])).then_some((weight, *at))
            })
            .collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        found.truncate(self.options.sentences);
        found.sort_unstable_by_key(|(_, at)| *at);
        found.into_iter().map(|(_, at)| shown(side, at)).collect()
    }

    /// The sentences of which most words changed, in reading order; rows of tables are left out.
    fn most_reworded(&self, changes: &Changes) -> Vec<Reworded> {
        let lexicon = self.lexicon;
        let mut found: Vec<(usize, u32, u32)> = changes
            .reworded
            .iter()
            .filter_map(|(one, other, common): &(u32, u32, u32)| {
                let left = self.left.sentence(*one);
                let right = self.right.sentence(*other);
                let lettered = left
                    .iter()
                    .filter(|word| lexicon.has_letter(**word))
                    .count();
                let telling = lettered >= TELLING_WORDS && lettered * 3 >= left.len() * 2;
                let changed = left.len() + right.len() - 2 * (*common as usize);
                telling.then_some((changed, *one, *other))
            })
            .collect();
        found.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        found.truncate(self.options.sentences);
        found.sort_unstable_by_key(|(_, one, _)| *one);
        found
            .into_iter()
            .map(|(_, one, other)| Reworded {
                left: shown(self.left, one),
                right: shown(self.right, other),
            })
            .collect()
    }
}

fn shown(side: &Side<'_>, at: u32) -> Told {
    let (text, line) = side.show(at, SENTENCE_CHARS);
    let page = line.and_then(|line| line.page).map(|page| page.get());
    Told {
        text,
        page,
        line: line.map_or(0, |line| line.number),
    }
}
