//! Finds the one cell of a stored table that a copied figure names by row, column and value.

use stemma_document::english_words::MONTHS;
use stemma_reading::numbers::{NumberMention, numbers};
use stemma_reading::period::{StatedPeriod, head_period};
use stemma_reading::tables::FigureTable;
use stemma_reading::text_words::without_parentheses;
use stemma_reading::vocabulary::HEAD_WORDS;

use super::claim::StatedFigure;
use super::evidence::{Evidence, RowAt};
use super::number::is_same;
use super::words::{ends_with, plain_words};

/// A cell of a table of the evidence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundCell<'a> {
    pub(crate) table: &'a FigureTable,
    pub(crate) row: usize,
    pub(crate) column: usize,
}

#[derive(Debug)]
pub(crate) enum CellError {
    /// No table has the row: it may be in a sentence.
    NotInTable(String),
    Differs(String),
}

// A cell that row and column of a figure may mean.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    at: RowAt,
    column: usize,
}

struct CellFinder<'f, 'e> {
    figure: &'f StatedFigure,
    number: &'f NumberMention,
    evidence: &'f Evidence<'e>,
    row: RowName,
    column: ColumnName,
    // Words of the lines that the quote is on.
    quoted: Vec<String>,
}

/// The words of a stated row.
struct RowName {
    words: Vec<String>,
    bare: Vec<String>,
}

/// What a stated column says: a period, other words, or both.
struct ColumnName {
    words: Vec<String>,
    // Without those of the period.
    names: Vec<String>,
    period: StatedPeriod,
}

/// Finds the cell of a figure.
///
/// # Errors
/// Says why it is not there, or which other cells it may mean.
pub(crate) fn find_cell<'e>(
    figure: &StatedFigure,
    number: &NumberMention,
    evidence: &Evidence<'e>,
) -> Result<FoundCell<'e>, CellError> {
    let finder = CellFinder {
        figure,
        number,
        evidence,
        row: RowName::new(&figure.row),
        column: ColumnName::new(&figure.column, evidence.year_shift),
        quoted: plain_words(&evidence.quote.lines),
    };
    let candidates = finder.candidates()?;
    let found = finder.choose(&candidates)?;
    let table = evidence.tables.get(found.at.table).copied();
    let table = table.ok_or_else(|| CellError::Differs(finder.not_there()))?;
    Ok(FoundCell {
        table,
        row: found.at.row,
        column: found.column,
    })
}

impl CellFinder<'_, '_> {
    fn not_there(&self) -> String {
        let figure = self.figure;
        match (figure.row.is_empty(), figure.column.is_empty()) {
            (true, _) => format!("{} is not in the row of its quote", figure.value),
            (false, true) => format!("{} is not in the row \"{}\"", figure.value, figure.row),
            (false, false) => format!(
                "{} is not in the row \"{}\" and the column \"{}\"",
                figure.value, figure.row, figure.column
            ),
        }
    }

    // The cells that have the stated row and column. Rows of the quote precede others, and tables of the quote other tables.
    fn candidates(&self) -> Result<Vec<Candidate>, CellError> {
        let quoted = self.evidence.quoted_rows();
        let mut cells = match self.row.words.is_empty() {
            true => quoted.iter().flat_map(|at| self.cells_of(*at)).collect(),
            false => self.named_cells(),
        };
        if cells.is_empty() {
            return Err(CellError::NotInTable(self.not_there()));
        }
        let in_quoted_row = |cell: &Candidate| quoted.contains(&cell.at);
        let in_quoted_table = |cell: &Candidate| quoted.iter().any(|at| at.table == cell.at.table);
        if cells.iter().any(in_quoted_row) {
            cells.retain(in_quoted_row);
        } else if cells.iter().any(in_quoted_table) {
            cells.retain(in_quoted_table);
        }
        // `2022` may be the head of a quarter, where no column is of the year.
        for is_whole_year in [true, false] {
            let in_column: Vec<Candidate> = cells
                .iter()
                .filter(|cell| self.is_in_column(**cell, is_whole_year))
                .copied()
                .collect();
            if !in_column.is_empty() {
                return Ok(in_column);
            }
        }
        Err(CellError::Differs(self.not_there()))
    }

