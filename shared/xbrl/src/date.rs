//! Calendar dates.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A day, as the number of days since 1970-01-01 in the proleptic Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Date(i32);

/// Years that filings have; others are mistakes of the file.
const YEARS: std::ops::RangeInclusive<i32> = 1800..=2200;

impl Date {
    /// `None` if there is no such day, or its year is not in 1800–2200.
    pub fn new(year: i32, month: u32, day: u32) -> Option<Self> {
        if !YEARS.contains(&year)
            || !(1..=12).contains(&month)
            || day == 0
            || day > days_in_month(year, month)
        {
            return None;
        }
        // Years begin in March here, so that the leap day is the last of its year; 400 years have 146,097 days.
        let shifted = if month <= 2 { year - 1 } else { year };
        let era = shifted.div_euclid(400);
        let year_of_era = shifted.rem_euclid(400);
        let month = i32::try_from(month).ok()?;
        let day = i32::try_from(day).ok()?;
        let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        Some(Self(era * 146_097 + day_of_era - 719_468))
    }

    /// Year, month (1–12) and day (1–31).
    pub fn year_month_day(self) -> (i32, u32, u32) {
        let days = i64::from(self.0) + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_index = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_index + 2) / 5 + 1;
        let month = if month_index < 10 {
            month_index + 3
        } else {
            month_index - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        (
            i32::try_from(year).unwrap_or_default(),
            u32::try_from(month).unwrap_or_default(),
            u32::try_from(day).unwrap_or_default(),
        )
    }

    pub fn year(self) -> i32 {
        self.year_month_day().0
    }

    /// Days from `earlier` to this day.
    pub fn days_since(self, earlier: Date) -> i32 {
        self.0.saturating_sub(earlier.0)
    }

    /// This day, `days` later.
    #[must_use]
    pub fn plus_days(self, days: i32) -> Self {
        Self(self.0.saturating_add(days))
    }
}

pub(crate) fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl fmt::Display for Date {
    /// `2024-12-31`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.year_month_day();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl FromStr for Date {
    type Err = ();

    /// Parses `2024-12-31`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = |part: &str, count: usize| {
            (part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit()))
                .then(|| part.parse::<u32>().ok())
                .flatten()
        };
        let mut parts = text.split('-');
        let (Some(year), Some(month), Some(day), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(());
        };
        let year = digits(year, 4)
            .and_then(|year| i32::try_from(year).ok())
            .ok_or(())?;
        let month = digits(month, 2).ok_or(())?;
        let day = digits(day, 2).ok_or(())?;
        Self::new(year, month, day).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dates_are_read_and_written() {
        assert_eq!(Date::new(1970, 1, 1), Some(Date(0)));
        for text in [
            "1900-02-28",
            "2000-02-29",
            "2024-02-29",
            "2024-12-31",
            "2100-03-01",
        ] {
            assert_eq!(text.parse::<Date>().unwrap().to_string(), text);
        }
        for text in [
            "2023-02-29",
            "2024-13-01",
            "2024-00-01",
            "2024-1-01",
            "24-01-01",
            "2024-01-01Z",
            "0001-01-01",
            "",
        ] {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
        let start = Date::new(2023, 9, 25).unwrap();
        assert_eq!(Date::new(2024, 9, 28).unwrap().days_since(start), 369);
    }

    proptest! {
        #[test]
        fn every_day_has_a_date(days in -62_000_i32..84_000) {
            let (year, month, day) = Date(days).year_month_day();
            prop_assert_eq!(Date::new(year, month, day), Some(Date(days)));
        }
    }
}
