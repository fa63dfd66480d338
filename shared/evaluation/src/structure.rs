//! Scores the section trees of a collection against gold structures.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_archive::{ApiError, Archive};

use crate::SkippedEntry;
use crate::gold::{GoldScope, GoldStructure};
use crate::match_documents::DocumentMatcher;
use crate::means::{mean, means_by_group};
use crate::structure_score::{StructureScore, score};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StructureEval {
    /// In the order of the gold data.
    pub documents: Vec<StructureRow>,
    /// Means of all documents, and of each source if there are several.
    pub means: Vec<StructureMeans>,
    #[serde(rename = "unscored")]
    pub skipped: Vec<SkippedEntry>,
}

/// The scores of one document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StructureRow {
    /// Name in the gold data.
    pub doc: String,
    /// `None` for a missing document that counts as an empty tree.
    pub locator: Option<String>,
    /// Source of the gold data.
    pub source: String,
    pub scope: GoldScope,
    /// Page count in the gold data.
    pub pages: Option<u32>,
    #[serde(flatten)]
    pub score: StructureScore,
}

/// The figures of a document.
pub fn figures() -> [(&'static str, Figure); 9] {
    [
        ("precision", |score| score.precision),
        ("recall", |score| Some(score.recall)),
        ("f1", |score| Some(score.f1)),
        ("same_page", |score| Some(score.same_page)),
        ("near_page", |score| Some(score.near_page)),
        ("loc_f1", |score| Some(score.loc_f1)),
        ("level", |score| score.level),
        ("ancestor", |score| score.ancestor),
        ("parent", |score| score.parent),
    ]
}

/// Reads a figure; `None` if the gold structure does not cover it.
pub type Figure = fn(&StructureScore) -> Option<f64>;

/// Means of figures over documents. `None` if no gold structure covers the figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StructureMeans {
    /// `all`, or the source of the gold data.
    pub set: String,
    pub documents: usize,
    #[serde(flatten)]
    pub figures: BTreeMap<&'static str, Option<f64>>,
}

/// Scores the trees of the documents that the gold data names. With `count_missing`, a missing document counts as one
/// with an empty tree.
pub async fn eval_structure(
    archive: &Archive,
    gold: &[GoldStructure],
    count_missing: bool,
) -> Result<StructureEval, ApiError> {
    let matcher = DocumentMatcher::new(&archive.catalog)?;
    let mut documents = Vec::new();
    let mut skipped = Vec::new();
    for gold in gold {
        let document = matcher.find_or_skip(&gold.doc, &mut skipped);
        let published = match &document {
            Some(document) => archive.load_tree(document).await?,
            None => None,
        };
        if published.is_none() && !count_missing {
            continue;
        }
        let tree = published.as_deref().map(|published| &published.tree);
        match score(gold, tree) {
            Some(score) => documents.push(StructureRow {
                doc: gold.doc.clone(),
                locator: document.map(|document| document.label.clone()),
                source: gold.source.clone(),
                scope: gold.scope(),
                pages: gold.pages,
                score,
            }),
            None => {
                let reason = "too many sections to compare".into();
                skipped.push(SkippedEntry::new(&gold.doc, reason));
            }
        }
    }
    Ok(StructureEval {
        means: means_by_group(&documents, |row| &row.source, StructureMeans::new),
        documents,
        skipped,
    })
}

impl StructureMeans {
    fn new(set: &str, rows: &[&StructureRow]) -> Self {
        Self {
            set: set.into(),
            documents: rows.len(),
            figures: (figures().iter())
                .map(|(name, figure)| {
                    let values = rows.iter().filter_map(|row| figure(&row.score));
                    (*name, mean(values))
                })
                .collect(),
        }
    }
}
