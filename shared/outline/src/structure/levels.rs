//! Assigns levels to heads in reading order, by rank. For headings known only by layout, numbering overrules the style.

use std::collections::BTreeMap;

use super::numbering::{self, NumberClass};
use super::outline_head::{LAYOUT_RANK, OutlineHead};
use super::titles;

/// A section that later heads may still be placed in.
struct OpenSection {
    rank: u32,
    leaf: bool,
    /// Readings of its number: class, stem, value.
    numbers: Vec<(NumberClass, u32, u32)>,
    /// Whether it is the heading above numbered notes.
    notes: bool,
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
        let rank = if head.rank >= LAYOUT_RANK {
            rank_by_number(&stack, rank, &numbers)
        } else {
            head.rank
        };
        // `Notes to … Statements` is often set smaller than the notes below it. Without this rule Note 1 would become
        // its sibling, and with it all other notes.
        let first = numbers.first().is_some_and(|number| number.2 == 1);
        let above = stack
            .last()
            .filter(|top| first && top.notes && head.rank >= LAYOUT_RANK);
        let rank = above.map_or(rank, |top| rank.max(top.rank + 1));
        let notes = titles::normalize_key(&head.title).starts_with("notesto");
        // The level is the depth of the stack, so skipped ranks leave no gaps between levels.
        while stack.last().is_some_and(|top| top.rank >= rank || top.leaf) {
            stack.pop();
        }
        levels.push(u16::try_from(stack.len() + 1).unwrap_or(u16::MAX));
        stack.push(OpenSection {
            rank,
            leaf: head.leaf,
            numbers,
            notes,
        });
    }
    levels
}

/// The ranks of the heads; heads between two neighbours of a numbered sequence are lowered below the sequence.
// Headings between Note 14 and Note 15 belong to Note 14, however large their type: authors set the titles of tables and
// policies inside notes larger than the notes themselves (ADR 0008). Two neighbours of a sequence must have equal rank and
// no announced head between them; an announced head shows that the sequence was interrupted, for example by an exhibit
// whose notes start again.
fn sequence_ranks(heads: &[OutlineHead], numbers: &[Vec<(NumberClass, u32, u32)>]) -> Vec<u32> {
    // Prefix sums of announced heads, so that each check below takes constant time.
    let mut outside = vec![0usize];
    outside.extend(heads.iter().scan(0, |sum, head| {
        *sum += usize::from(head.rank < LAYOUT_RANK);
        Some(*sum)
    }));
    // Ranges are swept once instead of lowering each head of each range, which would be quadratic for nested sequences.
    // `opens` holds the minimum rank that starts to apply at a head, `closes` the one that ends there.
    let mut opens = vec![None; heads.len()];
    let mut closes = vec![None; heads.len()];
    let mut last: BTreeMap<(NumberClass, u32), (u32, usize)> = BTreeMap::new();
    for at in 0..heads.len() {
        let Some(&(class, stem, value)) = numbers[at]
            .first()
            .filter(|number| names_sections(number.0))
        else {
            continue;
        };
        let own = heads[at].rank;
        let before = last.insert((class, stem), (value, at));
        let Some((_, from)) =
            before.filter(|(previous, from)| previous + 1 == value && heads[*from].rank == own)
        else {
            continue;
        };
        if own >= LAYOUT_RANK && outside[from + 1] == outside[at] {
            (opens[from + 1], closes[at]) = (Some(own + 1), Some(own + 1));
        }
    }
    lower_ranks(heads, &opens, &closes)
}

/// The ranks of the heads, each raised to at least the largest minimum that applies at its place.
fn lower_ranks(heads: &[OutlineHead], opens: &[Option<u32>], closes: &[Option<u32>]) -> Vec<u32> {
    let mut open: BTreeMap<u32, usize> = BTreeMap::new();
    let mut ranks = Vec::with_capacity(heads.len());
    for ((head, opens), closes) in heads.iter().zip(opens).zip(closes) {
        if let Some(opens) = opens {
            *open.entry(*opens).or_default() += 1;
        }
        if let Some(count) = closes.and_then(|closes| open.get_mut(&closes)) {
            *count -= 1;
        }
        while open.last_key_value().is_some_and(|(_, count)| *count == 0) {
            open.pop_last();
        }
        ranks.push(
            open.last_key_value()
                .map_or(head.rank, |(open, _)| head.rank.max(*open)),
        );
    }
    ranks
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
    if let Some(sibling) = stack.iter().rev().find(|open: &&OpenSection| {
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
        .find(|open: &&OpenSection| {
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
        Some(above) if above.rank >= own && above.numbers[0].0 != numbers[0].0 => above.rank + 1,
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::EvidenceSource;

    use super::*;

    fn levels(heads: &[(&str, u32)]) -> Vec<u16> {
        assign_levels(
            &heads
                .iter()
                .map(|(title, rank): &(&str, u32)| OutlineHead {
                    rows: (0, 0),
                    title: (*title).to_string(),
                    number: None,
                    printed: None,
                    target: None,
                    evidence: EvidenceSource::Layout,
                    unconfirmed: false,
                    rank: *rank,
                    leaf: false,
                })
                .collect::<Vec<_>>(),
        )
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
}
