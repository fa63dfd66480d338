//! From a question to sections, with a model: which documents, how each is walked, what is chosen.

use std::sync::Arc;

use futures::stream::{StreamExt, TryStreamExt};
use stemma_document::DocId;

use super::accounted::Accounted;
use super::analysis;
use super::asker::{AskError, Asker, Consultation};
use super::choice;
use super::judge::Asked;
use super::knowledge::Knowledge;
use super::outline::Outline;
use super::routing::{self, LOOKS, Routing};
use super::settings::ReasonSettings;
use super::strategies::{Ground, Trail, auto, beam, best_first, lexical, mcts, single};
use super::verdicts::Verdicts;
use super::walked::{LookedAt, Note, Reasoning, Step, Strategy, Walked};
use stemma_catalog::catalogue::{Catalogue, Listed};
use stemma_catalog::shelf::Shelf;
use stemma_retrieval::find::{self, FindError, Finder, Found, Hit, MAX_LIMIT, Query, Within};

/// Hits from which documents are chosen.
const ROUTING_HITS: usize = 100;
/// Hits for each document that is described: many of one document leave others out.
const HITS_PER_DOCUMENT: usize = 8;
/// Trees walked at once.
const AT_ONCE: usize = 4;

/// What a walk reads from.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// Search without a model.
    pub finder: &'a dyn Finder,
    /// Trees and texts.
    pub shelf: &'a dyn Shelf,
    /// The documents there are.
    pub catalogue: &'a Catalogue,
}

/// Walks the trees of one collection with a model.
pub struct Reasoner {
    asker: Arc<Asker>,
    settings: ReasonSettings,
    knowledge: Knowledge,
    verdicts: Verdicts,
}

impl Reasoner {
    /// A reasoner that asks through `asker` and knows what experts know.
    pub fn new(asker: Arc<Asker>, settings: ReasonSettings, knowledge: Knowledge) -> Self {
        let verdicts = Verdicts::new(asker.env());
        Self {
            asker,
            settings,
            knowledge,
            verdicts,
        }
    }

    /// The way to the model.
    pub fn asker(&self) -> &Arc<Asker> {
        &self.asker
    }

    /// The configuration.
    pub fn settings(&self) -> &ReasonSettings {
        &self.settings
    }

    /// A text that is another where answers may be others: settings and knowledge.
    pub fn identity(&self) -> String {
        let knowledge = serde_json::to_string(&self.knowledge).unwrap_or_default();
        format!(
            "{}\n{knowledge}",
            serde_json::to_string(&self.settings).unwrap_or_default()
        )
    }

    /// Sections that answer a question, by a strategy, on the account of `consultation`. Where the model is away, or the
    /// budget is used up, what was learned until then counts, search without a model stands in for the rest, and the notes
    /// say so.
    ///
    /// # Errors
    /// [`FindError`] where not even search without a model can answer.
    pub async fn walk(
        &self,
        sources: Sources<'_>,
        query: &Query,
        strategy: Strategy,
        consultation: &Consultation,
    ) -> Result<Walked, FindError> {
        let plain = Query {
            strategy: find::Strategy::Ranked,
            skip: 0,
            rectangles: false,
            ..query.clone()
        };
        let accounted = Accounted {
            finder: sources.finder,
            consultation,
        };
        let sources = Sources {
            finder: &accounted,
            ..sources
        };
        let mut reasoning = Reasoning {
            strategy,
            model: Some(self.asker.model().into()),
            ..Reasoning::default()
        };
        let asked = self
            .understand(&query.text, consultation, &mut reasoning)
            .await;
        let (first, documents) = self
            .route(sources, &plain, &asked, consultation, &mut reasoning)
            .await?;
        let walks = documents
            .into_iter()
            .map(|doc| self.in_document(sources, &plain, doc, strategy, &asked, consultation));
        let walks: Vec<Option<Walk>> = futures::stream::iter(walks)
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let mut walks: Vec<Walk> = walks.into_iter().flatten().collect();
        self.fall_back(&mut walks);
        let chosen = self
            .choose(sources, &mut walks, query.limit, &mut reasoning)
            .await;
        let mut found = Found {
            hits: Vec::new(),
            next: None,
            ..first
        };
        found.hits = chosen
            .iter()
            .map(|(walk, at)| walks[*walk].hit(*at))
            .collect();
        found.total = find::Total::Exact(found.hits.len());
        reasoning.confidence = choice::confidence(&found.hits);
        for (index, walk) in walks.into_iter().enumerate() {
            walk.told(&mut reasoning, |at| chosen.contains(&(index, at)));
        }
        reasoning.spent = consultation.spent();
        Ok(Walked { found, reasoning })
    }

