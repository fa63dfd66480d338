//! `best_first`: a priority queue of sections. It begins with the top of the tree and with what fits best without a model
//! (a warm start), values a handful per call by title and summary, and opens what is worth it.

use super::{Ground, Trail};
use crate::reason::asker::AskError;
use crate::reason::judge::Kind;

pub(in crate::reason) async fn walk(
    ground: &Ground<'_>,
    trail: &mut Trail,
) -> Result<(), AskError> {
    let settings = &ground.settings.best_first;
    let mut queue = Queue::begin(ground);
    for _ in 0..settings.calls {
        if enough(ground, trail, &queue) {
            break;
        }
        let batch = queue.take(settings.batch, settings.least);
        if batch.is_empty() {
            break;
        }
        let judged = ground
            .value(Kind::VALUE, &batch, settings.summary_chars, trail)
            .await?;
        for (at, score) in judged {
            queue.open(ground, at, score);
        }
    }
    Ok(())
}

/// Whether enough good sections are known, and nothing in the queue promises to be better.
fn enough(ground: &Ground<'_>, trail: &Trail, queue: &Queue) -> bool {
    let settings = &ground.settings.best_first;
    trail.at_least(settings.stop_score) >= settings.enough && queue.best() < settings.stop_score
}

/// Sections that wait to be valued.
struct Queue {
    waiting: Vec<(f32, usize)>,
    seen: Vec<bool>,
}

impl Queue {
    fn begin(ground: &Ground<'_>) -> Self {
        let outline = ground.outline;
        let mut queue = Self {
            waiting: Vec::new(),
            seen: vec![false; outline.nodes.len()],
        };
        for at in outline.lexical(ground.settings.best_first.warm) {
            queue.push(outline.nodes[at].lexical, at);
        }
        // Every top section is looked at, whatever its words: where words say nothing, the model may.
        for at in outline.top() {
            queue.push((1.0 + outline.nodes[at].below) / 2.0, at);
        }
        queue
    }

    fn push(&mut self, priority: f32, at: usize) {
        if !std::mem::replace(&mut self.seen[at], true) {
            self.waiting.push((priority, at));
        }
    }

    /// The children of a section of this value wait from now on.
    fn open(&mut self, ground: &Ground<'_>, at: usize, score: f32) {
        let words = ground.settings.best_first.lexical;
        for child in &ground.outline.nodes[at].children {
            self.push(
                (1.0 - words) * score + words * ground.outline.nodes[*child].below,
                *child,
            );
        }
    }

    /// The most promising, best first, of `least` or better.
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
