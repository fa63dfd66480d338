//! The strategies, one file each. Each walks one document, collects scores in a [`StrategyTrace`], and stops when the model
//! fails or the budget is exhausted; scores collected by then count.

pub(super) mod auto;
pub(super) mod beam;
pub(super) mod best_first;
pub(super) mod mcts;
pub(super) mod single;

use std::collections::BTreeMap;

use stemma_document::SectionId;

use super::llm_session::{LlmSession, SessionError};
use super::result::Note;
use super::score_cache::ScoreCache;
use super::scoring::{ScoringQuestion, ScoringReply, ScoringTask, SectionScore};
use super::search_tree::{SearchTree, one_line, truncate};
use super::settings::TreeSearchSettings;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::document_store::DocumentStore;

// Characters of the parent's title in a listing that is not a tree.
const ABOVE_CHARS: usize = 40;

pub(super) struct SearchContext<'a> {
    pub(super) tree: &'a SearchTree,
    pub(super) session: &'a LlmSession,
    pub(super) settings: &'a TreeSearchSettings,
    pub(super) question: &'a ScoringQuestion,
    pub(super) store: &'a dyn DocumentStore,
    pub(super) listed: &'a CatalogDocument,
    pub(super) scores: &'a ScoreCache,
}

#[derive(Debug, Default)]
pub(super) struct StrategyTrace {
    // By index in the tree.
    pub(super) scored: BTreeMap<usize, ScoredSection>,
    // The model's own words, call by call.
    pub(super) thinking: Vec<String>,
    pub(super) notes: Vec<Note>,
    pub(super) unknown_ids: u32,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ScoredSection {
    // Sum of all scores, and their number.
    sum: f32,
    pub(super) visits: u32,
    pub(super) reason: String,
    // Scored without a model.
    pub(super) is_lexical: bool,
}

impl ScoredSection {
    // Mean, 0–1.
    pub(super) fn score(&self) -> f32 {
        if self.visits == 0 {
            0.0
        } else {
            self.sum / self.visits as f32
        }
    }
}

impl StrategyTrace {
    // Further scores of a section are averaged.
    pub(super) fn add(&mut self, reply: &ScoringReply) {
        self.unknown_ids += reply.unknown_ids;
        if !reply.thinking.is_empty() {
            self.thinking.push(reply.thinking.clone());
        }
        for score in &reply.scores {
            let scored = self.scored.entry(score.at).or_default();
            scored.sum += score.score;
            scored.visits += 1;
            scored.reason.clone_from(&score.reason);
        }
    }

    // Replaces all earlier scores.
    pub(super) fn set(&mut self, at: usize, score: f32, reason: &str) {
        let scored = self.scored.entry(at).or_default();
        *scored = ScoredSection {
            sum: score,
            visits: 1,
            reason: reason.into(),
            is_lexical: false,
        };
    }

    // Below any section the model scored well: lexical scores count at most `threshold`.
    pub(super) fn stand_in(
        &mut self,
        settings: &TreeSearchSettings,
        at: usize,
        lexical: f32,
        reason: &str,
    ) {
        self.set(at, settings.threshold * lexical, reason);
        if let Some(scored) = self.scored.get_mut(&at) {
            scored.is_lexical = true;
        }
    }

    pub(super) fn score(&self, at: usize) -> Option<f32> {
        self.scored.get(&at).map(ScoredSection::score)
    }

    // Counts sections scored by a model only.
    pub(super) fn count_at_least(&self, threshold: f32) -> usize {
        self.scored
            .values()
            .filter(|scored| !scored.is_lexical && scored.score() >= threshold)
            .count()
    }
}

// Maximum characters per excerpt, and the excerpt of a section.
type Excerpts<'a> = (usize, &'a (dyn Fn(usize) -> String + Send + Sync));

