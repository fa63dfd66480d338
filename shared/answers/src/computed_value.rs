//! What a statement means by a computed figure: the definition of the measure it names, or what its words say is done with rows.

use std::collections::BTreeSet;

use rust_decimal::Decimal;
use stemma_reading::text_words::says;
use stemma_reading::vocabulary::{
    CHANGE_NAMES, COUNT_WORDS, DIFFERENCE_WORDS, EXCESS_WORDS, GROWTH_RATES, MEAN_WORDS,
    NO_DIFFERENCES, RATIO_WORDS, SHORTFALL_WORDS, SUM_WORDS, UNDER_CUES,
};

use super::figures::{is_outflow, says_negative};
use super::operand::{FoundOperand, Rivals};
use super::polarity::direction_of;
use super::row_names::RowNames;
use super::statement::Statement;
use super::terms::{Terms, phrase};
use stemma_verify::formula::{Formula, Function, Operator};

/// What a statement means: a value, how it is written, and whether words such as "grew" are about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ComputedValue {
    pub(super) value: Decimal,
    pub(super) unit: Unit,
    pub(super) sense: Sense,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sense {
    // A figure of one period.
    Level,
    // The difference of two periods: rising is positive.
    Change,
    // The difference of two rows. The statement says which is greater.
    Comparison,
}

/// What a formula gives, as the statement would write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    // In the units of the operands: money, shares, days.
    Amount,
    // A quotient: a percentage or a multiple.
    Ratio,
    // A difference of percentages.
    Points,
    // An average or sum of percentages.
    Percent,
}

