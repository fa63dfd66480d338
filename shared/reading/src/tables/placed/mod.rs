//! Tables of pages without declared cells: the positions of words give them rows and columns, and the rest is that of declared
//! tables.
//!
//! `line_cells` tells the cells of a line apart, `rows` finds the rows of each table, `heads` finds the columns under each head, and
//! this module makes a grid of them.

mod heads;
mod line_cells;
mod rows;

use std::collections::BTreeMap;

use stemma_document::Page;

use crate::numbers::{CellBorders, have_spaces};
use crate::tables::grid::{CellKind, Columns, Grid, GridRow, Place, RowCell, with_signs};
use crate::tables::page::TablePage;
use crate::tables::placement::text_rect;

use self::heads::{Extent, HeadLine, pitch, place_heads, unit_line};
use self::line_cells::{LineCell, USUAL_SPACE, line_cells, loose_parts, space_of};
use self::rows::{Region, are_side_by_side, regions};

// Parts of a point in which columns are counted while they are looked for.
const UNITS_PER_POINT: f32 = 16.0;
// Lines of one label are closer than rows by this share at least, and never farther apart than this many line heights.
const TIGHT: f32 = 0.93;
const MAX_LINE_PITCH: f32 = 1.3;
const MIN_LINE_PITCH: f32 = 0.8;
// Labels in as many rows say where labels are.
const MIN_LABELS: usize = 2;

/// The tables of page number `index`, from the top.
pub(crate) fn placed_grids(lines: &TablePage<'_>, page: &Page, index: usize) -> Vec<Grid> {
    let space = space_of(page);
    let reader = PageReader { page, index, space };
    let regions = regions(lines, page, space);
    regions.iter().map(|region| reader.grid(region)).collect()
}

struct PageReader<'a> {
    page: &'a Page,
    index: usize,
    space: f32,
}

// Lines at one height, or of one label.
struct PlacedRow {
    line: usize,
    cells: Vec<RowCell>,
    is_body: bool,
}

