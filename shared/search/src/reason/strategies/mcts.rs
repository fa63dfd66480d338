//! `mcts`: Monte Carlo tree search. Each round goes down from the top by UCB1, values the unvisited sections it comes to in
//! one call by title and summary, and carries the values up. A second visit reads an excerpt: new evidence, not the same
//! score again.

use super::{Ground, Trail};
use crate::reason::asker::AskError;
use crate::reason::judge::Kind;

pub(in crate::reason) async fn walk(ground: &Ground<'_>, trail: &mut Trail) -> Result<(), AskError> {
    let mut search = Search::new(ground);
    for _ in 0..ground.settings.mcts.calls {
        let Some(visit) = search.next() else { break };
        let values = match &visit {
            Visit::Value(shown) => ground.value(Kind::VALUE, shown, ground.settings.mcts.summary_chars, trail).await?,
            Visit::Read(shown) => read(ground, shown, trail).await?,
        };
        search.learn(&visit, &values);
    }
    Ok(())
}

/// Values sections by the beginning of their texts, or the lines that fit best.
async fn read(ground: &Ground<'_>, shown: &[usize], trail: &mut Trail) -> Result<Vec<(usize, f32)>, AskError> {
    let most = ground.settings.mcts.excerpt_chars;
    let texts = ground.texts(shown, most).await;
    let excerpt = |at: usize| shown.iter().position(|known| *known == at).map(|n| texts[n].clone()).unwrap_or_default();
    ground.value_with(Kind::READ, shown, 0, (most, &excerpt), trail).await
}

/// What a round does.
enum Visit {
    /// Values sections that were not visited.
    Value(Vec<usize>),
    /// Reads sections that were valued once.
    Read(Vec<usize>),
}

struct Search<'a> {
    ground: &'a Ground<'a>,
    /// Per section: visits below and at it, the sum of their values, and how often it was valued itself.
    visits: Vec<u32>,
    sums: Vec<f32>,
    valued: Vec<u32>,
    /// Values of its own.
    own: Vec<f32>,
    rounds: u32,
}

impl<'a> Search<'a> {
    fn new(ground: &'a Ground<'a>) -> Self {
        let count = ground.outline.nodes.len();
        Self {
            ground,
            visits: vec![0; count],
            sums: vec![0.0; count],
            valued: vec![0; count],
            own: vec![0.0; count],
            rounds: 0,
        }
    }

    /// Where the next call goes: down by UCB1 to unvisited siblings, or to sections worth reading.
    fn next(&self) -> Option<Visit> {
        let nodes = &self.ground.outline.nodes;
        let mut level = self.ground.outline.top();
        loop {
            let fresh = self.fresh(&level);
            if !fresh.is_empty() {
                return Some(Visit::Value(fresh));
            }
            let open = |at: &usize| self.is_open(*at);
            let best = level.iter().copied().filter(open).max_by(|a, b| self.ucb(*a).total_cmp(&self.ucb(*b)))?;
            if nodes[best].children.is_empty() || !nodes[best].children.iter().any(|child| self.is_open(*child)) {
                return Some(Visit::Read(self.to_read(&level, best)));
            }
            level.clone_from(&nodes[best].children);
        }
    }

    /// Siblings that were not valued, those that fit best without a model first, as many as go into one call.
    fn fresh(&self, level: &[usize]) -> Vec<usize> {
        let nodes = &self.ground.outline.nodes;
        let mut fresh: Vec<usize> = level.iter().copied().filter(|at| self.valued[*at] == 0).collect();
        fresh.sort_by(|a, b| nodes[*b].below.total_cmp(&nodes[*a].below).then(a.cmp(b)));
        fresh.truncate(self.ground.settings.mcts.batch);
        fresh
    }

    /// Siblings that were valued once and not read, the chosen one first.
    fn to_read(&self, level: &[usize], best: usize) -> Vec<usize> {
        let mut others: Vec<usize> = level.iter().copied().filter(|at| *at != best && self.valued[*at] == 1).collect();
        others.sort_by(|a, b| self.own[*b].total_cmp(&self.own[*a]).then(a.cmp(b)));
        others.retain(|at| self.own[*at] >= self.ground.settings.threshold);
        std::iter::once(best).chain(others).take(self.ground.settings.mcts.batch / 2).collect()
    }

    /// Whether there is anything left to learn at or below a section.
    fn is_open(&self, at: usize) -> bool {
        let below = || self.ground.outline.nodes[at].children.iter().any(|child| self.is_open(*child));
        self.valued[at] < 2 || below()
    }

    fn ucb(&self, at: usize) -> f32 {
        let visits = self.visits[at].max(1) as f32;
        let mean = self.sums[at] / visits;
        mean + self.ground.settings.mcts.exploration * ((self.rounds.max(1) as f32).ln() / visits).sqrt()
    }

    /// Takes in the values of a call, blended with the words, and carries them up.
    fn learn(&mut self, visit: &Visit, values: &[(usize, f32)]) {
        self.rounds += 1;
        let shown = match visit {
            Visit::Value(shown) | Visit::Read(shown) => shown,
        };
        let words = self.ground.settings.mcts.lexical;
        for at in shown {
            self.valued[*at] += 1;
            let node = &self.ground.outline.nodes[*at];
            let said = values.iter().find(|(known, _)| known == at).map_or(0.0, |(_, score)| *score);
            let value = (1.0 - words) * said + words * node.below;
            self.own[*at] = value;
            for above in self.ground.outline.line(*at) {
                self.visits[above] += 1;
                self.sums[above] += value;
            }
        }
    }
}
