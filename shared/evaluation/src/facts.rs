//! The facts that gold metadata can name, and how each is read from the facts of a filing.

use stemma_document::{Fact, FactDefinition, FilingFacts};

/// A value of a fact by field. Most facts have the single field `value`.
pub(super) type FactFields = Vec<(&'static str, Option<String>)>;

/// A fact that gold metadata names or splits in another way than [`FactDefinition::ALL`].
struct GoldFact {
    name: &'static str,
    /// The first field identifies a value.
    fields: &'static [&'static str],
    read: fn(&FilingFacts) -> Vec<FactFields>,
}

const VALUE: &[&str] = &["value"];

const GOLD_FACTS: [GoldFact; 6] = [
    plain("registrant", |facts| values(&facts.issuer)),
    GoldFact {
        name: "co_registrants",
        fields: &["name", "file_number", "irs_number", "state"],
        read: co_registrants,
    },
    plain("fiscal_quarter", fiscal_quarter),
    plain("tickers", |facts| values(facts.symbols())),
    GoldFact {
        name: "cover_tickers",
        fields: &["symbol", "exchange"],
        read: cover_tickers,
    },
    plain("reported_items", |facts| values(&facts.reported_items)),
];

const fn plain(name: &'static str, read: fn(&FilingFacts) -> Vec<FactFields>) -> GoldFact {
    GoldFact {
        name,
        fields: VALUE,
        read,
    }
}

fn gold_fact(name: &str) -> Option<&'static GoldFact> {
    GOLD_FACTS.iter().find(|fact| fact.name == name)
}

/// The names of all facts, in the order of reports.
pub(super) fn fact_names() -> impl Iterator<Item = &'static str> {
    let defined = FactDefinition::ALL.iter().map(|fact| fact.name);
    GOLD_FACTS.iter().map(|fact| fact.name).chain(defined)
}

/// The fields of a fact, the identifying one first.
pub(super) fn fields_of(name: &str) -> &'static [&'static str] {
    gold_fact(name).map_or(VALUE, |fact| fact.fields)
}

/// The values of a fact in a filing. `None` if there is no fact of this name.
pub(super) fn predicted_values(facts: &FilingFacts, name: &str) -> Option<Vec<FactFields>> {
    match gold_fact(name) {
        Some(fact) => Some((fact.read)(facts)),
        None => {
            let defined = FactDefinition::ALL.iter().find(|fact| fact.name == name)?;
            Some(values(defined.values(facts)))
        }
    }
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
