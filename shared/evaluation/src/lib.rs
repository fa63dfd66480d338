//! Scores section trees, texts, facts, search and answers against gold data (`docs/guide/evaluate.md`).
//!
//! Gold entries are matched to the documents of a collection by name. An entry without a document is skipped with a
//! reason and left out of all means, unless the caller counts missing documents.

pub mod answers;
pub mod fact_score;
mod facts;
pub mod gold;
pub mod item_score;
pub mod items;
mod match_documents;
mod matching;
mod means;
pub mod metadata;
mod numbers;
pub mod question;
pub mod retrieval;
pub mod structure;
mod structure_score;
pub mod text;
mod titles;

use serde::Serialize;

/// A gold entry that was not scored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedEntry {
    /// Document name or question id in the gold data.
    pub doc: String,
    pub reason: String,
}

impl SkippedEntry {
    pub fn new(doc: &str, reason: String) -> Self {
        Self {
            doc: doc.into(),
            reason,
        }
    }
}
