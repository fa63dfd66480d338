//! Scores the section trees of a collection against gold structures.

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

/// Means of `StructureScore` over documents. `None` if no gold structure covers the figure.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct StructureMeans {
    /// `all`, or the source of the gold data.
    pub set: String,
    pub documents: usize,
    pub precision: Option<f64>,
    pub recall: Option<f64>,
    pub f1: Option<f64>,
    pub same_page: Option<f64>,
    pub near_page: Option<f64>,
    pub loc_f1: Option<f64>,
    pub level: Option<f64>,
    pub ancestor: Option<f64>,
    pub parent: Option<f64>,
    pub coverage: Option<f64>,
    /// Sum over all documents.
    pub faults: usize,
    /// Sum over all documents.
    pub outside: usize,
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
        let (published, locator) = match matcher.find(&gold.doc) {
            Ok(document) => (
                archive.load_tree(&document).await?,
                Some(document.label.clone()),
            ),
            Err(reason) => {
                skipped.push(SkippedEntry::new(&gold.doc, reason));
                (None, None)
            }
        };
        if published.is_none() && !count_missing {
            continue;
        }
        let tree = published.as_deref().map(|published| &published.tree);
        match score(gold, tree) {
            Some(score) => documents.push(StructureRow {
                doc: gold.doc.clone(),
                locator,
                source: gold.source.clone(),
                scope: gold.scope(),
                pages: gold.pages,
                score,
            }),
            None => skipped.push(SkippedEntry::new(
                &gold.doc,
                "too many sections to compare".into(),
            )),
        }
    }
    Ok(StructureEval {
        means: means_by_group(&documents, |row| &row.source, StructureMeans::new),
        documents,
        skipped,
    })
}

impl StructureMeans {
    /// The figures of a single document.
    pub fn from_row(row: &StructureRow) -> Self {
        Self::new(&row.doc, &[row])
    }

    fn new(set: &str, rows: &[&StructureRow]) -> Self {
        let scores: Vec<&StructureScore> = rows.iter().map(|row| &row.score).collect();
        let scores = scores.as_slice();
        Self {
            set: set.into(),
            documents: rows.len(),
            precision: mean_of(scores, |score| score.precision),
            recall: mean_of(scores, |score| Some(score.recall)),
            f1: mean_of(scores, |score| Some(score.f1)),
            same_page: mean_of(scores, |score| Some(score.same_page)),
            near_page: mean_of(scores, |score| Some(score.near_page)),
            loc_f1: mean_of(scores, |score| Some(score.loc_f1)),
            level: mean_of(scores, |score| score.level),
            ancestor: mean_of(scores, |score| score.ancestor),
            parent: mean_of(scores, |score| score.parent),
            coverage: mean_of(scores, |score| score.coverage),
            faults: scores
                .iter()
                .map(|score| score.faults.values().sum::<usize>())
                .sum(),
            outside: scores.iter().map(|score| score.outside).sum(),
        }
    }
}

fn mean_of(scores: &[&StructureScore], figure: fn(&StructureScore) -> Option<f64>) -> Option<f64> {
    mean(scores.iter().filter_map(|score| figure(score)))
}
