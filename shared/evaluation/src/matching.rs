//! One-to-one matching of maximum total weight (Kuhn-Munkres), one connected component at a time.

use std::collections::{BTreeMap, HashSet};

use pathfinding::prelude::{Matrix, kuhn_munkres};

/// Limit of the work for one component: the square of its smaller side times its larger side.
const MAX_STEPS: usize = 4_000_000_000;
/// The crate needs totally ordered weights: they are rounded to multiples of 1 / `SCALE`.
const SCALE: f64 = 1e12;

/// Candidate pairs: left → right → weight, above 0.
pub(super) type Pairs = BTreeMap<usize, BTreeMap<usize, f64>>;

/// The matched pairs, sorted. `None` if a component is too large.
pub(super) fn best_matching(pairs: &Pairs) -> Option<Vec<(usize, usize)>> {
    let mut by_right = Pairs::new();
    for (left, row) in pairs {
        for (right, weight) in row {
            by_right.entry(*right).or_default().insert(*left, *weight);
        }
    }
    let mut matched = Vec::new();
    for (lefts, rights) in components(pairs, &by_right) {
        if lefts.len() <= rights.len() {
            matched.extend(match_component(pairs, &lefts, &rights)?);
        } else {
            let flipped = match_component(&by_right, &rights, &lefts)?;
            matched.extend(flipped.into_iter().map(|(right, left)| (left, right)));
        }
    }
    matched.sort_unstable();
    Some(matched)
}

/// Matches every row to a column; needs at least as many columns as rows.
fn match_component(
    pairs: &Pairs,
    rows: &[usize],
    columns: &[usize],
) -> Option<Vec<(usize, usize)>> {
    let steps = rows
        .len()
        .saturating_mul(rows.len())
        .saturating_mul(columns.len());
    if steps > MAX_STEPS {
        return None;
    }
    let weights = Matrix::from_fn(rows.len(), columns.len(), |(row, column)| {
        let weight = pairs
            .get(&rows[row])
            .and_then(|row| row.get(&columns[column]));
        weight.map_or(0, |weight| (weight * SCALE).round() as i64)
    });
    let (_, assignment) = kuhn_munkres(&weights);
    let matched = rows
        .iter()
        .zip(assignment)
        .map(|(row, column)| (*row, columns[column]));
    // A row without a free candidate is assigned to a column of weight 0.
    let is_candidate =
        |(row, column): &(usize, usize)| pairs.get(row).is_some_and(|row| row.contains_key(column));
    Some(matched.filter(is_candidate).collect())
}

/// The connected components: left and right sides, each sorted.
fn components(pairs: &Pairs, by_right: &Pairs) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut seen_lefts = HashSet::new();
    let mut seen_rights = HashSet::new();
    let mut components = Vec::new();
    for first in pairs.keys() {
        if !seen_lefts.insert(*first) {
            continue;
        }
        let mut lefts = Vec::new();
        let mut rights = Vec::new();
        let mut open = vec![*first];
        while let Some(left) = open.pop() {
            lefts.push(left);
            for right in pairs.get(&left).into_iter().flat_map(BTreeMap::keys) {
                if !seen_rights.insert(*right) {
                    continue;
                }
                rights.push(*right);
                let neighbors = by_right.get(right).into_iter().flat_map(BTreeMap::keys);
                open.extend(neighbors.filter(|left| seen_lefts.insert(**left)));
            }
        }
        lefts.sort_unstable();
        rights.sort_unstable();
        components.push((lefts, rights));
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(weights: &[(usize, usize, f64)]) -> Pairs {
        let mut pairs = Pairs::new();
        for (left, right, weight) in weights {
            pairs.entry(*left).or_default().insert(*right, *weight);
        }
        pairs
    }

    #[test]
    fn total_weight_wins_over_the_heaviest_pair() {
        let all = pairs(&[(0, 0, 10.0), (0, 1, 9.0), (1, 0, 9.0), (5, 7, 1.0)]);
        assert_eq!(best_matching(&all), Some(vec![(0, 1), (1, 0), (5, 7)]));
    }

    #[test]
    fn extra_rows_stay_unmatched() {
        let all = pairs(&[(0, 3, 1.0), (1, 3, 3.0), (2, 3, 2.0)]);
        assert_eq!(best_matching(&all), Some(vec![(1, 3)]));
    }

    #[test]
    fn matching_has_maximal_weight() {
        // All 3 × 3 matchings of pseudo-random weights, by hand.
        for seed in 0..200_u64 {
            let weight = |l: usize, r: usize| {
                1.0 + ((seed * 31 + l as u64 * 7 + r as u64 * 13) * 2_654_435_761 % 97) as f64
            };
            let all: Vec<_> = (0..3)
                .flat_map(|l| (0..3).map(move |r| (l, r, weight(l, r))))
                .collect();
            let total: f64 = best_matching(&pairs(&all))
                .unwrap()
                .iter()
                .map(|(l, r)| weight(*l, *r))
                .sum();
            let orders = [
                [0, 1, 2],
                [0, 2, 1],
                [1, 0, 2],
                [1, 2, 0],
                [2, 0, 1],
                [2, 1, 0],
            ];
            let most = orders
                .iter()
                .map(|order| (0..3).map(|l| weight(l, order[l])).sum::<f64>())
                .fold(0.0, f64::max);
            assert_eq!(total, most, "seed {seed}");
        }
    }
}
