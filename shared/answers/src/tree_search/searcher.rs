//! Tree search over a collection: routing, one walk per document, selection.

use std::sync::Arc;

use futures::stream::{StreamExt, TryStreamExt};
use stemma_document::rounding::rounded_share;
use stemma_document::{DocId, SectionSpan};

use super::analysis;
use super::knowledge::Knowledge;
use super::llm_session::{LlmClient, LlmSession};
use super::result::{
    Note, TreeSearchReport, TreeSearchResult, TreeSearchStep, TreeSearchStrategy, VisitedSection,
};
use super::routing;
use super::scoring::{Scorer, ScoringQuestion};
use super::search_tree::SearchTree;
use super::selection;
use super::settings::TreeSearchSettings;
use super::strategies::{self, MAX_SECTIONS, StrategyTrace, THRESHOLD};
use stemma_catalog::catalog::Catalog;
use stemma_catalog::document_store::DocumentStore;
use stemma_catalog::locator::section_locator;
use stemma_retrieval::search::{
    self, DocumentScope, MAX_LIMIT, Query, SearchError, SearchHit, SearchResults, SearchService,
};

const CONCURRENT_DOCUMENTS: usize = 4;

#[derive(Clone, Copy)]
pub struct TreeSearchSources<'a> {
    /// Search without a model.
    pub search: &'a dyn SearchService,
    pub store: &'a dyn DocumentStore,
    pub catalog: &'a Catalog,
}

/// Searches the section trees of one collection with a model.
pub struct TreeSearcher {
    client: Arc<LlmClient>,
    settings: TreeSearchSettings,
    knowledge: Knowledge,
}

impl TreeSearcher {
    pub fn new(client: Arc<LlmClient>, settings: TreeSearchSettings, knowledge: Knowledge) -> Self {
        Self {
            client,
            settings,
            knowledge,
        }
    }

    pub fn client(&self) -> &Arc<LlmClient> {
        &self.client
    }

    pub fn settings(&self) -> &TreeSearchSettings {
        &self.settings
    }

    /// Changes whenever answers may: settings and knowledge. Part of the id of an answer.
    pub fn fingerprint(&self) -> String {
        let knowledge = serde_json::to_string(&self.knowledge).unwrap_or_default();
        format!(
            "{}\n{knowledge}",
            serde_json::to_string(&self.settings).unwrap_or_default()
        )
    }

    /// Sections that answer a question, charged to `session`. When the model fails or the budget is exhausted, scores collected by
    /// then count, search without a model fills in, and the notes of the trace say so.
    ///
    /// # Errors
    /// [`SearchError`] when search without a model fails too.
    pub async fn search(
        &self,
        sources: TreeSearchSources<'_>,
        query: &Query,
        strategy: TreeSearchStrategy,
        session: &LlmSession,
    ) -> Result<TreeSearchResult, SearchError> {
        let plain = Query {
            skip: 0,
            ..query.clone()
        };
        let mut report = TreeSearchReport {
            strategy,
            model: Some(self.client.model().into()),
            ..TreeSearchReport::default()
        };
        let question = self
            .analyze_question(&query.text, session, &mut report)
            .await;
        let (first, documents) =
            routing::route(sources, &plain, &query.text, session, &mut report).await?;
        let walks = documents
            .into_iter()
            .map(|doc| walk_document(sources, &plain, doc, strategy, &question, session));
        let walks: Vec<Option<DocumentWalk>> = futures::stream::iter(walks)
            .buffered(CONCURRENT_DOCUMENTS)
            .try_collect()
            .await?;
        let mut walks: Vec<DocumentWalk> = walks.into_iter().flatten().collect();
        fall_back(&mut walks);
        let chosen = selection::select_sections(&walks, query.limit.min(MAX_SECTIONS));
        let hits: Vec<SearchHit> = chosen
            .iter()
            .map(|(walk, at)| walks[*walk].hit(*at))
            .collect();
        for (index, walk) in walks.into_iter().enumerate() {
            walk.add_to_report(&mut report, |at| chosen.contains(&(index, at)));
        }
        report.usage = session.usage();
        let results = SearchResults {
            total: search::TotalHits::Exact(hits.len()),
            hits,
            ..first
        };
        Ok(TreeSearchResult { results, report })
    }

