//! Finds the one cell of a stored table that a copied figure names by row, column and value.

use stemma_document::english_words::MONTHS;
use stemma_reading::numbers::NumberMention;
use stemma_reading::period::{StatedPeriod, head_period};
use stemma_reading::tables::{CellUnit, FigureTable, TableRow};
use stemma_reading::text_words::without_parentheses;
use stemma_reading::vocabulary::HEAD_WORDS;

use super::claim::StatedFigure;
use super::evidence::{Evidence, RowAt};
use super::words::plain_words;

/// A cell of a table of the evidence.
#[derive(Debug, Clone)]
pub(crate) struct Cell<'a> {
    pub(crate) table: &'a FigureTable,
    pub(crate) row: &'a TableRow,
    pub(crate) head: &'a str,
    pub(crate) number: NumberMention,
    pub(crate) unit: CellUnit,
    pub(crate) period: StatedPeriod,
    at: RowAt,
}

impl<'a> Cell<'a> {
    /// The cells of a row that print numbers.
    pub(crate) fn of_row(evidence: &Evidence<'a>, at: RowAt) -> Vec<Self> {
        let table = evidence.tables[at.table];
        let row = &table.rows[at.row];
        let columns = table.columns.iter().enumerate();
        let cells = columns.filter_map(|(column, head)| {
            Some(Self {
                table,
                row,
                head: &head.head,
                number: printed_number(table, row, column)?,
                unit: table.cell_unit(at.row, column),
                period: table.cell_period(at.row, column, evidence.year_shift),
                at,
            })
        });
        cells.collect()
    }

    /// The other cells of its row.
    pub(crate) fn row_cells(&self, evidence: &Evidence<'a>) -> Vec<Self> {
        Self::of_row(evidence, self.at)
    }
}

fn printed_number(table: &FigureTable, row: &TableRow, column: usize) -> Option<NumberMention> {
    let cell = row.cells.get(column)?.as_ref()?;
    cell.value.as_ref()?;
    let mut number = table.marks.numbers(&cell.text).into_iter().next()?;
    number.read_as_cell("");
    Some(number)
}

type PeriodTest = fn(&StatedPeriod, &StatedPeriod) -> bool;

struct CellFinder<'f, 'e> {
    figure: &'f StatedFigure,
    evidence: &'f Evidence<'e>,
    // Words of the row, with and without parentheses.
    row: [Vec<String>; 2],
    column: Vec<String>,
    // What else than a period the column says.
    names: Vec<String>,
    period: StatedPeriod,
    // Words of the lines that the quote is on.
    quoted: Vec<String>,
}

/// Finds the cell of a figure; `None` if no table has its row, which may be in a sentence.
///
/// # Errors
/// Says why it is not there, or which other cells it may mean.
pub(crate) fn find_cell<'e>(
    figure: &StatedFigure,
    number: &NumberMention,
    evidence: &Evidence<'e>,
) -> Result<Option<Cell<'e>>, String> {
    let column = plain_words(&figure.column);
    let period = head_period(&figure.column).in_fiscal_year(evidence.year_shift);
    let finder = CellFinder {
        figure,
        evidence,
        row: names_of(&figure.row),
        names: column
            .iter()
            .filter(|word| period.is_empty() || !is_of_period(word))
            .cloned()
            .collect(),
        column,
        period,
        quoted: plain_words(&evidence.quote.lines),
    };
    let cells = finder.cells();
    match cells.is_empty() {
        true => Ok(None),
        false => finder.choose(finder.in_column(&cells), number).map(Some),
    }
}

