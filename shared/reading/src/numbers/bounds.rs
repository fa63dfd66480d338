//! Numbers that say that another is above or below them.

use std::ops::Range;

use super::{NumberMention, numbers};

/// A number that another is above or below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Over,
    AtLeast,
    Under,
    AtMost,
}

// The longest first: `no more than` ends with `more than`.
const BOUNDS: [(&str, Bound); 16] = [
    ("not more than", Bound::AtMost),
    ("not less than", Bound::AtLeast),
    ("no more than", Bound::AtMost),
    ("no less than", Bound::AtLeast),
    ("greater than", Bound::Over),
    ("in excess of", Bound::Over),
    ("fewer than", Bound::Under),
    ("more than", Bound::Over),
    ("less than", Bound::Under),
    ("exceeding", Bound::Over),
    ("exceeded", Bound::Over),
    ("at least", Bound::AtLeast),
    ("at most", Bound::AtMost),
    ("up to", Bound::AtMost),
    ("above", Bound::Over),
    ("over", Bound::Over),
];

impl Bound {
    /// What the words before a number make of it.
    pub fn before(text: &str, number: &NumberMention) -> Option<Self> {
        bound_words(text, number).map(|(bound, _)| bound)
    }

    pub(super) fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Over => value > limit,
            Self::AtLeast => value >= limit,
            Self::Under => value < limit,
            Self::AtMost => value <= limit,
        }
    }
}

// The bound that a number is, and the bytes of its words.
fn bound_words(text: &str, number: &NumberMention) -> Option<(Bound, Range<usize>)> {
    let before = text.get(..number.at.start)?;
    let before = before.trim_end_matches(|c: char| "$€£¥(".contains(c) || c.is_whitespace());
    BOUNDS.iter().find_map(|(words, bound)| {
        let start = before.len().checked_sub(words.len())?;
        let found = before.get(start..)?.eq_ignore_ascii_case(words);
        let is_word = !before[..start].ends_with(char::is_alphanumeric);
        (found && is_word).then_some((*bound, start..before.len()))
    })
}

/// A text without the words that make bounds of its numbers: `no more than` denies nothing.
pub fn without_bounds(text: &str) -> String {
    let mut plain = text.to_owned();
    for (_, at) in numbers(text)
        .iter()
        .filter_map(|number| bound_words(text, number))
    {
        plain.replace_range(at.clone(), &" ".repeat(at.len()));
    }
    plain
}