impl PageReader<'_> {
    fn grid(&self, region: &Region) -> Grid {
        let first = region.rows.first().copied().unwrap_or(0);
        let lines: Vec<Vec<RowCell>> = region
            .lines
            .iter()
            .map(|at| {
                let cells = line_cells(self.page, *at, self.space);
                cells.iter().map(|cell| self.row_cell(cell)).collect()
            })
            .collect();
        // Fonts whose characters have one width have wide spaces.
        let borders = match self.space < USUAL_SPACE + USUAL_SPACE {
            true => CellBorders::Gaps,
            false => CellBorders::Monospaced,
        };
        let texts = lines.iter().flatten().map(|cell| cell.text.as_str());
        let has_spaces = have_spaces(texts, borders);
        let mut rows: Vec<PlacedRow> = Vec::new();
        for (at, cells) in region.lines.iter().zip(lines) {
            let cells = with_signs(cells.into_iter(), has_spaces);
            let is_body = region.rows.contains(at);
            match rows.last_mut() {
                Some(above) if are_side_by_side(self.page, above.line, *at) => {
                    above.cells.extend(cells);
                    above.cells.sort_by_key(|cell| cell.columns.start);
                    above.is_body |= is_body;
                }
                _ => rows.push(PlacedRow {
                    line: *at,
                    cells,
                    is_body,
                }),
            }
        }
        unify_labels(&mut rows);
        let heads = rows.iter().take_while(|row| row.line < first);
        let heads: Vec<&RowCell> = heads.flat_map(|row| &row.cells).collect();
        let bodies = rows.iter().filter(|row| row.is_body);
        let columns = Columns::new(bodies.map(|row| row.cells.as_slice()), &heads);
        if columns.is_empty() {
            return Grid::new(Vec::new(), has_spaces);
        }
        let mut extents = self.extents(&columns, &rows);
        let labels_right = self.labels_right(&rows, &columns);
        let left = extents.first().map_or(0.0, |first| first.0);
        let is_stub = |cell: &RowCell| {
            let extent = self.extent(cell);
            extent.is_none_or(|extent| extent.1 <= left && extent.0 < labels_right)
        };
        // Labels between the heads and the first row are groups.
        let above = rows.iter().take_while(|row| row.line < first);
        let above: Vec<bool> = above.map(|row| row.cells.iter().all(is_stub)).collect();
        let head_count = above.iter().rposition(|is_label| !is_label);
        let body = rows.split_off(head_count.map_or(0, |last| last + 1));
        let mut placed = self.head_rows(&rows, is_stub, &mut extents);
        placed.extend(self.body_rows(body, &columns));
        Grid::new(placed, has_spaces)
    }

    fn row_cell(&self, cell: &LineCell) -> RowCell {
        let line = self.page.lines.get(cell.line);
        let text = line.and_then(|line| line.text.get(cell.at.clone()));
        let place = Place {
            page: self.index,
            line: cell.line,
            start: cell.at.start,
            end: cell.at.end,
        };
        // Wider pages than 4,096 points have one column at their right edge.
        let unit = |x: f32| ((x * UNITS_PER_POINT).round() as u16).min(u16::MAX - 1);
        let columns = unit(cell.x.0)..unit(cell.x.1).max(unit(cell.x.0) + 1);
        RowCell::new(text.unwrap_or_default().trim(), columns, place)
    }

    // Where a cell has text, with its signs.
    fn extent(&self, cell: &RowCell) -> Option<Extent> {
        let place = cell.places.first()?;
        let rect = text_rect(self.page, place.line, &(place.start..place.end))?;
        Some((rect.x0.points(), rect.x1.points()))
    }

    fn extents(&self, columns: &Columns, rows: &[PlacedRow]) -> Vec<Extent> {
        let mut extents: Vec<Option<Extent>> = vec![None; columns.len()];
        let bodies = rows.iter().filter(|row| row.is_body);
        for (at, cell) in bodies.flat_map(|row| row.cells.iter().enumerate()) {
            let is_label = at == 0 && columns.is_label(cell);
            let column = columns.find(cell).filter(|_| !is_label);
            let Some((column, own)) = column.zip(self.extent(cell)) else {
                continue;
            };
            // A text over several columns says nothing about one.
            if cell.kind == CellKind::Text && columns.overlapped(cell).len() > 1 {
                continue;
            }
            extents[column] = Some(match extents[column] {
                Some(known) => (known.0.min(own.0), known.1.max(own.1)),
                None => own,
            });
        }
        let at = |column: usize| {
            let range = columns.range(column);
            (
                f32::from(range.start) / UNITS_PER_POINT,
                f32::from(range.end) / UNITS_PER_POINT,
            )
        };
        let known = extents.into_iter().enumerate();
        known
            .map(|(column, extent)| extent.unwrap_or_else(|| at(column)))
            .collect()
    }

    // Where the longest label of a row ends.
    fn labels_right(&self, rows: &[PlacedRow], columns: &Columns) -> f32 {
        let bodies = rows.iter().filter(|row| row.is_body);
        let labels = bodies.filter_map(|row| {
            let label = row.cells.first().filter(|cell| columns.is_label(cell))?;
            Some(self.extent(label)?.1)
        });
        labels.fold(0.0, f32::max)
    }

    // The rows of heads. Text left of the columns is a stub.
    fn head_rows(
        &self,
        rows: &[PlacedRow],
        is_stub: impl Fn(&RowCell) -> bool,
        extents: &mut [Extent],
    ) -> Vec<GridRow> {
        let mut stubs: Vec<(f32, GridRow)> = Vec::new();
        let mut lines: Vec<Vec<HeadLine>> = Vec::new();
        for row in rows {
            let Some(rect) = self.page.lines.get(row.line).map(|line| line.rect) else {
                continue;
            };
            let mut line: Vec<HeadLine> = Vec::new();
            let mut labels: Vec<RowCell> = Vec::new();
            for cell in &row.cells {
                match self.extent(cell) {
                    Some(extent) if !is_stub(cell) => {
                        let parts = self.head_parts(cell, extent, extents).into_iter();
                        line.extend(parts.map(|(cell, x)| HeadLine {
                            cell,
                            x,
                            bottom: rect.y1.points(),
                            height: rect.height(),
                        }));
                    }
                    _ => labels.push(cell.clone()),
                }
            }
            lines.push(line);
            let stub = merged(labels, 1).map(|label| GridRow {
                at: (self.index, row.line),
                cells: vec![label],
            });
            stubs.extend(stub.map(|stub| (rect.y1.points(), stub)));
        }
        let mut placed = stubs;
        let unit = unit_line(&lines, extents).map(|at| lines.remove(at).remove(0));
        if let Some(unit) = unit {
            let mut cell = unit.cell;
            cell.set_columns(1..column_number(extents.len()));
            let at = (
                self.index,
                cell.places.first().map_or(0, |place| place.line),
            );
            placed.push((
                unit.bottom,
                GridRow {
                    at,
                    cells: vec![cell],
                },
            ));
        }
        for head in place_heads(lines, extents) {
            let columns = head.columns();
            let mut cell = head.cell;
            let line = cell.places.last().map_or(0, |place| place.line);
            cell.set_columns(column_number(*columns.start())..column_number(*columns.end()) + 1);
            let known = placed
                .iter_mut()
                .find(|(bottom, _)| (*bottom - head.bottom).abs() < 1.0);
            match known {
                Some((_, row)) => row.cells.push(cell),
                None => placed.push((
                    head.bottom,
                    GridRow {
                        at: (self.index, line),
                        cells: vec![cell],
                    },
                )),
            }
        }
        placed.sort_by(|one, two| one.0.total_cmp(&two.0));
        let mut rows: Vec<GridRow> = placed.into_iter().map(|(_, row)| row).collect();
        for row in &mut rows {
            row.cells.sort_by_key(|cell| cell.columns.start);
        }
        rows
    }

    // Heads of neighboring columns may be hardly apart.
    fn head_parts(
        &self,
        cell: &RowCell,
        extent: Extent,
        columns: &[Extent],
    ) -> Vec<(RowCell, Extent)> {
        let whole = || vec![(cell.clone(), extent)];
        let Some(place) = cell.places.first().filter(|_| cell.places.len() == 1) else {
            return whole();
        };
        let line_cell = LineCell {
            line: place.line,
            at: place.start..place.end,
            x: extent,
        };
        let mut parts: Vec<(LineCell, usize)> = Vec::new();
        for part in loose_parts(self.page, &line_cell, self.space) {
            let middle = f32::midpoint(part.x.0, part.x.1);
            let distance =
                |at: &usize| (f32::midpoint(columns[*at].0, columns[*at].1) - middle).abs();
            let column = (0..columns.len())
                .min_by(|one, two| distance(one).total_cmp(&distance(two)))
                .unwrap_or(0);
            match parts.last_mut() {
                Some((last, of)) if *of == column => {
                    last.at.end = part.at.end;
                    last.x.1 = part.x.1;
                }
                _ => parts.push((part, column)),
            }
        }
        if parts.len() < 2 {
            return whole();
        }
        parts
            .into_iter()
            .map(|(part, _)| (self.row_cell(&part), part.x))
            .collect()
    }

    fn body_rows(&self, rows: Vec<PlacedRow>, columns: &Columns) -> Vec<GridRow> {
        let links = self.links(&rows);
        let mut placed: Vec<GridRow> = Vec::new();
        let mut is_open = false;
        for (row, is_linked) in rows.into_iter().zip(links) {
            let cells = snapped(row.cells, columns);
            match placed.last_mut() {
                Some(above) if is_linked && is_open => join(above, cells),
                _ => placed.push(GridRow {
                    at: (self.index, row.line),
                    cells,
                }),
            }
            is_open = true;
        }
        placed
    }

    // Whether each row goes on the one above: lines of one label are closer than rows, and its first word had no room above.
    fn links(&self, rows: &[PlacedRow]) -> Vec<bool> {
        let line = |row: &PlacedRow| self.page.lines.get(row.line);
        let pitch_of = |pair: &[PlacedRow]| {
            let edges = |row| line(row).map(|line| (line.rect.y1.points(), line.rect.height()));
            let pitch = pitch(edges(&pair[0])?, edges(&pair[1])?);
            (pitch > MIN_LINE_PITCH).then_some(pitch)
        };
        let least = |pitches: &mut dyn Iterator<Item = f32>| pitches.fold(f32::INFINITY, f32::min);
        let least_of_rows = least(
            &mut rows
                .windows(2)
                .filter(|pair| pair[0].is_body && pair[1].is_body)
                .filter_map(pitch_of),
        );
        let least_of_all = least(&mut rows.windows(2).filter_map(pitch_of));
        let limit = MAX_LINE_PITCH
            .min(TIGHT * least_of_rows)
            .min(least_of_all / TIGHT);
        let labels = rows.iter().filter_map(|row| {
            let label = row
                .cells
                .first()
                .filter(|_| row.cells.len() > 1 || !row.is_body)?;
            self.extent(label)
        });
        let ends: Vec<f32> = labels.map(|extent| extent.1).collect();
        let mut links = vec![false; rows.len()];
        let mut has_body = rows.first().is_some_and(|row| row.is_body);
        for (at, pair) in rows.windows(2).enumerate() {
            let is_tight = pitch_of(pair).is_some_and(|pitch| pitch <= limit);
            let is_link =
                is_tight && !(has_body && pair[1].is_body) && self.is_wrapped(pair, &ends);
            links[at + 1] = is_link;
            has_body = pair[1].is_body || has_body && is_link;
        }
        links
    }

    // Whether the first word of a label had no room behind the label above. `ends` are the right edges of all labels.
    fn is_wrapped(&self, pair: &[PlacedRow], ends: &[f32]) -> bool {
        let Some(above) = pair[0].cells.first().and_then(|cell| self.extent(cell)) else {
            return false;
        };
        let first = pair[1].cells.first().and_then(|cell| cell.places.first());
        let line = self.page.lines.get(pair[1].line);
        let word = first.zip(line).and_then(|(place, line)| {
            let mut words = line.words.iter();
            words.find(|word| word.start as usize >= place.start)
        });
        let word = word.map_or(0.0, |word| word.x1.points() - word.x0.points());
        let right = ends.iter().copied().fold(above.1, f32::max);
        above.1 + word > right
    }
}

