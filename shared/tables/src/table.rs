//! Whole tables of a document: rows gathered between heads and prose, with columns, periods, unit and scale.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use serde::Serialize;
use stemma_document::{Page, Rect};

use crate::grid::{GridTable, grids};
use crate::page::{Cell, SourceLines, TablePage};
use crate::period::StatedPeriod;

// Fewer rows or numbers are a list or a sentence with figures.
const MIN_ROWS: usize = 2;
const MIN_NUMBERS: usize = 3;
// Lines without cells inside of a table: a wrapped label, a group and its subgroup.
const MAX_LINES_BETWEEN_ROWS: usize = 4;
// Space above a row in line heights. Rows of one table are one or two apart; a foot is where the margin begins.
const MAX_GAP: f32 = 4.0;
// Lines above the first row in which unit and title are looked for.
const MAX_LINES_ABOVE: usize = 12;
// Lines between a table and the edge of its page, such as a running head, beyond which the table does not go on.
const MAX_LINES_AT_EDGES: usize = 4;
// Lines below a table in which its footnotes are looked for.
const MAX_NOTE_LINES: usize = 30;
// Facts that may begin before the end of a cell and belong to it.
const MAX_NESTED_FACTS: usize = 16;
// Lines of one head: what is measured, the length of the period, its end, and notes.
const MAX_HEAD_LINES: usize = 5;
// A longer line above a table is text, not its title.
const MAX_TITLE_CHARS: usize = 120;

