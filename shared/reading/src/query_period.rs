//! Reads the period a query asks about: fiscal years, a quarter, the end of a period, or the latest one.
//!
//! Years and quarters are recognized in the writings of filings, analysts and spreadsheets (`FY23`, `fiscal '23`, `Q2'23`,
//! `2Q23`, `Q22023`, `2019/20`). [`QueryPeriod::parse`] also returns the text with these written as `2023` and `Q2 2023`,
//! so that later steps need to know one writing only. Relative periods ("last year") are kept as such: what is the latest
//! depends on the documents, never on the clock.

use std::ops::Range;

use crate::calendar::month;
use crate::vocabulary::{
    BEFORE_YEARS, COUNTED_PERIODS, DEFINITE_ARTICLES, END_MARKS, ENDS_OF_YEARS, FISCAL_FILLERS,
    FISCAL_PREFIXES, GENITIVES, LAST_WORDS, MEAN_WORDS, NEWEST_PHRASES, NEWEST_WORDS, ORDINALS,
    PERIOD_ADJECTIVES, PERIOD_LETTERS, PERIOD_NAMES,
};

// Other numbers of four digits are hardly years.
const YEARS: Range<u16> = 1980..2050;

/// The period a query asks about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryPeriod {
    /// Years it names, ascending.
    pub years: Vec<u16>,
    /// The years that are named as years of a report: `FY23`, `the year ended …`, `at the end of 2023`.
    pub reported: Vec<u16>,
    /// 1 to 4.
    pub quarter: Option<u8>,
    /// The last day of a period, as a number: 20230630. Of several, the latest.
    pub end: Option<u64>,
    /// Set if it asks for the latest period and names no year.
    pub latest: Option<LatestPeriod>,
}

/// A period relative to the documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatestPeriod {
    /// "the latest filing".
    Any,
    /// "last year", "the three-year average".
    Year,
    /// "last quarter".
    Quarter,
}

impl LatestPeriod {
    pub fn as_str(self) -> &'static str {
        match self {
            LatestPeriod::Any => "latest",
            LatestPeriod::Year => "latest_year",
            LatestPeriod::Quarter => "latest_quarter",
        }
    }
}

impl QueryPeriod {
    /// Parses a query. Returns its text with years and quarters in one writing, too.
    pub fn parse(text: &str) -> (Self, String) {
        let mut reader = Reader {
            text,
            tokens: tokens(text),
            period: Self::default(),
            rewrites: Vec::new(),
        };
        let mut at = 0;
        while at < reader.tokens.len() {
            at += reader.read(at).max(1);
        }
        let mut period = reader.period;
        period.years.sort_unstable();
        period.years.dedup();
        if period.years.is_empty() {
            period.latest = latest_period(&reader.tokens);
        }
        (period, rewrite(text, &reader.rewrites))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenKind {
    Letters,
    Digits,
}

// A run of letters or of digits, in lower case.
struct Token {
    kind: TokenKind,
    lower: String,
    range: Range<usize>,
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    for (at, c) in text.char_indices() {
        let kind = match c {
            c if c.is_ascii_digit() => TokenKind::Digits,
            c if c.is_alphabetic() => TokenKind::Letters,
            _ => continue,
        };
        match tokens.last_mut() {
            Some(last) if last.kind == kind && last.range.end == at => {
                last.range.end = at + c.len_utf8();
                last.lower.extend(c.to_lowercase());
            }
            _ => tokens.push(Token {
                kind,
                lower: c.to_lowercase().collect(),
                range: at..at + c.len_utf8(),
            }),
        }
    }
    tokens
}

struct Reader<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    period: QueryPeriod,
    // What to write instead of these parts of the text.
    rewrites: Vec<(Range<usize>, String)>,
}

impl Reader<'_> {
    // Reads what starts at a token. Returns how many tokens it takes; 0 if it is nothing.
    fn read(&mut self, at: usize) -> usize {
        for read in [
            Self::read_date,
            Self::read_quarter,
            Self::read_fiscal_year,
            Self::read_year,
        ] {
            let count = read(self, at);
            if count > 0 {
                return count;
            }
        }
        0
    }

