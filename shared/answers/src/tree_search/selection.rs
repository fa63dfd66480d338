//! Which of the judged sections are given back: by score, so that topics are covered; what says the same once; and what they
//! refer to.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::result::{Relation, SectionRelation};
use super::search_tree::SearchNode;
use super::searcher::DocumentWalk;
use super::settings::TreeSearchSettings;
use stemma_retrieval::search::SectionHit;
use stemma_retrieval::tokenizer::content_words;

/// Words of a shingle.
const SHINGLE_WORDS: usize = 5;
/// What a section that is only referred to is worth of the one that refers to it.
const REFERENCE_DECAY: f32 = 0.6;

/// Texts that are compared are cut here, in bytes.
pub(super) const COMPARED_BYTES: usize = 40_000;

/// Words that titles and summaries share from which on two sections have one topic.
const MIN_TOPIC_SIMILARITY: f32 = 0.5;

/// A section by its document and place.
pub(super) type SectionPosition = (usize, usize);

/// Sections, best first: at the threshold or better, of a new topic or sure, at most `most`. What stands in by its words comes
/// last. A section that is too large to be read whole does not cover the topics of those below it: those are told apart.
pub(super) fn select_sections(
    settings: &TreeSearchSettings,
    walks: &[DocumentWalk],
    most: usize,
) -> Vec<SectionPosition> {
    let mut all: Vec<(f32, SectionPosition)> = Vec::new();
    for (index, walk) in walks.iter().enumerate() {
        let good = walk
            .trace
            .scored
            .iter()
            .filter(|(_, scored)| scored.is_lexical || scored.score() >= settings.threshold);
        all.extend(good.map(|(at, scored)| (scored.score(), (index, *at))));
    }
    let lexical = |(index, at): SectionPosition| walks[index].tree.nodes[at].lexical;
    all.sort_by(|a, b| {
        b.0.total_cmp(&a.0)
            .then(lexical(b.1).total_cmp(&lexical(a.1)))
            .then(a.1.cmp(&b.1))
    });
    let mut topics: Vec<(SectionPosition, HashSet<String>)> = Vec::new();
    for (score, (index, at)) in all {
        let node = &walks[index].tree.nodes[at];
        let topic: HashSet<String> = content_words(&format!("{} {}", node.title, node.summary))
            .into_iter()
            .collect();
        let is_covered = topics.iter().any(|((other, covered_aspect), words)| {
            let tree = &walks[*other].tree;
            let is_above = |above: usize, below: usize| {
                *other == index
                    && tree.is_ancestor(above, below)
                    && !is_whole(settings, &tree.nodes[above])
            };
            let is_apart = is_above(*covered_aspect, at) || is_above(at, *covered_aspect);
            !is_apart
                && tree.nodes[*covered_aspect].aspect == node.aspect
                && jaccard(words, &topic) >= MIN_TOPIC_SIMILARITY
        });
        if !is_covered || score > settings.sure {
            topics.push(((index, at), topic));
        }
    }
    topics.truncate(most.min(settings.sections));
    topics.into_iter().map(|(at, _)| at).collect()
}

/// Adds the sections that chosen ones refer to, hop by hop, worth less with each; those that were judged poor are left out.
/// Returns how many were added.
pub(super) fn follow_references(
    settings: &TreeSearchSettings,
    walks: &mut [DocumentWalk],
    chosen: &mut Vec<SectionPosition>,
    most: usize,
) -> usize {
    let before = chosen.len();
    let mut edge = chosen.clone();
    for _ in 0..settings.hops.min(2) {
        let mut next = Vec::new();
        for (index, at) in edge {
            let walk = &mut walks[index];
            let score = REFERENCE_DECAY * walk.trace.score(at).unwrap_or(0.0);
            for (text, to) in walk.tree.references_of(at) {
                let existing_score = walk.trace.score(to);
                let is_poor = existing_score
                    .is_some_and(|existing_score| existing_score < settings.threshold)
                    || score < settings.threshold;
                if is_poor || chosen.contains(&(index, to)) || chosen.len() >= most {
                    continue;
                }
                if existing_score.is_none() {
                    let from = walk.tree.nodes[at].id;
                    walk.trace
                        .set(to, score, &format!("{from} refers to it: “{text}”"));
                }
                chosen.push((index, to));
                next.push((index, to));
            }
        }
        edge = next;
    }
    chosen.len() - before
}