/// A table of a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureTable {
    /// `t1`, `t2`, … in reading order.
    pub id: String,
    /// The line above the heads that names the table, as printed.
    pub title: Option<String>,
    /// What the figures are in, as printed: `(in millions, except per share data)`.
    pub unit: Option<String>,
    /// By how much printed figures are multiplied, where one scale is declared.
    pub scale: Option<u64>,
    /// First and last page, 1-based.
    pub pages: (u32, u32),
    pub columns: Vec<TableColumn>,
    pub rows: Vec<TableRow>,
    /// Footnotes below it that its cells, labels or heads refer to.
    pub notes: Vec<TableNote>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableNote {
    /// Without parentheses: `1`, `a`.
    pub mark: String,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TableColumn {
    /// Words over the column, from the top.
    pub head: String,
    /// The period that the head names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<String>,
    /// What the figures of this column are in, where its head says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableRow {
    pub label: String,
    /// The label above that covers this row; on pages without grids one that ends with a colon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    pub page: u32,
    /// One for each column; `None` where the row has no cell.
    pub cells: Vec<Option<TableCell>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableCell {
    /// As printed, with sign and unit.
    pub text: String,
    /// The number without scale, as an exact decimal; `None` for a dash.
    pub value: Option<String>,
    /// Left, top, width and height on the displayed page, in shares of its size.
    pub rect: Option<[f64; 4]>,
    /// First byte in the file and the one behind the last; only in HTML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<[u32; 2]>,
    /// Marks of footnotes beside it, without parentheses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
    /// The figures that the file tags in it; see [`FigureTable::link_facts`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<CellFact>,
}

/// A figure that a file tags in a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CellFact {
    /// With its prefix: `us-gaap:Revenues`.
    pub concept: String,
    /// `2024-12-31`, or the first and the last day: `2024-01-01/2024-12-31`.
    pub period: String,
    /// `USD`, `shares`, `USD/shares`, `pure`.
    pub unit: Option<String>,
    /// Exact, with scale and sign applied; `None` if it is nil or cannot be read.
    pub value: Option<String>,
    /// Offset of its tag in the file, which names it in the list of facts.
    pub byte: u32,
    /// Offset behind its closing tag.
    #[serde(skip)]
    pub end: u32,
}

impl TableCell {
    /// Adds a cell that stands in the same row and column, such as the end of a range.
    pub(crate) fn join(&mut self, other: Self) {
        self.text = format!("{} {}", self.text, other.text);
        self.value = None;
        self.bytes = match (self.bytes, other.bytes) {
            (Some(one), Some(two)) => Some([one[0].min(two[0]), one[1].max(two[1])]),
            (one, two) => one.or(two),
        };
        self.marks.extend(other.marks);
        self.facts.extend(other.facts);
    }
}

impl FigureTable {
    /// Gives each cell the tagged figures that stand in it. `facts` are in the order of the file.
    pub fn link_facts(&mut self, facts: &[CellFact]) {
        let cells = self.rows.iter_mut().flat_map(|row| &mut row.cells);
        for cell in cells.flatten() {
            let Some([start, end]) = cell.bytes else {
                continue;
            };
            let behind = facts.partition_point(|fact| fact.byte < end);
            let inside = facts[..behind].iter().rev();
            // Tags of figures are nested a few deep at most.
            let inside = inside
                .take(MAX_NESTED_FACTS)
                .filter(|fact| fact.end > start);
            cell.facts = inside.cloned().collect();
            cell.facts.reverse();
        }
    }

    /// Title and unit, the table as Markdown, and its footnotes.
    pub fn to_text(&self) -> String {
        let above = [self.title.as_deref(), self.unit.as_deref()];
        let above: Vec<&str> = above.into_iter().flatten().collect();
        let mut text = above.join(" · ");
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&self.to_string());
        for note in &self.notes {
            text.push_str(&format!("\n({}) {}", note.mark, note.text));
        }
        text
    }

    // The lines of a table of contents end in page numbers, which are in order.
    fn is_list_of_pages(&self) -> bool {
        let cells = || self.rows.iter().flat_map(|row| row.cells.iter().flatten());
        let pages: Option<Vec<u32>> = cells().map(|cell| cell.text.parse().ok()).collect();
        self.columns.len() == 1 && pages.is_some_and(|pages| pages.is_sorted())
    }

    // The footnotes below the last row that it refers to.
    fn read_notes(&mut self, page: &Page, last: usize) {
        let labels = self.rows.iter().map(|row| row.label.as_str());
        let heads = self.columns.iter().map(|column| column.head.as_str());
        let mut marks: BTreeSet<String> = labels
            .chain(heads)
            .flat_map(marks_in)
            .map(str::to_owned)
            .collect();
        let cells = self.rows.iter().flat_map(|row| row.cells.iter().flatten());
        marks.extend(cells.flat_map(|cell| cell.marks.iter().cloned()));
        let below = page.lines.get(last + 1..).unwrap_or_default().iter();
        let mut below = below
            .filter(|line| !line.is_furniture())
            .take(MAX_NOTE_LINES)
            .peekable();
        while let Some(line) = below.next() {
            let Some((mark, text)) = split_mark(&line.text) else {
                continue;
            };
            if !marks.remove(mark) {
                continue;
            }
            let mut text = text.to_owned();
            while !text.ends_with('.')
                && let Some(more) = below.next_if(|line| split_mark(&line.text).is_none())
            {
                text = format!("{text} {}", more.text);
            }
            self.notes.push(TableNote {
                mark: mark.to_owned(),
                text,
            });
        }
    }
}

// Marks of footnotes in a text, without parentheses: `Other (6)`.
fn marks_in(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.split('(').skip(1);
    ends.filter_map(|rest| {
        let (mark, _) = rest.split_once(')')?;
        is_mark(mark).then_some(mark)
    })
}

// A line that begins with a mark: `(1) Net of taxes.`
fn split_mark(text: &str) -> Option<(&str, &str)> {
    let (mark, text) = text.trim_start().strip_prefix('(')?.split_once(')')?;
    is_mark(mark).then_some((mark, text.trim()))
}

