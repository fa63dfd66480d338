//! How many facts of a document are right.

use serde::Serialize;
use serde_json::Value;
use stemma_document::FilingFacts;
use unicode_normalization::UnicodeNormalization;

use crate::truth::MetadataTruth;

/// Facts that can be judged, by the names that truths call them.
pub const FACTS: [&str; 15] = [
    "form",
    "registrant",
    "period_end",
    "fiscal_year",
    "fiscal_quarter",
    "fiscal_period",
    "filed",
    "file_number",
    "irs_number",
    "state",
    "tickers",
    "shares_outstanding",
    "reported_items",
    "cik",
    "accession",
];

/// What became of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FactVerdict {
    /// As in the truth, also where that is nothing.
    Right,
    /// Another value.
    Wrong,
    /// Nothing, though the document states it.
    Missing,
    /// A value, though the document states none.
    Invented,
}

/// A judged fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JudgedFact {
    /// Its name.
    pub fact: String,
    /// What became of it.
    pub verdict: FactVerdict,
    /// What is true; empty: not stated.
    #[serde(rename = "wanted")]
    pub expected: Vec<String>,
    /// What was found.
    #[serde(rename = "found")]
    pub actual: Vec<String>,
}

/// Judges every fact that the truth speaks of.
pub fn judge(truth: &MetadataTruth, facts: &FilingFacts) -> Vec<JudgedFact> {
    truth
        .facts
        .iter()
        .filter_map(|(name, expected): (&String, &Value)| {
            let expected = truth_values(expected)?;
            let actual = values(facts, name)?;
            let verdict = match (expected.as_slice(), actual.as_slice()) {
                (a, b) if normalized_values(a) == normalized_values(b) => FactVerdict::Right,
                ([], _) => FactVerdict::Invented,
                (_, []) => FactVerdict::Missing,
                _ => FactVerdict::Wrong,
            };
            Some(JudgedFact {
                fact: name.clone(),
                verdict,
                expected,
                actual,
            })
        })
        .collect()
}

/// What a truth says a fact is; `None` where it is neither a value nor a list of values nor nothing.
pub(super) fn truth_values(value: &Value) -> Option<Vec<String>> {
    let plain = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    match value {
        Value::Null => Some(Vec::new()),
        Value::Array(list) => list.iter().map(plain).collect(),
        one => plain(one).map(|one| vec![one]),
    }
}

/// What was found under a name; `None` for a name that is no fact's.
fn values(facts: &FilingFacts, name: &str) -> Option<Vec<String>> {
    let one = |fact: &Option<stemma_document::Fact>| {
        fact.iter()
            .map(|fact| fact.value.clone())
            .collect::<Vec<_>>()
    };
    let many =
        |facts: &[stemma_document::Fact]| facts.iter().map(|fact| fact.value.clone()).collect();
    Some(match name {
        "form" => one(&facts.form),
        "registrant" => one(&facts.issuer),
        "period_end" => one(&facts.period_end),
        "fiscal_year" => one(&facts.fiscal_year),
        "fiscal_quarter" => one(&facts.fiscal_period)
            .iter()
            .filter_map(|period| period.strip_prefix('Q'))
            .map(Into::into)
            .collect(),
        "fiscal_period" => one(&facts.fiscal_period),
        "filed" => one(&facts.filed),
        "file_number" => one(&facts.file_number),
        "irs_number" => one(&facts.irs_number),
        "state" => one(&facts.state),
        "tickers" => facts
            .tickers
            .iter()
            .map(|ticker| ticker.symbol.value.clone())
            .collect(),
        "shares_outstanding" => many(&facts.shares_outstanding),
        "reported_items" => many(&facts.reported_items),
        "cik" => one(&facts.cik),
        "accession" => one(&facts.accession),
        _ => return None,
    })
}

/// Without regard to case, white space, the shape of quotes, and the order of several values.
fn normalized_values(values: &[String]) -> Vec<String> {
    let mut folded: Vec<String> = values
        .iter()
        .map(|value: &String| {
            let plain = value.nfkc().flat_map(char::to_lowercase).map(|c| match c {
                '\u{2018}' | '\u{2019}' => '\'',
                c => c,
            });
            plain
                .collect::<String>()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    folded.sort();
    folded
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
        let truth = r#"{"doc": "a", "form": "10-Q", "registrant": "3M  COMPANY", "fiscal_year": 2023, "fiscal_quarter": 2,
            "tickers": ["mmm26", "MMM"], "cik": null, "state": "Delaware", "accession": []}"#;
        let truth: MetadataTruth = serde_json::from_str(truth).unwrap();
        let verdicts: Vec<_> = judge(&truth, &facts)
            .into_iter()
            .map(|judged| (judged.fact, judged.verdict))
            .collect();
        let expected = [
            ("accession", FactVerdict::Right),
            ("cik", FactVerdict::Invented),
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

    #[test]
    fn every_fact_has_values() {
        for name in FACTS {
            assert_eq!(
                values(&FilingFacts::default(), name),
                Some(Vec::new()),
                "{name}"
            );
        }
        assert_eq!(values(&FilingFacts::default(), "sic"), None);
    }
}
