//! Numbers that say that another is above or below them.

use std::ops::Range;

use super::{NumberMention, numbers};
use crate::vocabulary::BOUNDS;

/// A number that another is above or below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Over,
    AtLeast,
    Under,
    AtMost,
}

impl Bound {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "over" => Some(Self::Over),
            "at least" => Some(Self::AtLeast),
            "under" => Some(Self::Under),
            "at most" => Some(Self::AtMost),
            _ => None,
        }
    }

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
        let bound = Bound::from_name(bound).filter(|_| found && is_word)?;
        Some((bound, start..before.len()))
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
