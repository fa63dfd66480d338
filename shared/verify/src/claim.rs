//! Claims as a model states them, and as they are checked.

use std::cmp::Ordering;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use stemma_reading::period::StatedPeriod;
use stemma_reading::tables::FigureTable;

use super::quantity::{Measure, Quantity};

/// A claim as the model states it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct StatedClaim {
    /// One sentence with placeholders for figures and their periods: `{a}`, `{a.period}`.
    pub statement: String,
    pub citations: Vec<StatedCitation>,
    pub figures: Vec<StatedFigure>,
    /// Numbers of the pictures that it was read from, from 1.
    pub pictures: Vec<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct StatedCitation {
    /// From 1.
    pub passage: i64,
    pub quote: String,
}

/// A figure that is copied from a page, or computed from others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct StatedFigure {
    /// What placeholders and formulas call it.
    pub name: String,
    /// Which citation of the claim has it, from 1.
    pub citation: i64,
    /// As printed, or the result as the statement should show it.
    pub value: String,
    pub unit: String,
    /// Label and head as printed; empty for a sentence.
    pub row: String,
    pub column: String,
    /// Empty for a copied figure.
    pub formula: String,
}

/// What is shown of a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifiedClaim {
    pub state: ClaimState,
    /// The statement with the figures of the pages; a figure that was not found is shown as stated.
    pub text: String,
    /// In the order of the claim, also those that were not found.
    pub figures: Vec<BoundFigure>,
    /// Names of figures of earlier claims that its statement or formulas use.
    pub earlier: Vec<String>,
    /// Why it is unverified.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimState {
    /// Every figure is on its page as stated.
    Verified,
    /// The same, and at least one figure is the result of its formula.
    Computed,
    /// It has no figure, and all its quotes are on their pages.
    Quoted,
    /// A model read it from the image of a page, which nothing here can check.
    #[serde(rename = "by_sight")]
    FromImage,
    Unverified,
}

/// A figure that was found on its page, or computed from such figures.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BoundFigure {
    pub name: String,
    /// Whether it was; otherwise it is as stated, without a value.
    pub is_found: bool,
    /// As it is shown: `$1,749 million`.
    pub text: String,
    /// In units: `1749000000`, and 0.05 for 5%. `None` if its scale is not known.
    pub value: Option<Decimal>,
    /// `$ million`, `%`; empty if it is not known.
    pub unit: String,
    /// As it is shown: `2022`. Empty if it is not known. A computed figure has the period of its newest input.
    pub period: String,
    /// The words of the page; empty in a sentence.
    pub row: String,
    pub column: String,
    /// Index of its citation in the claim; `None` for a computed figure.
    pub citation: Option<usize>,
    pub formula: String,
    pub(crate) measure: Measure,
    /// Those of its inputs for a computed figure, from the earliest.
    pub(crate) spans: Vec<StatedPeriod>,
    /// Each cell that it was read from.
    pub(crate) cells: Vec<ReadCell>,
    /// Whether its row has a figure of a later period.
    pub(crate) is_older: bool,
    /// Whether its source says that it is a rise or a fall.
    pub(crate) direction: Option<Ordering>,
    /// The value as printed, without its scale.
    pub(crate) printed: Decimal,
    pub(crate) scale: Option<u64>,
}

/// A cell that a figure was read from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReadCell {
    /// The document and table.
    pub(crate) table: String,
    pub(crate) label: String,
    /// With the words of its other columns.
    pub(crate) full_label: String,
    pub(crate) group: String,
}

impl ReadCell {
    pub(crate) fn is_in(&self, table: &FigureTable) -> bool {
        self.table.ends_with(&format!("#{}", table.id))
    }
}

impl BoundFigure {
    /// A figure that was not found, as stated.
    pub(crate) fn not_found(stated: &StatedFigure) -> Self {
        Self {
            name: stated.name.clone(),
            text: one_line(&format!("{} {}", stated.value, stated.unit)),
            period: one_line(&stated.column),
            row: one_line(&stated.row),
            column: one_line(&stated.column),
            citation: stated.citation_index(),
            formula: one_line(&stated.formula),
            ..Self::default()
        }
    }

    pub(crate) fn is_computed(&self) -> bool {
        !self.formula.is_empty()
    }

    /// The newest of its periods.
    pub(crate) fn newest(&self) -> StatedPeriod {
        self.spans.last().copied().unwrap_or_default()
    }

    /// Whether one of its periods is meant by another.
    pub(crate) fn is_of(&self, stated: StatedPeriod) -> bool {
        self.spans.iter().any(|span| span.is_meant_by(&stated))
    }

    /// For formulas: in units, or as printed if its scale is not known.
    pub(crate) fn quantity(&self) -> Quantity {
        let newest = self.newest();
        Quantity {
            value: self.value.unwrap_or(self.printed),
            measure: self.measure,
            is_constant: false,
            newest: newest.year.map(|_| newest.order()),
            change: None,
        }
    }
}

impl StatedFigure {
    /// Index of its citation; `None` for none.
    pub(crate) fn citation_index(&self) -> Option<usize> {
        usize::try_from(self.citation).ok()?.checked_sub(1)
    }
}

pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
