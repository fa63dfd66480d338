//! Counts of equal values.

use std::collections::BTreeMap;

pub(crate) fn counts<K: Ord>(values: impl Iterator<Item = K>) -> BTreeMap<K, usize> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts
}
