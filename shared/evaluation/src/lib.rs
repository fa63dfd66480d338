//! How good trees, texts and facts are, measured against truths (`docs/EVAL.md`).
//!
//! The scores are pure functions ([`structure`], [`text`], [`metadata`]); [`Archive`] pairs truths with the documents of
//! its collection. A truth without a document is listed, and left out of all means unless it shall count.

pub mod answers;
mod match_documents;
mod matching;
pub mod metadata;
mod numbers;
pub mod question;
pub mod retrieval;
pub mod structure;
pub mod text;
mod titles;
pub mod truth;

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_catalog::catalog::CatalogDocument;
use stemma_document::{FilingFacts, SourceBody};

use self::match_documents::DocumentMatcher;
use self::metadata::{FactVerdict, JudgedFact};
use self::structure::StructureScore;
use self::text::TextScore;
use self::truth::{MetadataTruth, PageTextTruth, StructureTruth, TruthScope};
use stemma_archive::{ApiError, Archive};

/// A truth that nothing was scored against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedTruth {
    /// What the truth calls its document.
    pub doc: String,
    /// Why.
    pub reason: String,
}

/// Trees against truths.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StructureEval {
    /// Document by document, in the order of the truths.
    pub documents: Vec<StructureRow>,
    /// Means of all, and of each source of truths where there are several.
    pub means: Vec<StructureMeans>,
    /// Truths without a tree.
    pub unscored: Vec<SkippedTruth>,
}

/// A document against its truth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StructureRow {
    /// What the truth calls it.
    pub doc: String,
    /// What to paste back; `None` for a truth without a tree that counts as nothing.
    pub locator: Option<String>,
    /// Where the truth comes from.
    pub source: String,
    /// Which sections it speaks of.
    pub scope: TruthScope,
    /// Its pages, as the truth has it.
    pub pages: Option<u32>,
    /// The scores.
    #[serde(flatten)]
    pub score: StructureScore,
}

/// Means over documents; `None` where no truth says anything about it.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct StructureMeans {
    /// `all`, or a source of truths.
    pub set: String,
    /// Documents.
    pub documents: usize,
    /// See [`StructureScore`].
    pub precision: Option<f64>,
    /// See [`StructureScore`].
    pub recall: Option<f64>,
    /// See [`StructureScore`].
    pub f1: Option<f64>,
    /// See [`StructureScore`].
    pub same_page: Option<f64>,
    /// See [`StructureScore`].
    pub near_page: Option<f64>,
    /// See [`StructureScore`].
    pub loc_f1: Option<f64>,
    /// See [`StructureScore`].
    pub level: Option<f64>,
    /// See [`StructureScore`].
    pub ancestor: Option<f64>,
    /// See [`StructureScore`].
    pub parent: Option<f64>,
    /// See [`StructureScore`].
    pub coverage: Option<f64>,
    /// Structural faults of all documents.
    pub faults: usize,
    /// Sections of all documents that leave their parent's pages.
    pub outside: usize,
}

/// Texts against truths.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TextEval {
    /// Document by document.
    pub documents: Vec<TextRow>,
    /// Pages scored.
    pub pages: usize,
    /// Means over pages.
    pub means: TextScore,
    /// Share of pages with a word F1 below 0.9.
    pub weak_pages: f64,
    /// Truths without a text.
    pub unscored: Vec<SkippedTruth>,
}

/// The pages of a document against their truths.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TextRow {
    /// What the truth calls it.
    pub doc: String,
    /// What to paste back; `None` for truths without a text that count as nothing.
    pub locator: Option<String>,
    /// Means over its pages.
    #[serde(flatten)]
    pub score: TextScore,
    /// Page by page.
    pub pages: Vec<PageScore>,
}

/// A page against its truth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PageScore {
    /// Physical page.
    pub page: u32,
    /// Its scores.
    #[serde(flatten)]
    pub score: TextScore,
}

/// Facts against truths.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetadataEval {
    /// Fact by fact.
    pub facts: Vec<FactRow>,
    /// Mean of the facts' scores.
    pub mean: f64,
    /// Documents scored.
    pub documents: usize,
    /// Facts that are not right, document by document.
    pub mistakes: Vec<WrongFact>,
    /// Truths without a tree.
    pub unscored: Vec<SkippedTruth>,
}