impl SearchContext<'_> {
    // The caller formats the listing.
    async fn score_listing(
        &self,
        kind: ScoringTask,
        sections: &[usize],
        listing: &str,
    ) -> Result<ScoringReply, SessionError> {
        self.question
            .score_sections(self.session, kind, self.tree, listing, sections)
            .await
    }

    // Scores sections by title and summary, each listed under its parent's title. Cached scores are not asked for again.
    async fn score_sections(
        &self,
        kind: ScoringTask,
        sections: &[usize],
        summary_chars: usize,
        trace: &mut StrategyTrace,
    ) -> Result<Vec<(usize, f32)>, SessionError> {
        self.score_with_excerpts(
            kind,
            sections,
            summary_chars,
            (0, &|_| String::new()),
            trace,
        )
        .await
    }

    async fn score_with_excerpts(
        &self,
        kind: ScoringTask,
        sections: &[usize],
        summary_chars: usize,
        (excerpt_chars, excerpt): Excerpts<'_>,
        trace: &mut StrategyTrace,
    ) -> Result<Vec<(usize, f32)>, SessionError> {
        let cached: Vec<SectionScore> = sections
            .iter()
            .filter_map(|at| self.scores.get(self, kind, *at))
            .collect();
        let unscored: Vec<usize> = sections
            .iter()
            .copied()
            .filter(|at| !cached.iter().any(|score| score.at == *at))
            .collect();
        let mut reply = ScoringReply {
            scores: cached,
            ..ScoringReply::default()
        };
        if !unscored.is_empty() {
            let listing = unscored
                .iter()
                .map(|at: &usize| {
                    let excerpt = truncate(&one_line(&excerpt(*at)), excerpt_chars);
                    let below = if excerpt.is_empty() {
                        String::new()
                    } else {
                        format!("\n    “{excerpt}”")
                    };
                    format!("{}{below}", self.format_entry(*at, summary_chars))
                })
                .collect::<Vec<_>>()
                .join("\n");
            let fresh = self.score_listing(kind, &unscored, &listing).await?;
            fresh
                .scores
                .iter()
                .for_each(|score| self.scores.put(self, kind, score));
            (reply.thinking, reply.unknown_ids) = (fresh.thinking, fresh.unknown_ids);
            reply.scores.extend(fresh.scores);
        }
        trace.add(&reply);
        Ok(reply
            .scores
            .into_iter()
            .map(|score| (score.at, score.score))
            .collect())
    }

    // One line of a listing, with the parent's title.
    fn format_entry(&self, at: usize, summary_chars: usize) -> String {
        let above = self.tree.nodes[at]
            .parent
            .map(|above| truncate(&self.tree.nodes[above].title, ABOVE_CHARS));
        self.tree.format_entry(at, above.as_deref(), summary_chars)
    }

    // The beginnings of section texts; the search snippet when the store has no text.
    async fn section_texts(&self, sections: &[usize], most_chars: usize) -> Vec<String> {
        let ids: Vec<SectionId> = sections.iter().map(|at| self.tree.nodes[*at].id).collect();
        let texts = self
            .store
            .section_texts(self.listed, &ids, 4 * most_chars)
            .await
            .unwrap_or_default();
        sections
            .iter()
            .enumerate()
            .map(|(n, at): (usize, &usize)| {
                texts
                    .get(n)
                    .filter(|text| !text.is_empty())
                    .cloned()
                    .unwrap_or_else(|| self.snippet(*at))
            })
            .collect()
    }

    /// The snippet of the search hit in a section, or nothing.
    fn snippet(&self, at: usize) -> String {
        let hit = self.tree.hits.get(&self.tree.nodes[at].id);
        hit.map(|hit| hit.excerpt.text.clone()).unwrap_or_default()
    }
}

// Results of search without a model, for a walk that found nothing.
pub(super) fn add_best_lexical(
    tree: &SearchTree,
    settings: &TreeSearchSettings,
    trace: &mut StrategyTrace,
) {
    for at in tree.best_lexical(settings.sections) {
        trace.stand_in(
            settings,
            at,
            tree.nodes[at].lexical,
            "by its words, without a model",
        );
    }
}