impl<'e> CellFinder<'_, 'e> {
    // The cells of the stated row. Rows of the quote precede others, and tables of the quote other tables.
    fn cells(&self) -> Vec<Cell<'e>> {
        let quoted = self.evidence.quoted_rows();
        let rows: Vec<RowAt> = match self.row[0].is_empty() {
            true => quoted.clone(),
            false => self.evidence.rows().filter(|at| self.is_row(*at)).collect(),
        };
        let cells = rows.iter().flat_map(|at| Cell::of_row(self.evidence, *at));
        let mut cells: Vec<Cell<'e>> = cells.collect();
        let in_row = |cell: &Cell<'e>| quoted.contains(&cell.at);
        let in_table = |cell: &Cell<'e>| quoted.iter().any(|at| at.table == cell.at.table);
        if cells.iter().any(in_row) {
            cells.retain(in_row);
        } else if cells.iter().any(in_table) {
            cells.retain(in_table);
        }
        cells
    }

    // Whether a row has the stated label, alone or after words of its group, of the title, or of lines above that go on in it.
    fn is_row(&self, at: RowAt) -> bool {
        let table = self.evidence.tables[at.table];
        let row = &table.rows[at.row];
        let group = row.group.as_deref().unwrap_or_default();
        let title = table.title.as_deref().unwrap_or_default();
        let around = plain_words(&format!("{group} {title}"));
        let labels = [names_of(&row.label), names_of(&full_label(row))];
        let mut pairs = labels.iter().flat_map(|own| self.row.iter().zip(own));
        let is_named = pairs.any(|(stated, own)| {
            let before = stated.strip_suffix(&own[..]);
            !own.is_empty()
                && before.is_some_and(|before| {
                    before
                        .iter()
                        .all(|word| around.contains(word) || self.quoted.contains(word))
                })
        });
        // In a table of periods by row, the stated row is a column.
        let is_transposed = || {
            let mut cells = Cell::of_row(self.evidence, at).into_iter();
            !head_period(&row.label).is_empty() && cells.any(|cell| self.is_transposed(&cell))
        };
        is_named || is_transposed()
    }

    fn is_transposed(&self, cell: &Cell<'_>) -> bool {
        let mut pairs = self.row.iter().zip(names_of(cell.head));
        pairs.any(|(stated, head)| !stated.is_empty() && *stated == head)
            && !self.period.is_empty()
            && cell.period.year.is_some()
            && cell.period.is_meant_by(&self.period)
    }

    fn in_column(&self, cells: &[Cell<'e>]) -> Vec<Cell<'e>> {
        // `2022` may be the head of a quarter, where no column is of the year.
        let fits: [PeriodTest; 2] = [StatedPeriod::is_meant_by, StatedPeriod::agrees_with];
        let found = fits.map(|fits| {
            let cells = cells.iter().filter(|cell| self.is_in_column(cell, fits));
            cells.cloned().collect::<Vec<_>>()
        });
        let mut found = found.into_iter().filter(|found| !found.is_empty());
        found.next().unwrap_or_default()
    }

    fn is_in_column(&self, cell: &Cell<'_>, fits: PeriodTest) -> bool {
        let own = plain_words(cell.head);
        if self.column.is_empty() || own == self.column || self.is_transposed(cell) {
            return true;
        }
        let is_period =
            self.period.is_empty() || !cell.period.is_empty() && fits(&cell.period, &self.period);
        let has_year = self.period.year.is_none() || cell.period.year.is_some();
        let group = plain_words(cell.row.group.as_deref().unwrap_or_default());
        is_period
            && has_year
            && self
                .names
                .iter()
                .all(|word| own.contains(word) || group.contains(word))
    }

    // The cell that has the value, unless row and column also mean a cell with another one.
    fn choose(&self, cells: Vec<Cell<'e>>, number: &NumberMention) -> Result<Cell<'e>, String> {
        let figure = self.figure;
        let value = &figure.value;
        let count = cells.len();
        let (hits, rivals): (Vec<_>, Vec<_>) = cells
            .into_iter()
            .partition(|cell| is_same(&cell.number, number));
        let Some(first) = hits.first().cloned() else {
            return Err(match (figure.row.is_empty(), figure.column.is_empty()) {
                (true, _) => format!("{value} is not in the row of its quote"),
                (false, true) => format!("{value} is not in the row \"{}\"", figure.row),
                (false, false) => format!(
                    "{value} is not in the row \"{}\" and the column \"{}\"",
                    figure.row, figure.column
                ),
            });
        };
        if self.column.is_empty() && count > 1 && first.head.is_empty() {
            return Err(format!("the column of {value} could not be read"));
        }
        if hits.iter().any(|hit| hit.period != first.period) {
            return Err(format!("{value} is in several columns, of other periods"));
        }
        // A percentage below the same year is another figure, and so is an amount per share of an amount.
        let rival = rivals.into_iter().find(|cell| {
            let is_in_row = self.column.is_empty() && cell.at == first.at;
            !is_in_row
                && cell.unit.is_percent == first.unit.is_percent
                && (first.unit.is_per_unit || !cell.unit.is_per_unit)
        });
        match rival {
            None => Ok(first),
            Some(rival) => {
                let other = rival.number.text;
                Err(format!("row and column of {value} also mean {other}"))
            }
        }
    }
}

/// A row may say in a second column where its figures are: `Operating leases · Other liabilities`.
pub(crate) fn full_label(row: &TableRow) -> String {
    let texts = row.cells.iter().flatten();
    let texts = texts.filter(|cell| cell.value.is_none());
    let texts: Vec<&str> = texts.map(|cell| cell.text.as_str()).collect();
    format!("{} {}", row.label, texts.join(" "))
}

/// Whether two numbers have one value and sign. Digits after the point may end in zeros.
pub(crate) fn is_same(one: &NumberMention, other: &NumberMention) -> bool {
    let values = one.signed_value().zip(other.signed_value());
    values.is_some_and(|(one, other)| one == other)
}

fn names_of(text: &str) -> [Vec<String>; 2] {
    [plain_words(text), plain_words(&without_parentheses(text))]
}

fn is_of_period(word: &str) -> bool {
    HEAD_WORDS.contains(word)
        || MONTHS.contains(&word)
        || word.starts_with(|c: char| c.is_ascii_digit())
        || !head_period(word).is_empty()
}
