//! Documents written by hand, with wrong claims over them and the right ones that the same text supports.

use super::judge_pages;
use crate::draft_answer::{DraftCitation, DraftClaim, DraftComputation, DraftOperand};
use crate::figures::CitedPages;
use stemma_verify::QuoteTarget;

// Lines, and claims over them.
pub(super) struct Document {
    pub(super) lines: Vec<String>,
    year_shift: i32,
}

impl Document {
    pub(super) fn new(text: &str) -> Self {
        let lines = text.lines().map(str::to_owned).collect();
        Self {
            lines,
            year_shift: 0,
        }
    }

    // Its fiscal years that end in January or February are named after the year before.
    pub(super) fn with_early_years(self) -> Self {
        Self {
            year_shift: -1,
            ..self
        }
    }

    pub(super) fn check(
        &self,
        statement: &str,
        quotes: &[&str],
        computation: Option<DraftComputation>,
    ) -> bool {
        let citations = quotes.iter().map(|quote| DraftCitation {
            passage: 1,
            quote: (*quote).to_owned(),
        });
        let claim = DraftClaim {
            statement: statement.into(),
            citations: citations.collect(),
            computation,
            pictures: Vec::new(),
        };
        let pages = CitedPages {
            before: None,
            targets: &[QuoteTarget::text(1, &self.lines)],
            year_shift: self.year_shift,
        };
        let verdict = judge_pages(&pages, &claim);
        println!("{statement} / {quotes:?}: {verdict:?}");
        verdict.verified
    }

    // A claim that copies what its quote says.
    pub(super) fn supports(&self, statement: &str, quote: &str) -> bool {
        self.check(statement, &[quote], None)
    }

    // A claim with a formula over `value row period` operands named a, b, …, each of which cites the line that begins with its row.
    pub(super) fn computes(
        &self,
        statement: &str,
        formula: &str,
        operands: &[[&str; 3]],
        result: &str,
    ) -> bool {
        let line = |row: &str| self.lines.iter().find(|line| line.contains(row));
        let quotes: Vec<&str> = operands
            .iter()
            .filter_map(|[_, row, _]| line(row).map(String::as_str))
            .collect();
        let operands = operands.iter().zip(["a", "b", "c"]).zip(1..);
        let operands = operands.map(|(([value, row, period], name), citation)| DraftOperand {
            name: name.into(),
            citation,
            value: (*value).into(),
            row: (*row).into(),
            period: (*period).into(),
        });
        let computation = DraftComputation {
            formula: formula.into(),
            operands: operands.collect(),
            result: result.into(),
        };
        self.check(statement, &quotes, Some(computation))
    }
}
