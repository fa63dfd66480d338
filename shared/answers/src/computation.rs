//! Checks a computed figure: operands on their pages, the formula against what the statement says it is, the result against its rounding.
//!
//! A statement decides which formula is right, not the model: a measure with a name has the definitions of `terms.toml`, and words such as
//! "grew", "average" or "as a percentage of" have a meaning of their own. The model's formula must give the same value (ADR 0020).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use rust_decimal::Decimal;
use stemma_reading::numbers::{NumberMention, NumberRole, numbers};
use stemma_reading::period::StatedPeriod;
use stemma_reading::vocabulary::{BASIS_POINTS, POINT_WORDS};

use super::computed_value::{ComputedValue, Sense, Unit, computed_values};
use super::draft_answer::DraftComputation;
use super::figures::CitedText;
use super::operand::{FoundOperand, Rivals, find_operand};
use super::polarity::direction_of;
use super::row_names::RowNames;
use super::statement::Statement;
use stemma_verify::formula::{Formula, Operator};

// Relative difference of values that are the same but for the order of divisions.
const TOLERANCE: &str = "0.0000000001";

/// A computation that came out.
#[derive(Debug)]
pub(super) struct Computed {
    /// In the units of the result.
    pub(super) value: Decimal,
    result: NumberMention,
    counts: BTreeSet<String>,
}

impl Computed {
    /// Whether a figure of the statement is the result, or counts periods or operands: `three-year average`.
    pub(super) fn explains(&self, figure: &NumberMention) -> bool {
        *figure == self.result
            || (figure.role == NumberRole::Count && self.counts.contains(&figure.digits))
    }
}