/// How often a fact was right.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct FactRow {
    /// Its name.
    pub fact: String,
    /// Documents whose truth speaks of it.
    pub judged: usize,
    /// As in the truth, also where that is nothing.
    pub right: usize,
    /// Another value.
    pub wrong: usize,
    /// Nothing, though the document states it.
    pub missing: usize,
    /// A value, though the document states none.
    pub invented: usize,
    /// Right among judged.
    pub score: f64,
}

/// A fact that is not right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WrongFact {
    /// What the truth calls the document.
    pub doc: String,
    /// The fact.
    #[serde(flatten)]
    pub fact: JudgedFact,
}

/// Scores the trees of the documents that the truths name. With `count_missing`, a truth without a tree counts as
/// one with an empty tree.
///
/// # Errors
/// [`ApiError`] when the store cannot be read.
pub async fn eval_structure(
    archive: &Archive,
    truths: &[StructureTruth],
    count_missing: bool,
) -> Result<StructureEval, ApiError> {
    let pairing = DocumentMatcher::new(&archive.catalog);
    let mut documents = Vec::new();
    let mut unscored = Vec::new();
    for truth in truths {
        let (tree, locator) = match pairing.find(&truth.doc) {
            Ok(listed) => (archive.load_tree(listed).await?, Some(listed.label.clone())),
            Err(reason) => {
                unscored.push(SkippedTruth {
                    doc: truth.doc.clone(),
                    reason,
                });
                (None, None)
            }
        };
        if tree.is_none() && !count_missing {
            continue;
        }
        let tree = tree.as_deref().map(|published| &published.tree);
        match structure::score(truth, tree) {
            Some(score) => documents.push(row(truth, locator, score)),
            None => {
                unscored.push(SkippedTruth {
                    doc: truth.doc.clone(),
                    reason: "too many sections to compare".into(),
                });
            }
        }
    }
    Ok(StructureEval {
        means: means(&documents),
        documents,
        unscored,
    })
}

/// Scores the texts of the pages that the truths name; a page that the document does not have is empty.
///
/// # Errors
/// [`ApiError`] when the store cannot be read.
pub async fn eval_text(
    archive: &Archive,
    truths: &[PageTextTruth],
    count_missing: bool,
) -> Result<TextEval, ApiError> {
    let pairing = DocumentMatcher::new(&archive.catalog);
    let mut by_doc: BTreeMap<&str, Vec<&PageTextTruth>> = BTreeMap::new();
    truths
        .iter()
        .for_each(|truth| by_doc.entry(&truth.doc).or_default().push(truth));
    let mut documents = Vec::new();
    let mut unscored = Vec::new();
    for (doc, truths) in by_doc {
        let matched = match pairing.find(doc) {
            Ok(listed) => load_body_of(archive, listed)
                .await?
                .map(|body| (body, listed.label.clone()))
                .ok_or("its text is not in the store".into()),
            Err(reason) => Err(reason),
        };
        let (body, locator) = match matched {
            Ok((body, locator)) => (Some(body), Some(locator)),
            Err(reason) => {
                unscored.push(SkippedTruth {
                    doc: doc.into(),
                    reason,
                });
                (None, None)
            }
        };
        if body.is_some() || count_missing {
            let pages = truths.iter().map(|truth| PageScore {
                page: truth.page,
                score: text::score(&truth.text, &page_text(body.as_ref(), truth.page)),
            });
            let pages: Vec<PageScore> = pages.collect();
            let scores: Vec<TextScore> = pages.iter().map(|page| page.score).collect();
            documents.push(TextRow {
                doc: doc.into(),
                locator,
                score: TextScore::mean(&scores),
                pages,
            });
        }
    }
    let scores: Vec<TextScore> = documents
        .iter()
        .flat_map(|row| &row.pages)
        .map(|page| page.score)
        .collect();
    let weak = scores.iter().filter(|score| score.words < 0.9).count();
    let weak_pages = weak as f64 / scores.len().max(1) as f64;
    Ok(TextEval {
        documents,
        pages: scores.len(),
        means: TextScore::mean(&scores),
        weak_pages,
        unscored,
    })
}

