//! How often search finds the pages that answer questions.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;
use stemma_document::Extent;
use stemma_retrieval::SearchService;

use crate::SkippedTruth;
use crate::match_documents::DocumentMatcher;
use crate::question::QuestionTruth;
use stemma_archive::{
    ApiError, Archive, SearchRequest, SearchResponse, document_part, is_store_error,
};

/// After how many pages is looked.
pub const DEPTHS: [usize; 5] = [1, 3, 5, 10, 20];
/// Sections that pages are taken from.
const SECTIONS: usize = 100;

/// Found pages against those that answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetrievalEval {
    /// Question by question.
    pub questions: Vec<RetrievalRow>,
    /// Means of all, and of each kind of question where there are several.
    pub means: Vec<RetrievalMeans>,
    /// Questions that were not asked.
    pub unscored: Vec<SkippedTruth>,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetrievalRow {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// Where was looked: a document's locator, or nothing for everywhere.
    pub within: Option<String>,
    /// Pages that answer it.
    pub gold: usize,
    /// Rank of the first page that does, from 1.
    pub first: Option<usize>,
    /// Ranks of all that were found.
    pub ranks: Vec<usize>,
    /// Whether the best page is of a right document.
    pub document: bool,
    /// How long it took, in milliseconds.
    pub latency_ms: f64,
    /// The best pages, as locators.
    #[serde(rename = "found")]
    pub top_pages: Vec<String>,
}

/// Means over questions.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RetrievalMeans {
    /// `all`, or a kind of question.
    pub set: String,
    /// Questions.
    pub questions: usize,
    /// Share of questions with a page that answers among the first so many.
    pub hit: BTreeMap<usize, f64>,
    /// Mean share of the pages that answer among the first so many.
    pub recall: BTreeMap<usize, f64>,
    /// Mean of 1 / rank of the first.
    pub mrr: f64,
    /// Share of questions whose best page is of a right document.
    pub document: f64,
    /// Half of the questions took no longer, in milliseconds.
    pub p50_ms: f64,
    /// 95 of 100 took no longer.
    pub p95_ms: f64,
}

/// The pages of all hits, best first, each once: document and physical page.
pub fn ranked_pages(response: &SearchResponse) -> Vec<(String, u32)> {
    let mut pages: Vec<(f64, (String, u32))> = response
        .hits
        .iter()
        .flat_map(|hit: &stemma_archive::SearchHit| {
            let document = document_part(&hit.locator);
            hit.best_pages
                .iter()
                .map(move |page| (page.score, (document.clone(), page.page)))
                .collect::<Vec<_>>()
        })
        .collect();
    pages.sort_by(|a, b| b.0.total_cmp(&a.0));
    pages.into_iter().map(|(_, page)| page).collect()
}

/// Asks questions and looks where the pages that answer them rank. With `everywhere`, all documents are searched also
/// where a question names its own. `template` says how is searched. With `count_missing` a question whose document is not
/// there counts as one for which nothing was found.
///
/// # Errors
/// [`ApiError`] when the index could not say. A question that is none is not scored.
pub async fn eval_retrieval(
    archive: &Archive,
    finder: &dyn SearchService,
    truths: &[QuestionTruth],
    template: &SearchRequest,
    everywhere: bool,
    count_missing: bool,
) -> Result<RetrievalEval, ApiError> {
    let pairing = DocumentMatcher::new(&archive.catalog);
    let mut questions = Vec::new();
    let mut unscored = Vec::new();
    for truth in truths {
        let mut leave_out = |reason: String| {
            unscored.push(SkippedTruth {
                doc: truth.id.clone(),
                reason,
            });
        };
        let (gold, within) = match resolve_gold(truth, &pairing) {
            Ok(placed) => placed,
            Err(reason) => {
                if count_missing && !truth.gold.is_empty() {
                    let nowhere = vec![(String::new(), 0); truth.gold.len()];
                    questions.push(row(truth, None, &nowhere, &[], 0.0));
                } else {
                    leave_out(reason);
                }
                continue;
            }
        };
        let within = within.filter(|_| !everywhere);
        let scopes = within.iter().cloned().collect();
        let question = SearchRequest {
            text: truth.question.clone(),
            scopes,
            limit: SECTIONS,
            ..template.clone()
        };
        let began = Instant::now();
        let view = match archive.search(finder, &question).await {
            Ok((view, _)) => view,
            Err(refusal) if is_store_error(refusal.code) => return Err(refusal),
            Err(refusal) => {
                leave_out(refusal.message);
                continue;
            }
        };
        let latency_ms = (began.elapsed().as_secs_f64() * 1e5).round() / 100.0;
        questions.push(row(truth, within, &gold, &ranked_pages(&view), latency_ms));
    }
    Ok(RetrievalEval {
        means: means(&questions),
        questions,
        unscored,
    })
}

