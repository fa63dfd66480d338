//! Finds lines that may be headings, with their kind, number and title.

use stemma_document::english_words;

use crate::heading_look::TitleText;
use crate::letters::{digit_value, is_caseless, is_small, plain_digits};
use crate::numerals::{han_digit, parse_han, parse_letter, parse_roman};
use crate::section_names::unlabeled;
use crate::sentences::{is_full_stop, is_pause, is_stop};
use crate::title;
use crate::vocabulary::HEADING_WORDS;

// Limits of a heading, including continuation lines.
const MAX_CHARS: usize = 160;
const MAX_WORDS: usize = 24;
// Limits of headings recognized only by style (capitals, bare numbers, underlines).
const MAX_BARE_CHARS: usize = 90;
const MAX_BARE_WORDS: usize = 12;
// Bounds the work on hostile numbers.
const MAX_NUMBER_BYTES: usize = 64;

/// Kinds of headings, in the order of their usual nesting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HeadingKind {
    // Also volume, book, title; 编, 部分.
    Part,
    Appendix,
    // Also 章.
    Chapter,
    // Also amendments.
    Article,
    Item,
    // Also 节.
    Section,
    Note,
    DoubleUnderline,
    Underline,
    Roman,
    Letter,
    // `1.` has depth 1, `1.2` depth 2.
    Decimal(u8),
    Han,
    Capitals,
}

impl HeadingKind {
    /// Whether the label is only a number. These need more evidence, since lists look alike.
    pub(super) fn is_bare(self) -> bool {
        matches!(
            self,
            HeadingKind::Roman | HeadingKind::Letter | HeadingKind::Decimal(_) | HeadingKind::Han
        )
    }

    pub(super) fn is_numbered(self) -> bool {
        !matches!(
            self,
            HeadingKind::DoubleUnderline | HeadingKind::Underline | HeadingKind::Capitals
        )
    }
}

#[derive(Debug, Clone)]
pub(super) struct HeadingCandidate {
    /// 0-based first and last line of the title.
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) kind: HeadingKind,
    /// `[1, 1]` for `1A`, `[1, 2]` for `1.2`; empty for kinds without numbers.
    pub(super) number: Vec<u32>,
    pub(super) title: String,
    /// The title is only the label; text follows on the same line.
    pub(super) run_in: bool,
}

impl HeadingCandidate {
    fn unnumbered(kind: HeadingKind, first: usize, last: usize, title: String) -> Self {
        Self {
            first,
            last,
            kind,
            number: Vec::new(),
            title,
            run_in: false,
        }
    }
}

/// Returns the candidates in order. `is_prose` tells whether a 0-based line may be a heading.
pub(super) fn find_candidates(
    lines: &[String],
    is_blank: &[bool],
    is_prose: impl Fn(usize) -> bool,
) -> Vec<HeadingCandidate> {
    let view = LineView { lines, is_blank };
    let mut candidates: Vec<HeadingCandidate> = Vec::new();
    let mut index = 0;
    while index < lines.len() {
        let candidate = if is_blank[index] || !is_prose(index) {
            None
        } else {
            view.candidate(index, candidates.last())
        };
        index = candidate.as_ref().map_or(index, |candidate| candidate.last) + 1;
        candidates.extend(candidate);
    }
    candidates
}

struct LineView<'a> {
    lines: &'a [String],
    is_blank: &'a [bool],
}

