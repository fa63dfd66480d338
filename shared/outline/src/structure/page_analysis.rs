//! Locates headings that a person names: a title counts only where these rules find it on a page.

use std::ops::Range;

use stemma_document::{EvidenceSource, Page, PageNo, Position, Pt, SectionStart};

use super::line_features::{LineFeatures, LineTable};
use super::locate::{self, LocatedTitle};
use super::numbering;
use super::section_candidate::SectionCandidate;
use super::titles::{self, TitleKeys};

// Shorter titles (`Item 1`, `Cash`) begin too many unrelated lines.
const MIN_PREFIX_LETTERS: usize = 8;
// Less similar lines help nobody to find a misspelled title.
const MIN_NEAREST: f32 = 0.5;

/// Layout features of all pages of a document.
pub struct PageAnalysis<'a> {
    lines: LineTable<'a>,
    /// Excludes no row from a search.
    no_rows: Vec<bool>,
}

/// A section proposed by a person, not verified yet.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposedSection {
    /// Includes the number.
    pub title: String,
    /// 1 is the highest.
    pub level: u16,
    /// The page it supposedly begins on.
    pub page: Option<PageNo>,
    pub evidence: EvidenceSource,
}

/// The place of a heading: first and last row, inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeadingRows {
    rows: (usize, usize),
}

impl<'a> PageAnalysis<'a> {
    pub fn new(pages: &'a [Page]) -> Self {
        let lines = LineTable::new(pages);
        let no_rows = vec![false; lines.rows.len()];
        Self { lines, no_rows }
    }

    fn key(&self, at: usize) -> &str {
        &self.lines.rows[at].key
    }

    /// Locates a section on any page.
    pub fn locate(&self, proposed: &ProposedSection) -> Option<HeadingRows> {
        self.locate_titles(&[to_candidate(proposed)], 0..self.lines.rows.len())
            .pop()?
            .as_ref()
            .map(heading_rows)
    }

    fn locate_titles(
        &self,
        candidates: &[SectionCandidate],
        rows: Range<usize>,
    ) -> Vec<Option<LocatedTitle>> {
        locate::locate_titles(&self.lines, rows, &self.no_rows, candidates)
    }

    /// Locates `proposed` sections (in reading order) on one page.
    pub fn locate_on_page(
        &self,
        proposed: &[&ProposedSection],
        page: PageNo,
    ) -> Vec<Option<HeadingRows>> {
        self.locate_in(proposed, self.lines.rows_on(page.index()))
    }

    /// Locates a section at a line (from 0) of a page.
    pub fn locate_at_line(
        &self,
        proposed: &ProposedSection,
        page: PageNo,
        line: u32,
    ) -> Option<HeadingRows> {
        let row = self.row_at(page, line)?;
        self.locate_in(&[proposed], row..row + 1).pop()?
    }

    fn locate_in(
        &self,
        proposed: &[&ProposedSection],
        rows: Range<usize>,
    ) -> Vec<Option<HeadingRows>> {
        let candidates: Vec<SectionCandidate> = proposed
            .iter()
            .map(|proposed| to_candidate(proposed))
            .collect();
        let hits = self.locate_titles(&candidates, rows.clone());
        hits.iter()
            .zip(&candidates)
            .map(
                |(hit, candidate): (&Option<LocatedTitle>, &SectionCandidate)| {
                    hit.as_ref()
                        .map(heading_rows)
                        .or_else(|| self.locate_prefix(candidate, rows.clone()))
                },
            )
            .collect()
    }

    /// The first of `rows` that begins with the title.
    // Last resort on a page that is known to hold the section: the title may share its line with column heads or with
    // the first words of its paragraph, which the search for whole headings rejects.
    fn locate_prefix(
        &self,
        candidate: &SectionCandidate,
        mut rows: Range<usize>,
    ) -> Option<HeadingRows> {
        let TitleKeys { full, core } = &candidate.prepared;
        rows.find(|at: &usize| {
            let first = titles::normalize_key(self.lines.rows[*at].first_cell);
            !first.is_empty() && (first == *full || first == *core)
                || full.len() >= MIN_PREFIX_LETTERS && self.key(*at).starts_with(full.as_str())
        })
        .map(|at| HeadingRows { rows: (at, at) })
    }

    /// The line of a page that is most similar to a title, if any is.
    pub fn nearest_line(&self, title: &str, page: PageNo) -> Option<&str> {
        let title = TitleKeys::new(title);
        let similar = self.lines.rows_on(page.index()).map(|at| {
            let row = &self.lines.rows[at];
            (
                titles::title_similarity(&TitleKeys::new(row.text), &title),
                row.text,
            )
        });
        similar
            .filter(|(like, _)| *like >= MIN_NEAREST)
            .max_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, text)| text)
    }

    /// The first line of a page below its running heads, if any.
    pub fn first_line(&self, page: PageNo) -> Option<HeadingRows> {
        self.lines
            .rows_on(page.index())
            .find(|at: &usize| !self.lines.rows[*at].running && !self.key(*at).is_empty())
            .map(|at| HeadingRows { rows: (at, at) })
    }

    /// The row at a place that the rules located.
    pub fn heading_at(&self, place: SectionStart) -> Option<HeadingRows> {
        let SectionStart::Page(position) = place else {
            return None;
        };
        self.row_at(position.page, position.line)
            .map(|at| HeadingRows { rows: (at, at) })
    }

    fn row_at(&self, page: PageNo, line: u32) -> Option<usize> {
        self.lines
            .rows_on(page.index())
            .find(|at: &usize| self.lines.rows[*at].line == line)
    }

    pub fn page(&self, spot: HeadingRows) -> PageNo {
        PageNo::from_index(self.row(spot).page as usize)
    }

    pub fn place(&self, spot: HeadingRows) -> SectionStart {
        let row = self.row(spot);
        SectionStart::Page(Position {
            page: self.page(spot),
            line: row.line,
            y: Pt::new(row.y0),
        })
    }

    /// Whether only running heads are above it on its page.
    pub fn starts_page(&self, spot: HeadingRows) -> bool {
        self.lines.starts_page(spot.rows.0)
    }

    fn row(&self, spot: HeadingRows) -> &LineFeatures<'a> {
        &self.lines.rows[spot.rows.0]
    }

    /// The text of the first line of a heading.
    pub fn first_row_text(&self, spot: HeadingRows) -> &str {
        self.row(spot).text
    }
}

/// Similarity of two titles (0–1).
pub fn title_similarity(left: &str, right: &str) -> f32 {
    titles::title_similarity(&TitleKeys::new(left), &TitleKeys::new(right))
}

fn to_candidate(proposed: &ProposedSection) -> SectionCandidate {
    let mut candidate = SectionCandidate::new(&proposed.title, proposed.evidence);
    candidate.level = proposed.level.max(1);
    candidate.predicted = proposed.page.map(|page| page.get() - 1);
    candidate
}

fn heading_rows(hit: &LocatedTitle) -> HeadingRows {
    HeadingRows { rows: hit.rows }
}

/// The number at the start of a title, as written.
pub fn leading_number(title: &str) -> Option<String> {
    numbering::leading_number(title)
}
