//! `auto`: picks a strategy by size of the tree, question and remaining budget.

use super::SearchContext;
use crate::tree_search::result::TreeSearchStrategy;
use crate::tree_search::scoring::ScoringTask;

// The strategy and the reason; `None` when the budget has no room for a call.
pub(in crate::tree_search) fn choose_strategy(
    context: &SearchContext<'_>,
) -> (Option<TreeSearchStrategy>, String) {
    let search_tree = context.tree;
    let auto = &context.settings.auto;
    let listing: Vec<String> = (0..search_tree.nodes.len())
        .map(|at| search_tree.format_entry(at, None, context.settings.single.summary_chars))
        .collect();
    let tokens = stemma_llm::tokens::count(&listing.join("\n"));
    let prompt = context.session.tokens(&context.question.prompt(
        ScoringTask::SELECT,
        search_tree,
        "",
    ));
    let calls_left = context.session.calls_left();
    let sections = search_tree.nodes.len();
    let aspects = context.question.aspects();
    if !context.session.can_afford(prompt) {
        return (None, "the budget has no room for a call".into());
    }
    if tokens <= auto.single_tokens && context.session.can_afford(prompt + tokens) {
        return (
            Some(TreeSearchStrategy::Single),
            format!("the whole tree of {sections} sections has {tokens} tokens"),
        );
    }
    let large = format!("{sections} sections of {tokens} tokens are too many for one prompt");
    if calls_left >= auto.mcts_calls && aspects < 2 && is_lexically_vague(context) {
        return (
            Some(TreeSearchStrategy::Mcts),
            format!("{large}, and the words of the question stand nowhere in particular"),
        );
    }
    if calls_left >= auto.beam_calls && aspects >= 2 {
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
    best.len() < 10 || lowest > 1.0 - context.settings.auto.vague
}
