//! Parses the numbers of a text.

use std::ops::{Range, RangeInclusive};

use crate::letters::digit_value;
use crate::tokenizer::is_stop_word;
use stemma_document::english_words::{self, MONTHS};
use stemma_document::note_marks::is_raised;

use super::currency::{Currency, is_currency_sign};
use super::{DecimalMark, NumberMarks, NumberMention, NumberRole};
use crate::vocabulary::{
    COMPARING_WORDS, NUMBER_LABELS, NUMBER_SCALES, ORDINAL_ENDS, PERCENT_WORDS, PLURAL_NOUNS,
};

// Words after a number that may name what it counts.
const COUNTED_WORDS: usize = 3;

const YEAR_DIGITS: usize = 4;
// In place of a raised mark.
const NOTE_MARK: char = '\u{1}';
// Digits of a group of thousands.
pub(super) const GROUP: usize = 3;

// Number words that are parsed. `one` is left out: it is mostly a pronoun.
pub(super) const SPELLED: RangeInclusive<u32> = 2..=20;

/// The numbers of a text in English, in order. Parts of names (`3M`, `10-K`, `Q2`, `F-12`) are skipped.
pub fn numbers(text: &str) -> Vec<NumberMention> {
    NumberMarks::ENGLISH.numbers(text)
}

impl NumberMarks {
    /// The numbers of a text that has these marks, in order. Those whose marks leave their value open are skipped.
    pub fn numbers(self, text: &str) -> Vec<NumberMention> {
        let chars: Vec<char> = text.chars().map(plain_char).collect();
        let mut numbers = numbers_in(&chars, self);
        let bytes: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(text.len());
        for number in &mut numbers {
            number.at = byte(number.at.start)..byte(number.at.end);
        }
        numbers
    }
}

// Their places are those of characters.
fn numbers_in(chars: &[char], marks: NumberMarks) -> Vec<NumberMention> {
    let mut numbers = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        if chars[at].is_ascii_digit() || begins_with_point(chars, at) {
            let spaces = marks.has_spaces || marks.decimal != DecimalMark::Point;
            let end = number_end(chars, at, spaces);
            let end = first_year_end(&chars[at..end]).map_or(end, |length| at + length);
            // Two numbers, or one whose groups are parted by spaces.
            let is_open = !marks.has_spaces && chars[at..end].contains(&' ');
            let digits = marks.plain_digits(&chars[at..end]).filter(|_| !is_open);
            match digits {
                Some(digits) => {
                    let (number, next) = parse_number(chars, at..end, digits, marks);
                    numbers.extend(number);
                    at = next;
                }
                None => at = run_end(chars, end),
            }
        } else if chars[at].is_alphanumeric() {
            let end = run_end(chars, at);
            numbers.extend(spelled_number(&chars[at..end]).map(|number| NumberMention {
                at: at..end,
                ..number
            }));
            at = end;
        } else {
            at += 1;
        }
    }
    numbers
}

pub(crate) fn plain_char(c: char) -> char {
    match c {
        _ if c.is_ascii() => c,
        c if is_raised(c) => NOTE_MARK,
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2019}' | '\u{66C}' => '\'',
        '\u{66B}' => '.',
        '\u{A0}' | '\u{202F}' | '\u{2009}' => ' ',
        '٪' | '％' => '%',
        c => digit_value(c)
            .and_then(|digit| char::from_digit(digit, 10))
            .unwrap_or(c),
    }
}

/// `△1,234` is negative in Japanese, and may be a rise elsewhere.
pub(crate) fn is_triangle(c: char) -> bool {
    matches!(c, '△' | '▲' | '▽' | '▼')
}

/// A digit of any script.
pub(crate) fn is_decimal_digit(c: char) -> bool {
    digit_value(c).is_some()
}

fn run_end(chars: &[char], start: usize) -> usize {
    chars[start..]
        .iter()
        .position(|c| !c.is_alphanumeric())
        .map_or(chars.len(), |length| start + length)
}

// The end of a word, and of the currency in `T€`.
fn unit_end(chars: &[char], start: usize) -> usize {
    let end = run_end(chars, start);
    let has_sign = end > start && chars.get(end).is_some_and(|c| is_currency_sign(*c));
    end + usize::from(has_sign)
}

fn is_digit(chars: &[char], at: usize) -> bool {
    chars.get(at).is_some_and(char::is_ascii_digit)
}

// `.50`, but not the end of `No.5` or of a leader.
fn begins_with_point(chars: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| chars[before]);
    chars[at] == '.'
        && is_digit(chars, at + 1)
        && before.is_none_or(|before| !before.is_alphanumeric() && before != '.')
}

