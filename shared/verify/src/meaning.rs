//! Whether a formula is what the statement calls its result: a change, an average, a share, or a named measure.
//!
//! The lines of statements and the measures made of them are data (`measures.toml`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rust_decimal::Decimal;
use serde::Deserialize;
use stemma_reading::text_words::{says, without_parentheses};
use stemma_reading::vocabulary::{MEAN_WORDS, NEUTRAL_LABEL_WORDS, SHARE_PHRASES};

use super::claim::{BoundFigure, Measure};
use super::direction::{direction_of, without_labels};
use super::formula::{Formula, Function, Operator};
use super::words::Stems;

// Two ways to compute one value may differ in the last digits of a division.
const TOLERANCE: Decimal = Decimal::from_parts(1, 0, 0, false, 9);

static MEASURES: LazyLock<Measures> =
    LazyLock::new(|| toml::from_str(include_str!("measures.toml")).unwrap_or_default());

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

/// A computed figure and its inputs, in the words of a statement.
pub(crate) struct NamedResult<'r> {
    /// The statement without its figures.
    pub(crate) statement: &'r str,
    pub(crate) figure: &'r BoundFigure,
    pub(crate) inputs: Vec<&'r BoundFigure>,
}

impl NamedResult<'_> {
    /// # Errors
    /// Says what the formula is not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Some(value) = self.figure.value else {
            return Ok(());
        };
        let inputs: Option<Vec<Decimal>> = self.inputs.iter().map(|input| input.value).collect();
        let Some(inputs) = inputs.filter(|_| !self.inputs.iter().any(|input| input.is_computed()))
        else {
            return Ok(());
        };
        let bare = without_labels(self.statement, &self.inputs);
        let expected = self
            .share()
            .or_else(|| self.measure(&bare))
            .or_else(|| self.average(&bare, &inputs))
            .or_else(|| self.change(&bare));
        match expected {
            Some((values, name)) if !values.iter().any(|other| is_near(value, *other)) => {
                Err(format!("{} is not what {name} is", self.figure.formula))
            }
            _ => Ok(()),
        }
    }

    // The values of the measure that the statement names. Without rows that are its lines it has none, and is not verified.
    fn measure(&self, bare: &str) -> Option<(Vec<Decimal>, String)> {
        let statement = Stems::new(bare);
        let named = MEASURES.measures.iter().flat_map(|measure| {
            let names = measure.names.iter();
            names.map(move |name| (Stems::new(name).into_words(), name, measure))
        });
        let (_, name, measure) = named
            .filter(|(stems, ..)| !statement.positions_of(stems).is_empty())
            .max_by_key(|(stems, ..)| stems.len())?;
        let values = |line: &str| self.values_of(line);
        let values = measure
            .formulas
            .iter()
            .filter_map(|formula| Formula::parse(formula).ok()?.evaluate(&values).ok())
            .collect();
        Some((values, format!("the {name}")))
    }

    fn values_of(&self, line: &str) -> Vec<Decimal> {
        let is_outflow = MEASURES.outflows.iter().any(|outflow| outflow == line);
        let names = MEASURES.lines.get(line).map_or(&[][..], Vec::as_slice);
        let names: Vec<Vec<String>> = names.iter().map(|name| line_words(name)).collect();
        let inputs = self.inputs.iter().filter(|input| {
            let [cell] = &input.cells[..] else {
                return false;
            };
            names.contains(&line_words(&cell.label))
        });
        let values = inputs.filter_map(|input| input.value);
        values
            .map(|value| if is_outflow { value.abs() } else { value })
            .collect()
    }

    // `A as a percentage of B` divides the row that is named first by the other.
    fn share(&self) -> Option<(Vec<Decimal>, String)> {
        let lower = self.statement.to_lowercase();
        let at = SHARE_PHRASES.iter().find_map(|phrase| lower.find(phrase))?;
        let whole = lower.get(at..)?;
        let [one, other] = self.inputs[..] else {
            return None;
        };
        let is_whole = |input: &BoundFigure| {
            let stems = input.cells.first().map(|cell| line_words(&cell.label));
            stems.is_some_and(|stems| !Stems::new(whole).positions_of(&stems).is_empty())
        };
        let (part, whole) = match (is_whole(one), is_whole(other)) {
            (true, false) => (other, one),
            (false, true) => (one, other),
            _ => return None,
        };
        let share = Operator::Divide.apply(part.value?, whole.value?).ok()?;
        // What flows out may be printed as negative.
        Some((vec![share, -share], "the share".into()))
    }

    fn average(&self, bare: &str, inputs: &[Decimal]) -> Option<(Vec<Decimal>, String)> {
        let mean = Function::Average.apply(inputs).ok()?;
        says(bare, &MEAN_WORDS).then(|| (vec![mean], "the average".into()))
    }

    // A percentage by which one row rises or falls is its change against the earlier period.
    fn change(&self, bare: &str) -> Option<(Vec<Decimal>, String)> {
        let [one, other] = self.inputs[..] else {
            return None;
        };
        direction_of(bare).filter(|_| self.figure.measure == Measure::Percent)?;
        let is_one_row = one.cells == other.cells && one.newest().order() != other.newest().order();
        let (earlier, later) = match one.newest().order() < other.newest().order() {
            true => (one.value?, other.value?),
            false => (other.value?, one.value?),
        };
        let change = later.checked_sub(earlier)?.checked_div(earlier.abs())?;
        is_one_row.then(|| (vec![change, -change], "the change".into()))
    }
}

/// Whether stems are the name of a measure, which may also be a row of a table.
pub(crate) fn is_measure(stems: &[String]) -> bool {
    let mut names = MEASURES.measures.iter().flat_map(|measure| &measure.names);
    names.any(|name| Stems::new(name).into_words() == stems)
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
