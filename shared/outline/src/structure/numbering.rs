//! Numbers at the start of titles: `1.2`, `IV.`, `(a)`, `NOTE 3`, `第二章`, `一、`.

use stemma_document::english_words;
use stemma_reading::letters::{self, digit_value, opens_title};
use stemma_reading::numerals::{han_digit, parse_han, parse_letter, parse_roman};
use stemma_reading::vocabulary::NUMBERED_WORDS;

// Bounds the work on hostile titles.
const MAX_NUMBER_BYTES: usize = 24;

/// A kind of numbering. Numbers of one class follow each other; those of another class do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum NumberClass {
    Part,
    Item,
    Chapter,
    Article,
    Section,
    Exhibit,
    Schedule,
    Appendix,
    Note,
    Figure,
    /// In mentions only.
    Page,
    Decimal(u8),
    UpperRoman,
    UpperAlpha,
    LowerRoman,
    LowerAlpha,
    ParenDigit,
    ParenAlpha,
    ParenRoman,
    CjkChapter,
    CjkSection,
    CjkList,
    CjkParen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TitleNumber<'a> {
    pub(crate) class: NumberClass,
    /// The last component.
    pub(crate) value: u32,
    /// All components but the last, hashed into one number: equal for siblings.
    pub(crate) stem: u32,
    /// As written, without the word before it and the punctuation after it.
    pub(crate) text: &'a str,
    /// The title after the number.
    pub(crate) rest: &'a str,
    /// A whole number followed by only a space (`3 Results`, `17 Fields`). It is a section number if its neighbors exist.
    pub(crate) bare: bool,
}

impl<'a> TitleNumber<'a> {
    // A number without components before it.
    fn new(class: NumberClass, value: u32, text: &'a str, rest: &'a str) -> Self {
        Self {
            class,
            value,
            stem: 0,
            text,
            rest,
            bare: false,
        }
    }

    /// Whether `next` is the number after this one.
    pub(super) fn precedes(&self, next: &Self) -> bool {
        (self.class, self.stem, self.value + 1) == (next.class, next.stem, next.value)
    }
}

impl NumberClass {
    /// The class by its name in the word lists.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "part" => Self::Part,
            "item" => Self::Item,
            "chapter" => Self::Chapter,
            "article" => Self::Article,
            "section" => Self::Section,
            "exhibit" => Self::Exhibit,
            "schedule" => Self::Schedule,
            "appendix" => Self::Appendix,
            "note" => Self::Note,
            "figure" => Self::Figure,
            "page" => Self::Page,
            _ => return None,
        })
    }
}

/// All readings of the number at the start of `title`, most likely first. `I.` has two: a roman numeral and a letter.
// The order goes from forms that no other text has (words, CJK marks, brackets) to those that can be amounts or
// abbreviations and need more checks.
pub(crate) fn parse_numbers(title: &str) -> Vec<TitleNumber<'_>> {
    let title = title.trim_start();
    let one = |number| vec![number];
    worded(title)
        .or_else(|| cjk(title))
        .map(one)
        .or_else(|| parenthesized(title))
        .or_else(|| decimal(title).or_else(|| appendix_decimal(title)).map(one))
        .unwrap_or_else(|| lettered(title))
}

/// The most likely reading of the number at the start of `title`.
pub(crate) fn first_number(title: &str) -> Option<TitleNumber<'_>> {
    parse_numbers(title).into_iter().next()
}

/// The number at the start of a title, as written.
pub(crate) fn leading_number(title: &str) -> Option<String> {
    first_number(title).map(|number| number.text.to_string())
}

/// The text after the number at the start of `title`, if there is both.
pub(super) fn after_number(title: &str) -> Option<&str> {
    first_number(title)
        .map(|number| number.rest)
        .filter(|rest| !rest.is_empty())
}

