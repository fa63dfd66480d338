//! The text under the heading of an Item, by sentence.

use stemma_document::text::normalize_key;
use stemma_document::{Section, Source, text};
use stemma_reading::sentences::ends_sentence;
use stemma_reading::vocabulary::{CONTENTS_TITLES, FURNITURE_WORDS, REFERRING_PHRASES};

use crate::structure::titles;

// Lines split into sentences; words are counted in all lines.
const MAX_LINES: usize = 400;
// Lines of a page have about 15 words, a line of a text may have millions. Names are searched in each sentence, so that long
// ones would take quadratic time.
const MAX_WORDS: usize = 10_000;
// Length of titles and quotations in the Item map.
const MAX_TEXT_CHARS: usize = 120;
const TEXT_BYTES: usize = 1_000;

/// The text under a heading, by sentence.
#[derive(Debug)]
pub(super) struct ItemText {
    /// Sentences with single spaces.
    pub(super) sentences: Vec<String>,
    pub(super) words: usize,
    /// Words before the first sub-section.
    pub(super) own_words: usize,
}

impl ItemText {
    /// The text under the heading of the first of `sections`, without page furniture.
    pub(super) fn from_sections(sections: &[&Section], source: &Source) -> Self {
        let Some(section) = sections.first() else {
            return Self {
                sentences: Vec::new(),
                words: 0,
                own_words: 0,
            };
        };
        let own = text::own_lines(section, &source.body).len();
        let lines: Vec<_> = sections
            .iter()
            .flat_map(|section| text::own_lines(section, &source.body))
            .collect();
        let mut own_words = 0;
        let mut heading = normalize_key(&section.title);
        let mut words: Vec<&str> = Vec::new();
        let mut count = 0;
        for (at, line) in lines.iter().enumerate() {
            let normalized = normalize_key(
                line.text
                    .get(..line.text.floor_char_boundary(2_000))
                    .unwrap_or_default(),
            );
            // The heading may wrap, and the answer may begin on its last line.
            if !heading.is_empty() && !normalized.is_empty() {
                if let Some(rest) = heading.strip_prefix(normalized.as_str()) {
                    heading = rest.to_owned();
                    continue;
                }
                if let Some(behind) = text_after_heading(line.text, &heading) {
                    heading.clear();
                    words.extend(behind.split_whitespace().take(MAX_WORDS));
                    own_words = words.len();
                    continue;
                }
                heading.clear();
            }
            if is_furniture(&normalized) {
                continue;
            }
            let in_line = line.text.split_whitespace().count();
            count += in_line;
            own_words += if at < own { in_line } else { 0 };
            if at < MAX_LINES {
                let free = MAX_WORDS.saturating_sub(words.len());
                words.extend(line.text.split_whitespace().take(free));
            }
        }
        let words_read = words.len();
        Self {
            sentences: sentences(&words),
            words: count.max(words_read),
            own_words,
        }
    }

    /// The sentences that refer elsewhere.
    pub(super) fn referring(&self) -> impl Iterator<Item = &str> {
        self.sentences
            .iter()
            .map(String::as_str)
            .filter(|sentence| is_reference(sentence))
    }
}

/// The text of a line after the end of a heading.
fn text_after_heading<'a>(line: &'a str, heading: &str) -> Option<&'a str> {
    let mut remaining = heading.chars();
    let mut expected = remaining.next();
    for (at, c) in line.char_indices() {
        if expected.is_none() {
            return Some(&line[at..]);
        }
        if !c.is_alphanumeric() {
            continue;
        }
        for lower in c.to_lowercase() {
            if expected != Some(lower) {
                return None;
            }
            expected = remaining.next();
        }
    }
    None
}

/// Whether a normalized line is a page number or a link back to the contents.
fn is_furniture(normalized: &str) -> bool {
    normalized.is_empty()
        || (FURNITURE_WORDS.occurs_in(normalized) && normalized.len() <= 80)
        || CONTENTS_TITLES.contains(normalized)
        || (normalized.len() <= 5 && normalized.bytes().all(|b| b.is_ascii_digit()))
        || normalized
            .strip_prefix("page")
            .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
}

fn sentences(words: &[&str]) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, word) in words.iter().enumerate() {
        let before = words[start..at].last().copied().unwrap_or_default();
        let next = words.get(at + 1).copied().unwrap_or_default();
        // Clauses between semicolons refer to different places.
        let ends_clause = word.ends_with(';') && !next.starts_with(char::is_lowercase);
        if ends_clause || at + 1 == words.len() || ends_sentence(before, word, next) {
            sentences.push(words[start..=at].join(" "));
            start = at + 1;
        }
    }
    sentences
}

/// Whether a sentence refers the reader to another place.
fn is_reference(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    REFERRING_PHRASES.occurs_in(&lower)
}

/// Text with single spaces, truncated for display.
pub(super) fn truncate_text(text: &str) -> String {
    titles::fold_whitespace(titles::truncate_bytes(text, TEXT_BYTES))
        .chars()
        .take(MAX_TEXT_CHARS)
        .collect()
}
