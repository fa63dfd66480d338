//! What each figure of a table is in (scale, currency, per cent, per share), and its period.

use rust_decimal::Decimal;

use crate::cells::without_breaks;
use crate::numbers::{Currency, NumberMention, numbers, scales};
use crate::period::{StatedPeriod, head_period, is_only_period, period_mentions};
use crate::tables::table::{FigureTable, TableCell, TableRow};
use crate::text_words::{says, without_parentheses, words};
use crate::vocabulary::{
    CHANGE_HEADS, COUNTED_THINGS, EXCEPT_WORDS, EXCEPTED_COUNTS, FIGURE_SOURCES, PER_WORDS,
    PERCENT_WORDS,
};

// A percentage below a group of percentages is not larger.
const MAX_GROUP_PERCENT: i64 = 1_000;

/// What a figure is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CellUnit {
    /// By how much the printed figure is multiplied; `None` where nothing says so.
    pub scale: Option<u64>,
    pub currency: Option<Currency>,
    pub is_percent: bool,
    /// An amount of one share, ton or other unit.
    pub is_per_unit: bool,
    /// A number of shares, people or things.
    pub is_count: bool,
}

impl FigureTable {
    /// The cell of a row and column, both 0-based.
    pub fn cell(&self, row: usize, column: usize) -> Option<&TableCell> {
        self.rows.get(row)?.cells.get(column)?.as_ref()
    }

    /// What the figure of a cell is in. The nearest declaration counts: the cell, its row, its column, the table.
    pub fn cell_unit(&self, row: usize, column: usize) -> CellUnit {
        let (Some(row), Some(cell)) = (self.rows.get(row), self.cell(row, column)) else {
            return CellUnit::default();
        };
        let head = self.columns.get(column).map_or("", |column| &column.head);
        let number = self.cell_number(cell, &row.label, head);
        let own_currency = number.as_ref().and_then(NumberMention::currency);
        let is_percent = number.as_ref().is_some_and(|number| {
            number.is_percent() || own_currency.is_none() && is_in_percent_group(row, number)
        });
        let is_per_unit = !is_percent && is_per_unit(row, head, number.as_ref());
        let is_count = !is_percent && !is_per_unit && own_currency.is_none() && counts(row);
        let own_scale = number.as_ref().and_then(NumberMention::own_scale);
        let declared = single_scale(&row.label).or_else(|| single_scale(head));
        CellUnit {
            scale: match own_scale.or(declared) {
                Some(scale) => Some(scale),
                None if is_percent || is_per_unit => Some(1),
                None if is_count && self.excepts_counts() => Some(1),
                None => self.scale,
            },
            currency: match is_percent || is_count {
                true => None,
                false => own_currency.or_else(|| self.currency(row, column)),
            },
            is_percent,
            is_per_unit,
            is_count,
        }
    }

    fn cell_number(&self, cell: &TableCell, label: &str, head: &str) -> Option<NumberMention> {
        let text = without_breaks(&cell.text);
        let mut number = self.marks.numbers(&text).into_iter().next()?;
        number.read_as_cell(&format!("{label} {head}").to_lowercase());
        Some(number)
    }

    // The one currency that row, column and table declare, or the signs of its cells.
    fn currency(&self, row: &TableRow, column: usize) -> Option<Currency> {
        let head = self.columns.get(column).map_or("", |column| &column.head);
        let unit = self.unit.as_deref().unwrap_or_default();
        let title = self.title.as_deref().unwrap_or_default();
        let declared = [row.label.as_str(), head, unit, title].map(Currency::named_in_text);
        let in_column = self.rows.iter().filter_map(|row| row.cells.get(column));
        let in_table = self.rows.iter().flat_map(|row| &row.cells);
        declared
            .into_iter()
            .chain([signs(in_column), signs(in_table)])
            .find(|found| !found.is_empty())
            .and_then(|found| found.iter().all(|one| *one == found[0]).then(|| found[0]))
    }

