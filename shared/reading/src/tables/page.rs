//! The lines of a page with the cells of its tables that are on them: what claims are checked on.
//!
//! A figure has the row, the column and the period that its table gives it. What cannot be read for certain is left empty, and a
//! claim that needs it is not verified.

use std::collections::{BTreeMap, BTreeSet};

use stemma_document::Page;

use super::document::page_tables;
use super::lines::TableLines;
pub use super::lines::{RowLabel, SourceLines};
use super::ordered::ordered_tables;
use super::table::{Cell, FigureTable, Place, TableColumn, TableRow};
use crate::numbers::NumberMention;
use crate::period::{StatedPeriod, head_period};

/// The lines of a page, or of a text without pages, and the rows of its tables.
pub struct TablePage<'a> {
    lines: TableLines<'a>,
    rows: Vec<PageRow>,
    // The row that a line with figures is of.
    row_at: BTreeMap<usize, usize>,
    is_continued: bool,
}

struct PageRow {
    label: String,
    cells: Vec<CellReading>,
}

/// A cell with what its table says about it.
#[derive(Debug, Clone)]
pub struct CellReading {
    /// Index of its first line.
    pub line: usize,
    pub column: usize,
    /// As printed, with its sign and unit.
    pub text: String,
    /// The number; `None` for a dash.
    pub number: Option<NumberMention>,
    /// The label of its row; in a table of years by row the head of its column.
    pub label: String,
    pub period: StatedPeriod,
    /// Words above the cell, from the top.
    pub head: String,
    /// Scales that may apply, from the nearest declaration.
    pub scales: Vec<f64>,
    places: Vec<Place>,
}

impl CellReading {
    /// Whether it is in bytes `start..end` of a line.
    pub fn overlaps(&self, line: usize, start: usize, end: usize) -> bool {
        let mut places = self.places.iter().filter(|place| place.line == line);
        places.any(|place| place.at.start < end && start < place.at.end)
    }
}

impl<'a> TablePage<'a> {
    /// Reads consecutive pages, over which tables go on, or texts without pages. `year_shift` leads from the year of a date in January
    /// or February to the name of its fiscal year.
    pub fn read(sources: &[SourceLines<'a>], year_shift: i32) -> Vec<Self> {
        let mut read: Vec<Self> = sources
            .iter()
            .map(|lines| Self {
                lines: TableLines::new(*lines),
                rows: Vec::new(),
                row_at: BTreeMap::new(),
                is_continued: false,
            })
            .collect();
        let pages = sources.iter().map(|lines| match lines {
            SourceLines::Page(page) => Some(*page),
            SourceLines::Text(_) => None,
        });
        let pages: Option<Vec<&Page>> = pages.collect();
        let mut tables = page_tables(1, &pages.unwrap_or_default(), &|| false);
        let rows = tables.iter().flat_map(|table| &table.rows);
        let known: BTreeSet<(usize, usize)> = rows
            .flat_map(|row| row.cells.iter().flatten())
            .flat_map(|cell| &cell.places)
            .map(|place| (place.page, place.line))
            .collect();
        for (at, page) in read.iter().enumerate() {
            tables.extend(ordered_tables(&page.lines, at, &known));
        }
        for table in &tables {
            Self::add_table(&mut read, table, year_shift);
        }
        read
    }

    fn add_table(read: &mut [Self], table: &FigureTable, year_shift: i32) {
        let mut first: Option<(usize, usize)> = None;
        for row in &table.rows {
            let places = || row.cells.iter().flatten().flat_map(|cell| &cell.places);
            let Some(place) = places().next() else {
                continue;
            };
            let (first_page, first_line) = *first.get_or_insert((place.page, place.line));
            let declared = [(place.page, place.line), (first_page, first_line)];
            let scales = declared
                .iter()
                .map(|(page, line)| {
                    read.get(*page)
                        .map_or(&[][..], |page| page.lines.scales_above(*line))
                })
                .find(|scales| !scales.is_empty());
            let scales = scales.unwrap_or_default().to_vec();
            let Some(page) = read.get_mut(place.page) else {
                continue;
            };
            page.is_continued |= first_page < place.page;
            page.rows.push(PageRow {
                label: row.label.clone(),
                cells: row_cells(table, row, year_shift, &scales),
            });
            let of_figures = row
                .cells
                .iter()
                .flatten()
                .filter(|cell| cell.number.is_some());
            for figure in of_figures.flat_map(|cell| &cell.places) {
                if figure.page == place.page {
                    page.row_at.insert(figure.line, page.rows.len() - 1);
                }
            }
        }
    }

    /// Whether its first rows are of a table that begins on a page before.
    pub fn is_continued(&self) -> bool {
        self.is_continued
    }

    pub fn text(&self) -> Vec<&'a str> {
        self.lines.text()
    }

    /// Lines that are rows of a table.
    pub fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.lines.lines.len()).filter(|at| self.is_row(*at))
    }

    pub fn is_row(&self, at: usize) -> bool {
        self.row_at.contains_key(&at) || self.lines.is_row(at)
    }

    /// The cells of the row that a line is of, from left to right.
    pub fn cells(&self, at: usize) -> &[CellReading] {
        let row = self.row_at.get(&at).and_then(|row| self.rows.get(*row));
        row.map_or(&[], |row| &row.cells)
    }

    /// The label of a row as its table has it, and the lines around it.
    pub fn row_label(&self, at: usize) -> RowLabel {
        let around = self.lines.row_label(at);
        let row = self.row_at.get(&at).and_then(|row| self.rows.get(*row));
        RowLabel {
            own: row.map_or(around.own, |row| row.label.clone()),
            ..around
        }
    }
}

fn row_cells(
    table: &FigureTable,
    row: &TableRow,
    year_shift: i32,
    scales: &[f64],
) -> Vec<CellReading> {
    let by_row = period_of_row(&row.label);
    let reading = |(index, (cell, column)): (usize, (&Option<Cell>, &TableColumn))| {
        let cell = cell.as_ref()?;
        Some(CellReading {
            line: cell.places.first()?.line,
            column: index,
            text: cell.text.clone(),
            number: cell.number.clone(),
            label: match by_row {
                Some(_) => column.head.clone(),
                None => row.label.clone(),
            },
            period: by_row.unwrap_or(column.period).in_fiscal_year(year_shift),
            head: column.head.clone(),
            scales: scales.to_vec(),
            places: cell.places.clone(),
        })
    };
    let cells = row.cells.iter().zip(&table.columns).enumerate();
    cells.filter_map(reading).collect()
}

// In a table of years by row, the label is the period and the head says what the figure is.
fn period_of_row(label: &str) -> Option<StatedPeriod> {
    let period = head_period(label);
    let is_only_period = !label.split_whitespace().any(|word| {
        word.chars().filter(|c| c.is_alphabetic()).count() > 2 && head_period(word).is_empty()
    });
    (period.year.is_some() && is_only_period).then_some(period)
}