/// The end of all digits that marks join, and `spaces` between groups of three.
pub(crate) fn number_end(chars: &[char], start: usize, spaces: bool) -> usize {
    let mut end = start;
    let mut has_other_marks = false;
    loop {
        let group = end;
        while is_digit(chars, end) {
            end += 1;
        }
        let is_first_group = (1..=GROUP).contains(&(end - start));
        let is_group = end - group == GROUP || group == start && is_first_group;
        match chars.get(end) {
            Some('.' | ',' | '\'') if is_digit(chars, end + 1) => has_other_marks = true,
            Some(' ') if spaces && !has_other_marks && is_group && begins_group(chars, end + 1) => {
            }
            _ => return end,
        }
        end += 1;
    }
}

fn begins_group(chars: &[char], at: usize) -> bool {
    (at..at + GROUP).all(|at| is_digit(chars, at)) && !is_digit(chars, at + GROUP)
}

// `2023,2022`
fn first_year_end(chars: &[char]) -> Option<usize> {
    let mut years = chars.split(|c| *c == ',');
    years
        .all(|year| year.len() == YEAR_DIGITS && year.iter().all(char::is_ascii_digit))
        .then_some(YEAR_DIGITS)
}

// The number at `start..end`, unless it is part of a name; and the index to continue at. `plain` are its digits.
fn parse_number(
    chars: &[char],
    Range { start, end }: Range<usize>,
    plain: String,
    marks: NumberMarks,
) -> (Option<NumberMention>, usize) {
    // `F-12`, `Q-2`; a dash between numbers does not count.
    let named_before = matches!(&chars[..start], [.., letter, '-'] if letter.is_alphabetic());
    let suffix_end = unit_end(chars, end);
    let suffix: String = chars[end..suffix_end]
        .iter()
        .collect::<String>()
        .to_lowercase();
    let currency_at = currency_start(chars, start);
    let glued = scale_of(&suffix);
    // `the 1990s`, which are no amount either.
    let ordinal = ORDINAL_ENDS.contains(&suffix) || suffix == "s";
    let scale = match suffix.as_str() {
        "" | "x" => None,
        _ if ordinal => None,
        _ if glued.is_some() && (currency_at.is_some() || suffix.len() > 1) => glued,
        // `3M`, `10K`.
        _ => return (None, suffix_end),
    };
    // `10-K`, `8-K`.
    let form = chars.get(end) == Some(&'-')
        && chars.get(end + 1).is_some_and(char::is_ascii_alphabetic)
        && !chars.get(end + 2).is_some_and(|c| c.is_alphanumeric());
    if named_before || form {
        return (None, suffix_end);
    }
    let marks_end = chars[suffix_end..]
        .iter()
        .position(|c| *c != NOTE_MARK)
        .map_or(chars.len(), |length| suffix_end + length);
    let digits: String = chars[start..end].iter().collect();
    // `10⁶` may be a power.
    if marks_end > suffix_end && digits == "10" {
        return (None, marks_end);
    }
    let suffix_end = marks_end;
    let Ok(value) = plain.parse::<f64>() else {
        return (None, suffix_end);
    };
    let (word, word_end) = next_word(chars, suffix_end);
    let spelled_scale = scale_of(&word).filter(|_| word.len() > 2);
    // `5%`, `5 %`, `(5)%`.
    let rest: String = chars[suffix_end..].iter().take(3).collect();
    let rest = rest.trim_start_matches([' ', ')']);
    let percent = rest.starts_with('%') || PERCENT_WORDS.contains(&word);
    let sign_at = currency_at.unwrap_or(start);
    let sign = sign_at.checked_sub(1).map(|at| chars[at]);
    let before_sign = chars[..sign_at].iter().rfind(|c| **c != ' ').copied();
    let has_triangle = before_sign.is_some_and(is_triangle);
    if has_triangle && !marks.has_triangles {
        return (None, suffix_end);
    }
    // `( 5 )`
    let opens = before_sign == Some('(');
    let dashed = sign == Some('-')
        && !sign_at
            .checked_sub(2)
            .is_some_and(|at| chars[at].is_alphanumeric());
    let closes = chars[suffix_end..]
        .iter()
        .find(|c| !c.is_whitespace() && **c != '%')
        == Some(&')');
    let scale = scale.or(spelled_scale);
    let decimals = plain
        .split_once('.')
        .map_or(0, |(_, places)| i32::try_from(places.len()).unwrap_or(0));
    let measured = percent
        || scale.is_some()
        || currency_at.is_some()
        || plain.len() < digits.len()
        || decimals > 0;
    let year = digits.len() == 4 && (1900.0..2100.0).contains(&value);
    let until = if spelled_scale.is_some() {
        word_end
    } else {
        suffix_end
    };
    let before_word = previous_word(chars, start);
    let by_sign =
        currency_at.and_then(|at| Currency::from_word(chars[at].encode_utf8(&mut [0; 4])));
    let currency = by_sign
        .or_else(|| Currency::from_word(&next_word(chars, until).0))
        .or_else(|| Currency::from_word(&before_word));
    // `Receivables(1)`: the mark of a footnote.
    let is_mark = digits.len() <= 2
        && matches!(&chars[..start], [.., before, '('] if before.is_alphabetic() || *before == ')')
        && chars.get(end) == Some(&')');
    let role = match () {
        () if is_mark => NumberRole::Name,
        () if measured || currency.is_some() => NumberRole::Amount,
        () if year => NumberRole::Year,
        // `December 31`, `31 December`, `12/31`.
        () if ordinal || is_label(&before_word) || MONTHS.contains(&word.as_str()) => {
            NumberRole::Name
        }
        () if chars[..start].ends_with(&['/']) || chars[end..].starts_with(&['/']) => {
            NumberRole::Name
        }
        () if chars.get(end) == Some(&'-') => NumberRole::Count,
        () => NumberRole::Amount,
    };
    let things = currency.is_none() && !percent && counts_things(chars, until);
    let text: String = chars[sign_at..until].iter().collect();
    let ends_in_dash = chars.get(suffix_end) == Some(&'-')
        && !chars
            .get(suffix_end + 1)
            .is_some_and(|c| c.is_alphanumeric());
    let negative = dashed || has_triangle || opens && closes;
    (
        Some(NumberMention {
            text,
            digits,
            plain,
            at: start..end,
            value,
            decimals,
            scale,
            is_negative: negative,
            ends_in_dash,
            is_percent: percent,
            currency,
            is_count: things,
            role,
        }),
        until,
    )
}

