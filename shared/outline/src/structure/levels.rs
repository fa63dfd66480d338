//! Assigns levels to heads in reading order, by rank. For headings known only by layout, numbering overrules the style.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use stemma_document::EvidenceSource;

use super::counts::counts;
use super::numbering::{self, NumberClass};
use super::outline_head::{LAYOUT_RANK, OutlineHead};
use super::statements::{is_statement_key, names_notes, names_report};
use super::titles;

// Heads behind the last member of a sequence that may belong to it; bounds the work on hostile files.
const MAX_BEHIND: usize = 100;

/// A section that later heads may still be placed in.
struct OpenSection {
    rank: u32,
    /// The rank of its look.
    look: u32,
    leaf: bool,
    /// Readings of its number: class, stem, value.
    numbers: Vec<(NumberClass, u32, u32)>,
}

/// The level (1 is the highest) of each head; heads are in reading order.
///
/// The parent is the nearest head before with a smaller rank. A heading known by layout that continues an open numbering
/// sequence (2 after 1, same class) takes the rank of that sequence; one that starts a sequence below another numbered
/// heading of lower or equal style becomes its child.
pub(super) fn assign_levels(heads: &[OutlineHead]) -> Vec<u16> {
    let mut stack: Vec<OpenSection> = Vec::new();
    let mut levels = Vec::with_capacity(heads.len());
    let numbers: Vec<_> = heads.iter().map(|head| number_keys(&head.title)).collect();
    let ranks = sequence_ranks(heads, &numbers);
    for ((head, rank), numbers) in heads.iter().zip(ranks).zip(numbers) {
        // Announced heads have the rank that their author gave them; only layout leaves the rank open.
        let rank = if is_from_layout(head) {
            rank_by_number(&stack, rank, &numbers)
        } else {
            rank
        };
        // The level is the depth of the stack, so skipped ranks leave no gaps between levels.
        while stack.last().is_some_and(|top| top.rank >= rank || top.leaf) {
            stack.pop();
        }
        levels.push(u16::try_from(stack.len() + 1).unwrap_or(u16::MAX));
        stack.push(OpenSection {
            rank,
            look: head.rank,
            leaf: head.leaf,
            numbers,
        });
    }
    levels
}

/// Heads that count on: Note 1, Note 2, Note 4; indices in reading order.
struct Sequence {
    heads: Vec<usize>,
    /// Rank of the heading above the notes, if layout shows one.
    above: Option<u32>,
}

/// The ranks of the heads; heads between two neighbors of a numbered sequence are lowered below the sequence.
// Headings between Note 14 and Note 15 belong to Note 14, however large their type: authors set the titles of tables and
// policies inside notes larger than the notes themselves (ADR 0008). Looks that a sequence has between its members keep
// their place behind the last one: the sub-headings of the last note look like those of the notes before.
fn sequence_ranks(heads: &[OutlineHead], numbers: &[Vec<(NumberClass, u32, u32)>]) -> Vec<u32> {
    let mut ranks: Vec<u32> = heads.iter().map(|head| head.rank).collect();
    // Where a floor begins and ends to apply, swept once: lowering each head of each sequence would be quadratic.
    let mut floors: Vec<(usize, bool, u32)> = Vec::new();
    for sequence in sequences(heads, numbers) {
        let rank = rank_of_sequence(heads, &sequence);
        let first = sequence.heads[0];
        let last = sequence.heads[sequence.heads.len() - 1];
        for at in &sequence.heads {
            ranks[*at] = rank;
        }
        // A floor must end behind its beginning: neighbors without a head between them have none.
        for pair in sequence
            .heads
            .windows(2)
            .filter(|pair| pair[0] + 1 < pair[1])
        {
            floors.extend([(pair[0] + 1, true, rank + 1), (pair[1], false, rank + 1)]);
        }
        let inside: BTreeSet<u32> = (first..last)
            .filter(|at| sequence.heads.binary_search(at).is_err())
            .map(|at| heads[at].rank)
            .collect();
        let behind = heads[last + 1..]
            .iter()
            .take(MAX_BEHIND)
            .take_while(|head| {
                let is_inside = head.rank > rank || inside.contains(&head.rank);
                is_inside && is_from_layout(head) && !head.leaf && !names_report(&head.title)
            })
            .count();
        if behind > 0 {
            floors.extend([
                (last + 1, true, rank + 1),
                (last + 1 + behind, false, rank + 1),
            ]);
        }
    }
    raise_to_floors(heads, &mut ranks, floors);
    ranks
}

