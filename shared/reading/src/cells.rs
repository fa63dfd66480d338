//! Splits a line into its label and the cells at its end.

use std::ops::Range;

use stemma_document::note_marks::without_raised;

use crate::numbers::{Currency, is_currency_sign, is_triangle, number_end, plain_char};
use crate::vocabulary::EMPTY_CELLS;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Value,
    // A dash or `n/m`: a cell without a number.
    Empty,
    // `$`, `(`: belongs to the value after it.
    Opens,
    // `)`, `%`: belongs to the value before it.
    Closes,
    Bar,
    // A leader or a mark that is neither label nor cell.
    Filler,
    Word,
}

// Leaders between cells, and signs without width.
const FILLERS: [char; 10] = [
    '_', '…', '‥', '·', '⋅', '\u{200b}', '\u{200c}', '\u{200d}', '\u{feff}', '\u{ad}',
];

// Bytes of `pts.` and of `n.m.`.
const LONGEST_MARK: usize = 4;

fn token_kind(token: &str) -> Token {
    if token.is_ascii() {
        return plain_token_kind(token);
    }
    let plain: String = without_raised(token).chars().map(plain_char).collect();
    plain_token_kind(&plain)
}

fn plain_token_kind(token: &str) -> Token {
    let token = token.trim_matches(FILLERS);
    // `1,749......`, but `.5` and the end of a sentence stay as they are.
    let bare = token.trim_matches('.');
    let token = if token.len() > bare.len() + 1 {
        bare
    } else {
        token
    };
    if token.trim_matches('.').is_empty() {
        return Token::Filler;
    }
    // Most tokens are words.
    if token.len() > LONGEST_MARK && token.starts_with(char::is_alphabetic) {
        return Token::Word;
    }
    let lower = token.to_lowercase();
    match lower.as_str() {
        "|" => return Token::Bar,
        lower if EMPTY_CELLS.contains(lower) => return Token::Empty,
        "pts" | "bps" | "pp" | "x" | "%" | ")" | ")%" | "%)" | "pts." => return Token::Closes,
        _ => {}
    }
    if token.chars().all(|c| c == '-') {
        return Token::Empty;
    }
    let opening = |c: char| c == '(' || is_triangle(c) || is_currency_sign(c);
    if token.chars().all(opening) {
        return Token::Opens;
    }
    if token
        .trim_start_matches(opening)
        .chars()
        .all(|c| matches!(c, '-' | ')'))
    {
        return Token::Empty;
    }
    // `12-` is negative in some reports.
    let digits = token
        .trim_start_matches(|c: char| opening(c) || matches!(c, '+' | '-'))
        .trim_end_matches(|c: char| {
            matches!(c, ')' | '%' | '*' | 'x' | '†' | '-') || is_currency_sign(c)
        });
    let numeric = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, ',' | '.' | '\''))
        && digits.ends_with(|c: char| c.is_ascii_digit());
    if numeric { Token::Value } else { Token::Word }
}

// The mark of a footnote after a value: `(b)`, `#`.
fn is_mark(token: &str) -> bool {
    let letters = token
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'));
    let is_letters = |letters: &str| {
        matches!(letters.len(), 1 | 2) && letters.chars().all(|c| c.is_ascii_lowercase())
    };
    letters.is_some_and(is_letters) || matches!(token, "#" | "†" | "‡" | "§")
}

// `27,` and `165`: a number that white space breaks at its comma.
fn is_broken(first: &str, second: &str) -> bool {
    let group = second.strip_prefix(',').unwrap_or(second);
    let digits = group.chars().take_while(char::is_ascii_digit).count();
    let is_group = digits == 3 && token_kind(group) == Token::Value;
    let head = match first.strip_suffix(',') {
        Some(head) if group.len() == second.len() => head,
        None if group.len() < second.len() => first,
        _ => return false,
    };
    // `Notes due 2022, 500 498`: a year begins no number.
    let leading = head.chars().rev().take_while(char::is_ascii_digit).count();
    is_group && (1..=3).contains(&leading) && token_kind(head) == Token::Value
}

/// What the text of a cell of a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellTextKind {
    /// One number with its signs, or a dash or `n/m` in place of one.
    Figure,
    /// `$`, `(`: belongs to the figure after it.
    Opens,
    /// `)`, `%`: belongs to the figure before it.
    Closes,
    Text,
}

/// Reads a cell whose borders are known. `spaces` part groups of digits there.
pub(crate) fn cell_text_kind(text: &str, spaces: bool) -> CellTextKind {
    let mut text = without_breaks(text);
    if spaces {
        text = without_spaces(&text);
    }
    let tokens = || text.split_whitespace().map(cell_token_kind);
    let is_value = |kind: &Token| matches!(kind, Token::Value | Token::Empty);
    let others = tokens().filter(|kind| !is_value(kind));
    let is_sign = |kind: Token| matches!(kind, Token::Opens | Token::Closes | Token::Filler);
    match tokens().filter(is_value).count() {
        1 if others.clone().all(is_sign) => CellTextKind::Figure,
        0 if others.clone().all(|kind| kind == Token::Opens) && !text.is_empty() => {
            CellTextKind::Opens
        }
        0 if others.clone().all(|kind| kind == Token::Closes) && !text.is_empty() => {
            CellTextKind::Closes
        }
        _ => CellTextKind::Text,
    }
}

// A cell has the name of its currency next to its number: `EUR 1,234`.
fn cell_token_kind(token: &str) -> Token {
    match token_kind(token) {
        Token::Word
            if Currency::from_word(token.trim_end_matches('.').to_lowercase().as_str())
                .is_some() =>
        {
            Token::Filler
        }
        kind => kind,
    }
}