    /// What the question asks for, and what experts know about that.
    async fn understand(
        &self,
        question: &str,
        consultation: &Consultation,
        reasoning: &mut Reasoning,
    ) -> Asked {
        let knowledge = &self.settings.knowledge;
        let analysis = self.settings.analysis;
        let choosing = self.knowledge.choose(
            question,
            knowledge.chosen_by,
            knowledge.similarity,
            consultation,
        );
        let analyzing = async {
            if analysis {
                Some(analysis::analyze(question, consultation).await)
            } else {
                None
            }
        };
        let ((chosen, unchosen), analyzed) = futures::join!(choosing, analyzing);
        let analysis = analyzed.and_then(|analyzed| {
            analyzed
                .map_err(|error| reasoning.lacks("analysis", &error))
                .ok()
        });
        if let Some(error) = unchosen {
            reasoning.lacks("choice of expert knowledge", &error);
        }
        if let Some(analysis) = &analysis {
            let why = format!(
                "{} with {} parts",
                analysis.kind,
                analysis.aspects.len().max(1)
            );
            reasoning.steps.push(Step {
                doc: None,
                what: "analysis",
                why,
                thinking: Vec::new(),
            });
        }
        (reasoning.analysis, reasoning.knowledge) = (analysis.clone(), chosen.applied);
        let expected = analysis
            .iter()
            .flat_map(|analysis| analysis.locations.clone())
            .chain(chosen.sections)
            .collect();
        Asked {
            question: question.into(),
            analysis,
            knowledge: chosen.text,
            expected,
        }
    }

    /// Which documents are walked, and what search without a model finds in them.
    async fn route(
        &self,
        sources: Sources<'_>,
        plain: &Query,
        asked: &Asked,
        consultation: &Consultation,
        reasoning: &mut Reasoning,
    ) -> Result<(Found, Vec<DocId>), FindError> {
        let scope = routing::in_scope(sources.catalogue, &plain.within, &plain.filter);
        let most = self.settings.documents.max(1);
        let described = self.settings.routing_described.max(1);
        let wide = Query {
            limit: (HITS_PER_DOCUMENT * LOOKS * described).clamp(ROUTING_HITS, MAX_LIMIT),
            ..plain.clone()
        };
        let first = sources.finder.find(&wide).await?;
        if scope.len() <= 1 {
            return Ok((first, scope.iter().map(|listed| listed.doc()).collect()));
        }
        let ranked = documents(&first, LOOKS * described);
        let routing = match self.settings.routing {
            // The question names its issuer, or search without a model leaves no more than are walked.
            Routing::Auto if (1..=most).contains(&ranked.len()) => Routing::Content,
            // Words say nothing about which of very many to describe.
            Routing::Auto if ranked.is_empty() && scope.len() > described => Routing::Metadata,
            Routing::Auto => Routing::Description,
            named => named,
        };
        let known: Vec<&Listed> = ranked
            .iter()
            .filter_map(|doc| sources.catalogue.get(*doc))
            .collect();
        let candidates = if known.is_empty() { &scope } else { &known };
        // Where words find nothing there is no next best to look at.
        let looked = if known.is_empty() {
            described
        } else {
            LOOKS * described
        };
        let shown = &candidates[..candidates.len().min(looked)];
        let asking = routing
            .left(&asked.question, &scope, (shown, described), consultation)
            .await;
        let routed = match asking {
            Ok(routed) => {
                reasoning.unknown_ids += routed.unknown;
                reasoning.notes.extend(routed.note);
                routed.documents
            }
            Err(error) => {
                reasoning.lacks("routing", &error);
                None
            }
        };
        let years = asked
            .analysis
            .as_ref()
            .map(|analysis| analysis.years.as_slice())
            .unwrap_or_default();
        let routed = routed.or_else(|| routing::of_years(years, &scope));
        let Some(left) = routed else {
            return Ok((first, ranked.into_iter().take(most).collect()));
        };
        let found = sources
            .finder
            .find(&Query {
                within: Within::Documents(left.clone()),
                ..wide
            })
            .await?;
        let mut order = documents(&found, left.len());
        if routing == Routing::Description {
            order.clone_from(&left);
        }
        let why = format!(
            "{} of {} documents, {}",
            left.len(),
            scope.len(),
            routing.as_str()
        );
        reasoning.steps.push(Step {
            doc: None,
            what: "routing",
            why,
            thinking: Vec::new(),
        });
        let mut order = if order.is_empty() { left } else { order };
        order.truncate(most);
        // Facts are wrong or missing now and then, and so is a model: what words put first is not lost for either.
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
        Ok((found, order))
    }

