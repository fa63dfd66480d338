//! From a question to sections, with a model: which documents, how each is walked, what is chosen.

use std::sync::Arc;

use futures::stream::{StreamExt, TryStreamExt};
use stemma_document::DocId;

use super::asker::{AskError, Asker, Consultation};
use super::choice;
use super::judge::Asked;
use super::outline::Outline;
use super::settings::ReasonSettings;
use super::strategies::{Ground, Trail, auto, beam, best_first, lexical, mcts, single};
use super::verdicts::Verdicts;
use super::walked::{LookedAt, Note, Reasoning, Step, Strategy, Walked};
use crate::catalogue::{Catalogue, Listed};
use crate::find::{self, FindError, Finder, Found, Hit, MAX_LIMIT, Query, Within};
use crate::shelf::Shelf;

/// Hits from which documents are chosen.
const ROUTING_HITS: usize = 100;
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
    verdicts: Verdicts,
}

impl Reasoner {
    /// A reasoner that asks through `asker`.
    pub fn new(asker: Arc<Asker>, settings: ReasonSettings) -> Self {
        let verdicts = Verdicts::new(asker.env());
        Self { asker, settings, verdicts }
    }

    /// The way to the model.
    pub fn asker(&self) -> &Arc<Asker> {
        &self.asker
    }

    /// The configuration.
    pub fn settings(&self) -> &ReasonSettings {
        &self.settings
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
        let plain = Query { strategy: find::Strategy::Ranked, skip: 0, rectangles: false, ..query.clone() };
        let first = sources.finder.find(&Query { limit: ROUTING_HITS, ..plain.clone() }).await?;
        let mut reasoning = Reasoning { strategy, model: Some(self.asker.model().into()), ..Reasoning::default() };
        let documents = documents(&first, query, self.settings.documents);
        let asked = Asked { question: query.text.clone(), ..Asked::default() };
        let walks =
            documents.into_iter().map(|doc| self.in_document(sources, &plain, doc, strategy, &asked, consultation));
        let walks: Vec<Option<Walk>> = futures::stream::iter(walks).buffered(AT_ONCE).try_collect().await?;
        let walks: Vec<Walk> = walks.into_iter().flatten().collect();
        let mut found = Found { hits: Vec::new(), next: None, ..first };
        let chosen = choice::choose(&self.settings, &walks, query.limit);
        found.hits = chosen.iter().map(|(walk, at)| walks[*walk].hit(*at)).collect();
        found.total = find::Total::Exact(found.hits.len());
        reasoning.confidence = choice::confidence(&found.hits);
        for (index, walk) in walks.into_iter().enumerate() {
            walk.told(&mut reasoning, |at| chosen.contains(&(index, at)));
        }
        reasoning.spent = consultation.spent();
        Ok(Walked { found, reasoning })
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
        let Some(listed) = sources.catalogue.get(doc) else { return Ok(None) };
        let Some(outline) = outline(sources, plain, listed).await? else { return Ok(None) };
        let mut trail = Trail::default();
        let (settings, shelf, verdicts) = (&self.settings, sources.shelf, &self.verdicts);
        let ground = Ground { outline: &outline, consultation, settings, asked, shelf, listed, verdicts };
        let (chosen, why) = match strategy {
            Strategy::Auto => auto::choose(&ground),
            asked_for => (Some(asked_for), "asked for".into()),
        };
        let ended = match chosen {
            Some(strategy) => walk(&ground, strategy, &mut trail).await,
            None => Ok("lexical"),
        };
        let (what, error) = match ended {
            Ok(what) => (what, None),
            Err(error) => (chosen.map_or("lexical", Strategy::as_str), Some(error)),
        };
        fall_back(&self.settings, &outline, error.as_ref(), &mut trail);
        Ok(Some(Walk { outline, trail, what, why }))
    }
}

/// Walks a document by a strategy; the word for the one that did it.
async fn walk(ground: &Ground<'_>, strategy: Strategy, trail: &mut Trail) -> Result<&'static str, AskError> {
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

/// Search without a model where no section was judged good enough.
fn fall_back(settings: &ReasonSettings, outline: &Outline, error: Option<&AskError>, trail: &mut Trail) {
    if let Some(error) = error {
        trail.notes.push(Note::new(error.code(), format!("{}: {error}", outline.name)));
    }
    if trail.at_least(settings.threshold) == 0 {
        let message = format!("{}: the sections are those of a search without a model", outline.name);
        trail.notes.push(Note::new("fallback.lexical", message));
        lexical(outline, settings.sections, trail);
    }
}

/// The tree of a document with what search without a model finds in it; `None` where it has gone.
async fn outline(sources: Sources<'_>, plain: &Query, listed: &Listed) -> Result<Option<Outline>, FindError> {
    let Some(tree) = sources.shelf.tree(listed).await? else { return Ok(None) };
    let within = Within::Documents(vec![listed.doc()]);
    let found = sources.finder.find(&Query { within, limit: MAX_LIMIT, ..plain.clone() }).await?;
    let version = listed.version();
    Ok(Some(Outline::of(listed.doc(), (&version.name, version.seq), &tree, vec![found.hits])))
}

/// The documents a question is walked in: the one it names, or those with the best sections.
fn documents(found: &Found, query: &Query, most: usize) -> Vec<DocId> {
    if let Within::Documents(docs) = &query.within
        && docs.len() <= 1
    {
        return docs.clone();
    }
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
    scores.into_iter().take(most.max(1)).map(|(doc, ..)| doc).collect()
}

/// A document that was walked.
pub(super) struct Walk {
    pub(super) outline: Outline,
    pub(super) trail: Trail,
    what: &'static str,
    why: String,
}

impl Walk {
    /// A section as search gives it.
    fn hit(&self, at: usize) -> Hit {
        let (outline, node) = (&self.outline, &self.outline.nodes[at]);
        let judged = self.trail.judged.get(&at).cloned().unwrap_or_default();
        let known = outline.hits.get(&node.id).cloned();
        let pages = node.span.pages().map(|pages| (pages.start().get(), pages.end().get()));
        let lines = match node.span {
            stemma_document::SectionSpan::Lines { start, end } => Some((start, end)),
            stemma_document::SectionSpan::Pages { .. } => None,
        };
        let (best_pages, excerpt) = known.map(|hit| (hit.best_pages, hit.excerpt)).unwrap_or_default();
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
            parts: [("lexical", node.lexical), ("model", judged.score())].into(),
            why: judged.reason,
            excerpt,
        }
    }

    /// Adds what was done here to what is told of the whole.
    fn told(self, reasoning: &mut Reasoning, chosen: impl Fn(usize) -> bool) {
        let Self { outline, trail, what, why } = self;
        reasoning.steps.push(Step { doc: Some(outline.doc), what, why, thinking: trail.thinking });
        reasoning.unknown_ids += trail.unknown;
        reasoning.notes.extend(trail.notes);
        reasoning.looked_at.extend(trail.judged.iter().map(|(at, judged)| LookedAt {
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
