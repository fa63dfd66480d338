//! Computed figures: the formula over figures that were found, its unit, and the stated result against its rounding.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use rust_decimal::Decimal;
use stemma_reading::numbers::NumberMention;

use super::claim::{BoundFigure, ReadCell, StatedFigure, one_line};
use super::formula::Formula;
use super::quantity::{Measure, Quantity};
use super::unit::{StatedUnit, printed, stated_number};

// Numbers that formulas may have: counts of periods and parts, per cent, days of a year, scales. Any other is a figure without a
// source.
const MAX_COUNT: i64 = 12;
const CONSTANTS: [i64; 8] = [52, 100, 360, 365, 366, 1_000, 10_000, 1_000_000];

/// Computes a figure from others by name. `direction` comes from the statement: a fall may be stated without its sign.
///
/// # Errors
/// Says why the formula does not give the value.
pub(crate) fn bind_computed<'k>(
    figure: &StatedFigure,
    known: &dyn Fn(&str) -> Option<&'k BoundFigure>,
    direction: Option<Ordering>,
) -> Result<BoundFigure, String> {
    let formula = Formula::parse(&figure.formula)?;
    if let Some(number) = formula.numbers().find(|number| !is_constant(*number)) {
        return Err(format!("the formula has {number}, which no page has"));
    }
    let inputs = formula.names().into_iter().map(|name| {
        known(name).ok_or_else(|| format!("the formula names `{name}`, which was not found"))
    });
    let inputs = inputs.collect::<Result<Vec<&BoundFigure>, String>>()?;
    let number = stated_number(&figure.value)
        .ok_or_else(|| format!("\"{}\" is not one number", figure.value))?;
    let has_scales = inputs.iter().all(|input| input.value.is_some());
    if !has_scales && !are_in_one_table(&inputs) {
        return Err("the scale of its inputs could not be read".into());
    }
    let mut result = formula.evaluate(&|name| {
        let value = known(name).map(BoundFigure::quantity);
        value.into_iter().collect()
    })?;
    if result.is_constant {
        return Err("the formula names no figure".into());
    }
    let unit = StatedUnit::new(&figure.unit, &number);
    // A formula may say that its result is in per cent.
    if unit.per_whole.is_some()
        && formula
            .numbers()
            .any(|number| number == Decimal::ONE_HUNDRED)
    {
        result = result.apply('/', Quantity::constant(Decimal::ONE_HUNDRED))?;
    }
    let stated = StatedResult {
        figure,
        inputs: &inputs,
        number,
        unit,
        direction,
    };
    stated.bound(&result, has_scales)
}

fn is_constant(number: Decimal) -> bool {
    let whole = i64::try_from(number)
        .ok()
        .filter(|_| number.fract().is_zero());
    whole.is_some_and(|whole| whole.abs() <= MAX_COUNT || CONSTANTS.contains(&whole))
        || number == Decimal::new(5, 1)
}

fn are_in_one_table(inputs: &[&BoundFigure]) -> bool {
    let cells: Vec<&ReadCell> = inputs.iter().flat_map(|input| &input.cells).collect();
    !cells.is_empty()
        && cells.iter().all(|cell| cell.table == cells[0].table)
        && inputs
            .iter()
            .all(|input| input.scale.is_none() && !input.is_computed())
}

struct StatedResult<'r> {
    figure: &'r StatedFigure,
    inputs: &'r [&'r BoundFigure],
    number: NumberMention,
    unit: StatedUnit,
    direction: Option<Ordering>,
}

