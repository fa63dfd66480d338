//! `single`: the whole tree (ids, pages, titles, summaries, no text) in one call, as PageIndex does it.
//!
//! A larger tree is cut at a depth, and the chosen sections at that depth are expanded in a second call.

use super::{Batch, Strategy, StrategyTrace};
use crate::tree_search::result::Note;
use crate::tree_search::scoring::{Scorer, ScoringTask};

// Tokens of a listing; a larger tree is cut at a depth.
const LISTING_TOKENS: u32 = 60_000;

pub(super) struct Single<'a> {
    scorer: &'a Scorer<'a>,
    // The sections of the first listing, until they are shown.
    sections: Option<Vec<usize>>,
    // The depth at which the first listing is cut, until the sections chosen there are expanded.
    cut: Option<usize>,
}

impl<'a> Single<'a> {
    // `None`: not even the top level fits into a prompt.
    pub(super) fn new(scorer: &'a Scorer<'a>) -> Option<Self> {
        let all: Vec<usize> = (0..scorer.tree.nodes.len()).collect();
        let (sections, depth) = largest_listing(scorer, &all, 1)?;
        Some(Self {
            scorer,
            cut: (sections.len() < all.len()).then_some(depth),
            sections: Some(sections),
        })
    }
}

impl Strategy for Single<'_> {
    fn next_batch(&mut self, trace: &mut StrategyTrace) -> Option<Batch> {
        let task = ScoringTask::SELECT;
        if let Some(sections) = self.sections.take() {
            return Some(Batch { task, sections });
        }
        let depth = self.cut.take()?;
        let message =
            format!("the tree is too large for one prompt: it was shown to depth {depth} first");
        trace.notes.push(Note::new("single.depth_limited", message));
        let tree = self.scorer.tree;
        let below: Vec<usize> = trace
            .scored
            .keys()
            .filter(|at| tree.nodes[**at].depth == depth)
            .flat_map(|at| tree.subtree(*at).skip(1))
            .collect();
        let (sections, _) = largest_listing(self.scorer, &below, depth + 1)?;
        Some(Batch { task, sections })
    }
}

// The sections of `among` down to the greatest depth, from `least` on, at which their listing fits into a prompt.
fn largest_listing(
    scorer: &Scorer<'_>,
    among: &[usize],
    least: usize,
) -> Option<(Vec<usize>, usize)> {
    let nodes = &scorer.tree.nodes;
    let most = scorer.session.client().settings().max_prompt_tokens;
    let deepest = among.iter().map(|at| nodes[*at].depth).max()?;
    (least..=deepest).rev().find_map(|depth| {
        let sections: Vec<usize> = among
            .iter()
            .copied()
            .filter(|at| nodes[*at].depth <= depth)
            .collect();
        let (listing_tokens, prompt_tokens) = scorer.tree_tokens(&sections);
        let fits = listing_tokens <= LISTING_TOKENS && prompt_tokens <= most;
        (fits && !sections.is_empty()).then_some((sections, depth))
    })
}