/// Checks the computation of a statement.
///
/// # Errors
/// The reason why the figure is not shown as computed.
pub(super) fn check_computation(
    draft: &DraftComputation,
    statement: &Statement<'_>,
    cited: &[Option<&CitedText<'_>>],
) -> Result<Computed, String> {
    let formula = Formula::parse(&draft.formula).map_err(|error| error.to_string())?;
    let mut operands = Vec::new();
    for operand in &draft.operands {
        operands.push(find_operand(operand, statement, cited)?);
    }
    let named: BTreeSet<&str> = operands.iter().map(|operand| operand.name).collect();
    if named.len() != operands.len() || formula.names() != named {
        return Err("the formula and its operands do not have the same names".into());
    }
    let computed = formula
        .evaluate(&|name| values(&operands, name))
        .map_err(|error| error.to_string())?;
    let result = stated_result(draft, statement)?;
    // A formula may say that its result is in per cent.
    let computed = match result.is_percent() && formula.has_number(Decimal::ONE_HUNDRED) {
        true => Operator::Divide
            .apply(computed, Decimal::ONE_HUNDRED)
            .map_err(|error| error.to_string())?,
        false => computed,
    };
    check_currency(&result, draft, cited)?;
    check_periods(statement, &operands)?;
    let labels: Vec<&str> = operands
        .iter()
        .map(|operand| operand.row.as_str())
        .collect();
    let names = RowNames::new(statement.text, &labels);
    let rivals = Rivals::new(&draft.operands, &operands, &names, cited);
    let possible = computed_values(statement, &names, &operands, &rivals);
    if possible.is_empty() {
        return Err(rivals.reason.unwrap_or_else(|| {
            "the statement does not say how its figure is computed".to_owned()
        }));
    }
    let meant: Vec<ComputedValue> = possible
        .into_iter()
        .filter(|meaning| is_close(meaning.value, computed))
        .collect();
    if meant.is_empty() {
        return Err(format!(
            "{} is not the formula for what the statement says",
            draft.formula
        ));
    }
    let scale = common_scale(&operands);
    let mut reasons = Vec::new();
    for meaning in meant {
        match compare(&result, meaning, scale, statement, &names) {
            Ok(value) => {
                return Ok(Computed {
                    value,
                    counts: counts(&operands),
                    result,
                });
            }
            Err(reason) => reasons.push(reason),
        }
    }
    Err(reasons.swap_remove(0))
}

// How many operands and periods there are, and years between the first and the last.
fn counts(operands: &[FoundOperand<'_>]) -> BTreeSet<String> {
    let years: BTreeSet<i32> = operands
        .iter()
        .filter_map(|operand| operand.period.year)
        .collect();
    let between = years
        .last()
        .zip(years.first())
        .map_or(0, |(last, first)| last - first);
    BTreeSet::from([
        operands.len().to_string(),
        years.len().to_string(),
        between.to_string(),
    ])
}

fn is_close(left: Decimal, right: Decimal) -> bool {
    let tolerance: Decimal = TOLERANCE.parse().unwrap_or_default();
    let size = left.abs().max(right.abs());
    let difference = left.checked_sub(right).map(|difference| difference.abs());
    difference
        .zip(size.checked_mul(tolerance))
        .is_some_and(|(difference, most)| difference <= most)
}

fn values(operands: &[FoundOperand<'_>], name: &str) -> Vec<Decimal> {
    operands
        .iter()
        .filter(|operand| operand.name == name)
        .map(|operand| operand.value)
        .collect()
}

// The scale that all operands have, for results without a scale of their own.
fn common_scale(operands: &[FoundOperand<'_>]) -> Option<f64> {
    let first = operands.first()?.scale;
    operands
        .iter()
        .all(|operand| (operand.scale - first).abs() < f64::EPSILON)
        .then_some(first)
}

// The figure of the statement that the result names.
fn stated_result(
    draft: &DraftComputation,
    statement: &Statement<'_>,
) -> Result<NumberMention, String> {
    let result = numbers(&draft.result)
        .into_iter()
        .find(|number| !number.is_label());
    let result = result.ok_or("the result is not a number")?;
    let stated = statement.figures.iter().find(|figure| {
        figure.digits == result.digits && figure.is_percent() == result.is_percent()
    });
    stated
        .cloned()
        .ok_or_else(|| format!("the statement does not state {}", draft.result))
}

// An amount has the currency of the pages of its operands.
fn check_currency(
    result: &NumberMention,
    draft: &DraftComputation,
    cited: &[Option<&CitedText<'_>>],
) -> Result<(), String> {
    for operand in &draft.operands {
        let at = usize::try_from(operand.citation).ok();
        let text = at.and_then(|at| *cited.get(at.checked_sub(1)?)?);
        let number = numbers(&operand.value).into_iter().next();
        if let (Some(text), Some(number)) = (text, number)
            && !text.money.allows(result.currency(), &number)
        {
            return Err(format!("{} is in another currency", operand.value));
        }
    }
    Ok(())
}

// The years of a statement must be those of the operands: the last of both the same, and the first where it names several. Without a year
// it speaks of the newest.
fn check_periods(statement: &Statement<'_>, operands: &[FoundOperand<'_>]) -> Result<(), String> {
    check_lengths(statement, operands)?;
    let stated = statement.years();
    let used: BTreeSet<i32> = operands
        .iter()
        .filter_map(|operand| operand.period.year)
        .collect();
    let Some(used_last) = used.last() else {
        return Ok(());
    };
    let Some(last) = stated.last() else {
        let newest = operands
            .iter()
            .filter_map(|operand| operand.newest_year)
            .max();
        return match newest.is_some_and(|newest| newest > *used_last) {
            true => Err(format!("the statement does not name {used_last}")),
            false => Ok(()),
        };
    };
    let several = stated.len() > 1;
    let first_fits = !several || stated.first() == used.first();
    // A change needs the period before, which a statement about one year leaves out.
    let adjacent = several
        || used
            .iter()
            .zip(used.iter().skip(1))
            .all(|(one, next)| next - one == 1);
    match last == used_last && first_fits && adjacent {
        true => Ok(()),
        false => Err(format!(
            "the statement is about {}, but its operands are from {}",
            written_years(&stated),
            written_years(&used)
        )),
    }
}

// Operands have one length: a year's revenue and a quarter's cost make no margin. A statement that names a part of a year has operands of it.
fn check_lengths(statement: &Statement<'_>, operands: &[FoundOperand<'_>]) -> Result<(), String> {
    let lengths: BTreeSet<u32> = operands
        .iter()
        .filter_map(|operand| operand.period.length)
        .collect();
    // A balance has a day and no length, and goes with flows of a year.
    let is_part = |operand: &FoundOperand<'_>| operand.period.is_part();
    let is_mixed = operands.iter().any(is_part) && !operands.iter().all(is_part);
    if lengths.len() > 1 || is_mixed {
        return Err("the operands cover periods of different lengths".into());
    }
    let with_year: Vec<StatedPeriod> = (statement.periods.iter())
        .map(|mention| mention.period)
        .filter(|period| period.year.is_some() || period.length.is_some())
        .collect();
    // A statement about a change may name only one period.
    let mut of_any_year = operands.iter().map(|operand| StatedPeriod {
        year: None,
        month: None,
        ..operand.period
    });
    match with_year.is_empty()
        || of_any_year.all(|period| with_year.iter().any(|stated| period.is_meant_by(stated)))
    {
        true => Ok(()),
        false => Err("the period of the statement has another length".into()),
    }
}

fn written_years(years: &BTreeSet<i32>) -> String {
    let years: Vec<String> = years.iter().map(i32::to_string).collect();
    years.join(", ")
}

fn too_long() -> String {
    "the result is too long".to_owned()
}

// Compares a value with the stated figure; a difference of half a unit in its last digit is rounding.
fn compare(
    result: &NumberMention,
    meaning: ComputedValue,
    scale: Option<f64>,
    statement: &Statement<'_>,
    names: &RowNames<'_>,
) -> Result<Decimal, String> {
    let displayed = shown_value(result, meaning, scale, statement)?;
    let stated = result.signed_value().ok_or_else(too_long)?;
    let signed = with_direction(stated, displayed, meaning.sense, &names.rest())?;
    // `signed_value` bounds the digits after the point.
    let half = Decimal::new(5, result.decimals() + 1);
    let difference = signed.checked_sub(displayed).ok_or_else(too_long)?;
    match difference.abs() <= half {
        true => Ok(displayed),
        false => Err(format!(
            "the formula gives {}, not {}",
            displayed.round_dp(result.decimals() + 2).normalize(),
            result.text
        )),
    }
}

// The value in the units of the stated figure: per cent, points, millions.
fn shown_value(
    result: &NumberMention,
    meaning: ComputedValue,
    scale: Option<f64>,
    statement: &Statement<'_>,
) -> Result<Decimal, String> {
    let lower = statement.text.to_lowercase();
    let after = lower.get(result.at.end..).unwrap_or_default();
    let after = after.trim_start_matches([' ', '%', '-']);
    let is_points = POINT_WORDS.starts(after);
    let is_basis = BASIS_POINTS.starts(after);
    let value = meaning.value;
    let times = |factor: i64| {
        value
            .checked_mul(Decimal::from(factor))
            .ok_or_else(too_long)
    };
    match meaning.unit {
        Unit::Points if is_basis => times(10_000),
        Unit::Points if is_points => times(100),
        Unit::Points => Err("a difference of percentages is in percentage points".into()),
        _ if is_points || is_basis => Err("the result is not a difference of percentages".into()),
        Unit::Ratio | Unit::Percent if result.is_percent() => times(100),
        Unit::Percent => Err("the result is a percentage".into()),
        Unit::Ratio if result.currency().is_some() || result.own_scale().is_some() => {
            Err("the result is a ratio, not an amount".into())
        }
        // A change is stated in per cent, unless the statement says "times".
        Unit::Ratio if meaning.sense == Sense::Change => Err("the change is a percentage".into()),
        Unit::Ratio => Ok(value),
        Unit::Amount if result.is_percent() => {
            Err("the result is an amount, not a percentage".into())
        }
        Unit::Amount => {
            let own = match (result.own_scale(), scale) {
                (Some(own), _) => own,
                (None, Some(scale)) if result.currency().is_none() => scale,
                _ => 1.0,
            };
            let quotient = value.checked_div(Decimal::from(own as u64));
            quotient.ok_or_else(too_long)
        }
    }
}

// `fell 5%` states -5: the words give the sign that the number leaves out. Words that contradict the sign are an error.
fn with_direction(
    stated: Decimal,
    displayed: Decimal,
    sense: Sense,
    text: &str,
) -> Result<Decimal, String> {
    match (sense, direction_of(text)) {
        (Sense::Level, Some(_)) => Err("the statement names a change that is not computed".into()),
        (Sense::Change, Some(Ordering::Less)) if displayed > Decimal::ZERO => {
            Err("the figure rises, but the statement says that it falls".into())
        }
        (Sense::Change, Some(Ordering::Greater)) if displayed < Decimal::ZERO => {
            Err("the figure falls, but the statement says that it rises".into())
        }
        (Sense::Change, Some(Ordering::Less)) => Ok(-stated.abs()),
        _ => Ok(stated),
    }
}
