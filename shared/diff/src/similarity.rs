//! TF-IDF vectors of sections, and nearest neighbors among them.

use super::features::DocumentFeatures;
use super::sentences::{Lexicon, Word, WordKind};

// Terms of a section and its descendants that are kept.
const MAX_TERMS: usize = 256;
// More common words are not used to find neighbors. They would make the search quadratic.
const MAX_POSTINGS: usize = 40;
// Terms of a section that are used to find neighbors.
const SEARCHED_TERMS: usize = 16;

// Weight of a figure that both documents have: a filing repeats the figures of the year before.
const FIGURE_WEIGHT: f32 = 0.7;

// Inverse document frequency over the sections of both documents.
pub(super) struct TermWeights {
    weights: Vec<f32>,
}

impl TermWeights {
    // Figures that only one document has get no weight: they cannot connect sections.
    pub(super) fn new(sides: [&DocumentFeatures<'_>; 2], lexicon: &Lexicon) -> Self {
        let mut sections = [vec![0u32; lexicon.len()], vec![0u32; lexicon.len()]];
        let mut last_section = vec![u32::MAX; lexicon.len()];
        let mut at = 0u32;
        for (side, sections) in sides.iter().zip(&mut sections) {
            for node in &side.nodes {
                for word in side.body_words(node) {
                    if std::mem::replace(&mut last_section[*word as usize], at) != at {
                        sections[*word as usize] += 1;
                    }
                }
                at += 1;
            }
        }
        let all = at.max(1) as f32;
        let [left, right] = sections;
        Self {
            weights: left
                .into_iter()
                .zip(right)
                .enumerate()
                .map(|(word, (left, right)): (usize, (u32, u32))| {
                    let kind = match lexicon.kind(word as Word) {
                        WordKind::Alphabetic if left + right > 0 => 1.0,
                        WordKind::Figure if left > 0 && right > 0 => FIGURE_WEIGHT,
                        _ => return 0.0,
                    };
                    kind * ((all + 1.0) / ((left + right) as f32 + 0.5)).ln().max(0.0)
                })
                .collect(),
        }
    }

    pub(super) fn weight(&self, word: Word) -> f32 {
        self.weights.get(word as usize).copied().unwrap_or(0.0)
    }
}

// Weights by word, sorted by word; the vector has length 1 or is empty.
pub(super) type Terms = Vec<(Word, f32)>;

// Vectors of all sections, each with its descendants.
pub(super) fn terms(side: &DocumentFeatures<'_>, weights: &TermWeights) -> Vec<Terms> {
    let mut counts: Vec<Terms> = side
        .nodes
        .iter()
        .map(|node| count_terms(side.body_words(node).to_vec(), weights))
        .collect();
    for at in (0..side.nodes.len()).rev() {
        if let Some(parent) = side.nodes[at].parent {
            let merged = merge(&counts[parent as usize], &counts[at]);
            counts[parent as usize] = heaviest(merged, weights);
        }
    }
    for terms in &mut counts {
        for (word, value) in &mut *terms {
            *value = scaled_weight(*value, weights.weight(*word));
        }
        *terms = unit_length(std::mem::take(terms));
    }
    counts
}

fn count_terms(mut words: Vec<Word>, weights: &TermWeights) -> Terms {
    words.sort_unstable();
    let mut counts: Terms = Vec::new();
    for word in words {
        match counts.last_mut() {
            Some((last, count)) if *last == word => *count += 1.0,
            _ if weights.weight(word) > 0.0 => counts.push((word, 1.0)),
            _ => {}
        }
    }
    heaviest(counts, weights)
}

fn scaled_weight(count: f32, weight: f32) -> f32 {
    (1.0 + count.ln()) * weight
}

// Keeps the terms with the highest weights, sorted by word.
fn heaviest(mut counts: Terms, weights: &TermWeights) -> Terms {
    if counts.len() > MAX_TERMS {
        counts.sort_by(|a, b| {
            let weight_a = scaled_weight(a.1, weights.weight(a.0));
            let weight_b = scaled_weight(b.1, weights.weight(b.0));
            weight_b.total_cmp(&weight_a).then(a.0.cmp(&b.0))
        });
        counts.truncate(MAX_TERMS);
        counts.sort_unstable_by_key(|(word, _)| *word);
    }
    counts
}

fn merge(left: &[(Word, f32)], right: &[(Word, f32)]) -> Terms {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let mut left = left.iter().copied().peekable();
    let mut right = right.iter().copied().peekable();
    while let (Some((word, count)), Some((right_word, right_count))) = (left.peek(), right.peek()) {
        match word.cmp(right_word) {
            std::cmp::Ordering::Less => merged.extend(left.next()),
            std::cmp::Ordering::Greater => merged.extend(right.next()),
            std::cmp::Ordering::Equal => {
                merged.push((*word, count + right_count));
                left.next();
                right.next();
            }
        }
    }
    merged.extend(left);
    merged.extend(right);
    merged
}

pub(super) fn unit_length(mut terms: Terms) -> Terms {
    let squares = terms.iter().map(|(_, weight)| weight * weight);
    let length = squares.sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    terms.iter_mut().for_each(|(_, weight)| *weight /= length);
    terms
}

// Both vectors have length 1, so the dot product is the cosine; 0 to 1.
pub(super) fn cosine(left: &[(Word, f32)], right: &[(Word, f32)]) -> f32 {
    let mut i = 0;
    let mut j = 0;
    let mut sum = 0.0;
    while i < left.len() && j < right.len() {
        match left[i].0.cmp(&right[j].0) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                sum += left[i].1 * right[j].1;

                i += 1;
                j += 1;
            }
        }
    }
    sum.min(1.0)
}

// Each of `these` with the `most` of `others` that share the most weight, by an inverted index of rare words.
pub(super) fn nearest(
    these: &[Terms],
    others: &[Terms],
    words: usize,
    most: usize,
) -> Vec<(u32, u32)> {
    let mut postings: Vec<Vec<(u32, f32)>> = vec![Vec::new(); words];
    for (at, terms) in (0..).zip(others) {
        for (word, weight) in terms {
            let posting = &mut postings[*word as usize];
            if posting.len() <= MAX_POSTINGS {
                posting.push((at, *weight));
            }
        }
    }
    let mut shared = vec![0f32; others.len()];
    let mut pairs = Vec::new();
    for (at, terms) in (0..).zip(these) {
        let near = nearest_to(terms, &postings, &mut shared, most);
        pairs.extend(near.into_iter().map(|other| (at, other)));
    }
    pairs
}

fn nearest_to(
    terms: &Terms,
    postings: &[Vec<(u32, f32)>],
    shared: &mut [f32],
    most: usize,
) -> Vec<u32> {
    let mut searched: Vec<&(Word, f32)> = terms
        .iter()
        .filter(|(word, _)| (1..=MAX_POSTINGS).contains(&postings[*word as usize].len()))
        .collect();
    searched.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut touched = Vec::new();
    for (word, weight) in searched.into_iter().take(SEARCHED_TERMS) {
        for (at, other) in &postings[*word as usize] {
            if shared[*at as usize] == 0.0 {
                touched.push(*at);
            }
            shared[*at as usize] += weight * other;
        }
    }
    touched.sort_by(|a, b| {
        shared[*b as usize]
            .total_cmp(&shared[*a as usize])
            .then(a.cmp(b))
    });
    let neighbors = touched.iter().copied().take(most).collect();
    touched.into_iter().for_each(|at| shared[at as usize] = 0.0);
    neighbors
}
