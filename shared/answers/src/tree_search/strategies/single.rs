//! `single`: the whole tree (ids, pages, titles, summaries, no text) in one call, as PageIndex does it.
//!
//! A larger tree is cut at a depth, and the chosen sections at that depth are expanded in a second call.

use super::{Batch, SearchContext, Strategy, StrategyTrace};
use crate::tree_search::result::Note;
use crate::tree_search::scoring::ScoringTask;

// Tokens of a listing; a larger tree is cut at a depth.
const LISTING_TOKENS: u32 = 60_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Select,
    SelectWider,
    Expand,
    Done,
}

pub(super) struct Single<'a> {
    context: &'a SearchContext<'a>,
    // The sections of the first listing, and the depth at which it is cut.
    sections: Vec<usize>,
    depth: usize,
    step: Step,
}

impl<'a> Single<'a> {
    // `None`: not even the top level fits into a prompt.
    pub(super) fn new(context: &'a SearchContext<'a>) -> Option<Self> {
        let all: Vec<usize> = (0..context.tree.nodes.len()).collect();
        let (sections, depth) = largest_listing(context, &all, 1)?;
        Some(Self {
            context,
            sections,
            depth,
            step: Step::Select,
        })
    }

    // What is below the sections that were chosen at the depth of the cut.
    fn expand_chosen(&self, trace: &mut StrategyTrace) -> Option<Batch> {
        let tree = self.context.tree;
        let deepest = tree.nodes.iter().map(|node| node.depth).max()?;
        if self.depth >= deepest {
            return None;
        }
        let message = format!(
            "the tree is too large for one prompt: it was shown to depth {} of {deepest} first",
            self.depth
        );
        trace.notes.push(Note::new("single.depth_limited", message));
        let below: Vec<usize> = (0..tree.nodes.len())
            .filter(|at| {
                let above = tree.with_ancestors(*at);
                above.iter().skip(1).any(|above| {
                    tree.nodes[*above].depth == self.depth && trace.scored.contains_key(above)
                })
            })
            .collect();
        let (sections, _) = largest_listing(self.context, &below, self.depth + 1)?;
        Batch::new(ScoringTask::SELECT, sections)
    }
}

impl Strategy for Single<'_> {
    fn next_batch(&mut self, trace: &mut StrategyTrace) -> Option<Batch> {
        match self.step {
            Step::Select => {
                self.step = Step::SelectWider;
                Batch::new(ScoringTask::SELECT, self.sections.clone())
            }
            Step::SelectWider if trace.scored.is_empty() => {
                let message = "no section was named at first; the model was asked once more, for those that come nearest";
                trace.notes.push(Note::new("single.wider", message));
                self.step = Step::Expand;
                Batch::new(ScoringTask::SELECT_WIDER, self.sections.clone())
            }
            Step::SelectWider | Step::Expand => {
                self.step = Step::Done;
                self.expand_chosen(trace)
            }
            Step::Done => None,
        }
    }
}

// The sections of `among` down to the greatest depth, from `least` on, at which their listing fits into a prompt.
fn largest_listing(
    context: &SearchContext<'_>,
    among: &[usize],
    least: usize,
) -> Option<(Vec<usize>, usize)> {
    let tree = context.tree;
    let deepest = among.iter().map(|at| tree.nodes[*at].depth).max()?;
    (least..=deepest).rev().find_map(|depth| {
        let sections: Vec<usize> = among
            .iter()
            .copied()
            .filter(|at| tree.nodes[*at].depth <= depth)
            .collect();
        let listing = context.listing(ScoringTask::SELECT, &sections, &[]);
        let prompt = context.question.prompt(ScoringTask::SELECT, tree, &listing);
        let fits = stemma_llm::tokens::count(&listing) <= LISTING_TOKENS
            && context.session.tokens(&prompt)
                <= context.session.client().settings().max_prompt_tokens;
        (fits && !sections.is_empty()).then_some((sections, depth))
    })
}
