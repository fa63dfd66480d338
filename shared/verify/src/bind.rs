//! Finds copied figures on their pages: in a cell of a table, or in a sentence.

use rust_decimal::Decimal;
use stemma_reading::numbers::{Currency, NumberMention};
use stemma_reading::period::{StatedPeriod, head_period};
use stemma_reading::tables::CellUnit;
use stemma_reading::text_words::{says, words};
use stemma_reading::vocabulary::CHANGE_HEADS;

use super::cells::{CellError, FoundCell, find_cell, printed_number};
use super::claim::{BoundFigure, Measure, ReadCell, StatedFigure};
use super::direction::{direction_of, sign_of};
use super::evidence::Evidence;
use super::facts::check_facts;
use super::number::stated_number;
use super::periods::printed_period;
use super::sentences::{FoundInSentence, find_in_sentence};
use super::unit::{StatedUnit, measure_of, printed};

/// Finds a copied figure. `statement` is the claim without its figures.
///
/// # Errors
/// Says why the page does not have it as stated.
pub(crate) fn bind_copied(
    figure: &StatedFigure,
    evidence: &[Option<Evidence<'_>>],
    statement: &str,
) -> Result<BoundFigure, String> {
    let number = stated_number(&figure.value)
        .ok_or_else(|| format!("\"{}\" is not one number", figure.value))?;
    let at = usize::try_from(figure.citation).ok();
    let at = at.and_then(|at| at.checked_sub(1));
    let cited = at.and_then(|at| evidence.get(at)?.as_ref());
    let (at, cited) = at
        .zip(cited)
        .ok_or_else(|| format!("{} cites no passage", figure.value))?;
    if !cited.quote.matched.is_verbatim() {
        return Err(format!("the quote of {} is not on its page", figure.value));
    }
    let bound = CopiedFigure {
        figure,
        number: &number,
        cited,
        at,
    };
    let in_table = match find_cell(figure, &number, cited) {
        Ok(cell) => return bound.in_cell(&cell),
        Err(CellError::Differs(reason)) if !figure.row.is_empty() => return Err(reason),
        Err(CellError::Differs(reason) | CellError::NotInTable(reason)) => reason,
    };
    let has_prose = cited
        .quote
        .spans
        .iter()
        .any(|span| !cited.is_in_table(span.target, span.line));
    match find_in_sentence(figure, &number, cited, statement) {
        Ok(found) => bound.in_sentence(&found),
        Err(reason) if has_prose => Err(reason),
        Err(_) => Err(in_table),
    }
}

struct CopiedFigure<'f, 'e> {
    figure: &'f StatedFigure,
    number: &'f NumberMention,
    cited: &'f Evidence<'e>,
    // Index of the citation.
    at: usize,
}

impl CopiedFigure<'_, '_> {
    fn in_cell(&self, cell: &FoundCell<'_>) -> Result<BoundFigure, String> {
        let not_there = || format!("{} is not in its cell", self.figure.value);
        let number = printed_number(cell.table, cell.row, cell.column).ok_or_else(not_there)?;
        let row = cell.table.rows.get(cell.row).ok_or_else(not_there)?;
        let head = cell
            .table
            .columns
            .get(cell.column)
            .map_or("", |column| &column.head);
        let shift = self.cited.year_shift;
        let mut unit = cell.table.cell_unit(cell.row, cell.column);
        let mut span = cell.table.cell_period(cell.row, cell.column, shift);
        if let Some(facts) = self.cited.facts {
            let declared = check_facts(facts, cell, &number, (span, unit.scale), shift)?;
            span = span.or(declared.period);
            unit.scale = unit.scale.or(declared.scale);
        }
        let text = format!("{} {head}", row.label);
        let is_change = says(&text, &CHANGE_HEADS);
        let bound = self.bound(&number, unit, span)?;
        // In a table of periods by row, the head says what the figure is.
        let is_by_row = !head_period(&row.label).is_empty() && head_period(head).is_empty();
        let (label, column) = match is_by_row {
            true => (head, row.label.as_str()),
            false => (row.label.as_str(), head),
        };
        Ok(BoundFigure {
            row: label.to_owned(),
            column: column.to_owned(),
            is_older: self.is_older(cell, span),
            direction: is_change.then(|| sign_of(bound.printed)).flatten(),
            cells: vec![ReadCell {
                table: format!("{}#{}", self.cited.location, cell.table.id),
                label: label.to_owned(),
                group: row.group.clone().unwrap_or_default(),
            }],
            ..bound
        })
    }

    // Whether the row has a figure of the same length and a later period.
    fn is_older(&self, cell: &FoundCell<'_>, span: StatedPeriod) -> bool {
        (0..cell.table.columns.len()).any(|column| {
            let other = cell
                .table
                .cell_period(cell.row, column, self.cited.year_shift);
            printed_number(cell.table, cell.row, column).is_some()
                && span.year.is_some()
                && other.length == span.length
                && other.order() > span.order()
        })
    }

    fn in_sentence(&self, found: &FoundInSentence) -> Result<BoundFigure, String> {
        let number = &found.number;
        let unit = CellUnit {
            scale: Some(number.own_scale().map_or(1, super::unit::whole)),
            currency: number.currency(),
            is_percent: number.is_percent(),
            is_per_unit: found.is_per_unit,
            is_count: number.currency().is_none() && !number.is_percent(),
        };
        let bound = self.bound(number, unit, found.period)?;
        Ok(BoundFigure {
            direction: direction_of(&found.clause),
            ..bound
        })
    }

    fn bound(
        &self,
        number: &NumberMention,
        unit: CellUnit,
        span: StatedPeriod,
    ) -> Result<BoundFigure, String> {
        let figure = self.figure;
        let stated = StatedUnit::new(&figure.unit, Some(self.number));
        if stated.contradicts(&unit) {
            return Err(format!("{} is not in {}", figure.value, figure.unit));
        }
        let measure = self.measure(&unit, &stated)?;
        let too_long = || format!("{} has too many digits", figure.value);
        let value = number.signed_value().ok_or_else(too_long)?;
        let factor = match measure {
            Measure::Percent => Some(Decimal::new(1, 2)),
            _ => unit.scale.map(Decimal::from),
        };
        let in_units = match factor {
            Some(factor) => Some(value.checked_mul(factor).ok_or_else(too_long)?),
            None => None,
        };
        let (text, unit_text) = printed(&number.digits, number.is_negative(), measure, unit.scale);
        Ok(BoundFigure {
            name: figure.name.clone(),
            is_found: true,
            text,
            value: in_units,
            unit: unit_text,
            period: printed_period(&span, self.cited.year_shift),
            citation: Some(self.at),
            measure,
            spans: Some(span)
                .filter(|span| !span.is_empty())
                .into_iter()
                .collect(),
            printed: value,
            scale: unit.scale,
            ..BoundFigure::default()
        })
    }

    // What the page says; a stated currency counts where the page names it.
    fn measure(&self, unit: &CellUnit, stated: &StatedUnit) -> Result<Measure, String> {
        let own = measure_of(unit);
        let Some(currency) = stated.currency else {
            return Ok(own);
        };
        let named = currencies_of(&self.cited.page_text());
        match own {
            Measure::Unknown | Measure::PerUnit(None) if named.contains(&currency) => {
                Ok(match own {
                    Measure::Unknown => Measure::Money(Some(currency)),
                    _ => Measure::PerUnit(Some(currency)),
                })
            }
            Measure::Unknown | Measure::PerUnit(None) if !named.is_empty() => {
                Err(format!("{} is in another currency", self.figure.value))
            }
            own => Ok(own),
        }
    }
}

fn currencies_of(text: &str) -> Vec<Currency> {
    let lower = text.to_lowercase();
    let signs = lower.chars().filter(|c| !c.is_alphanumeric());
    let signs = signs.filter_map(|c| Currency::from_word(c.encode_utf8(&mut [0; 4])));
    let named = words(&lower);
    let named = named
        .iter()
        .filter_map(|(word, _)| Currency::from_word(word));
    signs.chain(named).collect()
}