/// The rank that most heads of a sequence have, below the heading of the notes.
// `Notes to … Statements` is often set smaller than the notes below it.
fn rank_of_sequence(heads: &[OutlineHead], sequence: &Sequence) -> u32 {
    // Members that a model added do not move those that the rules found.
    let is_added = |at: &usize| heads[*at].evidence == EvidenceSource::Model;
    let all_added = sequence.heads.iter().all(is_added);
    let counted = sequence
        .heads
        .iter()
        .filter(|at| all_added || !is_added(at));
    let usual = counts(counted.map(|at| heads[*at].rank))
        .into_iter()
        .max_by_key(|(rank, count)| (*count, Reverse(*rank)))
        .map_or(LAYOUT_RANK, |(rank, _)| rank);
    sequence.above.map_or(usual, |above| usual.max(above + 1))
}

/// The numbered sequences of at least two heads.
// An announced head ends the sequences of its own and lower ranks, except those of ARTICLEs: behind it, for example in an
// exhibit, notes start again.
fn sequences(heads: &[OutlineHead], numbers: &[Vec<(NumberClass, u32, u32)>]) -> Vec<Sequence> {
    let mut all: Vec<Sequence> = Vec::new();
    let mut open: BTreeMap<(NumberClass, u32, u32), usize> = BTreeMap::new();
    let mut above: Option<u32> = None;
    // Plain numbers behind the statements or the heading of the notes are those of notes.
    let mut are_notes = false;
    for (at, head) in heads.iter().enumerate() {
        let number = numbers[at].first().copied();
        let announced = !is_from_layout(head);
        let is_listed = matches!(number, Some((NumberClass::Note | NumberClass::Article, ..)));
        if announced && !is_listed {
            open.retain(|key, sequence| {
                let last = all[*sequence].heads.last().map(|last| heads[*last].rank);
                key.0 == NumberClass::Article || last.is_some_and(|rank| rank < head.rank)
            });
        }
        let opens_notes =
            names_notes(&head.title) || is_statement_key(&titles::normalize_key(&head.title));
        if announced && !is_listed || opens_notes {
            above = names_notes(&head.title).then_some(head.rank);
            are_notes = opens_notes;
        }
        let Some((class, stem, value)) = number else {
            continue;
        };
        let counts = names_sections(class) || class == NumberClass::Decimal(1) && are_notes;
        if announced && !is_listed || !counts {
            continue;
        }
        // One missing member is tolerated: a heading may be unreadable.
        let before = (1..=2)
            .filter_map(|step| Some((class, stem, value.checked_sub(step)?)))
            .find_map(|key| {
                let sequence = *open.get(&key)?;
                let previous = heads[*all[sequence].heads.last()?].rank;
                // Plain numbers also count lists, which are set in another way than the notes.
                let is_alike = class != NumberClass::Decimal(1) || previous == head.rank;
                is_alike.then_some((key, sequence))
            });
        let sequence = if let Some((key, sequence)) = before {
            open.remove(&key);
            all[sequence].heads.push(at);
            sequence
        } else {
            all.push(Sequence {
                heads: vec![at],
                above: above.filter(|above| *above >= LAYOUT_RANK && value == 1),
            });
            all.len() - 1
        };
        open.insert((class, stem, value), sequence);
    }
    all.retain(|sequence| sequence.heads.len() > 1);
    all
}

/// Raises the ranks of layout heads to the largest floor that applies at their place.
fn raise_to_floors(heads: &[OutlineHead], ranks: &mut [u32], mut floors: Vec<(usize, bool, u32)>) {
    floors.sort_unstable();
    let mut floors = floors.into_iter().peekable();
    let mut open: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, head) in heads.iter().enumerate() {
        while let Some((_, opens, floor)) = floors.next_if(|(from, ..)| *from <= at) {
            let count = open.entry(floor).or_default();
            *count = if opens {
                *count + 1
            } else {
                count.saturating_sub(1)
            };
            if *count == 0 {
                open.remove(&floor);
            }
        }
        if let Some((floor, _)) = open.last_key_value().filter(|_| is_from_layout(head)) {
            ranks[at] = ranks[at].max(*floor);
        }
    }
}

/// Whether nothing announces the head, so that its rank is open.
fn is_from_layout(head: &OutlineHead) -> bool {
    matches!(
        head.evidence,
        EvidenceSource::Layout | EvidenceSource::Model | EvidenceSource::Window
    )
}