/// The labels and pages that answer a question, and the label of its own document.
type GoldTarget = (Vec<(String, u32)>, Option<String>);

fn resolve_gold(
    truth: &QuestionTruth,
    pairing: &DocumentMatcher<'_>,
) -> Result<GoldTarget, String> {
    let own = truth
        .doc
        .as_deref()
        .map(|doc: &str| pairing.find(doc).map(|listed| listed.label.clone()))
        .transpose()?;
    if truth.gold.is_empty() {
        return Err("it names no pages".into());
    }
    let placed = truth.gold.iter().map(|gold| {
        let doc = gold
            .doc
            .as_deref()
            .or(truth.doc.as_deref())
            .ok_or("it names pages and no document")?;
        let listed = pairing.find(doc)?;
        match listed.entry().map(|entry| entry.extent) {
            Some(Extent::Pages(pages)) if gold.page > pages => Err(format!(
                "it is to be answered on page {} of {pages}",
                gold.page
            )),
            _ => Ok((listed.label.clone(), gold.page)),
        }
    });
    Ok((placed.collect::<Result<_, String>>()?, own))
}

fn row(
    truth: &QuestionTruth,
    within: Option<String>,
    gold: &[(String, u32)],
    ranked: &[(String, u32)],
    latency_ms: f64,
) -> RetrievalRow {
    let mut ranks: Vec<usize> = gold
        .iter()
        .filter_map(|page| ranked.iter().position(|other| other == page))
        .map(|at| at + 1)
        .collect();
    ranks.sort_unstable();
    RetrievalRow {
        id: truth.id.clone(),
        kind: truth.kind.clone(),
        within,
        gold: gold.len(),
        first: ranks.first().copied(),
        document: ranked
            .first()
            .is_some_and(|best| gold.iter().any(|(doc, _)| *doc == best.0)),
        ranks,
        latency_ms,
        top_pages: ranked
            .iter()
            .take(10)
            .map(|(doc, page)| format!("{doc}#p={page}"))
            .collect(),
    }
}

/// Means of all, and of each kind where there are several.
fn means(rows: &[RetrievalRow]) -> Vec<RetrievalMeans> {
    let mut kinds: BTreeMap<&str, Vec<&RetrievalRow>> = BTreeMap::new();
    rows.iter()
        .for_each(|row| kinds.entry(&row.kind).or_default().push(row));
    let all = (!rows.is_empty()).then(|| means_of("all", &rows.iter().collect::<Vec<_>>()));
    let several = if kinds.len() > 1 {
        kinds
    } else {
        BTreeMap::new()
    };
    all.into_iter()
        .chain(several.iter().map(|(kind, rows)| means_of(kind, rows)))
        .collect()
}

fn means_of(set: &str, rows: &[&RetrievalRow]) -> RetrievalMeans {
    let mean = |of: &dyn Fn(&RetrievalRow) -> f64| {
        rows.iter().map(|row| of(row)).sum::<f64>() / rows.len().max(1) as f64
    };
    let within =
        |row: &RetrievalRow, depth: usize| row.ranks.iter().filter(|rank| **rank <= depth).count();
    let share = |yes: bool| if yes { 1.0 } else { 0.0 };
    let latencies: Vec<f64> = rows.iter().map(|row| row.latency_ms).collect();
    RetrievalMeans {
        set: set.into(),
        questions: rows.len(),
        hit: DEPTHS
            .iter()
            .map(|depth| (*depth, mean(&|row| share(within(row, *depth) > 0))))
            .collect(),
        recall: DEPTHS
            .iter()
            .map(|depth| {
                (
                    *depth,
                    mean(&|row| within(row, *depth) as f64 / row.gold as f64),
                )
            })
            .collect(),
        mrr: mean(&|row| row.first.map_or(0.0, |first| 1.0 / first as f64)),
        document: mean(&|row| share(row.document)),
        p50_ms: percentile(&latencies, 0.50),
        p95_ms: percentile(&latencies, 0.95),
    }
}

/// The smallest of `values` that is not exceeded by this share of them (nearest rank); 0 of none.
pub(super) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hit_rate_and_recall_follow_from_ranks() {
        let truth: QuestionTruth =
            serde_json::from_str(r#"{"id": 1, "question": "q", "doc": "a", "gold_pages": [2, 9]}"#)
                .unwrap();
        let page = |doc: &str, page| (doc.to_owned(), page);
        let ranked = [page("b", 2), page("a", 4), page("a", 9), page("a", 2)];
        let one = row(&truth, None, &[page("a", 2), page("a", 9)], &ranked, 4.0);
        assert_eq!(
            (one.first, one.ranks.as_slice(), one.document),
            (Some(3), [3, 4].as_slice(), false)
        );
        let none = row(&truth, None, &[page("a", 7)], &ranked, 2.0);
        let means = &means(&[one, none])[0];
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
