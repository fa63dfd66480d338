//! What a claim cites: the quote, its pages, their tables and facts.

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

    /// The page, or 0 in a text without pages, and the 1-based line.
    pub(crate) fn place(&self, target: usize, line: usize) -> (u32, u32) {
        let line = u32::try_from(line).unwrap_or(u32::MAX - 1) + 1;
        match self.targets.get(target) {
            Some(target) => match target.lines {
                SourceLines::Page(_) => (target.number, line),
                SourceLines::Text(_) => (0, target.number.saturating_add(line - 1)),
            },
            None => (0, line),
        }
    }

    /// The rows of tables that the quote is on.
    pub(crate) fn quoted_rows(&self) -> Vec<RowAt> {
        let places = || {
            self.quote
                .spans
                .iter()
                .map(|span| self.place(span.target, span.line))
        };
        let rows = |place: (u32, u32), is_exact: bool| {
            self.tables
                .iter()
                .enumerate()
                .filter_map(move |(table, figures)| {
                    let row = row_at(figures, place, is_exact)?;
                    Some(RowAt { table, row })
                })
        };
        let mut exact: Vec<RowAt> = places().flat_map(|place| rows(place, true)).collect();
        if exact.is_empty() {
            exact = places().flat_map(|place| rows(place, false)).collect();
        }
        exact.dedup();
        exact
    }

    /// Whether a line is among the rows of a table.
    pub(crate) fn is_in_table(&self, target: usize, line: usize) -> bool {
        let place = self.place(target, line);
        self.tables
            .iter()
            .any(|table| row_at(table, place, false).is_some())
    }
}

// The row that begins on a line, or the one above that may go on there.
fn row_at(table: &FigureTable, (page, line): (u32, u32), is_exact: bool) -> Option<usize> {
    let on_page = || {
        let rows = table.rows.iter().enumerate();
        rows.filter(|(_, row)| row.page == page)
    };
    let same = on_page().find(|(_, row)| row.line == line);
    let found = same.or_else(|| {
        on_page().find(|(_, row)| !is_exact && row.line > line)?;
        on_page().rfind(|(_, row)| row.line < line)
    });
    found.map(|(row, _)| row)
}
