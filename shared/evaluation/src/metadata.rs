//! Scores the facts of filings against gold metadata.

use serde::Serialize;
use stemma_archive::Archive;
use stemma_document::FilingFacts;
use unicode_normalization::UnicodeNormalization;

use crate::SkippedEntry;
use crate::facts::{fact_names, predicted_values};
use crate::gold::{GoldMetadata, gold_values};
use crate::match_documents::DocumentMatcher;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetadataEval {
    /// Facts with at least one gold value.
    pub facts: Vec<FactRow>,
    /// Mean of the scores of all facts.
    pub mean: f64,
    /// Scored documents.
    pub documents: usize,
    /// All facts that are not right, in the order of the gold data.
    pub mistakes: Vec<WrongFact>,
    #[serde(rename = "unscored")]
    pub skipped: Vec<SkippedEntry>,
}

/// Counts of one fact over all documents.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct FactRow {
    pub fact: String,
    /// Documents with a gold value or a gold `null`.
    pub judged: usize,
    pub right: usize,
    pub wrong: usize,
    pub missing: usize,
    pub invented: usize,
    /// `right / judged`.
    pub score: f64,
}

/// A fact that is not right in a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WrongFact {
    pub doc: String,
    #[serde(flatten)]
    pub fact: ScoredFact,
}

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

/// Scores the facts of the documents that the gold data names. With `count_missing`, a missing document counts as one
/// without facts.
pub fn eval_metadata(
    archive: &Archive,
    gold: &[GoldMetadata],
    count_missing: bool,
) -> MetadataEval {
    let matcher = DocumentMatcher::new(&archive.catalog);
    let mut scored = Vec::new();
    let mut skipped = Vec::new();
    let mut documents = 0;
    for gold in gold {
        let facts = match matcher.find(&gold.doc) {
            Ok(document) => document.entry().map(|entry| entry.facts.clone()),
            Err(reason) => {
                skipped.push(SkippedEntry::new(&gold.doc, reason));
                count_missing.then(FilingFacts::default)
            }
        };
        let Some(facts) = facts else { continue };
        documents += 1;
        scored.extend(score(gold, &facts).into_iter().map(|fact| WrongFact {
            doc: gold.doc.clone(),
            fact,
        }));
    }
    let facts = fact_rows(&scored);
    let mean = facts.iter().map(|row| row.score).sum::<f64>() / facts.len().max(1) as f64;
    scored.retain(|scored| scored.fact.verdict != FactVerdict::Right);
    MetadataEval {
        facts,
        mean,
        documents,
        mistakes: scored,
        skipped,
    }
}

/// Scores every fact that the gold data covers.
pub fn score(gold: &GoldMetadata, facts: &FilingFacts) -> Vec<ScoredFact> {
    gold.facts
        .iter()
        .filter_map(|(name, value)| {
            let gold = gold_values(value)?;
            let predicted = predicted_values(facts, name)?;
            let verdict = match (gold.as_slice(), predicted.as_slice()) {
                (a, b) if normalized_values(a) == normalized_values(b) => FactVerdict::Right,
                ([], _) => FactVerdict::Invented,
                (_, []) => FactVerdict::Missing,
                _ => FactVerdict::Wrong,
            };
            Some(ScoredFact {
                fact: name.clone(),
                verdict,
                gold,
                predicted,
            })
        })
        .collect()
}

fn fact_rows(scored: &[WrongFact]) -> Vec<FactRow> {
    let mut rows: Vec<FactRow> = fact_names()
        .map(|fact| FactRow {
            fact: fact.into(),
            ..FactRow::default()
        })
        .collect();
    for WrongFact { fact, .. } in scored {
        let Some(row) = rows.iter_mut().find(|row| row.fact == fact.fact) else {
            continue;
        };
        row.judged += 1;
        match fact.verdict {
            FactVerdict::Right => row.right += 1,
            FactVerdict::Wrong => row.wrong += 1,
            FactVerdict::Missing => row.missing += 1,
            FactVerdict::Invented => row.invented += 1,
        }
    }
    rows.retain(|row| row.judged > 0);
    rows.iter_mut()
        .for_each(|row| row.score = row.right as f64 / row.judged as f64);
    rows
}

/// Lower case, single spaces, straight quotes, sorted.
fn normalized_values(values: &[String]) -> Vec<String> {
    let mut normalized: Vec<String> = values.iter().map(|value| normalize(value)).collect();
    normalized.sort();
    normalized
}

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
            "tickers": ["mmm26", "MMM"], "cik": null, "state": "Delaware", "accession": []}"#;
        let gold: GoldMetadata = serde_json::from_str(gold).unwrap();
        let verdicts: Vec<_> = score(&gold, &facts)
            .into_iter()
            .map(|scored| (scored.fact, scored.verdict))
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
}