/// The text after the number or the bare letter or roman numeral at the start of `title`: `A Datasets`, `IV Results`.
// Only comparisons may use it: `A Letter to Shareholders` is not a section A.
pub(super) fn after_label(title: &str) -> Option<&str> {
    after_number(title).or_else(|| bare_label(title).map(|(_, rest)| rest))
}

/// The value of the bare letter at the start of `title`, and the text after it: `B Details` gives 2.
pub(super) fn bare_letter(title: &str) -> Option<(u32, &str)> {
    let (label, rest) = bare_label(title)?;
    Some((parse_letter(label)?, rest))
}

fn bare_label(title: &str) -> Option<(&str, &str)> {
    let (label, rest) = title.trim_start().split_once([' ', '\u{a0}'])?;
    let upper = label.bytes().all(|b| b.is_ascii_uppercase());
    let rest = rest.trim_start();
    let titled = rest.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit());
    (upper && titled && (parse_letter(label).is_some() || parse_roman(label).is_some()))
        .then_some((label, rest))
}

/// Whether at least 80 % of the steps between `titles`, in reading order, go on counting: 1, 2, 3 or 2.1, 2.2, 3.1.
// Labels and amounts also begin with numbers, but do not count. One step in five may be missing: headings get lost in
// scans and in columns.
pub(super) fn are_sequential(titles: &[&str]) -> bool {
    let all: Vec<Vec<TitleNumber<'_>>> = titles.iter().map(|title| parse_numbers(title)).collect();
    let steady = all
        .windows(2)
        .filter(|pair| {
            pair[0]
                .iter()
                .any(|a| pair[1].iter().any(|b| is_next(a, b)))
        })
        .count();
    titles.len() >= 4 && steady * 5 >= (titles.len() - 1) * 4
}

/// Whether `b` may follow `a`. A 1 may follow anything of its class, because counting restarts in each chapter.
fn is_next(a: &TitleNumber<'_>, b: &TitleNumber<'_>) -> bool {
    a.class == b.class && b.value == 1 || a.precedes(b)
}

/// `NOTE 3.`, `Appendix A:`, `ARTICLE IV`.
fn worded(title: &str) -> Option<TitleNumber<'_>> {
    let end = title.find(|c: char| !c.is_ascii_alphabetic())?;
    // `section 5 applies` is the rest of a sentence.
    let word = Some(&title[..end]).filter(|word| word.starts_with(char::is_uppercase))?;
    let class = NumberClass::from_name(NUMBERED_WORDS.get(&word.to_ascii_lowercase())?)?;
    let after = title[end..].trim_start_matches([' ', '\u{a0}']);
    let length = after
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-')))
        .unwrap_or(after.len());
    let mut text = after[..length].trim_end_matches(['.', '-']);
    // `Item 1.Business`: the number ends where letters follow its dot.
    if let Some(dot) = text
        .find('.')
        .filter(|dot| text[dot + 1..].starts_with(|c: char| c.is_ascii_alphabetic()))
    {
        text = &text[..dot];
    }
    let numeral = parse_roman(text).filter(|_| text.len() > 1 || is_plain_numeral(text));
    let (stem, value) = components(text)
        .or_else(|| Some((0, numeral?)))
        .or_else(|| Some((0, parse_letter(text)?)))
        .or_else(|| Some((0, english_words::parse_number_word(text)?)))?;
    let rest = skip_separators(&after[text.len()..]);
    Some(TitleNumber {
        stem,
        ..TitleNumber::new(class, value, text, rest)
    })
}

/// `12`, `1A`, `2.07`, `10.1` as (stem, last component).
fn components(text: &str) -> Option<(u32, u32)> {
    let mut stem = 0u32;
    let mut last = None;
    for part in text.split('.') {
        let digits = part.trim_end_matches(|c: char| c.is_ascii_uppercase());
        if digits.is_empty() || digits.len() > 3 || part.len() - digits.len() > 1 {
            return None;
        }
        let suffix = part[digits.len()..]
            .bytes()
            .next()
            .map_or(0, |b| u32::from(b - b'A') + 1);
        if let Some(previous) = last {
            stem = stem.wrapping_mul(1009).wrapping_add(previous + 1);
        }
        last = Some(digits.parse::<u32>().ok()? * 32 + suffix);
    }
    // A number with a suffix letter gets a value of its own kind (32 n + letter), so that 1A and 1B follow each other but
    // 1A never follows 1 as its 2.
    last.map(|value| (stem, if value % 32 == 0 { value / 32 } else { value }))
}

