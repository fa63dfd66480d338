//! Periods that texts and heads of columns name: fiscal years, quarters, dates.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use stemma_document::english_words::{MONTHS, parse_number_word};

use crate::vocabulary::{
    AFTER_LENGTHS, AMBIGUOUS_MONTHS, HEAD_WORDS, LENGTH_NAMES, MONTH_NUMBERS, MONTH_WORDS,
    ORDINALS, PERIOD_MARKS, PERIOD_NAMES,
};

// Words between a period's length or month and its year: `three months ended September 30, 2022`.
const WORDS_BEFORE_YEAR: usize = 7;

/// A year, and what more is said about the period. What is not said is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatedPeriod {
    pub year: Option<i32>,
    /// 1–12: the month in which it ends.
    pub month: Option<u32>,
    /// Length in months.
    pub length: Option<u32>,
    /// 1–4.
    pub quarter: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeriodMention {
    pub period: StatedPeriod,
    /// Byte range of the words that name the year, or the length if there is no year.
    pub at: Range<usize>,
}

impl StatedPeriod {
    /// Whether both may be the same period: nothing that both say differs.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let same =
            |one: Option<u32>, two: Option<u32>| one.is_none() || two.is_none() || one == two;
        (self.year.is_none() || other.year.is_none() || self.year == other.year)
            && same(self.month, other.month)
            && same(self.length, other.length)
            && same(self.quarter, other.quarter)
    }

    /// Fills what this period does not say from words above it, such as `Three Months Ended`.
    pub fn or(self, above: Self) -> Self {
        Self {
            year: self.year.or(above.year),
            month: self.month.or(above.month),
            length: self.length.or(above.length),
            quarter: self.quarter.or(above.quarter),
        }
    }

    /// Whether a statement that says `stated` may mean this period: a part of a year is meant only where the statement says so.
    pub fn is_meant_by(&self, stated: &Self) -> bool {
        self.agrees_with(stated) && (!self.is_part() || stated.is_part() || stated.year.is_none())
    }

    /// Whether it is shorter than a year.
    pub fn is_part(&self) -> bool {
        self.quarter.is_some() || self.length.is_some_and(|months| months < 12)
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The period by the name of its fiscal year. One that ends in January or February may be named after the year before (`shift` is -1).
    pub fn in_fiscal_year(self, shift: i32) -> Self {
        match self.month {
            Some(1 | 2) => Self {
                year: self.year.map(|year| year + shift),
                ..self
            },
            _ => self,
        }
    }

    /// For ordering: the later of two periods is greater.
    pub fn order(&self) -> (i32, u32) {
        (
            self.year.unwrap_or(0),
            self.month
                .or(self.quarter.map(|quarter| quarter * 3))
                .unwrap_or(0),
        )
    }
}

impl fmt::Display for StatedPeriod {
    /// `2023`, `Q2 2023`, `3 months to 2023-06`, `2023-12`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(quarter) = self.quarter {
            write!(formatter, "Q{quarter} ")?;
        } else if let Some(length) = self.length.filter(|length| *length != 12) {
            write!(formatter, "{length} months to ")?;
        }
        match (self.year, self.month) {
            (Some(year), Some(month)) => write!(formatter, "{year}-{month:02}"),
            (Some(year), None) => write!(formatter, "{year}"),
            (None, Some(month)) => write!(formatter, "month {month}"),
            (None, None) => write!(formatter, "?"),
        }
    }
}

/// The periods that a text names, in order. Words without a year that name a length (`nine months ended`) are a mention of their own
/// if no year follows.
pub fn period_mentions(text: &str) -> Vec<PeriodMention> {
    let mut mentions: Vec<PeriodMention> = Vec::new();
    // What was said since the last year, where it begins, and how many words ago.
    let mut open = StatedPeriod::default();
    let mut open_at: Option<Range<usize>> = None;
    let mut age = 0;
    let words = words(text);
    let mut has_length = false;
    for (index, (at, word)) in words.iter().enumerate() {
        let next = words.get(index + 1).map(|(_, next)| next.as_ref());
        let before = index.checked_sub(1).map(|at| words[at].1.as_ref());
        age += 1;
        if age > WORDS_BEFORE_YEAR {
            mentions.extend(length_mention(open, open_at.take().filter(|_| has_length)));
            (open, has_length) = (StatedPeriod::default(), false);
        }
        if let Some((year, quarter)) = year_of(word, before) {
            let period = StatedPeriod {
                year: Some(year),
                quarter,
                length: quarter.map(|_| 3),
                month: None,
            };
            // `December 31, 2022 and 2021`: the years share the words before.
            let is_bare = word.chars().all(|c| c.is_ascii_digit());
            mentions.push(PeriodMention {
                period: if is_bare { period.or(open) } else { period },
                at: at.clone(),
            });
            (open_at, has_length, age) = (None, false, 0);
            continue;
        }
        let part = part_of(word, next);
        if !part.is_empty() {
            if open_at.is_none() {
                open = StatedPeriod::default();
            }
            // `Year Ended` is a length; the word alone is not.
            let is_length =
                part.length != Some(12) || next.is_some_and(|next| AFTER_LENGTHS.contains(next));
            // `Three Months Ended June 30, Year Ended June 30,`
            let is_new = part.length.is_some() && is_length;
            let has_words = PERIOD_NAMES.get(word) == Some("year")
                || next.is_some_and(|next| MONTH_WORDS.contains(next));
            if is_new && has_words && has_length && part.length != open.length {
                mentions.extend(length_mention(open, open_at.take()));
                open = StatedPeriod::default();
            }
            has_length |= is_new;
            // `second quarter of fiscal 2022` is a quarter.
            let is_year = part.length == Some(12) && open.length.is_some();
            open = if is_year { open } else { part.or(open) };
            open_at.get_or_insert(at.clone());
            age = 0;
        }
    }
    mentions.extend(length_mention(open, open_at.filter(|_| has_length)));
    mentions
}

