//! Tables that an HTML file declares: their cells have rows and columns, so nothing about columns is guessed from positions.
//!
//! `row_cells` reads the cells of each row, with `$`, `)` and the marks of its footnotes joined to their figure; `columns`
//! finds the columns that a reader sees; this module tells heads, groups and rows apart and builds the tables.

mod columns;
mod row_cells;

use std::collections::{BTreeMap, BTreeSet};

use stemma_document::{ByteSpan, GridLine, Page};

pub(crate) use self::columns::Columns;
pub(crate) use self::row_cells::{CellKind, RowCell, with_signs};
use self::row_cells::{attach_marks, row_cells};
use crate::cells::without_breaks;
use crate::lines::LineKind;
use crate::numbers::{CellBorders, MarkCounts, NumberMarks, have_spaces};
use crate::period::{head_period, is_only_period, period_mentions};
use crate::tables::placement::text_rect;
use crate::tables::surroundings::{is_title, is_unit, unit_of};
use crate::tables::table::{FigureTable, TableCell, TableColumn, TableNote, TableRow};

// A single figure in a table is a page number, or text that is laid out.
const MIN_FIGURES: usize = 2;
// Rows times columns. A larger table is no statement, and would take its size times that of its widest row.
const MAX_PLACES: usize = 1 << 18;
// Lines of one head, the lowest. What is longer is no head.
const MAX_HEAD_ROWS: usize = 8;
const MAX_HEAD_CHARS: usize = 200;
// `Fiscal Year Ended January 31, 2025 (as restated)`
const MAX_PERIOD_WORDS: usize = 8;

/// The rows of a table in the file.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    rows: Vec<GridRow>,
    // Spaces part the groups of its numbers.
    has_spaces: bool,
}

#[derive(Debug)]
pub(crate) struct GridRow {
    /// Index of the page, and of its first line there.
    pub(crate) at: (usize, usize),
    pub(crate) cells: Vec<RowCell>,
}

/// A part of a text on a page: its line and bytes there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) page: usize,
    pub(crate) line: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A table with its place, and what is above it still to be read.
pub(crate) struct GridTable {
    pub(crate) first: (usize, usize),
    pub(crate) last: (usize, usize),
    pub(crate) has_heads: bool,
    /// Its lines: page, line and what they are.
    pub(crate) lines: Vec<(usize, usize, LineKind)>,
    pub(crate) table: FigureTable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowKind {
    /// Heads of columns.
    Head,
    /// Only a label: a group, or the beginning of a label.
    Label,
    Body,
}

/// The grids of consecutive pages, in the order in which they begin.
pub(crate) fn grids(pages: &[Page]) -> Vec<Grid> {
    type Lines<'a> = Vec<(usize, usize, &'a GridLine)>;
    let mut tables: BTreeMap<u32, BTreeMap<u32, Lines<'_>>> = BTreeMap::new();
    for (page, content) in pages.iter().enumerate() {
        for (line, text) in content.lines.iter().enumerate() {
            if let Some(grid) = &text.grid {
                let rows = tables.entry(grid.table).or_default();
                rows.entry(grid.row).or_default().push((page, line, grid));
            }
        }
    }
    // A head that is repeated on every page is furniture; so is a foot made as a table, of which nothing else is left.
    tables.retain(|_, rows| {
        let mut lines = rows.values().flatten();
        lines.any(|(page, line, _)| !pages[*page].lines[*line].is_furniture())
    });
    let grids = tables.into_values().map(|rows| {
        let lines = || rows.values().flatten();
        let texts = lines().flat_map(|(page, line, grid)| {
            let line = pages.get(*page).and_then(|page| page.lines.get(*line));
            let text = line.map_or("", |line| line.text.as_str());
            grid.cells
                .iter()
                .filter_map(|cell| text.get(cell.start as usize..cell.end as usize))
        });
        let has_spaces = have_spaces(texts, CellBorders::Declared);
        let rows = rows.values().filter_map(|lines| {
            let (page, line, _) = *lines.first()?;
            Some(GridRow {
                at: (page, line),
                cells: row_cells(pages, lines, has_spaces),
            })
        });
        let mut grid = Grid {
            rows: rows.collect(),
            has_spaces,
        };
        attach_marks(grid.rows.iter_mut().map(|row| &mut row.cells));
        grid
    });
    grids.collect()
}