    fn word(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &token.lower)
    }

    fn digits(&self, at: usize) -> &str {
        self.tokens
            .get(at)
            .filter(|token| token.kind == TokenKind::Digits)
            .map_or("", |token| &token.lower)
    }

    // The text between a token and the one before it.
    fn gap(&self, at: usize) -> &str {
        match (
            at.checked_sub(1).and_then(|before| self.tokens.get(before)),
            self.tokens.get(at),
        ) {
            (Some(before), Some(token)) => &self.text[before.range.end..token.range.start],
            _ => " ",
        }
    }

    fn is_joined(&self, at: usize) -> bool {
        self.gap(at).is_empty()
    }

    // Digits that continue as a decimal, a percentage or a sum of money are not a year.
    fn is_amount(&self, at: usize) -> bool {
        let Some(token) = self.tokens.get(at) else {
            return true;
        };
        let before = self.text[..token.range.start].chars().next_back();
        let mut after = self.text[token.range.end..].chars();
        let next = after.next();
        let decimals =
            matches!(next, Some('.' | ',')) && after.next().is_some_and(|c| c.is_ascii_digit());
        matches!(before, Some('$' | '€' | '£' | '¥' | '.')) || next == Some('%') || decimals
    }

    fn add_year(&mut self, year: u16) {
        self.period.years.push(year);
    }

    fn add_reported(&mut self, year: u16) {
        self.add_year(year);
        self.period.reported.push(year);
    }

    fn add_end(&mut self, year: u16, month: u64, day: u64) {
        self.add_year(year);
        let end = u64::from(year) * 10_000 + month * 100 + day;
        self.period.end = self.period.end.max(Some(end));
    }

    // `June 30, 2023`, `30 June 2023`, `2023-06-30`, `6/30/2023`, and `ended June 2023`.
    fn read_date(&mut self, at: usize) -> usize {
        let numbers = [0, 1, 2].map(|offset| self.digits(at + offset).parse::<u64>().unwrap_or(0));
        let joined = ["-", "/"].contains(&self.gap(at + 1)) && self.gap(at + 1) == self.gap(at + 2);
        if joined && let Some(year) = year(self.digits(at)) {
            if is_day(numbers[1], numbers[2]) {
                self.add_end(year, numbers[1], numbers[2]);
                return 3;
            }
            return 0;
        }
        if joined && let Some(year) = year(self.digits(at + 2)) {
            // Month first, as in the United States, unless that is not a month.
            let (month, day) = match is_day(numbers[0], numbers[1]) {
                true => (numbers[0], numbers[1]),
                false => (numbers[1], numbers[0]),
            };
            if is_day(month, day) {
                self.add_end(year, month, day);
                return 3;
            }
            return 0;
        }
        if let Some(month) = month(self.word(at)).map(u64::from) {
            if let Some(year) = year(self.digits(at + 2)).filter(|_| is_day(month, numbers[1])) {
                self.add_end(year, month, numbers[1]);
                return 3;
            }
            let is_end = at > 0 && END_MARKS.contains(self.word(at - 1))
                || at > 1
                    && GENITIVES.contains(self.word(at - 1))
                    && END_MARKS.contains(self.word(at - 2));
            if let Some(year) = year(self.digits(at + 1)).filter(|_| is_end) {
                self.add_end(year, month, 30);
                return 2;
            }
        }
        if let (Some(month), Some(year)) = (month(self.word(at + 1)), year(self.digits(at + 2)))
            && is_day(u64::from(month), numbers[0])
        {
            self.add_end(year, u64::from(month), numbers[0]);
            return 3;
        }
        0
    }

    // `Q2`, `2Q`, `Q2'23`, `2Q23`, `Q22023`, `2023Q2`, `second quarter`, `quarter 2`, `first half`, `H1`.
    fn read_quarter(&mut self, at: usize) -> usize {
        let Some((quarter, mut count, rest)) = self.quarter_at(at) else {
            return 0;
        };
        let start = self.tokens[at].range.start;
        let mut end = self.tokens[at + count - 1].range.end;
        let mut written = rest.as_deref().and_then(year_of_digits);
        if written.is_none() {
            let (year, years) = self.year_after(at + count);
            if let Some(year) = year {
                written = Some(year);
                count += years;
                end = self.tokens[at + count - 1].range.end;
            }
        }
        self.period.quarter = self.period.quarter.or(Some(quarter));
        if let Some(year) = written {
            self.add_reported(year);
        }
        // Words of a quarter occur in texts as they are; abbreviations do not.
        let is_word = self.word(at).len() > 2 && self.tokens[at].kind == TokenKind::Letters
            || ORDINALS
                .iter()
                .any(|(ordinal, _)| self.text[start..end].to_lowercase().starts_with(ordinal));
        match (is_word, written) {
            (true, _) => {}
            (false, Some(year)) => self
                .rewrites
                .push((start..end, format!("Q{quarter} {year}"))),
            (false, None) => self.rewrites.push((start..end, format!("Q{quarter}"))),
        }
        count
    }

    // The quarter at a token, how many tokens it takes, and digits written on after its number (`Q22023`).
    fn quarter_at(&self, at: usize) -> Option<(u8, usize, Option<String>)> {
        let word = self.word(at);
        let joined_next = self.is_joined(at + 1);
        if let Some(part) = PERIOD_LETTERS.get(word) {
            let digits = self.digits(at + 1);
            let number = quarter_number(digits.get(..1)?)?;
            let rest = &digits[1..];
            // `Q1FY23` goes on with a year, `H1N1` is not half of a year.
            let ends = !self.is_joined(at + 2) || FISCAL_PREFIXES.contains(self.word(at + 2));
            let fits = joined_next && ends && [0, 2, 4].contains(&rest.len());
            let quarter = last_quarter(part, number);
            return (fits && quarter <= 4).then(|| {
                (
                    quarter,
                    2,
                    Some(rest.to_owned()).filter(|rest| !rest.is_empty()),
                )
            });
        }
        if PERIOD_NAMES.get(word) == Some("quarter") {
            return Some((quarter_number(self.digits(at + 1))?, 2, None));
        }
        let part = PERIOD_LETTERS.get(self.word(at + 1));
        if let Some(part) = part.filter(|_| word.len() == 1 && joined_next) {
            let quarter = last_quarter(part, quarter_number(self.digits(at))?);
            return (quarter <= 4).then_some((quarter, 2, None));
        }
        // `1st` is two tokens.
        let (ordinal, count) = match self.tokens.get(at)?.kind {
            TokenKind::Letters => (word.to_owned(), 1),
            TokenKind::Digits if joined_next => (format!("{word}{}", self.word(at + 1)), 2),
            TokenKind::Digits => return None,
        };
        let number: u8 = ORDINALS.get(&ordinal)?.parse().ok()?;
        let number = Some(number).filter(|number| *number <= 4)?;
        // `second fiscal quarter`
        let skipped = usize::from(PERIOD_ADJECTIVES.contains(self.word(at + count)));
        let part = PERIOD_NAMES.get(self.word(at + count + skipped))?;
        let quarter = last_quarter(part, number);
        (part != "year" && quarter <= 4).then_some((quarter, count + skipped + 1, None))
    }

    // A year right after a quarter: `'23`, ` 2023`, `-23`, ` FY23`, ` of fiscal 2023`. Returns the tokens it takes, too.
    fn year_after(&self, at: usize) -> (Option<u16>, usize) {
        let mut next = at;
        while BEFORE_YEARS.contains(self.word(next)) || is_fiscal(self.word(next)) {
            next += 1;
        }
        let digits = self.digits(next);
        let is_short = digits.len() == 2;
        let follows = next > at && !DEFINITE_ARTICLES.contains(self.word(next - 1))
            || [" ", "", "'", "’", " '", " ’", "-", "/", ", ", "."].contains(&self.gap(next));
        // `Q2 23` is hardly anything but a year, while `Q2 of 23 …` may be a count.
        let names_year = next == at || is_fiscal(self.word(next - 1));
        let year = year_of_digits(digits)
            .filter(|_| follows && (!is_short || names_year) && !self.is_amount(next));
        (year, if year.is_some() { next + 1 - at } else { 0 })
    }

    // `FY23`, `FY 2023`, `FY'23`, `fiscal '23`, `fiscal year 2023`, `FYE 2022`, and the end of `FY21-23`.
    fn read_fiscal_year(&mut self, at: usize) -> usize {
        if !FISCAL_PREFIXES.contains(self.word(at)) {
            return 0;
        }
        let mut next = at + 1;
        while FISCAL_FILLERS.contains(self.word(next)) {
            next += 1;
        }
        let gap = self.gap(next).trim();
        let Some(year) = year_of_digits(self.digits(next))
            .filter(|_| ["", "'", "’", "-", "."].contains(&gap) && !self.is_amount(next))
        else {
            return 0;
        };
        self.add_reported(year);
        // `fiscal` is a word of texts; the other prefixes are abbreviations, which go.
        let is_word = PERIOD_ADJECTIVES.contains(self.word(at));
        if self.digits(next).len() == 2 || !is_word {
            let from = if is_word { next } else { at };
            let range = self.tokens[from].range.start..self.tokens[next].range.end;
            let range = self.after_apostrophe(range);
            self.rewrites.push((range, year.to_string()));
        }
        next + 1 - at + self.read_span_end(next, year)
    }

    // `2023`, `'23`, and the end of `2021-23`.
    fn read_year(&mut self, at: usize) -> usize {
        let digits = self.digits(at);
        if let Some(year) = year(digits).filter(|_| !self.is_amount(at)) {
            // `2023Q2`: the quarter is read next.
            let span = self.read_span_end(at, year);
            // A fiscal year over two calendar years has the name of the second.
            if span == 0 || self.gap(at + 1) != "/" {
                let is_end = at > 1
                    && GENITIVES.contains(self.word(at - 1))
                    && ENDS_OF_YEARS.contains(self.word(at - 2));
                let is_reported =
                    is_end || at > 0 && PERIOD_NAMES.get(self.word(at - 1)) == Some("year");
                match is_reported {
                    true => self.add_reported(year),
                    false => self.add_year(year),
                }
            }
            return 1 + span;
        }
        let gap = self.gap(at);
        let is_short_year = ['\'', '’'].iter().any(|mark| {
            gap.strip_suffix(*mark)
                .is_some_and(|before| before.ends_with(char::is_whitespace))
        });
        if is_short_year
            && digits.len() == 2
            && let Some(year) = year_of_digits(digits)
        {
            self.add_year(year);
            let range = self.after_apostrophe(self.tokens[at].range.clone());
            self.rewrites.push((range, year.to_string()));
            return 1;
        }
        0
    }

    // The second year of `2019-20`, `2019/20` or `FY19-21`. Returns the tokens it takes.
    fn read_span_end(&mut self, at: usize, from: u16) -> usize {
        let digits = self.digits(at + 1);
        if digits.len() != 2
            || !["-", "–", "/"].contains(&self.gap(at + 1))
            || self.is_amount(at + 1)
        {
            return 0;
        }
        // `2023-06` is a month.
        let Some(to) = digits.parse::<u16>().ok().map(|to| from / 100 * 100 + to) else {
            return 0;
        };
        if !(from + 1..from + 10).contains(&to) {
            return 0;
        }
        self.add_year(to);
        let range = self.tokens[at + 1].range.clone();
        self.rewrites.push((range, to.to_string()));
        1
    }

    fn after_apostrophe(&self, range: Range<usize>) -> Range<usize> {
        let before = self.text[..range.start].chars().next_back();
        let mark = before.filter(|c| matches!(c, '\'' | '’'));
        range.start - mark.map_or(0, char::len_utf8)..range.end
    }
}