    fn cells_of(&self, at: RowAt) -> Vec<Candidate> {
        let table = self.evidence.tables[at.table];
        let columns = 0..table.columns.len();
        let printed = columns.filter(|column| printed_number(table, at.row, *column).is_some());
        printed.map(|column| Candidate { at, column }).collect()
    }

    fn named_cells(&self) -> Vec<Candidate> {
        let tables = self.evidence.tables.iter().enumerate();
        let rows = tables.flat_map(|(table, figures)| {
            (0..figures.rows.len()).map(move |row| RowAt { table, row })
        });
        rows.filter(|at| self.is_row(*at) || self.is_period_row(*at))
            .flat_map(|at| self.cells_of(at))
            .collect()
    }

    // Whether a row has the stated label: alone, below its group, or with words of the lines above that go on in it.
    fn is_row(&self, at: RowAt) -> bool {
        let table = self.evidence.tables[at.table];
        let Some(row) = table.rows.get(at.row) else {
            return false;
        };
        let group = row.group.as_deref().unwrap_or_default();
        let own = RowName::new(&row.label);
        let with_group = RowName::new(&format!("{group} {}", row.label));
        if self.row.is_same(&own) || self.row.is_same(&with_group) {
            return true;
        }
        // A row may say in a second column where the figure is: `Operating leases · Other liabilities`.
        let texts = row
            .cells
            .iter()
            .flatten()
            .filter(|cell| cell.value.is_none());
        let texts: Vec<&str> = texts.map(|cell| cell.text.as_str()).collect();
        let with_texts = RowName::new(&format!("{} {}", row.label, texts.join(" ")));
        if !texts.is_empty() && self.row.is_same(&with_texts) {
            return true;
        }
        let title = table.title.as_deref().unwrap_or_default();
        let around = plain_words(&format!("{group} {title}"));
        let stated = &self.row.words;
        let before = stated.len().saturating_sub(own.words.len());
        ends_with(stated, &own.words)
            && stated[..before]
                .iter()
                .all(|word| around.contains(word) || self.quoted.contains(word))
    }

    // In a table of periods by row, the stated row is a column.
    fn is_period_row(&self, at: RowAt) -> bool {
        let table = self.evidence.tables[at.table];
        let label = table.rows.get(at.row).map_or("", |row| &row.label);
        !self.column.period.is_empty()
            && !head_period(label).is_empty()
            && (0..table.columns.len()).any(|column| self.is_transposed(table, at.row, column))
    }

    fn is_transposed(&self, table: &FigureTable, row: usize, column: usize) -> bool {
        let head = &table.columns[column].head;
        let period = table.cell_period(row, column, self.evidence.year_shift);
        self.row.is_same(&RowName::new(head))
            && period.year.is_some()
            && period.is_meant_by(&self.column.period)
    }

    fn is_in_column(&self, cell: Candidate, is_whole_year: bool) -> bool {
        let table = self.evidence.tables[cell.at.table];
        let head = table
            .columns
            .get(cell.column)
            .map_or("", |column| &column.head);
        let own = plain_words(head);
        if self.column.words.is_empty() || own == self.column.words {
            return true;
        }
        if self.is_transposed(table, cell.at.row, cell.column) {
            return true;
        }
        let period = table.cell_period(cell.at.row, cell.column, self.evidence.year_shift);
        let is_period = self.column.period.is_empty()
            || !period.is_empty()
                && match is_whole_year {
                    true => period.is_meant_by(&self.column.period),
                    false => period.agrees_with(&self.column.period),
                };
        let has_year = self.column.period.year.is_none() || period.year.is_some();
        let row = &table.rows[cell.at.row];
        let group = plain_words(row.group.as_deref().unwrap_or_default());
        is_period
            && has_year
            && self
                .column
                .names
                .iter()
                .all(|word| own.contains(word) || group.contains(word))
    }