    // `(in millions, except share and per share data)`
    fn excepts_counts(&self) -> bool {
        let unit = self.unit.as_deref().unwrap_or_default();
        let named = words(unit);
        let except = named
            .iter()
            .position(|(word, _)| EXCEPT_WORDS.contains(word.as_str()));
        except.is_some_and(|except| {
            let rest = named[except..].iter().map(|(word, _)| word.as_str());
            let rest: Vec<&str> = rest.collect();
            rest.windows(2)
                .any(|pair| !PER_WORDS.contains(pair[0]) && EXCEPTED_COUNTS.contains(pair[1]))
        })
    }

    /// The period of a cell: from its column, or from its row in a table of periods by row. `year_shift` leads from the year of
    /// a date in January or February to the name of its fiscal year.
    pub fn cell_period(&self, row: usize, column: usize, year_shift: i32) -> StatedPeriod {
        let head = self.columns.get(column).map_or("", |column| &column.head);
        let own = self.column_period(column, year_shift);
        let is_change = is_change(head);
        let row = self.rows.get(row);
        let label = row.map(|row| row.label.as_str());
        let group = row.and_then(|row| row.group.as_deref());
        if own.year.is_some() || is_change {
            // `Three months ended June 30:` above rows.
            let length = group.filter(|group| is_only_period(group)).map(head_period);
            let length = length.filter(|period| period.year.is_none() && !is_change);
            return length.map_or(own, |length| own.or(length));
        }
        let names = [label, group].into_iter().flatten();
        let by_row = names
            .filter(|text| is_only_period(text))
            .map(head_period)
            .find(|period| period.year.is_some());
        by_row
            .or_else(|| self.title.as_deref().map(head_period_of_one_year))
            .map_or(own, |period| period.or(own).in_fiscal_year(year_shift))
    }

    /// The period that the head of a column names; empty for a column that compares periods.
    pub fn column_period(&self, column: usize, year_shift: i32) -> StatedPeriod {
        let head = self.columns.get(column).map_or("", |column| &column.head);
        if is_change(head) {
            return StatedPeriod::default();
        }
        let own = head_period_of_one_year(head);
        let length = self.title.as_deref().and_then(single_length);
        let has_length = own.length.is_some() || own.year.is_none();
        StatedPeriod {
            length: if has_length { own.length } else { length },
            ..own
        }
        .in_fiscal_year(year_shift)
    }
}

fn is_in_percent_group(row: &TableRow, number: &NumberMention) -> bool {
    let group = row.group.as_deref().unwrap_or_default().to_lowercase();
    let is_small = number
        .signed_value()
        .is_some_and(|value| value.abs() < Decimal::from(MAX_GROUP_PERCENT));
    is_small && says(&group, &PERCENT_WORDS)
}

// Whether the label, its group or the head of the column says that the amount is one per share.
fn is_per_unit(row: &TableRow, head: &str, number: Option<&NumberMention>) -> bool {
    let group = row.group.as_deref().unwrap_or_default();
    // A group may also have rows that count shares, without cents.
    let has_cents = number.is_some_and(|number| number.decimals() > 0);
    names_unit(&row.label) || names_unit(head) || has_cents && names_unit(group)
}

fn names_unit(text: &str) -> bool {
    let named = words(text);
    let has_unit = named.windows(2).any(|pair| {
        // `Cash per consolidated balance sheets`
        PER_WORDS.contains(pair[0].0.as_str()) && !FIGURE_SOURCES.contains(pair[1].0.as_str())
    });
    // `(in millions, except per share amounts)` may be over one column alone.
    has_unit
        && !named
            .iter()
            .any(|(word, _)| EXCEPT_WORDS.contains(word.as_str()))
}

fn counts(row: &TableRow) -> bool {
    let group = row.group.as_deref().unwrap_or_default();
    says(&row.label, &COUNTED_THINGS) && !states_count(&row.label) || says(group, &COUNTED_THINGS)
}

