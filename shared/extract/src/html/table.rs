//! Tables: a row becomes a line whose words are in their columns.

use stemma_document::{GridCell, GridLine};

use super::line::{CELL_GAP, TextLine};
use super::unread::Unread;

// More columns than any statement has; further cells share the last one.
const MAX_COLUMNS: usize = 400;
// Cells with more lines hold text of their own and are read one after the other, not side by side.
const MAX_LINES_OF_ROW: usize = 8;
// Share of a table that the text of one column may claim.
const MAX_COLUMN_SHARE: f32 = 0.6;
// Points between the text of a cell and its border.
const PADDING: f32 = 2.0;

/// What a block of HTML consists of, in reading order.
#[derive(Debug)]
pub(super) enum Flow<'a> {
    Line(TextLine<'a>),
    /// With what was not read before it.
    PageBreak(Unread),
}

/// A table under construction.
#[derive(Debug, Default)]
pub(super) struct Table<'a> {
    number: u32,
    rows: Vec<Vec<Cell<'a>>>,
    cell: Option<Cell<'a>>,
    next_column: usize,
    // Stated widths of columns, as shares of the table.
    shares: Vec<f32>,
    // Rows for which a cell above still takes the column.
    taken: Vec<u32>,
    share: Option<f32>,
    is_centered: bool,
    left: f32,
}

#[derive(Debug)]
struct Cell<'a> {
    column: usize,
    span: usize,
    rows: u32,
    is_low: bool,
    flow: Vec<Flow<'a>>,
}

impl Cell<'_> {
    /// What it covers, without a place. Columns are at most `MAX_COLUMNS`.
    fn shape(&self) -> GridCell {
        let short = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        GridCell {
            column: short(self.column),
            columns: short(self.span),
            rows: u16::try_from(self.rows).unwrap_or(u16::MAX),
            ..GridCell::default()
        }
    }
}

/// How a cell is written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CellShape {
    pub(super) columns: usize,
    pub(super) rows: u32,
    pub(super) share: Option<f32>,
    pub(super) is_low: bool,
}

impl<'a> Table<'a> {
    /// Table `number` of the file with a width, as a share of its surroundings, and an indentation.
    pub(super) fn new(number: u32, share: Option<f32>, is_centered: bool, left: f32) -> Self {
        Self {
            number,
            share,
            is_centered,
            left,
            ..Self::default()
        }
    }

    pub(super) fn start_row(&mut self) {
        self.end_cell();
        self.rows.push(Vec::new());
        self.next_column = 0;
        for rows in &mut self.taken {
            *rows = rows.saturating_sub(1);
        }
        while self.taken.last() == Some(&0) {
            self.taken.pop();
        }
    }

    pub(super) fn start_cell(&mut self, shape: CellShape) {
        self.end_cell();
        if self.rows.is_empty() {
            self.start_row();
        }
        while self
            .taken
            .get(self.next_column)
            .is_some_and(|rows| *rows > 0)
        {
            self.next_column += 1;
        }
        let column = self.next_column.min(MAX_COLUMNS - 1);
        let span = shape.columns.clamp(1, MAX_COLUMNS - column);
        self.next_column = column + span;
        if shape.rows > 1 {
            self.taken.resize(self.taken.len().max(column + span), 0);
            self.taken[column..column + span].fill(shape.rows);
        }
        if let Some(share) = shape.share.filter(|share| span == 1 && *share > 0.0) {
            self.shares.resize(self.shares.len().max(column + 1), 0.0);
            if self.shares[column] == 0.0 {
                self.shares[column] = share;
            }
        }
        self.cell = Some(Cell {
            column,
            span,
            rows: shape.rows,
            is_low: shape.is_low,
            flow: Vec::new(),
        });
    }

    /// Empty cells leave nothing behind, so a table of a million of them takes no memory.
    pub(super) fn end_cell(&mut self) {
        if let Some(cell) = self.cell.take().filter(|cell| !cell.flow.is_empty())
            && let Some(row) = self.rows.last_mut()
        {
            row.push(cell);
        }
    }

    /// Whether a cell is open that takes text.
    pub(super) fn has_cell(&self) -> bool {
        self.cell.is_some()
    }

    pub(super) fn push(&mut self, flow: Flow<'a>) {
        if let Some(cell) = &mut self.cell {
            cell.flow.push(flow);
        }
    }