impl LineView<'_> {
    fn candidate(&self, at: usize, before: Option<&HeadingCandidate>) -> Option<HeadingCandidate> {
        let line = self.lines[at].trim();
        let is_isolated =
            at == 0 || self.is_blank[at - 1] || before.is_some_and(|before| before.last + 1 == at);
        if !is_isolated
            || line.len() > 4 * MAX_CHARS && !line.starts_with(char::is_uppercase)
            || is_contents_entry(line)
        {
            return None;
        }
        let mut candidate = self
            .labeled(at, line)
            .or_else(|| self.unlabeled(at, line))?;
        candidate.title = title::clean(&candidate.title);
        Some(candidate).filter(|candidate| !candidate.title.is_empty())
    }

    fn labeled(&self, at: usize, line: &str) -> Option<HeadingCandidate> {
        let label = parse_word_label(line)
            .or_else(|| parse_han_label(line))
            .or_else(|| parse_bare_label(line))?;
        let mut candidate = HeadingCandidate {
            first: at,
            last: at,
            kind: label.kind,
            number: label.number,
            title: line.into(),
            run_in: false,
        };
        if label.rest.is_empty() {
            self.absorb_title_below(&mut candidate);
            return Some(candidate);
        }
        if let Some((last, title)) = self.join_wrapped(at, line, label.rest, label.kind) {
            candidate.last = last;
            candidate.title = title;
            return Some(candidate);
        }
        let begins_text = label
            .rest
            .starts_with(|c: char| c.is_uppercase() || matches!(c, '(' | '"' | '“' | '['));
        if label.kind.is_bare() || !label.closed || !begins_text {
            return None;
        }
        candidate.title = line[..line.len() - label.rest.len()].into();
        candidate.run_in = true;
        Some(candidate)
    }

    // Joins a heading with its continuation lines, if a blank line or a change of style follows.
    fn join_wrapped(
        &self,
        at: usize,
        line: &str,
        rest: &str,
        kind: HeadingKind,
    ) -> Option<(usize, String)> {
        let fits: fn(&str) -> bool = if kind.is_bare() {
            is_bare_title
        } else {
            is_title
        };
        let mut last = at;
        let mut title = line.to_owned();
        while last - at < 3 && !self.ends_block(last) {
            let next = self.lines[last + 1].trim();
            if underline_kind(next).is_some()
                || parse_word_label(next).is_some()
                || parse_bare_label(next).is_some()
            {
                break;
            }
            title = format!("{title} {next}");
            last += 1;
        }
        let whole = title.get(line.len() - rest.len()..)?;
        if self.ends_block(last) && fits(whole) {
            return Some((last, title));
        }
        // Without a blank line below, the heading must be short and the text must start a new sentence.
        let next = self.lines.get(at + 1).map_or("", |next| next.trim());
        let begins_afresh = next.starts_with(|c: char| !is_small(c))
            && line.chars().count() * 4 < next.chars().count() * 3;
        let apart = underline_kind(next).is_some() || (begins_afresh && !kind.is_bare());
        (apart && fits(rest)).then(|| (at, line.to_owned()))
    }

    // Joins `ARTICLE I` with a title in capitals below it, such as `DEFINITIONS`.
    fn absorb_title_below(&self, candidate: &mut HeadingCandidate) {
        let below = (candidate.last + 1..self.lines.len())
            .take(3)
            .find(|index| !self.is_blank[*index]);
        let Some(index) =
            below.filter(|index| !candidate.kind.is_bare() && self.ends_block(*index))
        else {
            return;
        };
        let line = self.lines[index].trim();
        if is_capitals_heading(line)
            && parse_word_label(line).is_none()
            && parse_bare_label(line).is_none()
        {
            candidate.title = format!("{} {line}", candidate.title);
            candidate.last = index;
        }
    }

    fn unlabeled(&self, at: usize, line: &str) -> Option<HeadingCandidate> {
        let next = self.lines.get(at + 1).map_or("", |next| next.trim_end());
        if let Some(kind) = underline_kind(next.trim()) {
            return (is_underlined(line, next.trim()) && !self.heads_table(at + 2))
                .then(|| HeadingCandidate::unnumbered(kind, at, at + 1, line.into()));
        }
        let mut last = at;
        while last - at < 3
            && !self.ends_block(last)
            && is_capitals_heading(self.lines[last + 1].trim())
        {
            last += 1;
        }
        // Several short lines in capitals are more often an address or a cover than a title.
        let is_long = last == at || self.lines[at].trim().chars().count() >= 40;
        let title = self.lines[at..=last]
            .iter()
            .map(|line| line.trim())
            .collect::<Vec<_>>()
            .join(" ");
        let alone = is_capitals_heading(line)
            && self.ends_block(last)
            && is_long
            && title.chars().count() <= MAX_CHARS;
        (alone && !self.is_signature(at, last))
            .then(|| HeadingCandidate::unnumbered(HeadingKind::Capitals, at, last, title))
    }

    // Whether a blank line or the end follows.
    fn ends_block(&self, index: usize) -> bool {
        self.is_blank.get(index + 1).copied().unwrap_or(true)
    }

    fn heads_table(&self, index: usize) -> bool {
        let line = self.lines.get(index).map_or("", |line| line.trim());
        line.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '$' | '(' | '|' | '-'))
    }

    // Names and firms near a signature line look like headings in capitals.
    fn is_signature(&self, first: usize, last: usize) -> bool {
        let around = self.lines[first.saturating_sub(4)..(last + 5).min(self.lines.len())].iter();
        around
            .map(|line| line.trim())
            .any(|line| line.contains("/s/") || line.contains("/S/") || line.starts_with("____"))
    }
}

