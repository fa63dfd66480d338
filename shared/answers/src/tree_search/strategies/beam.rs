//! `beam`: beam search level by level down the tree, then one ranking of the visited sections and the best lexical hits.

use super::{Batch, Strategy, StrategyTrace};
use crate::tree_search::scoring::ScoringTask;
use crate::tree_search::search_tree::SearchTree;

const MAX_DEPTH: usize = 4;
const WIDTH: usize = 4;
// Sections shown per level; of more, those with the best lexical scores.
const LISTED: usize = 20;
// Best lexical hits that are ranked with the visited sections, and sections in the ranking.
const LEXICAL_HITS: usize = 80;
const RANKED: usize = 24;

pub(super) struct Beam<'a> {
    tree: &'a SearchTree,
    // The sections of the current level, and its depth; 0 before the first call.
    level: Vec<usize>,
    depth: usize,
    is_ranked: bool,
}

impl<'a> Beam<'a> {
    pub(super) fn new(tree: &'a SearchTree) -> Self {
        Self {
            tree,
            level: tree.roots(),
            depth: 0,
            is_ranked: false,
        }
    }

    // Goes on with the children of these sections.
    fn descend(&mut self, picked: &[usize]) {
        self.level = picked
            .iter()
            .flat_map(|at| self.tree.nodes[*at].children.clone())
            .collect();
    }

    // Candidates of the ranking: visited sections and lexical hits, ordered by both scores.
    fn candidates(&self, trace: &StrategyTrace) -> Vec<usize> {
        let mut all: Vec<usize> = trace
            .scored
            .keys()
            .copied()
            .chain(self.tree.best_lexical(LEXICAL_HITS))
            .collect();
        all.sort_unstable();
        all.dedup();
        let score = |at: usize| 0.5 * trace.score(at).unwrap_or(0.0) + self.tree.nodes[at].lexical;
        all.sort_by(|a, b| score(*b).total_cmp(&score(*a)).then(a.cmp(b)));
        all.truncate(RANKED);
        all
    }
}

impl Strategy for Beam<'_> {
    fn next_batch(&mut self, trace: &mut StrategyTrace) -> Option<Batch> {
        if self.is_ranked {
            return None;
        }
        if self.depth > 0 {
            let picked = trace.best(self.level.iter().copied(), WIDTH);
            self.descend(&picked);
        }
        while self.depth < MAX_DEPTH && !self.level.is_empty() {
            self.depth += 1;
            if self.level.len() > 1 {
                let nodes = &self.tree.nodes;
                let below = |at: usize| nodes[at].best_below;
                self.level
                    .sort_by(|a, b| below(*b).total_cmp(&below(*a)).then(a.cmp(b)));
                self.level.truncate(LISTED);
                return Some(Batch {
                    task: ScoringTask::DESCEND,
                    sections: self.level.clone(),
                });
            }
            // There is nothing to pick from.
            let only = std::mem::take(&mut self.level);
            self.descend(&only);
        }
        self.is_ranked = true;
        Some(Batch {
            task: ScoringTask::RANK,
            sections: self.candidates(trace),
        })
    }
}
