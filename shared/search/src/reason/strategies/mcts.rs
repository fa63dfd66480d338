//! `mcts`: Monte Carlo tree search. A round takes several ways down from the top by UCB1, the unvisited first; each ends, by a
//! playout without a model, at the section below that fits best by its words. The model values the ends of a round in one
//! call, by title and summary, and the values are carried up. Every few rounds the best so far are visited again: then an
//! excerpt is read, which is new evidence, and not the same score once more.

use super::{Ground, Trail};
use crate::reason::asker::AskError;
use crate::reason::judge::Kind;

/// Every so many rounds the best are read.
const READ_EVERY: u32 = 3;

pub(in crate::reason) async fn walk(ground: &Ground<'_>, trail: &mut Trail) -> Result<(), AskError> {
    let settings = &ground.settings.mcts;
    let mut search = Search::new(ground);
    for round in 1..=settings.calls {
        let is_last = round == settings.calls;
        let read = if round % READ_EVERY == 0 || is_last { search.worth_reading() } else { Vec::new() };
        let fresh = if read.is_empty() { search.ways_down() } else { Vec::new() };
        let values = match (read.is_empty(), fresh.is_empty()) {
            (false, _) => self::read(ground, &read, trail).await?,
            (true, false) => ground.value(Kind::VALUE, &fresh, settings.summary_chars, trail).await?,
            (true, true) => break,
        };
        search.learn(if read.is_empty() { &fresh } else { &read }, &values);
    }
    Ok(())
}

/// Values sections by the beginning of their texts.
async fn read(ground: &Ground<'_>, shown: &[usize], trail: &mut Trail) -> Result<Vec<(usize, f32)>, AskError> {
    let settings = &ground.settings.mcts;
    let texts = ground.texts(shown, settings.excerpt_chars).await;
    let excerpt = |at: usize| shown.iter().position(|known| *known == at).map(|n| texts[n].clone()).unwrap_or_default();
    let excerpts: (usize, &(dyn Fn(usize) -> String + Send + Sync)) = (settings.excerpt_chars, &excerpt);
    ground.value_with(Kind::READ, shown, 0, excerpts, trail).await
}

struct Search<'a> {
    ground: &'a Ground<'a>,
    /// Per section: ways that led through it.
    visits: Vec<u32>,
    /// How often it was valued itself, the mean of what the model said, and that blended with its words.
    valued: Vec<u32>,
    own: Vec<f32>,
    blended: Vec<f32>,
    ways: u32,
}

impl<'a> Search<'a> {
    fn new(ground: &'a Ground<'a>) -> Self {
        let count = ground.outline.nodes.len();
        let (visits, valued) = (vec![0; count], vec![0; count]);
        // Before the model has said anything, words promise what they count for.
        let words = ground.settings.mcts.lexical;
        let blended = ground.outline.nodes.iter().map(|node| words * node.lexical).collect();
        Self { ground, visits, valued, own: vec![0.0; count], blended, ways: 0 }
    }

    /// The ends of the ways of a round. Each counts as visited before its value is known, so that the next goes elsewhere.
    fn ways_down(&mut self) -> Vec<usize> {
        let batch = self.ground.settings.mcts.batch;
        // Half of the first round goes where words alone lead.
        let mut ends = if self.ways == 0 { self.ground.outline.lexical(batch / 2) } else { Vec::new() };
        ends.iter().for_each(|end| self.visited(*end));
        while ends.len() < batch {
            let Some(end) = self.way_down(&ends) else { break };
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
        let is_open = |at: usize| self.valued[at] == 0 && !taken.contains(&at);
        let mut level = self.ground.outline.top();
        let mut last = None;
        loop {
            let open = level.iter().copied().filter(|at| self.below(*at).any(is_open));
            let Some(best) = open.max_by(|a, b| self.ucb(*a).total_cmp(&self.ucb(*b)).then(b.cmp(a))) else { break };
            last = Some(best);
            if self.visits[best] == 0 {
                break;
            }
            level.clone_from(&nodes[best].children);
        }
        let open = self.below(last?).filter(|at| is_open(*at));
        open.max_by(|a, b| nodes[*a].lexical.total_cmp(&nodes[*b].lexical).then(b.cmp(a)))
    }

    /// A section and all below it: ids are pre-order.
    fn below(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let nodes = &self.ground.outline.nodes;
        let deeper = (at + 1..nodes.len()).take_while(move |other| nodes[*other].depth > nodes[at].depth);
        std::iter::once(at).chain(deeper)
    }

    /// UCB1 among the children of one section; what was never visited comes first, by what its words promise. The value of
    /// a way is that of the best section it leads to, over the best of all: the mean would hide one good section among
    /// many.
    fn ucb(&self, at: usize) -> f32 {
        if self.visits[at] == 0 {
            return 1_000.0 + self.ground.outline.nodes[at].below;
        }
        let best = |values: &mut dyn Iterator<Item = usize>| values.map(|at| self.blended[at]).fold(0.0, f32::max);
        let value = best(&mut self.below(at)) / best(&mut (0..self.blended.len())).max(0.01);
        let above = self.ground.outline.nodes[at].parent.map_or(self.ways, |above| self.visits[above]);
        let seldom = (above.max(1) as f32).ln() / self.visits[at] as f32;
        value + self.ground.settings.mcts.exploration * seldom.sqrt()
    }

    /// The best sections that were valued once and not read.
    fn worth_reading(&self) -> Vec<usize> {
        let least = self.ground.settings.threshold;
        let mut best: Vec<usize> =
            (0..self.own.len()).filter(|at| self.valued[*at] == 1 && self.own[*at] >= least).collect();
        best.sort_by(|a, b| self.own[*b].total_cmp(&self.own[*a]).then(a.cmp(b)));
        best.truncate(self.ground.settings.mcts.batch);
        best
    }

    /// Takes in the values of a call, blended with the words.
    fn learn(&mut self, shown: &[usize], values: &[(usize, f32)]) {
        let words = self.ground.settings.mcts.lexical;
        for at in shown {
            let said = values.iter().find(|(known, _)| known == at).map_or(0.0, |(_, score)| *score);
            let before = self.own[*at] * self.valued[*at] as f32;
            self.valued[*at] += 1;
            self.own[*at] = (before + said) / self.valued[*at] as f32;
            self.blended[*at] = (1.0 - words) * self.own[*at] + words * self.ground.outline.nodes[*at].lexical;
        }
    }
}
