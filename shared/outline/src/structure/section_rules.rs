//! Decides which headings are sections, and their ranks: rounds over the outline in reading order.

use SectionRound::{Drop, Rank};
use stemma_document::EvidenceSource;

use super::front_back_matter::{
    captions, close_sections, cover_lines, lines_below_signatures, listed_exhibits, rank_title,
};
use super::heading_budget::lower_statements;
use super::heading_candidate::{Document, HeadingCandidate, Verdict};
use super::large_titles::{flatten_wrappers, lower_lone_titles};
use super::numbered_chapters::{align_with_chapters, reference_entries};
use super::outline_head::OutlineHead;
use super::statements::names_report;
use super::titles;
use super::weights::{REPEATED_ROWS, REPEATED_TITLE};

/// One round over the sections that are left.
pub(super) enum SectionRound {
    /// Drops the sections at these places.
    Drop(fn(&[OutlineHead], &Document<'_>) -> Vec<usize>),
    /// Changes ranks, or makes leaves.
    Rank(fn(&mut [OutlineHead], &Document<'_>)),
}

/// The rounds over the sections within the budget.
// Captions go before the front matter is judged: a company's name on the cover must not count as a title there.
pub(super) const BUDGETED: &[(&str, SectionRound)] = &[
    ("statements", Rank(lower_statements)),
    ("company_caption", Drop(captions)),
    ("listed_exhibit", Drop(listed_exhibits)),
    ("title", Rank(rank_title)),
    ("cover_line", Drop(cover_lines)),
    ("closing_sections", Rank(close_sections)),
    ("signature_or_contact", Drop(lines_below_signatures)),
];

/// The rounds after large sections were divided.
pub(super) const DIVIDED: &[(&str, SectionRound)] = &[("repeated_title", Drop(repeated_titles))];

/// The last rounds, outside filings.
pub(super) const OUTSIDE_FILINGS: &[(&str, SectionRound)] = &[
    ("lone_titles", Rank(lower_lone_titles)),
    ("chapters", Rank(align_with_chapters)),
    ("wrappers", Rank(flatten_wrappers)),
    ("reference_entry", Drop(reference_entries)),
];

/// The sections of a document, and what was decided about the candidates for them.
pub(super) struct Sections {
    /// In reading order.
    pub(super) heads: Vec<OutlineHead>,
    /// In reading order.
    pub(super) candidates: Vec<HeadingCandidate>,
    /// Announced sections that a rule dropped, with its name.
    pub(super) dropped: Vec<(OutlineHead, &'static str)>,
}

impl Sections {
    /// The announced sections, and the candidates that the rules for headings and the budget keep.
    pub(super) fn new(announced: &[OutlineHead], candidates: Vec<HeadingCandidate>) -> Self {
        let headings = candidates.iter().filter(|candidate| candidate.is_kept());
        let mut heads = announced.to_vec();
        heads.extend(headings.map(HeadingCandidate::to_head));
        heads.sort_by_key(|head| (head.rows.0, head.rank));
        Self {
            heads,
            candidates,
            dropped: Vec::new(),
        }
    }

    pub(super) fn apply(
        &mut self,
        rounds: &[(&'static str, SectionRound)],
        document: &Document<'_>,
    ) {
        for (name, round) in rounds {
            match round {
                Rank(rank) => rank(&mut self.heads, document),
                Drop(places) => self.drop_sections(&places(&self.heads, document), name),
            }
        }
    }

    // `places` rise.
    fn drop_sections(&mut self, places: &[usize], rule: &'static str) {
        let mut at = 0;
        let dropped = self.heads.extract_if(.., |_| {
            at += 1;
            places.binary_search(&(at - 1)).is_ok()
        });
        for head in dropped {
            let place = self
                .candidates
                .binary_search_by_key(&head.rows.0, |candidate| candidate.rows.0);
            match place {
                Ok(at)
                    if head.evidence == EvidenceSource::Layout && self.candidates[at].is_kept() =>
                {
                    self.candidates[at].verdict = Verdict::NotSection(rule);
                }
                _ => self.dropped.push((head, rule)),
            }
        }
    }

    /// Adds headings that the budget left out, where `choose` says so.
    pub(super) fn add_left_out(
        &mut self,
        choose: impl FnOnce(&[OutlineHead], &[&HeadingCandidate]) -> Vec<bool>,
    ) {
        let left_out: Vec<&HeadingCandidate> = self
            .candidates
            .iter()
            .filter(|candidate| is_left_out(candidate))
            .collect();
        let chosen = choose(&self.heads, &left_out);
        let added = self
            .candidates
            .iter_mut()
            .filter(|candidate| is_left_out(candidate))
            .zip(chosen)
            .filter(|(_, is_chosen)| *is_chosen);
        for (candidate, _) in added {
            candidate.verdict = Verdict::Kept;
            self.heads.push(candidate.to_head());
        }
        self.heads.sort_by_key(|head| (head.rows.0, head.rank));
    }

    /// Gives the candidates the ranks of their sections.
    pub(super) fn copy_ranks(&mut self) {
        for head in &self.heads {
            let place = self
                .candidates
                .binary_search_by_key(&head.rows.0, |candidate| candidate.rows.0);
            if let Ok(at) = place {
                self.candidates[at].rank = head.rank;
            }
        }
    }
}

fn is_left_out(candidate: &HeadingCandidate) -> bool {
    candidate.verdict == Verdict::OverBudget
}

/// First sub-sections that repeat the title of their section, and titles repeated at the top of the next page.
fn repeated_titles(heads: &[OutlineHead], document: &Document<'_>) -> Vec<usize> {
    let mut repeated = Vec::new();
    let mut above: Option<&OutlineHead> = None;
    for (at, head) in heads.iter().enumerate() {
        if above.is_some_and(|above| repeats(head, above, document)) {
            repeated.push(at);
        } else {
            above = Some(head);
        }
    }
    repeated
}

fn repeats(head: &OutlineHead, above: &OutlineHead, document: &Document<'_>) -> bool {
    let lines = document.lines;
    // `Section 2.01 Events of Default` is the first of Article II, `Events of Default`.
    let has_own_number = head.number.is_some() && head.number != above.number;
    let is_near = head.rows.0.saturating_sub(above.rows.1) <= REPEATED_ROWS
        && above.rank < head.rank
        && !has_own_number;
    // One report of the auditors may judge the statements and the next one the controls.
    let is_continued = head.evidence == EvidenceSource::Layout
        && above.title == head.title
        && !names_report(&head.title)
        && lines.rows[head.rows.0].page == lines.rows[above.rows.0].page + 1
        && lines.starts_page(head.rows.0);
    is_continued || is_near && titles::similarity(&above.title, &head.title) > REPEATED_TITLE
}
