//! How much of the words of each Item changed.

use serde::Serialize;
use stemma_document::SectionId;

use super::changes::compare;
use super::matching::Matched;
use super::side::Side;
use super::words::Lexicon;

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
    left: &Side<'_>,
    right: &Side<'_>,
    matched: &Matched,
    lexicon: &Lexicon,
    swapped: bool,
) -> (Vec<ItemChurn>, Churn) {
    let known = left.has_text && right.has_text;
    let turned = |churn: Churn| Churn {
        left_words: churn.right_words,
        right_words: churn.left_words,
        ..churn
    };
    let turn = |churn: Churn| if swapped { turned(churn) } else { churn };
    let mut pairs = pairs(left, right, matched);
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
            let from = one.map_or((0, 0), |at| left.all_sentences(at));
            let to = other.map_or((0, 0), |at| right.all_sentences(at));
            let churn = turn(told(left, from, right, to, lexicon, known));
            let id =
                |side: &Side<'_>, at: Option<u32>| at.map(|at| side.nodes[at as usize].section.id);
            let one = id(left, one);
            let other = id(right, other);
            let (left, right) = if swapped { (other, one) } else { (one, other) };
            ItemChurn { left, right, churn }
        })
        .collect();
    let whole = |side: &Side<'_>| (0, side.sentences.len() as u32);
    (
        items,
        turn(told(left, whole(left), right, whole(right), lexicon, known)),
    )
}

/// The Items of both sides, each with its partner, whether that is an Item or not.
fn pairs(left: &Side<'_>, right: &Side<'_>, matched: &Matched) -> Vec<(Option<u32>, Option<u32>)> {
    let ours = outermost(left)
        .into_iter()
        .map(|one| (Some(one), matched.left[one as usize]));
    let theirs = outermost(right)
        .into_iter()
        .map(|other| (matched.right[other as usize], Some(other)));
    let mut pairs: Vec<_> = ours.chain(theirs).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

fn told(
    left: &Side<'_>,
    from: (u32, u32),
    right: &Side<'_>,
    to: (u32, u32),
    lexicon: &Lexicon,
    known: bool,
) -> Churn {
    let changes = compare((left, from), (right, to), lexicon);
    let changed = known.then(|| 1.0 - changes.similarity());
    Churn {
        left_words: changes.left_words,
        right_words: changes.right_words,
        changed,
    }
}

fn outermost(side: &Side<'_>) -> Vec<u32> {
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