fn is_mark(mark: &str) -> bool {
    matches!(mark.len(), 1 | 2) && mark.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

impl GridTable {
    // What the lines around it say: title, unit and scale.
    fn read_surroundings(&mut self, lines: &TablePage<'_>, page: &Page) {
        let first = self.first.1;
        let above = (first.saturating_sub(MAX_LINES_ABOVE)..first)
            .rev()
            .filter(|at| page.lines.get(*at).is_some_and(|line| !line.is_furniture()))
            .take_while(|at| !lines.is_row(*at));
        let table = &mut self.table;
        if table.unit.is_none() {
            table.unit = above.clone().find_map(|at| unit_of(lines.text_of(at)));
        }
        if table.title.is_none() {
            let mut texts = above.map(|at| lines.text_of(at).trim());
            table.title = texts.find(|text| is_title(text)).map(str::to_owned);
        }
        table.scale = single_scale(&lines.scales_above(first));
    }

    // Whether it is the rest of a table with which the page before ends.
    fn continues(&self, above: &Self, pages: &[Page]) -> bool {
        let body = |page: usize, lines: Range<usize>| {
            let lines = pages.get(page).and_then(|page| page.lines.get(lines));
            let lines = lines.unwrap_or_default().iter();
            lines.filter(|line| !line.is_furniture()).count()
        };
        let lines_above = pages.get(above.last.0).map_or(0, |page| page.lines.len());
        !self.has_heads
            && above.has_heads
            && self.first.0 == above.last.0 + 1
            && self.table.columns.len() == above.table.columns.len()
            && body(self.first.0, 0..self.first.1) <= MAX_LINES_AT_EDGES
            && body(above.last.0, above.last.1 + 1..lines_above) <= MAX_LINES_AT_EDGES
    }

    fn append(&mut self, rest: Self) {
        self.last = rest.last;
        self.table.pages.1 = rest.table.pages.1;
        self.table.rows.extend(rest.table.rows);
    }

    fn finish(mut self, pages: &[Page]) -> FigureTable {
        if let Some(page) = pages.get(self.last.0) {
            self.table.read_notes(page, self.last.1);
        }
        self.table
    }
}

// Scales are powers of a thousand.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn single_scale(scales: &[f64]) -> Option<u64> {
    match scales {
        [scale] if *scale >= 1.0 => Some(*scale as u64),
        _ => None,
    }
}

/// Reads the tables of consecutive pages. `first` is the number of the first page.
pub fn tables_of_pages(first: u32, pages: &[Page]) -> Vec<FigureTable> {
    // In the order in which they are found; at the end in the order of their first lines.
    let mut tables: Vec<((usize, usize), FigureTable)> = Vec::new();
    let mut declared: Vec<GridTable> = grids(pages)
        .iter()
        .flat_map(|grid| grid.tables(first, pages))
        .collect();
    declared.sort_by_key(|table| table.first);
    let mut declared = declared.into_iter().peekable();
    let mut open: Option<GridTable> = None;
    let mut before: Option<TablePage<'_>> = None;
    for (index, page) in pages.iter().enumerate() {
        let number = first.saturating_add(u32::try_from(index).unwrap_or(u32::MAX));
        let mut lines = TablePage::new(SourceLines::Page(page), 0);
        if let Some(before) = &before {
            lines.continue_from(before);
        }
        for (at, rows) in row_groups(&lines, page).into_iter().enumerate() {
            let start = rows.first().copied().unwrap_or(0);
            let table = PageTable::new(&lines, page, number, &rows);
            match tables.last_mut() {
                Some((_, last)) if at == 0 && lines.is_continued() => table.append_to(last),
                _ => tables.extend(table.finish().map(|table| ((index, start), table))),
            }
        }
        while let Some(mut table) = declared.next_if(|table| table.first.0 <= index) {
            table.read_surroundings(&lines, page);
            if table.table.is_list_of_pages() {
                continue;
            }
            match &mut open {
                Some(above) if table.continues(above, pages) => above.append(table),
                _ => tables.extend(
                    open.replace(table)
                        .map(|table| (table.first, table.finish(pages))),
                ),
            }
        }
        before = Some(lines);
    }
    tables.extend(open.map(|table| (table.first, table.finish(pages))));
    tables.sort_by_key(|(place, _)| *place);
    let tables = tables.into_iter().zip(1..);
    tables
        .map(|((_, table), number)| FigureTable {
            id: format!("t{number}"),
            ..table
        })
        .collect()
}

