//! One-to-one matching of greatest weight, one group of connected pairs at a time.

use std::collections::BTreeMap;

/// Steps that one group may take: the square of its smaller side times its larger one.
const MAX_STEPS: usize = 4_000_000_000;

/// Weights of the pairs that may be matched: left → right → weight, above 0.
pub(super) type Pairs = BTreeMap<usize, BTreeMap<usize, f64>>;

/// The matched pairs in order; `None` where so many are alike that it would take too long.
pub(super) fn best(pairs: &Pairs) -> Option<Vec<(usize, usize)>> {
    let mut matched = Vec::new();
    for (lefts, rights) in groups(pairs) {
        let weight = |left: usize, right: usize| {
            pairs
                .get(&left)
                .and_then(|row| row.get(&right))
                .copied()
                .unwrap_or(0.0)
        };
        let turned = lefts.len() > rights.len();
        let (rows, columns) = if turned {
            (&rights, &lefts)
        } else {
            (&lefts, &rights)
        };
        if rows
            .len()
            .saturating_mul(rows.len())
            .saturating_mul(columns.len())
            > MAX_STEPS
        {
            return None;
        }
        let of = |row: usize, column: usize| {
            if turned {
                weight(column, row)
            } else {
                weight(row, column)
            }
        };
        let costs: Vec<Vec<f64>> = rows
            .iter()
            .map(|row| columns.iter().map(|column| -of(*row, *column)).collect())
            .collect();
        for (row, column) in rows.iter().zip(assign(&costs)) {
            let Some(column) = column.and_then(|column| columns.get(column)) else {
                continue;
            };
            if of(*row, *column) > 0.0 {
                matched.push(if turned {
                    (*column, *row)
                } else {
                    (*row, *column)
                });
            }
        }
    }
    matched.sort_unstable();
    Some(matched)
}

/// Lefts and rights that hang together, each in order.
fn groups(pairs: &Pairs) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut back: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (left, row) in pairs {
        row.keys()
            .for_each(|right| back.entry(*right).or_default().push(*left));
    }
    let mut seen_left = std::collections::HashSet::new();
    let mut seen_right = std::collections::HashSet::new();
    let mut groups = Vec::new();
    for first in pairs.keys() {
        if !seen_left.insert(*first) {
            continue;
        }
        let mut lefts = Vec::new();
        let mut rights = Vec::new();
        let mut open = vec![*first];
        while let Some(left) = open.pop() {
            lefts.push(left);
            for right in pairs
                .get(&left)
                .into_iter()
                .flat_map(BTreeMap::keys)
                .filter(|right| seen_right.insert(**right))
            {
                rights.push(*right);
                open.extend(
                    back.get(right)
                        .into_iter()
                        .flatten()
                        .filter(|left| seen_left.insert(**left)),
                );
            }
        }
        lefts.sort_unstable();
        rights.sort_unstable();
        groups.push((lefts, rights));
    }
    groups
}

/// The assignment of least cost, rows ≤ columns: shortest augmenting paths with potentials (Kuhn, Munkres; Jonker and
/// Volgenant). The column of each row.
fn assign(costs: &[Vec<f64>]) -> Vec<Option<usize>> {
    let width = costs.first().map_or(0, Vec::len);
    let mut potentials = (vec![0.0; costs.len()], vec![0.0; width + 1]);
    // Row of each column; the last column is a place of departure and belongs to the row that is being placed.
    let mut row_of: Vec<Option<usize>> = vec![None; width + 1];
    for row in 0..costs.len() {
        row_of[width] = Some(row);
        let (end, came_from) = shortest_path(costs, &row_of, &mut potentials);
        let mut column = end;
        while column != width {
            let before = came_from[column];
            row_of[column] = row_of[before];
            column = before;
        }
    }
    let mut columns = vec![None; costs.len()];
    for (column, row) in row_of.iter().take(width).enumerate() {
        if let Some(row) = row {
            columns[*row] = Some(column);
        }
    }
    columns
}

/// From the place of departure to the nearest free column: that column, and where each column was reached from.
fn shortest_path(
    costs: &[Vec<f64>],
    row_of: &[Option<usize>],
    potentials: &mut (Vec<f64>, Vec<f64>),
) -> (usize, Vec<usize>) {
    let (of_rows, of_columns) = potentials;
    let width = row_of.len() - 1;
    let mut distance = vec![f64::INFINITY; width];
    let mut done = vec![false; width + 1];
    let mut came_from = vec![width; width];
    let mut at = width;
    while let Some(row) = row_of[at] {
        done[at] = true;
        let mut nearest = f64::INFINITY;
        let mut next = width;
        for column in (0..width).filter(|column| !done[*column]) {
            let reduced = costs[row][column] - of_rows[row] - of_columns[column];
            if reduced < distance[column] {
                (distance[column], came_from[column]) = (reduced, at);
            }
            if distance[column] < nearest {
                (nearest, next) = (distance[column], column);
            }
        }
        for column in 0..=width {
            if done[column] {
                if let Some(row) = row_of[column] {
                    of_rows[row] += nearest;
                }
                of_columns[column] -= nearest;
            } else if column < width {
                distance[column] -= nearest;
            }
        }
        at = next;
    }
    (at, came_from)
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
        assert_eq!(best(&all), Some(vec![(0, 1), (1, 0), (5, 7)]));
    }

    #[test]
    fn extra_rows_stay_unmatched() {
        let all = pairs(&[(0, 3, 1.0), (1, 3, 3.0), (2, 3, 2.0)]);
        assert_eq!(best(&all), Some(vec![(1, 3)]));
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
            let total: f64 = best(&pairs(&all))
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
