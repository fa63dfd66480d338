//! Where sentences end.

use std::ops::Range;

use stemma_document::text::normalize_key;

use crate::letters::is_small;
use crate::vocabulary::{
    ABBREVIATIONS, FULL_STOPS, NUMBERED_PARTS, PAUSES, SENTENCE_ENDS, WordList,
};

/// Whether a mark ends a sentence.
pub fn is_stop(c: char) -> bool {
    matches!(c, '.' | '!' | '?') || is_listed(&SENTENCE_ENDS, c)
}

/// Whether a mark ends a statement: `.`, `。`, `।`.
pub fn is_full_stop(c: char) -> bool {
    c == '.' || is_listed(&FULL_STOPS, c)
}

/// Whether a sentence goes on behind a mark: `,`, `،`, `；`.
pub fn is_pause(c: char) -> bool {
    matches!(c, ',' | ';') || is_listed(&PAUSES, c)
}

// The lists have the marks that are not in ASCII.
fn is_listed(marks: &WordList, c: char) -> bool {
    !c.is_ascii() && !c.is_alphanumeric() && marks.contains(c.encode_utf8(&mut [0; 4]))
}

/// Marks that may follow the end of a sentence.
pub const CLOSING: [char; 8] = ['”', '"', '’', '\'', ')', ']', '」', '》'];
const OPENING: [char; 6] = ['“', '"', '‘', '\'', '(', '['];
// Counters of lists have no more digits.
const COUNTER_DIGITS: usize = 2;

/// Byte ranges of the sentences of a text, without the white space between them.
pub fn sentence_ranges(text: &str) -> Vec<Range<usize>> {
    let mut sentences = Vec::new();
    let mut start = text.len() - text.trim_start().len();
    let mut end = start;
    for (at, c) in text.char_indices() {
        // `end` is after the marks that close the stop before.
        if at < end || !is_stop(c) {
            continue;
        }
        let rest = text[at..].trim_start_matches(is_stop);
        let rest = rest.trim_start_matches(CLOSING);
        end = text.len() - rest.len();
        let is_spaced = rest.starts_with(char::is_whitespace) || is_wide(c);
        if is_spaced && ends_at(&text[start..end], rest) {
            sentences.push(start..end);
            start = text.len() - rest.trim_start().len();
        }
    }
    if start < text.len() {
        sentences.push(start..text.trim_end().len());
    }
    sentences
}

// Whether a sentence ends here, and not before the text after it.
fn ends_at(sentence: &str, after: &str) -> bool {
    let mut words = sentence.rsplit(char::is_whitespace);
    let word = words.next().unwrap_or_default();
    let before = words.find(|word| !word.is_empty()).unwrap_or_default();
    ends_sentence(before, word, after.trim_start())
}

/// Whether a sentence ends with `word`. `before` is the word before it in the sentence, or empty; `next` is what follows after
/// white space.
///
/// Sentences do not end at abbreviations (`Inc.`, `U.S.`), initials (`J.`, but `Part I.`), or the number that begins an entry of
/// a list (`1.`) or precedes a title (`Item 7. “Properties”`), nor before a small letter.
///
/// ```
/// use stemma_reading::sentences::ends_sentence;
/// assert!(ends_sentence("in", "1902.)", "The"));
/// assert!(!ends_sentence("Acme", "Inc.", "The"));
/// assert!(!ends_sentence("by", "tenths.", "of"));
/// ```
pub fn ends_sentence(before: &str, word: &str, next: &str) -> bool {
    let bare = word.trim_end_matches(CLOSING);
    let Some(stop) = bare.chars().next_back().filter(|c| is_stop(*c)) else {
        return false;
    };
    if is_wide(stop) {
        return true;
    }
    if next.starts_with(|c: char| is_small(c) || is_pause(c)) {
        return false;
    }
    stop != '.' || !is_part_of_sentence(before, bare, next)
}

// Whether the full stop of a word belongs to it.
fn is_part_of_sentence(before: &str, word: &str, next: &str) -> bool {
    let bare = word.trim_start_matches(OPENING).trim_end_matches('.');
    if bare.is_empty() {
        // `. . . . 12` leads to a page.
        return next.starts_with('.');
    }
    if bare.bytes().all(|byte| byte.is_ascii_digit()) {
        let is_counter = before.is_empty() && bare.len() <= COUNTER_DIGITS;
        let has_title = next.starts_with(['“', '"', '–', '—', '-']);
        return is_counter || has_title && is_numbered_part(before);
    }
    let is_number = bare.chars().count() == 1 && is_numbered_part(before);
    !is_number && is_abbreviation(word)
}

/// Whether a word with a full stop is an abbreviation or an initial: `Inc.`, `(e.g.`, `U.S.`, `J.`.
pub fn is_abbreviation(word: &str) -> bool {
    let Some(bare) = word.trim_start_matches(OPENING).strip_suffix('.') else {
        return false;
    };
    let has_initials = bare
        .split('.')
        .all(|part| part.starts_with(char::is_alphabetic) && part.chars().count() == 1);
    has_initials || ABBREVIATIONS.contains(&bare.to_lowercase())
}

fn is_numbered_part(word: &str) -> bool {
    NUMBERED_PARTS.contains(&normalize_key(word))
}

// Marks of scripts without spaces.
fn is_wide(stop: char) -> bool {
    matches!(stop, '。' | '！' | '？' | '；')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(text: &str) -> Vec<&str> {
        let ranges = sentence_ranges(text).into_iter();
        ranges.map(|range| &text[range]).collect()
    }

    #[test]
    fn sentences_do_not_end_at_abbreviations() {
        for text in [
            "Acme Inc. sold U.S. mills.",
            "It paid (e.g. J. P. Smith) $1.5 million.",
            "See Item 7. “Properties” of this report.",
            "1. Revenue of the A.B. Group",
            "It grew by 5%. of which half was volume.",
        ] {
            assert_eq!(sentences(text), [text]);
        }
    }

    #[test]
    fn sentences_end_at_stops() {
        for (text, expected) in [
            (
                "Sales fell (see Note 3). No. 5 remains.",
                &["Sales fell (see Note 3).", "No. 5 remains."][..],
            ),
            (
                "It is in Part I. Item 2 is not.",
                &["It is in Part I.", "Item 2 is not."],
            ),
            (
                "It has 5. “They” said: “So!” Yes…  Well?",
                &["It has 5.", "“They” said: “So!”", "Yes…", "Well?"],
            ),
            (
                "营业收入增长。净利润为三亿元；研发",
                &["营业收入增长。", "净利润为三亿元；", "研发"],
            ),
            (" ", &[]),
        ] {
            assert_eq!(sentences(text), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn sentences_have_all_words(text in "[a-zA-Z0-9.。!? ”\n]{0,60}") {
            let words = |text: &str| text.split_whitespace().collect::<String>();
            proptest::prop_assert_eq!(words(&sentences(&text).join(" ")), words(&text));
        }
    }
}