/// Judges the facts of the documents that the truths name.
///
/// # Errors
/// [`ApiError`] when the store cannot be read.
pub fn eval_metadata(
    archive: &Archive,
    truths: &[MetadataTruth],
    count_missing: bool,
) -> MetadataEval {
    let pairing = DocumentMatcher::new(&archive.catalog);
    let mut judged = Vec::new();
    let mut unscored = Vec::new();
    let mut documents = 0;
    for truth in truths {
        let facts = match pairing.find(&truth.doc) {
            Ok(listed) => listed.entry().map(|entry| entry.facts.clone()),
            Err(reason) => {
                unscored.push(SkippedTruth {
                    doc: truth.doc.clone(),
                    reason,
                });
                count_missing.then(FilingFacts::default)
            }
        };
        let Some(facts) = facts else { continue };
        documents += 1;
        judged.extend(
            metadata::judge(truth, &facts)
                .into_iter()
                .map(|fact| WrongFact {
                    doc: truth.doc.clone(),
                    fact,
                }),
        );
    }
    let facts = fact_rows(&judged);
    let mean = facts.iter().map(|row| row.score).sum::<f64>() / facts.len().max(1) as f64;
    let mistakes = judged
        .into_iter()
        .filter(|judged| judged.fact.verdict != FactVerdict::Right)
        .collect();
    MetadataEval {
        facts,
        mean,
        documents,
        mistakes,
        unscored,
    }
}

async fn load_body_of(
    archive: &Archive,
    listed: &CatalogDocument,
) -> Result<Option<SourceBody>, ApiError> {
    let Some(published) = archive.load_tree(listed).await? else {
        return Ok(None);
    };
    Ok(archive.load_body(&published).await?)
}

fn row(truth: &StructureTruth, locator: Option<String>, score: StructureScore) -> StructureRow {
    let doc = truth.doc.clone();
    let source = truth.source.clone();
    StructureRow {
        doc,
        locator,
        source,
        scope: truth.scope(),
        pages: truth.pages,
        score,
    }
}

fn page_text(body: Option<&SourceBody>, page: u32) -> String {
    match body {
        Some(SourceBody::Pages(pages)) => {
            let page = (page as usize)
                .checked_sub(1)
                .and_then(|index| pages.get(index));
            page.map(stemma_document::Page::text).unwrap_or_default()
        }
        Some(SourceBody::Lines(text)) if page == 1 => text.lines.join("\n"),
        Some(SourceBody::Lines(_)) | None => String::new(),
    }
}

/// Means of all documents, and of each source where there are several.
fn means(documents: &[StructureRow]) -> Vec<StructureMeans> {
    let mut sets: BTreeMap<&str, Vec<&StructureRow>> = BTreeMap::new();
    documents
        .iter()
        .for_each(|row| sets.entry(&row.source).or_default().push(row));
    let all =
        (!documents.is_empty()).then(|| means_of("all", &documents.iter().collect::<Vec<_>>()));
    let several = if sets.len() > 1 {
        sets
    } else {
        BTreeMap::new()
    };
    all.into_iter()
        .chain(several.iter().map(|(set, rows)| means_of(set, rows)))
        .collect()
}

impl StructureMeans {
    /// The figures of one document.
    pub fn from_row(row: &StructureRow) -> Self {
        means_of(&row.doc, &[row])
    }
}

fn means_of(set: &str, rows: &[&StructureRow]) -> StructureMeans {
    let mean = |field: &dyn Fn(&StructureScore) -> Option<f64>| {
        let values: Vec<f64> = rows.iter().filter_map(|row| field(&row.score)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    StructureMeans {
        set: set.into(),
        documents: rows.len(),
        precision: mean(&|score| score.precision),
        recall: mean(&|score| Some(score.recall)),
        f1: mean(&|score| Some(score.f1)),
        same_page: mean(&|score| Some(score.same_page)),
        near_page: mean(&|score| Some(score.near_page)),
        loc_f1: mean(&|score| Some(score.loc_f1)),
        level: mean(&|score| score.level),
        ancestor: mean(&|score| score.ancestor),
        parent: mean(&|score| score.parent),
        coverage: mean(&|score| score.coverage),
        faults: rows
            .iter()
            .map(|row| row.score.faults.values().sum::<usize>())
            .sum(),
        outside: rows.iter().map(|row| row.score.outside).sum(),
    }
}

fn fact_rows(judged: &[WrongFact]) -> Vec<FactRow> {
    let mut rows: Vec<FactRow> = metadata::FACTS
        .iter()
        .map(|fact| FactRow {
            fact: (*fact).into(),
            ..FactRow::default()
        })
        .collect();
    for WrongFact { fact, .. } in judged {
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
