//! Text as tokens for quote matching, with the place of each one in the original.
//!
//! Folded are: compatibility forms (NFKC), case, white space, typographic quotation marks and dashes, and hyphens between letters (at a
//! line's end or not). Nothing that would change a number is folded: `1 749` are two tokens, `-5` has one for its sign, and a match never
//! begins or ends inside a word or number.

use std::ops::Range;
use stemma_document::note_marks::is_raised;

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

/// Words, numbers and signs.
#[derive(Debug, Clone, Default)]
pub(super) struct NormalizedText {
    tokens: Vec<String>,
    // Where the characters of each token are, one range per line.
    places: Vec<Vec<CharPosition>>,
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
        let mut chars: Vec<(char, CharPosition)> = Vec::new();
        for (target, line, text) in lines {
            let at = |start: usize, end: usize| CharPosition {
                target,
                line,
                start,
                end,
            };
            for (start, c) in text.char_indices().filter(|(_, c)| !is_raised(*c)) {
                let folded = std::iter::once(c).nfkc().flat_map(char::to_lowercase);
                let visible = folded.map(plain_char).filter(|c| !is_invisible(*c));
                chars.extend(visible.map(|c| (c, at(start, start + c.len_utf8()))));
            }
            chars.push((' ', at(text.len(), text.len())));
        }
        Self::from_chars(&chars)
    }

    fn from_chars(chars: &[(char, CharPosition)]) -> Self {
        let mut normalized = Self::default();
        // What the next character may go on from; a blank after the end of a token.
        let mut open = ' ';
        let mut rest = chars;
        while let Some(((c, place), after)) = rest.split_first() {
            rest = after;
            let next = after.first().map_or(' ', |(c, _)| *c);
            let goes_on = match c {
                // A compound, or a word that was divided at the end of a line.
                '-' if open.is_alphabetic() => {
                    let blanks = after.iter().take_while(|(c, _)| is_blank(*c)).count();
                    let next = after.get(blanks);
                    if next.is_some_and(|(c, _)| c.is_alphabetic()) {
                        rest = &after[blanks..];
                        continue;
                    }
                    false
                }
                '.' | ',' => open.is_ascii_digit() && next.is_ascii_digit(),
                c => c.is_alphanumeric() && open != ' ' && !is_unspaced_script(*c),
            };
            let is_inside = goes_on || c.is_alphanumeric() && !is_unspaced_script(*c);
            open = if is_inside { *c } else { ' ' };
            match (normalized.tokens.last_mut(), normalized.places.last_mut()) {
                _ if is_blank(*c) => {}
                (Some(token), Some(places)) if goes_on => {
                    token.push(*c);
                    places.push(*place);
                }
                _ => {
                    normalized.tokens.push(c.to_string());
                    normalized.places.push(vec![*place]);
                }
            }
        }
        normalized
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    pub(super) fn has_words(&self) -> bool {
        let mut signs = self.tokens.iter().flat_map(|token| token.chars());
        signs.any(char::is_alphanumeric)
    }

    // Where tokens are in their lines, one range per line.
    pub(super) fn by_line(&self, range: &Range<usize>) -> Vec<CharPosition> {
        let mut lines: Vec<CharPosition> = Vec::new();
        for at in self.places[range.clone()].iter().flatten() {
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

    // The first match at or after token `from`.
    pub(super) fn find(&self, needle: &Self, from: usize) -> Option<Range<usize>> {
        let length = needle.tokens.len();
        let last = self.tokens.len().checked_sub(length)?;
        let mut starts = (from..=last).filter(|_| length > 0);
        let at = starts.find(|at| self.tokens[*at..at + length] == needle.tokens[..])?;
        Some(at..at + length)
    }
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
}

// Scripts without spaces between words: a quote may begin at any letter.
fn is_unspaced_script(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3134F}')
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
        NormalizedText::from_text(text).tokens.join(" ")
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
