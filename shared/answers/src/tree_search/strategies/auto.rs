//! `auto`: picks a strategy by size of the tree, question and remaining budget.

use super::SearchContext;
use crate::tree_search::result::TreeSearchStrategy;
use crate::tree_search::scoring::ScoringTask;

// Listings up to this many tokens go to `single`.
const SINGLE_TOKENS: u32 = 3_000;
// Calls that must be left for `beam` and for `mcts`.
const BEAM_CALLS: u32 = 5;
const MCTS_CALLS: u32 = 8;
// Lexical scores are vague when the tenth best is within this distance of the best (1.0).
const VAGUE: f32 = 0.25;

// The strategy and the reason; `None` when the budget has no room for a call.
pub(super) fn choose_strategy(context: &SearchContext<'_>) -> (Option<TreeSearchStrategy>, String) {
    let session = context.session;
    let sections = context.tree.nodes.len();
    let all: Vec<usize> = (0..sections).collect();
    let tokens = stemma_llm::tokens::count(&context.listing(ScoringTask::SELECT, &all, &[]));
    let prompt = session.tokens(
        &context
            .question
            .prompt(ScoringTask::SELECT, context.tree, ""),
    );
    if !session.can_afford(prompt) {
        return (None, "the budget has no room for a call".into());
    }
    if tokens <= SINGLE_TOKENS && session.can_afford(prompt + tokens) {
        return (
            Some(TreeSearchStrategy::Single),
            format!("the whole tree of {sections} sections has {tokens} tokens"),
        );
    }
    let calls_left = session.calls_left();
    let aspects = context.question.aspects();
    let large = format!("{sections} sections of {tokens} tokens are too many for one prompt");
    if calls_left >= MCTS_CALLS && aspects < 2 && is_lexically_vague(context) {
        return (
            Some(TreeSearchStrategy::Mcts),
            format!("{large}, and the words of the question single out no section"),
        );
    }
    if calls_left >= BEAM_CALLS && aspects >= 2 {
        return (
            Some(TreeSearchStrategy::Beam),
            format!("{large}, and the question has {aspects} parts"),
        );
    }
    (
        Some(TreeSearchStrategy::BestFirst),
        format!("{large}; {calls_left} calls are left"),
    )
}

// Lexical scores do not separate the sections when the tenth fits nearly as well as the first.
fn is_lexically_vague(context: &SearchContext<'_>) -> bool {
    let best = context.tree.best_lexical(10);
    let lowest = best
        .last()
        .map_or(0.0, |at| context.tree.nodes[*at].lexical);
    best.len() < 10 || lowest > 1.0 - VAGUE
}
