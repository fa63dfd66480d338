//! `best_first`: best-first search with a priority queue of sections. It starts with the top level and the best lexical hits (a
//! warm start), scores a batch per call by title and summary, and expands the sections worth it.

use super::{SearchContext, StrategyTrace};
use crate::tree_search::llm_session::SessionError;
use crate::tree_search::scoring::ScoringTask;

pub(in crate::tree_search) async fn walk(
    context: &SearchContext<'_>,
    trace: &mut StrategyTrace,
) -> Result<(), SessionError> {
    let settings = &context.settings.best_first;
    let mut queue = SectionQueue::new(context);
    for _ in 0..settings.calls {
        if is_enough(context, trace, &queue) {
            break;
        }
        let batch = queue.take(settings.batch, settings.least);
        if batch.is_empty() {
            break;
        }
        let scores = context
            .score_sections(ScoringTask::SCORE, &batch, settings.summary_chars, trace)
            .await?;
        for (at, score) in scores {
            queue.open(context, at, score);
        }
    }
    Ok(())
}

// Enough good sections, and nothing in the queue promises to be better.
fn is_enough(context: &SearchContext<'_>, trace: &StrategyTrace, queue: &SectionQueue) -> bool {
    let settings = &context.settings.best_first;
    trace.count_at_least(settings.stop_score) >= settings.enough
        && queue.best() < settings.stop_score
}

struct SectionQueue {
    waiting: Vec<(f32, usize)>,
    is_queued: Vec<bool>,
}

impl SectionQueue {
    fn new(context: &SearchContext<'_>) -> Self {
        let tree = context.tree;
        let mut queue = Self {
            waiting: Vec::new(),
            is_queued: vec![false; tree.nodes.len()],
        };
        for at in tree.best_lexical(context.settings.best_first.warm) {
            queue.push(tree.nodes[at].lexical, at);
        }
        // Every top-level section is queued, whatever its lexical score: where words fail, the model may see the answer.
        for at in tree.roots() {
            queue.push((1.0 + tree.nodes[at].best_below) / 2.0, at);
        }
        queue
    }

    fn push(&mut self, priority: f32, at: usize) {
        if !std::mem::replace(&mut self.is_queued[at], true) {
            self.waiting.push((priority, at));
        }
    }

    // A child's priority blends its parent's model score with the best lexical score below it.
    fn open(&mut self, context: &SearchContext<'_>, at: usize, score: f32) {
        let lexical_weight = context.settings.best_first.lexical;
        for child in &context.tree.nodes[at].children {
            self.push(
                (1.0 - lexical_weight) * score
                    + lexical_weight * context.tree.nodes[*child].best_below,
                *child,
            );
        }
    }

    // The best `most` sections with priority `least` or higher.
    fn take(&mut self, most: usize, least: f32) -> Vec<usize> {
        self.waiting
            .sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let worth = self
            .waiting
            .iter()
            .take_while(|(priority, _)| *priority >= least)
            .count();
        self.waiting
            .drain(..most.min(worth))
            .map(|(_, at)| at)
            .collect()
    }

    fn best(&self) -> f32 {
        self.waiting
            .iter()
            .map(|(priority, _)| *priority)
            .fold(0.0, f32::max)
    }
}
