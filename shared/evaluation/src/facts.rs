//! The facts that gold metadata can name, and how each is read from the facts of a filing.

use stemma_document::{Fact, FilingFacts};

/// Name of a fact, and its values in a filing.
type NamedFact = (&'static str, fn(&FilingFacts) -> Vec<String>);

const FACTS: [NamedFact; 15] = [
    ("form", |facts| values(&facts.form)),
    ("registrant", |facts| values(&facts.issuer)),
    ("period_end", |facts| values(&facts.period_end)),
    ("fiscal_year", |facts| values(&facts.fiscal_year)),
    ("fiscal_quarter", fiscal_quarter),
    ("fiscal_period", |facts| values(&facts.fiscal_period)),
    ("filed", |facts| values(&facts.filed)),
    ("file_number", |facts| values(&facts.file_number)),
    ("irs_number", |facts| values(&facts.irs_number)),
    ("state", |facts| values(&facts.state)),
    ("tickers", |facts| {
        values(facts.tickers.iter().map(|ticker| &ticker.symbol))
    }),
    ("shares_outstanding", |facts| {
        values(&facts.shares_outstanding)
    }),
    ("reported_items", |facts| values(&facts.reported_items)),
    ("cik", |facts| values(&facts.cik)),
    ("accession", |facts| values(&facts.accession)),
];

/// The names of all facts, in the order of reports.
pub(super) fn fact_names() -> impl Iterator<Item = &'static str> {
    FACTS.iter().map(|(name, _)| *name)
}

pub(super) fn is_fact(name: &str) -> bool {
    fact_names().any(|known| known == name)
}

/// The values of a fact in a filing. `None` if there is no fact of this name.
pub(super) fn predicted_values(facts: &FilingFacts, name: &str) -> Option<Vec<String>> {
    let (_, read) = FACTS.iter().find(|(known, _)| *known == name)?;
    Some(read(facts))
}

fn values<'a>(facts: impl IntoIterator<Item = &'a Fact>) -> Vec<String> {
    facts.into_iter().map(|fact| fact.value.clone()).collect()
}

/// The number of a fiscal period such as `Q2`.
fn fiscal_quarter(facts: &FilingFacts) -> Vec<String> {
    facts
        .fiscal_period
        .iter()
        .filter_map(|period| period.value.strip_prefix('Q'))
        .map(Into::into)
        .collect()
}
