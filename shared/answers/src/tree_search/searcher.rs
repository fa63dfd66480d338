//! Tree search over a collection: routing, one walk per document, selection.

use std::sync::Arc;

use futures::stream::{StreamExt, TryStreamExt};
use stemma_document::DocId;

use super::analysis;
use super::knowledge::Knowledge;
use super::llm_session::{LlmClient, LlmSession, SessionError};
use super::result::{
    Note, TraceSection, TraceStep, TreeSearchResult, TreeSearchStrategy, TreeSearchTrace,
};
use super::routing::{self, MAX_ROUNDS, Routing, RoutingError, RoutingScope};
use super::score_cache::ScoreCache;
use super::scoring::ScoringQuestion;
use super::search_tree::SearchTree;
use super::selection;
use super::settings::TreeSearchSettings;
use super::strategies::{
    SearchContext, StrategyTrace, add_best_lexical, auto, beam, best_first, mcts, single,
};
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::DocumentStore;
use stemma_retrieval::search::{
    self, DocumentScope, MAX_LIMIT, Query, SearchError, SearchHit, SearchResults, SearchService,
};
use stemma_store::PortResult;

// Hits used to choose documents.
const ROUTING_HITS: usize = 100;
// More hits per described document, since many hits in one document crowd out others.
const HITS_PER_DOCUMENT: usize = 8;
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
        let (first, documents) = self
            .route(sources, &plain, &question, session, &mut trace)
            .await?;
        let walks = documents
            .into_iter()
            .map(|doc| self.search_document(sources, &plain, doc, strategy, &question, session));
        let walks: Vec<Option<DocumentWalk>> = futures::stream::iter(walks)
            .buffered(CONCURRENT_DOCUMENTS)
            .try_collect()
            .await?;
        let mut walks: Vec<DocumentWalk> = walks.into_iter().flatten().collect();
        self.fall_back(&mut walks);
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

    // Question analysis and selection of expert knowledge, concurrently.
    async fn analyze_question(
        &self,
        question: &str,
        session: &LlmSession,
        trace: &mut TreeSearchTrace,
    ) -> ScoringQuestion {
        let knowledge = &self.settings.knowledge;
        let analysis = self.settings.analysis;
        let choosing =
            self.knowledge
                .choose(question, knowledge.chosen_by, knowledge.similarity, session);
        let analyzing = async {
            if analysis {
                Some(analysis::analyze(question, session).await)
            } else {
                None
            }
        };
        let ((chosen, unchosen), analyzed) = futures::join!(choosing, analyzing);
        let analysis = analyzed.and_then(|analyzed| {
            analyzed
                .map_err(|error| trace.note_failure("analysis", &error))
                .ok()
        });
        if let Some(error) = unchosen {
            trace.note_failure("choice of expert knowledge", &error);
        }
        if let Some(analysis) = &analysis {
            let why = format!(
                "{} with {} parts",
                analysis.kind,
                analysis.aspects.len().max(1)
            );
            trace.steps.push(TraceStep {
                doc: None,
                what: "analysis",
                why,
                thinking: Vec::new(),
            });
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

    // The documents to walk, and the hits of search without a model in them.
    async fn route(
        &self,
        sources: TreeSearchSources<'_>,
        plain: &Query,
        question: &ScoringQuestion,
        session: &LlmSession,
        trace: &mut TreeSearchTrace,
    ) -> Result<(SearchResults, Vec<DocId>), SearchError> {
        let scope = routing::in_scope(sources.catalog, &plain.within, &plain.filter)?;
        let most = self.settings.documents.max(1);
        let described = self.settings.routing_described.max(1);
        let wide = Query {
            limit: (HITS_PER_DOCUMENT * MAX_ROUNDS * described).clamp(ROUTING_HITS, MAX_LIMIT),
            ..plain.clone()
        };
        let first = sources.search.search(&wide, Some(session)).await?;
        if scope.len() <= 1 {
            return Ok((first, sources.catalog.ids(&scope)?));
        }
        let ranked = best_documents(&first, MAX_ROUNDS * described);
        let routing = match self.settings.routing {
            // The question names its issuer, or content leaves no more documents than are walked.
            Routing::Auto if (1..=most).contains(&ranked.len()) => Routing::Content,
            // Content does not tell which of very many documents to describe.
            Routing::Auto if ranked.is_empty() && scope.len() > described => Routing::Metadata,
            Routing::Auto => Routing::Description,
            named => named,
        };
        let listed = ranked.iter().take(MAX_ROUNDS * described);
        let listed: PortResult<Vec<_>> = listed.map(|doc| sources.catalog.get(*doc)).collect();
        let mut shortlist: Vec<_> = listed?.into_iter().flatten().collect();
        if shortlist.is_empty() {
            // Without hits there is no next best document for a second round.
            let first = sources.catalog.list(&scope).take(described);
            shortlist = first.collect::<PortResult<_>>()?;
        }
        let choice = RoutingScope {
            catalog: sources.catalog,
            documents: &scope,
        };
        let asking = routing
            .narrow(&question.question, choice, (&shortlist, described), session)
            .await;
        let routed = match asking {
            Ok(routed) => {
                trace.unknown_ids += routed.unknown;
                trace.notes.extend(routed.note);
                routed.documents
            }
            Err(RoutingError::Port(error)) => return Err(error.into()),
            Err(RoutingError::Session(error)) => {
                trace.note_failure("routing", &error);
                None
            }
        };
        let years = question
            .analysis
            .as_ref()
            .map(|analysis| analysis.years.as_slice())
            .unwrap_or_default();
        let routed = match routed {
            None => routing::documents_of_years(years, choice)?,
            routed => routed,
        };
        let Some(narrowed) = routed else {
            return Ok((first, ranked.into_iter().take(most).collect()));
        };
        let results = sources
            .search
            .search(
                &Query {
                    within: DocumentScope::Documents(narrowed.clone()),
                    ..wide
                },
                Some(session),
            )
            .await?;
        let mut order = best_documents(&results, narrowed.len());
        if routing == Routing::Description {
            order.clone_from(&narrowed);
        }
        let why = format!(
            "{} of {} documents, {}",
            narrowed.len(),
            scope.len(),
            routing.description()
        );
        trace.steps.push(TraceStep {
            doc: None,
            what: "routing",
            why,
            thinking: Vec::new(),
        });
        let mut order = if order.is_empty() { narrowed } else { order };
        order.truncate(most);
        // Metadata may be wrong or missing, and so may the model: the best document by content is always walked.
        if let Some(best) = ranked
            .first()
            .filter(|best| most > 1 && !order.contains(best))
        {
            order.truncate(most - 1);
            order.push(*best);
        }
        let filled = if routing == Routing::Metadata {
            most
        } else {
            order.len()
        };
        let others: Vec<DocId> = ranked
            .into_iter()
            .filter(|doc| !order.contains(doc))
            .collect();
        order.extend(others.into_iter().take(filled.saturating_sub(order.len())));
        Ok((results, order))
    }

    // The sections of the result, best first.
    async fn select_sections(
        &self,
        sources: TreeSearchSources<'_>,
        walks: &mut [DocumentWalk],
        most: usize,
        trace: &mut TreeSearchTrace,
    ) -> Vec<selection::SectionPosition> {
        let most = most.min(self.settings.sections);
        let mut chosen = selection::select_sections(&self.settings, walks, most);
        let followed = selection::follow_references(&self.settings, walks, &mut chosen, most);
        if followed > 0 {
            let why = format!("{followed} sections that chosen ones refer to");
            trace.steps.push(TraceStep {
                doc: None,
                what: "references",
                why,
                thinking: Vec::new(),
            });
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
        let (relations, dropped) =
            selection::drop_redundant(&self.settings, walks, &mut chosen, &texts);
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
        tree.boost(&question.expected_titles, self.settings.knowledge.prior);
        let mut trace = StrategyTrace::default();
        let settings = &self.settings;
        let store = sources.store;
        let scores = &self.scores;
        let context = SearchContext {
            tree: &tree,
            session,
            settings,
            question,
            store,
            listed: &document,
            scores,
        };
        let (chosen, why) = match strategy {
            TreeSearchStrategy::Auto => auto::choose_strategy(&context),
            asked_for => (Some(asked_for), "asked for".into()),
        };
        let ended = match chosen {
            Some(strategy) => run_strategy(&context, strategy, &mut trace).await,
            None => Ok("lexical"),
        };
        let is_cut_short = ended.is_err();
        let what = ended.unwrap_or_else(|error| {
            trace.notes.push(Note::from_error(&tree.name, &error));
            chosen.map_or("lexical", TreeSearchStrategy::as_str)
        });
        Ok(Some(DocumentWalk {
            tree,
            trace,
            strategy: what,
            why,
            is_cut_short,
        }))
    }

    // Search without a model replaces walks that were cut short before they found anything, and all walks when none found
    // anything.
    fn fall_back(&self, walks: &mut [DocumentWalk]) {
        let is_empty =
            |walk: &DocumentWalk| walk.trace.count_at_least(self.settings.threshold) == 0;
        let are_all_empty = walks.iter().all(is_empty);
        for walk in walks
            .iter_mut()
            .filter(|walk| is_empty(walk) && (walk.is_cut_short || are_all_empty))
        {
            let message = format!(
                "{}: the sections are those of a search without a model",
                walk.tree.name
            );
            walk.trace
                .notes
                .push(Note::new("fallback.lexical", message));
            add_best_lexical(&walk.tree, &self.settings, &mut walk.trace);
        }
    }
}

// Returns the name of the strategy that did the walk.
async fn run_strategy(
    context: &SearchContext<'_>,
    strategy: TreeSearchStrategy,
    strategy_trace: &mut StrategyTrace,
) -> Result<&'static str, SessionError> {
    match strategy {
        TreeSearchStrategy::Auto | TreeSearchStrategy::BestFirst => {
            best_first::walk(context, strategy_trace).await?;
        }
        TreeSearchStrategy::Beam => beam::walk(context, strategy_trace).await?,
        TreeSearchStrategy::Mcts => mcts::walk(context, strategy_trace).await?,
        TreeSearchStrategy::Single => {
            if single::walk(context, strategy_trace).await? == single::SingleOutcome::TooLarge {
                let message = "not even the top of the tree fits into one prompt: it was walked level by level (beam)";
                strategy_trace
                    .notes
                    .push(Note::new("single.too_large", message));
                beam::walk(context, strategy_trace).await?;
                return Ok(TreeSearchStrategy::Beam.as_str());
            }
        }
    }
    Ok(strategy.as_str())
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

fn best_documents(results: &SearchResults, most: usize) -> Vec<DocId> {
    let mut scores: Vec<(DocId, f64, u32)> = Vec::new();
    for hit in &results.hits {
        match scores.iter_mut().find(|(doc, ..)| *doc == hit.doc_id) {
            Some((_, sum, count)) => (*sum, *count) = (*sum + hit.score, *count + 1),
            None => scores.push((hit.doc_id, hit.score, 1)),
        }
    }
    // Sum of scores over the root of n + 1 (PageIndex's DocScore): many matching sections speak for a document, but each less
    // than the first.
    let mut ranked: Vec<(DocId, f64)> = scores
        .into_iter()
        .map(|(doc, sum, count)| (doc, sum / f64::from(count + 1).sqrt()))
        .collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked
        .into_iter()
        .take(most.max(1))
        .map(|(doc, _)| doc)
        .collect()
}

pub(super) struct DocumentWalk {
    pub(super) tree: SearchTree,
    pub(super) trace: StrategyTrace,
    strategy: &'static str,
    why: String,
    // The model or the budget ended the walk.
    is_cut_short: bool,
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
            strategy: what,
            why,
            ..
        } = self;
        trace.steps.push(TraceStep {
            doc: Some(tree.doc),
            what,
            why,
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
