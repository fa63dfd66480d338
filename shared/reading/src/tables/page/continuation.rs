//! A table that goes on from the page before, where the heads of its columns are.

use super::{CellSpan, PROSE_WORDS, TableLine, TablePage};
use crate::period::StatedPeriod;

// Running heads and feet, and lines such as `(continued)`, between the rows of both pages.
const MAX_FEET: usize = 4;
const MAX_HEADS: usize = 6;
// Rows at the end of the page before. Some have empty cells.
const LAST_ROWS: usize = 5;

/// The columns of the table with which the page before ends.
#[derive(Debug)]
pub(super) struct Continuation {
    columns: Vec<Column>,
    pub(super) scales: Vec<f64>,
    // The line with which the table ends, and how far the right edges of a column may be apart.
    until: usize,
    tolerance: f32,
}

#[derive(Debug, Clone)]
pub(super) struct Column {
    right: f32,
    pub(super) period: StatedPeriod,
    pub(super) head: String,
}

impl Continuation {
    /// `None` unless the page begins with rows whose cells are under those of the last rows of `before`, and has no heads of its own.
    pub(super) fn new(page: &TablePage<'_>, before: &TablePage<'_>) -> Option<Self> {
        let rows: Vec<usize> = before.rows().collect();
        let last = *rows.last()?;
        let feet = &before.lines[last + 1..];
        let first = page.rows().next()?;
        let heads = &page.lines[..first];
        let ends_with_rows = feet.len() <= MAX_FEET && feet.iter().all(|line| !line.is_prose());
        let is_headless = heads.len() <= MAX_HEADS && heads.iter().all(|line| !line.may_be_heads());
        if !ends_with_rows || !is_headless {
            return None;
        }
        let widest = rows.iter().rev().take(LAST_ROWS);
        let widest = *widest.max_by_key(|at| before.lines[**at].cells.len())?;
        let spans = before.lines[widest].cells.iter();
        let cells = spans.zip(before.cells(widest));
        let columns = cells.map(|(span, cell)| {
            Some(Column {
                right: span.x?.1,
                period: cell.period,
                head: cell.head,
            })
        });
        let until = (first..page.lines.len()).find(|at| page.lines[*at].may_be_heads());
        let continuation = Self {
            columns: columns.collect::<Option<Vec<Column>>>()?,
            scales: before.scales_above(widest),
            until: until.unwrap_or(page.lines.len()),
            tolerance: page.lines[first].height,
        };
        let is_aligned = |span: &CellSpan| continuation.column(first, span).is_some();
        let are_aligned = page.lines[first].cells.iter().all(is_aligned);
        let has_periods = continuation
            .columns
            .iter()
            .any(|column| column.period.year.is_some());
        Some(continuation).filter(|_| are_aligned && has_periods)
    }

    /// The column of a cell in a line of the page.
    pub(super) fn column(&self, line: usize, cell: &CellSpan) -> Option<&Column> {
        let right = cell.x.filter(|_| line < self.until)?.1;
        let mut columns = self.columns.iter();
        columns.find(|column| (column.right - right).abs() <= self.tolerance)
    }
}

impl TableLine<'_> {
    pub(super) fn is_prose(&self) -> bool {
        self.cells.is_empty() && self.text.split_whitespace().count() > PROSE_WORDS
    }

    // Periods, text that ends a table, or words in several columns.
    pub(super) fn may_be_heads(&self) -> bool {
        self.is_head || self.is_prose() || (self.cells.is_empty() && self.chunks().len() > 1)
    }
}
