//! The facts that gold metadata can name, and how each is read from the facts of a filing.

use stemma_document::{Fact, FilingFacts};

/// A value of a fact by field. Most facts have the single field `value`.
pub(super) type FactFields = Vec<(&'static str, Option<String>)>;

/// A fact of gold metadata.
struct NamedFact {
    name: &'static str,
    /// The first field identifies a value.
    fields: &'static [&'static str],
    read: fn(&FilingFacts) -> Vec<FactFields>,
}

const VALUE: &[&str] = &["value"];

const fn plain(name: &'static str, read: fn(&FilingFacts) -> Vec<FactFields>) -> NamedFact {
    NamedFact {
        name,
        fields: VALUE,
        read,
    }
}

const FACTS: [NamedFact; 16] = [
    plain("form", |facts| values(&facts.form)),
    plain("registrant", |facts| values(&facts.issuer)),
    NamedFact {
        name: "co_registrants",
        fields: &["name", "file_number", "irs_number", "state"],
        read: co_registrants,
    },
    plain("period_end", |facts| values(&facts.period_end)),
    plain("fiscal_year", |facts| values(&facts.fiscal_year)),
    plain("fiscal_quarter", fiscal_quarter),
    plain("fiscal_period", |facts| values(&facts.fiscal_period)),
    plain("filed", |facts| values(&facts.filed)),
    plain("file_number", |facts| values(&facts.file_number)),
    plain("irs_number", |facts| values(&facts.irs_number)),
    plain("state", |facts| values(&facts.state)),
    plain("tickers", |facts| values(facts.symbols())),
    NamedFact {
        name: "cover_tickers",
        fields: &["symbol", "exchange"],
        read: cover_tickers,
    },
    plain("reported_items", |facts| values(&facts.reported_items)),
    plain("cik", |facts| values(&facts.cik)),
    plain("accession", |facts| values(&facts.accession)),
];

/// The names of all facts, in the order of reports.
pub(super) fn fact_names() -> impl Iterator<Item = &'static str> {
    FACTS.iter().map(|fact| fact.name)
}

pub(super) fn is_fact(name: &str) -> bool {
    fact_names().any(|known| known == name)
}

/// The fields of a fact, the identifying one first; empty for unknown facts.
pub(super) fn fields_of(name: &str) -> &'static [&'static str] {
    FACTS
        .iter()
        .find(|fact| fact.name == name)
        .map_or(&[], |fact| fact.fields)
}

/// The values of a fact in a filing. `None` if there is no fact of this name.
pub(super) fn predicted_values(facts: &FilingFacts, name: &str) -> Option<Vec<FactFields>> {
    let fact = FACTS.iter().find(|fact| fact.name == name)?;
    Some((fact.read)(facts))
}

fn values<'a>(facts: impl IntoIterator<Item = &'a Fact>) -> Vec<FactFields> {
    facts
        .into_iter()
        .map(|fact| vec![(VALUE[0], Some(fact.value.clone()))])
        .collect()
}

/// The number of a fiscal period such as `Q2`.
fn fiscal_quarter(facts: &FilingFacts) -> Vec<FactFields> {
    facts
        .fiscal_period
        .iter()
        .filter_map(|period| period.value.strip_prefix('Q'))
        .map(|quarter| vec![(VALUE[0], Some(quarter.into()))])
        .collect()
}

fn co_registrants(facts: &FilingFacts) -> Vec<FactFields> {
    let fields = facts.co_registrants.iter().map(|registrant| {
        vec![
            ("name", Some(registrant.name.value.clone())),
            ("file_number", registrant.file_number.clone()),
            ("irs_number", registrant.irs_number.clone()),
            ("state", registrant.state.clone()),
        ]
    });
    fields.collect()
}

fn cover_tickers(facts: &FilingFacts) -> Vec<FactFields> {
    let fields = facts.tickers.iter().map(|ticker| {
        vec![
            ("symbol", Some(ticker.symbol.value.clone())),
            ("exchange", ticker.exchange.clone()),
        ]
    });
    fields.collect()
}
