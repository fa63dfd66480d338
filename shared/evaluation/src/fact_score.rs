//! Compares the facts of one filing with gold metadata.

use serde::Serialize;
use stemma_document::FilingFacts;
use unicode_normalization::UnicodeNormalization;

use crate::facts::{FactFields, predicted_values};
use crate::gold::{GoldMetadata, gold_values};

/// A predicted fact compared with its gold values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScoredFact {
    pub fact: String,
    pub verdict: FactVerdict,
    /// Empty: the document does not state the fact.
    #[serde(rename = "wanted")]
    pub gold: Vec<String>,
    #[serde(rename = "found")]
    pub predicted: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FactVerdict {
    /// The gold values, or correctly none.
    Right,
    /// Other values than the gold ones.
    Wrong,
    /// False negative: none, though the document states the fact.
    Missing,
    /// False positive: a value, though the document states none.
    Invented,
}

/// Scores every fact that the gold data covers.
pub fn score(gold: &GoldMetadata, facts: &FilingFacts) -> Vec<ScoredFact> {
    gold.facts
        .iter()
        .filter_map(|(name, value)| {
            let gold = gold_values(name, value)?;
            let predicted = predicted_values(facts, name)?;
            let verdict = match (gold.as_slice(), predicted.as_slice()) {
                ([], []) => FactVerdict::Right,
                ([], _) => FactVerdict::Invented,
                (_, []) => FactVerdict::Missing,
                (gold, predicted) if match_all(gold, predicted) => FactVerdict::Right,
                _ => FactVerdict::Wrong,
            };
            Some(ScoredFact {
                fact: name.clone(),
                verdict,
                gold: gold.iter().map(join_fields).collect(),
                predicted: predicted.iter().map(join_fields).collect(),
            })
        })
        .collect()
}

/// Whether the values match one to one, in any order, in the fields that the gold value has.
fn match_all(gold: &[FactFields], predicted: &[FactFields]) -> bool {
    let mut left: Vec<&FactFields> = predicted.iter().collect();
    gold.len() == predicted.len()
        && gold.iter().all(|gold| {
            let found = left.iter().position(|predicted| matches(gold, predicted));
            found.map(|at| left.swap_remove(at)).is_some()
        })
}

fn matches(gold: &FactFields, predicted: &FactFields) -> bool {
    gold.iter().all(|(field, value)| {
        let found = predicted
            .iter()
            .find(|(name, _)| name == field)
            .and_then(|(_, value)| value.as_deref());
        value.as_deref().map(normalize) == found.map(normalize)
    })
}

fn join_fields(fields: &FactFields) -> String {
    let values: Vec<&str> = fields
        .iter()
        .filter_map(|(_, value)| value.as_deref())
        .collect();
    values.join(" ")
}

/// Lower case, single spaces, straight quotes.
fn normalize(value: &str) -> String {
    let lower: String = value
        .nfkc()
        .flat_map(char::to_lowercase)
        .map(|c| match c {
            '\u{2018}' | '\u{2019}' => '\'',
            c => c,
        })
        .collect();
    lower.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use stemma_document::{Fact, Ticker};

    use super::*;

    #[test]
    fn every_verdict_is_reached() {
        let text = |value: &str| Fact::from_text(value, None);
        let ticker = |symbol: &str| Ticker {
            symbol: text(symbol),
            exchange: None,
        };
        let facts = FilingFacts {
            form: Some(text("10-K")),
            issuer: Some(text("3M Company")),
            fiscal_year: Some(text("2023")),
            fiscal_period: Some(text("Q2")),
            tickers: vec![ticker("MMM"), ticker("MMM26")],
            cik: Some(text("66740")),
            ..FilingFacts::default()
        };
        let gold = r#"{"doc": "a", "form": "10-Q", "registrant": "3M  COMPANY", "fiscal_year": 2023, "fiscal_quarter": 2,
            "tickers": ["mmm26", "MMM"], "cik": null, "state": "Delaware", "accession": [],
            "cover_tickers": [{"symbol": "MMM26", "exchange": null}, {"symbol": "mmm"}], "co_registrants": ["B Corp"]}"#;
        let gold: GoldMetadata = serde_json::from_str(gold).unwrap();
        let verdicts: Vec<_> = score(&gold, &facts)
            .into_iter()
            .map(|scored| (scored.fact, scored.verdict))
            .collect();
        let expected = [
            ("accession", FactVerdict::Right),
            ("cik", FactVerdict::Invented),
            ("co_registrants", FactVerdict::Missing),
            ("cover_tickers", FactVerdict::Right),
            ("fiscal_quarter", FactVerdict::Right),
            ("fiscal_year", FactVerdict::Right),
            ("form", FactVerdict::Wrong),
            ("registrant", FactVerdict::Right),
            ("state", FactVerdict::Missing),
            ("tickers", FactVerdict::Right),
        ];
        assert_eq!(
            verdicts,
            expected.map(|(name, verdict)| (name.to_string(), verdict))
        );
    }
}
