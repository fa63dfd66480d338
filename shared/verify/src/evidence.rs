//! What a claim cites: the quote, its pages, their tables and facts.

use stemma_reading::numbers::NumberMarks;
use stemma_reading::tables::FigureTable;
use stemma_xbrl::FactTable;

use super::quote::QuoteCheck;
use super::quote_target::{QuoteTarget, SourceLines};

/// One citation of a claim.
#[derive(Debug)]
pub struct Evidence<'a> {
    pub quote: QuoteCheck,
    /// Its page and the next one, or its lines.
    pub targets: &'a [QuoteTarget<'a>],
    /// The tables of the document that have rows on these pages, whole.
    pub tables: Vec<&'a FigureTable>,
    pub facts: Option<&'a FactTable>,
    /// From the year of a date in January or February to the name of its fiscal year.
    pub year_shift: i32,
    /// How the numbers of its page are written.
    pub marks: NumberMarks,
    /// Section path, file name and description of the document.
    pub location: &'a str,
}

/// A row of a table, both by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowAt {
    pub(crate) table: usize,
    pub(crate) row: usize,
}

impl Evidence<'_> {
    /// The text of its pages.
    pub(crate) fn page_text(&self) -> String {
        let texts = self.targets.iter().map(QuoteTarget::full_text);
        texts.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = RowAt> + '_ {
        let tables = self.tables.iter().enumerate();
        tables.flat_map(|(table, figures)| {
            (0..figures.rows.len()).map(move |row| RowAt { table, row })
        })
    }

    /// The rows of tables that the quote is on.
    pub(crate) fn quoted_rows(&self) -> Vec<RowAt> {
        let rows = |is_exact: bool| {
            self.quote
                .spans
                .iter()
                .flat_map(|span| self.rows_at(span.target, span.line, is_exact))
                .collect::<Vec<_>>()
        };
        let exact = Some(rows(true)).filter(|rows| !rows.is_empty());
        let mut found = exact.unwrap_or_else(|| rows(false));
        found.dedup();
        found
    }

    /// Whether a line is among the rows of a table.
    pub(crate) fn is_in_table(&self, target: usize, line: usize) -> bool {
        !self.rows_at(target, line, false).is_empty()
    }

    // The row of each table that begins on a line, or the one above that may go on there.
    fn rows_at(&self, target: usize, line: usize, is_exact: bool) -> Vec<RowAt> {
        // The page, or 0 in a text without pages, and the 1-based line.
        let line = u32::try_from(line).unwrap_or(u32::MAX - 1);
        let (page, line) = match self.targets.get(target) {
            Some(QuoteTarget { number, lines }) => match lines {
                SourceLines::Page(_) => (*number, line + 1),
                SourceLines::Text(_) => (0, number.saturating_add(line)),
            },
            None => (0, line + 1),
        };
        let line_of = |at: &RowAt| self.tables[at.table].rows[at.row].line;
        let rows: Vec<RowAt> = self
            .rows()
            .filter(|at| self.tables[at.table].rows[at.row].page == page)
            .collect();
        let tables = rows.chunk_by(|one, next| one.table == next.table);
        let found = tables.filter_map(|rows| {
            let same = rows.iter().find(|at| line_of(at) == line);
            let is_inside = !is_exact && rows.iter().any(|at| line_of(at) > line);
            same.or_else(|| rows.iter().rfind(|at| is_inside && line_of(at) < line))
        });
        found.copied().collect()
    }
}
