//! The cells of a row of a table, as a reader takes them: `$`, `)` and `%` belong to their figure, also from cells of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use stemma_document::note_marks::{marks_in, without_raised};
use stemma_document::{ByteSpan, GridLine, Page};

use super::{Place, union};
use crate::cells::{CellTextKind, cell_text_kind};
use crate::numbers::is_decimal_digit;

/// A cell with text.
#[derive(Debug, Clone)]
pub(crate) struct RowCell {
    pub(crate) text: String,
    pub(crate) kind: CellKind,
    /// Columns of the cell itself.
    pub(crate) columns: Range<u16>,
    /// One more than the last column, with those of the signs behind it.
    end: u16,
    /// How many rows it covers.
    pub(crate) rows: u16,
    /// Marks of its footnotes from cells of their own, without parentheses.
    pub(crate) marks: Vec<String>,
    /// Raised marks of its footnotes, which its text does not have.
    pub(crate) raised: Vec<String>,
    pub(crate) places: Vec<Place>,
    pub(crate) bytes: Option<ByteSpan>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellKind {
    /// A number, or a dash in place of one.
    Figure,
    Text,
}

impl RowCell {
    pub(crate) fn new(text: &str, columns: Range<u16>, place: Place) -> Self {
        Self {
            text: without_raised(text).trim().to_owned(),
            raised: marks_in(text),
            kind: CellKind::Text,
            end: columns.end,
            columns,
            rows: 1,
            marks: Vec::new(),
            places: vec![place],
            bytes: None,
        }
    }

    /// Gives it other columns.
    pub(crate) fn set_columns(&mut self, columns: Range<u16>) {
        self.end = columns.end;
        self.columns = columns;
    }

    pub(crate) fn has_digits(&self) -> bool {
        self.text.contains(is_decimal_digit)
    }

    /// A number or a dash; a year alone is rather a head.
    pub(crate) fn is_amount(&self) -> bool {
        self.kind == CellKind::Figure && !self.is_year()
    }

    /// Whether it is a year and nothing else, as heads are.
    pub(crate) fn is_year(&self) -> bool {
        let year = self.text.len() == 4 && self.text.bytes().all(|b| b.is_ascii_digit());
        year && matches!(self.text.get(..2), Some("19" | "20"))
    }

    pub(crate) fn with_marks(&self) -> String {
        let marks = self.marks.iter().map(|mark| format!(" ({mark})"));
        format!("{}{}", self.text, marks.collect::<String>())
    }

    pub(crate) fn append(&mut self, text: &str, other: &Self) {
        self.text.push_str(text);
        self.raised.extend(other.raised.iter().cloned());
        self.end = self.end.max(other.end);
        for place in &other.places {
            self.add_place(place.clone());
        }
        self.bytes = union(self.bytes, other.bytes);
    }

    /// Adds another cell of its row and column. Two figures have no value together, but a figure keeps that before its mark.
    pub(crate) fn join(&mut self, other: &Self) {
        if self.has_digits() && other.has_digits() && other.mark().is_none() {
            self.kind = CellKind::Text;
        }
        self.append(&format!(" {}", other.text), other);
    }

    fn add_place(&mut self, place: Place) {
        match self.places.last_mut() {
            Some(last) if (last.page, last.line) == (place.page, place.line) => {
                last.start = last.start.min(place.start);
                last.end = last.end.max(place.end);
            }
            _ => self.places.push(place),
        }
    }

    fn is_raised_mark(&self) -> bool {
        self.text.is_empty() && !self.raised.is_empty()
    }

