//! Computed figures: the formula over figures that were found, its unit, and the stated result against its rounding.

use std::cmp::Ordering;

use rust_decimal::Decimal;
use stemma_reading::numbers::NumberMention;

use super::claim::{BoundFigure, Measure, ReadCell, StatedFigure};
use super::formula::{Formula, Function, Operator};
use super::number::stated_number;
use super::periods::printed_period;
use super::unit::{StatedUnit, printed};

// Numbers that formulas may have: counts of periods and parts, per cent, days of a year, scales. Any other is a figure without a
// source.
const MAX_COUNT: i64 = 12;
const CONSTANTS: [i64; 8] = [52, 100, 360, 365, 366, 1_000, 10_000, 1_000_000];

/// What a part of a formula gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dimension {
    Of(Measure),
    Constant,
    /// Such as a product of amounts.
    Other,
}

/// Computes a figure from others by name. `direction` comes from the statement: a fall may be stated without its sign.
///
/// # Errors
/// Says why the formula does not give the value.
pub(crate) fn bind_computed<'k>(
    figure: &StatedFigure,
    known: &dyn Fn(&str) -> Option<&'k BoundFigure>,
    direction: Option<Ordering>,
) -> Result<BoundFigure, String> {
    let formula = Formula::parse(&figure.formula).map_err(|error| error.to_string())?;
    check_constants(&formula)?;
    let mut inputs: Vec<&BoundFigure> = Vec::new();
    for name in formula.names() {
        let input = known(name)
            .ok_or_else(|| format!("the formula names `{name}`, which was not found"))?;
        inputs.push(input);
    }
    if inputs.is_empty() {
        return Err("the formula names no figure".into());
    }
    let stated = stated_number(&figure.value)
        .ok_or_else(|| format!("\"{}\" is not one number", figure.value))?;
    let has_scales = inputs.iter().all(|input| input.value.is_some());
    if !has_scales && !are_in_one_table(&inputs) {
        return Err(format!("the scale of {} could not be read", inputs[0].text));
    }
    let value = formula
        .evaluate(&|name| {
            let input = known(name);
            let value = input.and_then(|input| match has_scales {
                true => input.value,
                false => Some(input.printed),
            });
            value.into_iter().collect()
        })
        .map_err(|error| error.to_string())?;
    let dimension = dimension_of(&formula, known)?;
    let result = StatedResult {
        figure,
        formula: &formula,
        inputs: &inputs,
        number: &stated,
        unit: StatedUnit::new(&figure.unit, Some(&stated)),
        direction,
    };
    result.bound(value, dimension, has_scales)
}

fn check_constants(formula: &Formula) -> Result<(), String> {
    match formula
        .numbers()
        .into_iter()
        .find(|number| !is_constant(*number))
    {
        Some(number) => Err(format!("the formula has {number}, which no page has")),
        None => Ok(()),
    }
}

fn is_constant(number: Decimal) -> bool {
    let whole = i64::try_from(number)
        .ok()
        .filter(|_| number.fract().is_zero());
    whole.is_some_and(|whole| whole.abs() <= MAX_COUNT || CONSTANTS.contains(&whole))
        || number == Decimal::new(5, 1)
}

fn are_in_one_table(inputs: &[&BoundFigure]) -> bool {
    let mut tables = inputs
        .iter()
        .flat_map(|input| &input.cells)
        .map(|cell| &cell.table);
    let first = tables.next();
    first.is_some()
        && tables.all(|table| Some(table) == first)
        && inputs
            .iter()
            .all(|input| input.scale.is_none() && !input.is_computed())
}

struct StatedResult<'r> {
    figure: &'r StatedFigure,
    formula: &'r Formula,
    inputs: &'r [&'r BoundFigure],
    number: &'r NumberMention,
    unit: StatedUnit,
    direction: Option<Ordering>,
}