/// Whether numbers of this class always name sections, never entries of lists.
// Plain numbers, letters and bullets also count lists inside a section, so headings between them may well be siblings.
fn names_sections(class: NumberClass) -> bool {
    use NumberClass::{Article, Chapter, CjkChapter, CjkSection, Note, Section};
    matches!(
        class,
        Chapter | Article | Section | Note | CjkChapter | CjkSection
    )
}

fn number_keys(title: &str) -> Vec<(NumberClass, u32, u32)> {
    numbering::parse_numbers(title)
        .iter()
        .map(|number| (number.class, number.stem, number.value))
        .collect()
}

// The order of the rules matters: a sequence that is already open beats the shape of a number, and both beat the style.
fn rank_by_number(stack: &[OpenSection], own: u32, numbers: &[(NumberClass, u32, u32)]) -> u32 {
    if numbers.is_empty() {
        return own;
    }
    if let Some(sibling) = stack.iter().rev().find(|open| {
        open.numbers.iter().any(|a| {
            numbers
                .iter()
                .any(|b| a.0 == b.0 && a.1 == b.1 && a.2 + 1 == b.2)
        })
    }) {
        return sibling.rank;
    }
    // 1.1 belongs under 1, whatever their styles.
    if let Some(above) = stack
        .iter()
        .rev()
        .find(|open| {
            open.numbers.iter().any(|a| {
                numbers
                    .iter()
                    .any(|b| matches!((a.0, b.0), (NumberClass::Decimal(x), NumberClass::Decimal(y)) if x < y))
            })
        })
        .filter(|_| matches!(numbers[0].0, NumberClass::Decimal(2..)))
    {
        return own.max(above.rank + 1);
    }
    // A sequence that starts at 1 below a numbered heading of another class divides that heading: `A.` below `I.`.
    let starts = numbers.iter().any(|number| number.2 == 1);
    match stack
        .iter()
        .rev()
        .find(|open| !open.numbers.is_empty())
        .filter(|_| starts)
    {
        // `1` in larger type than the `2.1` above it begins another count of chapters.
        Some(above) if own < above.look && has_fewer_parts(numbers, &above.numbers) => own,
        Some(above) if above.rank >= own && above.numbers[0].0 != numbers[0].0 => above.rank + 1,
        _ => own,
    }
}