fn length_mention(open: StatedPeriod, at: Option<Range<usize>>) -> Option<PeriodMention> {
    let at = at.filter(|_| open.length.is_some())?;
    Some(PeriodMention { period: open, at })
}

/// Whether a text consists of periods alone, as the heads above columns do.
pub(crate) fn is_only_period(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .peekable();
    words.peek().is_some()
        && words.all(|word| {
            HEAD_WORDS.contains(word)
                || month_number(word).is_some()
                || parse_number_word(word).is_some()
                || word.bytes().all(|byte| byte.is_ascii_digit())
        })
}

/// Whether a text is a day of any year: `September 30,`.
pub(crate) fn is_day_of_year(text: &str) -> bool {
    let words = words(text);
    let months = words
        .iter()
        .filter(|(_, word)| month_number(word).is_some());
    months.count() == 1
        && words.iter().all(|(_, word)| {
            let day = word.parse::<u32>();
            day.is_ok_and(|day| (1..=31).contains(&day)) || month_number(word).is_some()
        })
}

/// 1–12 for the name of a month, or for three letters of an English one.
fn month_number(word: &str) -> Option<u32> {
    let english = MONTHS
        .iter()
        .position(|month| *month == word || (word.len() == 3 && month.starts_with(word)))
        .map(|at| at as u32 + 1);
    english.or_else(|| MONTH_NUMBERS.get(word)?.parse().ok())
}

/// The last period that the head of a column names.
pub fn head_period(text: &str) -> StatedPeriod {
    let mentions = period_mentions(text);
    mentions
        .into_iter()
        .fold(StatedPeriod::default(), |earlier, mention| {
            mention.period.or(earlier)
        })
}

// Words in lower case with their byte ranges. `1,749` and `66.608` are one word, `12/31/2022` is three.
fn words(text: &str) -> Vec<(Range<usize>, Cow<'_, str>)> {
    let mut words: Vec<Range<usize>> = Vec::new();
    for (at, c) in text.char_indices() {
        let inside = c.is_alphanumeric()
            || matches!(c, '\'' | '\u{2019}')
            || (matches!(c, ',' | '.') && joins_digits(text, at));
        match words.last_mut() {
            Some(word) if inside && word.end == at => word.end = at + c.len_utf8(),
            _ if inside => words.push(at..at + c.len_utf8()),
            _ => {}
        }
    }
    let lower = words.into_iter().map(|at| {
        let word = &text[at.clone()];
        // Every line of a document is read, and most words are in lower case.
        let is_lower = word
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let word = if is_lower {
            Cow::Borrowed(word)
        } else {
            Cow::Owned(word.to_lowercase())
        };
        (at, word)
    });
    lower.collect()
}

fn joins_digits(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let group = digit(at + 2) && digit(at + 3) && !digit(at + 4);
    at > 0 && digit(at - 1) && digit(at + 1) && (bytes[at] == b'.' || group)
}

// The year of `2022`, `fy22`, `'22`, `4q22`, `q422` or `22` after `fy`, and a quarter in the same word.
fn year_of(word: &str, before: Option<&str>) -> Option<(i32, Option<u32>)> {
    let digits: String = word.chars().filter(char::is_ascii_digit).collect();
    if digits.is_empty() {
        return None;
    }
    let full = |digits: &str| match digits.len() {
        4 => digits
            .parse()
            .ok()
            .filter(|year| (1900..2100).contains(year)),
        2 => digits.parse::<i32>().ok().map(|year| 2000 + year),
        _ => None,
    };
    let bare = word.trim_start_matches(['\'', '\u{2019}']);
    if bare.chars().all(|c| c.is_ascii_digit()) {
        let fiscal = before.is_some_and(|before| PERIOD_MARKS.contains(before));
        let written = word.len() > bare.len() || fiscal || bare.len() == 4;
        return full(bare).filter(|_| written).map(|year| (year, None));
    }
    if let Some(rest) = bare.strip_prefix("fy") {
        return full(rest).map(|year| (year, None));
    }
    let quarter = |c: char| c.to_digit(10).filter(|quarter| (1..=4).contains(quarter));
    let mut letters = bare.chars();
    match (letters.next(), letters.next()) {
        (Some('q'), Some(c)) if digits.len() > 2 => {
            full(&digits[1..]).and_then(|year| Some((year, Some(quarter(c)?))))
        }
        (Some(c), Some('q')) if digits.len() > 2 => {
            full(&digits[1..]).and_then(|year| Some((year, Some(quarter(c)?))))
        }
        _ => None,
    }
}