fn rewrite(text: &str, rewrites: &[(Range<usize>, String)]) -> String {
    let mut written = String::with_capacity(text.len() + 4 * rewrites.len());
    let mut from = 0;
    for (range, instead) in rewrites {
        written.push_str(&text[from..range.start]);
        written.push_str(instead);
        from = range.end;
    }
    written.push_str(&text[from..]);
    written
}

fn quarter_number(digits: &str) -> Option<u8> {
    digits
        .parse()
        .ok()
        .filter(|number| (1..=4).contains(number))
}

// The quarter with which a part of a year ends: a half ends with its second.
fn last_quarter(part: &str, number: u8) -> u8 {
    if part == "half" { number * 2 } else { number }
}

fn is_fiscal(word: &str) -> bool {
    FISCAL_PREFIXES.contains(word) || PERIOD_NAMES.get(word) == Some("year")
}

fn year(digits: &str) -> Option<u16> {
    let year = digits.parse().ok().filter(|_| digits.len() == 4)?;
    YEARS.contains(&year).then_some(year)
}

// A year of four digits or two: `98` is 1998.
fn year_of_digits(digits: &str) -> Option<u16> {
    let short: u16 = match digits.len() {
        4 => return year(digits),
        2 => digits.parse().ok()?,
        _ => return None,
    };
    let century = if short + 2000 < YEARS.end { 2000 } else { 1900 };
    Some(century + short).filter(|year| YEARS.contains(year))
}

