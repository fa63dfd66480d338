//! Which of the judged sections are given back.

use super::reasoner::Walk;
use super::settings::ReasonSettings;
use crate::find::Hit;

/// Sections by document and place, best first: at the threshold or better, of a new topic or sure, at most `most`.
pub(super) fn choose(settings: &ReasonSettings, walks: &[Walk], most: usize) -> Vec<(usize, usize)> {
    let mut all: Vec<(f32, usize, usize)> = Vec::new();
    for (index, walk) in walks.iter().enumerate() {
        let good = walk.trail.judged.iter().filter(|(_, judged)| judged.score() >= settings.threshold);
        all.extend(good.map(|(at, judged)| (judged.score(), index, *at)));
    }
    let lexical = |index: usize, at: usize| walks[index].outline.nodes[at].lexical;
    all.sort_by(|a, b| {
        let by_words = lexical(b.1, b.2).total_cmp(&lexical(a.1, a.2));
        b.0.total_cmp(&a.0).then(by_words).then((a.1, a.2).cmp(&(b.1, b.2)))
    });
    let mut topics: Vec<(usize, usize, Option<usize>)> = Vec::new();
    let mut chosen = Vec::new();
    for (score, index, at) in all {
        let node = &walks[index].outline.nodes[at];
        let topic = (index, node.aspect, node.parent);
        if topics.contains(&topic) && score <= settings.sure {
            continue;
        }
        topics.push(topic);
        chosen.push((index, at));
    }
    chosen.truncate(most.min(settings.sections));
    chosen
}

/// How sure an answer is: 0.4 of the mean score and 0.6 of the best; 0 of nothing.
pub(super) fn confidence(hits: &[Hit]) -> f32 {
    if hits.is_empty() {
        return 0.0;
    }
    let mean = hits.iter().map(|hit| hit.score).sum::<f32>() / hits.len() as f32;
    let top = hits.iter().map(|hit| hit.score).fold(0.0, f32::max);
    0.4 * mean + 0.6 * top
}
