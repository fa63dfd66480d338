//! Dates in the formats of filings.

use stemma_document::english_words::MONTHS;

use crate::vocabulary::ORDINAL_ENDS;

/// A calendar date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CalendarDate {
    pub year: u32,
    pub month: u32,
    pub day: u32,
}

impl CalendarDate {
    fn new(year: u32, month: u32, day: u32) -> Option<Self> {
        let days = match month {
            4 | 6 | 9 | 11 => 30,
            2 => 29,
            _ => 31,
        };
        let sound =
            (1900..2100).contains(&year) && (1..=12).contains(&month) && (1..=days).contains(&day);
        sound.then_some(Self { year, month, day })
    }

    /// ISO 8601.
    pub fn to_iso(self) -> String {
        format!("{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }

    /// Parses the format of [`CalendarDate::to_iso`].
    pub fn from_iso(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '-').map(|part| part.parse().ok());
        Self::new(parts.next()??, parts.next()??, parts.next()??)
    }

    /// Whole months from `earlier` to this date, days rounded.
    pub fn months_since(self, earlier: CalendarDate) -> i64 {
        // Week-based years end up to a week before or after the month. Twelve months of 30 days are five days short of a
        // year; rounding to the nearest month absorbs both.
        (self.approximate_days() - earlier.approximate_days() + 15).div_euclid(30)
    }

    /// The same day `months` later, for months up to 12; the day may be one that the month does not have.
    pub fn add_months(self, months: i64) -> Self {
        let month = self.month + u32::try_from(months.clamp(0, 12)).unwrap_or_default();
        Self {
            year: self.year + (month - 1) / 12,
            month: (month - 1) % 12 + 1,
            day: self.day,
        }
    }

    fn approximate_days(self) -> i64 {
        i64::from(self.year) * 365 + i64::from(self.month - 1) * 30 + i64::from(self.day)
    }
}

/// The number of a month by its name or the first three letters or more of it: `June`, `Jun`, `Sept`.
pub fn month(word: &str) -> Option<u32> {
    let word = word.to_lowercase();
    (1..)
        .zip(MONTHS)
        .find(|(_, month)| word.len() >= 3 && month.starts_with(&word))
        .map(|(number, _)| number)
}

fn number(word: &str) -> Option<u32> {
    let digits = word.trim_matches(|c: char| !c.is_alphanumeric());
    let digits = ORDINAL_ENDS
        .iter()
        .find_map(|end| digits.strip_suffix(end))
        .unwrap_or(digits);
    digits.parse().ok().filter(|_| digits.len() <= 4)
}

// Foreign words between day and year, from columns of a cover that are printed side by side.
const MAX_GAP: usize = 3;

/// The first date among the words, with the index of its first word and the index after its last.
///
/// `December 31, 2022` (also broken over lines, with up to three foreign words before the year), `31 December 2022`,
/// `12/31/2022` (month first), `2022-12-31`, `2022年12月31日`.
pub fn find_first(words: &[&str]) -> Option<(CalendarDate, usize, usize)> {
    (0..words.len()).find_map(|at| date_at(words, at).map(|(date, end)| (date, at, end)))
}

/// The date that begins at a word, with the index after its last word.
pub fn date_at(words: &[&str], at: usize) -> Option<(CalendarDate, usize)> {
    let word = words[at].trim_start_matches(['(', '[', '“', '"']);
    named_month(word, words, at).or_else(|| parse_compact(word).map(|date| (date, at + 1)))
}

fn named_month(word: &str, words: &[&str], at: usize) -> Option<(CalendarDate, usize)> {
    if let Some(month) = month(word.trim_end_matches(['.', ','])) {
        let day = number(words.get(at + 1)?).filter(|day| *day <= 31)?;
        let rest = words.iter().enumerate().skip(at + 2).take(1 + MAX_GAP);
        let (end, year) = rest
            .filter_map(|(index, word)| Some((index, year(word)?)))
            .next()?;
        return CalendarDate::new(year, month, day).map(|date| (date, end + 1));
    }
    let day = number(word)?;
    let month = month(words.get(at + 1)?.trim_end_matches(['.', ',']))?;
    CalendarDate::new(year(words.get(at + 2)?)?, month, day).map(|date| (date, at + 3))
}

fn year(word: &str) -> Option<u32> {
    number(word).filter(|year| (1900..2100).contains(year))
}

/// Dates written as one word.
fn parse_compact(word: &str) -> Option<CalendarDate> {
    if !word.starts_with(|c: char| c.is_ascii_digit()) || word.len() > 40 {
        return None;
    }
    let parts: Vec<u32> = word
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
        .collect();
    let &[a, b, c] = parts.get(..3)? else {
        return None;
    };
    if word.contains('年') || word.contains('-') {
        CalendarDate::new(a, b, c)
    } else if word.contains('/') {
        CalendarDate::new(c, a, b)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_date(text: &str) -> Option<String> {
        find_first(&text.split_whitespace().collect::<Vec<_>>()).map(|(date, _, _)| date.to_iso())
    }

    #[test]
    fn date_formats() {
        for (text, iso) in [
            ("ended December 31, 2022.", "2022-12-31"),
            ("ended Jan. 28, 2023", "2023-01-28"),
            ("the 30th of June 30 June 2023", "2023-06-30"),
            ("March 31, number 1-5805 2021", "2021-03-31"),
            ("as of 12/31/2022", "2022-12-31"),
            ("截至 2022年12月31日止", "2022-12-31"),
            ("(May 18, 2022)", "2022-05-18"),
            ("2022-02-05", "2022-02-05"),
        ] {
            assert_eq!(first_date(text).as_deref(), Some(iso), "{text}");
        }
    }

    #[test]
    fn non_dates_are_rejected() {
        for text in [
            "",
            "May",
            "may 2022",
            "June 31, 2022",
            "13/13/2022",
            "000-12345",
            "1-2-3",
            "maybe 3, 2022",
        ] {
            assert_eq!(first_date(text), None, "{text}");
        }
    }

    #[test]
    fn months_since_week_based_year_end() {
        let months = |a: &str, b: &str| {
            CalendarDate::from_iso(b)
                .unwrap()
                .months_since(CalendarDate::from_iso(a).unwrap())
        };
        assert_eq!(months("2022-12-02", "2023-06-02"), 6);
        assert_eq!(months("2023-01-28", "2023-07-29"), 6);
        assert_eq!(months("2020-12-31", "2021-03-31"), 3);
        assert_eq!(months("2022-10-01", "2022-12-31"), 3);
        assert_eq!(months("2022-05-31", "2023-05-31"), 12);
    }
}