fn has_fewer_parts(numbers: &[(NumberClass, u32, u32)], above: &[(NumberClass, u32, u32)]) -> bool {
    matches!((numbers[0].0, above[0].0), (NumberClass::Decimal(own), NumberClass::Decimal(parts)) if own < parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(title: &str, rank: u32, evidence: EvidenceSource) -> OutlineHead {
        OutlineHead {
            rows: (0, 0),
            title: title.to_string(),
            number: None,
            printed: None,
            target: None,
            evidence,
            unconfirmed: false,
            rank,
            leaf: false,
        }
    }

    fn levels(heads: &[(&str, u32)]) -> Vec<u16> {
        let heads = heads.iter().map(|(title, rank): &(&str, u32)| {
            let evidence = if *rank < LAYOUT_RANK {
                EvidenceSource::Grammar
            } else {
                EvidenceSource::Layout
            };
            head(title, *rank, evidence)
        });
        assign_levels(&heads.collect::<Vec<_>>())
    }

    #[test]
    fn ranks_nest_without_skipping() {
        assert_eq!(
            levels(&[("a", 100), ("b", 300), ("c", 200), ("d", 100)]),
            [1, 2, 2, 1]
        );
    }

    #[test]
    fn numbered_sequences_keep_their_level() {
        let l = LAYOUT_RANK;
        // All have the same style: the numbers alone make the tree.
        assert_eq!(
            levels(&[
                ("I. A", l),
                ("A. B", l),
                ("1. C", l),
                ("2. D", l),
                ("B. E", l),
                ("II. F", l)
            ]),
            [1, 2, 3, 3, 2, 1]
        );
        assert_eq!(
            levels(&[("1 A", l), ("1.1 B", l), ("1.2 C", l), ("2 D", l)]),
            [1, 2, 2, 1]
        );
    }

    #[test]
    fn chapters_that_count_anew_are_siblings_of_those_before() {
        let low = LAYOUT_RANK + 1;
        let heads = [
            ("1 Intro", LAYOUT_RANK),
            ("1.1 Scope", low),
            ("2 Risks", LAYOUT_RANK),
            ("2.1 Credit", low),
            ("1 Preface", LAYOUT_RANK),
            ("1.1 History", low),
            ("1 Annex", LAYOUT_RANK),
        ];
        assert_eq!(levels(&heads), [1, 2, 1, 2, 1, 2, 1]);
        // Steps in the look of the section are inside of it.
        let steps = [
            ("2 Risks", LAYOUT_RANK),
            ("2.1 Credit", low),
            ("1. Ask", low),
        ];
        assert_eq!(levels(&steps), [1, 2, 3]);
    }

    #[test]
    fn layout_heads_of_a_listed_look_continue_a_sequence() {
        let heads = [
            head("Article I", 100, EvidenceSource::ContentsLinks),
            head("Section 1", 300, EvidenceSource::ContentsLinks),
            head("Section 2", 300, EvidenceSource::Layout),
            head("Section 3", 400, EvidenceSource::Layout),
        ];
        assert_eq!(assign_levels(&heads), [1, 2, 2, 2]);
    }

    #[test]
    fn notes_without_sub_headings_hold_nothing_behind_them() {
        let l = LAYOUT_RANK;
        let heads = [
            ("Note 1 Basis", l),
            ("Note 2 Leases", l),
            ("Liquidity", l),
            ("Market Risk", l),
        ];
        assert_eq!(levels(&heads), [1; 4]);
    }

    #[test]
    fn added_members_do_not_move_a_sequence() {
        let l = LAYOUT_RANK;
        let mut heads: Vec<OutlineHead> = [
            ("Overview", l + 20),
            ("Note 1 Basis", l + 10),
            ("Note 2 Sales", l + 10),
        ]
        .map(|(title, rank)| head(title, rank, EvidenceSource::Layout))
        .into();
        for title in ["Note 3 Taxes", "Note 4 Leases", "Note 5 Debt"] {
            heads.push(head(title, l + 30, EvidenceSource::Model));
        }
        assert_eq!(assign_levels(&heads), [1; 6]);
    }

    #[test]
    fn headings_between_notes_nest_in_first() {
        let l = LAYOUT_RANK;
        let heads = [
            ("Note 1 Basis", l),
            ("Revenue by Service", l),
            ("Large", l - 5),
            ("Note 2 Leases", l),
        ];
        assert_eq!(
            levels(&heads),
            [1, 1, 1, 2],
            "an announced head ends a sequence"
        );
        let heads = [
            ("Note 1 Basis", l + 10),
            ("Revenue", l),
            ("Note 2 Leases", l + 10),
            ("Debt", l),
            ("Note 3 Tax", l + 10),
        ];
        assert_eq!(levels(&heads), [1, 2, 1, 2, 1]);
    }

    #[test]
    fn note_is_never_below_sub_heading_of_another() {
        let l = LAYOUT_RANK;
        // The heading of the notes is smaller than they are, and their sub-headings are larger; Note 3 is not found.
        let heads = [
            ("Item 8", 200),
            ("Notes to Financial Statements", l + 40),
            ("Note 1 Basis", l + 20),
            ("Revenue", l + 10),
            ("Note 2 Leases", l + 20),
            ("Debt", l + 10),
            ("Note 4 Tax", l + 20),
            ("Debt", l + 10),
            ("Report of Independent Registered Public Accounting Firm", l),
        ];
        assert_eq!(levels(&heads), [1, 2, 3, 4, 3, 4, 3, 4, 2]);
        // The heading of the notes may be a running head, which is not a section.
        let heads = [
            ("Consolidated Statements of Cash Flows", l),
            ("1. Basis", l + 30),
            ("COVID-19", l + 20),
            ("2. Leases", l + 30),
        ];
        assert_eq!(levels(&heads), [1, 2, 3, 2]);
        // Plain numbers are notes below the heading of the notes only.
        let heads = [
            ("Notes to Financial Statements", l),
            ("1. Basis", l + 30),
            ("Revenue", l + 20),
            ("2. Leases", l + 30),
            ("Item 9", 200),
            ("1. Trust", l + 30),
            ("Revenue", l + 20),
        ];
        assert_eq!(levels(&heads), [1, 2, 3, 2, 1, 2, 2]);
    }

    #[test]
    fn article_is_never_below_an_article() {
        let heads = [
            ("CREDIT AGREEMENT", 100),
            ("ARTICLE VI Covenants", 200),
            ("Section 6.01 Liens", 300),
            ("ARTICLE VII Defaults", 300),
            ("ARTICLE VIII Agents", 200),
        ];
        assert_eq!(levels(&heads), [1, 2, 3, 2, 2]);
    }
}