// Whether the words after a number name things in the plural: `31 stores`, `92,000 full-time employees`. In a table, a number is
// followed by another number or a label, in a sentence by a stop word.
fn counts_things(chars: &[char], at: usize) -> bool {
    let mut at = at;
    for _ in 0..COUNTED_WORDS {
        let (word, end) = next_word(chars, at);
        let begins = end - word.chars().count().min(end);
        let lower = chars[begins..end].iter().all(|c| c.is_lowercase());
        if word.is_empty() || !lower || is_stop_word(&word) || COMPARING_WORDS.contains(&word) {
            return false;
        }
        let plural =
            word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us");
        if plural || PLURAL_NOUNS.contains(&word) {
            return true;
        }
        at = end;
    }
    false
}

// The index of a currency sign before a number, with or without a space.
fn currency_start(chars: &[char], start: usize) -> Option<usize> {
    let before = start.checked_sub(1)?;
    let at = match chars[before] {
        ' ' => before.checked_sub(1)?,
        _ => before,
    };
    is_currency_sign(chars[at]).then_some(at)
}

// The word after `at` and one space or hyphen, in lower case, and its end.
fn next_word(chars: &[char], at: usize) -> (String, usize) {
    let start = if matches!(chars.get(at), Some(' ' | '-')) {
        at + 1
    } else {
        at
    };
    let end = unit_end(chars, start.min(chars.len()));
    (
        chars[start.min(end)..end]
            .iter()
            .collect::<String>()
            .to_lowercase(),
        end,
    )
}

fn previous_word(chars: &[char], at: usize) -> String {
    let trimmed = chars[..at]
        .iter()
        .rposition(|c| !matches!(c, ' ' | '.'))
        .map_or(0, |last| last + 1);
    let start = chars[..trimmed]
        .iter()
        .rposition(|c| !c.is_alphabetic())
        .map_or(0, |before| before + 1);
    chars[start..trimmed]
        .iter()
        .collect::<String>()
        .to_lowercase()
}

/// `millions` is 1,000,000.
pub fn scale_of(word: &str) -> Option<u64> {
    NUMBER_SCALES.get(word)?.parse().ok()
}

fn is_label(word: &str) -> bool {
    NUMBER_LABELS.contains(word) || MONTHS.contains(&word)
}

fn spelled_number(word: &[char]) -> Option<NumberMention> {
    let text: String = word.iter().collect();
    let value = english_words::parse_number_word(&text).filter(|value| SPELLED.contains(value))?;
    Some(NumberMention {
        digits: value.to_string(),
        plain: value.to_string(),
        at: 0..0,
        text,
        value: f64::from(value),
        decimals: 0,
        scale: None,
        is_negative: false,
        ends_in_dash: false,
        is_percent: false,
        currency: None,
        is_count: false,
        role: NumberRole::Count,
    })
}
