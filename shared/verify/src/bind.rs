//! Finds copied figures on their pages: in a cell of a table, or in a sentence.

use rust_decimal::Decimal;
use stemma_reading::numbers::{Currency, NumberMention};
use stemma_reading::period::{StatedPeriod, head_period};
use stemma_reading::tables::CellUnit;
use stemma_reading::text_words::says;
use stemma_reading::vocabulary::CHANGE_HEADS;

use super::cells::{Cell, find_cell, full_label};
use super::claim::{BoundFigure, ReadCell, StatedFigure};
use super::direction::sign_of;
use super::evidence::Evidence;
use super::facts::check_facts;
use super::periods::printed_period;
use super::quantity::Measure;
use super::sentences::find_in_sentence;
use super::unit::{StatedUnit, copied_number, printed};

/// Finds a copied figure. `statement` is the claim without its figures.
///
/// # Errors
/// Says why the page does not have it as stated.
pub(crate) fn bind_copied(
    figure: &StatedFigure,
    evidence: &[Option<Evidence<'_>>],
    statement: &str,
) -> Result<BoundFigure, String> {
    let at = figure.citation_index();
    let cited = at.and_then(|at| evidence.get(at)?.as_ref());
    let marks = cited.map(|cited| cited.marks).unwrap_or_default();
    let number = copied_number(&figure.value, marks)
        .ok_or_else(|| format!("\"{}\" is not one number", figure.value))?;
    let cited = cited.ok_or_else(|| format!("{} cites no passage", figure.value))?;
    if !cited.quote.matched.is_verbatim() {
        return Err(format!("the quote of {} is not on its page", figure.value));
    }
    let bound = CopiedFigure {
        figure,
        number: &number,
        cited,
    };
    let in_table = match find_cell(figure, &number, cited) {
        Ok(Some(cell)) => return bound.in_cell(&cell),
        Err(reason) if !figure.row.is_empty() => return Err(reason),
        in_table => in_table.err(),
    };
    let has_prose = cited
        .quote
        .spans
        .iter()
        .any(|span| !cited.is_in_table(span.target, span.line));
    match find_in_sentence(figure, &number, cited, statement) {
        Ok(found) => Ok(BoundFigure {
            direction: found.direction,
            ..bound.bound(&found.number, found.unit, found.period)?
        }),
        Err(reason) => Err(in_table.filter(|_| !has_prose).unwrap_or(reason)),
    }
}

struct CopiedFigure<'f, 'e> {
    figure: &'f StatedFigure,
    // As stated.
    number: &'f NumberMention,
    cited: &'f Evidence<'e>,
}

impl<'e> CopiedFigure<'_, 'e> {
    fn in_cell(&self, cell: &Cell<'e>) -> Result<BoundFigure, String> {
        let mut unit = cell.unit;
        let mut span = cell.period;
        if let Some(facts) = self.cited.facts {
            let (period, scale) = check_facts(facts, cell, self.cited.year_shift)?;
            span = span.or(period);
            unit.scale = unit.scale.or(scale);
        }
        let label = cell.row.label.as_str();
        let head = cell.head;
        let is_change = says(&format!("{label} {head}"), &CHANGE_HEADS);
        let bound = self.bound(&cell.number, unit, span)?;
        // In a table of periods by row, the head says what the figure is.
        let is_by_row = !head_period(label).is_empty() && head_period(head).is_empty();
        let (row, column) = if is_by_row {
            (head, label)
        } else {
            (label, head)
        };
        // Whether the row has a figure of the same length and a later period.
        let is_older = |other: &Cell<'_>| {
            span.year.is_some()
                && other.period.length == span.length
                && other.period.order() > span.order()
        };
        Ok(BoundFigure {
            row: row.to_owned(),
            column: column.to_owned(),
            is_older: cell.row_cells(self.cited).iter().any(is_older),
            direction: sign_of(bound.printed).filter(|_| is_change),
            cells: vec![ReadCell {
                table: format!("{}#{}", self.cited.location, cell.table.id),
                label: row.to_owned(),
                full_label: full_label(cell.row),
                group: cell.row.group.clone().unwrap_or_default(),
            }],
            ..bound
        })
    }

    // The figure as the page has it, if the stated unit does not contradict that.
    fn bound(
        &self,
        number: &NumberMention,
        unit: CellUnit,
        span: StatedPeriod,
    ) -> Result<BoundFigure, String> {
        let figure = self.figure;
        let stated = StatedUnit::new(&figure.unit, self.number);
        if stated.contradicts(&unit) {
            return Err(format!("{} is not in {}", figure.value, figure.unit));
        }
        let measure = self.measure(&unit, stated.currency)?;
        let too_long = || format!("{} has too many digits", figure.value);
        let value = number.signed_value().ok_or_else(too_long)?;
        let factor = match unit.is_percent {
            true => Some(Decimal::new(1, 2)),
            false => unit.scale.map(Decimal::from),
        };
        let in_units = factor.map(|factor| value.checked_mul(factor).ok_or_else(too_long));
        let (text, unit_text) = printed(number, measure, unit.scale, "%");
        let has_span = !span.is_empty();
        Ok(BoundFigure {
            name: figure.name.clone(),
            is_found: true,
            text,
            value: in_units.transpose()?,
            unit: unit_text,
            period: printed_period(&span, self.cited.year_shift),
            citation: figure.citation_index(),
            measure,
            spans: has_span.then_some(span).into_iter().collect(),
            printed: value,
            scale: unit.scale,
            ..BoundFigure::default()
        })
    }

    // What the page says; a stated currency counts where the page names it.
    fn measure(&self, unit: &CellUnit, stated: Option<Currency>) -> Result<Measure, String> {
        let own = Measure::new(unit);
        let is_money = matches!(own.powers, None | Some((1, _))) && own.currency.is_none();
        let Some(stated) = stated.filter(|_| is_money) else {
            return Ok(own);
        };
        let named = Currency::named_in_text(&self.cited.page_text());
        match named.contains(&stated) {
            true => Ok(Measure {
                powers: own.powers.or(Some((1, 0))),
                currency: Some(stated),
            }),
            false if named.is_empty() => Ok(own),
            false => Err(format!("{} is in another currency", self.figure.value)),
        }
    }
}
