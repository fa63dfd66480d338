//! Tree search over a collection: routing, one walk per document, selection.

use std::sync::Arc;

use futures::stream::{StreamExt, TryStreamExt};
use stemma_document::DocId;

use super::analysis;
use super::knowledge::Knowledge;
use super::llm_session::{LlmClient, LlmSession};
use super::result::{
    Note, TreeSearchReport, TreeSearchResult, TreeSearchStep, TreeSearchStrategy, VisitedSection,
    rounded,
};
use super::routing;
use super::scoring::ScoringQuestion;
use super::search_tree::SearchTree;
use super::selection;
use super::settings::TreeSearchSettings;
use super::strategies::{self, MAX_SECTIONS, SearchContext, StrategyTrace, THRESHOLD};
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::DocumentStore;
use stemma_catalog::locator::section_locator;
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
            routing::route(sources, &plain, &question, session, &mut report).await?;
        let walks = documents
            .into_iter()
            .map(|doc| search_document(sources, &plain, doc, strategy, &question, session));
        let walks: Vec<Option<DocumentWalk>> = futures::stream::iter(walks)
            .buffered(CONCURRENT_DOCUMENTS)
            .try_collect()
            .await?;
        let mut walks: Vec<DocumentWalk> = walks.into_iter().flatten().collect();
        fall_back(&mut walks);
        let chosen = select_sections(sources.store, &mut walks, query.limit, &mut report).await;
        let mut results = SearchResults {
            hits: Vec::new(),
            ..first
        };
        results.hits = chosen
            .iter()
            .map(|(walk, at)| walks[*walk].hit(*at))
            .collect();
        results.total = search::TotalHits::Exact(results.hits.len());
        report.confidence = rounded(selection::confidence(&results.hits));
        for (index, walk) in walks.into_iter().enumerate() {
            walk.add_to_report(&mut report, |at| chosen.contains(&(index, at)));
        }
        report.usage = session.usage();
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
        let analysis = match self.settings.analysis {
            true => analysis::analyze(question, session)
                .await
                .map_err(|error| report.note_failure("analysis", &error))
                .ok(),
            false => None,
        };
        if let Some(analysis) = &analysis {
            let parts = analysis.aspects.len().max(1);
            report.add_step("analysis", format!("{} with {parts} parts", analysis.kind));
        }
        (report.analysis, report.knowledge) = (analysis.clone(), chosen.applied);
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
}

// The sections of the result, best first.
async fn select_sections(
    store: &dyn DocumentStore,
    walks: &mut [DocumentWalk],
    most: usize,
    report: &mut TreeSearchReport,
) -> Vec<selection::SectionPosition> {
    let most = most.min(MAX_SECTIONS);
    let mut chosen = selection::select_sections(walks, most);
    let followed = selection::follow_references(walks, &mut chosen, most);
    if followed > 0 {
        report.add_step(
            "references",
            format!("{followed} sections that chosen ones refer to"),
        );
    }
    let mut texts = vec![String::new(); chosen.len()];
    for (index, walk) in walks.iter().enumerate() {
        let (ranks, sections): (Vec<usize>, Vec<usize>) = chosen
            .iter()
            .enumerate()
            .filter(|(_, (of, _))| *of == index)
            .map(|(rank, (_, at))| (rank, *at))
            .unzip();
        // Without the text, redundant sections stay.
        let read = walk.tree.texts(store, &sections, selection::COMPARED_BYTES);
        for (rank, text) in ranks.into_iter().zip(read.await) {
            texts[rank] = text;
        }
    }
    let (relations, dropped) = selection::drop_redundant(walks, &mut chosen, &texts);
    if dropped > 0 {
        let message =
            format!("{dropped} sections that repeat others, or stand in them, were left out");
        report.notes.push(Note::new("choice.repeated", message));
    }
    report.relations = relations;
    chosen
}

async fn search_document(
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
    let Some(mut tree) = build_tree(sources, plain, document, question, session).await? else {
        return Ok(None);
    };
    tree.boost(&question.expected_titles, PREFERENCE_BONUS);
    let context = SearchContext {
        tree: &tree,
        session,
        question,
        store: sources.store,
    };
    let trace = strategies::walk(&context, strategy).await;
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
            "{}: the sections are those of a search without a model",
            walk.tree.name()
        );
        walk.trace
            .notes
            .push(Note::new("fallback.lexical", message));
        walk.trace.add_best_lexical(&walk.tree);
    }
}

// The tree with lexical scores for the question and each of its parts. `None` when the tree is gone.
async fn build_tree(
    sources: TreeSearchSources<'_>,
    plain: &Query,
    document: Arc<CatalogDocument>,
    question: &ScoringQuestion,
    session: &LlmSession,
) -> Result<Option<SearchTree>, SearchError> {
    let Some(tree) = sources.store.tree(&document).await? else {
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
    Ok(Some(SearchTree::new(document, &tree, results)))
}

pub(super) struct DocumentWalk {
    pub(super) tree: SearchTree,
    pub(super) trace: StrategyTrace,
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
        report.unknown_ids += trace.unknown_ids;
        report.notes.extend(trace.notes);
        for (at, scored) in trace.scored {
            report.visited.push(VisitedSection {
                locator: section_locator(label, tree.nodes[at].id),
                path: tree.path(at),
                score: rounded(scored.score()),
                lexical: rounded(tree.nodes[at].lexical),
                reason: scored.reason,
                visits: scored.visits,
                chosen: chosen(at),
            });
        }
    }
}
