//! Selects result sections from the scored ones: best scores with distinct topics, no repeated text, and the sections they
//! refer to.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::result::{Relation, SectionRelation};
use super::search_tree::SearchNode;
use super::searcher::DocumentWalk;
use super::strategies::{MAX_SECTIONS, THRESHOLD};
use stemma_reading::tokenizer::content_words;
use stemma_retrieval::search::SearchHit;

const SHINGLE_WORDS: usize = 5;
// Share of a section's score that a section it refers to gets.
const REFERENCE_DECAY: f32 = 0.6;

// Section texts are cut here before they are compared, in bytes.
pub(super) const COMPARED_BYTES: usize = 40_000;

// Jaccard similarity of the words of titles and summaries from which two sections have one topic.
const MIN_TOPIC_SIMILARITY: f32 = 0.5;
// A section with a higher score is taken even when its topic is covered.
const SURE_SCORE: f32 = 0.8;
// A section of at most this many tokens is read with all its descendants, which are then not selected too.
const WHOLE_TOKENS: u32 = 1_500;
// Hops along references from a selected section.
const MAX_HOPS: usize = 2;
// Share of common shingles from which a section repeats another.
const MAX_OVERLAP: f32 = 0.8;

// Index of the walk, and of the section in its tree.
pub(super) type SectionPosition = (usize, usize);

// Best sections first: at the threshold or better, of a new topic or sure, at most `most`. Sections without a model score come
// last. An ancestor too large to be read whole does not cover its descendants.
pub(super) fn select_sections(walks: &[DocumentWalk], most: usize) -> Vec<SectionPosition> {
    let mut all: Vec<(f32, SectionPosition)> = Vec::new();
    for (index, walk) in walks.iter().enumerate() {
        let good = walk
            .trace
            .scored
            .iter()
            .filter(|(_, scored)| scored.is_lexical || scored.score() >= THRESHOLD);
        all.extend(good.map(|(at, scored)| (scored.score(), (index, *at))));
    }
    all.sort_by(|a, b| {
        b.0.total_cmp(&a.0)
            .then(lexical_score(walks, b.1).total_cmp(&lexical_score(walks, a.1)))
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
                *other == index && tree.is_ancestor(above, below) && !is_whole(&tree.nodes[above])
            };
            let is_apart = is_above(*covered_aspect, at) || is_above(at, *covered_aspect);
            !is_apart
                && tree.nodes[*covered_aspect].aspect == node.aspect
                && jaccard(words, &topic) >= MIN_TOPIC_SIMILARITY
        });
        if !is_covered || score > SURE_SCORE {
            topics.push(((index, at), topic));
        }
    }
    topics.truncate(most.min(MAX_SECTIONS));
    topics.into_iter().map(|(at, _)| at).collect()
}

// Adds sections that selected ones refer to, hop by hop with decreasing scores, except those the model scored as poor.
// Returns how many were added.
pub(super) fn follow_references(
    walks: &mut [DocumentWalk],
    chosen: &mut Vec<SectionPosition>,
    most: usize,
) -> usize {
    let before = chosen.len();
    let mut edge = chosen.clone();
    for _ in 0..MAX_HOPS {
        let mut next = Vec::new();
        for (index, at) in edge {
            let walk = &mut walks[index];
            let score = REFERENCE_DECAY * walk.trace.score(at).unwrap_or(0.0);
            for (text, to) in walk.tree.references_of(at) {
                let existing_score = walk.trace.score(to);
                let is_poor = existing_score
                    .is_some_and(|existing_score| existing_score < THRESHOLD)
                    || score < THRESHOLD;
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

// Drops sections that repeat a better one, or are part of one that is read whole. Returns the relations of the rest by rank
// (1-based), and how many were dropped.
pub(super) fn drop_redundant(
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
                other == index && is_whole(&tree.nodes[above]) && tree.is_ancestor(above, section)
            });
        if !covering
            && !retained
                .iter()
                .any(|other: &usize| overlap(&shingles[at], &shingles[*other]) >= MAX_OVERLAP)
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

fn lexical_score(walks: &[DocumentWalk], (index, at): SectionPosition) -> f32 {
    walks[index].tree.nodes[at].lexical
}

// Short enough to be read with all its descendants.
fn is_whole(node: &SearchNode) -> bool {
    (1..=WHOLE_TOKENS).contains(&node.tokens)
}

fn relation(
    walks: &[DocumentWalk],
    one: SectionPosition,
    other: SectionPosition,
    overlap: f32,
) -> Relation {
    let tree = &walks[one.0].tree;
    let is_nested =
        one.0 == other.0 && (tree.is_ancestor(one.1, other.1) || tree.is_ancestor(other.1, one.1));
    if is_nested {
        Relation::Hierarchical
    } else if overlap >= 0.5 {
        Relation::Redundant
    } else {
        Relation::Complementary
    }
}

// Hashes of all runs of `SHINGLE_WORDS` words.
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

// Overlap coefficient: share of the smaller set's shingles that the other set has.
fn overlap(one: &HashSet<u64>, other: &HashSet<u64>) -> f32 {
    let shorter = one.len().min(other.len());
    if shorter == 0 {
        0.0
    } else {
        one.intersection(other).count() as f32 / shorter as f32
    }
}

fn jaccard(one: &HashSet<String>, other: &HashSet<String>) -> f32 {
    let both = one.intersection(other).count() as f32;
    both / (one.union(other).count() as f32).max(1.0)
}

// Confidence of the result: 0.4 of the mean score and 0.6 of the best; 0 without hits.
pub(super) fn confidence(hits: &[SearchHit]) -> f64 {
    if hits.is_empty() {
        return 0.0;
    }
    let mean = hits.iter().map(|hit| hit.score).sum::<f64>() / hits.len() as f64;
    let top = hits.iter().map(|hit| hit.score).fold(0.0, f64::max);
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