// The rows of each table of a page.
fn row_groups(lines: &TablePage<'_>, page: &Page) -> Vec<Vec<usize>> {
    let is_body = |at: &usize| {
        let line = page.lines.get(*at);
        line.is_some_and(|line| !line.is_furniture() && line.grid.is_none())
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for row in lines.rows().filter(is_body) {
        let follows = groups
            .last()
            .and_then(|group| group.last())
            .is_some_and(|last| {
                let between = last + 1..row;
                between.len() <= MAX_LINES_BETWEEN_ROWS
                    && between.into_iter().all(|at| !lines.ends_table(at))
                    && !is_apart(page, row)
            });
        match groups.last_mut() {
            Some(group) if follows => group.push(row),
            _ => groups.push(vec![row]),
        }
    }
    groups.retain(|rows| {
        let numbers = rows
            .iter()
            .flat_map(|row| lines.cells(*row))
            .filter(|cell| cell.number.is_some());
        rows.len() >= MIN_ROWS && numbers.count() >= MIN_NUMBERS
    });
    groups
}

// Whether a line stands far below the one before, as the foot of a page does.
fn is_apart(page: &Page, at: usize) -> bool {
    let Some([above, line]) = at
        .checked_sub(1)
        .and_then(|above| page.lines.get(above..=at))
    else {
        return false;
    };
    line.rect.y0.points() - above.rect.y1.points() > MAX_GAP * line.rect.height()
}

// The part of a table that stands on one page.
struct PageTable {
    columns: Vec<PlacedColumn>,
    rows: Vec<TableRow>,
    title: Option<String>,
    unit: Option<String>,
    scale: Option<u64>,
    page: u32,
}

struct PlacedColumn {
    // Left edge of the widest cell, and the right edge of the digits: figures are aligned to it.
    left: f32,
    right: f32,
    head: String,
    period: StatedPeriod,
    cells: usize,
}

impl PageTable {
    fn new(lines: &TablePage<'_>, page: &Page, number: u32, rows: &[usize]) -> Self {
        let cells: Vec<Vec<Cell>> = rows.iter().map(|row| lines.cells(*row)).collect();
        let mut columns = placed_columns(page, &cells);
        let table_rows = rows.iter().zip(&cells).map(|(row, cells)| {
            let label = lines.row_label(*row);
            let mut own = label.own.clone();
            let mut placed: Vec<Option<TableCell>> = vec![None; columns.len()];
            for cell in cells {
                let rect = cell_rect(page, cell);
                let right = digits_end(page, cell).or(rect.map(|rect| rect.x1.points()));
                let is_left = right
                    .zip(columns.first())
                    .is_some_and(|(right, first)| right < first.left);
                if is_left {
                    own = format!("{own} {}", cell.text);
                    continue;
                }
                let nearest = nearest_column(&columns, right, cell.column);
                if let Some(place) = nearest.and_then(|at| placed.get_mut(at)) {
                    *place = Some(TableCell {
                        text: cell.text.clone(),
                        value: cell
                            .number
                            .as_ref()
                            .and_then(|number| number.signed_value())
                            .map(|value| value.to_string()),
                        rect: rect.map(|rect| shares_of_page(page, rect)),
                        bytes: None,
                        marks: Vec::new(),
                        facts: Vec::new(),
                    });
                }
            }
            TableRow {
                label: full_label(&own, &label.above),
                group: Some(label.group).filter(|group| !group.is_empty()),
                page: number,
                cells: placed,
            }
        });
        let rows_of_table = table_rows
            .filter(|row: &TableRow| row.cells.iter().any(Option::is_some))
            .collect();
        let first = rows.first().copied().unwrap_or(0);
        let above = (first.saturating_sub(MAX_LINES_ABOVE)..first)
            .rev()
            .filter(|at| page.lines.get(*at).is_some_and(|line| !line.is_furniture()));
        let heads: Vec<usize> = above
            .clone()
            .skip_while(|at| !lines.may_be_head(*at) && lines.is_label(*at))
            .take_while(|at| lines.may_be_head(*at) || unit_of(lines.text_of(*at)).is_some())
            .take(MAX_HEAD_LINES)
            .collect();
        let head_lines = heads.iter().rev().copied();
        let head_lines: Vec<usize> = head_lines
            .filter(|at| unit_of(lines.text_of(*at)).is_none())
            .collect();
        for row in head_lines.chunk_by(|one, two| are_side_by_side(page, *one, *two)) {
            let chunks = row.iter().flat_map(|at| lines.chunks_of(*at));
            add_heads(&mut columns, &chunks.collect::<Vec<_>>());
        }
        let top = heads.last().copied().unwrap_or(first);
        let unit = above.clone().find_map(|at| unit_of(lines.text_of(at)));
        let scales = cells
            .iter()
            .flatten()
            .next()
            .map(|cell| cell.scales.clone());
        Self {
            title: above
                .skip_while(|at| *at >= top)
                .take_while(|at| !lines.is_row(*at))
                .map(|at| lines.text_of(at).trim())
                .find(|text| is_title(text))
                .map(str::to_owned),
            unit,
            scale: scales.and_then(|scales| single_scale(&scales)),
            columns,
            rows: rows_of_table,
            page: number,
        }
    }

    fn finish(self) -> Option<FigureTable> {
        let table = FigureTable {
            id: String::new(),
            title: self.title,
            unit: self.unit,
            scale: self.scale,
            pages: (self.page, self.page),
            columns: self
                .columns
                .into_iter()
                .map(|column| TableColumn {
                    head: column.head,
                    period: (!column.period.is_empty()).then(|| column.period.to_string()),
                    unit: None,
                })
                .collect(),
            rows: self.rows,
            notes: Vec::new(),
        };
        (!table.columns.is_empty() && !table.is_list_of_pages()).then_some(table)
    }

    fn append_to(self, table: &mut FigureTable) {
        table.pages.1 = self.page;
        let width = table.columns.len();
        table.rows.extend(self.rows.into_iter().map(|mut row| {
            row.cells.resize(width, None);
            row
        }));
    }
}

// Whether two lines stand at one height: `Three Months Ended` and `Six Months Ended` may be lines of their own.
fn are_side_by_side(page: &Page, one: usize, two: usize) -> bool {
    let rect = |at: usize| page.lines.get(at).map(|line| line.rect);
    rect(one).zip(rect(two)).is_some_and(|(one, two)| {
        let step = (one.y1.points() - two.y1.points()).abs();
        let overlaps = one.x0 < two.x1 && two.x0 < one.x1;
        !overlaps && step < one.height().min(two.height()) / 2.0
    })
}

// One column for each right edge at which digits end. The row with the most cells says how many there are.
fn placed_columns(page: &Page, rows: &[Vec<Cell>]) -> Vec<PlacedColumn> {
    let mut columns: Vec<PlacedColumn> = Vec::new();
    let mut by_width: Vec<&Vec<Cell>> = rows.iter().collect();
    by_width.sort_by_key(|cells| std::cmp::Reverse(cells.len()));
    for cells in by_width {
        for cell in cells {
            let Some(rect) = cell_rect(page, cell) else {
                continue;
            };
            let left = rect.x0.points();
            let right = digits_end(page, cell).unwrap_or(rect.x1.points());
            // Dashes and short figures of a centered column end within a figure's width of the others.
            let tolerance = rect.height().max(1.0) * 1.2;
            let known = columns
                .iter_mut()
                .find(|column| (column.right - right).abs() <= tolerance);
            match known {
                Some(column) => {
                    column.left = column.left.min(left);
                    column.period = column.period.or(cell.period);
                    column.cells += 1;
                }
                None => columns.push(PlacedColumn {
                    left,
                    right,
                    head: String::new(),
                    period: cell.period,
                    cells: 1,
                }),
            }
        }
    }
    columns.sort_by(|one, two| one.right.total_cmp(&two.right));
    // `less allowance of $12 and $14`: a figure left of all others is the end of a label.
    let is_table = columns.iter().any(|column| column.cells >= MIN_NUMBERS);
    let labels = columns
        .iter()
        .take_while(|column| is_table && column.cells == 1);
    columns.drain(..labels.count());
    columns
}

// The right edge of the last word of a cell that has digits or is a dash: `%` and `)` hang over the edge of a column.
fn digits_end(page: &Page, cell: &Cell) -> Option<f32> {
    let line = page.lines.get(cell.line)?;
    let mut words = line.words.iter().filter(|word| {
        let at = word.start as usize..word.end as usize;
        let inside = at.start < cell.at.end && cell.at.start < at.end;
        inside
            && line
                .text
                .get(at)
                .is_some_and(|text| text.contains(|c: char| c.is_ascii_digit()))
    });
    words.next_back().map(|word| word.x1.points())
}

// Adds the words of a line of heads to the columns that they stand over. Fewer heads than columns are over several each.
fn add_heads(columns: &mut [PlacedColumn], chunks: &[(&str, (f32, f32))]) {
    let Some(first) = columns.first().map(|column| column.left) else {
        return;
    };
    let last = columns.last().map_or(first, |column| column.right);
    let over: Vec<&(&str, (f32, f32))> = chunks
        .iter()
        .filter(|(_, (_, right))| *right > first)
        .collect();
    // As far as half the share of a head reaches.
    let reach = (last - first) / (2.0 * over.len().max(1) as f32);
    for column in columns {
        let middle = f32::midpoint(column.left, column.right);
        let distance =
            |chunk: &(&str, (f32, f32))| (f32::midpoint(chunk.1.0, chunk.1.1) - middle).abs();
        let covering = over
            .iter()
            .find(|(_, (left, right))| *left < column.right && column.left < *right);
        let nearest = over
            .iter()
            .min_by(|one, two| distance(one).total_cmp(&distance(two)));
        let chunk = covering.or(nearest.filter(|chunk| distance(chunk) <= reach));
        if let Some((text, _)) = chunk {
            if !column.head.is_empty() {
                column.head.push(' ');
            }
            column.head.push_str(text);
        }
    }
}

fn nearest_column(columns: &[PlacedColumn], right: Option<f32>, order: usize) -> Option<usize> {
    let Some(right) = right else {
        return Some(order);
    };
    let distance = |at: &usize| (columns[*at].right - right).abs();
    (0..columns.len()).min_by(|one, two| distance(one).total_cmp(&distance(two)))
}

// The box of a cell on the page as it is read.
fn cell_rect(page: &Page, cell: &Cell) -> Option<Rect> {
    text_rect(page, cell.line, &cell.at)
}

/// The box of a part of a line on the page as it is read.
pub(crate) fn text_rect(page: &Page, line: usize, at: &Range<usize>) -> Option<Rect> {
    let line = page.lines.get(line)?;
    let mut inside = line
        .words
        .iter()
        .filter(|word| (word.start as usize) < at.end && at.start < word.end as usize);
    let first = inside.next()?;
    let last = inside.next_back().unwrap_or(first);
    Some(Rect {
        x0: first.x0,
        x1: last.x1,
        ..line.rect
    })
}

pub(crate) fn shares_of_page(page: &Page, rect: Rect) -> [f64; 4] {
    let (width, height) = page.displayed_size();
    let rect = page.displayed(rect);
    // Four digits are a tenth of a point.
    let share = |value: f32, size: f32| {
        (f64::from((value / size.max(1.0)).clamp(0.0, 1.0)) * 10_000.0).round() / 10_000.0
    };
    [
        share(rect.x0.points(), width.points()),
        share(rect.y0.points(), height.points()),
        share(rect.width(), width.points()),
        share(rect.height(), height.points()),
    ]
}

// A label that goes on from the line above: it has no words of its own, or begins in lower case.
pub(crate) fn full_label(own: &str, above: &[String]) -> String {
    let goes_on = own.is_empty() || own.starts_with(char::is_lowercase);
    match above.last() {
        Some(above) if goes_on && !above.ends_with(':') => {
            format!("{above} {own}").trim().to_owned()
        }
        _ => own.to_owned(),
    }
}

// `(in millions, except per share data)`, `Dollars in thousands`.
pub(crate) fn unit_of(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let names_unit = [
        "in millions",
        "in thousands",
        "in billions",
        "in dollars",
        "millions of",
        "thousands of",
    ]
    .iter()
    .any(|unit| lower.contains(unit));
    (names_unit && text.chars().count() <= MAX_TITLE_CHARS).then(|| {
        let inside = text.find('(').and_then(|open| {
            let close = text[open..].find(')')?;
            Some(&text[open..=open + close])
        });
        let with_unit = inside.filter(|part| {
            let lower = part.to_lowercase();
            lower.contains("million")
                || lower.contains("thousand")
                || lower.contains("billion")
                || lower.contains("dollar")
        });
        with_unit.unwrap_or(text).trim().to_owned()
    })
}

pub(crate) fn is_title(text: &str) -> bool {
    text.chars().any(char::is_alphabetic)
        && text.chars().count() <= MAX_TITLE_CHARS
        && !text.ends_with(['.', ':', ';', ','])
        && !text.starts_with('(')
        && unit_of(text).is_none_or(|unit| unit.len() < text.len())
}

impl fmt::Display for FigureTable {
    /// As Markdown.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |text: &str| text.replace('|', "\\|").replace(['\n', '\r'], " ");
        let heads = self.columns.iter().map(|column| escaped(&column.head));
        writeln!(formatter, "| | {} |", heads.collect::<Vec<_>>().join(" | "))?;
        writeln!(formatter, "|---|{}", "---:|".repeat(self.columns.len()))?;
        let mut group: Option<&String> = None;
        for row in &self.rows {
            if row.group.is_some() && row.group.as_ref() != group {
                let name = row.group.as_deref().unwrap_or_default();
                writeln!(
                    formatter,
                    "| **{}** |{}",
                    escaped(name),
                    " |".repeat(self.columns.len())
                )?;
            }
            group = row.group.as_ref();
            let cells = row.cells.iter().map(|cell| {
                cell.as_ref()
                    .map_or(String::new(), |cell| escaped(&cell.text))
            });
            writeln!(
                formatter,
                "| {} | {} |",
                escaped(&row.label),
                cells.collect::<Vec<_>>().join(" | ")
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::{Line, Page, Pt, Rect, Word};

    use super::*;

    // A page of monospaced lines: six points for each character, twelve for each line.
    fn page(text: &str) -> Page {
        let lines = text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty());
        let lines = lines.map(|(at, spaced)| {
            let mut line = Line::default();
            let mut from = 0;
            for word in spaced.split_whitespace() {
                let column = from + spaced[from..].find(word).unwrap();
                from = column + word.len();
                if !line.text.is_empty() {
                    line.text.push(' ');
                }
                let start = u32::try_from(line.text.len()).unwrap();
                line.text.push_str(word);
                let end = u32::try_from(line.text.len()).unwrap();
                let x = |column: usize| Pt::new(column as f32 * 6.0);
                line.words.push(Word {
                    start,
                    end,
                    x0: x(column),
                    x1: x(from),
                });
            }
            let top = at as f32 * 12.0;
            line.rect = Rect::new(0.0, top, from as f32 * 6.0, top + 10.0);
            line
        });
        Page {
            width: Pt::new(612.0),
            height: Pt::new(792.0),
            lines: lines.collect(),
            ..Page::default()
        }
    }

    fn texts(row: &TableRow) -> Vec<&str> {
        row.cells
            .iter()
            .map(|cell| cell.as_ref().map_or("", |cell| cell.text.as_str()))
            .collect()
    }

    const STATEMENT: &str = "\
The following discussion covers results of operations and should be read with the statements that follow it here.

                Consolidated Balance Sheets
                  (Dollars in millions)
                                          December 31,
                                        2023        2022
Current assets:
  Cash and equivalents               $ 1,749     $ 1,603
  Receivables, less allowance of
    $12 and $14                          820         (31)
Total assets                         $ 2,569       1,572

Page 12";

    #[test]
    fn a_statement_has_title_unit_periods_groups_and_exact_values() {
        let tables = tables_of_pages(12, &[page(STATEMENT)]);
        assert_eq!(tables.len(), 1, "{tables:?}");
        let table = &tables[0];
        assert_eq!(table.id, "t1");
        assert_eq!(table.title.as_deref(), Some("Consolidated Balance Sheets"));
        assert_eq!(table.unit.as_deref(), Some("(Dollars in millions)"));
        assert_eq!(table.scale, Some(1_000_000));
        assert_eq!(table.pages, (12, 12));
        let periods: Vec<&str> = table
            .columns
            .iter()
            .filter_map(|column| column.period.as_deref())
            .collect();
        assert_eq!(periods, ["2023", "2022"]);
        assert_eq!(table.rows[0].label, "Cash and equivalents");
        assert_eq!(table.rows[0].group.as_deref(), Some("Current assets:"));
        let receivables = table
            .rows
            .iter()
            .find(|row| texts(row).contains(&"820"))
            .unwrap();
        assert_eq!(texts(receivables), ["820", "(31)"]);
        assert_eq!(
            receivables.cells[1].as_ref().unwrap().value.as_deref(),
            Some("-31")
        );
    }

    #[test]
    fn a_cell_has_its_place_on_the_page() {
        let tables = tables_of_pages(1, &[page(STATEMENT)]);
        let [x, y, w, h] = tables[0].rows[0].cells[1].as_ref().unwrap().rect.unwrap();
        assert!(x > 0.4 && x + w < 0.6, "{x} {w}");
        assert!(y > 0.1 && h > 0.0, "{y} {h}");
    }

    #[test]
    fn a_table_goes_on_without_heads_on_the_next_page() {
        let next = "\
Total current liabilities                900         850
Long-term debt                           600         610
Total liabilities                      1,500       1,460";
        let tables = tables_of_pages(
            3,
            &[page(STATEMENT.trim_end_matches("Page 12")), page(next)],
        );
        assert_eq!(tables.len(), 1, "{tables:?}");
        assert_eq!(tables[0].pages, (3, 4));
        assert_eq!(texts(tables[0].rows.last().unwrap()), ["1,500", "1,460"]);
    }

    #[test]
    fn prose_and_single_figures_are_no_table() {
        let text = "\
Sales rose 4 percent to $1,749 million in 2023, and 3 percent in 2022, because more units were sold at higher prices.
We had 12 plants in 5 states.
Page 12";
        assert!(tables_of_pages(1, &[page(text)]).is_empty());
    }

    #[test]
    fn an_empty_cell_leaves_its_column_empty() {
        let text = "\
                                  2023     2022     2021
Goodwill                           500      400      300
Impairment                                   20
Total                              500      420      300";
        let tables = tables_of_pages(1, &[page(text)]);
        assert_eq!(texts(&tables[0].rows[1]), ["", "20", ""], "{tables:?}");
    }
}
