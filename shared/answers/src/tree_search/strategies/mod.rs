//! The strategies, one file each, and the one driver that walks a document with any of them.
//!
//! A strategy says which sections the model scores next, given the scores so far. The driver asks the model and keeps the
//! scores. It stops when the strategy has nothing more to ask, the model fails or the budget is used up; scores collected by
//! then count.

mod auto;
mod beam;
mod best_first;
mod mcts;
mod single;

use std::collections::BTreeMap;

use super::llm_session::LlmSession;
use super::result::{Note, TreeSearchStrategy};
use super::scoring::{Excerpt, ScoringQuestion, ScoringReply, ScoringTask};
use super::search_tree::{SearchTree, one_line, truncate};
use super::session_error::SessionError;
use stemma_catalog::document_store::DocumentStore;

/// Minimum score of a section that is good enough for the result.
pub(super) const THRESHOLD: f32 = 0.3;
/// Sections of a result at most.
pub(super) const MAX_SECTIONS: usize = 8;
// Characters of the parent's title in a listing that is not a tree.
const ABOVE_CHARS: usize = 40;

/// A way to walk a section tree.
trait Strategy: Send {
    // The sections that the model scores next; `None` when the walk is over.
    fn next_batch(&mut self, trace: &mut StrategyTrace) -> Option<Batch>;
}

/// Sections that are scored in one call.
struct Batch {
    task: ScoringTask,
    sections: Vec<usize>,
}

impl Batch {
    // `None` without sections: there is nothing to ask.
    fn new(task: ScoringTask, sections: Vec<usize>) -> Option<Self> {
        (!sections.is_empty()).then_some(Self { task, sections })
    }
}

/// Walks a document with a strategy, or with one that fits (`Auto`).
pub(super) async fn walk(
    context: &SearchContext<'_>,
    strategy: TreeSearchStrategy,
) -> StrategyTrace {
    let mut trace = StrategyTrace::default();
    let (chosen, why) = match strategy {
        TreeSearchStrategy::Auto => auto::choose_strategy(context),
        named => (Some(named), "asked for".into()),
    };
    trace.why = why;
    let Some(chosen) = chosen else {
        trace.strategy = "lexical";
        return trace;
    };
    let tree = context.tree;
    let (used, mut strategy): (_, Box<dyn Strategy + '_>) = match chosen {
        TreeSearchStrategy::Single => match single::Single::new(context) {
            Some(single) => (chosen, Box::new(single)),
            None => {
                let message = "not even the top of the tree fits into one prompt: it was walked level by level (beam)";
                trace.notes.push(Note::new("single.too_large", message));
                (TreeSearchStrategy::Beam, Box::new(beam::Beam::new(tree)))
            }
        },
        TreeSearchStrategy::Beam => (chosen, Box::new(beam::Beam::new(tree))),
        TreeSearchStrategy::Mcts => (chosen, Box::new(mcts::Mcts::new(tree))),
        TreeSearchStrategy::BestFirst | TreeSearchStrategy::Auto => (
            TreeSearchStrategy::BestFirst,
            Box::new(best_first::BestFirst::new(tree)),
        ),
    };
    trace.strategy = used.as_str();
    while let Some(batch) = strategy.next_batch(&mut trace) {
        if let Err(error) = context.score(&batch, &mut trace).await {
            trace.notes.push(Note::from_error(tree.name(), &error));
            trace.is_cut_short = true;
            break;
        }
    }
    trace
}

pub(super) struct SearchContext<'a> {
    pub(super) tree: &'a SearchTree,
    pub(super) session: &'a LlmSession,
    pub(super) question: &'a ScoringQuestion,
    pub(super) store: &'a dyn DocumentStore,
}

/// How a walk went.
#[derive(Debug, Default)]
pub(super) struct StrategyTrace {
    // The strategy that was used, and why.
    pub(super) strategy: &'static str,
    pub(super) why: String,
    // Whether the model failed, or the budget was used up.
    pub(super) is_cut_short: bool,
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
    fn add(&mut self, reply: ScoringReply) {
        self.unknown_ids += reply.unknown_ids;
        if !reply.thinking.is_empty() {
            self.thinking.push(reply.thinking);
        }
        for score in reply.scores {
            let scored = self.scored.entry(score.at).or_default();
            scored.sum += score.score;
            scored.visits += 1;
            scored.reason = score.reason;
        }
    }

