//! Search with a model: which steps led to the hits, and what they cost.

use serde::Serialize;
use stemma_answers::tree_search::result::{
    Analysis, AppliedKnowledge, SectionRelation, TraceSection,
};
use stemma_answers::tree_search::{
    Note, QuestionBudget, SessionUsage, TreeSearchSources, TreeSearchStrategy, TreeSearchTrace,
};
use stemma_catalog::locator::section_locator;
use stemma_document::DocId;
use stemma_retrieval::index::entry::doc_key;
use stemma_retrieval::search::{MatchedDocuments, TotalHits};
use stemma_retrieval::{Query, SearchResults};
use stemma_store::PortResult;
use utoipa::ToSchema;

use crate::documents::rounded_share;
use crate::{ApiError, Archive, SearchRequest};

/// How a model chose the sections of a search, or why none was asked.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TreeSearchReport {
    /// The requested strategy.
    pub strategy: &'static str,
    /// `null` if no model was asked.
    pub model: Option<String>,
    /// Confidence that the sections answer the query, 0–1.
    pub confidence: f64,
    /// Where the search did less than was requested, or something else. Meant for the reader.
    #[schema(value_type = Vec<Object>)]
    pub notes: Vec<Note>,
    /// Calls, tokens and cost.
    #[schema(value_type = Object)]
    #[serde(rename = "spent")]
    pub usage: SessionUsage,
    /// The analysis of the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub analysis: Option<Analysis>,
    /// Expert knowledge that was used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub knowledge: Vec<AppliedKnowledge>,
    /// How the hits relate, by rank.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub relations: Vec<SectionRelation>,
    /// All steps, in order; only with `explain`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<TreeSearchStep>,
    /// Every scored section; only with `explain`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "looked_at")]
    pub visited: Vec<VisitedSection>,
    /// Number of section ids in replies that no listed section has.
    pub unknown_ids: u32,
}

/// A step of a search with a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TreeSearchStep {
    /// Locator of the document; `null` for a step over several.
    pub document: Option<String>,
    /// `analysis`, `routing`, a strategy, `references`.
    pub what: &'static str,
    /// Why.
    pub why: String,
    /// The model's own words, call by call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thinking: Vec<String>,
}

/// A section that was scored.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct VisitedSection {
    /// Locator of the section.
    pub locator: String,
    /// Titles from the root to the section.
    pub path: Vec<String>,
    /// The model's score, 0–1.
    pub score: f64,
    /// The score of the search without a model, 0–1.
    pub lexical: f64,
    /// The model's reason.
    pub reason: String,
    /// How often it was scored.
    pub visits: u32,
    /// Whether it is among the hits.
    pub chosen: bool,
}

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
                "no model is configured: the sections are those of a search without one",
            );
            let trace = TreeSearchTrace {
                notes: vec![note],
                ..TreeSearchTrace::default()
            };
            return Ok((results, self.tree_search_report(&trace, request.explain)?));
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
        let report = self.tree_search_report(&found.trace, request.explain)?;
        Ok((found.results, report))
    }

    // The trace with locators; steps and sections only with `explain`.
    fn tree_search_report(
        &self,
        trace: &TreeSearchTrace,
        explain: bool,
    ) -> PortResult<TreeSearchReport> {
        let steps = trace.steps.iter().filter(|_| explain).map(|step| {
            Ok(TreeSearchStep {
                document: step.doc.map(|doc| self.label(doc)).transpose()?,
                what: step.what,
                why: step.why.clone(),
                thinking: step.thinking.clone(),
            })
        });
        let visited = trace
            .visited
            .iter()
            .filter(|_| explain)
            .map(|section| self.visited_section(section));
        Ok(TreeSearchReport {
            strategy: trace.strategy.as_str(),
            model: trace.model.clone(),
            confidence: rounded_share(trace.confidence),
            notes: trace.notes.clone(),
            usage: trace.usage,
            analysis: trace.analysis.clone(),
            knowledge: trace.knowledge.clone(),
            relations: trace.relations.clone(),
            steps: steps.collect::<PortResult<_>>()?,
            visited: visited.collect::<PortResult<_>>()?,
            unknown_ids: trace.unknown_ids,
        })
    }

    fn visited_section(&self, visited: &TraceSection) -> PortResult<VisitedSection> {
        Ok(VisitedSection {
            locator: section_locator(&self.label(visited.doc)?, visited.section),
            path: visited.path.clone(),
            score: rounded_share(visited.score),
            lexical: rounded_share(visited.lexical),
            reason: visited.reason.clone(),
            visits: visited.visits,
            chosen: visited.chosen,
        })
    }

    fn label(&self, doc: DocId) -> PortResult<String> {
        let listed = self.catalog().get(doc)?;
        Ok(listed.map_or_else(|| doc.to_string(), |listed| listed.label.clone()))
    }
}

// Keeps the hits that meet the operators of a query. The sections of documents that are not in the index meet none, because nobody
// knows their words: there may be more hits.
fn retain_hits(results: &mut SearchResults, meet_operators: &[bool]) {
    let mut tests = meet_operators.iter();
    results
        .hits
        .retain(|_| tests.next().copied().unwrap_or_default());
    let count = results.hits.len();
    results.total = match results.is_index_behind() || results.stats.documents_unreadable > 0 {
        true => TotalHits::AtLeast { at_least: count },
        false => TotalHits::Exact(count),
    };
}

fn no_model(strategy: TreeSearchStrategy) -> ApiError {
    let message = format!(
        "the strategy `{}` asks a model, and none is configured",
        strategy.as_str()
    );
    ApiError::new(
        "config.no_model",
        message,
        "set model.name and model.base_url, or search with strategy ranked",
    )
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
