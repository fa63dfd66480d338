//! Exact nearest neighbors by dot product.

use std::cmp::Ordering;

// Independent sums, so that the compiler vectorizes the loop.
const LANES: usize = 16;

/// Scales a vector to length 1. A zero vector stays zero.
#[must_use]
pub fn normalize(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector
        .iter()
        .map(|n| f64::from(*n) * f64::from(*n))
        .sum::<f64>()
        .sqrt() as f32;
    if length > 0.0 && length.is_finite() {
        vector.iter_mut().for_each(|n| *n /= length);
    }
    vector
}

/// Dot product of two vectors of equal length.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let mut rest = 0.0_f32;
    let a_lanes = a.chunks_exact(LANES);
    let b_lanes = b.chunks_exact(LANES);
    for (x, y) in a_lanes.remainder().iter().zip(b_lanes.remainder()) {
        rest += x * y;
    }
    for (x, y) in a_lanes.zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// Indices and scores of the `most` rows with the largest dot product, best first; ties ordered by `name`.
/// `rows` holds all rows one after the other; `counts` filters by row index.
pub fn top_k<K: Ord>(
    rows: &[f32],
    vector: &[f32],
    most: usize,
    counts: impl Fn(usize) -> bool,
    name: impl Fn(usize) -> K,
) -> Vec<(usize, f32)> {
    let mut scored: Vec<(usize, f32)> = Vec::new();
    if vector.is_empty() || most == 0 {
        return scored;
    }
    let order = |a: &(usize, f32), b: &(usize, f32)| -> Ordering {
        b.1.total_cmp(&a.1).then_with(|| name(a.0).cmp(&name(b.0)))
    };
    let mut floor = f32::NEG_INFINITY;
    for (at, row) in rows.chunks_exact(vector.len()).enumerate() {
        if !counts(at) {
            continue;
        }
        let score = dot(row, vector);
        if score >= floor {
            scored.push((at, score));
        }
        // Prune only now and then: pruning at each step would cost more than the products.
        if scored.len() >= 2 * most + 64 {
            scored.select_nth_unstable_by(most - 1, &order);
            scored.truncate(most);
            floor = scored
                .iter()
                .map(|(_, score)| *score)
                .fold(f32::INFINITY, f32::min);
        }
    }
    scored.sort_unstable_by(&order);
    scored.truncate(most);
    scored
}