fn cjk(title: &str) -> Option<TitleNumber<'_>> {
    let open = title.starts_with(['（', '(']);
    let ordinal = title.starts_with('第');
    let body = title.trim_start_matches(['第', '（', '(']);
    if title.len() - body.len() > 4 {
        return None;
    }
    let length = body
        .find(|c: char| han_digit(c).is_none() || c.is_ascii_digit() && !ordinal)
        .unwrap_or(body.len());
    let text = &body[..length];
    let value = parse_han(text)?;
    let mark = body[length..].chars().next()?;
    let class = match (ordinal, open, mark) {
        (true, _, '章' | '编' | '部') => NumberClass::CjkChapter,
        (true, _, '节' | '節' | '条') => NumberClass::CjkSection,
        (false, true, '）' | ')') => NumberClass::CjkParen,
        (false, false, '、' | '．' | '.') => NumberClass::CjkList,
        _ => return None,
    };
    let rest = skip_separators(&body[length + mark.len_utf8()..]);
    Some(TitleNumber::new(class, value, text, rest))
}

/// `(1)`, `(a)`, `(iv)`; also the open half `a)`.
fn parenthesized(title: &str) -> Option<Vec<TitleNumber<'_>>> {
    let body = title.strip_prefix('(')?;
    let close = body.bytes().take(6).position(|b| b == b')')?;
    let text = &body[..close];
    let rest = skip_separators(&body[close + 1..]);
    let digits = text.parse::<u32>().ok().filter(|value| *value <= 40);
    let is_alphabetic = text.bytes().all(|b| b.is_ascii_alphabetic());
    let values = [
        (NumberClass::ParenDigit, digits),
        (
            NumberClass::ParenAlpha,
            parse_letter(text).filter(|_| is_alphabetic),
        ),
        (
            NumberClass::ParenRoman,
            parse_roman(text).filter(|_| is_alphabetic),
        ),
    ];
    Some(readings(values, text, rest))
}

/// The possible readings of a number without a stem.
fn readings<'t>(
    values: impl IntoIterator<Item = (NumberClass, Option<u32>)>,
    text: &'t str,
    rest: &'t str,
) -> Vec<TitleNumber<'t>> {
    values
        .into_iter()
        .filter_map(|(class, value)| Some(TitleNumber::new(class, value?, text, rest)))
        .collect()
}

/// `1`, `1.`, `1.2`, `1.2.3.`, `१.२`. Numbers end at 99, so years are not numbers.
fn decimal(title: &str) -> Option<TitleNumber<'_>> {
    let length = title
        .find(|c: char| !(digit_value(c).is_some() || matches!(c, '.' | '．')))
        .unwrap_or(title.len());
    let text = title[..length].trim_end_matches(['.', '．']);
    if text.is_empty() || text.len() > MAX_NUMBER_BYTES {
        return None;
    }
    let digits = letters::plain_digits(text);
    if digits.contains("..") {
        return None;
    }
    let depth = digits.split('.').count();
    let after = &title[length..];
    let dotted = length > text.len();
    let (stem, value) = components(&digits)?;
    // `3.5 billion` is an amount. After a section number a space and a capital (or a bracket) must follow.
    let rest = skip_separators(after);
    let spaced = after.starts_with(|c: char| {
        c.is_whitespace() || matches!(c, ')' | ':' | '-' | '–' | '—' | '|' | '、')
    }) || dotted;
    let first = rest.chars().next()?;
    let titled = opens_title(first) || matches!(first, '[' | '“' | '"' | '‘' | '«');
    let listed = value <= 99 && depth <= 6 && (digits.len() <= 2 || depth > 1);
    let bare = depth == 1 && !dotted && after.trim_start() == rest;
    (spaced && titled && listed).then_some(TitleNumber {
        stem,
        bare,
        ..TitleNumber::new(NumberClass::Decimal(depth as u8), value, text, rest)
    })
}

