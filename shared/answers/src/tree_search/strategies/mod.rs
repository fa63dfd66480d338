//! The strategies, one file each, and the one loop that walks a document with any of them.
//!
//! A strategy says which sections the model scores next, given the scores so far. The loop asks the model and keeps the
//! scores. It stops when the strategy has nothing more to ask, the model fails or the budget is used up; scores collected by
//! then count.

mod beam;
mod best_first;
mod mcts;
mod single;

use std::collections::BTreeMap;

use super::result::{Note, TreeSearchStrategy};
use super::scoring::{Scorer, ScoringReply, ScoringTask};
use super::search_tree::SearchTree;

/// Minimum score of a section that is good enough for the result.
pub(super) const THRESHOLD: f32 = 0.3;
/// Sections of a result at most.
pub(super) const MAX_SECTIONS: usize = 8;
// `auto`: listings up to this many tokens go to `single`.
const SINGLE_TOKENS: u32 = 3_000;
// `auto`: calls that must be left for `mcts`.
const MCTS_CALLS: u32 = 8;
// `auto`: lexical scores are vague when the tenth best is within this distance of the best (1.0).
const VAGUE: f32 = 0.25;

/// A way to walk a section tree.
trait Strategy: Send {
    // The sections that the model scores next; `None`, or a batch without sections, when the walk is over.
    fn next_batch(&mut self, trace: &mut StrategyTrace) -> Option<Batch>;
}

/// Sections that are scored in one call.
struct Batch {
    task: ScoringTask,
    sections: Vec<usize>,
}

/// Walks a document with a strategy, or with one that fits (`Auto`).
pub(super) async fn walk(scorer: &Scorer<'_>, requested: TreeSearchStrategy) -> StrategyTrace {
    let mut trace = StrategyTrace::default();
    let (chosen, why) = match requested {
        TreeSearchStrategy::Auto => choose_strategy(scorer),
        named => (Some(named), "asked for".into()),
    };
    trace.why = why;
    let Some(chosen) = chosen else {
        trace.strategy = "lexical";
        return trace;
    };
    let mut strategy = start(scorer, chosen, &mut trace);
    while let Some(batch) = strategy.next_batch(&mut trace) {
        if batch.sections.is_empty() {
            break;
        }
        match scorer.score(batch.task, &batch.sections).await {
            Ok(reply) => trace.add(batch.task, reply),
            Err(error) => {
                let name = scorer.tree.name();
                trace.notes.push(Note::from_error(name, &error));
                trace.is_cut_short = true;
                break;
            }
        }
    }
    trace
}

fn start<'a>(
    scorer: &'a Scorer<'_>,
    chosen: TreeSearchStrategy,
    trace: &mut StrategyTrace,
) -> Box<dyn Strategy + 'a> {
    let tree = scorer.tree;
    trace.strategy = chosen.as_str();
    match chosen {
        TreeSearchStrategy::Single => {
            if let Some(single) = single::Single::new(scorer) {
                return Box::new(single);
            }
            let message = "not even the top of the tree fits into one prompt: it was searched level by level (beam)";
            trace.notes.push(Note::new("single.too_large", message));
            start(scorer, TreeSearchStrategy::Beam, trace)
        }
        TreeSearchStrategy::Beam => Box::new(beam::Beam::new(tree)),
        TreeSearchStrategy::Mcts => Box::new(mcts::Mcts::new(tree)),
        TreeSearchStrategy::BestFirst | TreeSearchStrategy::Auto => {
            Box::new(best_first::BestFirst::new(tree))
        }
    }
}

// The strategy that fits the size of the tree, its lexical scores and the budget, and the reason; `None` when the budget has no
// room for a call.
fn choose_strategy(scorer: &Scorer<'_>) -> (Option<TreeSearchStrategy>, String) {
    let session = scorer.session;
    let sections = scorer.tree.nodes.len();
    let all: Vec<usize> = (0..sections).collect();
    let (tokens, prompt_tokens) = scorer.tree_tokens(&all);
    if !session.can_afford(prompt_tokens.saturating_sub(tokens)) {
        return (None, "the budget has no room for a call".into());
    }
    if tokens <= SINGLE_TOKENS && session.can_afford(prompt_tokens) {
        let why = format!("the whole tree of {sections} sections has {tokens} tokens");
        return (Some(TreeSearchStrategy::Single), why);
    }
    let large = format!("{sections} sections of {tokens} tokens are too many for one prompt");
    let calls_left = session.calls_left();
    if calls_left >= MCTS_CALLS && is_lexically_vague(scorer.tree) {
        let why = format!("{large}, and the words of the question single out no section");
        return (Some(TreeSearchStrategy::Mcts), why);
    }
    let why = format!("{large}; {calls_left} calls are left");
    (Some(TreeSearchStrategy::BestFirst), why)
}

// Lexical scores do not separate the sections when the tenth fits nearly as well as the first.
fn is_lexically_vague(tree: &SearchTree) -> bool {
    let tenth = tree.best_lexical(10).get(9).copied();
    tenth.is_none_or(|at| tree.nodes[at].lexical > 1.0 - VAGUE)
}

/// How a walk went.
#[derive(Debug, Default)]
pub(super) struct StrategyTrace {
    // The strategy that was used, and why.
    pub(super) strategy: &'static str,
    pub(super) why: String,
    // Whether the model failed, or the budget was used up.
    pub(super) is_cut_short: bool,
    // By index in the tree.
    pub(super) scored: BTreeMap<usize, ScoredSection>,
    // The model's own words, call by call.
    pub(super) thinking: Vec<String>,
    pub(super) notes: Vec<Note>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ScoredSection {
    // Mean of all scores, 0–1, and their number.
    pub(super) score: f32,
    visits: u32,
    pub(super) reason: String,
    // Scored without a model.
    pub(super) is_lexical: bool,
}

impl StrategyTrace {
    fn add(&mut self, task: ScoringTask, reply: ScoringReply) {
        if task == ScoringTask::RANK {
            // The ranking is the result. What led to it is not.
            self.scored.clear();
        }
        if !reply.thinking.is_empty() {
            self.thinking.push(reply.thinking);
        }
        for score in reply.scores {
            let scored = self.scored.entry(score.at).or_default();
            scored.visits += 1;
            scored.score += (score.score - scored.score) / scored.visits as f32;
            scored.reason = score.reason;
        }
    }

    // Results of search without a model, for a walk that found nothing. They rank below any section the model scored well.
    pub(super) fn add_best_lexical(&mut self, tree: &SearchTree) {
        for at in tree.best_lexical(MAX_SECTIONS) {
            let scored = ScoredSection {
                score: THRESHOLD * tree.nodes[at].lexical,
                visits: 1,
                reason: "by its words, without a model".into(),
                is_lexical: true,
            };
            self.scored.insert(at, scored);
        }
    }

    fn score(&self, at: usize) -> Option<f32> {
        self.scored.get(&at).map(|scored| scored.score)
    }

    // The sections of `among` that are good enough, best first.
    fn best(&self, among: impl Iterator<Item = usize>, most: usize) -> Vec<usize> {
        let mut scored: Vec<(f32, usize)> = among
            .filter_map(|at| Some((self.score(at)?, at)))
            .filter(|(score, _)| *score >= THRESHOLD)
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.into_iter().take(most).map(|(_, at)| at).collect()
    }

    // Counts sections scored by a model only.
    pub(super) fn count_at_least(&self, threshold: f32) -> usize {
        self.scored
            .values()
            .filter(|scored| !scored.is_lexical && scored.score >= threshold)
            .count()
    }
}
