//! Which words of a reworded sentence changed: a longest common subsequence of its words.

/// Words that stand together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Same(String),
    Removed(String),
    Added(String),
}

// Sentences are quoted with at most 400 characters, so a table of all pairs is small.
const MAX_WORDS: usize = 400;

/// The words of `right` against those of `left`, in reading order.
pub(crate) fn word_changes(left: &str, right: &str) -> Vec<Change> {
    let left: Vec<&str> = left.split_whitespace().take(MAX_WORDS).collect();
    let right: Vec<&str> = right.split_whitespace().take(MAX_WORDS).collect();
    // lengths[i][j]: common words of left[i..] and right[j..].
    let mut lengths = vec![vec![0_u32; right.len() + 1]; left.len() + 1];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            lengths[i][j] = if left[i] == right[j] {
                lengths[i + 1][j + 1] + 1
            } else {
                lengths[i + 1][j].max(lengths[i][j + 1])
            };
        }
    }
    let mut i = 0;
    let mut j = 0;
    let mut changes = Vec::new();
    while i < left.len() || j < right.len() {
        if i < left.len() && j < right.len() && left[i] == right[j] {
            push(&mut changes, Change::Same(left[i].into()));
            (i, j) = (i + 1, j + 1);
        } else if j == right.len() || (i < left.len() && lengths[i + 1][j] >= lengths[i][j + 1]) {
            push(&mut changes, Change::Removed(left[i].into()));
            i += 1;
        } else {
            push(&mut changes, Change::Added(right[j].into()));
            j += 1;
        }
    }
    changes
}

// Joins neighbors of one kind.
fn push(changes: &mut Vec<Change>, change: Change) {
    match (changes.last_mut(), change) {
        (Some(Change::Same(words)), Change::Same(word))
        | (Some(Change::Removed(words)), Change::Removed(word))
        | (Some(Change::Added(words)), Change::Added(word)) => {
            words.push(' ');
            words.push_str(&word);
        }
        (_, change) => changes.push(change),
    }
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
