//! Means and percentiles over the rows of an evaluation.

use std::collections::BTreeMap;

/// The means of all rows, named `all`, then those of each group if there are several groups.
pub(super) fn means_by_group<'a, R, M>(
    rows: &'a [R],
    group_of: impl Fn(&'a R) -> &'a str,
    means_of: impl Fn(&str, &[&'a R]) -> M,
) -> Vec<M> {
    if rows.is_empty() {
        return Vec::new();
    }
    let mut groups: BTreeMap<&str, Vec<&R>> = BTreeMap::new();
    for row in rows {
        groups.entry(group_of(row)).or_default().push(row);
    }
    let all: Vec<&R> = rows.iter().collect();
    let mut means = vec![means_of("all", &all)];
    if groups.len() > 1 {
        means.extend(groups.iter().map(|(name, rows)| means_of(name, rows)));
    }
    means
}

/// `None` without values.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The share of `true`. `None` without values.
pub(super) fn share(values: &[bool]) -> Option<f64> {
    mean(values.iter().map(|value| indicator(*value)))
}

pub(super) fn indicator(is_true: bool) -> f64 {
    if is_true { 1.0 } else { 0.0 }
}

/// The smallest value that at least this share of the values does not exceed (nearest rank). 0 without values.
pub(super) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}
