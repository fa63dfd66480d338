//! `best_first`: best-first search with a priority queue of sections. It starts with the top level and the best lexical hits (a
//! warm start), scores a batch per call by title and summary, and expands the sections worth it.

use super::{Batch, Strategy, StrategyTrace};
use crate::tree_search::scoring::ScoringTask;
use crate::tree_search::search_tree::SearchTree;

const MAX_CALLS: u32 = 5;
// Sections scored in one call.
const BATCH: usize = 12;
// Best lexical hits that start in the queue.
const WARM: usize = 10;
// Weight of a section's lexical score against the score of its parent.
const LEXICAL_WEIGHT: f32 = 0.4;
// Minimum priority of a section to be scored. The walk ends when none has it.
const MIN_PRIORITY: f32 = 0.3;
// The walk ends with this many sections of `STOP_SCORE` or better, if none in the queue promises to be as good.
const ENOUGH: usize = 4;
const STOP_SCORE: f32 = 0.8;

pub(super) struct BestFirst<'a> {
    tree: &'a SearchTree,
    waiting: Vec<(f32, usize)>,
    is_queued: Vec<bool>,
    // The sections of the last batch.
    asked: Vec<usize>,
    calls: u32,
}

impl<'a> BestFirst<'a> {
    pub(super) fn new(tree: &'a SearchTree) -> Self {
        let mut walk = Self {
            tree,
            waiting: Vec::new(),
            is_queued: vec![false; tree.nodes.len()],
            asked: Vec::new(),
            calls: 0,
        };
        for at in tree.best_lexical(WARM) {
            walk.push(tree.nodes[at].lexical, at);
        }
        // Every top-level section is queued, whatever its lexical score: where words fail, the model may see the answer.
        for at in tree.roots() {
            walk.push((1.0 + tree.nodes[at].best_below) / 2.0, at);
        }
        walk
    }

    fn push(&mut self, priority: f32, at: usize) {
        if !std::mem::replace(&mut self.is_queued[at], true) {
            self.waiting.push((priority, at));
        }
    }

    // A child's priority blends its parent's model score with the best lexical score below it.
    fn open(&mut self, at: usize, score: f32) {
        let tree = self.tree;
        for child in &tree.nodes[at].children {
            let lexical = tree.nodes[*child].best_below;
            self.push(
                (1.0 - LEXICAL_WEIGHT) * score + LEXICAL_WEIGHT * lexical,
                *child,
            );
        }
    }
}

impl Strategy for BestFirst<'_> {
    fn next_batch(&mut self, trace: &mut StrategyTrace) -> Option<Batch> {
        for at in std::mem::take(&mut self.asked) {
            if let Some(score) = trace.score(at) {
                self.open(at, score);
            }
        }
        self.waiting
            .sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let best = self.waiting.first().map_or(0.0, |(priority, _)| *priority);
        let is_enough = trace.count_at_least(STOP_SCORE) >= ENOUGH && best < STOP_SCORE;
        if self.calls == MAX_CALLS || is_enough {
            return None;
        }
        self.calls += 1;
        let worth = self
            .waiting
            .iter()
            .take_while(|(priority, _)| *priority >= MIN_PRIORITY)
            .count();
        let batch = self.waiting.drain(..worth.min(BATCH));
        self.asked = batch.map(|(_, at)| at).collect();
        Some(Batch {
            task: ScoringTask::SCORE,
            sections: self.asked.clone(),
        })
    }
}