    // Replaces all earlier scores of the section.
    pub(super) fn set(&mut self, at: usize, score: f32, reason: &str) {
        let scored = ScoredSection {
            sum: score,
            visits: 1,
            reason: reason.into(),
            is_lexical: false,
        };
        self.scored.insert(at, scored);
    }

    // Below any section the model scored well: lexical scores count at most `THRESHOLD`.
    fn stand_in(&mut self, tree: &SearchTree, at: usize, reason: &str) {
        self.set(at, THRESHOLD * tree.nodes[at].lexical, reason);
        if let Some(scored) = self.scored.get_mut(&at) {
            scored.is_lexical = true;
        }
    }

    // Results of search without a model, for a walk that found nothing.
    pub(super) fn add_best_lexical(&mut self, tree: &SearchTree) {
        for at in tree.best_lexical(MAX_SECTIONS) {
            self.stand_in(tree, at, "by its words, without a model");
        }
    }

    pub(super) fn score(&self, at: usize) -> Option<f32> {
        self.scored.get(&at).map(ScoredSection::score)
    }

    // The sections of `among` that are good enough, best first.
    fn best(&self, among: impl Iterator<Item = usize>, most: usize) -> Vec<usize> {
        let mut scored: Vec<(f32, usize)> = among
            .filter_map(|at| Some((self.score(at)?, at)))
            .filter(|(score, _)| *score >= THRESHOLD)
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.into_iter().take(most).map(|(_, at)| at).collect()
    }

    // Counts sections scored by a model only.
    pub(super) fn count_at_least(&self, threshold: f32) -> usize {
        self.scored
            .values()
            .filter(|scored| !scored.is_lexical && scored.score() >= threshold)
            .count()
    }
}

impl SearchContext<'_> {
    async fn score(&self, batch: &Batch, trace: &mut StrategyTrace) -> Result<(), SessionError> {
        let Batch { task, sections } = batch;
        let excerpts = self.excerpts(*task, sections).await;
        let listing = self.listing(*task, sections, &excerpts);
        let reply = self
            .question
            .score_sections(self.session, *task, self.tree, &listing, sections)
            .await?;
        if *task == ScoringTask::RANK {
            // The ranking is the result. What led to it is not.
            trace.scored.clear();
        }
        trace.add(reply);
        Ok(())
    }

    // One section a line: as a tree, or each with its parent's title and what `excerpts` has of its text.
    fn listing(&self, task: ScoringTask, sections: &[usize], excerpts: &[String]) -> String {
        let nodes = &self.tree.nodes;
        let lines = sections.iter().enumerate().map(|(n, at)| {
            if task.shows_tree {
                let indent = "  ".repeat(nodes[*at].depth.saturating_sub(1));
                let entry = self.tree.format_entry(*at, None, task.summary_chars);
                return format!("{indent}{entry}");
            }
            let above = nodes[*at]
                .parent
                .map(|above| truncate(&nodes[above].title, ABOVE_CHARS));
            let entry = self
                .tree
                .format_entry(*at, above.as_deref(), task.summary_chars);
            match excerpts.get(n).filter(|excerpt| !excerpt.is_empty()) {
                Some(excerpt) => format!("{entry}\n    “{excerpt}”"),
                None => entry,
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    async fn excerpts(&self, task: ScoringTask, sections: &[usize]) -> Vec<String> {
        let (texts, most_chars) = match task.excerpt {
            Excerpt::None => return Vec::new(),
            Excerpt::Snippet(most_chars) => (Vec::new(), most_chars),
            Excerpt::Text(most_chars) => {
                let texts = self.tree.texts(self.store, sections, 4 * most_chars);
                (texts.await, most_chars)
            }
        };
        sections
            .iter()
            .enumerate()
            .map(|(n, at)| {
                let text = texts.get(n).map(String::as_str);
                // Also where the store has no text.
                let text = text.filter(|text| !text.is_empty()).or_else(|| {
                    let hit = self.tree.hits.get(&self.tree.nodes[*at].id);
                    hit.map(|hit| hit.excerpt.text.as_str())
                });
                truncate(&one_line(text.unwrap_or_default()), most_chars)
            })
            .collect()
    }
}
