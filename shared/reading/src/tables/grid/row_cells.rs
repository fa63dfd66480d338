//! The cells of a row of a table, as a reader takes them: `$`, `)` and `%` belong to their figure, also from cells of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use stemma_document::{ByteSpan, GridLine, Page};

use super::{Place, union};
use crate::cells::{CellKind, cell_kind};

/// A cell with text.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) kind: Kind,
    /// Columns of the cell itself.
    pub(crate) columns: Range<u16>,
    /// One more than the last column, with those of the signs behind it.
    end: u16,
    /// How many rows it covers.
    pub(crate) rows: u16,
    /// Marks of its footnotes, without parentheses.
    pub(crate) marks: Vec<String>,
    pub(crate) places: Vec<Place>,
    pub(crate) bytes: Option<ByteSpan>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A number, or a dash in place of one.
    Figure,
    Text,
}

impl Piece {
    pub(crate) fn new(text: &str, columns: Range<u16>, place: Place) -> Self {
        Self {
            text: text.to_owned(),
            kind: Kind::Text,
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
        self.text.contains(|c: char| c.is_ascii_digit())
    }

    /// A number or a dash; a year alone is rather a head.
    pub(crate) fn is_amount(&self) -> bool {
        self.kind == Kind::Figure && !self.is_year()
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
        self.end = self.end.max(other.end);
        for place in &other.places {
            self.add_place(place.clone());
        }
        self.bytes = union(self.bytes, other.bytes);
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

    // `(1)`, `(a)`: the digits or letters inside.
    fn mark(&self) -> Option<&str> {
        let inside = self.text.strip_prefix('(')?.strip_suffix(')')?;
        let is_mark =
            matches!(inside.len(), 1 | 2) && inside.bytes().all(|b| b.is_ascii_alphanumeric());
        is_mark.then_some(inside)
    }
}

/// The cells of a row from the lines that show it.
pub(crate) fn row_pieces(pages: &[Page], lines: &[(usize, usize, &GridLine)]) -> Vec<Piece> {
    let mut cells: BTreeMap<u16, Piece> = BTreeMap::new();
    for (page, line, grid) in lines {
        let text = pages
            .get(*page)
            .and_then(|page| page.lines.get(*line))
            .map_or("", |line| line.text.as_str());
        for cell in &grid.cells {
            let start = cell.start as usize;
            let end = cell.end as usize;
            let text = text.get(start..end).unwrap_or_default().trim();
            let place = Place {
                page: *page,
                line: *line,
                start,
                end,
            };
            let columns = cell.column..cell.column.saturating_add(cell.columns.max(1));
            let piece = Piece {
                rows: cell.rows.max(1),
                bytes: cell.bytes,
                ..Piece::new(text, columns, place)
            };
            match cells.get_mut(&cell.column) {
                Some(before) => before.append(&format!(" {text}"), &piece),
                None => {
                    cells.insert(cell.column, piece);
                }
            }
        }
    }
    with_signs(cells.into_values())
}

pub(crate) fn with_signs(cells: impl Iterator<Item = Piece>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut opened: Option<Piece> = None;
    for mut cell in cells {
        let kind = cell_kind(&cell.text);
        match kind {
            CellKind::Opens => {
                pieces.extend(opened.replace(cell));
                continue;
            }
            CellKind::Closes => {
                if let Some(last) = pieces.last_mut().filter(|last| last.kind == Kind::Figure) {
                    last.append(&cell.text, &cell);
                    continue;
                }
            }
            CellKind::Figure => {
                cell.kind = Kind::Figure;
                if let Some(mut sign) = opened.take() {
                    let gap = if sign.text.ends_with('(') { "" } else { " " };
                    sign.append(&format!("{gap}{}", cell.text), &cell);
                    sign.columns = cell.columns;
                    sign.kind = Kind::Figure;
                    cell = sign;
                }
            }
            CellKind::Text => {}
        }
        pieces.extend(opened.take());
        pieces.push(cell);
    }
    pieces.extend(opened);
    pieces
}

/// Joins marks of footnotes from cells of their own to what they mark. `(1)` next to a figure is a mark where its
/// column has nothing but such marks, and else a negative number.
pub(crate) fn attach_marks<'a>(rows: impl Iterator<Item = &'a mut Vec<Piece>>) {
    let mut rows: Vec<&mut Vec<Piece>> = rows.collect();
    let mut others: BTreeSet<u16> = BTreeSet::new();
    for row in &rows {
        for (at, piece) in row.iter().enumerate() {
            let follows = at
                .checked_sub(1)
                .is_some_and(|before| row[before].end == piece.columns.start);
            if piece.kind == Kind::Figure && !(follows && piece.mark().is_some()) {
                others.insert(piece.columns.start);
            }
        }
    }
    for row in &mut rows {
        let mut pieces: Vec<Piece> = Vec::new();
        for piece in row.drain(..) {
            let mark = piece.mark().map(str::to_owned);
            let is_mark = mark.as_ref().is_some_and(|mark| {
                mark.bytes().all(|b| b.is_ascii_alphabetic())
                    || !others.contains(&piece.columns.start)
            });
            match (pieces.last_mut(), mark.filter(|_| is_mark)) {
                (Some(last), Some(mark)) => {
                    last.append("", &piece);
                    last.marks.push(mark);
                }
                _ => pieces.push(piece),
            }
        }
        **row = pieces;
    }
}