/// `A.1 Details`, `B.2.1 Settings`: the letter of an appendix and its sections.
fn appendix_decimal(title: &str) -> Option<TitleNumber<'_>> {
    let value = title.get(..1).and_then(parse_letter)?;
    let digits = title.get(1..)?.strip_prefix('.')?;
    let length = digits
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(digits.len());
    let inner = digits[..length].trim_end_matches('.');
    let (stem, last) = components(inner)?;
    let rest = digits[length..].trim_start();
    let spaced = digits[length..].starts_with([' ', '\u{a0}', '\t']);
    let titled = title.starts_with(|c: char| c.is_ascii_uppercase())
        && rest.starts_with(|c: char| c.is_uppercase());
    let depth = 1 + inner.split('.').count();
    (spaced && titled && depth <= 6).then(|| TitleNumber {
        // Letters count apart from the chapters 1 to 26.
        stem: stem.wrapping_mul(1009).wrapping_add(value + 1_000),
        ..TitleNumber::new(
            NumberClass::Decimal(depth as u8),
            last,
            &title[..2 + inner.len()],
            rest,
        )
    })
}

/// `I.`, `iv.`, `A.`, `b.`, `A)`. A dot or bracket and a space must follow.
fn lettered(title: &str) -> Vec<TitleNumber<'_>> {
    let length = title.bytes().take_while(u8::is_ascii_alphabetic).count();
    let text = &title[..length];
    let after = &title[length..];
    if length == 0 || length > 5 || !after.starts_with(['.', ')']) {
        return Vec::new();
    }
    // `U.S. GAAP` and `a.m.` are not numbers: a space must follow the mark.
    if !after[1..].starts_with([' ', '\u{a0}', '\t']) {
        return Vec::new();
    }
    let rest = skip_separators(after);
    let upper = text.bytes().all(|b| b.is_ascii_uppercase());
    let lower = text.bytes().all(|b| b.is_ascii_lowercase());
    let (roman_class, alpha_class) = match (upper, lower) {
        (true, _) => (NumberClass::UpperRoman, NumberClass::UpperAlpha),
        (_, true) => (NumberClass::LowerRoman, NumberClass::LowerAlpha),
        _ => return Vec::new(),
    };
    let values = [
        (roman_class, parse_roman(text)),
        (alpha_class, parse_letter(text)),
    ];
    let mut numbers = readings(values, text, rest);
    if numbers.len() == 2 && !is_plain_numeral(text) {
        numbers.swap(0, 1);
    }
    numbers
}

// `Appendix C` is more often a letter than 100. Only I, V and X are read as roman numerals first.
fn is_plain_numeral(text: &str) -> bool {
    text.len() == 1 && text.starts_with(['I', 'i', 'V', 'v', 'X', 'x'])
}