impl Grid {
    pub(crate) fn new(rows: Vec<GridRow>, has_spaces: bool) -> Self {
        Self { rows, has_spaces }
    }

    /// The tables of the grid, one for each set of heads. `first_page` is the number of the first page, and `marks` are those of
    /// the pages.
    pub(crate) fn tables(
        &self,
        first_page: u32,
        pages: &[Page],
        marks: &[NumberMarks],
    ) -> Vec<GridTable> {
        let kinds = self.kinds();
        let bodies = kinds.iter().zip(&self.rows);
        let bodies = bodies.filter(|(kind, _)| **kind == RowKind::Body);
        let heads = kinds.iter().zip(&self.rows);
        let heads = heads.filter(|(kind, _)| **kind == RowKind::Head);
        let heads: Vec<&RowCell> = heads.flat_map(|(_, row)| &row.cells).collect();
        let columns = Columns::new(bodies.map(|(_, row)| row.cells.as_slice()), &heads);
        let figures = self.figures().filter(|cell| cell.has_digits()).count();
        let is_large = columns.len().saturating_mul(self.rows.len()) > MAX_PLACES;
        if figures < MIN_FIGURES || columns.is_empty() || is_large {
            return Vec::new();
        }
        let mut reader = SegmentReader {
            pages,
            first_page,
            columns: &columns,
            marks: self.marks(marks),
            heads: Vec::new(),
            heads_before: Vec::new(),
            head_texts: vec![String::new(); columns.len()],
            corner: String::new(),
            last_was_head: true,
            segment: Segment::default(),
            done: Vec::new(),
        };
        for (kind, row) in kinds.iter().zip(&self.rows) {
            reader.row(*kind, row);
        }
        reader.finish()
    }

    // Those of its figures, or else of its page.
    fn marks(&self, pages: &[NumberMarks]) -> NumberMarks {
        let page = self.rows.first().and_then(|row| pages.get(row.at.0));
        let page = page.copied().unwrap_or_default();
        let mut counts = MarkCounts::default();
        for cell in self.figures() {
            counts.add_cell(&without_breaks(&cell.text));
        }
        NumberMarks {
            decimal: counts.settle(Some(page.decimal)),
            has_spaces: self.has_spaces,
            ..page
        }
    }

    fn figures(&self) -> impl Iterator<Item = &RowCell> {
        let cells = self.rows.iter().flat_map(|row| &row.cells);
        cells.filter(|cell| cell.kind == CellKind::Figure)
    }

    // The first column behind those of the labels: where most labels of rows with amounts end.
    fn label_end(&self) -> u16 {
        let firsts = || self.rows.iter().filter_map(|row| row.cells.first());
        let left = firsts().map(|cell| cell.columns.start).min().unwrap_or(0);
        let has_amounts = |row: &&GridRow| {
            let behind = row.cells.iter().skip(1);
            behind.into_iter().any(RowCell::is_amount)
        };
        let labels = self.rows.iter().filter(has_amounts);
        let labels = labels.filter_map(|row| row.cells.first());
        let mut ends: BTreeMap<u16, usize> = BTreeMap::new();
        for label in
            labels.filter(|label| label.kind == CellKind::Text || label.columns.start == left)
        {
            *ends.entry(label.columns.end).or_default() += 1;
        }
        let most = ends.into_iter().max_by_key(|(_, count)| *count);
        most.map_or(left + 1, |(end, _)| end)
    }

    fn kinds(&self) -> Vec<RowKind> {
        let label_end = self.label_end();
        let mut has_body = false;
        let kinds = self.rows.iter().map(|row| {
            let (labels, others): (Vec<&RowCell>, Vec<&RowCell>) = row
                .cells
                .iter()
                .partition(|cell| cell.columns.start < label_end);
            if others.iter().any(|cell| cell.is_amount()) {
                has_body = true;
                return RowKind::Body;
            }
            if others.is_empty() {
                // `December 31, 2023` over all columns.
                let is_wide = matches!(labels[..], [label] if label.columns.end > label_end);
                let names_period = labels.iter().any(|label| is_period(&label.text));
                return match is_wide && names_period {
                    true => RowKind::Head,
                    false => RowKind::Label,
                };
            }
            let label = labels.iter().map(|cell| cell.text.as_str());
            let label = label.collect::<Vec<_>>().join(" ");
            let is_stub = label.is_empty()
                || label.starts_with('(')
                || unit_of(&label).is_some()
                || !head_period(&label).is_empty();
            let names_periods = others
                .iter()
                .all(|cell| cell.is_year() || !period_mentions(&cell.text).is_empty());
            let is_text_row = has_body
                && !is_stub
                && !(names_periods && labels.len() < 2 && others.len() > 1 && is_short(&label));
            match is_text_row {
                true => RowKind::Body,
                false => RowKind::Head,
            }
        });
        kinds.collect()
    }
}

