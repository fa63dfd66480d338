//! Locates headings that a person names: a title counts only where these rules find it on a page.

use std::ops::Range;

use stemma_document::{Page, PageNo, Position};

use super::line_features::LineTable;
use super::locate;
use super::section_candidate::SectionCandidate;
use super::titles::{self, TitleKeys};

// Shorter titles (`Item 1`, `Cash`) begin too many unrelated lines.
const MIN_PREFIX_LETTERS: usize = 8;
// Less similar lines help nobody to find a misspelled title.
const MIN_NEAREST: f32 = 0.5;

/// The lines of a document. Headings are named by their first row.
pub(crate) struct PageAnalysis<'a> {
    lines: LineTable<'a>,
    /// Excludes no row from a search.
    no_rows: Vec<bool>,
}

impl<'a> PageAnalysis<'a> {
    pub(crate) fn new(pages: &'a [Page]) -> Self {
        let lines = LineTable::new(pages);
        let no_rows = vec![false; lines.rows.len()];
        Self { lines, no_rows }
    }

    /// Locates a section on any page.
    pub(crate) fn locate(&self, section: SectionCandidate) -> Option<usize> {
        self.locate_whole(&[section], 0..self.lines.rows.len())
            .pop()?
    }

    fn locate_whole(
        &self,
        sections: &[SectionCandidate],
        rows: Range<usize>,
    ) -> Vec<Option<usize>> {
        let hits = locate::locate_titles(&self.lines, rows, &self.no_rows, sections);
        hits.into_iter().map(|hit| Some(hit?.rows.0)).collect()
    }

    /// Locates sections, in reading order, on one page.
    pub(crate) fn locate_on_page(
        &self,
        sections: &[SectionCandidate],
        page: PageNo,
    ) -> Vec<Option<usize>> {
        self.locate_in(sections, self.lines.rows_on(page.index()))
    }

    /// Locates a section at a line (from 0) of a page.
    pub(crate) fn locate_at_line(
        &self,
        section: SectionCandidate,
        page: PageNo,
        line: u32,
    ) -> Option<usize> {
        let row = self.row_at(page, line)?;
        self.locate_in(&[section], row..row + 1).pop()?
    }

    fn locate_in(&self, sections: &[SectionCandidate], rows: Range<usize>) -> Vec<Option<usize>> {
        let hits = self.locate_whole(sections, rows.clone());
        hits.into_iter()
            .zip(sections)
            .map(|(hit, section)| hit.or_else(|| self.locate_prefix(section, rows.clone())))
            .collect()
    }

    /// The first of `rows` that begins with the title.
    // Last resort on a page that is known to hold the section: the title may share its line with column heads or with
    // the first words of its paragraph, which the search for whole headings rejects.
    fn locate_prefix(&self, section: &SectionCandidate, mut rows: Range<usize>) -> Option<usize> {
        let TitleKeys { full, core } = &section.prepared;
        rows.find(|at| {
            let row = &self.lines.rows[*at];
            let first = titles::normalize_key(row.first_cell);
            !first.is_empty() && (first == *full || first == *core)
                || full.len() >= MIN_PREFIX_LETTERS && row.key.starts_with(full.as_str())
        })
    }

    /// The line of a page that is most similar to a title, if any is.
    pub(crate) fn nearest_line(&self, title: &str, page: PageNo) -> Option<&str> {
        let title = TitleKeys::new(title);
        self.lines.rows[self.lines.rows_on(page.index())]
            .iter()
            .map(|row| {
                (
                    titles::title_similarity(&TitleKeys::new(row.text), &title),
                    row.text,
                )
            })
            .filter(|(like, _)| *like >= MIN_NEAREST)
            .max_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, text)| text)
    }

    /// The first line of a page below its running heads, if any.
    pub(crate) fn first_row(&self, page: PageNo) -> Option<usize> {
        self.lines.rows_on(page.index()).find(|at| {
            let row = &self.lines.rows[*at];
            !row.running && !row.key.is_empty()
        })
    }

    /// The row of a line (from 0) of a page.
    pub(crate) fn row_at(&self, page: PageNo, line: u32) -> Option<usize> {
        self.lines
            .rows_on(page.index())
            .find(|at| self.lines.rows[*at].line == line)
    }

    pub(crate) fn position(&self, row: usize) -> Position {
        self.lines.rows[row].position()
    }

    /// Whether only running heads are above a row on its page.
    pub(crate) fn starts_page(&self, row: usize) -> bool {
        self.lines.starts_page(row)
    }

    pub(crate) fn text(&self, row: usize) -> &str {
        self.lines.rows[row].text
    }
}
