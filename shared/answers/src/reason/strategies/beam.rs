//! `beam`: level by level down the tree with a few sections in hand, then one ranking of those that were visited and of
//! those that fit best without a model.

use super::{Ground, Trail};
use crate::reason::asker::AskError;
use crate::reason::judge::Kind;
use crate::reason::settings::Picker;

pub(in crate::reason) async fn walk(
    ground: &Ground<'_>,
    trail: &mut Trail,
) -> Result<(), AskError> {
    let mut descent = Trail::default();
    let descended = descend(ground, &mut descent).await;
    trail.thinking.append(&mut descent.thinking);
    trail.unknown += descent.unknown;
    let ranked = candidates(ground, &descent);
    let asked = match descended {
        Ok(()) => rank(ground, &ranked, trail).await,
        Err(error) => Err(error),
    };
    if asked.is_err() {
        // What was judged on the way down counts where the ranking did not come.
        for (at, judged) in descent.judged {
            trail.judged.entry(at).or_insert(judged);
        }
    }
    if asked.is_ok() {
        fill(ground, trail);
    }
    asked
}

/// Picks the ways down, level by level.
async fn descend(ground: &Ground<'_>, descent: &mut Trail) -> Result<(), AskError> {
    let outline = ground.outline;
    let settings = &ground.settings.beam;
    let mut level = outline.top();
    for _ in 0..settings.max_depth {
        level.sort_by(|a, b| {
            outline.nodes[*b]
                .below
                .total_cmp(&outline.nodes[*a].below)
                .then(a.cmp(b))
        });
        level.truncate(settings.shown);
        let picked = match settings.picker {
            // There is nothing to pick from.
            _ if level.len() <= settings.width.min(1) => level.clone(),
            Picker::Lexical => level.iter().copied().take(settings.width).collect(),
            Picker::Model => {
                let mut judged = ground
                    .value(Kind::DESCEND, &level, settings.summary_chars, descent)
                    .await?;
                judged.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
                judged.retain(|(_, score)| *score >= ground.settings.threshold);
                judged
                    .into_iter()
                    .take(settings.width)
                    .map(|(at, _)| at)
                    .collect()
            }
        };
        level = picked
            .into_iter()
            .flat_map(|at| outline.nodes[at].children.clone())
            .collect();
        if level.is_empty() {
            break;
        }
    }
    Ok(())
}

/// Sections that are ranked: those judged on the way and those that fit best without a model, by both.
fn candidates(ground: &Ground<'_>, descent: &Trail) -> Vec<usize> {
    let outline = ground.outline;
    let settings = &ground.settings.beam;
    let mut all: Vec<usize> = descent
        .judged
        .keys()
        .copied()
        .chain(outline.lexical(settings.global))
        .collect();
    all.sort_unstable();
    all.dedup();
    let worth = |at: &usize| 0.5 * descent.score(*at).unwrap_or(0.0) + outline.nodes[*at].lexical;
    all.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then(a.cmp(b)));
    all.truncate(settings.ranked);
    all
}

/// Asks for the ranking, on summaries and excerpts.
async fn rank(ground: &Ground<'_>, ranked: &[usize], trail: &mut Trail) -> Result<(), AskError> {
    let settings = &ground.settings.beam;
    let excerpt = |at: usize| {
        let hit = ground.outline.hits.get(&ground.outline.nodes[at].id);
        hit.map(|hit| hit.excerpt.text.clone()).unwrap_or_default()
    };
    ground
        .value_with(
            Kind::RANK,
            ranked,
            settings.summary_chars,
            (settings.excerpt_chars, &excerpt),
            trail,
        )
        .await?;
    Ok(())
}

/// Where the model brought too little, what fits well without one stands beside it.
fn fill(ground: &Ground<'_>, trail: &mut Trail) {
    let outline = ground.outline;
    let settings = &ground.settings.beam;
    let mut missing = settings
        .top_k
        .saturating_sub(trail.at_least(ground.settings.threshold));
    for at in outline.lexical(settings.global) {
        let lexical = outline.nodes[at].lexical;
        if missing == 0 || lexical < settings.fill {
            break;
        }
        if trail.score(at).is_none() {
            trail.stand_in(ground.settings, at, lexical, "by its words, to fill a gap");
            missing -= 1;
        }
    }
}