impl StatedResult<'_> {
    fn bound(
        &self,
        value: Decimal,
        dimension: Dimension,
        has_scales: bool,
    ) -> Result<BoundFigure, String> {
        let measure = self.measure(dimension)?;
        let is_percent = self.unit.is_percent || self.unit.is_points || self.unit.is_basis_points;
        // A formula may say that its result is in per cent.
        let value = match is_percent && self.formula.has_number(Decimal::ONE_HUNDRED) {
            true => Operator::Divide
                .apply(value, Decimal::ONE_HUNDRED)
                .map_err(|error| error.to_string())?,
            false => value,
        };
        let scale = self.scale_of(value, measure)?;
        let (text, unit) = self.printed(measure, scale);
        let mut spans: Vec<_> = self
            .inputs
            .iter()
            .flat_map(|input| input.spans.clone())
            .collect();
        spans.sort_by_key(|span| span.order());
        spans.dedup();
        let mut cells: Vec<ReadCell> = Vec::new();
        for cell in self.inputs.iter().flat_map(|input| &input.cells) {
            if !cells.contains(cell) {
                cells.push(cell.clone());
            }
        }
        let period = spans.last().map(|span| printed_period(span, 0));
        Ok(BoundFigure {
            name: self.figure.name.clone(),
            is_found: true,
            is_older: self.inputs.iter().all(|input| input.is_older),
            text,
            value: Some(value)
                .filter(|_| has_scales || measure == Measure::Percent || measure == Measure::Ratio),
            unit,
            period: self.newest_period().or(period).unwrap_or_default(),
            formula: self
                .figure
                .formula
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" "),
            measure,
            spans,
            cells,
            printed: value,
            scale: Some(scale),
            ..BoundFigure::default()
        })
    }

    fn newest_period(&self) -> Option<String> {
        let newest = self
            .inputs
            .iter()
            .max_by_key(|input| input.newest().order())?;
        Some(newest.period.clone()).filter(|period| !period.is_empty())
    }

    // What the result measures, as far as the stated unit agrees.
    fn measure(&self, dimension: Dimension) -> Result<Measure, String> {
        let is_percent = self.unit.is_percent || self.unit.is_points || self.unit.is_basis_points;
        let is_money = self.unit.currency.is_some();
        let refused = |what: &str| {
            Err(format!(
                "the formula gives {what}, not {}",
                self.figure.unit
            ))
        };
        match dimension {
            Dimension::Other | Dimension::Constant => Err("the formula mixes units".into()),
            Dimension::Of(Measure::Ratio | Measure::Percent) if is_percent => Ok(Measure::Percent),
            Dimension::Of(Measure::Ratio | Measure::Percent)
                if is_money || self.unit.scale.is_some() =>
            {
                refused("a quotient")
            }
            Dimension::Of(Measure::Percent) => Ok(Measure::Ratio),
            Dimension::Of(Measure::Ratio) => Ok(Measure::Ratio),
            Dimension::Of(_) if is_percent => refused("an amount"),
            Dimension::Of(Measure::Money(own)) => match (own, self.unit.currency) {
                (Some(own), Some(stated)) if own != stated => refused("another currency"),
                (own, _) => Ok(Measure::Money(own)),
            },
            Dimension::Of(Measure::Count) if is_money => refused("a count"),
            Dimension::Of(measure) => Ok(measure),
        }
    }

    // By how much the stated value is multiplied, if it then is the computed one.
    fn scale_of(&self, value: Decimal, measure: Measure) -> Result<u64, String> {
        let scales = match measure {
            Measure::Percent | Measure::Ratio => vec![1],
            _ => match (self.unit.scale, self.common_scale()) {
                (Some(stated), _) => vec![stated],
                (None, Some(common)) => vec![common, 1],
                (None, None) => vec![1],
            },
        };
        let found = scales.iter().find(|scale| {
            let result = self.in_stated_units(value, measure, **scale);
            result.is_some_and(|result| self.is_rounded(result))
        });
        found.copied().ok_or_else(|| {
            let scale = scales.first().copied().unwrap_or(1);
            let result = self.in_stated_units(value, measure, scale).unwrap_or(value);
            let result = result.round_dp(self.number.decimals() + 2).normalize();
            format!("the formula gives {result}, not {}", self.figure.value)
        })
    }

    fn common_scale(&self) -> Option<u64> {
        let mut scales = self.inputs.iter().map(|input| input.scale);
        let first = scales.next()??;
        scales.all(|scale| scale == Some(first)).then_some(first)
    }

    // The value in the units in which it is shown.
    fn in_stated_units(&self, value: Decimal, measure: Measure, scale: u64) -> Option<Decimal> {
        match measure {
            Measure::Percent if self.unit.is_basis_points => value.checked_mul(10_000.into()),
            Measure::Percent => value.checked_mul(100.into()),
            _ => value.checked_div(Decimal::from(scale)),
        }
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

    fn printed(&self, measure: Measure, scale: u64) -> (String, String) {
        let digits = &self.number.digits;
        let is_negative = self.number.is_negative();
        let name = &self.unit.name;
        let sign = if is_negative { "-" } else { "" };
        match measure {
            Measure::Percent if self.unit.is_points || self.unit.is_basis_points => {
                let unit = self.figure.unit.trim();
                (format!("{sign}{digits} {unit}"), unit.to_owned())
            }
            Measure::Ratio | Measure::Unknown if name.len() == 1 => {
                (format!("{sign}{digits}{name}"), name.clone())
            }
            Measure::Ratio if !name.is_empty() => (format!("{sign}{digits} {name}"), name.clone()),
            _ => printed(digits, is_negative, measure, Some(scale)),
        }
    }
}

