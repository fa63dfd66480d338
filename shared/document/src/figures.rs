//! Compares the figures in two readings of a word.

use crate::{Recognition, WordReading};

/// In percent: of numbers that two readers read alike (ADR 0048).
pub const AGREED: u8 = 99;
/// The highest confidence of a word in doubt, in percent.
pub const DOUBTFUL: u8 = Recognition::SURE - 1;

/// The reading of a word that one reader read as `text`, with this confidence in percent, and a second one as `other`. It is
/// sure if the figures agree. Otherwise it is in doubt, with both readings.
pub fn read_twice(text: &str, confidence: u8, other: &str) -> WordReading {
    let (confidence, is_other) = match (agree(text, other), separators(text)) {
        (true, Separators::Usual) => (confidence.max(AGREED), false),
        // As sure as the first reader is.
        (true, Separators::Doubtful) => (confidence, false),
        (true, Separators::Joined) => (confidence.min(DOUBTFUL), false),
        (false, _) => (confidence.min(DOUBTFUL), true),
    };
    WordReading {
        confidence,
        other: is_other.then(|| other.split_whitespace().collect()),
    }
}

/// Whether a word has a figure: a reader may misread one without anybody noticing.
pub fn has_figure(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_digit())
}

/// Whether two readings of a word have the same figures: digits, separators between digits, and signs. Letters, currencies,
/// footnote marks and punctuation around them may differ, because no figure changes with them.
pub fn agree(left: &str, right: &str) -> bool {
    figures(left) == figures(right)
}

/// What an agreement says about the separators in a word. A comma differs from a point, and from a narrow space, by a few pixels, so
/// two readers share these mistakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Separators {
    /// They group digits, or end a whole number, as usual.
    Usual,
    /// They may be others: `8.648` may be 8,648.
    Doubtful,
    /// They are between two figures that were read as one: `31,2022`.
    Joined,
}

pub fn separators(word: &str) -> Separators {
    let all = figures(word);
    let all = all.iter().flat_map(|figure| {
        let mut parts = figure.split(['.', ',']);
        parts.next();
        let separators = figure.chars().filter(|c| matches!(c, '.' | ','));
        separators.zip(parts.map(str::len)).collect::<Vec<_>>()
    });
    let kinds = all.map(|separator| match separator {
        ('.', 0..=2) | (',', 3) => Separators::Usual,
        (',', 4..) => Separators::Joined,
        _ => Separators::Doubtful,
    });
    kinds.max().unwrap_or(Separators::Usual)
}

/// The figures in a word. `(1,234)` is `-1,234`, and `2021-2022` is two figures. Dots that lead to a number are not part of it.
pub fn figures(word: &str) -> Vec<String> {
    let word: Vec<char> = word.chars().filter_map(plain).collect();
    let mut figures: Vec<String> = Vec::new();
    let mut is_open = false;
    for (at, c) in word.iter().enumerate() {
        let last = at.checked_sub(1).and_then(|at| word.get(at));
        let belongs = match c {
            '0'..='9' => true,
            '.' | ',' => {
                let precedes_digit = word.get(at + 1).is_some_and(char::is_ascii_digit);
                precedes_digit && !matches!(last, Some('.' | ','))
            }
            _ => false,
        };
        let is_sign = match c {
            '(' => true,
            '-' => !last.is_some_and(char::is_ascii_digit) && is_amount(&word[at + 1..]),
            _ => false,
        };
        match figures.last_mut().filter(|_| is_open && belongs) {
            Some(figure) => figure.push(*c),
            None if belongs => figures.push(c.to_string()),
            None if is_sign => figures.push("-".into()),
            None => {}
        }
        is_open = belongs;
    }
    figures
}

// A currency may be between a sign and the digits.
fn is_amount(rest: &[char]) -> bool {
    let first = rest.iter().find(|c| !matches!(c, '$' | '€' | '£' | '¥'));
    first.is_some_and(|c| c.is_ascii_digit() || *c == '.')
}

// Forms of one character that differ by font: full width, and kinds of dashes. No white space.
fn plain(c: char) -> Option<char> {
    const FULL_WIDTH: u32 = 0xFEE0;
    match c {
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(c) - FULL_WIDTH),
        '\u{3002}' => Some('.'),
        '\u{3001}' => Some(','),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => Some('-'),
        c if c.is_whitespace() => None,
        c => Some(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_agree_if_no_figure_changes() {
        for (one, other) in [
            ("1,234", "1,234"),
            ("$1,234.", "1,234"),
            ("S1,234", "$1,234"),
            ("(1,234)", "\u{FF08}1\u{FF0C}234"),
            ("2022,", "2022"),
            ("10-K", "10\u{2013}k"),
            ("5.2%", "5.2 %"),
            ("-5", "\u{2212}5"),
            ("-$5", "-5"),
            ("2021-2022", "2021\u{2014}2022"),
            ("7A.", "7A"),
            (".5", ".5"),
            ("....12", "12"),
        ] {
            assert!(agree(one, other), "{one} {other}");
            assert!(agree(other, one), "{other} {one}");
        }
    }

    #[test]
    fn readings_differ_by_digits_separators_and_signs() {
        for (one, other) in [
            ("1,234", "1,284"),
            ("1,234", "1.234"),
            ("1,234", "234"),
            ("1,234", ""),
            ("1,234", "11,234"),
            ("(1,234)", "1,234"),
            ("-5", "5"),
            ("0.5", "5"),
            (".5", "5"),
            ("100", "1O0"),
            ("2021-2022", "20212022"),
            ("5.2%", "5.296"),
            ("1,234", "1,2345"),
        ] {
            assert!(!agree(one, other), "{one} {other}");
            assert!(!agree(other, one), "{other} {one}");
        }
    }

    #[test]
    fn separators_are_doubtful_unless_they_group_or_end_as_usual() {
        use Separators::{Doubtful, Joined, Usual};
        for (words, expected) in [
            (
                &["1,234", "(1,234,567.89)", "$0.5", "2022,", "10-K", "....12"][..],
                Usual,
            ),
            (&["8.648", "7.2023.", "12,5", "1,234,56"], Doubtful),
            (&["11,2021", "31,2022."], Joined),
        ] {
            for word in words {
                assert_eq!(separators(word), expected, "{word}");
            }
        }
    }

    #[test]
    fn only_digits_are_read_twice() {
        assert!(has_figure("FY22"));
        assert!(!has_figure("million"));
    }
}