impl StatedResult<'_> {
    fn bound(&self, result: &Quantity, has_scales: bool) -> Result<BoundFigure, String> {
        self.check_unit(result.measure)?;
        let is_ratio = result.measure.is_ratio();
        let scale = self.scale_of(result)?;
        let name = self.unit.ratio_name();
        let (text, unit) = printed(&self.number, result.measure, Some(scale), name);
        let spans = self.inputs.iter().flat_map(|input| input.spans.clone());
        let mut spans: Vec<_> = spans.collect();
        spans.sort_by_key(|span| span.order());
        spans.dedup();
        let mut cells: Vec<ReadCell> = Vec::new();
        for cell in self.inputs.iter().flat_map(|input| &input.cells) {
            if !cells.contains(cell) {
                cells.push(cell.clone());
            }
        }
        let newest = self
            .inputs
            .iter()
            .max_by_key(|input| input.newest().order());
        // A change is one of the same rows.
        let order = newest.map(|input| input.newest().order());
        let rows = |is_newest: bool| -> BTreeSet<(&str, &str)> {
            self.inputs
                .iter()
                .filter(|input| (Some(input.newest().order()) == order) == is_newest)
                .flat_map(|input| &input.cells)
                .map(|cell| (cell.group.as_str(), cell.label.as_str()))
                .collect()
        };
        Ok(BoundFigure {
            name: self.figure.name.clone(),
            is_found: true,
            is_older: self.inputs.iter().all(|input| input.is_older),
            text,
            value: Some(result.value).filter(|_| has_scales || is_ratio),
            unit,
            period: newest.map_or(String::new(), |input| input.period.clone()),
            formula: one_line(&self.figure.formula),
            measure: result.measure,
            spans,
            cells,
            direction: result.change.filter(|_| rows(true) == rows(false)),
            printed: result.value,
            scale: Some(scale),
            ..BoundFigure::default()
        })
    }

    // Whether the stated unit is one of what the formula gives.
    fn check_unit(&self, measure: Measure) -> Result<(), String> {
        let unit = &self.unit;
        let is_money = unit.currency.is_some();
        let is_other_currency = is_money && measure.powers == Some((0, 1))
            || measure.currency.is_some() && is_money && unit.currency != measure.currency;
        let what = match measure.powers {
            Some((0, 0)) if unit.per_whole.is_none() && (is_money || unit.scale.is_some()) => {
                "a quotient"
            }
            None | Some((0, 1) | (1, 0 | -1)) if unit.per_whole.is_some() => "an amount",
            None | Some((0, 1) | (1, 0 | -1)) if is_other_currency => "another currency",
            None | Some((0, 0 | 1) | (1, 0 | -1)) => return Ok(()),
            Some(_) => return Err("the formula mixes units".into()),
        };
        Err(format!(
            "the formula gives {what}, not {}",
            self.figure.unit
        ))
    }

    // By how much the stated value is multiplied, if it then is the computed one.
    fn scale_of(&self, result: &Quantity) -> Result<u64, String> {
        let per_whole = Decimal::from(self.unit.per_whole.unwrap_or(1));
        let first = self.inputs.first().and_then(|input| input.scale);
        let common = first.filter(|_| self.inputs.iter().all(|input| input.scale == first));
        let scales = match (self.unit.scale, common) {
            _ if result.measure.is_ratio() => [1, 1],
            (Some(stated), _) => [stated, stated],
            (None, common) => [common.unwrap_or(1), 1],
        };
        let [as_stated, other] = scales.map(|scale| {
            let value = result.value.checked_mul(per_whole);
            value.and_then(|value| value.checked_div(scale.into()))
        });
        let value = match (as_stated, other) {
            (Some(value), _) if self.is_rounded(value) => return Ok(scales[0]),
            (_, Some(value)) if self.is_rounded(value) => return Ok(scales[1]),
            (value, _) => value.unwrap_or(result.value),
        };
        let value = value.round_dp(self.number.decimals() + 2).normalize();
        let stated = &self.figure.value;
        Err(format!("the formula gives {value}, not {stated}"))
    }

    // A difference of half a unit in the last digit is rounding.
    fn is_rounded(&self, result: Decimal) -> bool {
        let half = Decimal::new(5, self.number.decimals() + 1);
        let Some(stated) = self.number.signed_value() else {
            return false;
        };
        let is_near = |stated: Decimal| {
            let difference = stated.checked_sub(result);
            difference.is_some_and(|difference| difference.abs() <= half)
        };
        let is_fall = self.direction == Some(Ordering::Less) && !stated.is_sign_negative();
        is_near(stated) || is_fall && is_near(-stated)
    }
}
