//! Compares the sentences of two texts: words in common, and added, removed and reworded sentences.
//!
//! Equal sentences match wherever they are. Of the rest, table rows with equal labels are the same row with other figures, and
//! sentences that share at least half of their words, in order, are the same sentence reworded.

use std::collections::{HashMap, HashSet};

use stemma_document::common_subsequence_len;

use super::features::DocumentFeatures;
use super::sentences::{Lexicon, Word};

// More common words are not used to find reworded sentences. They would make the search quadratic.
const MAX_POSTINGS: usize = 24;
// Candidates that are compared per sentence.
const MAX_COMPARED: usize = 3;
// Minimum share of common words of a reworded sentence.
const MIN_REWORDED_SHARE: f32 = 0.5;

// A sentence of the left, one of the right, and their common words.
pub(super) type RewordedPair = (u32, u32, u32);

#[derive(Debug, Default, PartialEq)]
pub(super) struct SentenceDiff {
    pub(super) left_words: u64,
    pub(super) right_words: u64,
    // Common words, in order within each sentence.
    pub(super) common_words: u64,
    // Indexes of sentences of the left only.
    pub(super) removed: Vec<u32>,
    // Indexes of sentences of the right only.
    pub(super) added: Vec<u32>,
    pub(super) reworded: Vec<RewordedPair>,
}

impl SentenceDiff {
    // Dice coefficient: twice the common words over all words; 1 for two empty texts.
    pub(super) fn similarity(&self) -> f32 {
        match self.left_words + self.right_words {
            0 => 1.0,
            all => (2 * self.common_words) as f32 / all as f32,
        }
    }
}

