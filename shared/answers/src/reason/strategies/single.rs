//! `single`: the whole clean tree (ids, pages, titles, summaries, no text) in one call.
//!
//! A listing over the limit is cut at a depth, and what is chosen there is opened in a second call; where even the top does
//! not fit, the caller takes `beam`.

use super::{Ground, Trail};
use crate::reason::asker::AskError;
use crate::reason::judge::Kind;
use crate::reason::walked::Note;

/// How a walk in one call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::reason) enum Ended {
    /// Sections were chosen, or nothing was to be found.
    Done,
    /// Not even the top of the tree fits.
    TooLarge,
}

pub(in crate::reason) async fn walk(
    ground: &Ground<'_>,
    trail: &mut Trail,
) -> Result<Ended, AskError> {
    let deepest = ground
        .outline
        .nodes
        .iter()
        .map(|node| node.depth)
        .max()
        .unwrap_or(0);
    let all: Vec<usize> = (0..ground.outline.nodes.len()).collect();
    let Some((shown, listing, depth)) = (1..=deepest)
        .rev()
        .find_map(|depth| fitting(ground, &all, depth))
    else {
        return Ok(Ended::TooLarge);
    };
    let said = ground.judge(Kind::SELECT, &shown, &listing).await?;
    trail.add(&said);
    if said.verdicts.is_empty() {
        let message = "no section was named at first; the model was asked once more, for those that come nearest";
        trail.notes.push(Note::new("single.wider", message));
        trail.add(&ground.judge(Kind::SELECT_WIDER, &shown, &listing).await?);
    }
    if depth < deepest {
        let message = format!(
            "the tree is too large for one prompt: it was shown to depth {depth} of {deepest} first"
        );
        trail.notes.push(Note::new("single.depth_limited", message));
        open(ground, trail, depth).await?;
    }
    Ok(Ended::Done)
}

/// Opens what was chosen at the depth at which the listing was cut.
async fn open(ground: &Ground<'_>, trail: &mut Trail, depth: usize) -> Result<(), AskError> {
    let nodes = &ground.outline.nodes;
    let chosen: Vec<usize> = trail
        .judged
        .keys()
        .copied()
        .filter(|at| nodes[*at].depth == depth)
        .collect();
    let below: Vec<usize> = (0..nodes.len())
        .filter(|at| chosen.iter().any(|above| ground.outline.holds(*above, *at)))
        .collect();
    let deepest = below.iter().map(|at| nodes[*at].depth).max().unwrap_or(0);
    let Some((shown, listing, _)) = (depth + 1..=deepest)
        .rev()
        .find_map(|depth| fitting(ground, &below, depth))
    else {
        return Ok(());
    };
    trail.add(&ground.judge(Kind::SELECT, &shown, &listing).await?);
    Ok(())
}

/// The sections of `among` down to a depth with their listing, where it fits.
fn fitting(
    ground: &Ground<'_>,
    among: &[usize],
    depth: usize,
) -> Option<(Vec<usize>, String, usize)> {
    let outline = ground.outline;
    let settings = &ground.settings.single;
    let shown: Vec<usize> = among
        .iter()
        .copied()
        .filter(|at| outline.nodes[*at].depth <= depth)
        .collect();
    let listing = shown
        .iter()
        .map(|at: &usize| {
            let indent = "  ".repeat(outline.nodes[*at].depth.saturating_sub(1));
            format!(
                "{indent}{}",
                outline.entry(*at, None, settings.summary_chars)
            )
        })
        .collect::<Vec<_>>()
        .join("\n");
    let fits = stemma_llm::tokens::count(&listing) <= settings.listing_tokens
        && ground
            .consultation
            .tokens(&ground.asked.prompt(Kind::SELECT, outline, &listing))
            <= ground.consultation.asker().settings().max_prompt_tokens;
    (fits && !shown.is_empty()).then_some((shown, listing, depth))
}
