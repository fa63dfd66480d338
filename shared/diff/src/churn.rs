//! How much of the words of each Item changed.

use serde::Serialize;
use stemma_document::SectionId;

use super::features::DocumentFeatures;
use super::matching::SectionMatches;
use super::sentence_diff::diff_sentences;
use super::sentences::Lexicon;

/// Items of one answer.
const MAX_ITEMS: usize = 100;

/// How much of a text changed. A sentence that only stands elsewhere in it did not.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Churn {
    /// Words of the left.
    pub left_words: u64,
    /// Words of the right.
    pub right_words: u64,
    /// Share of the words of both that only one of them has, 0 to 1; `None` where a text is not known.
    pub changed: Option<f32>,
}

/// How much of an Item changed, all below it included.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ItemChurn {
    /// Its section in the left; `None` where it was added.
    pub left: Option<SectionId>,
    /// Its section in the right; `None` where it was removed.
    pub right: Option<SectionId>,
    /// How much changed.
    #[serde(flatten)]
    pub churn: Churn,
}

/// The churn of each Item, and of everything. Items inside Items are part of them. `swapped`: as seen from the right.
pub(super) fn churn(
    left: &DocumentFeatures<'_>,
    right: &DocumentFeatures<'_>,
    matched: &SectionMatches,
    lexicon: &Lexicon,
    swapped: bool,
) -> (Vec<ItemChurn>, Churn) {
    let has_text = left.has_text && right.has_text;
    let turned = |churn: Churn| Churn {
        left_words: churn.right_words,
        right_words: churn.left_words,
        ..churn
    };
    let turn = |churn: Churn| if swapped { turned(churn) } else { churn };
    let mut pairs = item_pairs(left, right, matched);
    pairs.sort_by_key(|(one, other)| {
        let (first, then) = if swapped {
            (*one, *other)
        } else {
            (*other, *one)
        };
        (first.is_none(), first, then)
    });
    let items = pairs
        .into_iter()
        .map(|(one, other): (Option<u32>, Option<u32>)| {
            let from = one.map_or((0, 0), |at| left.subtree_sentences(at));
            let to = other.map_or((0, 0), |at| right.subtree_sentences(at));
            let churn = turn(churn_of(left, from, right, to, lexicon, has_text));
            let id = |side: &DocumentFeatures<'_>, at: Option<u32>| {
                at.map(|at| side.nodes[at as usize].section.id)
            };
            let one = id(left, one);
            let other = id(right, other);
            let (left, right) = if swapped { (other, one) } else { (one, other) };
            ItemChurn { left, right, churn }
        })
        .collect();
    let whole = |side: &DocumentFeatures<'_>| (0, side.sentences.len() as u32);
    (
        items,
        turn(churn_of(
            left,
            whole(left),
            right,
            whole(right),
            lexicon,
            has_text,
        )),
    )
}

/// The Items of both sides, each with its partner, whether that is an Item or not.
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
