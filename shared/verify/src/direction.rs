//! Whether what a statement says to rise or to fall does so between the periods of its figures.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use rust_decimal::Decimal;
use stemma_reading::text_words::{blank, words};
use stemma_reading::vocabulary::{DECREASES, INCREASES};

use super::claim::BoundFigure;
use super::template::FilledText;
use super::words::Stems;

/// The direction that a text speaks of, up (`Greater`) or down (`Less`); `None` for neither or both.
pub(crate) fn direction_of(text: &str) -> Option<Ordering> {
    let found = directions(text);
    let (_, first) = found.first()?;
    let is_one = found.iter().all(|(_, other)| other == first);
    is_one.then_some(*first)
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
pub(crate) fn without_labels<'f>(
    text: &str,
    figures: impl Iterator<Item = &'f BoundFigure>,
) -> String {
    let stems = Stems::new(text);
    let labels = figures.flat_map(|figure| &figure.cells);
    let places = labels.flat_map(|cell| stems.positions_of(&Stems::new(&cell.label).into_words()));
    blank(text, places.collect::<Vec<_>>().iter())
}

/// Compares the directions of a statement with its figures. Each direction applies to the figures up to the next direction.
///
/// # Errors
/// Says that the figures move in another direction, or have no two periods.
pub(crate) fn check_directions(filled: &FilledText<'_>) -> Result<(), String> {
    let figures = || filled.figures.iter().map(|placed| placed.figure);
    if figures().next().is_none() {
        return Ok(());
    }
    let mut found = directions(&without_labels(&filled.text, figures()));
    found.dedup_by_key(|(_, direction)| *direction);
    let mut start = 0;
    for (index, (_, stated)) in found.iter().enumerate() {
        let end = found
            .get(index + 1)
            .map_or(filled.text.len(), |(at, _)| *at);
        let inside: Vec<&BoundFigure> = filled
            .figures
            .iter()
            .filter(|placed| (start..end).contains(&placed.at.start))
            .map(|placed| placed.figure)
            .collect();
        let actual = changes(&inside);
        if actual.is_empty() {
            let reason = "the statement says that something rises or falls, without two periods";
            return Err(reason.into());
        }
        if actual.iter().any(|actual| actual != stated) {
            return Err("the figures do not rise or fall as the statement says".into());
        }
        start = end;
    }
    Ok(())
}

// How the figures change: as their sources or formulas say, or between two periods of one row.
fn changes(figures: &[&BoundFigure]) -> Vec<Ordering> {
    let rows = |figure: &BoundFigure| -> BTreeSet<(String, String)> {
        figure
            .cells
            .iter()
            .map(|cell| (cell.group.clone(), cell.label.clone()))
            .collect()
    };
    let mut found: Vec<Ordering> = figures
        .iter()
        .filter_map(|figure| figure.direction)
        .collect();
    for (at, one) in figures.iter().enumerate() {
        for other in &figures[at + 1..] {
            let lengths = (one.newest().length, other.newest().length);
            let is_pair = !one.cells.is_empty()
                && rows(one) == rows(other)
                && one.measure == other.measure
                && one.value.is_some() == other.value.is_some()
                && (lengths.0.is_none() || lengths.1.is_none() || lengths.0 == lengths.1);
            let change = one.quantity().change_to(&other.quantity());
            found.extend(change.filter(|_| is_pair));
        }
    }
    found
}
