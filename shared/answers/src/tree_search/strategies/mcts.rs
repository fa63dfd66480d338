//! `mcts`: Monte Carlo tree search with batched evaluation.
//!
//! A round selects a batch of leaves by PUCT, with lexical scores as the prior. Instead of a random playout, each selection leaves
//! at the descendant with the best lexical score. The model scores the batch in one call, by title and summary, and the
//! scores are propagated to the ancestors. The last call reads excerpts of the best sections, which is new evidence rather
//! than the same score again.

use std::collections::HashMap;

use super::{SearchContext, StrategyTrace};
use crate::tree_search::llm_session::SessionError;
use crate::tree_search::scoring::ScoringTask;

// Prior of a section without lexical score. It keeps such sections reachable.
const DEFAULT_PRIOR: f32 = 0.2;

pub(in crate::tree_search) async fn walk(
    context: &SearchContext<'_>,
    trace: &mut StrategyTrace,
) -> Result<(), SessionError> {
    let settings = &context.settings.mcts;
    let rounds = settings.calls.saturating_sub(1).max(1);
    let mut search = MctsState::new(context);
    for _ in 0..rounds {
        let leaves = search.select_leaves();
        if leaves.is_empty() {
            break;
        }
        let values = context
            .score_sections(ScoringTask::SCORE, &leaves, settings.summary_chars, trace)
            .await?;
        search.update(&leaves, &values);
    }
    let best = search.worth_reading();
    if rounds < settings.calls && !best.is_empty() {
        score_texts(context, &best, trace).await?;
    }
    Ok(())
}

// Scores sections by the beginning of their texts.
async fn score_texts(
    context: &SearchContext<'_>,
    sections: &[usize],
    trace: &mut StrategyTrace,
) -> Result<(), SessionError> {
    let settings = &context.settings.mcts;
    let texts = context
        .section_texts(sections, settings.excerpt_chars)
        .await;
    let texts: HashMap<usize, String> = sections.iter().copied().zip(texts).collect();
    context
        .score_with_excerpts(
            ScoringTask::SCORE_TEXT,
            sections,
            0,
            (settings.excerpt_chars, &|at| {
                texts.get(&at).cloned().unwrap_or_default()
            }),
            trace,
        )
        .await?;
    Ok(())
}

struct MctsState<'a> {
    context: &'a SearchContext<'a>,
    // Selections that led through the section.
    visits: Vec<u32>,
    // `None` until the model was asked.
    model_scores: Vec<Option<f32>>,
    // Model score blended with the lexical score.
    blended: Vec<f32>,
    playouts: u32,
}

impl<'a> MctsState<'a> {
    fn new(context: &'a SearchContext<'a>) -> Self {
        let count = context.tree.nodes.len();
        // Until the model was asked, the lexical score counts with its weight alone.
        let lexical_weight = context.settings.mcts.lexical;
        let blended = context
            .tree
            .nodes
            .iter()
            .map(|node| lexical_weight * node.lexical)
            .collect();
        Self {
            context,
            visits: vec![0; count],
            model_scores: vec![None; count],
            blended,
            playouts: 0,
        }
    }

    // A leaf counts as visited before its score is known (virtual loss), so that the next selection goes elsewhere.
    fn select_leaves(&mut self) -> Vec<usize> {
        let batch = self.context.settings.mcts.batch;
        // Half of the first batch are the best lexical hits.
        let mut leaves = if self.playouts == 0 {
            self.context.tree.best_lexical(batch / 2)
        } else {
            Vec::new()
        };
        leaves.iter().for_each(|leaf| self.add_visit(*leaf));
        while leaves.len() < batch {
            let Some(leaf) = self.select_leaf(&leaves) else {
                break;
            };
            self.add_visit(leaf);
            leaves.push(leaf);
        }
        leaves
    }

    fn add_visit(&mut self, leaf: usize) {
        self.playouts += 1;
        for above in self.context.tree.with_ancestors(leaf) {
            self.visits[above] += 1;
        }
    }

    fn select_leaf(&self, selected: &[usize]) -> Option<usize> {
        let nodes = &self.context.tree.nodes;
        let mut level = self.context.tree.roots();
        let mut last = None;
        loop {
            let open = level
                .iter()
                .copied()
                .filter(|at| self.open_subtree(*at, selected).next().is_some());
            let Some(best) = open.max_by(|a, b| {
                self.ucb(*a, &level)
                    .total_cmp(&self.ucb(*b, &level))
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
        self.open_subtree(last?, selected).max_by(|a, b| {
            nodes[*a]
                .lexical
                .total_cmp(&nodes[*b].lexical)
                .then(b.cmp(a))
        })
    }

    // A section and its descendants: indexes are in pre-order.
    fn subtree(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let nodes = &self.context.tree.nodes;
        let deeper =
            (at + 1..nodes.len()).take_while(move |other| nodes[*other].depth > nodes[at].depth);
        std::iter::once(at).chain(deeper)
    }

    // The sections of a subtree that have no score of the model and are not selected yet.
    fn open_subtree(&self, at: usize, selected: &[usize]) -> impl Iterator<Item = usize> {
        self.subtree(at)
            .filter(move |at| self.model_scores[*at].is_none() && !selected.contains(at))
    }

    // PUCT (Rosin 2011, as in AlphaGo Zero): Q + c · P · sqrt(N_parent) / (1 + N). Q is the best score in the subtree relative to the
    // best of all, not the mean: a mean would hide one good section among many.
    fn ucb(&self, at: usize, level: &[usize]) -> f32 {
        let nodes = &self.context.tree.nodes;
        let best_below = self
            .subtree(at)
            .map(|at| self.blended[at])
            .fold(0.0, f32::max);
        let best = self.blended.iter().copied().fold(0.0, f32::max);
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
        value + self.context.settings.mcts.exploration * prior * exploration_bonus
    }

    // The best sections so far, for the last call.
    fn worth_reading(&self) -> Vec<usize> {
        let least = self.context.settings.threshold;
        let mut best: Vec<(f32, usize)> = self
            .model_scores
            .iter()
            .enumerate()
            .filter_map(|(at, own)| Some(((*own)?, at)))
            .filter(|(own, _)| *own >= least)
            .collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        best.truncate(self.context.settings.mcts.batch);
        best.into_iter().map(|(_, at)| at).collect()
    }

    // A section that the model left out scores 0.
    fn update(&mut self, sections: &[usize], values: &[(usize, f32)]) {
        let lexical_weight = self.context.settings.mcts.lexical;
        for at in sections {
            let model_score = values
                .iter()
                .find(|(section, _)| section == at)
                .map_or(0.0, |(_, score)| *score);
            self.model_scores[*at] = Some(model_score);
            self.blended[*at] = (1.0 - lexical_weight) * model_score
                + lexical_weight * self.context.tree.nodes[*at].lexical;
        }
    }
}
