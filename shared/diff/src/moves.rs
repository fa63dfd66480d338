//! Detects moved sections, and orders pairs for output.

use std::collections::HashMap;

use super::features::DocumentFeatures;
use super::matching::{SectionMatches, matched_ancestors};

// Which sections of the left are moved: another parent, or another order among their siblings. As few sections as possible are
// called moved; among equal choices, those with the least text. Items on different forms never count as moved: the form
// dictates their position.
pub(super) fn moved_sections(
    left: &DocumentFeatures<'_>,
    right: &DocumentFeatures<'_>,
    matched: &SectionMatches,
    same_form: bool,
) -> Vec<bool> {
    let above_left = matched_ancestors(left, &matched.left);
    let above_right = matched_ancestors(right, &matched.right);
    let mut moved = vec![false; left.nodes.len()];
    let mut families: HashMap<Option<u32>, Vec<(u32, u32)>> = HashMap::new();
    for (at, partner) in matched.left.iter().enumerate() {
        let Some(other) = *partner else { continue };
        if !same_form
            && (left.nodes[at].item.is_some() || right.nodes[other as usize].item.is_some())
        {
            continue;
        }
        let partners_parent = above_left[at].and_then(|parent| matched.left[parent as usize]);
        if partners_parent == above_right[other as usize] {
            families
                .entry(above_left[at])
                .or_default()
                .push((at as u32, other));
        } else {
            moved[at] = true;
        }
    }
    for family in families.into_values() {
        // The number of sections counts first, their words (capped) break ties.
        let weighed: Vec<(u32, u64)> = family
            .iter()
            .map(|(at, other)| {
                let words = left.subtree_words(*at).min((1 << 20) - 1);
                (*other, (1 << 40) + words)
            })
            .collect();
        let in_order = longest_increasing(&weighed);
        family
            .iter()
            .zip(in_order)
            .for_each(|((at, _), in_order)| moved[*at as usize] = !in_order);
    }
    moved
}

// The increasing subsequence with the most weight, in O(n log n): its members stay, the others moved.
fn longest_increasing(places: &[(u32, u64)]) -> Vec<bool> {
    let mut ranks: Vec<u32> = places.iter().map(|(place, _)| *place).collect();
    ranks.sort_unstable();
    // Best chain that ends at or below each rank: a Fenwick tree of prefix maxima.
    let mut best: Vec<(u64, Option<usize>)> = vec![(0, None); ranks.len() + 1];
    let mut chains: Vec<(u64, Option<usize>)> = Vec::with_capacity(places.len());
    for (at, (place, weight)) in places.iter().enumerate() {
        let rank = ranks.partition_point(|rank| rank < place);
        let mut before = (0, None);
        let mut node = rank;
        while node > 0 {
            if best[node].0 > before.0 {
                before = best[node];
            }
            node &= node - 1;
        }
        let total = before.0 + weight;
        chains.push((total, before.1));
        let mut node = rank + 1;
        while node < best.len() {
            if total > best[node].0 {
                best[node] = (total, Some(at));
            }
            node += node & node.wrapping_neg();
        }
    }
    let mut in_sequence = vec![false; places.len()];
    let mut last = (0..chains.len()).max_by_key(|at| (chains[*at].0, std::cmp::Reverse(*at)));
    while let Some(at) = last {
        in_sequence[at] = true;
        last = chains[at].1;
    }
    in_sequence
}

// All sections of both documents in the order of the right; a section of the left alone follows its predecessor there.
// `swapped`: in the order of the left instead.
pub(super) fn pair_order(
    matched: &SectionMatches,
    swapped: bool,
) -> Vec<(Option<u32>, Option<u32>)> {
    let (from, to) = if swapped {
        (&matched.right, &matched.left)
    } else {
        (&matched.left, &matched.right)
    };
    let mut unmatched_after: HashMap<Option<u32>, Vec<u32>> = HashMap::new();
    let mut last = None;
    for (at, partner) in from.iter().enumerate() {
        match partner {
            Some(other) => last = Some(*other),
            None => unmatched_after.entry(last).or_default().push(at as u32),
        }
    }
    let mut pairs = Vec::with_capacity(from.len() + to.len());
    let before_first = unmatched_after.remove(&None).unwrap_or_default();
    pairs.extend(before_first.into_iter().map(|one| (Some(one), None)));
    for (at, partner) in (0..).zip(to) {
        pairs.push((*partner, Some(at)));
        let behind = unmatched_after.remove(&Some(at)).unwrap_or_default();
        pairs.extend(behind.into_iter().map(|one| (Some(one), None)));
    }
    if swapped {
        pairs
            .iter_mut()
            .for_each(|(left, right)| std::mem::swap(left, right));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stays(places: &[u32]) -> Vec<u32> {
        let weighed: Vec<(u32, u64)> = places.iter().map(|place| (*place, 10)).collect();
        places
            .iter()
            .zip(longest_increasing(&weighed))
            .filter(|(_, stays)| *stays)
            .map(|(place, _)| *place)
            .collect()
    }

    #[test]
    fn fewest_possible_sections_are_moved() {
        assert_eq!(stays(&[0, 1, 2, 3]), [0, 1, 2, 3]);
        assert_eq!(stays(&[3, 0, 1, 2]), [0, 1, 2]);
        assert_eq!(stays(&[0, 2, 3, 1, 4]), [0, 2, 3, 4]);
        assert_eq!(stays(&[]), [0u32; 0]);
        assert_eq!(longest_increasing(&[(1, 5), (0, 9)]), [false, true]);
        assert_eq!(longest_increasing(&[(1, 9), (0, 5)]), [true, false]);
    }
}