fn is_day(month: u64, day: u64) -> bool {
    (1..=12).contains(&month) && (1..=31).contains(&day)
}

// "latest", "most recent", "last year", "past three fiscal years", "three-year average".
fn latest_period(tokens: &[Token]) -> Option<LatestPeriod> {
    let words: Vec<&str> = tokens.iter().map(|token| token.lower.as_str()).collect();
    let unit = |word: &str| match PERIOD_NAMES.get(word)? {
        "year" => Some(LatestPeriod::Year),
        "quarter" => Some(LatestPeriod::Quarter),
        _ => None,
    };
    for (at, word) in words.iter().enumerate() {
        let next = words[at + 1..].iter().take(4);
        if NEWEST_WORDS.contains(word) {
            // "current assets" and "recent acquisitions" ask for no period.
            let named = next.clone().take(2).find_map(|word| unit(word));
            let is_strong = NEWEST_PHRASES.contains(word)
                || at > 0 && NEWEST_PHRASES.contains(&format!("{} {word}", words[at - 1]));
            if named.is_some() || is_strong {
                return Some(named.unwrap_or(LatestPeriod::Any));
            }
        }
        if LAST_WORDS.contains(word)
            && let Some(named) = next
                .clone()
                .find_map(|word| unit(word))
                .filter(|_| is_counted(&words[at + 1..]))
        {
            return Some(named);
        }
        let is_average = MEAN_WORDS.contains(word) && at >= 2 && is_count(words[at - 2]);
        if is_average && unit(words[at - 1]) == Some(LatestPeriod::Year) {
            return Some(LatestPeriod::Year);
        }
    }
    None
}