// `Common stock, $1 par value: 5,000 shares issued` has the count in its label. Its figures are amounts.
fn states_count(label: &str) -> bool {
    let label = without_parentheses(label).to_lowercase();
    numbers(&label)
        .iter()
        .any(|number| COUNTED_THINGS.starts(label[number.at.end..].trim_start()))
}

fn single_scale(text: &str) -> Option<u64> {
    match scales(text)[..] {
        [scale] => Some(scale),
        _ => None,
    }
}

fn signs<'a>(cells: impl Iterator<Item = &'a Option<TableCell>>) -> Vec<Currency> {
    cells
        .flatten()
        .flat_map(|cell| Currency::named_in_text(&cell.text))
        .collect()
}

fn is_change(head: &str) -> bool {
    says(head, &CHANGE_HEADS)
}

// A text that names several years has no period.
fn head_period_of_one_year(text: &str) -> StatedPeriod {
    let mentions = period_mentions(text);
    let mut years = mentions.iter().filter_map(|mention| mention.period.year);
    let first = years.next();
    match years.all(|year| Some(year) == first) {
        true => head_period(text),
        false => StatedPeriod::default(),
    }
}

fn single_length(text: &str) -> Option<u32> {
    let mentions = period_mentions(text);
    let mut lengths = mentions.iter().filter_map(|mention| mention.period.length);
    let first = lengths.next()?;
    lengths.all(|length| length == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use stemma_filings::monospaced_page as page;

    use super::*;
    use crate::tables::tables_of_pages;

    const INCOME: &str = "\
          Consolidated Statements of Income
     (In millions, except share and per share data)
                                    Year Ended December 31,
                                      2023          2022    Change
Net sales                          $ 1,749       $ 1,603      9.1%
Cost of sales                          820           731     12.2%
Diluted earnings per share            1.25          1.12     11.6%
Weighted average shares        412,000,123   410,000,500      0.5%";

    fn table() -> FigureTable {
        tables_of_pages(1, &[page(INCOME)]).remove(0)
    }

    #[test]
    fn each_figure_has_the_unit_of_its_row_and_column() {
        let table = table();
        let unit = |row: usize, column: usize| {
            let unit = table.cell_unit(row, column);
            (unit.scale, unit.currency.is_some(), unit.is_percent)
        };
        assert_eq!(unit(0, 0), (Some(1_000_000), true, false), "{table}");
        assert_eq!(unit(1, 1), (Some(1_000_000), true, false));
        assert_eq!(unit(1, 2), (Some(1), false, true));
        assert_eq!(unit(2, 0), (Some(1), true, false));
        assert!(table.cell_unit(2, 0).is_per_unit);
        assert_eq!(unit(3, 0), (Some(1), false, false));
        assert!(table.cell_unit(3, 0).is_count);
    }

    #[test]
    fn figures_of_a_label_that_states_a_count_are_amounts() {
        let text = "\
                     Consolidated Balance Sheets
                            ($ in millions)
                                                      2023          2022
Common stock, par value $5: 1,012,261 and
  998,200 (Class A 900) shares issued                5,061         5,060
Shares outstanding                                   1,012           998";
        let table = tables_of_pages(1, &[page(text)]).remove(0);
        let counts = [0, 1].map(|row| table.cell_unit(row, 0).is_count);
        assert_eq!(counts, [false, true], "{table}");
    }

    #[test]
    fn a_column_that_compares_periods_has_none() {
        let table = table();
        let years: Vec<Option<i32>> = (0..3)
            .map(|column| table.cell_period(0, column, 0).year)
            .collect();
        assert_eq!(years, [Some(2023), Some(2022), None]);
    }

    #[test]
    fn periods_may_be_rows() {
        let text = "\
                      Net sales     Net income
2023                      1,749            200
2022                      1,603            180";
        let table = tables_of_pages(1, &[page(text)]).remove(0);
        assert_eq!(table.cell_period(1, 0, 0).year, Some(2022), "{table}");
    }
}