struct HeadingLabel<'a> {
    kind: HeadingKind,
    number: Vec<u32>,
    // Whether a full stop, colon or dash follows the number.
    closed: bool,
    rest: &'a str,
}

// `Section. 2.`, `PART I`, `Item 1A:`. A lower-case word after the number means a reference within a sentence.
fn parse_word_label(line: &str) -> Option<HeadingLabel<'_>> {
    let (word, rest) = line.split_once(char::is_whitespace)?;
    if !word.starts_with(char::is_uppercase) || word.len() > 12 {
        return None;
    }
    let word = word.trim_end_matches(['.', ':']).to_lowercase();
    let kind = match HEADING_WORDS.get(&word)? {
        "part" => HeadingKind::Part,
        "appendix" => HeadingKind::Appendix,
        "chapter" => HeadingKind::Chapter,
        "article" => HeadingKind::Article,
        "item" => HeadingKind::Item,
        "section" => HeadingKind::Section,
        "note" => HeadingKind::Note,
        _ => return None,
    };
    let rest = rest.trim_start();
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (number, behind) = rest.split_at(end);
    let bare = number.trim_end_matches(['.', ':', ')', '—', '–', '-', ',']);
    let opened = behind.trim_start();
    let text = opened.trim_start_matches(['-', '–', '—', ':']).trim_start();
    let closed = (bare.len() < number.len() && !number.ends_with(',')) || text.len() < opened.len();
    let goes_on = !closed
        && !text.is_empty()
        && !text.starts_with(|c: char| c.is_uppercase() || !c.is_ascii());
    (!goes_on && !number.ends_with(',')).then_some(())?;
    Some(HeadingLabel {
        kind,
        number: parse_ordinal(bare)?,
        closed,
        rest: text,
    })
}

// `第三章 管理层讨论`, `一、基本情况`.
fn parse_han_label(line: &str) -> Option<HeadingLabel<'_>> {
    if let Some(numbered) = line.strip_prefix('第') {
        let (number, rest) = numbered.split_at(han_number_bytes(numbered));
        let units = [
            ("编", HeadingKind::Part),
            ("部分", HeadingKind::Part),
            ("章", HeadingKind::Chapter),
            ("节", HeadingKind::Section),
        ];
        let (kind, rest) = units
            .iter()
            .find_map(|(unit, kind)| Some((*kind, rest.strip_prefix(unit)?)))?;
        return Some(HeadingLabel {
            kind,
            number: vec![parse_han(number)?],
            closed: false,
            rest: rest.trim_start(),
        });
    }
    let (number, rest) = line.split_at(han_number_bytes(line));
    let rest = rest.strip_prefix('、')?;
    Some(HeadingLabel {
        kind: HeadingKind::Han,
        number: vec![parse_han(number)?],
        closed: true,
        rest: rest.trim_start(),
    })
}

// `1. Title`, `1.2 Title`, `IV. Title`, `B. Title`.
fn parse_bare_label(line: &str) -> Option<HeadingLabel<'_>> {
    let (number, rest) = line.split_once(|c: char| c.is_whitespace() || c == '、')?;
    let bare = number.strip_suffix(['.', '．']).unwrap_or(number);
    let closed = bare.len() < number.len();
    let rest = rest.trim_start();
    let (kind, number) = match parse_decimals(bare) {
        Some(parts) => (HeadingKind::Decimal(u8::try_from(parts.len()).ok()?), parts),
        None if !closed => return None,
        None => match (upper_roman(bare), upper_letter(bare)) {
            // `C.` and `V.` are letters or Roman numerals; the open series decides later. A lone `I.` starts a Roman
            // series.
            (Some(value), letter) if letter.is_none() || bare == "I" => {
                (HeadingKind::Roman, vec![value])
            }
            (_, Some(value)) => (HeadingKind::Letter, vec![value]),
            _ => return None,
        },
    };
    Some(HeadingLabel {
        kind,
        number,
        closed,
        rest,
    })
}

