//! The strategies, one file each. All walk one document, judge sections into a [`StrategyTrace`], and stop where the model or the
//! budget does; what is judged by then counts.

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

/// Characters of the title above a section, where a listing shows it out of its place.
const ABOVE_CHARS: usize = 40;

/// What strategies stand on.
pub(super) struct SearchContext<'a> {
    pub(super) tree: &'a SearchTree,
    pub(super) session: &'a LlmSession,
    pub(super) settings: &'a TreeSearchSettings,
    pub(super) question: &'a ScoringQuestion,
    pub(super) store: &'a dyn DocumentStore,
    pub(super) listed: &'a CatalogDocument,
    pub(super) scores: &'a ScoreCache,
}

/// What a strategy learned.
#[derive(Debug, Default)]
pub(super) struct StrategyTrace {
    /// Sections that were judged.
    pub(super) scored: BTreeMap<usize, ScoredSection>,
    /// What the model said that it thinks, call by call.
    pub(super) thinking: Vec<String>,
    pub(super) notes: Vec<Note>,
    pub(super) unknown_ids: u32,
}

/// A section that was judged.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ScoredSection {
    /// The sum of the values that count, and how many those are.
    sum: f32,
    pub(super) visits: u32,
    pub(super) reason: String,
    /// No model said so: it stands in by what its words say.
    pub(super) is_lexical: bool,
}

impl ScoredSection {
    /// 0–1.
    pub(super) fn score(&self) -> f32 {
        if self.visits == 0 {
            0.0
        } else {
            self.sum / self.visits as f32
        }
    }
}

impl StrategyTrace {
    /// Adds what a call said; a further value of a section counts as much as those before.
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

    /// Puts a score in the place of all before.
    pub(super) fn set(&mut self, at: usize, score: f32, reason: &str) {
        let scored = self.scored.entry(at).or_default();
        *scored = ScoredSection {
            sum: score,
            visits: 1,
            reason: reason.into(),
            is_lexical: false,
        };
    }

    /// Lets a section stand in by its words alone, behind whatever a model judged good.
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

    /// The score of a section; `None` where it was not judged.
    pub(super) fn score(&self, at: usize) -> Option<f32> {
        self.scored.get(&at).map(ScoredSection::score)
    }

    /// Sections that a model judged at `threshold` or better.
    pub(super) fn count_at_least(&self, threshold: f32) -> usize {
        self.scored
            .values()
            .filter(|scored| !scored.is_lexical && scored.score() >= threshold)
            .count()
    }
}

/// What a section is judged by beside title and summary: at most so many characters for each.
type Excerpts<'a> = (usize, &'a (dyn Fn(usize) -> String + Send + Sync));

impl SearchContext<'_> {
    /// Asks about sections in a listing of the caller's.
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

    /// Values sections by title and summary, each under the title above it. What was valued for the same question before
    /// is not asked again.
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

    /// The same with an excerpt below each section.
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

    /// A line of a listing, with the title above.
    fn format_entry(&self, at: usize, summary_chars: usize) -> String {
        let above = self.tree.nodes[at]
            .parent
            .map(|above| truncate(&self.tree.nodes[above].title, ABOVE_CHARS));
        self.tree.format_entry(at, above.as_deref(), summary_chars)
    }

    /// The beginnings of the own texts of sections; where the store does not say, the words that search found.
    async fn section_texts(&self, sections: &[usize], most_chars: usize) -> Vec<String> {
        let ids: Vec<SectionId> = sections.iter().map(|at| self.tree.nodes[*at].id).collect();
        let texts = self
            .store
            .section_texts(self.listed, &ids, 4 * most_chars)
            .await
            .unwrap_or_default();
        let snippet = |id: &SectionId| {
            self.tree
                .hits
                .get(id)
                .map(|hit| hit.snippet.text.clone())
                .unwrap_or_default()
        };
        ids.iter()
            .enumerate()
            .map(|(n, id): (usize, &SectionId)| {
                texts
                    .get(n)
                    .filter(|text| !text.is_empty())
                    .cloned()
                    .unwrap_or_else(|| snippet(id))
            })
            .collect()
    }
}

/// What stands in the place of a walk that brought nothing: the sections that fit best without a model.
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