/// Drops sections whose text a better one brings: what stands below one that is read whole, and what repeats another. Returns the relations of those that stay, by rank from 1, and how many were dropped.
pub(super) fn drop_redundant(
    settings: &TreeSearchSettings,
    walks: &[DocumentWalk],
    chosen: &mut Vec<SectionPosition>,
    texts: &[String],
) -> (Vec<SectionRelation>, usize) {
    let shingles: Vec<HashSet<u64>> = texts.iter().map(|text| shingles(text)).collect();
    let mut retained: Vec<usize> = Vec::new();
    for at in 0..chosen.len() {
        let (index, section) = chosen[at];
        let tree = &walks[index].tree;
        let covering = retained
            .iter()
            .map(|above| chosen[*above])
            .any(|(other, above)| {
                other == index
                    && is_whole(settings, &tree.nodes[above])
                    && tree.is_ancestor(above, section)
            });
        if !covering
            && !retained
                .iter()
                .any(|other: &usize| overlap(&shingles[at], &shingles[*other]) >= settings.overlap)
        {
            retained.push(at);
        }
    }
    let mut relations = Vec::new();
    for (rank, at) in retained.iter().enumerate() {
        for (other_rank, other) in retained.iter().enumerate().skip(rank + 1) {
            let relation = relation(
                walks,
                chosen[*at],
                chosen[*other],
                overlap(&shingles[*at], &shingles[*other]),
            );
            relations.push(SectionRelation {
                one: rank + 1,
                other: other_rank + 1,
                relation,
            });
        }
    }
    let dropped = chosen.len() - retained.len();
    *chosen = retained.into_iter().map(|at| chosen[at]).collect();
    (relations, dropped)
}

/// Whether a section is short enough to be read with all below it.
fn is_whole(settings: &TreeSearchSettings, node: &SearchNode) -> bool {
    (1..=settings.whole_tokens).contains(&node.tokens)
}

fn relation(
    walks: &[DocumentWalk],
    one: SectionPosition,
    other: SectionPosition,
    overlap: f32,
) -> Relation {
    let holds = |above: SectionPosition, below: SectionPosition| {
        above.0 == below.0 && walks[above.0].tree.is_ancestor(above.1, below.1)
    };
    if holds(one, other) || holds(other, one) {
        Relation::Hierarchical
    } else if overlap >= 0.5 {
        Relation::Redundant
    } else {
        Relation::Complementary
    }
}

/// Digests of all runs of words.
fn shingles(text: &str) -> HashSet<u64> {
    let words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words
        .windows(SHINGLE_WORDS)
        .map(|window: &[String]| {
            let mut hasher = DefaultHasher::new();
            window.hash(&mut hasher);
            hasher.finish()
        })
        .collect()
}

/// The share of the shorter text's shingles that the longer one has; 0 where one has none.
fn overlap(one: &HashSet<u64>, other: &HashSet<u64>) -> f32 {
    let shorter = one.len().min(other.len());
    if shorter == 0 {
        0.0
    } else {
        one.intersection(other).count() as f32 / shorter as f32
    }
}

/// The share of words that two sets have in common.
fn jaccard(one: &HashSet<String>, other: &HashSet<String>) -> f32 {
    let both = one.intersection(other).count() as f32;
    both / (one.union(other).count() as f32).max(1.0)
}

/// How sure an answer is: 0.4 of the mean score and 0.6 of the best; 0 of nothing.
pub(super) fn confidence(hits: &[SectionHit]) -> f32 {
    if hits.is_empty() {
        return 0.0;
    }
    let mean = hits.iter().map(|hit| hit.score).sum::<f32>() / hits.len() as f32;
    let top = hits.iter().map(|hit| hit.score).fold(0.0, f32::max);
    0.4 * mean + 0.6 * top
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_texts_overlap() {
        let text = |from: u32, to: u32| {
            (from..to)
                .map(|n| format!("w{n}"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let share = |one: &str, other: &str| overlap(&shingles(one), &shingles(other));
        assert_eq!(share(&text(0, 100), &text(0, 100).to_uppercase()), 1.0);
        assert!(
            share(&text(0, 100), &text(50, 400)) > 0.4
                && share(&text(0, 100), &text(200, 300)) == 0.0
        );
        assert_eq!(share("one two", &text(0, 9)), 0.0);
    }
}