// What a word says about the period of a year that follows.
fn part_of(word: &str, next: Option<&str>) -> StatedPeriod {
    let month = month_number(word)
        // `may` is mostly a verb.
        .filter(|_| {
            !AMBIGUOUS_MONTHS.contains(word)
                || next.is_some_and(|next| next.chars().all(|c| c.is_ascii_digit()))
        });
    let quarter = |number: u32| StatedPeriod {
        quarter: Some(number),
        length: Some(3),
        ..StatedPeriod::default()
    };
    let length = |months: u32| StatedPeriod {
        length: Some(months),
        ..StatedPeriod::default()
    };
    if let Some(number) = word.strip_prefix('q').and_then(quarter_number) {
        return quarter(number);
    }
    let ordinal = ORDINALS.get(word).and_then(quarter_number);
    match (ordinal, next.and_then(|next| PERIOD_NAMES.get(next))) {
        (Some(number), Some("quarter")) => return quarter(number),
        (Some(1 | 2), Some("half")) => return length(6),
        _ => {}
    }
    if let Some(months) = LENGTH_NAMES
        .get(word)
        .and_then(|months| months.parse().ok())
    {
        return length(months);
    }
    if next.is_some_and(|next| MONTH_WORDS.contains(next)) {
        return parse_number_word(word)
            .or_else(|| word.parse().ok())
            .filter(|months| (1..=24).contains(months))
            .map(length)
            .unwrap_or_default();
    }
    StatedPeriod {
        month,
        ..StatedPeriod::default()
    }
}

fn quarter_number(digits: &str) -> Option<u32> {
    let number = digits.parse().ok().filter(|_| digits.len() == 1)?;
    (1..=4).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_columns_are_only_periods() {
        for text in [
            "Years ended December 31",
            "At December 31, 2018",
            "2018 versus 2017",
            "Three months ended June 30,",
            "52 weeks ended",
        ] {
            assert!(is_only_period(text), "{text}");
        }
        for text in [
            "Segment sales in 2018",
            "Consolidated Balance Sheet at December 31",
            "",
            "—",
        ] {
            assert!(!is_only_period(text), "{text}");
        }
    }

    fn written(text: &str) -> String {
        let mentions = period_mentions(text);
        let one = |mention: &PeriodMention| {
            let period = mention.period;
            let parts = [
                period.year.map(|year| year.to_string()),
                period.month.map(|month| format!("m{month}")),
                period.length.map(|length| format!("l{length}")),
                period.quarter.map(|quarter| format!("q{quarter}")),
            ];
            parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
        };
        mentions.iter().map(one).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn periods_are_read_in_usual_writings() {
        for (text, expected) in [
            ("Revenue was $2,022 million in 2022.", "2022"),
            ("December 31, 2022 and 2021", "2022 m12 | 2021 m12"),
            ("Three Months Ended September 30, 2022", "2022 m9 l3"),
            ("Nine Months Ended", "l9"),
            ("Years Ended December 31,", "m12 l12"),
            ("Twelve Months", "l12"),
            (
                "Three Months Ended June 30, Year Ended June 30,",
                "m6 l3 | m6 l12",
            ),
            ("the annual report for the fiscal year", ""),
            (
                "Q2 2023 and 4Q22, FY23, FY 21, '19",
                "2023 l3 q2 | 2022 l3 q4 | 2023 | 2021 l12 | 2019",
            ),
            ("second quarter of fiscal 2023", "2023 l3 q2"),
            ("Fiscal 2022", "2022 l12"),
            ("we may fail in 12 cases", ""),
            ("1,999 and 20.2020 and 3,2020", "2020"),
            ("2020-2022", "2020 | 2022"),
        ] {
            assert_eq!(written(text), expected, "{text}");
        }
    }

    #[test]
    fn periods_agree_when_nothing_differs() {
        let period = |text: &str| head_period(text);
        for (one, other, expected) in [
            ("2022", "December 31, 2022", true),
            ("2022", "2021", false),
            (
                "Three months ended June 30, 2022",
                "Six months ended June 30, 2022",
                false,
            ),
            (
                "second quarter 2022",
                "Three months ended June 30, 2022",
                true,
            ),
            ("June 30, 2022", "December 31, 2022", false),
        ] {
            assert_eq!(
                period(one).agrees_with(&period(other)),
                expected,
                "{one} / {other}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,80}") {
            for mention in period_mentions(&text) {
                proptest::prop_assert!(text.get(mention.at).is_some());
            }
        }
    }
}
