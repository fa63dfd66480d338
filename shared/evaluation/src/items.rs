//! Scores the Item maps of filings against gold Items.

use serde::Serialize;
use stemma_archive::{ApiError, Archive};

use crate::SkippedEntry;
use crate::gold::GoldItems;
use crate::item_score::{ItemQuestion, ScoredItem, score};
use crate::match_documents::DocumentMatcher;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ItemsEval {
    /// Questions with at least one gold answer.
    pub questions: Vec<QuestionRow>,
    /// Scored gold entries; a document may have several.
    pub entries: usize,
    /// All answers that are not right, in the order of the gold data.
    pub mistakes: Vec<WrongItem>,
    #[serde(rename = "unscored")]
    pub skipped: Vec<SkippedEntry>,
}

/// Counts of one question over all Items.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuestionRow {
    pub question: ItemQuestion,
    pub judged: usize,
    pub right: usize,
    pub confident_wrong: usize,
    /// `right / judged`.
    pub score: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WrongItem {
    pub doc: String,
    #[serde(flatten)]
    pub item: ScoredItem,
}

/// Scores the Item maps of the documents that the gold data names. With `count_missing`, a missing document counts as
/// one without Items.
///
/// # Errors
/// [`ApiError`] if the store cannot be read.
pub async fn eval_items(
    archive: &Archive,
    gold: &[GoldItems],
    count_missing: bool,
) -> Result<ItemsEval, ApiError> {
    let matcher = DocumentMatcher::new(&archive.catalog)?;
    let mut scored = Vec::new();
    let mut skipped = Vec::new();
    let mut entries = 0;
    for gold in gold {
        let published = match matcher.find_or_skip(&gold.doc, &mut skipped) {
            Some(document) => archive.load_tree(&document).await?,
            None => None,
        };
        if published.is_none() && !count_missing {
            continue;
        }
        entries += 1;
        let tree = published.as_deref().map(|published| &published.tree);
        scored.extend(score(gold, tree).into_iter().map(|item| WrongItem {
            doc: gold.doc.clone(),
            item,
        }));
    }
    let questions = ItemQuestion::ALL
        .into_iter()
        .filter_map(|question| QuestionRow::new(question, &scored))
        .collect();
    scored.retain(|scored| !scored.item.right);
    Ok(ItemsEval {
        questions,
        entries,
        mistakes: scored,
        skipped,
    })
}

impl QuestionRow {
    fn new(question: ItemQuestion, scored: &[WrongItem]) -> Option<Self> {
        let mut answers: Vec<&ScoredItem> = scored.iter().map(|scored| &scored.item).collect();
        answers.retain(|item| item.question == question);
        let right = answers.iter().filter(|item| item.right).count();
        (!answers.is_empty()).then(|| Self {
            question,
            judged: answers.len(),
            right,
            confident_wrong: answers.iter().filter(|item| item.confident).count(),
            score: right as f64 / answers.len() as f64,
        })
    }
}
