//! `single`: the whole tree (ids, pages, titles, summaries, no text) in one call, as PageIndex does it.
//!
//! A larger tree is cut at a depth, and the chosen sections at that depth are expanded in a second call. When not even the
//! top level fits, the caller falls back to `beam`.

use super::{SearchContext, StrategyTrace};
use crate::tree_search::llm_session::SessionError;
use crate::tree_search::result::Note;
use crate::tree_search::scoring::ScoringTask;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tree_search) enum SingleOutcome {
    // Also when nothing was found.
    Done,
    // Not even the top level fits into a prompt.
    TooLarge,
}

pub(in crate::tree_search) async fn walk(
    context: &SearchContext<'_>,
    trace: &mut StrategyTrace,
) -> Result<SingleOutcome, SessionError> {
    let deepest = context
        .tree
        .nodes
        .iter()
        .map(|node| node.depth)
        .max()
        .unwrap_or(0);
    let all: Vec<usize> = (0..context.tree.nodes.len()).collect();
    let Some((sections, listing, depth)) = (1..=deepest)
        .rev()
        .find_map(|depth| largest_listing(context, &all, depth))
    else {
        return Ok(SingleOutcome::TooLarge);
    };
    let reply = context
        .score_listing(ScoringTask::SELECT, &sections, &listing)
        .await?;
    trace.add(&reply);
    if reply.scores.is_empty() {
        let message = "no section was named at first; the model was asked once more, for those that come nearest";
        trace.notes.push(Note::new("single.wider", message));
        trace.add(
            &context
                .score_listing(ScoringTask::SELECT_WIDER, &sections, &listing)
                .await?,
        );
    }
    if depth < deepest {
        let message = format!(
            "the tree is too large for one prompt: it was shown to depth {depth} of {deepest} first"
        );
        trace.notes.push(Note::new("single.depth_limited", message));
        expand_chosen(context, trace, depth).await?;
    }
    Ok(SingleOutcome::Done)
}

// Lists what is below the sections chosen at the depth where the first listing was cut.
async fn expand_chosen(
    context: &SearchContext<'_>,
    trace: &mut StrategyTrace,
    depth: usize,
) -> Result<(), SessionError> {
    let nodes = &context.tree.nodes;
    let chosen: Vec<usize> = trace
        .scored
        .keys()
        .copied()
        .filter(|at| nodes[*at].depth == depth)
        .collect();
    let below: Vec<usize> = (0..nodes.len())
        .filter(|at| {
            chosen
                .iter()
                .any(|above| context.tree.is_ancestor(*above, *at))
        })
        .collect();
    let deepest = below.iter().map(|at| nodes[*at].depth).max().unwrap_or(0);
    let Some((sections, listing, _)) = (depth + 1..=deepest)
        .rev()
        .find_map(|depth| largest_listing(context, &below, depth))
    else {
        return Ok(());
    };
    trace.add(
        &context
            .score_listing(ScoringTask::SELECT, &sections, &listing)
            .await?,
    );
    Ok(())
}

// The sections of `among` down to `depth` and their listing, when it fits.
fn largest_listing(
    context: &SearchContext<'_>,
    among: &[usize],
    depth: usize,
) -> Option<(Vec<usize>, String, usize)> {
    let tree = context.tree;
    let settings = &context.settings.single;
    let sections: Vec<usize> = among
        .iter()
        .copied()
        .filter(|at| tree.nodes[*at].depth <= depth)
        .collect();
    let listing = sections
        .iter()
        .map(|at: &usize| {
            let indent = "  ".repeat(tree.nodes[*at].depth.saturating_sub(1));
            format!(
                "{indent}{}",
                tree.format_entry(*at, None, settings.summary_chars)
            )
        })
        .collect::<Vec<_>>()
        .join("\n");
    let fits = stemma_llm::tokens::count(&listing) <= settings.listing_tokens
        && context
            .session
            .tokens(&context.question.prompt(ScoringTask::SELECT, tree, &listing))
            <= context.session.client().settings().max_prompt_tokens;
    (fits && !sections.is_empty()).then_some((sections, listing, depth))
}
