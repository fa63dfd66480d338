//! Runs of letters: words, and text of scripts without spaces.

use std::ops::Range;

use stemma_document::note_marks::is_raised;

use crate::letters::{digit_value, is_invisible, is_mark, is_unspaced};

// Longer runs are data, such as base64, rather than words.
const MAX_WORD_CHARS: usize = 64;

pub(super) enum RunKind {
    Word,
    Chinese,
    Bigrams,
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{2FDF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3134F}')
}

fn is_bigram_script(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30FF}' | '\u{AC00}'..='\u{D7AF}' | '\u{31F0}'..='\u{31FF}')
        || is_unspaced(c)
}

// Whether a mark belongs to a Hebrew word: of abbreviations (`חו״ל`) and foreign sounds.
fn is_hebrew_quote(c: char) -> bool {
    matches!(c, '"' | '״' | '׳')
}

fn is_hebrew(c: char) -> bool {
    matches!(c, '\u{5D0}'..='\u{5EA}')
}

fn is_letter(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric()
    } else {
        c.is_alphanumeric() && !is_han(c) && !is_bigram_script(c) && !is_raised(c)
    }
}

// Calls `visit` with each word, and with each run of a script written without spaces.
pub(super) fn for_each_run(text: &str, visit: &mut impl FnMut(RunKind, Range<usize>)) {
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        let mut end = start + c.len_utf8();
        let same: fn(char) -> bool = if is_han(c) {
            is_han
        } else if is_bigram_script(c) {
            is_bigram_script
        } else if is_letter(c) {
            let mut last = c;
            let mut length = 1;
            while let Some(&(at, c)) = chars.peek() {
                let is_mark = !c.is_ascii() && is_mark(c);
                if is_letter(c) || is_mark {
                    end = at + c.len_utf8();
                } else if !is_word_joiner(last, c, &text[at + c.len_utf8()..]) {
                    break;
                }
                length += usize::from(c.is_ascii() || !is_invisible(c));
                last = if is_mark { last } else { c };
                chars.next();
            }
            if length <= MAX_WORD_CHARS {
                visit(RunKind::Word, start..end);
            }
            continue;
        } else {
            continue;
        };
        while let Some((at, c)) = chars.next_if(|(_, c)| same(*c) || is_mark(*c)) {
            end = at + c.len_utf8();
        }
        visit(
            if is_han(c) {
                RunKind::Chinese
            } else {
                RunKind::Bigrams
            },
            start..end,
        );
    }
}

// Whether `c` joins the characters around it into one word.
fn is_word_joiner(before: char, c: char, rest: &str) -> bool {
    let mut rest = rest.chars();
    let Some(after) = rest.next() else {
        return false;
    };
    match c {
        '&' | '\'' | '’' => is_letter(before) && is_letter(after),
        '-' | '\u{2010}' | '\u{2011}' => {
            is_letter(before)
                && (is_letter(after)
                    || after == '\n' && is_hyphenated_at_line_end(before, rest.next()))
        }
        // The line break after a hyphen that splits a word.
        '\n' => matches!(before, '-' | '\u{2010}' | '\u{2011}') && after.is_lowercase(),
        _ if is_invisible(c) => true,
        _ if is_hebrew_quote(c) => is_hebrew(before) && is_hebrew(after),
        ',' | '٬' => digit_value(before).is_some() && digit_value(after).is_some(),
        '.' | '٫' => {
            is_letter(before)
                && is_letter(after)
                && digit_value(before).is_some() == digit_value(after).is_some()
        }
        _ => false,
    }
}

fn is_hyphenated_at_line_end(before: char, next: Option<char>) -> bool {
    before.is_lowercase() && next.is_some_and(char::is_lowercase)
}
