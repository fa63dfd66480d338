//! Right and wrong claims over generated pages in many layouts: right ones are shown as verified or computed, wrong ones never.

mod columns;
mod documents;
mod faults;
mod formulas;
mod generated;
mod hostile;
mod plans;
mod tables;
mod tagged;
mod texts;

use stemma_document::{Page, PageNo, SourceBody, TextLines};
use stemma_reading::document_reading::DocumentReading;
use stemma_xbrl::FactTable;

use crate::{
    BoundFigure, ClaimState, Evidence, QuoteTarget, StatedCitation, StatedClaim, StatedFigure,
    VerifiedClaim, check_quote, verify_claim,
};

const LOCATION: &str = "Item 8 Financial Statements\nACME 2022 10K.pdf\nAcme Corporation 10-K 2022";

/// Pages or lines with their reading, as the product has them.
struct Document {
    pages: Vec<Page>,
    // Of a document without pages.
    lines: Vec<String>,
    reading: DocumentReading,
    facts: Option<FactTable>,
    year_shift: i32,
}

impl Document {
    fn new(pages: Vec<Page>) -> Self {
        let reading = DocumentReading::new(&SourceBody::Pages(pages.clone()));
        Self {
            pages,
            lines: Vec::new(),
            reading,
            facts: None,
            year_shift: 0,
        }
    }

    fn without_pages(lines: Vec<String>) -> Self {
        let text = TextLines {
            lines: lines.clone(),
            ..TextLines::default()
        };
        Self {
            reading: DocumentReading::new(&SourceBody::Lines(text)),
            lines,
            ..Self::new(Vec::new())
        }
    }

    fn verify(&self, claim: &StatedClaim) -> VerifiedClaim {
        self.verify_with(claim, &[])
    }

    // A citation is of the page with its number.
    fn verify_with(&self, claim: &StatedClaim, known: &[BoundFigure]) -> VerifiedClaim {
        let targets: Vec<QuoteTarget<'_>> = self
            .pages
            .iter()
            .zip(1..)
            .map(|(page, number)| QuoteTarget::page(number, page))
            .chain((!self.lines.is_empty()).then(|| QuoteTarget::text(1, &self.lines)))
            .collect();
        let evidence: Vec<Option<Evidence<'_>>> = claim
            .citations
            .iter()
            .map(|citation| {
                let first = usize::try_from(citation.passage).ok()?.checked_sub(1)?;
                let targets = targets.get(first..(first + 2).min(targets.len()))?;
                Some(Evidence {
                    quote: check_quote(&citation.quote, targets),
                    targets,
                    tables: self.reading.tables.iter().collect(),
                    facts: self.facts.as_ref(),
                    year_shift: self.year_shift,
                    marks: self.reading.lines.marks(PageNo::new(first as u32 + 1)),
                    location: LOCATION,
                })
            })
            .collect();
        verify_claim(claim, &evidence, known)
    }

    fn shows(&self, claim: &StatedClaim) -> bool {
        let verified = self.verify(claim);
        println!(
            "{}: {:?} {:?}",
            verified.text, verified.state, verified.reason
        );
        is_shown(&verified)
    }
}

fn is_shown(claim: &VerifiedClaim) -> bool {
    matches!(claim.state, ClaimState::Verified | ClaimState::Computed)
}

fn citation(quote: &str) -> StatedCitation {
    StatedCitation {
        passage: 1,
        quote: quote.to_owned(),
    }
}

// `value | unit | row | column`, named a, b, … and cited in this order.
fn copied(name: &str, citation: i64, figure: [&str; 4]) -> StatedFigure {
    let [value, unit, row, column] = figure.map(str::to_owned);
    StatedFigure {
        name: name.to_owned(),
        citation,
        value,
        unit,
        row,
        column,
        formula: String::new(),
    }
}

fn computed(name: &str, value: &str, unit: &str, formula: &str) -> StatedFigure {
    StatedFigure {
        name: name.to_owned(),
        value: value.to_owned(),
        unit: unit.to_owned(),
        formula: formula.to_owned(),
        ..StatedFigure::default()
    }
}
