//! Tree search over a collection: routing, one walk per document, selection.

use std::sync::Arc;

use futures::stream::{StreamExt, TryStreamExt};
use stemma_document::DocId;

use super::analysis;
use super::knowledge::Knowledge;
use super::llm_session::{LlmClient, LlmSession};
use super::result::{
    Note, TraceSection, TraceStep, TreeSearchResult, TreeSearchStrategy, TreeSearchTrace,
};
use super::routing;
use super::score_cache::ScoreCache;
use super::scoring::ScoringQuestion;
use super::search_tree::SearchTree;
use super::selection;
use super::settings::TreeSearchSettings;
use super::strategies::{self, MAX_SECTIONS, SearchContext, StrategyTrace, THRESHOLD, WalkEnd};
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::DocumentStore;
use stemma_retrieval::search::{
    self, DocumentScope, MAX_LIMIT, Query, SearchError, SearchHit, SearchResults, SearchService,
};

const CONCURRENT_DOCUMENTS: usize = 4;
// Added to the lexical score of preferred and expected sections.
const PREFERENCE_BONUS: f32 = 0.15;

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
    scores: ScoreCache,
}

impl TreeSearcher {
    pub fn new(client: Arc<LlmClient>, settings: TreeSearchSettings, knowledge: Knowledge) -> Self {
        let scores = ScoreCache::new(client.env());
        Self {
            client,
            settings,
            knowledge,
            scores,
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
        let mut trace = TreeSearchTrace {
            strategy,
            model: Some(self.client.model().into()),
            ..TreeSearchTrace::default()
        };
        let question = self
            .analyze_question(&query.text, session, &mut trace)
            .await;
        let most = self.settings.documents.max(1);
        let (first, documents) =
            routing::route(sources, &plain, &question, most, session, &mut trace).await?;
        let walks = documents
            .into_iter()
            .map(|doc| self.search_document(sources, &plain, doc, strategy, &question, session));
        let walks: Vec<Option<DocumentWalk>> = futures::stream::iter(walks)
            .buffered(CONCURRENT_DOCUMENTS)
            .try_collect()
            .await?;
        let mut walks: Vec<DocumentWalk> = walks.into_iter().flatten().collect();
        Self::fall_back(&mut walks);
        let chosen = self
            .select_sections(sources, &mut walks, query.limit, &mut trace)
            .await;
        let mut results = SearchResults {
            hits: Vec::new(),
            ..first
        };
        results.hits = chosen
            .iter()
            .map(|(walk, at)| walks[*walk].hit(*at))
            .collect();
        results.total = search::TotalHits::Exact(results.hits.len());
        trace.confidence = selection::confidence(&results.hits);
        for (index, walk) in walks.into_iter().enumerate() {
            walk.add_to_trace(&mut trace, |at| chosen.contains(&(index, at)));
        }
        trace.usage = session.usage();
        Ok(TreeSearchResult { results, trace })
    }

    // Question analysis and selection of expert knowledge.
    async fn analyze_question(
        &self,
        question: &str,
        session: &LlmSession,
        trace: &mut TreeSearchTrace,
    ) -> ScoringQuestion {
        let chosen = self.knowledge.choose(question);
        let analysis = match self.settings.analysis {
            true => analysis::analyze(question, session)
                .await
                .map_err(|error| trace.note_failure("analysis", &error))
                .ok(),
            false => None,
        };
        if let Some(analysis) = &analysis {
            let parts = analysis.aspects.len().max(1);
            trace.add_step("analysis", format!("{} with {parts} parts", analysis.kind));
        }
        (trace.analysis, trace.knowledge) = (analysis.clone(), chosen.applied);
        let expected = analysis
            .iter()
            .flat_map(|analysis| analysis.locations.clone())
            .chain(chosen.sections)
            .collect();
        ScoringQuestion {
            question: question.into(),
            analysis,
            knowledge: chosen.text,
            expected_titles: expected,
        }
    }

    // The sections of the result, best first.
    async fn select_sections(
        &self,
        sources: TreeSearchSources<'_>,
        walks: &mut [DocumentWalk],
        most: usize,
        trace: &mut TreeSearchTrace,
    ) -> Vec<selection::SectionPosition> {
        let most = most.min(MAX_SECTIONS);
        let mut chosen = selection::select_sections(walks, most);
        let followed = selection::follow_references(walks, &mut chosen, most);
        if followed > 0 {
            trace.add_step(
                "references",
                format!("{followed} sections that chosen ones refer to"),
            );
        }
        let mut texts = vec![String::new(); chosen.len()];
        for (index, walk) in walks.iter().enumerate() {
            // Without the text, redundant sections stay: the same as for a text that cannot be read.
            let Ok(Some(document)) = sources.catalog.get(walk.tree.doc) else {
                continue;
            };
            let here: Vec<usize> = (0..chosen.len())
                .filter(|n| chosen[*n].0 == index)
                .collect();
            let ids: Vec<_> = here
                .iter()
                .map(|n| walk.tree.nodes[chosen[*n].1].id)
                .collect();
            let read = sources
                .store
                .section_texts(&document, &ids, selection::COMPARED_BYTES)
                .await
                .unwrap_or_default();
            here.into_iter()
                .zip(read)
                .for_each(|(n, text)| texts[n] = text);
        }
        let (relations, dropped) = selection::drop_redundant(walks, &mut chosen, &texts);
        if dropped > 0 {
            let message =
                format!("{dropped} sections that repeat others, or stand in them, were left out");
            trace.notes.push(Note::new("choice.repeated", message));
        }
        trace.relations = relations;
        chosen
    }

    async fn search_document(
        &self,
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
        let Some(mut tree) = build_tree(sources, plain, &document, question, session).await? else {
            return Ok(None);
        };
        tree.boost(&question.expected_titles, PREFERENCE_BONUS);
        let mut trace = StrategyTrace::default();
        let context = SearchContext {
            tree: &tree,
            session,
            question,
            store: sources.store,
            listed: &document,
            scores: &self.scores,
        };
        let end = strategies::walk(&context, strategy, &mut trace).await;
        if let Some(error) = &end.error {
            trace.notes.push(Note::from_error(&tree.name, error));
        }
        Ok(Some(DocumentWalk { tree, trace, end }))
    }

    // Search without a model replaces walks that were cut short before they found anything, and all walks when none found
    // anything.
    fn fall_back(walks: &mut [DocumentWalk]) {
        let is_empty = |walk: &DocumentWalk| walk.trace.count_at_least(THRESHOLD) == 0;
        let are_all_empty = walks.iter().all(is_empty);
        for walk in walks
            .iter_mut()
            .filter(|walk| is_empty(walk) && (walk.end.error.is_some() || are_all_empty))
        {
            let message = format!(
                "{}: the sections are those of a search without a model",
                walk.tree.name
            );
            walk.trace
                .notes
                .push(Note::new("fallback.lexical", message));
            walk.trace.add_best_lexical(&walk.tree);
        }
    }
}

// The tree with lexical scores for the question and each of its parts. `None` when the tree is gone.
async fn build_tree(
    sources: TreeSearchSources<'_>,
    plain: &Query,
    document: &CatalogDocument,
    question: &ScoringQuestion,
    session: &LlmSession,
) -> Result<Option<SearchTree>, SearchError> {
    let Some(tree) = sources.store.tree(document).await? else {
        return Ok(None);
    };
    let within = DocumentScope::Documents(vec![document.doc()]);
    let here = Query {
        within,
        limit: MAX_LIMIT,
        ..plain.clone()
    };
    let whole = sources.search.search(&here, Some(session)).await?;
    let parts = question
        .parts()
        .map(|part| Query {
            text: part,
            ..here.clone()
        })
        .collect::<Vec<_>>();
    let parts = parts
        .iter()
        .map(|part| sources.search.search(part, Some(session)));
    let parts = futures::future::join_all(parts).await;
    // A part without searchable words is not an error.
    let parts = parts
        .into_iter()
        .map(|results| results.map(|results| results.hits).unwrap_or_default());
    let results: Vec<Vec<SearchHit>> = std::iter::once(whole.hits).chain(parts).collect();
    let version = document.version();
    Ok(Some(SearchTree::new(
        document.doc(),
        (&version.name, version.seq),
        &tree,
        results,
    )))
}

pub(super) struct DocumentWalk {
    pub(super) tree: SearchTree,
    pub(super) trace: StrategyTrace,
    end: WalkEnd,
}

impl DocumentWalk {
    fn hit(&self, at: usize) -> SearchHit {
        let tree = &self.tree;
        let node = &self.tree.nodes[at];
        let scored = self.trace.scored.get(&at).cloned().unwrap_or_default();
        let lexical_hit = tree.hits.get(&node.id).cloned();
        let pages = node
            .span
            .pages()
            .map(|pages| (pages.start().get(), pages.end().get()));
        let lines = match node.span {
            stemma_document::SectionSpan::Lines { start, end } => Some((start, end)),
            stemma_document::SectionSpan::Pages { .. } => None,
        };
        let (best_pages, excerpt) = lexical_hit
            .map(|hit| (hit.best_pages, hit.excerpt))
            .unwrap_or_default();
        SearchHit {
            pages,
            lines,
            best_pages,
            score: scored.score().into(),
            parts: [
                ("lexical", Some(node.lexical)),
                ("model", (!scored.is_lexical).then(|| scored.score())),
            ]
            .into_iter()
            .filter_map(|(name, score)| Some((name, score?)))
            .collect(),
            why: scored.reason,
            excerpt,
            ..SearchHit::new(
                tree.doc,
                tree.name.as_str(),
                tree.version,
                node.id,
                tree.path(at),
            )
        }
    }

    fn add_to_trace(self, trace: &mut TreeSearchTrace, chosen: impl Fn(usize) -> bool) {
        let Self {
            tree,
            trace: strategy_trace,
            end,
        } = self;
        trace.steps.push(TraceStep {
            doc: Some(tree.doc),
            what: end.strategy,
            why: end.why,
            thinking: strategy_trace.thinking,
        });
        trace.unknown_ids += strategy_trace.unknown_ids;
        trace.notes.extend(strategy_trace.notes);
        trace.visited.extend(
            strategy_trace
                .scored
                .iter()
                .map(|(at, scored)| TraceSection {
                    doc: tree.doc,
                    section: tree.nodes[*at].id,
                    path: tree.path(*at),
                    score: scored.score(),
                    lexical: tree.nodes[*at].lexical,
                    reason: scored.reason.clone(),
                    visits: scored.visits,
                    chosen: chosen(*at),
                }),
        );
    }
}
