//! Text normalized for quote matching, with the position of each character in the original.
//!
//! Folded are: compatibility forms (NFKC), case, white space, typographic quotation marks and dashes, hyphens between
//! letters (at a line's end or not), and spaces that only tables have (`$ 1,749`, `( 5 )`). Nothing that would change a
//! number is folded: `1 749` stays two words, `-5` keeps its sign, and a match never begins or ends inside a word or number.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;

use super::quote_target::QuoteTarget;

/// Position of a character in the targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CharPosition {
    /// Index of the target.
    pub target: usize,
    /// Index of its line.
    pub line: usize,
    /// Byte range in the line; `end` is exclusive.
    pub start: usize,
    pub end: usize,
}

#[derive(Debug, Clone, Default)]
pub(super) struct NormalizedText {
    chars: Vec<char>,
    positions: Vec<CharPosition>,
}

impl NormalizedText {
    // Joins the text of all targets; `body` leaves out running heads and feet.
    pub(super) fn from_targets(targets: &[QuoteTarget<'_>], body: bool) -> Self {
        let targets = targets.iter().enumerate();
        Self::new(targets.flat_map(|(at, target)| {
            let lines = target.lines(body);
            lines.map(move |(line, text)| (at, line, text))
        }))
    }

    // A text without positions, such as a quote.
    pub(super) fn from_text(text: &str) -> Self {
        Self::new(text.lines().map(|line| (0, 0, line)))
    }

    // Lines with the indexes of their targets and their own.
    fn new<'t>(lines: impl Iterator<Item = (usize, usize, &'t str)>) -> Self {
        // Words are separated by single spaces.
        let mut chars: Vec<(char, CharPosition)> = Vec::new();
        let mut push = |c: char, at: CharPosition| match c {
            c if c.is_whitespace() || c.is_control() => {
                if chars.last().is_some_and(|(c, _)| *c != ' ') {
                    chars.push((' ', at));
                }
            }
            '\u{AD}'
            | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{2069}'
            | '\u{FEFF}' => {}
            c => chars.push((plain_char(c), at)),
        };
        for (target, line, text) in lines {
            let at = |start: usize, end: usize| CharPosition {
                target,
                line,
                start,
                end,
            };
            push(' ', at(0, 0));
            for (start, c) in text.char_indices() {
                let at = at(start, start + c.len_utf8());
                match c.is_ascii() {
                    true => push(c.to_ascii_lowercase(), at),
                    false => std::iter::once(c)
                        .nfkc()
                        .flat_map(char::to_lowercase)
                        .for_each(|c| push(c, at)),
                }
            }
        }
        chars.pop_if(|(c, _)| *c == ' ');
        Self::without_layout(&chars)
    }

    // Without what only the layout adds: hyphens between letters, spaces of tables.
    fn without_layout(chars: &[(char, CharPosition)]) -> Self {
        let mut normalized = Self::default();
        let mut rest = chars;
        while let Some(((c, place), after)) = rest.split_first() {
            rest = after;
            let before = normalized.chars.last().copied();
            let next = after.first().map(|(c, _)| *c);
            let second = after.get(1).map(|(c, _)| *c);
            match *c {
                // A word that was divided at the end of a line.
                '-' if is_letter(before) && next == Some(' ') && is_letter(second) => {
                    rest = &after[1..];
                }
                '-' if is_letter(before) && is_letter(next) => {}
                ' ' if is_table_space(before, next, second) => {}
                c => {
                    normalized.chars.push(c);
                    normalized.positions.push(*place);
                }
            }
        }
        normalized
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chars.is_empty()
    }

    pub(super) fn has_words(&self) -> bool {
        self.chars.iter().any(|c| c.is_alphanumeric())
    }

    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        self.chars.iter().collect()
    }

    // Where characters are in their lines, one range per line.
    pub(super) fn by_line(&self, range: &Range<usize>) -> Vec<CharPosition> {
        let mut lines: Vec<CharPosition> = Vec::new();
        let places = self.positions[range.clone()].iter();
        for at in places.filter(|at| at.start < at.end) {
            match lines.last_mut() {
                Some(last) if (last.target, last.line) == (at.target, at.line) => {
                    last.start = last.start.min(at.start);
                    last.end = last.end.max(at.end);
                }
                _ => lines.push(*at),
            }
        }
        lines
    }

    // The first whole-word match at or after character `from`.
    pub(super) fn find(&self, needle: &NormalizedText, from: usize) -> Option<Range<usize>> {
        let length = needle.chars.len();
        let first = *needle.chars.first()?;
        let last = self.chars.len().checked_sub(length)?;
        let mut starts = (from..=last).filter(|at| self.chars[*at] == first);
        let at = starts.find(|at| {
            self.chars[*at..at + length] == needle.chars[..] && self.is_whole(&(*at..at + length))
        })?;
        Some(at..at + length)
    }

    // A match must not cut a word or number at either end.
    fn is_whole(&self, range: &Range<usize>) -> bool {
        let inside = &self.chars[range.clone()];
        let before = self.chars[..range.start].iter().rev();
        let after = self.chars[range.end..].iter();
        !cuts_word(inside.first(), before) && !cuts_word(inside.last(), after)
    }
}

