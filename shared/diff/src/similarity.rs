//! How alike sections are in words: vectors of what each says that others do not say.

use super::features::DocumentFeatures;
use super::sentences::{Lexicon, Word, WordKind};

/// Words of a section, with all below it, by which it is compared.
const MAX_TERMS: usize = 256;
/// Sections a word may stand in so that it finds others.
const MAX_POSTINGS: usize = 40;
/// Words by which a section looks for others.
const SEARCHED_TERMS: usize = 16;

/// What a figure of both documents says beside a word: the year after repeats it as the one of the year before.
const FIGURE_WEIGHT: f32 = 0.7;

/// How much a word says: less, the more sections of both documents have it.
pub(super) struct TermWeights {
    weights: Vec<f32>,
}

impl TermWeights {
    /// Counts in how many sections' own texts words stand. A figure that only one document has says nothing.
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

    /// The weight of a word.
    pub(super) fn weight(&self, word: Word) -> f32 {
        self.weights.get(word as usize).copied().unwrap_or(0.0)
    }
}

/// A section's words with their weights, by word; of length 1, or empty.
pub(super) type Terms = Vec<(Word, f32)>;

/// The words of each section with all below it.
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
    counts
        .into_iter()
        .map(|counts| normalized(counts, weights))
        .collect()
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

/// The words that say most, where there are too many; in order of words.
fn heaviest(mut counts: Terms, weights: &TermWeights) -> Terms {
    if counts.len() > MAX_TERMS {
        let weight = |(word, count): &(Word, f32)| scaled_weight(*count, weights.weight(*word));
        counts.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(a.0.cmp(&b.0)));
        counts.truncate(MAX_TERMS);
        counts.sort_unstable_by_key(|(word, _)| *word);
    }
    counts
}

fn merge(one: &[(Word, f32)], other: &[(Word, f32)]) -> Terms {
    let mut merged = Vec::with_capacity(one.len() + other.len());
    let mut i = 0;
    let mut j = 0;
    while i < one.len() && j < other.len() {
        match one[i].0.cmp(&other[j].0) {
            std::cmp::Ordering::Less => (merged.push(one[i]), i += 1).1,
            std::cmp::Ordering::Greater => (merged.push(other[j]), j += 1).1,
            std::cmp::Ordering::Equal => {
                merged.push((one[i].0, one[i].1 + other[j].1));
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    merged.extend_from_slice(&one[i..]);
    merged.extend_from_slice(&other[j..]);
    merged
}

fn normalized(counts: Terms, weights: &TermWeights) -> Terms {
    let mut terms: Terms = counts
        .into_iter()
        .map(|(word, count)| (word, scaled_weight(count, weights.weight(word))))
        .collect();
    let length = terms
        .iter()
        .map(|(_, weight)| weight * weight)
        .sum::<f32>()
        .sqrt();
    terms
        .iter_mut()
        .for_each(|(_, weight)| *weight /= length.max(f32::MIN_POSITIVE));
    terms
}

/// The cosine of two sections, 0 to 1.
pub(super) fn cosine(one: &[(Word, f32)], other: &[(Word, f32)]) -> f32 {
    let mut i = 0;
    let mut j = 0;
    let mut sum = 0.0;
    while i < one.len() && j < other.len() {
        match one[i].0.cmp(&other[j].0) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                sum += one[i].1 * other[j].1;
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    sum.min(1.0)
}

/// For each section of one side those of the other that share most of what it says, at most `most` each.
pub(super) fn nearest(
    these: &[Terms],
    others: &[Terms],
    words: usize,
    most: usize,
) -> Vec<Vec<u32>> {
    let mut postings: Vec<Vec<(u32, f32)>> = vec![Vec::new(); words];
    for (at, terms) in others.iter().enumerate() {
        for (word, weight) in terms {
            let posting = &mut postings[*word as usize];
            if posting.len() <= MAX_POSTINGS {
                posting.push((at as u32, *weight));
            }
        }
    }
    let mut shared = vec![0f32; others.len()];
    these
        .iter()
        .map(|terms| nearest_to(terms, &postings, &mut shared, most))
        .collect()
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
