//! Whether a formula is what the statement calls its result: a change, an average, a share, or a named measure.
//!
//! The lines of statements and the measures made of them are data (`measures.toml`).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use rust_decimal::Decimal;
use serde::Deserialize;
use stemma_reading::text_words::{says, without_parentheses};
use stemma_reading::vocabulary::{MEAN_WORDS, NEUTRAL_LABEL_WORDS, POINT_WORDS, SHARE_PHRASES};

use super::claim::BoundFigure;
use super::direction::{direction_of, without_labels};
use super::formula::Formula;
use super::quantity::Quantity;
use super::words::Stems;

// Two ways to compute one value may differ in the last digits of a division.
const TOLERANCE: Decimal = Decimal::from_parts(1, 0, 0, false, 9);

static MEASURES: LazyLock<Measures> =
    LazyLock::new(|| toml::from_str(include_str!("measures.toml")).unwrap_or_default());
static TERMS: LazyLock<Vec<Term>> = LazyLock::new(|| {
    let lines = MEASURES.lines.iter().flat_map(|(line, names)| {
        let meaning = Meaning::Line(line);
        names.iter().map(move |name| Term::new(name, meaning))
    });
    let measures = MEASURES.measures.iter().flat_map(|measure| {
        let meaning = Meaning::Measure(measure);
        measure
            .names
            .iter()
            .map(move |name| Term::new(name, meaning))
    });
    lines.chain(measures).collect()
});

/// A name of a line of a statement, or of a measure.
pub(crate) struct Term {
    name: &'static str,
    pub(crate) stems: Vec<String>,
    meaning: Meaning,
}

#[derive(Clone, Copy)]
enum Meaning {
    Line(&'static str),
    Measure(&'static NamedMeasure),
}

impl Term {
    fn new(name: &'static str, meaning: Meaning) -> Self {
        Self {
            name,
            stems: Stems::new(name).into_words(),
            meaning,
        }
    }

    pub(crate) fn all() -> &'static [Self] {
        &TERMS
    }

    pub(crate) fn is_measure(&self) -> bool {
        matches!(self.meaning, Meaning::Measure(_))
    }

    /// Whether it is one of these lines.
    pub(crate) fn is_line_of(&self, lines: &[&str]) -> bool {
        matches!(self.meaning, Meaning::Line(line) if lines.contains(&line))
    }
}

/// The lines of statements that a label means.
pub(crate) fn lines_of(label: &str) -> Vec<&'static str> {
    let words = line_words(label);
    let lines = TERMS.iter().filter_map(|term| match term.meaning {
        Meaning::Line(line) if line_words(term.name) == words => Some(line),
        _ => None,
    });
    lines.collect()
}

#[derive(Debug, Default, Deserialize)]
struct Measures {
    /// Lines whose amount is meant, whatever sign is printed.
    outflows: Vec<String>,
    /// Names of lines of statements.
    lines: BTreeMap<String, Vec<String>>,
    measures: Vec<NamedMeasure>,
}

#[derive(Debug, Deserialize)]
struct NamedMeasure {
    names: Vec<String>,
    /// Formulas over lines.
    formulas: Vec<String>,
}

/// The values that a figure may have, and what it is called.
type Expected = (Vec<Decimal>, String);

/// Whether a computed figure is what the statement calls it.
///
/// # Errors
/// Says what the formula is not.
pub(crate) fn check_meaning(
    statement: &str,
    figure: &BoundFigure,
    inputs: &[&BoundFigure],
) -> Result<(), String> {
    let is_copied = inputs
        .iter()
        .all(|input| input.value.is_some() && !input.is_computed());
    let Some(value) = figure.value.filter(|_| is_copied) else {
        return Ok(());
    };
    let bare = without_labels(statement, inputs.iter().copied());
    let expected = share(statement, inputs)
        .or_else(|| measure(&bare, inputs))
        .or_else(|| average(statement, &bare, inputs))
        .or_else(|| change(&bare, figure, inputs));
    match expected {
        Some((values, name)) if !values.iter().any(|other| is_near(value, *other)) => {
            Err(format!("{} is not what {name} is", figure.formula))
        }
        _ => Ok(()),
    }
}

