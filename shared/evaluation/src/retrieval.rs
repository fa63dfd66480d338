//! Scores search on questions with gold pages: hit rate, recall and mean reciprocal rank.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;
use stemma_archive::{
    ApiError, Archive, SearchRequest, SearchResponse, document_part, is_store_error,
};
use stemma_document::Extent;
use stemma_document::rounding::rounded;

use crate::SkippedEntry;
use crate::match_documents::DocumentMatcher;
use crate::means::{indicator, mean, means_by_group, percentile};
use crate::question::GoldQuestion;

/// The cutoffs k of hit@k and recall@k.
pub const DEPTHS: [usize; 5] = [1, 3, 5, 10, 20];
/// Sections per search, enough for the pages of the largest cutoff.
const MAX_SECTIONS: usize = 100;
/// Pages that a row lists.
const LISTED_PAGES: usize = 10;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetrievalEval {
    pub questions: Vec<RetrievalRow>,
    /// Means of all questions, and of each kind if there are several.
    pub means: Vec<RetrievalMeans>,
    /// Questions that were not searched.
    #[serde(rename = "unscored")]
    pub skipped: Vec<SkippedEntry>,
}

/// The search result of one question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetrievalRow {
    pub id: String,
    pub kind: String,
    /// Locator of the searched document; `None` for the whole collection.
    pub within: Option<String>,
    /// Number of gold pages.
    #[serde(rename = "gold")]
    pub gold_pages: usize,
    /// Rank of the first gold page, from 1.
    #[serde(rename = "first")]
    pub first_rank: Option<usize>,
    /// Ranks of all retrieved gold pages, from 1.
    pub ranks: Vec<usize>,
    /// The best page is of a gold document.
    #[serde(rename = "document")]
    pub is_document_correct: bool,
    pub latency_ms: f64,
    /// Locators of the best pages.
    #[serde(rename = "found")]
    pub top_pages: Vec<String>,
}

/// Means over questions.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RetrievalMeans {
    /// `all`, or a kind of question.
    pub set: String,
    pub questions: usize,
    /// hit@k: share of questions with a gold page among the first k.
    pub hit: BTreeMap<usize, f64>,
    /// recall@k: mean share of the gold pages among the first k.
    pub recall: BTreeMap<usize, f64>,
    /// Mean reciprocal rank of the first gold page.
    pub mrr: f64,
    /// Share of questions whose best page is of a gold document.
    pub document: f64,
    /// Median latency.
    pub p50_ms: f64,
    /// 95th percentile of the latency.
    pub p95_ms: f64,
}

/// The best pages of all hits by descending score: document locator and physical page.
pub fn ranked_pages(response: &SearchResponse) -> Vec<(String, u32)> {
    let mut pages = Vec::new();
    for hit in &response.hits {
        let document = document_part(&hit.locator);
        for page in &hit.best_pages {
            pages.push((page.score, (document.clone(), page.page)));
        }
    }
    pages.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    pages.into_iter().map(|(_, page)| page).collect()
}

/// Searches each question and ranks its gold pages. With `everywhere`, the whole collection is searched even if a question names its document. With `count_missing`, a question whose document is
/// missing counts as one without hits.
///
/// # Errors
/// [`ApiError`] if the store cannot be read. A question that cannot be searched is skipped.
pub async fn eval_retrieval(
    archive: &Archive,
    questions: &[GoldQuestion],
    everywhere: bool,
    count_missing: bool,
) -> Result<RetrievalEval, ApiError> {
    let matcher = DocumentMatcher::new(&archive.catalog)?;
    let mut rows = Vec::new();
    let mut skipped = Vec::new();
    for question in questions {
        let (gold_pages, document) = match resolve_gold(question, &matcher) {
            Ok(resolved) => resolved,
            Err(_) if count_missing && !question.gold_pages.is_empty() => {
                let unknown = vec![(String::new(), 0); question.gold_pages.len()];
                rows.push(RetrievalRow::new(question, None, &unknown, &[], 0.0));
                continue;
            }
            Err(reason) => {
                skipped.push(SkippedEntry::new(&question.id, reason));
                continue;
            }
        };
        let within = document.filter(|_| !everywhere);
        let request = SearchRequest {
            query: question.question.clone(),
            scopes: within.iter().cloned().collect(),
            limit: Some(MAX_SECTIONS),
            ..SearchRequest::default()
        };
        let began = Instant::now();
        let response = match archive.search(&request).await {
            Ok(response) => response,
            Err(error) if is_store_error(error.code) => return Err(error),
            Err(error) => {
                skipped.push(SkippedEntry::new(&question.id, error.message));
                continue;
            }
        };
        let latency_ms = rounded(began.elapsed().as_secs_f64() * 1e3, 2);
        let ranked = ranked_pages(&response);
        rows.push(RetrievalRow::new(
            question,
            within,
            &gold_pages,
            &ranked,
            latency_ms,
        ));
    }
    Ok(RetrievalEval {
        means: means_by_group(&rows, |row| &row.kind, RetrievalMeans::new),
        questions: rows,
        skipped,
    })
}

