//! Matches the sections of two documents.
//!
//! Candidate pairs come from equal texts, equal titles, equal Items and shared words, a bounded number per section. They are
//! scored and accepted from the best down, in rounds with decreasing thresholds: pairs accepted in one round raise or
//! lower the scores of pairs around them in the next.

use std::collections::{BTreeSet, HashMap};

use super::features::{DocumentFeatures, SectionFeatures};
use super::sentence_index::SentenceIndex;
use super::sentences::Word;
use super::similarity::{self, TermWeights, Terms};

// Minimum scores, round by round. Sure pairs come first, since they decide the context of doubtful ones.
const ROUNDS: [f32; 4] = [0.92, 0.75, 0.6, 0.42];
// Up to this many sections with equal keys are compared pairwise.
const MAX_FULL_COMPARE: usize = 8;
// With more, only sections at about the same rank among them are compared.
const MAX_RANK_DISTANCE: usize = 2;
struct PairCandidate {
    left: u32,
    right: u32,
    // Score regardless of context.
    base: f32,
    // Difference of the relative positions in the documents, 0 to 1.
    distance: f32,
}

// Index of the partner, for the sections of each document.
pub(super) struct SectionMatches {
    pub(super) left: Vec<Option<u32>>,
    pub(super) right: Vec<Option<u32>>,
}

impl SectionMatches {
    fn new(left: usize, right: usize) -> Self {
        Self {
            left: vec![None; left],
            right: vec![None; right],
        }
    }

    fn insert(&mut self, left: u32, right: u32) -> bool {
        let free = self.left[left as usize].is_none() && self.right[right as usize].is_none();
        if free {
            self.left[left as usize] = Some(right);
            self.right[right as usize] = Some(left);
        }
        free
    }
}

// `same_form`: both documents use the same Item numbers.
pub(super) fn match_sections(
    left: &DocumentFeatures<'_>,
    right: &DocumentFeatures<'_>,
    weights: &TermWeights,
    words: usize,
    same_form: bool,
) -> SectionMatches {
    let mut matched = SectionMatches::new(left.nodes.len(), right.nodes.len());
    match_identical_subtrees(left, right, &mut matched);
    let candidates = candidates(left, right, weights, words, same_form);
    for least in ROUNDS {
        let above_left = matched_ancestors(left, &matched.left);
        let above_right = matched_ancestors(right, &matched.right);
        let mut sure: Vec<(f32, &PairCandidate)> = candidates
            .iter()
            .filter(|candidate| {
                matched.left[candidate.left as usize].is_none()
                    && matched.right[candidate.right as usize].is_none()
            })
            .map(|candidate| {
                let left_parent = above_left[candidate.left as usize];
                let right_parent = above_right[candidate.right as usize];
                let parents_match = match (left_parent, right_parent) {
                    (Some(left_parent), Some(right_parent)) => {
                        matched.left[left_parent as usize] == Some(right_parent)
                    }
                    (left_parent, right_parent) => left_parent.is_none() && right_parent.is_none(),
                };
                let has_neighbor = has_matched_neighbor(left, right, &matched, candidate);
                // Fitted weights: a wrong parent costs more than a right one gains, position only breaks ties.
                let score = candidate.base
                    + if parents_match { 0.08 } else { -0.12 }
                    + if has_neighbor { 0.05 } else { 0.0 }
                    - 0.03 * candidate.distance;
                (score, candidate)
            })
            .filter(|(score, _)| *score >= least)
            .collect();
        sure.sort_by(|(a, one), (b, other)| {
            b.total_cmp(a)
                .then((one.left, one.right).cmp(&(other.left, other.right)))
        });
        for (_, candidate) in sure {
            matched.insert(candidate.left, candidate.right);
        }
    }
    match_contained(left, right, &mut matched);
    matched
}

