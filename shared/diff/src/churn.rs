//! How much of the text of each Item changed.

use serde::Serialize;
use stemma_document::SectionId;

use super::features::DocumentFeatures;
use super::matching::SectionMatches;
use super::sentence_diff::diff_sentences;
use super::sentences::Lexicon;

const MAX_ITEMS: usize = 100;

/// How much of a text changed. A sentence that only moved within it did not change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Churn {
    pub left_words: u64,
    pub right_words: u64,
    /// Share of the words of both that only one of them has, 0 to 1; `None` when a text is not available.
    pub changed: Option<f32>,
}

impl Churn {
    fn oriented(self, swapped: bool) -> Self {
        if !swapped {
            return self;
        }
        Self {
            left_words: self.right_words,
            right_words: self.left_words,
            ..self
        }
    }
}

/// How much of an Item changed, including its descendants.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ItemChurn {
    /// `None` when the Item was added.
    pub left: Option<SectionId>,
    /// `None` when the Item was removed.
    pub right: Option<SectionId>,
    #[serde(flatten)]
    pub churn: Churn,
}

// Churn per outermost Item, and of everything. `swapped`: the caller's left is the right here.
pub(super) fn churn(
    left: &DocumentFeatures<'_>,
    right: &DocumentFeatures<'_>,
    matched: &SectionMatches,
    lexicon: &Lexicon,
    swapped: bool,
) -> (Vec<ItemChurn>, Churn) {
    let has_text = left.has_text && right.has_text;
    let mut pairs = item_pairs(left, right, matched);
    pairs.sort_by_key(|(left_at, right_at)| {
        let (first, then) = if swapped {
            (*left_at, *right_at)
        } else {
            (*right_at, *left_at)
        };
        (first.is_none(), first, then)
    });
    let items = pairs
        .into_iter()
        .map(|(left_at, right_at): (Option<u32>, Option<u32>)| {
            let from = left_at.map_or((0, 0), |at| left.subtree_sentences(at));
            let to = right_at.map_or((0, 0), |at| right.subtree_sentences(at));
            let churn = churn_of(left, from, right, to, lexicon, has_text).oriented(swapped);
            let left_at = left_at.map(|at| left.nodes[at as usize].section.id);
            let right_at = right_at.map(|at| right.nodes[at as usize].section.id);
            let (left, right) = if swapped {
                (right_at, left_at)
            } else {
                (left_at, right_at)
            };
            ItemChurn { left, right, churn }
        })
        .collect();
    let all_left = (0, left.sentences.len() as u32);
    let all_right = (0, right.sentences.len() as u32);
    let all = churn_of(left, all_left, right, all_right, lexicon, has_text);
    (items, all.oriented(swapped))
}

// The Items of both documents with their partners, which need not be Items.
fn item_pairs(
    left: &DocumentFeatures<'_>,
    right: &DocumentFeatures<'_>,
    matched: &SectionMatches,
) -> Vec<(Option<u32>, Option<u32>)> {
    let ours = outermost_items(left)
        .into_iter()
        .map(|one| (Some(one), matched.left[one as usize]));
    let theirs = outermost_items(right)
        .into_iter()
        .map(|other| (matched.right[other as usize], Some(other)));
    let mut pairs: Vec<_> = ours.chain(theirs).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

fn churn_of(
    left: &DocumentFeatures<'_>,
    from: (u32, u32),
    right: &DocumentFeatures<'_>,
    to: (u32, u32),
    lexicon: &Lexicon,
    has_text: bool,
) -> Churn {
    let changes = diff_sentences((left, from), (right, to), lexicon);
    let changed = has_text.then(|| 1.0 - changes.similarity());
    Churn {
        left_words: changes.left_words,
        right_words: changes.right_words,
        changed,
    }
}

fn outermost_items(side: &DocumentFeatures<'_>) -> Vec<u32> {
    let mut items = Vec::new();
    let mut behind = 0;
    for (at, node) in side.nodes.iter().enumerate() {
        if node.item.is_some() && at as u32 >= behind && items.len() < MAX_ITEMS {
            items.push(at as u32);
            behind = node.end;
        }
    }
    items
}