// In digits of any script.
fn parse_decimals(text: &str) -> Option<Vec<u32>> {
    if !text.starts_with(|c| digit_value(c).is_some()) || text.len() > MAX_NUMBER_BYTES {
        return None;
    }
    let parts: Vec<u32> = plain_digits(text)
        .split('.')
        .take(9)
        .map(|part: &str| {
            part.parse()
                .ok()
                .filter(|n| *n < 1_000 && part.bytes().all(|byte| byte.is_ascii_digit()))
        })
        .collect::<Option<_>>()?;
    (parts.len() < 9).then_some(parts)
}

// `1A`, `12`, `2.3`, `IV`, `B`, `TWO`.
fn parse_ordinal(text: &str) -> Option<Vec<u32>> {
    parse_decimals(text)
        .or_else(|| {
            let (digits, last) = text.split_at_checked(text.len().checked_sub(1)?)?;
            Some([parse_decimals(digits)?, vec![parse_letter(last)?]].concat())
        })
        .or_else(|| {
            // Documents spell out at most twelve part numbers.
            let number = upper_roman(text)
                .or_else(|| upper_letter(text))
                .or_else(|| english_words::parse_number_word(text).filter(|n| *n <= 12))?;
            Some(vec![number])
        })
}

/// A capital letter.
pub(super) fn upper_letter(text: &str) -> Option<u32> {
    parse_letter(text).filter(|_| text.starts_with(char::is_uppercase))
}

/// A Roman numeral in capitals.
pub(super) fn upper_roman(text: &str) -> Option<u32> {
    parse_roman(text).filter(|_| !text.contains(char::is_lowercase))
}

// Length of the number at the start of `text`.
fn han_number_bytes(text: &str) -> usize {
    text.find(|c| han_digit(c).is_none()).unwrap_or(text.len())
}

// Entries of a printed table of contents have dot leaders, or a page number after a gap.
fn is_contents_entry(line: &str) -> bool {
    let without_number =
        line.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | 'F' | 'A'));
    let has_number =
        line.ends_with(|c: char| c.is_ascii_digit()) && without_number.len() < line.len();
    let gap = without_number.ends_with("  ") || without_number.ends_with('\t');
    let label_gap = without_number.split_whitespace().count() < 2;
    line.contains("....") || line.contains(". . .") || (has_number && gap && !label_gap)
}

// A title after a word and a number.
fn is_title(text: &str) -> bool {
    let title = TitleText::new(text);
    let words = title.words();
    let starts_well = text.starts_with(|c: char| {
        !is_small(c) && (c.is_alphanumeric() || matches!(c, '"' | '“' | '(' | '['))
    });
    let ends_well = !title.is_cut_off()
        && (!text.ends_with(is_full_stop)
            || words <= 4
            || title.is_capitals()
            || title.is_title_case());
    starts_well
        && ends_well
        && words <= MAX_WORDS
        && text.chars().count() <= MAX_CHARS
        && !has_columns(text)
        && !has_sentence_end(text)
}

// After a bare number, a title must be shorter, not a sentence, and mostly capitalized unless very short.
fn is_bare_title(text: &str) -> bool {
    let title = TitleText::new(text);
    let words = title.words();
    let short = text.chars().count() <= MAX_BARE_CHARS && words <= MAX_BARE_WORDS;
    let ends_well =
        !text.ends_with(|c| is_stop(c) || matches!(c, ':' | '：')) || title.is_capitals();
    short
        && ends_well
        && is_title(text)
        && title.letters >= 2
        && (words <= 5 || title.is_title_case())
}

