//! `beam`: beam search level by level down the tree, then one ranking of the visited sections and the best lexical hits.

use super::{SearchContext, StrategyTrace};
use crate::tree_search::llm_session::SessionError;
use crate::tree_search::scoring::ScoringTask;
use crate::tree_search::settings::Picker;

pub(in crate::tree_search) async fn walk(
    context: &SearchContext<'_>,
    trace: &mut StrategyTrace,
) -> Result<(), SessionError> {
    let mut descent = StrategyTrace::default();
    let descended = descend(context, &mut descent).await;
    trace.thinking.append(&mut descent.thinking);
    trace.unknown_ids += descent.unknown_ids;
    let ranked = candidates(context, &descent);
    let outcome = match descended {
        Ok(()) => rank(context, &ranked, trace).await,
        Err(error) => Err(error),
    };
    if outcome.is_err() {
        // Without the ranking, scores from the way down still count.
        for (at, scored) in descent.scored {
            trace.scored.entry(at).or_insert(scored);
        }
    }
    if outcome.is_ok() {
        fill(context, trace);
    }
    outcome
}

async fn descend(
    context: &SearchContext<'_>,
    descent: &mut StrategyTrace,
) -> Result<(), SessionError> {
    let tree = context.tree;
    let settings = &context.settings.beam;
    let mut level = tree.roots();
    for _ in 0..settings.max_depth {
        level.sort_by(|a, b| {
            tree.nodes[*b]
                .best_below
                .total_cmp(&tree.nodes[*a].best_below)
                .then(a.cmp(b))
        });
        level.truncate(settings.listed_children);
        let picked = match settings.picker {
            // Nothing to pick from.
            _ if level.len() <= settings.width.min(1) => level.clone(),
            Picker::Lexical => level.iter().copied().take(settings.width).collect(),
            Picker::Model => {
                let mut scored = context
                    .score_sections(
                        ScoringTask::DESCEND,
                        &level,
                        settings.summary_chars,
                        descent,
                    )
                    .await?;
                scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
                scored.retain(|(_, score)| *score >= context.settings.threshold);
                scored
                    .into_iter()
                    .take(settings.width)
                    .map(|(at, _)| at)
                    .collect()
            }
        };
        level = picked
            .into_iter()
            .flat_map(|at| tree.nodes[at].children.clone())
            .collect();
        if level.is_empty() {
            break;
        }
    }
    Ok(())
}

// Candidates of the ranking: visited sections and lexical hits, ordered by both scores.
fn candidates(context: &SearchContext<'_>, descent: &StrategyTrace) -> Vec<usize> {
    let tree = context.tree;
    let settings = &context.settings.beam;
    let mut all: Vec<usize> = descent
        .scored
        .keys()
        .copied()
        .chain(tree.best_lexical(settings.global))
        .collect();
    all.sort_unstable();
    all.dedup();
    let mut ranked: Vec<(f32, usize)> = all
        .into_iter()
        .map(|at| {
            let score = 0.5 * descent.score(at).unwrap_or(0.0) + tree.nodes[at].lexical;
            (score, at)
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    ranked.truncate(settings.ranked);
    ranked.into_iter().map(|(_, at)| at).collect()
}

async fn rank(
    context: &SearchContext<'_>,
    ranked: &[usize],
    trace: &mut StrategyTrace,
) -> Result<(), SessionError> {
    let settings = &context.settings.beam;
    context
        .score_with_excerpts(
            ScoringTask::RANK,
            ranked,
            settings.summary_chars,
            (settings.excerpt_chars, &|at| context.snippet(at)),
            trace,
        )
        .await?;
    Ok(())
}

// Too few results from the model are filled up with lexical hits.
fn fill(context: &SearchContext<'_>, trace: &mut StrategyTrace) {
    let tree = context.tree;
    let settings = &context.settings.beam;
    let mut missing = settings
        .top_k
        .saturating_sub(trace.count_at_least(context.settings.threshold));
    for at in tree.best_lexical(settings.global) {
        let lexical = tree.nodes[at].lexical;
        if missing == 0 || lexical < settings.fill {
            break;
        }
        if trace.score(at).is_none() {
            trace.stand_in(context.settings, at, lexical, "by its words, to fill a gap");
            missing -= 1;
        }
    }
}
