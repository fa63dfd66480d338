//! `mcts`: Monte Carlo tree search with batched evaluation.
//!
//! A round selects a batch of leaves by PUCT, with lexical scores as the prior. Instead of a random playout, each selection leaves
//! at the descendant with the best lexical score. The model scores the batch in one call, by title and summary. The last call
//! reads excerpts of the best sections, which is new evidence rather than the same score again.

use super::{Batch, Strategy, StrategyTrace};
use crate::tree_search::scoring::ScoringTask;
use crate::tree_search::search_tree::SearchTree;

// Rounds before the last call, which reads excerpts.
const MAX_ROUNDS: u32 = 7;
// Sections scored in one call.
const BATCH: usize = 12;
// Weight of exploration in the PUCT formula.
const EXPLORATION: f32 = 1.4;
// Weight of a section's lexical score against the model's score.
const LEXICAL_WEIGHT: f32 = 0.3;
// Prior of a section without lexical score. It keeps such sections reachable.
const DEFAULT_PRIOR: f32 = 0.2;

pub(super) struct Mcts<'a> {
    tree: &'a SearchTree,
    // Selections that led through the section.
    visits: Vec<u32>,
    // Sections that the model was asked for.
    is_asked: Vec<bool>,
    playouts: u32,
    rounds: u32,
    is_done: bool,
}

impl<'a> Mcts<'a> {
    pub(super) fn new(tree: &'a SearchTree) -> Self {
        Self {
            tree,
            visits: vec![0; tree.nodes.len()],
            is_asked: vec![false; tree.nodes.len()],
            playouts: 0,
            rounds: 0,
            is_done: false,
        }
    }

    // A leaf counts as visited before its score is known (virtual loss), so that the next selection goes elsewhere.
    fn select_leaves(&mut self, blended: &[f32]) -> Vec<usize> {
        // Half of the first batch are the best lexical hits.
        let mut leaves = match self.playouts {
            0 => self.tree.best_lexical(BATCH / 2),
            _ => Vec::new(),
        };
        leaves.iter().for_each(|leaf| self.add_visit(*leaf));
        while leaves.len() < BATCH {
            let Some(leaf) = self.select_leaf(blended) else {
                break;
            };
            self.add_visit(leaf);
            leaves.push(leaf);
        }
        leaves
    }

    fn add_visit(&mut self, leaf: usize) {
        self.playouts += 1;
        self.is_asked[leaf] = true;
        for above in self.tree.with_ancestors(leaf) {
            self.visits[above] += 1;
        }
    }

    fn select_leaf(&self, blended: &[f32]) -> Option<usize> {
        let nodes = &self.tree.nodes;
        let mut level = self.tree.roots();
        let mut last = None;
        loop {
            let open = level
                .iter()
                .copied()
                .filter(|at| self.open_subtree(*at).next().is_some());
            let Some(best) = open.max_by(|a, b| {
                self.ucb(*a, &level, blended)
                    .total_cmp(&self.ucb(*b, &level, blended))
                    .then(b.cmp(a))
            }) else {
                break;
            };
            last = Some(best);
            if self.visits[best] == 0 {
                break;
            }
            level.clone_from(&nodes[best].children);
        }
        self.open_subtree(last?).max_by(|a, b| {
            nodes[*a]
                .lexical
                .total_cmp(&nodes[*b].lexical)
                .then(b.cmp(a))
        })
    }

    // The sections of a subtree that the model was not asked for.
    fn open_subtree(&self, at: usize) -> impl Iterator<Item = usize> {
        self.tree.subtree(at).filter(move |at| !self.is_asked[*at])
    }

    // PUCT (Rosin 2011, as in AlphaGo Zero): Q + c · P · sqrt(N_parent) / (1 + N). Q is the best score in the subtree relative to the
    // best of all, not the mean: a mean would hide one good section among many.
    fn ucb(&self, at: usize, level: &[usize], blended: &[f32]) -> f32 {
        let nodes = &self.tree.nodes;
        let best_below = self
            .tree
            .subtree(at)
            .map(|at| blended[at])
            .fold(0.0, f32::max);
        let best = blended.iter().copied().fold(0.0, f32::max);
        let value = best_below / best.max(0.01);
        let level_prior: f32 = level
            .iter()
            .map(|at| DEFAULT_PRIOR + nodes[*at].best_below)
            .sum();
        let prior = (DEFAULT_PRIOR + nodes[at].best_below) / level_prior;
        let above = nodes[at]
            .parent
            .map_or(self.playouts, |above| self.visits[above]);
        let exploration_bonus = (above.max(1) as f32).sqrt() / (1 + self.visits[at]) as f32;
        value + EXPLORATION * prior * exploration_bonus
    }

    // The score of the model blended with the lexical score. A section that the model was not asked for, or left out, has 0 of it.
    fn blended(&self, trace: &StrategyTrace) -> Vec<f32> {
        self.tree
            .nodes
            .iter()
            .enumerate()
            .map(|(at, node)| {
                let model_score = trace.score(at).unwrap_or(0.0);
                (1.0 - LEXICAL_WEIGHT) * model_score + LEXICAL_WEIGHT * node.lexical
            })
            .collect()
    }
}

impl Strategy for Mcts<'_> {
    fn next_batch(&mut self, trace: &mut StrategyTrace) -> Option<Batch> {
        if self.is_done {
            return None;
        }
        if self.rounds < MAX_ROUNDS {
            self.rounds += 1;
            let sections = self.select_leaves(&self.blended(trace));
            if !sections.is_empty() {
                let task = ScoringTask::SCORE;
                return Some(Batch { task, sections });
            }
        }
        self.is_done = true;
        Some(Batch {
            task: ScoringTask::SCORE_TEXT,
            sections: trace.best(trace.scored.keys().copied(), BATCH),
        })
    }
}
