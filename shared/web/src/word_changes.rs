//! Which words of a reworded sentence changed.

use similar::{Algorithm, DiffTag};

/// Neighboring words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Same(String),
    Removed(String),
    Added(String),
}

/// The words of `right` against those of `left`, in reading order.
pub(crate) fn word_changes(left: &str, right: &str) -> Vec<Change> {
    let left: Vec<&str> = left.split_whitespace().collect();
    let right: Vec<&str> = right.split_whitespace().collect();
    let mut changes = Vec::new();
    for op in similar::capture_diff_slices(Algorithm::Myers, &left, &right) {
        let removed = left[op.old_range()].join(" ");
        let added = right[op.new_range()].join(" ");
        match op.tag() {
            DiffTag::Equal => changes.push(Change::Same(removed)),
            DiffTag::Delete => changes.push(Change::Removed(removed)),
            DiffTag::Insert => changes.push(Change::Added(added)),
            DiffTag::Replace => {
                changes.extend([Change::Removed(removed), Change::Added(added)]);
            }
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_words_are_found_between_words_that_stay() {
        assert_eq!(
            word_changes("Sales rose by 5% in 2021", "Net sales rose by 7% in 2022"),
            [
                Change::Removed("Sales".into()),
                Change::Added("Net sales".into()),
                Change::Same("rose by".into()),
                Change::Removed("5%".into()),
                Change::Added("7%".into()),
                Change::Same("in".into()),
                Change::Removed("2021".into()),
                Change::Added("2022".into()),
            ]
        );
        assert_eq!(word_changes("", "a b"), [Change::Added("a b".into())]);
        assert_eq!(word_changes("", ""), []);
    }
}