// The values that the statement's words may mean, each with its unit.
pub(super) fn computed_values(
    statement: &Statement<'_>,
    names: &RowNames<'_>,
    operands: &[FoundOperand<'_>],
    rivals: &Rivals,
) -> Vec<ComputedValue> {
    let words = statement.words();
    let terms = Terms::get();
    let mut values = Vec::new();
    let measures = terms.measures(&words);
    for formula in measures.iter().flat_map(|(measure, _)| &measure.formulas) {
        if rivals.has_twin {
            break;
        }
        values.extend(by_definition(formula, operands));
        values.extend(change_of_measure(formula, operands));
    }
    // Where the statement names a measure, its operands must be that measure's row. `Total debt` may be a row, too.
    let are_labels = measures.iter().all(|(_, at)| {
        let bytes = statement.bytes_of(at);
        bytes.is_some_and(|bytes| names.covers(&bytes))
    });
    let mut rows = operands.iter().map(|operand| phrase(&operand.row));
    let names_rows = are_labels
        || rows.all(|row| {
            let mut words = measures.iter().flat_map(|(measure, _)| measure.words());
            words.any(|word| row.contains(word))
        });
    if names_rows && !rivals.has_rival {
        values.extend(by_words(statement, names, operands));
    }
    values
}

// The value of a definition, when each operand is one of its lines and all are of one period, or averaged.
fn by_definition(formula: &Formula, operands: &[FoundOperand<'_>]) -> Option<ComputedValue> {
    let names = formula.names();
    let lines: BTreeSet<&str> = operands
        .iter()
        .map(|operand| operand.line)
        .collect::<Option<_>>()?;
    if lines != names {
        return None;
    }
    let last = operands
        .iter()
        .map(|operand| operand.period.order())
        .max()?;
    let mut current = operands
        .iter()
        .filter(|operand| operand.period.order() == last);
    let period = current.next()?.period;
    if !current.all(|operand| operand.period.agrees_with(&period)) {
        return None;
    }
    let of_line = |line: &str| -> Vec<&FoundOperand<'_>> {
        let of_line = operands.iter().filter(|operand| operand.line == Some(line));
        of_line.collect()
    };
    for name in &names {
        let found = of_line(name);
        let is_current = |operand: &&FoundOperand<'_>| operand.period.order() == last;
        let several_rows = found.len() > 1 && found.iter().all(is_current);
        let averaged =
            found.len() == 2 && found.iter().filter(|operand| is_current(operand)).count() == 1;
        if !(found.iter().all(is_current) && (found.len() == 1 || several_rows) || averaged) {
            return None;
        }
    }
    let terms = Terms::get();
    let value = formula.evaluate(&|line| {
        let found = of_line(line).into_iter();
        match terms.is_outflow(line) {
            true => found.map(|operand| operand.value.abs()).collect(),
            false => found.map(|operand| operand.value).collect(),
        }
    });
    let value = value.ok()?;
    Some(ComputedValue {
        value,
        unit: unit_of(formula),
        sense: Sense::Level,
    })
}

// A definition that divides gives a ratio; others give amounts.
fn unit_of(formula: &Formula) -> Unit {
    match formula {
        Formula::Binary(Operator::Divide, ..) => Unit::Ratio,
        Formula::Binary(_, left, right) => match (unit_of(left), unit_of(right)) {
            (Unit::Ratio, _) | (_, Unit::Ratio) => Unit::Ratio,
            _ => Unit::Amount,
        },
        Formula::Negative(inner) => unit_of(inner),
        _ => Unit::Amount,
    }
}

// The change of a measure between two periods: of a ratio in points, of an amount as a share or an amount.
fn change_of_measure(formula: &Formula, operands: &[FoundOperand<'_>]) -> Vec<ComputedValue> {
    let orders: BTreeSet<(i32, u32)> = operands
        .iter()
        .map(|operand| operand.period.order())
        .collect();
    let [first, last] = orders.into_iter().collect::<Vec<_>>()[..] else {
        return Vec::new();
    };
    let at = |order: (i32, u32)| {
        let of_period: Vec<FoundOperand<'_>> = operands
            .iter()
            .filter(|operand| operand.period.order() == order)
            .map(FoundOperand::duplicate)
            .collect();
        by_definition(formula, &of_period)
    };
    match (at(first), at(last)) {
        (Some(before), Some(after)) => match before.unit {
            Unit::Ratio => {
                let points = after.value.checked_sub(before.value);
                let points = points.map(|value| ComputedValue {
                    value,
                    unit: Unit::Points,
                    sense: Sense::Change,
                });
                points.into_iter().collect()
            }
            _ => changes(before.value, after.value),
        },
        _ => Vec::new(),
    }
}

fn changes(before: Decimal, after: Decimal) -> Vec<ComputedValue> {
    let change = |value: Decimal, unit: Unit| ComputedValue {
        value,
        unit,
        sense: Sense::Change,
    };
    let Some(difference) = after.checked_sub(before) else {
        return Vec::new();
    };
    let growth = difference.checked_div(before.abs());
    let amount = change(difference, Unit::Amount);
    let growth = growth.map(|growth| change(growth, Unit::Ratio));
    std::iter::once(amount).chain(growth).collect()
}

// What the words of the statement mean for operands whose rows it names.
fn by_words(
    statement: &Statement<'_>,
    names: &RowNames<'_>,
    operands: &[FoundOperand<'_>],
) -> Vec<ComputedValue> {
    let places: Option<Vec<usize>> = operands
        .iter()
        .zip(&names.spans)
        .map(|(operand, span)| match span {
            Some(span) => Some(span.start),
            None => row_place(&operand.row, statement, names),
        })
        .collect();
    let rest = names.rest();
    let Some(places) = places else {
        return Vec::new();
    };
    let same_row = operands
        .iter()
        .all(|operand| operand.row == operands[0].row);
    let periods: BTreeSet<(i32, u32)> = operands
        .iter()
        .map(|operand| operand.period.order())
        .collect();
    let mut ordered: Vec<&FoundOperand<'_>> = operands.iter().collect();
    ordered.sort_by_key(|operand| operand.period.order());
    if same_row && periods.len() == operands.len() && operands.len() > 1 {
        return series_values(&rest, &ordered);
    }
    // One figure twice is not what a statement about two rows speaks of.
    let rows: BTreeSet<&str> = operands
        .iter()
        .map(|operand| operand.row.as_str())
        .collect();
    if periods.len() > 1 || rows.len() < operands.len() {
        return Vec::new();
    }
    let mut values = group_values(&rest, operands);
    if let ([one, two], [first, second]) = (operands, &places[..]) {
        values.extend(pair_values(&rest, [one, two], [*first, *second]));
    }
    values
}

fn level(value: Decimal, unit: Unit) -> ComputedValue {
    ComputedValue {
        value,
        unit,
        sense: Sense::Level,
    }
}

// Sum and mean of operands, and the unit of both.
fn sum_and_mean(operands: &[&FoundOperand<'_>]) -> Option<(Decimal, Decimal, Unit)> {
    let sum = operands
        .iter()
        .try_fold(Decimal::ZERO, |sum, operand| sum.checked_add(operand.value))?;
    let mean = sum.checked_div(Decimal::from(operands.len()))?;
    let is_percent = operands.iter().all(|operand| operand.is_percent);
    let unit = if is_percent {
        Unit::Percent
    } else {
        Unit::Amount
    };
    Some((sum, mean, unit))
}

// One row in several periods, in their order.
fn series_values(text: &str, ordered: &[&FoundOperand<'_>]) -> Vec<ComputedValue> {
    let [first, .., last] = ordered else {
        return Vec::new();
    };
    if says(text, &GROWTH_RATES) {
        let years = last.period.year.unwrap_or(0) - first.period.year.unwrap_or(0);
        let given = [first.value, last.value, Decimal::from(years)];
        let growth = Function::Cagr
            .apply(&given)
            .ok()
            .filter(|_| ordered.len() == 2);
        let growth = growth.map(|growth| ComputedValue {
            sense: Sense::Change,
            ..level(growth, Unit::Ratio)
        });
        return growth.into_iter().collect();
    }
    let totals = sum_and_mean(ordered).filter(|_| is_contiguous(ordered));
    if says(text, &MEAN_WORDS) {
        return totals
            .map(|(_, mean, unit)| level(mean, unit))
            .into_iter()
            .collect();
    }
    if says(text, &SUM_WORDS) && direction_of(text).is_none() {
        return totals
            .map(|(sum, _, unit)| level(sum, unit))
            .into_iter()
            .collect();
    }
    let says_change = direction_of(text).is_some() || says(text, &CHANGE_NAMES);
    if ordered.len() != 2 || !says_change {
        return Vec::new();
    }
    // `Capital expenditures grew`: what flows out is printed as negative, and its amount grows.
    let is_outflow = ordered
        .iter()
        .all(|operand| operand.value.is_sign_negative())
        && is_outflow(&first.row);
    let both = match is_outflow {
        true => changes(first.value.abs(), last.value.abs()),
        false => changes(first.value, last.value),
    };
    both.into_iter()
        .filter_map(|change| match (change.unit, first.is_percent) {
            (Unit::Amount, true) => Some(ComputedValue {
                unit: Unit::Points,
                ..change
            }),
            (Unit::Ratio, true) => None,
            _ => Some(change),
        })
        .collect()
}

// Several rows of one period, or counted ones.
fn group_values(text: &str, operands: &[FoundOperand<'_>]) -> Vec<ComputedValue> {
    let all: Vec<&FoundOperand<'_>> = operands.iter().collect();
    let Some((sum, mean, unit)) = sum_and_mean(&all).filter(|_| all.len() > 1) else {
        return Vec::new();
    };
    let mut values = Vec::new();
    if says(text, &MEAN_WORDS) {
        values.push(level(mean, unit));
    }
    if says(text, &SUM_WORDS) {
        values.push(level(sum, unit));
    }
    if says(text, &COUNT_WORDS) {
        values.push(level(Decimal::from(all.len()), Unit::Amount));
    }
    values
}

// Two rows of one period: the one that is named first over, or less, the other.
fn pair_values(
    text: &str,
    [one, two]: [&FoundOperand<'_>; 2],
    [first, second]: [usize; 2],
) -> Vec<ComputedValue> {
    let is_first = first < second;
    let (named_first, named_second) = if is_first { (one, two) } else { (two, one) };
    let under = named_after_cue(text, [first, second]).map(|at| if at == 0 { one } else { two });
    let swaps = under.is_some_and(|under| under.name == named_first.name);
    let (over, under) = if swaps {
        (named_second, named_first)
    } else {
        (named_first, named_second)
    };
    let mut values = Vec::new();
    if says(text, &UNDER_CUES) || says(text, &RATIO_WORDS) {
        // What flows out, and what the statement calls a loss, counts by its amount.
        let size = |operand: &FoundOperand<'_>| match is_outflow(&operand.row)
            || says_negative(text, &operand.row)
        {
            true => operand.value.abs(),
            false => operand.value,
        };
        let ratio = size(over).checked_div(size(under));
        values.extend(ratio.map(|ratio| level(ratio, Unit::Ratio)));
    }
    let is_percent = one.is_percent && two.is_percent;
    let unit = if is_percent {
        Unit::Points
    } else {
        Unit::Amount
    };
    let difference = |from: &FoundOperand<'_>, taken: &FoundOperand<'_>, sense: Sense| {
        let value = from.value.checked_sub(taken.value);
        value.map(|value| ComputedValue { value, unit, sense })
    };
    if says(text, &DIFFERENCE_WORDS) && !says(text, &NO_DIFFERENCES) {
        values.extend(difference(named_first, named_second, Sense::Level));
    }
    if says(text, &EXCESS_WORDS) {
        values.extend(difference(named_first, named_second, Sense::Comparison));
    }
    if says(text, &SHORTFALL_WORDS) {
        values.extend(difference(named_second, named_first, Sense::Comparison));
    }
    values
}

fn is_contiguous(ordered: &[&FoundOperand<'_>]) -> bool {
    let years: Option<Vec<i32>> = ordered.iter().map(|operand| operand.period.year).collect();
    years.is_some_and(|years| years.windows(2).all(|pair| pair[1] - pair[0] == 1))
}

// Where the words of a statement name a row: all words of its label, or a name of its line.
fn row_place(row: &str, statement: &Statement<'_>, names: &RowNames<'_>) -> Option<usize> {
    let (words, places) = statement.words_apart_from(names);
    let label = super::terms::label_words(row);
    let strong: Vec<&String> = label.iter().filter(|word| *word != "net").collect();
    let named = Terms::get()
        .line(row)
        .and_then(|line| Terms::get().position_of_line(line, &words));
    let all = strong
        .iter()
        .map(|word| words.iter().position(|own| own == *word))
        .collect::<Option<Vec<usize>>>();
    let all = all.and_then(|places| places.into_iter().min());
    named.or(all).map(|at| places[at])
}

// In `12% of revenue was cost of sales` what follows the cue is divided by: its index.
fn named_after_cue(text: &str, places: [usize; 2]) -> Option<usize> {
    let lower = text.to_ascii_lowercase();
    let cue = UNDER_CUES
        .iter()
        .find_map(|cue| Some(lower.find(cue)? + cue.len()))?;
    (0..2)
        .filter(|at| places[*at] >= cue)
        .min_by_key(|at| places[*at])
}