// A text of a period and few other words.
fn is_period(text: &str) -> bool {
    !head_period(text).is_empty() && text.split_whitespace().count() <= MAX_PERIOD_WORDS
}

fn is_short(label: &str) -> bool {
    label.split_whitespace().count() <= 4
}

// A table under construction: the rows below one set of heads.
#[derive(Default)]
struct Segment {
    first: Option<(usize, usize)>,
    last: (usize, usize),
    lines: Vec<(usize, usize, LineKind)>,
    title: Option<String>,
    unit: Option<String>,
    labels: Vec<String>,
    rows: Vec<TableRow>,
    // A label that goes on in the rows below: for how many, or as long as labels begin at or behind a column.
    spanned: Option<(String, u16)>,
    outer: Option<(String, u16)>,
    group: Option<String>,
}

struct SegmentReader<'a> {
    pages: &'a [Page],
    first_page: u32,
    columns: &'a Columns,
    marks: NumberMarks,
    // Texts over columns, from the top.
    heads: Vec<Vec<RowCell>>,
    // Those of the rows above, while new ones are read.
    heads_before: Vec<Vec<RowCell>>,
    // Of each column, from the top.
    head_texts: Vec<String>,
    // The length of the periods of all columns, from the corner: `Three months ended June 30,`.
    corner: String,
    last_was_head: bool,
    segment: Segment,
    done: Vec<GridTable>,
}