    /// The lines of the table in a box of a width.
    pub(super) fn into_flow(mut self, outer_width: f32) -> Vec<Flow<'a>> {
        self.end_cell();
        let share = self.share.filter(|share| *share > 0.05);
        let room = (outer_width - self.left).max(outer_width / 4.0);
        let width = room * share.unwrap_or(1.0);
        let edges = self.column_edges(width, share.is_some());
        let used = edges.last().copied().unwrap_or(width).min(room);
        let left = if self.is_centered {
            self.left + (room - used) / 2.0
        } else {
            self.left
        };
        let mut flow = Vec::new();
        // A table of single cells lays out text.
        let is_grid = self.rows.iter().any(|row| row.len() > 1);
        for (index, row) in (0..).zip(self.rows) {
            let grid = is_grid.then(|| GridLine {
                table: self.number,
                row: index,
                cells: Vec::new(),
            });
            if reads_side_by_side(&row) {
                row_lines(row, &edges, left, grid.as_ref(), &mut flow);
            } else if let ([cell], Some(grid)) = (row.as_slice(), grid)
                && cell.flow.len() <= MAX_LINES_OF_ROW
            {
                flow.extend(row.into_iter().flat_map(|cell| cell_lines(cell, &grid)));
            } else {
                flow.extend(row.into_iter().flat_map(|cell| cell.flow));
            }
        }
        flow
    }

    /// The left edge of each column, and the right edge of the last.
    // As browsers do: stated widths first, the rest by the width of the text.
    fn column_edges(&self, width: f32, fills: bool) -> Vec<f32> {
        let cells = || self.rows.iter().flatten();
        let columns = cells()
            .map(|cell| cell.column + cell.span)
            .max()
            .unwrap_or(0);
        let most = width * MAX_COLUMN_SHARE;
        let text_width = |cell: &Cell<'_>| {
            let lines = cell.flow.iter().filter_map(|flow| match flow {
                Flow::Line(line) => Some(line.width() + (CELL_GAP + 0.1) * line.size() + PADDING),
                Flow::PageBreak(_) => None,
            });
            lines.fold(0.0, f32::max).min(most * cell.span as f32)
        };
        let mut natural = vec![0.0_f32; columns];
        for cell in cells().filter(|cell| cell.span == 1) {
            natural[cell.column] = natural[cell.column].max(text_width(cell));
        }
        for cell in cells().filter(|cell| cell.span > 1) {
            let own = &mut natural[cell.column..cell.column + cell.span];
            let lacking = text_width(cell) - own.iter().sum::<f32>();
            if lacking > 0.0 {
                let each = lacking / own.len() as f32;
                own.iter_mut().for_each(|column| *column += each);
            }
        }
        let stated = |column: usize| self.shares.get(column).copied().unwrap_or_default();
        let all_stated: f32 = (0..columns).map(stated).sum();
        let scale = if all_stated > 1.0 {
            1.0 / all_stated
        } else {
            1.0
        };
        let free: f32 = (0..columns)
            .filter(|column| stated(*column) == 0.0)
            .map(|column| natural[column])
            .sum();
        let rest = width * (1.0 - all_stated * scale).max(0.0);
        let stretch = if free > rest || fills || all_stated > 0.0 {
            rest / free.max(1.0)
        } else {
            1.0
        };
        let mut edges = Vec::with_capacity(columns + 1);
        let mut x = 0.0;
        edges.push(x);
        for (column, natural) in natural.iter().enumerate() {
            x += match stated(column) {
                0.0 => natural * stretch,
                share => share * scale * width,
            };
            edges.push(x);
        }
        edges
    }
}

fn reads_side_by_side(row: &[Cell<'_>]) -> bool {
    row.len() > 1
        && row.iter().all(|cell| {
            cell.flow.len() <= MAX_LINES_OF_ROW
                && cell.flow.iter().all(|flow| matches!(flow, Flow::Line(_)))
        })
        || row.len() == 1 && matches!(row[0].flow.as_slice(), [Flow::Line(_)])
}

/// Lines of a row: the n-th lines of its cells are side by side.
fn row_lines<'a>(
    row: Vec<Cell<'a>>,
    edges: &[f32],
    left: f32,
    grid: Option<&GridLine>,
    flow: &mut Vec<Flow<'a>>,
) {
    let height = row.iter().map(|cell| cell.flow.len()).max().unwrap_or(0);
    let is_single = row.len() == 1;
    let mut lines: Vec<TextLine<'a>> = (0..height)
        .map(|_| TextLine::row(left, grid.cloned()))
        .collect();
    for cell in row {
        let first = if cell.is_low {
            height - cell.flow.len()
        } else {
            0
        };
        let x0 = edges.get(cell.column).copied().unwrap_or_default() + PADDING;
        let x1 = edges.get(cell.column + cell.span).copied().unwrap_or(x0);
        let shape = cell.shape();
        for (line, item) in lines.iter_mut().skip(first).zip(cell.flow) {
            if let Flow::Line(mut text) = item {
                let glue = closes_number(&line.text, &text.text);
                let inner = text.grid.take();
                let bytes = text.bytes;
                let at = line.append_cell(text, x0, (x1 - x0 - PADDING).max(1.0), glue);
                if inner.is_some() && is_single {
                    line.grid = inner;
                } else if let Some(grid) = &mut line.grid {
                    grid.cells.push(GridCell {
                        start: at.start,
                        end: at.end,
                        bytes,
                        ..shape
                    });
                }
            }
        }
    }
    flow.extend(
        lines
            .into_iter()
            .filter(|line| !line.is_empty())
            .map(Flow::Line),
    );
}

/// The lines of the only cell of a row, which are where its text is. Those of a table in it keep their cells.
fn cell_lines<'a>(cell: Cell<'a>, grid: &GridLine) -> Vec<Flow<'a>> {
    let shape = cell.shape();
    let lines = cell.flow.into_iter().map(|item| match item {
        Flow::Line(mut line) if line.grid.is_none() => {
            line.grid = Some(Box::new(GridLine {
                cells: vec![GridCell {
                    end: u32::try_from(line.text.len()).unwrap_or(u32::MAX),
                    bytes: line.bytes,
                    ..shape
                }],
                ..*grid
            }));
            Flow::Line(line)
        }
        other => other,
    });
    lines.collect()
}

/// Filers put the `)` of `(1,234)` and the `%` of `5.6%` into cells of their own.
fn closes_number(before: &str, cell: &str) -> bool {
    before.ends_with(|c: char| c.is_ascii_digit() || matches!(c, ')' | '—' | '–' | '-'))
        && matches!(cell, ")" | "%" | ")%" | "%)" | ") %")
}