    // Question analysis and selection of expert knowledge.
    async fn analyze_question(
        &self,
        question: &str,
        session: &LlmSession,
        report: &mut TreeSearchReport,
    ) -> ScoringQuestion {
        let chosen = self.knowledge.choose(question);
        report.knowledge = chosen.applied;
        let mut expected_titles = chosen.sections;
        if self.settings.analysis {
            match analysis::analyze(question, session).await {
                Ok(analysis) => {
                    report.add_step("analysis", analysis.topic.clone());
                    expected_titles.extend(analysis.locations.iter().cloned());
                    report.analysis = Some(analysis);
                }
                Err(error) => report.note_failure("analysis", &error),
            }
        }
        ScoringQuestion {
            question: question.into(),
            analysis: report.analysis.clone(),
            knowledge: chosen.text,
            expected_titles,
        }
    }
}

// `None` when the document or its tree is gone.
async fn walk_document(
    sources: TreeSearchSources<'_>,
    plain: &Query,
    doc: DocId,
    strategy: TreeSearchStrategy,
    question: &ScoringQuestion,
    session: &LlmSession,
) -> Result<Option<DocumentWalk>, SearchError> {
    let Some(document) = sources.catalog.get(doc)? else {
        return Ok(None);
    };
    let Some(tree) = sources.store.tree(&document).await? else {
        return Ok(None);
    };
    let here = Query {
        within: DocumentScope::Documents(vec![doc]),
        limit: MAX_LIMIT,
        ..plain.clone()
    };
    let results = sources.search.search(&here, Some(session)).await?;
    let tree = SearchTree::new(document, &tree, results.hits, &question.expected_titles);
    let scorer = Scorer {
        tree: &tree,
        session,
        question,
        store: sources.store,
    };
    let trace = strategies::walk(&scorer, strategy).await;
    Ok(Some(DocumentWalk { tree, trace }))
}

// Search without a model replaces walks that were cut short before they found anything, and all walks when none found
// anything.
fn fall_back(walks: &mut [DocumentWalk]) {
    let is_empty = |walk: &DocumentWalk| walk.trace.count_at_least(THRESHOLD) == 0;
    let are_all_empty = walks.iter().all(is_empty);
    for walk in walks
        .iter_mut()
        .filter(|walk| is_empty(walk) && (walk.trace.is_cut_short || are_all_empty))
    {
        let message = format!(
            "{}: the sections come from a search without a model",
            walk.tree.name()
        );
        walk.trace
            .notes
            .push(Note::new("fallback.lexical", message));
        walk.trace.add_best_lexical(&walk.tree);
    }
}

pub(super) struct DocumentWalk {
    pub(super) tree: SearchTree,
    pub(super) trace: StrategyTrace,
}

impl DocumentWalk {
    fn hit(&self, at: usize) -> SearchHit {
        let tree = &self.tree;
        let node = &tree.nodes[at];
        let scored = self.trace.scored.get(&at).cloned().unwrap_or_default();
        let lines = match node.span {
            SectionSpan::Lines { start, end } => Some((start, end)),
            SectionSpan::Pages { .. } => None,
        };
        let (best_pages, excerpt) = tree
            .hits
            .get(&node.id)
            .map(|hit| (hit.best_pages.clone(), hit.excerpt.clone()))
            .unwrap_or_default();
        let model_score = (!scored.is_lexical).then_some(("model", scored.score));
        SearchHit {
            pages: node
                .span
                .pages()
                .map(|pages| (pages.start().get(), pages.end().get())),
            lines,
            best_pages,
            score: scored.score.into(),
            parts: [("lexical", node.lexical)]
                .into_iter()
                .chain(model_score)
                .collect(),
            why: scored.reason,
            excerpt,
            ..SearchHit::new(
                tree.document.doc(),
                tree.name(),
                tree.document.version().seq,
                node.id,
                tree.path(at),
            )
        }
    }

    fn add_to_report(self, report: &mut TreeSearchReport, chosen: impl Fn(usize) -> bool) {
        let Self { tree, trace } = self;
        let label = &tree.document.label;
        report.steps.push(TreeSearchStep {
            document: Some(label.clone()),
            what: trace.strategy,
            why: trace.why,
            thinking: trace.thinking,
        });
        report.notes.extend(trace.notes);
        for (at, scored) in trace.scored {
            report.visited.push(VisitedSection {
                locator: section_locator(label, tree.nodes[at].id),
                path: tree.path(at),
                score: rounded_share(scored.score),
                lexical: rounded_share(tree.nodes[at].lexical),
                reason: scored.reason,
                chosen: chosen(at),
            });
        }
    }
}