// Pairs unmatched sections when one has most of the other's sentences: a section that grew or shrank under a new title.
fn match_contained(
    left: &DocumentFeatures<'_>,
    right: &DocumentFeatures<'_>,
    matched: &mut SectionMatches,
) {
    let left_index = SentenceIndex::new(left);
    let right_index = SentenceIndex::new(right);
    let above_left = matched_ancestors(left, &matched.left);
    let above_right = matched_ancestors(right, &matched.right);
    let mut candidates = Vec::new();
    for at in (0..left.nodes.len() as u32).filter(|at| matched.left[*at as usize].is_none()) {
        candidates.extend(
            right_index
                .main_section(left, at)
                .map(|(section, words)| (words, at, section)),
        );
    }
    for at in (0..right.nodes.len() as u32).filter(|at| matched.right[*at as usize].is_none()) {
        candidates.extend(
            left_index
                .main_section(right, at)
                .map(|(section, words)| (words, section, at)),
        );
    }
    candidates.sort_unstable_by_key(|(words, left_at, right_at)| {
        (std::cmp::Reverse(*words), *left_at, *right_at)
    });
    for (_, left_at, right_at) in candidates {
        let over = above_left[left_at as usize];
        let under = above_right[right_at as usize];
        let together = over.and_then(|over| matched.left[over as usize]) == under;
        let items = left.nodes[left_at as usize].item.is_some()
            || right.nodes[right_at as usize].item.is_some();
        if together && !items {
            matched.insert(left_at, right_at);
        }
    }
}

// Subtrees equal in text and titles are matched in order. Nothing else could fit them better.
fn match_identical_subtrees(
    left: &DocumentFeatures<'_>,
    right: &DocumentFeatures<'_>,
    matched: &mut SectionMatches,
) {
    let mut free: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
    for (at, node) in right.nodes.iter().enumerate().rev() {
        free.entry((node.path, node.subtree))
            .or_default()
            .push(at as u32);
    }
    for (at, node) in left.nodes.iter().enumerate() {
        if let Some(other) = free.get_mut(&(node.path, node.subtree)).and_then(Vec::pop) {
            matched.insert(at as u32, other);
        }
    }
}

// The nearest ancestor of each section that has a partner.
pub(super) fn matched_ancestors(
    side: &DocumentFeatures<'_>,
    partners: &[Option<u32>],
) -> Vec<Option<u32>> {
    let mut above: Vec<Option<u32>> = Vec::with_capacity(side.nodes.len());
    for node in &side.nodes {
        above.push(node.parent.and_then(|parent| {
            if partners[parent as usize].is_some() {
                Some(parent)
            } else {
                above[parent as usize]
            }
        }));
    }
    above
}

// Whether the sections just before, or just after, are partners.
fn has_matched_neighbor(
    left: &DocumentFeatures<'_>,
    right: &DocumentFeatures<'_>,
    matched: &SectionMatches,
    candidate: &PairCandidate,
) -> bool {
    let left_at = candidate.left;
    let right_at = candidate.right;
    let before = left_at.checked_sub(1).zip(right_at.checked_sub(1));
    let after = (
        left.nodes[left_at as usize].end,
        right.nodes[right_at as usize].end,
    );
    before
        .into_iter()
        .chain([after])
        .any(|(left_at, right_at)| {
            matched.left.get(left_at as usize).copied().flatten() == Some(right_at)
        })
}

