//! Names of sections in sentences, and the sections below a section.

use stemma_document::text::normalize_key;
use stemma_document::{ItemTarget, PageNo, PageSpan, Section};
use stemma_reading::vocabulary::{LIGHT_WORDS, SMALL_NAME_WORDS};

use super::match_sections::last_id;
use crate::structure::numbering::{NumberClass, first_number};

// A shorter quotation is a word and not a heading.
pub(super) const MIN_TITLE: usize = 8;
// The longest name without quotation marks.
const MAX_NAME_WORDS: usize = 16;

/// The names that the capitalized words at the end of `words` may be, longest first: `See Market Risk`, `Market Risk`.
pub(super) fn names_before(words: &[&str]) -> Vec<String> {
    let count = words
        .iter()
        .rev()
        .take(MAX_NAME_WORDS)
        .take_while(|word| word.starts_with(char::is_uppercase) || SMALL_NAME_WORDS.contains(word))
        .count();
    let starts = words.len() - count..words.len();
    let names = starts.map(|start| words[start..].join(" "));
    names
        .filter(|name| normalize_key(name).len() >= MIN_TITLE)
        .collect()
}

/// The normalized words of a title that have a meaning of their own.
pub(super) fn heavy_words(title: &str) -> Vec<String> {
    title
        .split_whitespace()
        .map(normalize_key)
        .filter(|word| !LIGHT_WORDS.contains(word.as_str()))
        .collect()
}

/// The number of a title `Note 12. …` or `12. …`, and whether it says `Note`.
pub(super) fn note_number(title: &str) -> Option<(u32, bool)> {
    let number = first_number(title)?;
    // `Note A` is another numbering.
    if number.text.len() > 2 || number.text.contains(|c: char| !c.is_ascii_digit()) {
        return None;
    }
    match number.class {
        NumberClass::Note => Some((number.value, true)),
        NumberClass::Decimal(1) => Some((number.value, false)),
        _ => None,
    }
}

pub(super) fn on_page(page: PageNo) -> ItemTarget {
    ItemTarget::Pages(PageSpan::between(page, page))
}

pub(super) fn subtree(section: &Section) -> std::ops::RangeInclusive<u32> {
    section.id.0..=last_id(section).0
}

pub(super) fn descendants(section: &Section) -> impl Iterator<Item = &Section> {
    let mut stack: Vec<&Section> = section.children.iter().rev().collect();
    std::iter::from_fn(move || {
        let next = stack.pop()?;
        stack.extend(next.children.iter().rev());
        Some(next)
    })
}