    /// The sections that are given back, best first.
    async fn choose(
        &self,
        sources: Sources<'_>,
        walks: &mut [Walk],
        most: usize,
        reasoning: &mut Reasoning,
    ) -> Vec<choice::At> {
        let most = most.min(self.settings.sections);
        let mut chosen = choice::choose(&self.settings, walks, most);
        let followed = choice::follow(&self.settings, walks, &mut chosen, most);
        if followed > 0 {
            let why = format!("{followed} sections that chosen ones refer to");
            reasoning.steps.push(Step {
                doc: None,
                what: "references",
                why,
                thinking: Vec::new(),
            });
        }
        let mut texts = vec![String::new(); chosen.len()];
        for (index, walk) in walks.iter().enumerate() {
            let Some(listed) = sources.catalogue.get(walk.outline.doc) else {
                continue;
            };
            let here: Vec<usize> = (0..chosen.len())
                .filter(|n| chosen[*n].0 == index)
                .collect();
            let ids: Vec<_> = here
                .iter()
                .map(|n| walk.outline.nodes[chosen[*n].1].id)
                .collect();
            let read = sources
                .shelf
                .own_texts(listed, &ids, choice::COMPARED_BYTES)
                .await
                .unwrap_or_default();
            here.into_iter()
                .zip(read)
                .for_each(|(n, text)| texts[n] = text);
        }
        let (relations, dropped) = choice::relate(&self.settings, walks, &mut chosen, &texts);
        if dropped > 0 {
            let message =
                format!("{dropped} sections that repeat others, or stand in them, were left out");
            reasoning.notes.push(Note::new("choice.repeated", message));
        }
        reasoning.relations = relations;
        chosen
    }

    async fn in_document(
        &self,
        sources: Sources<'_>,
        plain: &Query,
        doc: DocId,
        strategy: Strategy,
        asked: &Asked,
        consultation: &Consultation,
    ) -> Result<Option<Walk>, FindError> {
        let Some(listed) = sources.catalogue.get(doc) else {
            return Ok(None);
        };
        let Some(mut outline) = outline(sources, plain, listed, asked).await? else {
            return Ok(None);
        };
        outline.prefer(&asked.expected, self.settings.knowledge.prior);
        let mut trail = Trail::default();
        let settings = &self.settings;
        let shelf = sources.shelf;
        let verdicts = &self.verdicts;
        let ground = Ground {
            outline: &outline,
            consultation,
            settings,
            asked,
            shelf,
            listed,
            verdicts,
        };
        let (chosen, why) = match strategy {
            Strategy::Auto => auto::choose(&ground),
            asked_for => (Some(asked_for), "asked for".into()),
        };
        let ended = match chosen {
            Some(strategy) => walk(&ground, strategy, &mut trail).await,
            None => Ok("lexical"),
        };
        let is_cut_short = ended.is_err();
        let what = ended.unwrap_or_else(|error| {
            trail.notes.push(Note::new(
                error.code(),
                format!("{}: {error}", outline.name),
            ));
            chosen.map_or("lexical", Strategy::as_str)
        });
        Ok(Some(Walk {
            outline,
            trail,
            what,
            why,
            is_cut_short,
        }))
    }

    /// Search without a model stands in for walks that were cut short before they found something, and for all where none
    /// found anything.
    fn fall_back(&self, walks: &mut [Walk]) {
        let is_empty = |walk: &Walk| walk.trail.at_least(self.settings.threshold) == 0;
        let is_nothing_found = walks.iter().all(is_empty);
        for walk in walks
            .iter_mut()
            .filter(|walk| is_empty(walk) && (walk.is_cut_short || is_nothing_found))
        {
            let message = format!(
                "{}: the sections are those of a search without a model",
                walk.outline.name
            );
            walk.trail
                .notes
                .push(Note::new("fallback.lexical", message));
            lexical(&walk.outline, &self.settings, &mut walk.trail);
        }
    }
}

/// Walks a document by a strategy; the word for the one that did it.
async fn walk(
    ground: &Ground<'_>,
    strategy: Strategy,
    trail: &mut Trail,
) -> Result<&'static str, AskError> {
    match strategy {
        Strategy::Auto | Strategy::BestFirst => best_first::walk(ground, trail).await?,
        Strategy::Beam => beam::walk(ground, trail).await?,
        Strategy::Mcts => mcts::walk(ground, trail).await?,
        Strategy::Single => {
            if single::walk(ground, trail).await? == single::Ended::TooLarge {
                let message = "not even the top of the tree fits into one prompt: it was walked level by level (beam)";
                trail.notes.push(Note::new("single.too_large", message));
                beam::walk(ground, trail).await?;
                return Ok(Strategy::Beam.as_str());
            }
        }
    }
    Ok(strategy.as_str())
}