    // `(1)`, `(a)`: the digits or letters inside.
    fn mark(&self) -> Option<&str> {
        let inside = self.text.strip_prefix('(')?.strip_suffix(')')?;
        let is_mark =
            matches!(inside.len(), 1 | 2) && inside.bytes().all(|b| b.is_ascii_alphanumeric());
        is_mark.then_some(inside)
    }
}

/// The cells of a row from the lines that show it. `spaces` part the groups of its numbers.
pub(crate) fn row_cells(
    pages: &[Page],
    lines: &[(usize, usize, &GridLine)],
    spaces: bool,
) -> Vec<RowCell> {
    let mut cells: BTreeMap<u16, RowCell> = BTreeMap::new();
    for (page, line, grid) in lines {
        let text = pages
            .get(*page)
            .and_then(|page| page.lines.get(*line))
            .map_or("", |line| line.text.as_str());
        for declared in &grid.cells {
            let start = declared.start as usize;
            let end = declared.end as usize;
            let text = text.get(start..end).unwrap_or_default().trim();
            let place = Place {
                page: *page,
                line: *line,
                start,
                end,
            };
            let columns = declared.column..declared.column.saturating_add(declared.columns.max(1));
            let cell = RowCell {
                rows: declared.rows.max(1),
                bytes: declared.bytes,
                ..RowCell::new(text, columns, place)
            };
            match cells.get_mut(&declared.column) {
                Some(before) => before.append(&format!(" {}", cell.text), &cell),
                None => {
                    cells.insert(declared.column, cell);
                }
            }
        }
    }
    with_signs(cells.into_values(), spaces)
}

pub(crate) fn with_signs(cells: impl Iterator<Item = RowCell>, spaces: bool) -> Vec<RowCell> {
    let mut joined: Vec<RowCell> = Vec::new();
    let mut opened: Option<RowCell> = None;
    for mut cell in cells {
        if let Some(last) = joined.last_mut().filter(|_| cell.is_raised_mark()) {
            last.append("", &cell);
            continue;
        }
        let kind = cell_text_kind(&cell.text, spaces);
        match kind {
            CellTextKind::Opens => {
                joined.extend(opened.replace(cell));
                continue;
            }
            CellTextKind::Closes => {
                if let Some(last) = joined
                    .last_mut()
                    .filter(|last| last.kind == CellKind::Figure)
                {
                    last.append(&cell.text, &cell);
                    continue;
                }
            }
            CellTextKind::Figure => {
                cell.kind = CellKind::Figure;
                if let Some(mut sign) = opened.take() {
                    let gap = if sign.text.ends_with('(') { "" } else { " " };
                    sign.append(&format!("{gap}{}", cell.text), &cell);
                    sign.columns = cell.columns;
                    sign.kind = CellKind::Figure;
                    cell = sign;
                }
            }
            CellTextKind::Text => {}
        }
        joined.extend(opened.take());
        joined.push(cell);
    }
    joined.extend(opened);
    joined
}

/// Joins marks of footnotes from cells of their own to what they mark. `(1)` next to a figure is a mark where its
/// column has nothing but such marks, and else a negative number.
pub(crate) fn attach_marks<'a>(rows: impl Iterator<Item = &'a mut Vec<RowCell>>) {
    let mut rows: Vec<&mut Vec<RowCell>> = rows.collect();
    let mut others: BTreeSet<u16> = BTreeSet::new();
    for row in &rows {
        for (at, cell) in row.iter().enumerate() {
            let follows = at
                .checked_sub(1)
                .is_some_and(|before| row[before].end == cell.columns.start);
            if cell.kind == CellKind::Figure && !(follows && cell.mark().is_some()) {
                others.insert(cell.columns.start);
            }
        }
    }
    for row in &mut rows {
        let mut cells: Vec<RowCell> = Vec::new();
        for cell in row.drain(..) {
            let mark = cell.mark().map(str::to_owned);
            let is_mark = mark.as_ref().is_some_and(|mark| {
                mark.bytes().all(|b| b.is_ascii_alphabetic())
                    || !others.contains(&cell.columns.start)
            });
            match (cells.last_mut(), mark.filter(|_| is_mark)) {
                (Some(last), Some(mark)) => {
                    last.append("", &cell);
                    last.marks.push(mark);
                }
                _ => cells.push(cell),
            }
        }
        **row = cells;
    }
}