// A full stop after a lower-case word means more than one sentence.
fn has_sentence_end(text: &str) -> bool {
    let mut words = text.split_whitespace().rev();
    words.next();
    words.any(|word: &str| {
        let stem = word.trim_end_matches(is_stop);
        let ends_plainly = word.ends_with('.') && stem.chars().all(char::is_lowercase);
        stem.len() < word.len()
            && stem.chars().count() >= 4
            && (ends_plainly || stem.contains(is_caseless))
    })
}

fn has_columns(text: &str) -> bool {
    text.contains("   ") || text.contains('\t')
}

// A line in capitals that is not an address, a table row or a sentence.
fn is_capitals_heading(line: &str) -> bool {
    // `PROPOSAL NO. 2: …`
    let words: Vec<&str> = unlabeled(line).split_whitespace().collect();
    let has_word = words
        .iter()
        .any(|word| word.chars().filter(|c| c.is_alphabetic()).count() >= 4);
    let has_digits = words
        .iter()
        .any(|word| word.chars().any(|c| c.is_ascii_digit()) && !is_year(word));
    let short = words.len() <= MAX_BARE_WORDS && line.chars().count() <= MAX_BARE_CHARS;
    let ends_well = !line.ends_with(['.', ',', ';', '-', '/']);
    has_word
        && short
        && ends_well
        && TitleText::new(line).is_capitals()
        && !has_digits
        && line
            .chars()
            .all(|c: char| c.is_alphanumeric() || c == ' ' || "&'’,-–—/():.".contains(c))
        && !has_columns(line)
}

fn is_year(word: &str) -> bool {
    let digits = word.trim_matches(|c: char| !c.is_alphanumeric());
    digits.len() == 4
        && (digits.starts_with("19") || digits.starts_with("20"))
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

// At least three `=`, `-` or `~` underline the line above.
fn underline_kind(line: &str) -> Option<HeadingKind> {
    let first = line.chars().next()?;
    if line.len() < 3 || line.chars().any(|c| c != first) {
        return None;
    }
    match first {
        '=' => Some(HeadingKind::DoubleUnderline),
        '-' | '~' => Some(HeadingKind::Underline),
        _ => None,
    }
}

fn is_underlined(line: &str, rule: &str) -> bool {
    let length = line.chars().count();
    let fits = rule.len() * 10 >= length * 6 && rule.len() * 10 <= length * 16 + 20;
    let has_word = line.chars().filter(|c| c.is_alphabetic()).count() >= 2;
    fits && has_word
        && length <= MAX_BARE_CHARS
        && !has_columns(line)
        && !line.ends_with(|c| is_pause(c) || is_full_stop(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_are_parsed_in_every_notation() {
        assert_eq!(parse_ordinal("1A"), Some(vec![1, 1]));
        assert_eq!(parse_ordinal("XIV"), Some(vec![14]));
        assert_eq!(parse_ordinal("two"), Some(vec![2]));
        assert_eq!(parse_ordinal("2.3"), Some(vec![2, 3]));
        assert_eq!(parse_ordinal("A1"), None);
        assert_eq!(parse_decimals("1.2.3.4.5.6.7.8.9.10"), None);
    }

    #[test]
    fn references_in_sentences_are_not_labels() {
        for line in [
            "Section 2 of the act",
            "Item 7, above",
            "Part of it",
            "section 2. Powers",
            "Article whatever",
        ] {
            assert!(parse_word_label(line).is_none(), "{line}");
        }
        let label = parse_word_label("Item 1A. — Risk Factors").unwrap();
        assert_eq!(
            (label.kind, label.number, label.closed, label.rest),
            (HeadingKind::Item, vec![1, 1], true, "Risk Factors")
        );
    }

    #[test]
    fn addresses_and_tables_in_capitals_are_not_headings() {
        assert!(
            is_capitals_heading("MANAGEMENT'S DISCUSSION AND ANALYSIS")
                && is_capitals_heading("OUTLOOK FOR 2024")
                && is_capitals_heading("PROPOSAL NO. 2: ELECTION OF DIRECTORS")
        );
        for line in [
            "NEW YORK, NEW YORK 10017",
            "12 FIRST STREET",
            "ASSETS   LIABILITIES",
            "STOP.",
            "A B C",
            "Mixed CASE",
            "12,345",
            "ACME, ",
        ] {
            assert!(!is_capitals_heading(line.trim_end_matches(' ')), "{line}");
        }
    }
}
