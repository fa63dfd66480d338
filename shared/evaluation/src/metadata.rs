//! Scores the facts of filings against gold metadata.

use serde::Serialize;
use stemma_archive::{ApiError, Archive};
use stemma_document::FilingFacts;

use crate::SkippedEntry;
use crate::fact_score::{FactVerdict, ScoredFact, score};
use crate::facts::fact_names;
use crate::gold::GoldMetadata;
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

/// Scores the facts of the documents that the gold data names. With `count_missing`, a missing document counts as one
/// without facts.
///
/// # Errors
/// [`ApiError`] if the catalog cannot be read.
pub fn eval_metadata(
    archive: &Archive,
    gold: &[GoldMetadata],
    count_missing: bool,
) -> Result<MetadataEval, ApiError> {
    let matcher = DocumentMatcher::new(&archive.catalog)?;
    let mut scored = Vec::new();
    let mut skipped = Vec::new();
    let mut documents = 0;
    for gold in gold {
        let facts = match matcher.find_or_skip(&gold.doc, &mut skipped) {
            Some(document) => document.entry().map(|entry| entry.facts.clone()),
            None => count_missing.then(FilingFacts::default),
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
    Ok(MetadataEval {
        facts,
        mean,
        documents,
        mistakes: scored,
        skipped,
    })
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
