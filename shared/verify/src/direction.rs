//! Whether what a statement says to rise or to fall does so between the periods of its figures.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Range;

use rust_decimal::Decimal;
use stemma_reading::text_words::words;
use stemma_reading::vocabulary::{DECREASES, INCREASES};

use super::claim::BoundFigure;
use super::formula::{Formula, Function, Operator};
use super::template::FilledText;
use super::words::Stems;

/// The direction that a text speaks of, up (`Greater`) or down (`Less`); `None` for neither or both.
pub(crate) fn direction_of(text: &str) -> Option<Ordering> {
    let found = directions(text);
    let (_, first) = found.first()?;
    found
        .iter()
        .all(|(_, other)| other == first)
        .then_some(*first)
}

/// Up for what is above zero.
pub(crate) fn sign_of(value: Decimal) -> Option<Ordering> {
    Some(value.cmp(&Decimal::ZERO)).filter(|sign| *sign != Ordering::Equal)
}

fn directions(text: &str) -> Vec<(usize, Ordering)> {
    let named = words(text).into_iter();
    named
        .filter_map(|(word, at)| match word.as_str() {
            word if INCREASES.contains(word) => Some((at.start, Ordering::Greater)),
            word if DECREASES.contains(word) => Some((at.start, Ordering::Less)),
            _ => None,
        })
        .collect()
}

/// A statement without the labels of the rows that it may repeat: `Increase in inventories` says nothing about a rise.
pub(crate) fn without_labels(text: &str, figures: &[&BoundFigure]) -> String {
    let mut bare = text.to_owned();
    for cell in figures.iter().flat_map(|figure| &figure.cells) {
        for at in Stems::new(text).positions_of(&Stems::new(&cell.label).into_words()) {
            bare.replace_range(at.clone(), &" ".repeat(at.len()));
        }
    }
    bare
}

/// Compares the directions of a statement with its figures.
///
/// # Errors
/// Says that the figures move in another direction, or have no two periods.
pub(crate) fn check_directions<'k>(
    filled: &FilledText,
    known: &dyn Fn(&str) -> Option<&'k BoundFigure>,
) -> Result<(), String> {
    let named: Vec<&BoundFigure> = filled
        .figures
        .iter()
        .filter_map(|(_, name)| known(name))
        .collect();
    if named.is_empty() {
        return Ok(());
    }
    let bare = without_labels(&filled.text, &named);
    for (range, stated) in stretches(&bare) {
        let inside: Vec<&BoundFigure> = filled
            .figures
            .iter()
            .filter(|(at, _)| range.start <= at.start && at.start < range.end)
            .filter_map(|(_, name)| known(name))
            .collect();
        let actual = changes(&inside, known);
        if actual.is_empty() {
            return Err(
                "the statement says that something rises or falls, without two periods".into(),
            );
        }
        if actual.iter().any(|actual| *actual != stated) {
            return Err("the figures do not rise or fall as the statement says".into());
        }
    }
    Ok(())
}

// The parts of a text that speak of one direction each.
fn stretches(text: &str) -> Vec<(Range<usize>, Ordering)> {
    let mut found = directions(text);
    found.dedup_by_key(|(_, direction)| *direction);
    let ends = found.iter().skip(1).map(|(at, _)| *at);
    let ends: Vec<usize> = ends.chain([text.len()]).collect();
    let mut start = 0;
    let mut stretches = Vec::new();
    for ((_, direction), end) in found.into_iter().zip(ends) {
        stretches.push((start..end, direction));
        start = end;
    }
    stretches
}

// How the figures change: as their sources or formulas say, or between two periods of one row.
fn changes<'k>(
    figures: &[&BoundFigure],
    known: &dyn Fn(&str) -> Option<&'k BoundFigure>,
) -> Vec<Ordering> {
    let mut found: Vec<Ordering> = figures
        .iter()
        .filter_map(|figure| {
            let formula = Formula::parse(&figure.formula).ok();
            let by_formula = formula.and_then(|formula| change_of(&formula, known));
            by_formula.or(figure.direction)
        })
        .collect();
    for (at, one) in figures.iter().enumerate() {
        let others = figures.iter().skip(at + 1);
        found.extend(others.filter_map(|other| difference(one, other)));
    }
    found
}

// From the earlier to the later figure of the same rows.
fn difference(one: &BoundFigure, other: &BoundFigure) -> Option<Ordering> {
    let rows = |figure: &BoundFigure| -> BTreeSet<(String, String)> {
        figure
            .cells
            .iter()
            .map(|cell| (cell.group.clone(), cell.label.clone()))
            .collect()
    };
    let first = one.newest();
    let last = other.newest();
    let lengths_agree =
        first.length.is_none() || last.length.is_none() || first.length == last.length;
    let is_pair = !one.cells.is_empty()
        && rows(one) == rows(other)
        && one.measure == other.measure
        && lengths_agree
        && first.year.is_some()
        && last.year.is_some()
        && first.order() != last.order();
    let (earlier, later) = match first.order() < last.order() {
        true => (one, other),
        false => (other, one),
    };
    is_pair.then(|| {
        compare(
            earlier.value.unwrap_or(earlier.printed),
            later.value.unwrap_or(later.printed),
        )
    })
}

// What flows out is printed as negative, and rises with its amount.
fn compare(earlier: Decimal, later: Decimal) -> Ordering {
    match earlier.is_sign_negative() && later.is_sign_negative() {
        true => later.abs().cmp(&earlier.abs()),
        false => later.cmp(&earlier),
    }
}

// The change that a formula computes: from the earlier to the later of the periods that it compares.
fn change_of<'k>(
    formula: &Formula,
    known: &dyn Fn(&str) -> Option<&'k BoundFigure>,
) -> Option<Ordering> {
    let value = |part: &Formula| {
        part.evaluate(&|name| {
            let input = known(name).map(|figure| figure.value.unwrap_or(figure.printed));
            input.into_iter().collect()
        })
        .ok()
    };
    let between =
        |one: &Formula, other: &Formula| match newest(one, known)?.cmp(&newest(other, known)?) {
            Ordering::Less => Some(compare(value(one)?, value(other)?)),
            Ordering::Greater => Some(compare(value(other)?, value(one)?)),
            Ordering::Equal => None,
        };
    match formula {
        Formula::Binary(Operator::Subtract, left, right) => {
            between(left, right).or_else(|| change_of(left, known))
        }
        // `(a - b) / b` divides a change.
        Formula::Binary(Operator::Divide, left, right) => {
            change_of(left, known).or_else(|| between(left, right))
        }
        Formula::Binary(Operator::Multiply | Operator::Add, left, right) => {
            change_of(left, known).or_else(|| change_of(right, known))
        }
        Formula::Call(Function::Cagr, arguments) => between(arguments.first()?, arguments.get(1)?),
        Formula::Call(Function::Abs, arguments) => change_of(arguments.first()?, known),
        Formula::Negative(inner) => change_of(inner, known),
        _ => None,
    }
}

// The order of the newest period that a part of a formula names.
fn newest<'k>(
    part: &Formula,
    known: &dyn Fn(&str) -> Option<&'k BoundFigure>,
) -> Option<(i32, u32)> {
    let figures = part.names().into_iter().filter_map(known);
    let spans = figures
        .map(BoundFigure::newest)
        .filter(|span| span.year.is_some());
    spans.map(|span| span.order()).max()
}
