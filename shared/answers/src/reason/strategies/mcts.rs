//! `mcts`: Monte Carlo tree search. A round takes several ways down from the top by UCB1 with what words promise as a prior
//! (PUCT); each ends, by a playout without a model, at the section below that fits best by its words. The model values the
//! ends of a round in one call, by title and summary, and the values are carried up. The last round visits the best again:
//! then an excerpt is read, which is new evidence, and not the same score once more.

use super::{Ground, Trail};
use crate::reason::asker::AskError;
use crate::reason::judge::Kind;

/// What a section promises whose words say nothing.
const UNPROMISED: f32 = 0.2;

pub(in crate::reason) async fn walk(
    ground: &Ground<'_>,
    trail: &mut Trail,
) -> Result<(), AskError> {
    let settings = &ground.settings.mcts;
    let rounds = settings.calls.saturating_sub(1).max(1);
    let mut search = Search::new(ground);
    for _ in 0..rounds {
        let ends = search.ways_down();
        if ends.is_empty() {
            break;
        }
        let values = ground
            .value(Kind::VALUE, &ends, settings.summary_chars, trail)
            .await?;
        search.learn(&ends, &values);
    }
    let best = search.worth_reading();
    if rounds < settings.calls && !best.is_empty() {
        read(ground, &best, trail).await?;
    }
    Ok(())
}

/// Values sections by the beginning of their texts.
async fn read(ground: &Ground<'_>, shown: &[usize], trail: &mut Trail) -> Result<(), AskError> {
    let settings = &ground.settings.mcts;
    let texts = ground.texts(shown, settings.excerpt_chars).await;
    let excerpt = |at: usize| {
        shown
            .iter()
            .position(|known| *known == at)
            .map(|n| texts[n].clone())
            .unwrap_or_default()
    };
    let excerpts: (usize, &(dyn Fn(usize) -> String + Send + Sync)) =
        (settings.excerpt_chars, &excerpt);
    ground
        .value_with(Kind::READ, shown, 0, excerpts, trail)
        .await?;
    Ok(())
}

struct Search<'a> {
    ground: &'a Ground<'a>,
    /// Per section: ways that led through it.
    visits: Vec<u32>,
    /// What the model said of it; `None` until it was asked.
    own: Vec<Option<f32>>,
    /// The same blended with its words.
    blended: Vec<f32>,
    ways: u32,
}

impl<'a> Search<'a> {
    fn new(ground: &'a Ground<'a>) -> Self {
        let count = ground.outline.nodes.len();
        // Before the model has said anything, words promise what they count for.
        let words = ground.settings.mcts.lexical;
        let blended = ground
            .outline
            .nodes
            .iter()
            .map(|node| words * node.lexical)
            .collect();
        Self {
            ground,
            visits: vec![0; count],
            own: vec![None; count],
            blended,
            ways: 0,
        }
    }

    /// The ends of the ways of a round. Each counts as visited before its value is known, so that the next goes elsewhere.
    fn ways_down(&mut self) -> Vec<usize> {
        let batch = self.ground.settings.mcts.batch;
        // Half of the first round goes where words alone lead.
        let mut ends = if self.ways == 0 {
            self.ground.outline.lexical(batch / 2)
        } else {
            Vec::new()
        };
        ends.iter().for_each(|end| self.visited(*end));
        while ends.len() < batch {
            let Some(end) = self.way_down(&ends) else {
                break;
            };
            self.visited(end);
            ends.push(end);
        }
        ends
    }

    fn visited(&mut self, end: usize) {
        self.ways += 1;
        for above in self.ground.outline.line(end) {
            self.visits[above] += 1;
        }
    }

    fn way_down(&self, taken: &[usize]) -> Option<usize> {
        let nodes = &self.ground.outline.nodes;
        let is_open = |at: usize| self.own[at].is_none() && !taken.contains(&at);
        let mut level = self.ground.outline.top();
        let mut last = None;
        loop {
            let open = level
                .iter()
                .copied()
                .filter(|at| self.below(*at).any(is_open));
            let Some(best) = open.max_by(|a, b| {
                self.ucb(*a, &level)
                    .total_cmp(&self.ucb(*b, &level))
                    .then(b.cmp(a))
            }) else {
                break;
            };
            last = Some(best);
            if self.visits[best] == 0 {
                break;
            }
            level.clone_from(&nodes[best].children);
        }
        let open = self.below(last?).filter(|at| is_open(*at));
        open.max_by(|a, b| {
            nodes[*a]
                .lexical
                .total_cmp(&nodes[*b].lexical)
                .then(b.cmp(a))
        })
    }

    /// A section and all below it: ids are pre-order.
    fn below(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let nodes = &self.ground.outline.nodes;
        let deeper =
            (at + 1..nodes.len()).take_while(move |other| nodes[*other].depth > nodes[at].depth);
        std::iter::once(at).chain(deeper)
    }

    /// UCB1 with what words promise as its prior (PUCT). The value of a way is that of the best section it leads to, over the
    /// best of all: the mean would hide one good section among many.
    fn ucb(&self, at: usize, level: &[usize]) -> f32 {
        let nodes = &self.ground.outline.nodes;
        let best = |values: &mut dyn Iterator<Item = usize>| {
            values.map(|at| self.blended[at]).fold(0.0, f32::max)
        };
        let value = best(&mut self.below(at)) / best(&mut (0..self.blended.len())).max(0.01);
        let promise = |at: usize| UNPROMISED + nodes[at].below;
        let prior = promise(at) / level.iter().map(|at| promise(*at)).sum::<f32>();
        let above = nodes[at]
            .parent
            .map_or(self.ways, |above| self.visits[above]);
        let seldom = (above.max(1) as f32).sqrt() / (1 + self.visits[at]) as f32;
        value + self.ground.settings.mcts.exploration * prior * seldom
    }

    /// The best sections so far.
    fn worth_reading(&self) -> Vec<usize> {
        let least = self.ground.settings.threshold;
        let mut best: Vec<(f32, usize)> = self
            .own
            .iter()
            .enumerate()
            .filter_map(|(at, own)| Some(((*own)?, at)))
            .filter(|(own, _)| *own >= least)
            .collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        best.truncate(self.ground.settings.mcts.batch);
        best.into_iter().map(|(_, at)| at).collect()
    }

    /// Takes in the values of a call; what the model left out is worth nothing to it.
    fn learn(&mut self, shown: &[usize], values: &[(usize, f32)]) {
        let words = self.ground.settings.mcts.lexical;
        for at in shown {
            let said = values
                .iter()
                .find(|(known, _)| known == at)
                .map_or(0.0, |(_, score)| *score);
            self.own[*at] = Some(said);
            self.blended[*at] =
                (1.0 - words) * said + words * self.ground.outline.nodes[*at].lexical;
        }
    }
}
