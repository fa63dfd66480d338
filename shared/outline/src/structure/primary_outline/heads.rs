//! Adds heads to the outline and merges duplicates.

use stemma_document::EvidenceSource;
use stemma_reading::numerals::parse_roman;

use super::OutlineBuilder;
use crate::structure::numbering::{self, NumberClass};
use crate::structure::outline_head::OutlineHead;
use crate::structure::statements::names_notes;
use crate::structure::titles::{self, TitleKeys};
use crate::structure::weights::SAME_TITLE;

// Each new head is compared with the heads of three pages. Without the limit, thousands of bookmarks that point to one
// page make this quadratic; a page with more heads has no real sections anyway.
const NEAR_HEADS: usize = 200;

impl OutlineBuilder<'_, '_> {
    /// Adds a head unless it duplicates one at the same place, or one with the same title and number nearby.
    // Evidence overlaps: one section is announced by bookmark, contents and grammar. The first head stays, later ones only
    // add what it lacks; an unconfirmed place is replaced by a confirmed one.
    pub(super) fn push(&mut self, head: OutlineHead) {
        let page = self.lines.rows[head.rows.0].page;
        let prepared = TitleKeys::new(&head.title);
        let near = self
            .by_page
            .range(page.saturating_sub(1)..=page + 1)
            .flat_map(|(_, heads)| heads);
        let duplicate = near
            .copied()
            .take(NEAR_HEADS)
            .find(|at| self.is_duplicate(&self.outline.heads[*at], &head, &prepared));
        match duplicate.map(|at| &mut self.outline.heads[at]) {
            None => self.insert(head),
            Some(other) if other.unconfirmed && !head.unconfirmed => {
                (other.rows, other.unconfirmed) = (head.rows, false);
            }
            Some(other) => {
                // The levels of an outline were written down; those of contents are read from indents and numbers. In a
                // form the Items decide the levels of both.
                let is_listed = matches!(
                    other.evidence,
                    EvidenceSource::ContentsLinks | EvidenceSource::PrintedContents
                );
                if !self.is_form && is_listed && head.evidence == EvidenceSource::EmbeddedOutline {
                    other.rank = head.rank;
                }
                other.printed = other.printed.take().or(head.printed);
                other.target = other.target.or(head.target);
                other.leaf |= head.leaf;
            }
        }
    }

    fn is_duplicate(&self, other: &OutlineHead, head: &OutlineHead, prepared: &TitleKeys) -> bool {
        // Unconfirmed heads are at the top of a page by assumption, so sharing a row with one means nothing.
        let confirmed = !(head.unconfirmed || other.unconfirmed);
        let overlap = confirmed && other.rows.0 <= head.rows.1 && head.rows.0 <= other.rows.1;
        // Amendments I to V in a row have almost the same letters, but are different sections.
        let numbers_differ = matches!((&other.number, &head.number), (Some(a), Some(b)) if a != b)
            || differ_in_number(&other.title, &head.title);
        overlap
            || (!numbers_differ
                && titles::title_similarity(&TitleKeys::new(&other.title), prepared) > SAME_TITLE)
    }

    pub(super) fn insert(&mut self, head: OutlineHead) {
        let page = self.lines.rows[head.rows.0].page;
        self.by_page
            .entry(page)
            .or_default()
            .push(self.outline.heads.len());
        self.titles.insert(titles::normalize_key(&head.title));
        self.outline.heads.push(head);
    }

    /// A section that the grammar reads in these rows.
    pub(super) fn grammar_head(&self, rows: (usize, usize), rank: u32) -> OutlineHead {
        OutlineHead::new(rows, self.lines.title(rows), EvidenceSource::Grammar, rank)
    }
}

/// Puts announced notes below the announced heading of the notes.
// Contents print both at one indent.
pub(super) fn lower_notes(heads: &mut [OutlineHead]) {
    let mut above: Option<u32> = None;
    for head in heads {
        let number = numbering::first_number(&head.title);
        let is_note = number.is_some_and(|number| number.class == NumberClass::Note);
        match above {
            Some(rank) if head.rank == rank && is_note => head.rank += 1,
            Some(rank) if head.rank > rank => {}
            _ => above = names_notes(&head.title).then_some(head.rank),
        }
    }
}

/// Whether two titles differ first in a number: `Amendment II` is not `Amendment III`.
fn differ_in_number(left: &str, right: &str) -> bool {
    let differ = left
        .split_whitespace()
        .zip(right.split_whitespace())
        .find(|(a, b)| !a.eq_ignore_ascii_case(b));
    left.split_whitespace().count() == right.split_whitespace().count()
        && differ.is_some_and(|(a, b)| {
            parse_word(a)
                .zip(parse_word(b))
                .is_some_and(|(a, b)| a != b)
        })
}

fn parse_word(word: &str) -> Option<u32> {
    word.parse().ok().or_else(|| parse_roman(word))
}