fn candidates(
    left: &DocumentFeatures<'_>,
    right: &DocumentFeatures<'_>,
    weights: &TermWeights,
    words: usize,
    same_form: bool,
) -> Vec<PairCandidate> {
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    equal_pairs(left, right, |node| Some(node.title), &mut pairs);
    equal_pairs(left, right, |node| Some(node.path), &mut pairs);
    equal_pairs(left, right, |node| node.distinctive_body(), &mut pairs);
    equal_pairs(left, right, |node| node.item, &mut pairs);
    let terms_left = similarity::terms(left, weights);
    let terms_right = similarity::terms(right, weights);
    let (titles_left, titles_right) = title_terms(left, right, words);
    for (these, others, most) in [
        (&terms_left, &terms_right, 6),
        (&titles_left, &titles_right, 4),
    ] {
        pairs.extend(similarity::nearest(these, others, words, most));
        let backward = similarity::nearest(others, these, words, most);
        pairs.extend(
            backward
                .into_iter()
                .map(|(right_at, left_at)| (left_at, right_at)),
        );
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
        .into_iter()
        .map(|(left_at, right_at): (u32, u32)| {
            let at = left_at as usize;
            let with = right_at as usize;
            let title = similarity::cosine(&titles_left[at], &titles_right[with]);
            let has_text = !terms_left[at].is_empty() || !terms_right[with].is_empty();
            let text = has_text.then(|| similarity::cosine(&terms_left[at], &terms_right[with]));
            let base = pair_score(&left.nodes[at], &right.nodes[with], title, text, same_form);
            let place =
                |at: u32, side: &DocumentFeatures<'_>| at as f32 / side.nodes.len().max(1) as f32;
            PairCandidate {
                left: left_at,
                right: right_at,
                base,
                distance: (place(left_at, left) - place(right_at, right)).abs(),
            }
        })
        .collect()
}

// Pairs of sections with equal keys: all when there are few, else those at about the same rank.
fn equal_pairs(
    left: &DocumentFeatures<'_>,
    right: &DocumentFeatures<'_>,
    key: impl Fn(&SectionFeatures<'_>) -> Option<u32>,
    pairs: &mut Vec<(u32, u32)>,
) {
    let mut groups: HashMap<u32, (Vec<u32>, Vec<u32>)> = HashMap::new();
    for (at, node) in left.nodes.iter().enumerate() {
        if let Some(key) = key(node) {
            groups.entry(key).or_default().0.push(at as u32);
        }
    }
    for (at, node) in right.nodes.iter().enumerate() {
        if let Some(group) = key(node).and_then(|key| groups.get_mut(&key)) {
            group.1.push(at as u32);
        }
    }
    for (these, others) in groups.into_values() {
        let few = these.len().max(others.len()) <= MAX_FULL_COMPARE;
        for (rank, one) in these.iter().enumerate() {
            let (first, last) = if few {
                (0, others.len())
            } else {
                (
                    rank.saturating_sub(MAX_RANK_DISTANCE),
                    rank + MAX_RANK_DISTANCE + 1,
                )
            };
            let near = &others[first.min(others.len())..last.min(others.len())];
            pairs.extend(near.iter().map(|other| (*one, *other)));
        }
    }
}

// TF-IDF vectors of title words, of length 1.
fn title_terms(
    left: &DocumentFeatures<'_>,
    right: &DocumentFeatures<'_>,
    words: usize,
) -> (Vec<Terms>, Vec<Terms>) {
    let mut having = vec![0u32; words];
    let titles = [left, right].map(|side| {
        let titles = side.title_words.iter().map(|title| {
            let title: BTreeSet<Word> = title.iter().copied().collect();
            title.iter().for_each(|word| having[*word as usize] += 1);
            title
        });
        titles.collect::<Vec<_>>()
    });
    let all = left.nodes.len() + right.nodes.len();
    let [left, right] = titles.map(|titles| {
        let terms = titles.into_iter().map(|title| {
            let terms = title.into_iter().map(|word| {
                let titles = having[word as usize] as f32;
                (word, (1.0 + all as f32 / titles).ln())
            });
            similarity::unit_length(terms.collect())
        });
        terms.collect()
    });
    (left, right)
}

// Score of a pair regardless of context; the constants are fitted. `text` is `None` when neither side has text.
fn pair_score(
    left: &SectionFeatures<'_>,
    right: &SectionFeatures<'_>,
    title: f32,
    text: Option<f32>,
    same_form: bool,
) -> f32 {
    let same_title = left.title == right.title;
    let same_text = left.body == right.body && left.distinctive_body().is_some();
    let items = match (left.item, right.item) {
        (Some(one), Some(other)) if one == other => 0.3,
        // On one form, another Item number is another subject; across forms, numbers without a shared key say less.
        (Some(_), Some(_)) if same_form => -0.35,
        (Some(_), Some(_)) => -0.25,
        (None, None) => 0.0,
        _ => -0.08,
    };
    let kinds = match left.is_heading == right.is_heading {
        true => 0.0,
        false => -0.1,
    };
    let likeness = match text {
        _ if same_text && same_title => 1.0,
        _ if same_text => 0.85,
        Some(text) if same_title => 0.58 + 0.4 * text,
        Some(text) => 0.32 * title + 0.68 * text,
        None if same_title => 0.8,
        None => 0.7 * title,
    };
    // The same Item is the same section, even with an entirely new text.
    let least = if items > 0.0 { 0.35 } else { 0.0 };
    likeness.max(least) + items + kinds
}