/// The tree of a document with what search without a model finds in it, for the question and each of its parts at once;
/// `None` where it has gone.
async fn outline(
    sources: Sources<'_>,
    plain: &Query,
    listed: &Listed,
    asked: &Asked,
) -> Result<Option<Outline>, FindError> {
    let Some(tree) = sources.shelf.tree(listed).await? else {
        return Ok(None);
    };
    let within = Within::Documents(vec![listed.doc()]);
    let here = Query {
        within,
        limit: MAX_LIMIT,
        ..plain.clone()
    };
    let whole = sources.finder.find(&here).await?;
    let parts = asked
        .parts()
        .map(|part| Query {
            text: part,
            ..here.clone()
        })
        .collect::<Vec<_>>();
    let parts = futures::future::join_all(parts.iter().map(|part| sources.finder.find(part))).await;
    // A part of a question may have no words to look for.
    let parts = parts
        .into_iter()
        .map(|found| found.map(|found| found.hits).unwrap_or_default());
    let found: Vec<Vec<Hit>> = std::iter::once(whole.hits).chain(parts).collect();
    let version = listed.version();
    Ok(Some(Outline::of(
        listed.doc(),
        (&version.name, version.seq),
        &tree,
        found,
    )))
}

/// The documents with the best sections, best first.
fn documents(found: &Found, most: usize) -> Vec<DocId> {
    let mut scores: Vec<(DocId, f32, u32)> = Vec::new();
    for hit in &found.hits {
        match scores.iter_mut().find(|(doc, ..)| *doc == hit.doc) {
            Some((_, sum, count)) => (*sum, *count) = (*sum + hit.score, *count + 1),
            None => scores.push((hit.doc, hit.score, 1)),
        }
    }
    // DocScore (features F): many sections that fit speak for a document, but not each as much as the first.
    let score = |(_, sum, count): &(DocId, f32, u32)| sum / ((count + 1) as f32).sqrt();
    scores.sort_by(|a, b| score(b).total_cmp(&score(a)).then(a.0.cmp(&b.0)));
    scores
        .into_iter()
        .take(most.max(1))
        .map(|(doc, ..)| doc)
        .collect()
}

/// A document that was walked.
pub(super) struct Walk {
    pub(super) outline: Outline,
    pub(super) trail: Trail,
    what: &'static str,
    why: String,
    /// The model or the budget ended it.
    is_cut_short: bool,
}

impl Walk {
    /// A section as search gives it.
    fn hit(&self, at: usize) -> Hit {
        let outline = &self.outline;
        let node = &self.outline.nodes[at];
        let judged = self.trail.judged.get(&at).cloned().unwrap_or_default();
        let known = outline.hits.get(&node.id).cloned();
        let pages = node
            .span
            .pages()
            .map(|pages| (pages.start().get(), pages.end().get()));
        let lines = match node.span {
            stemma_document::SectionSpan::Lines { start, end } => Some((start, end)),
            stemma_document::SectionSpan::Pages { .. } => None,
        };
        let (best_pages, excerpt) = known
            .map(|hit| (hit.best_pages, hit.excerpt))
            .unwrap_or_default();
        Hit {
            doc: outline.doc,
            name: outline.name.clone(),
            version: outline.version,
            section: node.id,
            path: outline.path(at),
            pages,
            lines,
            best_pages,
            score: judged.score(),
            parts: [
                ("lexical", Some(node.lexical)),
                ("model", (!judged.by_words).then(|| judged.score())),
            ]
            .into_iter()
            .filter_map(|(name, score)| Some((name, score?)))
            .collect(),
            why: judged.reason,
            excerpt,
        }
    }

    /// Adds what was done here to what is told of the whole.
    fn told(self, reasoning: &mut Reasoning, chosen: impl Fn(usize) -> bool) {
        let Self {
            outline,
            trail,
            what,
            why,
            ..
        } = self;
        reasoning.steps.push(Step {
            doc: Some(outline.doc),
            what,
            why,
            thinking: trail.thinking,
        });
        reasoning.unknown_ids += trail.unknown;
        reasoning.notes.extend(trail.notes);
        reasoning
            .looked_at
            .extend(trail.judged.iter().map(|(at, judged)| LookedAt {
                doc: outline.doc,
                section: outline.nodes[*at].id,
                path: outline.path(*at),
                score: judged.score(),
                lexical: outline.nodes[*at].lexical,
                reason: judged.reason.clone(),
                visits: judged.visits,
                chosen: chosen(*at),
            }));
    }
}
