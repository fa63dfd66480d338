//! `auto`: which strategy fits a tree, a question and what is left of the budget.

use super::Ground;
use crate::reason::judge::Kind;
use crate::reason::walked::Strategy;

/// The strategy, and why; `None` in its place: not one call is left.
pub(in crate::reason) fn choose(ground: &Ground<'_>) -> (Option<Strategy>, String) {
    let outline = ground.outline;
    let auto = &ground.settings.auto;
    let listing: Vec<String> = (0..outline.nodes.len())
        .map(|at| outline.entry(at, None, ground.settings.single.summary_chars))
        .collect();
    let tokens = stemma_llm::tokens::count(&listing.join("\n"));
    let prompt = ground
        .consultation
        .tokens(&ground.asked.prompt(Kind::SELECT, outline, ""));
    let left = ground.consultation.calls_left();
    let sections = outline.nodes.len();
    let aspects = ground.asked.aspects();
    if !ground.consultation.allows(prompt) {
        return (None, "the budget has no room for a call".into());
    }
    if tokens <= auto.single_tokens && ground.consultation.allows(prompt + tokens) {
        return (
            Some(Strategy::Single),
            format!("the whole tree of {sections} sections has {tokens} tokens"),
        );
    }
    let large = format!("{sections} sections of {tokens} tokens are too many for one prompt");
    if left >= auto.mcts_calls && aspects < 2 && vague(ground) {
        return (
            Some(Strategy::Mcts),
            format!("{large}, and the words of the question stand nowhere in particular"),
        );
    }
    if left >= auto.beam_calls && aspects >= 2 {
        return (
            Some(Strategy::Beam),
            format!("{large}, and the question has {aspects} parts"),
        );
    }
    (
        Some(Strategy::BestFirst),
        format!("{large}; {left} calls are left"),
    )
}

/// Whether search without a model tells the sections apart hardly at all: the tenth fits nearly as well as the first.
fn vague(ground: &Ground<'_>) -> bool {
    let best = ground.outline.lexical(10);
    let lowest = best
        .last()
        .map_or(0.0, |at| ground.outline.nodes[*at].lexical);
    best.len() < 10 || lowest > 1.0 - ground.settings.auto.vague
}