// Whether a unit follows right away, or after a count or `fiscal`: `three fiscal years`, `year`.
fn is_counted(words: &[&str]) -> bool {
    let unit = words
        .iter()
        .take(4)
        .position(|word| COUNTED_PERIODS.contains(word));
    unit.is_some_and(|unit| {
        words[..unit]
            .iter()
            .all(|word| is_count(word) || PERIOD_ADJECTIVES.contains(word))
    })
}

fn is_count(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
        || stemma_document::english_words::parse_number_word(word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(text: &str) -> QueryPeriod {
        QueryPeriod::parse(text).0
    }

    #[test]
    fn years_and_quarters_are_read_in_all_writings() {
        for (text, years, quarter) in [
            ("revenue in FY23", &[2023][..], None),
            ("revenue in FY2023", &[2023], None),
            ("revenue in FY 23", &[2023], None),
            ("revenue in FY'23", &[2023], None),
            ("revenue in fiscal '23", &[2023], None),
            ("revenue in fiscal 2023", &[2023], None),
            ("revenue in fiscal year 2023", &[2023], None),
            ("revenue in FYE 2022", &[2022], None),
            ("revenue in '23 and '98", &[1998, 2023], None),
            ("Q2'23 revenue", &[2023], Some(2)),
            ("Q2’23 revenue", &[2023], Some(2)),
            ("Q22023 revenue", &[2023], Some(2)),
            ("Q2 2023 revenue", &[2023], Some(2)),
            ("Q2-2023 revenue", &[2023], Some(2)),
            ("Q2 of 2023", &[2023], Some(2)),
            ("Q2 FY23 revenue", &[2023], Some(2)),
            ("Q2 FY2023 revenue", &[2023], Some(2)),
            ("FY23 Q2 revenue", &[2023], Some(2)),
            ("FY2023Q2 revenue", &[2023], Some(2)),
            ("2023Q2 revenue", &[2023], Some(2)),
            ("2Q23 revenue", &[2023], Some(2)),
            ("2Q 2023 revenue", &[2023], Some(2)),
            ("2Q2023 revenue", &[2023], Some(2)),
            ("second quarter of fiscal 2023", &[2023], Some(2)),
            ("second fiscal quarter of 2023", &[2023], Some(2)),
            ("the 3rd quarter of fiscal year 2019", &[2019], Some(3)),
            ("quarter 4 of 2020", &[2020], Some(4)),
            ("first half of 2023", &[2023], Some(2)),
            ("H1 2023", &[2023], Some(2)),
            ("1H23", &[2023], Some(2)),
            ("between 2020 and 2022", &[2020, 2022], None),
            ("from FY21-23", &[2021, 2023], None),
            ("2021-22", &[2021, 2022], None),
            ("the season 2019/20", &[2020], None),
            ("the change from 2021 to 2022", &[2021, 2022], None),
        ] {
            let read = period(text);
            assert_eq!(
                (read.years.as_slice(), read.quarter),
                (years, quarter),
                "{text}"
            );
        }
    }

    #[test]
    fn dates_are_ends_of_periods() {
        for (text, end) in [
            ("cash as of June 30, 2023", Some(20_230_630)),
            ("cash at Dec. 31, 2021", Some(20_211_231)),
            ("the year ended December 31, 2021", Some(20_211_231)),
            ("the year ended 31 December 2021", Some(20_211_231)),
            ("on 2023-06-30", Some(20_230_630)),
            ("at 6/30/2023", Some(20_230_630)),
            ("at 30/6/2023", Some(20_230_630)),
            ("the quarter ended June 2023", Some(20_230_630)),
            ("as of September 2022", Some(20_220_930)),
            ("from June 30, 2021 to June 30, 2022", Some(20_220_630)),
            ("in March 2023", None),
        ] {
            assert_eq!(period(text).end, end, "{text}");
            assert!(!period(text).years.is_empty(), "{text}");
        }
    }

    #[test]
    fn latest_periods_have_no_year() {
        for (text, latest) in [
            ("revenue last year", Some(LatestPeriod::Year)),
            ("revenue in the last fiscal year", Some(LatestPeriod::Year)),
            ("the past three fiscal years", Some(LatestPeriod::Year)),
            (
                "the three-year average of revenue",
                Some(LatestPeriod::Year),
            ),
            ("the latest balance sheet", Some(LatestPeriod::Any)),
            ("the most recent filing", Some(LatestPeriod::Any)),
            (
                "revenue in the most recent quarter",
                Some(LatestPeriod::Quarter),
            ),
            ("revenue last quarter", Some(LatestPeriod::Quarter)),
            ("total current assets", None),
            ("recent accounting pronouncements", None),
            ("last in, first out", None),
            ("the latest revenue of FY2021", None),
        ] {
            assert_eq!(period(text).latest, latest, "{text}");
        }
    }

    #[test]
    fn amounts_and_names_are_no_years() {
        for text in [
            "$2023 of cash",
            "a rate of 2,023.5",
            "2020.5 units",
            "quotient of 12 parts",
            "20 people's 19 items",
            "level 3 of 4Qx",
            "deaths from H1N1 and use of H2O",
            "the 10-K and the 8-K",
            "Rule 144A of 1933",
        ] {
            let read = period(text);
            assert_eq!((read.years, read.quarter), (Vec::new(), None), "{text}");
        }
    }

    #[test]
    fn writings_are_unified() {
        for (text, written) in [
            ("Q2'23 revenue, FY22 margin", "Q2 2023 revenue, 2022 margin"),
            ("Q22023, 2Q and fiscal '21", "Q2 2023, Q2 and fiscal 2021"),
            ("2021-22 or '19", "2021-2022 or 2019"),
            (
                "the second quarter of 2023 ended June 30, 2023",
                "the second quarter of 2023 ended June 30, 2023",
            ),
        ] {
            assert_eq!(QueryPeriod::parse(text).1, written);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[QqHhFfYy0-9'’ /.,$-]{0,40}|.{0,80}") {
            QueryPeriod::parse(&text);
        }
    }
}