// A figure below the labels of other rows is the beginning of a label: `2024 and 2023, respectively`.
fn unify_labels(rows: &mut [PlacedRow]) {
    let labels: Vec<std::ops::Range<u16>> = rows
        .iter()
        .filter(|row| row.is_body && row.cells.len() > 1)
        .filter_map(|row| row.cells.first())
        .filter(|cell| cell.kind == CellKind::Text)
        .map(|cell| cell.columns.clone())
        .collect();
    for row in rows.iter_mut().filter(|row| row.cells.len() > 1) {
        let Some(first) = row.cells.first_mut() else {
            continue;
        };
        let own = first.columns.clone();
        let below = labels
            .iter()
            .filter(|label| label.start < own.end && own.start < label.end);
        if below.count() >= MIN_LABELS {
            first.kind = CellKind::Text;
        }
    }
}

fn column_number(column: usize) -> u16 {
    u16::try_from(column + 1).unwrap_or(u16::MAX - 1)
}

// The cells of a row with their column numbers. Column 0 has the labels.
fn snapped(cells: Vec<RowCell>, columns: &Columns) -> Vec<RowCell> {
    let mut labels: Vec<RowCell> = Vec::new();
    let mut values: Vec<RowCell> = Vec::new();
    let mut by_column: BTreeMap<u16, usize> = BTreeMap::new();
    for (at, mut cell) in cells.into_iter().enumerate() {
        let over = columns.overlapped(&cell);
        let is_label = at == 0 && columns.is_label(&cell);
        if over.is_empty() || is_label {
            let end = over.last().map_or(1, |last| column_number(*last) + 1);
            cell.set_columns(0..end);
            labels.push(cell);
            continue;
        }
        let column = columns.find(&cell).unwrap_or(over[0]);
        cell.set_columns(column_number(column)..column_number(column) + 1);
        match by_column.get(&column_number(column)) {
            Some(known) => values[*known].join(&cell),
            None => {
                by_column.insert(column_number(column), values.len());
                values.push(cell);
            }
        }
    }
    let end = labels.first().map_or(1, |label| label.columns.end);
    let mut all: Vec<RowCell> = merged(labels, end).into_iter().collect();
    all.extend(values);
    all
}

// Several parts of a label as one that ends before column `end`.
fn merged(labels: Vec<RowCell>, end: u16) -> Option<RowCell> {
    let mut labels = labels.into_iter();
    let mut first = labels.next()?;
    for label in labels {
        first.append(&format!(" {}", label.text), &label);
    }
    first.set_columns(0..end);
    Some(first)
}

// Adds a line to the row that it goes on.
fn join(row: &mut GridRow, cells: Vec<RowCell>) {
    for cell in cells {
        let same = row
            .cells
            .iter_mut()
            .find(|known| known.columns.start == cell.columns.start);
        match same {
            Some(known) => known.join(&cell),
            None => row.cells.push(cell),
        }
    }
    row.cells.sort_by_key(|cell| cell.columns.start);
}

#[cfg(test)]
mod tests;