// `1 234,5` as `1234,5`.
fn without_spaces(text: &str) -> String {
    let chars: Vec<char> = text.chars().map(plain_char).collect();
    let Some(start) = chars.iter().position(char::is_ascii_digit) else {
        return text.to_owned();
    };
    let number = start..number_end(&chars, start, true);
    chars
        .iter()
        .enumerate()
        .filter(|(at, c)| **c != ' ' || !number.contains(at))
        .map(|(_, c)| *c)
        .collect()
}

/// Whether dots lead from a label to its cells.
pub(crate) fn has_leader(text: &str) -> bool {
    text.contains("....") || text.contains(". . . .")
}

/// Whether a word is a leader between cells, and no text.
pub(crate) fn is_filler(word: &str) -> bool {
    matches!(token_kind(word), Token::Filler | Token::Bar)
}

/// Whether a word begins a figure: a number, a dash, or a sign of one.
pub(crate) fn is_figure_part(word: &str) -> bool {
    matches!(token_kind(word), Token::Value | Token::Empty | Token::Opens)
}

/// A cell without the white space at the commas of its number.
pub(crate) fn without_breaks(cell: &str) -> String {
    cell.replace(", ", ",").replace(" ,", ",")
}

/// The end of the label, and the byte ranges of the cells at the end of a line.
pub(crate) fn cell_spans(text: &str) -> (usize, Vec<Range<usize>>) {
    let mut tokens: Vec<(Range<usize>, Token)> = Vec::new();
    for part in text.split_whitespace() {
        let start = part.as_ptr() as usize - text.as_ptr() as usize;
        let end = start + part.len();
        let kind = match (tokens.last(), token_kind(part)) {
            (Some((before, _)), _) if is_broken(&text[before.clone()], part) => {
                let start = before.start;
                tokens.pop();
                tokens.push((start..end, Token::Value));
                continue;
            }
            (Some((_, Token::Value | Token::Closes)), _) if is_mark(part) => Token::Filler,
            (_, kind) => kind,
        };
        tokens.push((start..end, kind));
    }
    let run = tokens
        .iter()
        .rposition(|(_, kind)| *kind == Token::Word)
        .map_or(0, |last| last + 1);
    let is_year = |range: &Range<usize>| {
        let word = text[range.clone()].trim_end_matches(':');
        word.len() == 4
            && word
                .parse::<u32>()
                .is_ok_and(|year| (1900..2100).contains(&year))
    };
    let values = |tokens: &[(Range<usize>, Token)]| {
        let cells = tokens
            .iter()
            .filter(|(_, kind)| matches!(kind, Token::Value | Token::Empty));
        cells.count()
    };
    // `Notes due 2027 500 498`, and the label of a row of a year: `2023 $ 500`.
    let labels = tokens[run..]
        .iter()
        .take_while(|(range, _)| is_year(range))
        .count();
    let run = match labels {
        1 if values(&tokens[run + 1..]) > 0 => run + 1,
        _ => run,
    };
    let label_end = run.checked_sub(1).map_or(0, |last| tokens[last].0.end);
    let mut cells: Vec<Range<usize>> = Vec::new();
    let mut opened: Option<usize> = None;
    for (range, kind) in &tokens[run..] {
        match kind {
            Token::Opens => {
                opened.get_or_insert(range.start);
            }
            Token::Closes => {
                if let Some(last) = cells.last_mut() {
                    last.end = range.end;
                }
            }
            Token::Value | Token::Empty => {
                cells.push(opened.take().unwrap_or(range.start)..range.end);
            }
            Token::Filler => {}
            Token::Bar | Token::Word => opened = None,
        }
    }
    (label_end, cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(text: &str) -> (&str, Vec<String>) {
        let (label_end, spans) = cell_spans(text);
        let cells = spans.into_iter().map(|span| without_breaks(&text[span]));
        (&text[..label_end], cells.collect())
    }

    #[test]
    fn no_word_for_an_empty_cell_is_longer_than_a_mark() {
        assert!(EMPTY_CELLS.iter().all(|word| word.len() <= LONGEST_MARK));
    }

    #[test]
    fn cells_are_found_among_leaders_marks_and_broken_numbers() {
        for (text, label, expected) in [
            ("Net sales 1,749 1,603", "Net sales", vec!["1,749", "1,603"]),
            (
                "Net sales $ 1,749 $ (23)",
                "Net sales",
                vec!["$ 1,749", "$ (23)"],
            ),
            (
                "Net sales . . . 1,749 . . 1,603",
                "Net sales",
                vec!["1,749", "1,603"],
            ),
            (
                "Net sales ..... 1,749..... 1,603...",
                "Net sales",
                vec!["1,749.....", "1,603..."],
            ),
            (
                "Net sales 1,749\u{200b} \u{200b} 1,603",
                "Net sales",
                vec!["1,749\u{200b}", "1,603"],
            ),
            (
                "Net sales $ 352 (b) $ 1,686 # 328",
                "Net sales",
                vec!["$ 352", "$ 1,686", "328"],
            ),
            (
                "Net sales $ 27, 165 (1, 603)",
                "Net sales",
                vec!["$ 27,165", "(1,603)"],
            ),
            ("Net sales 27 ,165 5", "Net sales", vec!["27,165", "5"]),
            ("Receivables (b) 5 4", "Receivables (b)", vec!["5", "4"]),
            (
                "Sales were 1,749 and 1,603.",
                "Sales were 1,749 and 1,603.",
                vec![],
            ),
            (
                "Notes due 2022, 500 498",
                "Notes due 2022,",
                vec!["500", "498"],
            ),
            ("No. 333-53801, 333", "No. 333-53801,", vec!["333"]),
        ] {
            let found = cells(text);
            assert_eq!(found.0, label, "{text}");
            assert_eq!(found.1, expected, "{text}");
        }
    }
}
