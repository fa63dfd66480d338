//! Search with a model: which steps led to the hits, and what they cost.

use stemma_answers::tree_search::{
    Note, QuestionBudget, TreeSearchReport, TreeSearchSources, TreeSearchStrategy,
};
use stemma_retrieval::index::document_entry::doc_key;
use stemma_retrieval::search::{MatchedDocuments, TotalHits};
use stemma_retrieval::{Query, SearchResults};

use crate::{ApiError, Archive, SearchRequest};

impl Archive {
    // Sections by a strategy that asks a model. Without a model, `auto-with-model` searches the index and says so.
    pub(crate) async fn tree_search(
        &self,
        request: &SearchRequest,
        query: &Query,
        strategy: TreeSearchStrategy,
    ) -> Result<(SearchResults, TreeSearchReport), ApiError> {
        let Some(searcher) = self.tree_searcher() else {
            if strategy != TreeSearchStrategy::Auto {
                return Err(no_model(strategy));
            }
            let results = self.indexed()?.search(&self.catalog, query, None).await?;
            let note = Note::new(
                "model.not_configured",
                "no model is configured: the sections come from a search without one",
            );
            let report = TreeSearchReport {
                notes: vec![note],
                ..TreeSearchReport::default()
            };
            return Ok((results, report));
        };
        let client = searcher.client();
        let usual = searcher.settings().budget;
        let budget = QuestionBudget {
            calls: request.budget_calls.unwrap_or(usual.calls),
            tokens: request.budget_tokens.unwrap_or(usual.tokens),
            ..usual
        };
        let session = client.start_session(client.new_run_id("s"), budget);
        let sources = TreeSearchSources {
            search: self,
            store: self,
            catalog: self.catalog(),
        };
        let mut found = searcher.search(sources, query, strategy, &session).await?;
        if !query.operators.is_empty() {
            let hits = &found.results.hits;
            let index = self.indexed()?;
            let tests = index.meets_operators(&self.catalog, query, hits).await?;
            retain_hits(&mut found.results, &tests);
        }
        let documents = found.results.hits.iter().map(|hit| doc_key(hit.doc_id));
        found.results.documents = MatchedDocuments {
            keys: documents.collect(),
            is_limit_reached: false,
        };
        if !request.explain {
            found.report.steps.clear();
            found.report.visited.clear();
        }
        Ok((found.results, found.report))
    }
}

// Keeps the hits that meet the operators of a query. The sections of documents that are not in the index meet none, because nobody
// knows their words: there may be more hits.
fn retain_hits(results: &mut SearchResults, meet_operators: &[bool]) {
    let mut at = 0..;
    results
        .hits
        .retain(|_| at.next().and_then(|at| meet_operators.get(at)) == Some(&true));
    let count = results.hits.len();
    results.total = match results.is_index_behind() || results.stats.documents_unreadable > 0 {
        true => TotalHits::AtLeast { at_least: count },
        false => TotalHits::Exact(count),
    };
}

fn no_model(strategy: TreeSearchStrategy) -> ApiError {
    let message = format!(
        "the strategy `{}` asks a model, but none is configured",
        strategy.as_str()
    );
    let next = "set model.name and model.base_url, or search with strategy ranked";
    ApiError::new("config.no_model", message, next)
}

#[cfg(test)]
mod tests {
    use stemma_document::SectionId;
    use stemma_retrieval::SearchHit;

    use super::*;

    #[test]
    fn a_count_of_hits_is_a_lower_bound_while_documents_are_not_indexed() {
        let doc = crate::tests::version("manual.md", 1).doc;
        let hit = || SearchHit::new(doc, "manual.md", 1, SectionId(1), Vec::new());
        let results = || SearchResults {
            hits: vec![hit(), hit(), hit()],
            ..SearchResults::default()
        };
        let mut complete = results();
        retain_hits(&mut complete, &[true, false, true]);
        assert_eq!(complete.hits.len(), 2);
        assert_eq!(complete.total, TotalHits::Exact(2));
        let mut behind = results();
        behind.set_index_behind(1);
        retain_hits(&mut behind, &[true, false, true]);
        assert_eq!(behind.total, TotalHits::AtLeast { at_least: 2 });
        let mut unreadable = results();
        unreadable.set_unreadable(1);
        retain_hits(&mut unreadable, &[false; 3]);
        assert_eq!(unreadable.total, TotalHits::AtLeast { at_least: 0 });
    }
}