impl SegmentReader<'_> {
    fn row(&mut self, kind: RowKind, row: &GridRow) {
        let line_kind = match kind {
            RowKind::Head => {
                self.head(row);
                LineKind::ColumnHead
            }
            RowKind::Label => {
                self.label(row);
                LineKind::Label
            }
            RowKind::Body => {
                self.body(row);
                LineKind::Row
            }
        };
        let places = row.cells.iter().flat_map(|cell| &cell.places);
        self.segment.lines.extend(
            std::iter::once(row.at)
                .chain(places.map(|place| (place.page, place.line)))
                .map(|(page, line)| (page, line, line_kind)),
        );
    }

    fn head(&mut self, row: &GridRow) {
        if !self.segment.rows.is_empty() {
            self.end_segment();
        }
        let label_end = self.columns.label_end();
        let (labels, heads): (Vec<RowCell>, Vec<RowCell>) = row
            .cells
            .iter()
            .cloned()
            .partition(|cell| cell.columns.end <= label_end);
        if !self.last_was_head {
            self.heads_before = std::mem::take(&mut self.heads);
            self.corner.clear();
        }
        for label in labels {
            let unit = unit_of(&label.text);
            self.segment.unit = self.segment.unit.take().or(unit);
            let period = head_period(&label.text);
            if period.length.is_some() && period.year.is_none() && is_only_period(&label.text) {
                self.corner = label.text;
            }
        }
        self.segment.first.get_or_insert(row.at);
        self.last_was_head = true;
        if let [head] = &heads[..]
            && is_unit(&head.text)
            && (0..self.columns.len()).all(|column| self.columns.is_under(column, head))
        {
            self.segment.unit = Some(head.text.clone());
            return;
        }
        self.heads.push(heads);
        if self.heads.len() > MAX_HEAD_ROWS {
            self.heads.remove(0);
        }
    }

    fn label(&mut self, row: &GridRow) {
        let text = joined(&row.cells);
        let is_before_rows = self.segment.rows.is_empty() && self.done.is_empty();
        if let Some(unit) = unit_of(&text).filter(|_| is_before_rows) {
            self.segment.unit = Some(unit);
        } else if is_before_rows && self.heads.is_empty() && is_title(&text) {
            self.segment.title.get_or_insert(text.clone());
        }
        self.segment.labels.push(text);
    }

    fn body(&mut self, row: &GridRow) {
        if self.last_was_head {
            let before = std::mem::take(&mut self.heads_before);
            self.heads = with_heads_before(before, std::mem::take(&mut self.heads));
            self.head_texts = (0..self.columns.len())
                .map(|column| self.head_over(column))
                .collect();
        }
        self.last_was_head = false;
        self.segment.first.get_or_insert(row.at);
        let mut own: Vec<&RowCell> = Vec::new();
        let mut cells: Vec<Option<TableCell>> = vec![None; self.columns.len()];
        for cell in &row.cells {
            match self
                .columns
                .find(cell)
                .filter(|_| !own.is_empty() || !self.columns.is_label(cell))
            {
                Some(column) => {
                    let read = self.table_cell(cell, column, &joined(own.iter().copied()));
                    match &mut cells[column] {
                        Some(before) => before.join(read),
                        none => *none = Some(read),
                    }
                }
                None => own.push(cell),
            }
        }
        let last = row.cells.iter().flat_map(|cell| &cell.places).last();
        let last = last.map_or(row.at, |place| (place.page, place.line));
        let label = self.full_row_label(&own);
        let segment = &mut self.segment;
        segment.last = segment.last.max(last).max(row.at);
        if cells.iter().all(Option::is_none) {
            segment.labels.push(label);
            return;
        }
        let page = self.first_page + u32::try_from(row.at.0).unwrap_or(u32::MAX);
        segment.rows.push(TableRow {
            label,
            marks: own.iter().flat_map(|cell| cell.raised.clone()).collect(),
            group: segment.group.clone(),
            page,
            line: u32::try_from(row.at.1 + 1).unwrap_or(u32::MAX),
            cells,
        });
    }

    // The label of a row, with what goes on from a row above.
    fn full_row_label(&mut self, own: &[&RowCell]) -> String {
        let segment = &mut self.segment;
        let text = joined(own.iter().copied());
        let goes_on = text.is_empty() || text.starts_with(char::is_lowercase);
        // A label above that this row goes on is no group.
        let mut labels = std::mem::take(&mut segment.labels);
        let above = labels
            .last()
            .filter(|above| goes_on && !above.ends_with(':'));
        let label = full_label(&text, &above.cloned().into_iter().collect::<Vec<_>>());
        if label != text {
            labels.pop();
        }
        if let Some(group) = labels.pop() {
            segment.group = Some(group);
        }
        if let Some(spanning) = own.first().filter(|cell| cell.rows > 1) {
            segment.spanned = Some((spanning.text.clone(), spanning.rows - 1));
            return label;
        }
        if let Some((spanned, left)) = &mut segment.spanned
            && *left > 0
        {
            *left -= 1;
            return format!("{spanned} {label}").trim().to_owned();
        }
        let start = own.first().map(|cell| cell.columns.start);
        segment.outer = segment
            .outer
            .take()
            .filter(|(_, inner)| start >= Some(*inner));
        match (own, &segment.outer) {
            ([outer, inner, ..], _) => {
                segment.outer = Some((outer.with_marks(), inner.columns.start));
                label
            }
            (_, Some((outer, _))) => format!("{outer} {label}"),
            _ => label,
        }
    }

    fn table_cell(&self, cell: &RowCell, column: usize, label: &str) -> TableCell {
        let text = without_breaks(&cell.text);
        let number = self.marks.numbers(&text).into_iter().next();
        let number = number.filter(|_| cell.kind == CellKind::Figure);
        let value = number.and_then(|mut number| {
            let words = format!("{label} {}", self.head_texts[column]).to_lowercase();
            number.read_as_cell(&words);
            number.signed_value()
        });
        let place = cell.places.first();
        let rect = place.and_then(|place| {
            let page = self.pages.get(place.page)?;
            let rect = text_rect(page, place.line, &(place.start..place.end))?;
            Some(page.shares(rect))
        });
        TableCell {
            text: cell.text.clone(),
            value: value.map(|value| value.to_string()),
            rect,
            bytes: cell.bytes.map(|bytes| [bytes.start, bytes.end]),
            marks: cell.marks.iter().chain(&cell.raised).cloned().collect(),
            facts: Vec::new(),
        }
    }

    fn head_over(&self, column: usize) -> String {
        let over = self.heads.iter().flatten().filter(|cell| {
            self.columns.is_under(column, cell) && cell.text.len() <= MAX_HEAD_CHARS
        });
        let head = joined(over);
        let period = head_period(&head);
        match period.year.is_some() && period.length.is_none() && !self.corner.is_empty() {
            true => format!("{} {head}", self.corner),
            false => head,
        }
    }

    fn end_segment(&mut self) {
        let mut segment = std::mem::take(&mut self.segment);
        // A table that goes on below new heads is in what it was in.
        self.segment.unit.clone_from(&segment.unit);
        self.segment.title.clone_from(&segment.title);
        self.segment.group.clone_from(&segment.group);
        self.segment.labels = std::mem::take(&mut segment.labels);
        let Some(first) = segment.first.filter(|_| !segment.rows.is_empty()) else {
            return;
        };
        let used: BTreeSet<usize> = segment
            .rows
            .iter()
            .flat_map(|row| row.cells.iter().enumerate())
            .filter_map(|(column, cell)| cell.as_ref().map(|_| column))
            .collect();
        let columns = used.iter().map(|column| {
            let head = self.head_texts[*column].clone();
            let period = head_period(&head);
            let over = self.heads.iter().flatten();
            let over = over.filter(|cell| self.columns.is_under(*column, cell));
            TableColumn {
                marks: over.flat_map(|cell| cell.raised.clone()).collect(),
                period: (!period.is_empty()).then(|| period.to_string()),
                unit: unit_of(&head),
                head,
            }
        });
        let columns = columns.collect();
        for row in &mut segment.rows {
            let mut column = 0;
            row.cells.retain(|_| {
                column += 1;
                used.contains(&(column - 1))
            });
        }
        let number = |page: usize| self.first_page + u32::try_from(page).unwrap_or(u32::MAX);
        self.done.push(GridTable {
            first,
            last: segment.last,
            has_heads: self.heads.iter().any(|heads| !heads.is_empty()),
            lines: segment.lines,
            table: FigureTable {
                id: String::new(),
                title: segment.title,
                unit: segment.unit,
                scale: None,
                marks: self.marks,
                pages: (number(first.0), number(segment.last.0)),
                columns,
                rows: segment.rows,
                notes: Vec::<TableNote>::new(),
            },
        });
    }

    fn finish(mut self) -> Vec<GridTable> {
        self.end_segment();
        self.done
    }
}

