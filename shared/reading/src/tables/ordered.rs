//! Tables of lines without columns: the cells of a row have the periods of the heads above in their order, where both are as many.

use std::collections::BTreeSet;

use super::lines::{MAX_LINES_UP, TableLines};
use super::table::{Cell, FigureTable, Place, TableColumn, TableRow};
use crate::line_cells::without_breaks;
use crate::numbers::numbers;
use crate::period::{PeriodMention, StatedPeriod, head_period};
use crate::text_words::says;
use crate::vocabulary::COLUMN_WORDS;

// Lines that may be between the heads and the first row, such as `(unaudited)`, and lines of one head.
const MAX_HEAD_LINES: usize = 5;

/// The rows of page number `page` that are in no table with columns; `known` are the lines of those tables.
pub(super) fn ordered_tables(
    lines: &TableLines<'_>,
    page: usize,
    known: &BTreeSet<(usize, usize)>,
) -> Vec<FigureTable> {
    let mut tables: Vec<FigureTable> = Vec::new();
    let mut heads_above: Vec<usize> = Vec::new();
    for at in lines.rows().filter(|at| !known.contains(&(page, *at))) {
        let heads = head_lines(lines, at);
        let periods = column_periods(lines, at, &heads).into_iter();
        let columns = periods.map(|period| TableColumn {
            period,
            ..TableColumn::default()
        });
        let columns: Vec<TableColumn> = columns.collect();
        let row = ordered_row(lines, page, at);
        match tables.last_mut() {
            Some(table) if heads == heads_above && table.columns == columns => {
                table.rows.push(row);
            }
            _ => tables.push(FigureTable {
                pages: (row.page, row.page),
                columns,
                rows: vec![row],
                ..FigureTable::default()
            }),
        }
        heads_above = heads;
    }
    tables
}

fn ordered_row(lines: &TableLines<'_>, page: usize, at: usize) -> TableRow {
    let label = lines.row_label(at);
    let words = label.own.to_lowercase();
    let line = &lines.lines[at];
    let cells = line.cells.iter().map(|cell| {
        let text = line.text[cell.clone()].to_owned();
        let mut number = numbers(&without_breaks(&text)).into_iter().next();
        if let Some(number) = &mut number {
            number.read_as_cell(&words);
        }
        Some(Cell {
            number,
            places: vec![Place {
                page,
                line: at,
                at: cell.clone(),
            }],
            text,
            ..Cell::default()
        })
    });
    TableRow {
        cells: cells.collect(),
        page: u32::try_from(page + 1).unwrap_or(u32::MAX),
        group: Some(label.group).filter(|group| !group.is_empty()),
        label: label.own,
    }
}

// Indexes of the lines of the head above a row, the nearest first.
fn head_lines(lines: &TableLines<'_>, at: usize) -> Vec<usize> {
    let mut heads: Vec<usize> = Vec::new();
    let mut others = 0;
    let mut prose = 0;
    for up in (at.saturating_sub(MAX_LINES_UP)..at).rev() {
        let line = &lines.lines[up];
        let is_prose = !line.is_head && line.is_prose();
        prose = if is_prose { prose + 1 } else { 0 };
        // Two lines of prose end a table.
        if prose >= 2 || (!heads.is_empty() && (is_prose || lines.is_row(up))) {
            break;
        }
        if line.is_head {
            heads.push(up);
        } else if !heads.is_empty() {
            others += 1;
        }
        if heads.len() + others > MAX_HEAD_LINES {
            break;
        }
    }
    heads
}

// The period of each cell of a row; empty where it cannot be read. `heads` are the lines of the head, the nearest first.
fn column_periods(lines: &TableLines<'_>, at: usize, heads: &[usize]) -> Vec<StatedPeriod> {
    let count = lines.lines[at].cells.len();
    let nothing = vec![StatedPeriod::default(); count];
    let with_years = heads
        .iter()
        .position(|at| lines.lines[*at].years().next().is_some());
    let Some(nearest) = with_years else {
        return nothing;
    };
    let line = &lines.lines[heads[nearest]];
    let years: Vec<&PeriodMention> = line.years().collect();
    let lower = line.text.to_lowercase();
    let has_notes = lower
        .split_whitespace()
        .any(|word| matches!(word, "note" | "notes"));
    let skipped = match count.checked_sub(years.len()) {
        Some(0) => 0,
        Some(1) if has_notes => 1,
        Some(_) if says(line.text, &COLUMN_WORDS) => 0,
        _ => return nothing,
    };
    let periods = (0..count).map(|cell| {
        let index = cell.checked_sub(skipped)?;
        let parts = heads[nearest + 1..]
            .iter()
            .map(|above| part_over(lines, *above, (index, years.len())));
        Some(parts.fold(years.get(index)?.period, StatedPeriod::or))
    });
    periods.map(Option::unwrap_or_default).collect()
}

// What a line of the head says about year number `index` of `count` in a line below.
fn part_over(lines: &TableLines<'_>, above: usize, (index, count): (usize, usize)) -> StatedPeriod {
    let line = &lines.lines[above];
    let parts = &line.periods;
    match parts.len() {
        _ if line.years().next().is_some() => StatedPeriod::default(),
        0 | 1 => head_period(line.text),
        parts_count if count.is_multiple_of(parts_count) => {
            parts[index / (count / parts_count)].period
        }
        _ => StatedPeriod::default(),
    }
}