    // The cell that has the value, unless row and column also mean a cell with another one.
    fn choose(&self, candidates: &[Candidate]) -> Result<Candidate, CellError> {
        let (hits, rivals): (Vec<Candidate>, Vec<Candidate>) =
            candidates.iter().partition(|cell| {
                self.number_of(**cell)
                    .is_some_and(|own| is_same(&own, self.number))
            });
        let Some(first) = hits.first().copied() else {
            return Err(CellError::Differs(self.not_there()));
        };
        let head = self.evidence.tables[first.at.table]
            .columns
            .get(first.column);
        if self.column.words.is_empty()
            && candidates.len() > 1
            && head.is_none_or(|head| head.head.is_empty())
        {
            let reason = format!("the column of {} could not be read", self.figure.value);
            return Err(CellError::Differs(reason));
        }
        let unit = |cell: Candidate| {
            let table = self.evidence.tables[cell.at.table];
            table.cell_unit(cell.at.row, cell.column)
        };
        let period = |cell: Candidate| {
            let table = self.evidence.tables[cell.at.table];
            table.cell_period(cell.at.row, cell.column, self.evidence.year_shift)
        };
        let same = hits.iter().all(|hit| period(*hit) == period(first));
        let own = unit(first);
        // A percentage below the same year is another figure, and so is an amount per share of an amount.
        let rival = rivals.into_iter().find(|cell| {
            let other = unit(*cell);
            let is_in_row = self.column.words.is_empty() && cell.at == first.at;
            !is_in_row
                && other.is_percent == own.is_percent
                && (own.is_per_unit || !other.is_per_unit)
        });
        match rival {
            _ if !same => Err(CellError::Differs(format!(
                "{} is in several columns, of other periods",
                self.figure.value
            ))),
            None => Ok(first),
            Some(rival) => Err(CellError::Differs(format!(
                "row and column of {} also mean {}",
                self.figure.value,
                self.number_of(rival)
                    .map_or(String::new(), |number| number.text)
            ))),
        }
    }

    fn number_of(&self, cell: Candidate) -> Option<NumberMention> {
        printed_number(
            self.evidence.tables[cell.at.table],
            cell.at.row,
            cell.column,
        )
    }
}

/// The number that a cell prints.
pub(crate) fn printed_number(
    table: &FigureTable,
    row: usize,
    column: usize,
) -> Option<NumberMention> {
    let cell = table.cell(row, column)?;
    cell.value.as_ref()?;
    let mut number = numbers(&cell.text.replace("( ", "(")).into_iter().next()?;
    number.read_as_cell("");
    Some(number)
}

impl RowName {
    fn new(text: &str) -> Self {
        Self {
            words: plain_words(text),
            bare: plain_words(&without_parentheses(text)),
        }
    }

    fn is_same(&self, own: &Self) -> bool {
        !self.words.is_empty()
            && (self.words == own.words || !self.bare.is_empty() && self.bare == own.bare)
    }
}

impl ColumnName {
    fn new(text: &str, year_shift: i32) -> Self {
        let words = plain_words(text);
        let period = head_period(text).in_fiscal_year(year_shift);
        let names = words
            .iter()
            .filter(|word| period.is_empty() || !is_of_period(word))
            .cloned()
            .collect();
        Self {
            words,
            names,
            period,
        }
    }
}

fn is_of_period(word: &str) -> bool {
    HEAD_WORDS.contains(word)
        || MONTHS.contains(&word)
        || word.starts_with(|c: char| c.is_ascii_digit())
        || !head_period(word).is_empty()
}