// Compares the sentences in range `from` of the left with those in `to` of the right.
pub(super) fn diff_sentences(
    (left, from): (&DocumentFeatures<'_>, (u32, u32)),
    (right, to): (&DocumentFeatures<'_>, (u32, u32)),
    lexicon: &Lexicon,
) -> SentenceDiff {
    let mut changes = SentenceDiff {
        left_words: count_words(left, from),
        right_words: count_words(right, to),
        ..SentenceDiff::default()
    };
    let ones = (from.0..from.1).collect();
    let others = (to.0..to.1).collect();
    let (pairs, ones, others) = pair_by_key((left, ones), (right, others), |side, at| {
        Some(side.keys[at as usize])
    });
    changes.common_words += pairs
        .iter()
        .map(|(at, _)| left.sentence(*at).len() as u64)
        .sum::<u64>();
    let (rows, ones, others) = pair_by_key((left, ones), (right, others), |side, at| {
        row_label(side.sentence(at), lexicon)
    });
    changes
        .reworded
        .extend(rows.into_iter().map(|(left_at, right_at)| {
            let common = common_words(left.sentence(left_at), right.sentence(right_at));
            (left_at, right_at, common)
        }));
    let (similar, removed, added) = pair_similar((left, ones), (right, others), lexicon);
    changes.reworded.extend(similar);
    changes.reworded.sort_unstable();
    for (.., common) in &changes.reworded {
        changes.common_words += u64::from(*common);
    }
    (changes.removed, changes.added) = (removed, added);
    changes
}

fn count_words(side: &DocumentFeatures<'_>, (first, last): (u32, u32)) -> u64 {
    (first..last).map(|at| side.sentence(at).len() as u64).sum()
}

// Pairs sentences with equal keys in order, and returns the rest of both.
fn pair_by_key<K: std::hash::Hash + Eq>(
    (left, ones): (&DocumentFeatures<'_>, Vec<u32>),
    (right, others): (&DocumentFeatures<'_>, Vec<u32>),
    key: impl Fn(&DocumentFeatures<'_>, u32) -> Option<K>,
) -> (Vec<(u32, u32)>, Vec<u32>, Vec<u32>) {
    let mut free: HashMap<K, Vec<u32>> = HashMap::new();
    for at in others.iter().rev() {
        if let Some(key) = key(right, *at) {
            free.entry(key).or_default().push(*at);
        }
    }
    let mut pairs = Vec::new();
    let mut rest = Vec::new();
    for at in ones {
        match key(left, at)
            .and_then(|key| free.get_mut(&key))
            .and_then(Vec::pop)
        {
            Some(other) => pairs.push((at, other)),
            None => rest.push(at),
        }
    }
    let mut paired_right: Vec<u32> = pairs.iter().map(|(_, other)| *other).collect();
    paired_right.sort_unstable();
    let others = others
        .into_iter()
        .filter(|at| paired_right.binary_search(at).is_err())
        .collect();
    (pairs, rest, others)
}

// The words of a table row without its figures; `None` for other sentences.
fn row_label(sentence: &[Word], lexicon: &Lexicon) -> Option<Vec<Word>> {
    let words = lettered_words(sentence, lexicon);
    (!words.is_empty() && words.len() < sentence.len()).then_some(words)
}

// Pairs sentences that share at least half of their words, the most similar first.
fn pair_similar(
    (left, mut ones): (&DocumentFeatures<'_>, Vec<u32>),
    (right, mut others): (&DocumentFeatures<'_>, Vec<u32>),
    lexicon: &Lexicon,
) -> (Vec<RewordedPair>, Vec<u32>, Vec<u32>) {
    let mut postings: HashMap<Word, Vec<u32>> = HashMap::new();
    for (rank, at) in others.iter().enumerate() {
        for word in distinct_words(right.sentence(*at), lexicon) {
            let posting = postings.entry(word).or_default();
            if posting.len() <= MAX_POSTINGS {
                posting.push(rank as u32);
            }
        }
    }
    let mut shared = vec![0u32; others.len()];
    let mut candidates: Vec<(f32, u32, u32, u32)> = Vec::new();
    for one in &ones {
        let sentence = left.sentence(*one);
        let mut touched = Vec::new();
        for word in distinct_words(sentence, lexicon) {
            for rank in postings
                .get(&word)
                .into_iter()
                .filter(|posting| posting.len() <= MAX_POSTINGS)
                .flatten()
            {
                if shared[*rank as usize] == 0 {
                    touched.push(*rank);
                }
                shared[*rank as usize] += 1;
            }
        }
        touched.sort_by(|a, b| shared[*b as usize].cmp(&shared[*a as usize]).then(a.cmp(b)));
        for rank in touched.iter().take(MAX_COMPARED) {
            let other = others[*rank as usize];
            let with = right.sentence(other);
            let common = common_words(sentence, with);
            let alike = (2 * common) as f32 / (sentence.len() + with.len()) as f32;
            if alike >= MIN_REWORDED_SHARE {
                candidates.push((alike, *one, other, common));
            }
        }
        touched
            .into_iter()
            .for_each(|rank| shared[rank as usize] = 0);
    }
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut pairs: Vec<RewordedPair> = Vec::new();
    let mut paired: [HashSet<u32>; 2] = Default::default();
    for (_, one, other, common) in candidates {
        if !paired[0].contains(&one) && !paired[1].contains(&other) {
            paired[0].insert(one);
            paired[1].insert(other);
            pairs.push((one, other, common));
        }
    }
    ones.retain(|at| !paired[0].contains(at));
    others.retain(|at| !paired[1].contains(at));
    (pairs, ones, others)
}

fn distinct_words(sentence: &[Word], lexicon: &Lexicon) -> Vec<Word> {
    let mut words = lettered_words(sentence, lexicon);
    words.sort_unstable();
    words.dedup();
    words
}

fn lettered_words(sentence: &[Word], lexicon: &Lexicon) -> Vec<Word> {
    let words = sentence.iter().copied();
    words.filter(|word| lexicon.has_letter(*word)).collect()
}

// The number of words that two sentences have in the same order.
fn common_words(one: &[Word], other: &[Word]) -> u32 {
    u32::try_from(common_subsequence_len(one, other)).unwrap_or(u32::MAX)
}