/// The gold pages of a question as locators and physical pages, and the locator of its document.
type ResolvedGold = (Vec<(String, u32)>, Option<String>);

fn resolve_gold(
    question: &GoldQuestion,
    matcher: &DocumentMatcher,
) -> Result<ResolvedGold, String> {
    let resolved = matcher.resolve(question)?;
    if question.gold_pages.is_empty() {
        return Err("it names no pages".into());
    }
    if resolved.gold_pages.len() < question.gold_pages.len() {
        return Err("it names pages and no document".into());
    }
    let mut gold_pages = Vec::new();
    for (document, page) in resolved.gold_pages {
        if let Some(Extent::Pages(last)) = document.entry().map(|entry| entry.extent)
            && page > last
        {
            return Err(format!("it is to be answered on page {page} of {last}"));
        }
        gold_pages.push((document.label.clone(), page));
    }
    let document = resolved.document.map(|document| document.label.clone());
    Ok((gold_pages, document))
}

impl RetrievalRow {
    fn new(
        question: &GoldQuestion,
        within: Option<String>,
        gold_pages: &[(String, u32)],
        ranked: &[(String, u32)],
        latency_ms: f64,
    ) -> Self {
        let mut ranks: Vec<usize> = gold_pages
            .iter()
            .filter_map(|gold| ranked.iter().position(|page| page == gold))
            .map(|position| position + 1)
            .collect();
        ranks.sort_unstable();
        Self {
            id: question.id.clone(),
            kind: question.kind.clone(),
            within,
            gold_pages: gold_pages.len(),
            first_rank: ranks.first().copied(),
            is_document_correct: ranked
                .first()
                .is_some_and(|(best, _)| gold_pages.iter().any(|(doc, _)| doc == best)),
            ranks,
            latency_ms,
            top_pages: (ranked.iter().take(LISTED_PAGES))
                .map(|(doc, page)| format!("{doc}#p={page}"))
                .collect(),
        }
    }

    /// Retrieved gold pages among the first `depth` pages.
    fn hits_within(&self, depth: usize) -> usize {
        self.ranks.iter().filter(|rank| **rank <= depth).count()
    }
}

impl RetrievalMeans {
    fn new(set: &str, rows: &[&RetrievalRow]) -> Self {
        let latencies: Vec<f64> = rows.iter().map(|row| row.latency_ms).collect();
        Self {
            set: set.into(),
            questions: rows.len(),
            hit: mean_by_depth(rows, |row, depth| indicator(row.hits_within(depth) > 0)),
            recall: mean_by_depth(rows, |row, depth| {
                row.hits_within(depth) as f64 / row.gold_pages as f64
            }),
            mrr: mean_of(rows, |row| {
                row.first_rank.map_or(0.0, |rank| 1.0 / rank as f64)
            }),
            document: mean_of(rows, |row| indicator(row.is_document_correct)),
            p50_ms: percentile(&latencies, 0.50),
            p95_ms: percentile(&latencies, 0.95),
        }
    }
}

fn mean_by_depth(
    rows: &[&RetrievalRow],
    figure: fn(&RetrievalRow, usize) -> f64,
) -> BTreeMap<usize, f64> {
    DEPTHS
        .into_iter()
        .map(|depth| (depth, mean_of(rows, |row| figure(row, depth))))
        .collect()
}

fn mean_of(rows: &[&RetrievalRow], figure: impl Fn(&RetrievalRow) -> f64) -> f64 {
    mean(rows.iter().map(|row| figure(row))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hit_rate_and_recall_follow_from_ranks() {
        let question: GoldQuestion =
            serde_json::from_str(r#"{"id": 1, "question": "q", "doc": "a", "gold_pages": [2, 9]}"#)
                .unwrap();
        let page = |doc: &str, page| (doc.to_owned(), page);
        let ranked = [page("b", 2), page("a", 4), page("a", 9), page("a", 2)];
        let one = RetrievalRow::new(&question, None, &[page("a", 2), page("a", 9)], &ranked, 4.0);
        assert_eq!(
            (
                one.first_rank,
                one.ranks.as_slice(),
                one.is_document_correct
            ),
            (Some(3), [3, 4].as_slice(), false)
        );
        let none = RetrievalRow::new(&question, None, &[page("a", 7)], &ranked, 2.0);
        let means = &means_by_group(&[one, none], |row| &row.kind, RetrievalMeans::new)[0];
        assert_eq!(
            (
                means.hit[&1],
                means.hit[&3],
                means.recall[&3],
                means.recall[&5]
            ),
            (0.0, 0.5, 0.25, 0.5)
        );
        assert!((means.mrr - 1.0 / 6.0).abs() < 1e-9);
        assert_eq!(
            (means.p50_ms, means.p95_ms, percentile(&[], 0.5)),
            (2.0, 4.0, 0.0)
        );
    }
}