/// The text without leading separators.
pub(super) fn skip_separators(text: &str) -> &str {
    text.trim_start_matches(|c: char| {
        c.is_whitespace() || matches!(c, '.' | ':' | ')' | '-' | '–' | '—' | '|' | '、' | '．')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_their_class() {
        for (title, class, value, rest) in [
            ("1.2 Types", NumberClass::Decimal(2), 2, "Types"),
            ("3. Results", NumberClass::Decimal(1), 3, "Results"),
            ("IV. Analysis", NumberClass::UpperRoman, 4, "Analysis"),
            ("B. Scope", NumberClass::UpperAlpha, 2, "Scope"),
            ("(2) Fees", NumberClass::ParenDigit, 2, "Fees"),
            ("NOTE 12 — Leases", NumberClass::Note, 12, "Leases"),
            ("Appendix A: Files", NumberClass::Appendix, 1, "Files"),
            (
                "SECTION 2.07 Repayment",
                NumberClass::Section,
                7,
                "Repayment",
            ),
            ("ARTICLE IX", NumberClass::Article, 9, ""),
            ("ARTICLE EIGHT", NumberClass::Article, 8, ""),
            ("第二章 公司", NumberClass::CjkChapter, 2, "公司"),
            ("十二、其他", NumberClass::CjkList, 12, "其他"),
            ("（三）风险", NumberClass::CjkParen, 3, "风险"),
        ] {
            let number = parse_numbers(title)[0];
            assert_eq!(number.class, class, "{title}");
            assert_eq!(number.value, value, "{title}");
            assert_eq!(number.rest, rest, "{title}");
        }
    }

    #[test]
    fn amounts_and_years_are_not_numbers() {
        for title in [
            "2023 Results",
            "3.5 billion",
            "U.S. GAAP",
            "(94) Xxxx",
            "part of",
            "$5 Notes",
            "1,234 Units",
            "",
        ] {
            assert!(first_number(title).is_none(), "{title}");
        }
    }

    #[test]
    fn sequential_sections_are_recognized() {
        assert!(are_sequential(&[
            "1.1 Scope",
            "1.2 Terms",
            "2.1 Fees",
            "2.2 Costs",
            "2.3 Taxes"
        ]));
        assert!(are_sequential(&[
            "Section 1.01 Scope",
            "Section 1.02 Terms",
            "Section 1.03 Rates",
            "Section 2.01 Loans"
        ]));
        assert!(!are_sequential(&[
            "12 Months",
            "3 Years",
            "40 Stores",
            "7 Brands"
        ]));
    }

    #[test]
    fn appendix_sections_are_numbered_by_letter_and_digit() {
        let read = |title| first_number(title).map(|n| (n.class, n.value, n.text.to_string()));
        assert_eq!(
            read("A.2 Details of Datasets"),
            Some((NumberClass::Decimal(2), 2, "A.2".into()))
        );
        assert_eq!(
            read("B.1.3 Settings"),
            Some((NumberClass::Decimal(3), 3, "B.1.3".into()))
        );
        for text in [
            "A.M. Best rates",
            "U.S. GAAP",
            "A.1",
            "a.1 Step",
            "A.3d 860",
        ] {
            assert_ne!(
                read(text).map(|n| n.0),
                Some(NumberClass::Decimal(2)),
                "{text}"
            );
        }
        assert!(are_sequential(&[
            "A.1 One",
            "A.2 Two",
            "B.1 Three",
            "B.2 Four"
        ]));
    }

    #[test]
    fn letters_of_appendices_count_on() {
        let values = ["Appendix B", "Appendix C", "Appendix D", "Appendix L"];
        let values = values.map(|title| parse_numbers(title)[0].value);
        assert_eq!(values, [2, 3, 4, 12]);
    }

    #[test]
    fn bare_letters_are_stripped_for_comparison_only() {
        assert_eq!(after_label("A Datasets"), Some("Datasets"));
        assert_eq!(after_label("IV Results"), Some("Results"));
        assert_eq!(after_label("A company with stores"), None);
        assert_eq!(bare_letter("C Implementation"), Some((3, "Implementation")));
        assert!(first_number("A Letter to Shareholders").is_none());
    }

    #[test]
    fn letter_i_has_two_readings() {
        let classes: Vec<_> = parse_numbers("I. Overview")
            .iter()
            .map(|n| (n.class, n.value))
            .collect();
        assert_eq!(
            classes,
            [(NumberClass::UpperRoman, 1), (NumberClass::UpperAlpha, 9)]
        );
    }

    #[test]
    fn overlong_number_is_rejected() {
        assert!(first_number(&"1.".repeat(3000)).is_none());
    }
}