// Heads inside of a table take the place of those over the same columns; `December 31, 2023` over all columns leaves the names
// of the columns below it as they are. Where they take the place of none, several heads are a new set.
fn with_heads_before(before: Vec<Vec<RowCell>>, new: Vec<Vec<RowCell>>) -> Vec<Vec<RowCell>> {
    let is_replaced = |old: &Vec<RowCell>| new.iter().any(|row| stands_for(row, old));
    match before.iter().position(is_replaced) {
        Some(first) => {
            let rest = before[first..].iter().filter(|old| !is_replaced(old));
            let rest: Vec<Vec<RowCell>> = rest.cloned().collect();
            before
                .into_iter()
                .take(first)
                .chain(new)
                .chain(rest)
                .collect()
        }
        None if new.iter().any(|row| row.len() > 1) => new,
        None => new.into_iter().chain(before).collect(),
    }
}

// Whether most heads of a row are over the same columns as those of another.
fn stands_for(row: &[RowCell], old: &[RowCell]) -> bool {
    let is_same = |cell: &&RowCell| row.iter().any(|new| new.columns == cell.columns);
    2 * old.iter().filter(is_same).count() > old.len()
}

fn joined<'a>(cells: impl IntoIterator<Item = &'a RowCell>) -> String {
    let texts = cells.into_iter().map(RowCell::with_marks);
    texts.collect::<Vec<_>>().join(" ")
}

// A label that goes on from the line above: it has no words of its own, or begins in lower case.
fn full_label(own: &str, above: &[String]) -> String {
    let goes_on = own.is_empty() || own.starts_with(char::is_lowercase);
    match above.last() {
        Some(above) if goes_on && !above.ends_with(':') => {
            format!("{above} {own}").trim().to_owned()
        }
        _ => own.to_owned(),
    }
}

fn union(one: Option<ByteSpan>, two: Option<ByteSpan>) -> Option<ByteSpan> {
    match (one, two) {
        (Some(one), Some(two)) => Some(one.union(two)),
        (one, two) => one.or(two),
    }
}

#[cfg(test)]
mod tests;