// `outward` runs away from the match: the neighbor of its last character `inner`, then the one behind.
fn cuts_word<'a>(inner: Option<&char>, mut outward: impl Iterator<Item = &'a char>) -> bool {
    let (Some(inner), Some(outer)) = (inner, outward.next()) else {
        return false;
    };
    if inner.is_alphanumeric() && outer.is_alphanumeric() {
        return !is_unspaced_script(*inner);
    }
    // `1.5` and `1,500` are numbers; `in 2022.` ends a sentence.
    matches!(outer, '.' | ',')
        && inner.is_ascii_digit()
        && outward.next().is_some_and(char::is_ascii_digit)
}

// Scripts without spaces between words: a quote may begin at any letter.
fn is_unspaced_script(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3134F}')
}

fn is_letter(c: Option<char>) -> bool {
    c.is_some_and(char::is_alphabetic)
}

// Such a space is an artifact of table layout: after `$` and `(`, before `)`, `%` and closing punctuation.
fn is_table_space(before: Option<char>, after: Option<char>, beyond: Option<char>) -> bool {
    match (before, after) {
        (None | Some('$' | '('), _) | (_, Some(')' | '%')) => true,
        (_, Some('.' | ',' | ';' | ':')) => !beyond.is_some_and(|c| c.is_ascii_digit()),
        _ => false,
    }
}

fn plain_char(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201B}' | '\u{2032}' | '`' | '\u{B4}' => '\'',
        '\u{201C}'..='\u{201F}' | '\u{2033}' | '\u{AB}' | '\u{BB}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FE63}' => '-',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalized(text: &str) -> String {
        NormalizedText::from_text(text).text()
    }

    #[test]
    fn equivalent_spellings_normalize_alike() {
        for (written, other) in [
            (
                "The  Company\u{2019}s \u{201C}net\u{201D}\nsales",
                "the company's \"net\" sales",
            ),
            ("oper-\nations", "operations"),
            ("long-\nterm debt", "long-term debt"),
            ("$ 1,749 million", "$1,749 million"),
            ("( 1,749 )", "(1,749)"),
            ("5 %", "5%"),
            ("ﬁnancial o\u{AD}ffice", "financial office"),
            ("2020 \u{2013} 2021", "2020 - 2021"),
            ("\u{2212}5", "-5"),
        ] {
            assert_eq!(normalized(written), normalized(other), "{written}");
        }
        for (written, other) in [
            ("1 749", "1749"),
            ("5 .6", "5.6"),
            ("10-5", "105"),
            ("-5", "5"),
            ("a b", "ab"),
        ] {
            assert_ne!(normalized(written), normalized(other), "{written}");
        }
    }

    #[test]
    fn words_and_numbers_match_only_whole() {
        let page = NormalizedText::from_text("Sales of 1,749 and 12.5 rose; cats scattered (5).");
        let finds = |text: &str| page.find(&NormalizedText::from_text(text), 0).is_some();
        assert!(
            finds("1,749")
                && finds("12.5")
                && finds("cats")
                && finds("5")
                && finds("(5)")
                && finds("rose;")
        );
        assert!(
            !finds("749")
                && !finds("1")
                && !finds("12")
                && !finds("5 rose")
                && !finds("cat")
                && !finds("scatter")
        );
        assert!(page.find(&NormalizedText::from_text(""), 0).is_none());
        assert!(
            NormalizedText::from_text("营业收入增长")
                .find(&NormalizedText::from_text("收入"), 0)
                .is_some()
        );
    }
}
