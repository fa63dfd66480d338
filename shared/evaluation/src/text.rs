//! Scores the text of pages against gold texts.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;
use stemma_archive::{ApiError, Archive};
use stemma_catalog::catalog::CatalogDocument;
use stemma_document::{Page, SourceBody, common_subsequence_len};
use unicode_normalization::UnicodeNormalization;

use crate::SkippedEntry;
use crate::gold::GoldPageText;
use crate::match_documents::DocumentMatcher;
use crate::means::mean;

static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\d[\d,]*\.?\d*").ok());
/// A page with a lower word F1 counts as weak.
const WEAK_BELOW: f64 = 0.9;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TextEval {
    pub documents: Vec<TextRow>,
    /// Scored pages.
    pub pages: usize,
    /// Means over pages.
    pub means: TextScore,
    /// Share of pages with a word F1 below 0.9.
    pub weak_pages: f64,
    #[serde(rename = "unscored")]
    pub skipped: Vec<SkippedEntry>,
}

/// The scores of one document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TextRow {
    /// Name in the gold data.
    pub doc: String,
    /// `None` for a missing document that counts as an empty text.
    pub locator: Option<String>,
    /// Means over the scored pages.
    #[serde(flatten)]
    pub score: TextScore,
    pub pages: Vec<PageScore>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PageScore {
    /// Physical page.
    pub page: u32,
    #[serde(flatten)]
    pub score: TextScore,
}

/// Scores of a page, or means over pages (0–1).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct TextScore {
    /// F1 of the bag of words.
    pub words: f64,
    /// F1 of the longest common subsequence of words.
    pub ordered: f64,
    /// F1 of the bag of numbers.
    pub numbers: f64,
    /// F1 of the bag of characters without spaces.
    pub characters: f64,
}

/// Scores the pages that the gold data names. A page that the document does not have is empty.
pub async fn eval_text(
    archive: &Archive,
    gold: &[GoldPageText],
    count_missing: bool,
) -> Result<TextEval, ApiError> {
    let matcher = DocumentMatcher::new(&archive.catalog)?;
    let mut by_doc: BTreeMap<&str, Vec<&GoldPageText>> = BTreeMap::new();
    for page in gold {
        by_doc.entry(&page.doc).or_default().push(page);
    }
    let mut documents = Vec::new();
    let mut skipped = Vec::new();
    for (doc, gold_pages) in by_doc {
        let document = matcher.find_or_skip(doc, &mut skipped);
        let body = match &document {
            Some(document) => load_body(archive, document).await?,
            None => None,
        };
        if let (Some(_), None) = (&document, &body) {
            let reason = "its text is not in the store".into();
            skipped.push(SkippedEntry::new(doc, reason));
        }
        if body.is_none() && !count_missing {
            continue;
        }
        let locator = document
            .filter(|_| body.is_some())
            .map(|document| document.label.clone());
        let pages: Vec<PageScore> = gold_pages
            .iter()
            .map(|gold| PageScore {
                page: gold.page,
                score: score(&gold.text, &page_text(body.as_ref(), gold.page)),
            })
            .collect();
        documents.push(TextRow {
            doc: doc.into(),
            locator,
            score: TextScore::mean(&pages),
            pages,
        });
    }
    let pages: Vec<PageScore> = documents.iter().flat_map(|row| row.pages.clone()).collect();
    let weak_pages = pages
        .iter()
        .filter(|page| page.score.words < WEAK_BELOW)
        .count();
    Ok(TextEval {
        documents,
        pages: pages.len(),
        means: TextScore::mean(&pages),
        weak_pages: weak_pages as f64 / pages.len().max(1) as f64,
        skipped,
    })
}

/// Scores the text of one page.
pub fn score(gold: &str, predicted: &str) -> TextScore {
    let gold = normalize(gold);
    let predicted = normalize(predicted);
    let gold_words: Vec<&str> = gold.split_whitespace().collect();
    let predicted_words: Vec<&str> = predicted.split_whitespace().collect();
    let common_order = common_subsequence_len(&gold_words, &predicted_words);
    let word_count = gold_words.len() + predicted_words.len();
    TextScore {
        words: bag_f1(&gold_words, &predicted_words),
        ordered: (2 * common_order) as f64 / word_count.max(1) as f64,
        numbers: bag_f1(&numbers(&gold), &numbers(&predicted)),
        characters: bag_f1(&characters(&gold_words), &characters(&predicted_words)),
    }
}

