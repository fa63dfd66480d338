//! Normalization of titles: one line, bounded, nothing invisible.

use stemma_document::note_marks::is_raised;
use unicode_normalization::char::is_combining_mark;

/// Longer titles are cut.
pub const MAX_TITLE_CHARS: usize = 400;

/// Title of sections whose title is empty or unreadable.
pub const UNTITLED: &str = "Untitled";

/// Normalizes a title: collapses white space, removes control, bidi and invisible characters and the marks of notes, and cuts it to
/// [`MAX_TITLE_CHARS`] without splitting a grapheme.
///
/// Zero-width joiners stay, since emoji and Indic scripts need them.
pub fn clean(text: &str) -> String {
    let mut title = String::with_capacity(text.len().min(4 * MAX_TITLE_CHARS));
    let mut length = 0;
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() {
            gap = length > 0;
        } else if !is_invisible(c) && !is_raised(c) {
            let joins = is_combining_mark(c) || extends(c) || title.ends_with(JOINER);
            // The second bound keeps an endless stack of accents from growing a title without limit.
            if (length >= MAX_TITLE_CHARS && (gap || !joins)) || length >= 2 * MAX_TITLE_CHARS {
                break;
            }
            if gap {
                title.push(' ');
                length += 1;
            }
            gap = false;
            title.push(c);
            length += 1;
        }
    }
    title
}

const JOINER: char = '\u{200D}';

// Joiner, variation selectors, skin tones: part of the previous grapheme.
fn extends(c: char) -> bool {
    matches!(c, JOINER | '\u{FE00}'..='\u{FE0F}' | '\u{1F3FB}'..='\u{1F3FF}')
}

// Bidi controls (UAX 9), zero-width space, soft hyphen, byte order mark, tag characters.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{061C}' | '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
        | '\u{00AD}' | '\u{FEFF}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_removed() {
        assert_eq!(
            clean("  Item\u{a0}7.\t\u{202E}evil\u{202C}\u{7}  x\u{AD}y "),
            "Item 7. evil xy"
        );
        assert_eq!(clean("\u{1b}[31mred"), "[31mred");
        assert_eq!(clean("👨\u{200D}👩\u{200D}👧"), "👨\u{200D}👩\u{200D}👧");
    }

    #[test]
    fn truncation_never_splits_a_grapheme() {
        let family = "👨\u{200D}👩\u{200D}👧";
        let title = clean(&format!("{}{family} more", "x".repeat(MAX_TITLE_CHARS - 1)));
        assert!(title.ends_with(family), "{title}");
        assert_eq!(
            clean(&"年".repeat(100_000)).chars().count(),
            MAX_TITLE_CHARS
        );
        assert!(
            clean(&format!("a{}", "\u{301}".repeat(100_000)))
                .chars()
                .count()
                <= 2 * MAX_TITLE_CHARS
        );
    }
}
