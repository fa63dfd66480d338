//! Fair admission: picks the collection whose next entry is opened, by the work that entries bring.
//!
//! Deficit round robin (Shreedhar and Varghese, 1996) over collections. Within a collection interactive jobs come
//! first, then older jobs.

use std::collections::{BTreeMap, VecDeque};

// Credit of a collection per turn, in the unit of [`crate::jobs::JobEntry::weight`].
const QUANTUM: u64 = 100_000;
// Weights are capped here, so that one huge entry does not keep the loop turning for long.
const MAX_WEIGHT: u64 = 1_000 * QUANTUM;

/// Collections in turn order, with their credit.
#[derive(Default)]
pub struct DeficitRoundRobin {
    wheel: VecDeque<String>,
    deficit: BTreeMap<String, u64>,
}

impl DeficitRoundRobin {
    /// Picks the collection to open an entry of, given the weight of each collection's next entry; `None` when there
    /// are none. A collection without an entry loses its turn and its credit.
    pub fn next(&mut self, heads: &BTreeMap<String, u64>) -> Option<String> {
        self.wheel.retain(|name| heads.contains_key(name));
        self.deficit.retain(|name, _| heads.contains_key(name));
        for name in heads.keys() {
            if !self.deficit.contains_key(name) {
                self.deficit.insert(name.clone(), 0);
                self.wheel.push_back(name.clone());
            }
        }
        loop {
            let name = self.wheel.front()?.clone();
            let weight = heads.get(&name).copied().unwrap_or(0).clamp(1, MAX_WEIGHT);
            let deficit = self.deficit.entry(name.clone()).or_default();
            if *deficit >= weight {
                *deficit -= weight;
                return Some(name);
            }
            *deficit += QUANTUM;
            self.wheel.rotate_left(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(weights: &[(&str, u64)]) -> BTreeMap<String, u64> {
        weights
            .iter()
            .map(|(name, weight)| ((*name).to_string(), *weight))
            .collect()
    }

    #[test]
    fn shares_work_by_weight_not_count() {
        let mut fairness = DeficitRoundRobin::default();
        let heads = heads(&[("books", 50_000), ("letters", 1_000)]);
        let mut work = BTreeMap::new();
        for _ in 0..5_100 {
            let name = fairness.next(&heads).unwrap();
            *work.entry(name.clone()).or_insert(0) += heads[&name];
        }
        let ratio = work["books"] as f64 / work["letters"] as f64;
        assert!((0.9..1.1).contains(&ratio), "{work:?}");
    }

    #[test]
    fn idle_collection_accumulates_no_deficit() {
        let mut fairness = DeficitRoundRobin::default();
        let both = heads(&[("a", QUANTUM), ("b", QUANTUM)]);
        fairness.next(&both);
        for _ in 0..1_000 {
            fairness.next(&heads(&[("a", QUANTUM)]));
        }
        let turns = (0..100)
            .filter(|_| fairness.next(&both).unwrap() == "b")
            .count();
        assert!((49..=51).contains(&turns), "{turns}");
        assert_eq!(fairness.next(&heads(&[])), None);
    }

    #[test]
    fn oversized_weight_is_capped() {
        let mut fairness = DeficitRoundRobin::default();
        assert_eq!(
            fairness.next(&heads(&[("giant", u64::MAX)])),
            Some("giant".into())
        );
    }
}