impl TextScore {
    /// The mean over pages; 0 without pages.
    fn mean(pages: &[PageScore]) -> Self {
        Self {
            words: mean_of(pages, |score| score.words),
            ordered: mean_of(pages, |score| score.ordered),
            numbers: mean_of(pages, |score| score.numbers),
            characters: mean_of(pages, |score| score.characters),
        }
    }
}

fn mean_of(pages: &[PageScore], figure: fn(&TextScore) -> f64) -> f64 {
    mean(pages.iter().map(|page| figure(&page.score))).unwrap_or_default()
}

async fn load_body(
    archive: &Archive,
    document: &CatalogDocument,
) -> Result<Option<SourceBody>, ApiError> {
    let Some(published) = archive.load_tree(document).await? else {
        return Ok(None);
    };
    Ok(archive.load_body(&published).await?)
}

fn page_text(body: Option<&SourceBody>, page: u32) -> String {
    match body {
        Some(SourceBody::Pages(pages)) => (page as usize)
            .checked_sub(1)
            .and_then(|index| pages.get(index))
            .map(Page::text)
            .unwrap_or_default(),
        Some(SourceBody::Lines(text)) if page == 1 => text.lines.join("\n"),
        Some(SourceBody::Lines(_)) | None => String::new(),
    }
}

fn characters(words: &[&str]) -> Vec<char> {
    words.iter().flat_map(|word| word.chars()).collect()
}

fn numbers(text: &str) -> Vec<&str> {
    let numbers = NUMBER.iter().flat_map(|number| number.find_iter(text));
    numbers.map(|number| number.as_str()).collect()
}

/// NFKC with plain dashes, quotes and bullets, without soft hyphens and invisible characters.
fn normalize(text: &str) -> String {
    fn plain(c: char) -> Option<char> {
        match c {
            '\u{2010}'..='\u{2014}' | '\u{2212}' => Some('-'),
            '\u{2018}' | '\u{2019}' => Some('\''),
            '\u{201c}' | '\u{201d}' => Some('"'),
            '\u{2022}' | '\u{b7}' | '\u{25cf}' => Some('*'),
            '\u{ad}' | '\u{200b}' | '\u{feff}' => None,
            '\u{a0}' => Some(' '),
            c => Some(c),
        }
    }
    // NFKC both hides and creates characters that are replaced.
    text.chars()
        .filter_map(plain)
        .nfkc()
        .filter_map(plain)
        .collect()
}

/// F1 of two bags; 1 if both are empty.
fn bag_f1<T: Eq + std::hash::Hash>(a: &[T], b: &[T]) -> f64 {
    if a.is_empty() && b.is_empty() {
        return 1.0;
    }
    let mut remaining: HashMap<&T, usize> = HashMap::new();
    for item in a {
        *remaining.entry(item).or_default() += 1;
    }
    let mut common = 0;
    for item in b {
        if let Some(count) = remaining.get_mut(item).filter(|count| **count > 0) {
            *count -= 1;
            common += 1;
        }
    }
    (2 * common) as f64 / (a.len() + b.len()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_distinguish_order_numbers_and_letters() {
        let reordered = score("Net sales 1,234.5 rose", "rose Net sales 1,234.5");
        assert_eq!(reordered.words, 1.0);
        assert_eq!(reordered.ordered, 0.75);
        assert_eq!(reordered.numbers, 1.0);
        assert_eq!(reordered.characters, 1.0);
    }

    #[test]
    fn typographic_variants_are_equal() {
        let gold = "\u{201c}a\u{ad}b\u{201d} \u{2013} \u{fb01}n";
        assert_eq!(score(gold, "\"ab\" - fin").ordered, 1.0);
    }

    #[test]
    fn only_two_empty_texts_agree() {
        assert_eq!(score("", "").words, 1.0);
        assert_eq!(score("x", "").words, 0.0);
    }
}