// The values of the measure that the statement names. Without rows that are its lines it has none, and is not verified.
fn measure(bare: &str, inputs: &[&BoundFigure]) -> Option<Expected> {
    let statement = Stems::new(bare);
    let named = TERMS.iter().filter_map(|term| match term.meaning {
        Meaning::Measure(measure) => Some((term, measure)),
        Meaning::Line(_) => None,
    });
    let (term, measure) = named
        .filter(|(term, _)| !statement.positions_of(&term.stems).is_empty())
        .max_by_key(|(term, _)| term.stems.len())?;
    let values = |line: &str| {
        let is_outflow = MEASURES.outflows.iter().any(|outflow| outflow == line);
        let inputs = inputs.iter().filter(|input| match &input.cells[..] {
            [cell] => lines_of(&cell.label).contains(&line),
            _ => false,
        });
        let values = inputs.filter_map(|input| input.value);
        let values = values.map(|value| if is_outflow { value.abs() } else { value });
        values.map(Quantity::constant).collect()
    };
    let results = measure
        .formulas
        .iter()
        .filter_map(|formula| Some(Formula::parse(formula).ok()?.evaluate(&values).ok()?.value));
    Some((results.collect(), format!("the {}", term.name)))
}

// `A as a percentage of B` divides the row that is named before by the one that is named behind. A label may be a part of the other:
// `total equity as a percentage of total liabilities and equity`.
fn share(statement: &str, inputs: &[&BoundFigure]) -> Option<Expected> {
    let lower = statement.to_lowercase();
    let at = SHARE_PHRASES.iter().find_map(|phrase| lower.find(phrase))?;
    let [one, other] = inputs else {
        return None;
    };
    let [named_before, named_behind] = [&lower[..at], &lower[at..]].map(|text| {
        let text = Stems::new(text);
        let words_of = |input: &BoundFigure| {
            let words = input.cells.first().map(|cell| line_words(&cell.label));
            let words = words.filter(|words| !text.positions_of(words).is_empty());
            words.map_or(0, |words| words.len())
        };
        words_of(one).cmp(&words_of(other))
    });
    let (part, whole) = match (named_behind, named_before) {
        (Ordering::Less, _) | (Ordering::Equal, Ordering::Greater) => (one, other),
        (Ordering::Greater, _) | (Ordering::Equal, Ordering::Less) => (other, one),
        (Ordering::Equal, Ordering::Equal) => return None,
    };
    let share = part.value?.checked_div(whole.value?)?;
    // What flows out may be printed as negative.
    Some((vec![share, -share], "the share".into()))
}

// An average is one of a row over its periods, or of rows that the statement names.
fn average(statement: &str, bare: &str, inputs: &[&BoundFigure]) -> Option<Expected> {
    if !says(bare, &MEAN_WORDS) {
        return None;
    }
    let stems = Stems::new(statement);
    let is_named = inputs.iter().flat_map(|input| &input.cells).all(|cell| {
        let label = Stems::new(&without_parentheses(&cell.label));
        !stems.positions_of(&label.into_words()).is_empty()
    });
    let is_one_row = inputs.iter().all(|input| input.cells == inputs[0].cells);
    let values = inputs.iter().filter_map(|input| input.value);
    let values: Vec<Quantity> = values.map(Quantity::constant).collect();
    let mean = Quantity::call("avg", &values).ok()?.value;
    let mean = (is_one_row || is_named).then_some(mean);
    Some((mean.into_iter().collect(), "the average".into()))
}

// A percentage by which one row rises or falls is its change against the earlier period, and points are their difference.
fn change(bare: &str, figure: &BoundFigure, inputs: &[&BoundFigure]) -> Option<Expected> {
    let [one, other] = inputs else {
        return None;
    };
    direction_of(bare).filter(|_| one.cells == other.cells)?;
    let (earlier, later) = match one.newest().order().cmp(&other.newest().order()) {
        Ordering::Less => (one.value?, other.value?),
        Ordering::Greater => (other.value?, one.value?),
        Ordering::Equal => return None,
    };
    let difference = later.checked_sub(earlier)?;
    let change = match figure.unit.as_str() {
        "%" => difference.checked_div(earlier.abs())?,
        unit if POINT_WORDS.occurs_in(unit) => difference,
        _ => return None,
    };
    Some((vec![change, -change], "the change".into()))
}

// The words of a line that tell it from others.
fn line_words(label: &str) -> Vec<String> {
    let words = Stems::new(&without_parentheses(label)).into_words();
    words
        .into_iter()
        .filter(|word| !NEUTRAL_LABEL_WORDS.contains(word.as_str()))
        .collect()
}

fn is_near(one: Decimal, other: Decimal) -> bool {
    let most = one.abs().max(other.abs()).max(Decimal::ONE);
    let difference = one.checked_sub(other).map(|difference| difference.abs());
    difference
        .zip(most.checked_mul(TOLERANCE))
        .is_some_and(|(difference, allowed)| difference <= allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_formulas_over_known_lines() {
        assert!(MEASURES.measures.len() > 30 && MEASURES.lines.len() > 20);
        for formula in MEASURES
            .measures
            .iter()
            .flat_map(|measure| &measure.formulas)
        {
            let parsed = Formula::parse(formula).unwrap();
            for name in parsed.names() {
                assert!(MEASURES.lines.contains_key(name), "{formula}: {name}");
            }
        }
    }
}