fn dimension_of<'k>(
    formula: &Formula,
    known: &dyn Fn(&str) -> Option<&'k BoundFigure>,
) -> Result<Dimension, String> {
    let of = |part: &Formula| dimension_of(part, known);
    match formula {
        Formula::Number(_) => Ok(Dimension::Constant),
        Formula::Name(name) => {
            Ok(known(name).map_or(Dimension::Other, |figure| Dimension::Of(figure.measure)))
        }
        Formula::Negative(inner) => of(inner),
        Formula::Binary(operator, left, right) => {
            let left = of(left)?;
            let right = of(right)?;
            match operator {
                Operator::Add | Operator::Subtract => sum_of(left, right),
                Operator::Multiply => Ok(product_of(left, right)),
                Operator::Divide => Ok(quotient_of(left, right)),
                Operator::Power => Ok(power_of(left)),
            }
        }
        Formula::Call(function, arguments) => {
            let mut parts = arguments.iter().map(of);
            let first = parts.next().unwrap_or(Ok(Dimension::Constant))?;
            match function {
                Function::Count => Ok(Dimension::Constant),
                Function::Sqrt => Ok(power_of(first)),
                Function::Cagr => {
                    let last = parts.next().unwrap_or(Ok(Dimension::Other))?;
                    sum_of(first, last)?;
                    Ok(Dimension::Of(Measure::Ratio))
                }
                _ => parts.try_fold(first, |sum, part| sum_of(sum, part?)),
            }
        }
    }
}

// What is added is in one unit. A number alone goes with quotients: `a / b - 1`.
fn sum_of(left: Dimension, right: Dimension) -> Result<Dimension, String> {
    use Dimension::{Constant, Of};
    use Measure::{Count, Money, PerUnit, Percent, Ratio, Unknown};
    match (left, right) {
        (Constant, Constant) => Ok(Constant),
        (Of(measure @ (Percent | Ratio)), Constant)
        | (Constant, Of(measure @ (Percent | Ratio))) => Ok(Of(measure)),
        (Of(one), Of(other)) if one == other => Ok(Of(one)),
        (Of(Percent | Ratio), Of(Percent | Ratio)) => Ok(Of(Ratio)),
        (Of(Money(one)), Of(Money(other))) if one.is_none() || other.is_none() => {
            Ok(Of(Money(one.or(other))))
        }
        (Of(PerUnit(one)), Of(PerUnit(other))) if one.is_none() || other.is_none() => {
            Ok(Of(PerUnit(one.or(other))))
        }
        (Of(Unknown), Of(known @ (Money(_) | Count)))
        | (Of(known @ (Money(_) | Count)), Of(Unknown)) => Ok(Of(known)),
        _ => Err("the formula adds unlike units".into()),
    }
}

fn product_of(left: Dimension, right: Dimension) -> Dimension {
    use Dimension::{Constant, Of, Other};
    use Measure::{Count, Money, PerUnit, Percent, Ratio};
    match (left, right) {
        (Constant, other) | (other, Constant) => other,
        (Of(Percent | Ratio), other) | (other, Of(Percent | Ratio)) => other,
        (Of(PerUnit(currency)), Of(Count)) | (Of(Count), Of(PerUnit(currency))) => {
            Of(Money(currency))
        }
        _ => Other,
    }
}

fn quotient_of(left: Dimension, right: Dimension) -> Dimension {
    use Dimension::{Constant, Of, Other};
    use Measure::{Count, Money, PerUnit, Percent, Ratio};
    match (left, right) {
        (other, Constant | Of(Percent | Ratio)) => other,
        (Of(Money(currency)), Of(Count)) => Of(PerUnit(currency)),
        (Of(Money(_)), Of(PerUnit(_))) => Of(Count),
        _ => match sum_of(left, right) {
            Ok(Of(_)) => Of(Ratio),
            _ => Other,
        },
    }
}

fn power_of(base: Dimension) -> Dimension {
    match base {
        Dimension::Constant | Dimension::Of(Measure::Ratio | Measure::Percent) => base,
        Dimension::Of(_) | Dimension::Other => Dimension::Other,
    }
}
