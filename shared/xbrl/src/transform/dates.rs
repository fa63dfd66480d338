//! Displayed dates.

use stemma_document::english_words::MONTHS;

use crate::Date;
use crate::date::days_in_month;

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Day,
    Month,
    MonthName,
    Year,
}

/// A date by the order of its parts, which the name of the format says, without hyphens. Outer `None`: unknown format.
pub(super) fn date(format: &str, text: &str) -> Option<Option<String>> {
    use Part::{Day, Month, MonthName, Year};
    let parts: &[Part] = match format {
        "datedaymonth" => &[Day, Month],
        "datedaymonthen" | "datedaymonthnameen" => &[Day, MonthName],
        "datedaymonthyear" => &[Day, Month, Year],
        "datedaymonthyearen" | "datedaymonthnameyearen" => &[Day, MonthName, Year],
        "datemonthday" => &[Month, Day],
        "datemonthdayen" | "datemonthnamedayen" => &[MonthName, Day],
        "datemonthdayyear" => &[Month, Day, Year],
        "datemonthdayyearen" | "datemonthnamedayyearen" => &[MonthName, Day, Year],
        "datemonthyear" => &[Month, Year],
        "datemonthyearen" | "datemonthnameyearen" => &[MonthName, Year],
        "dateyearmonth" => &[Year, Month],
        "dateyearmonthen" | "dateyearmonthnameen" => &[Year, MonthName],
        "dateyearmonthday" => &[Year, Month, Day],
        _ => return None,
    };
    Some(parse(parts, text))
}

fn parse(parts: &[Part], text: &str) -> Option<String> {
    let mut rest = text.trim();
    let mut year = None;
    let mut month = None;
    let mut day = None;
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            // Ends of ordinal numbers, points of abbreviations, commas and slashes.
            rest =
                rest.trim_start_matches(|c: char| !c.is_ascii_digit() && *part != Part::MonthName);
            rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
        }
        match part {
            Part::MonthName => {
                let name = &rest[..rest
                    .find(|c: char| !c.is_alphabetic())
                    .unwrap_or(rest.len())];
                month = Some(month_number(name)?);
                rest = &rest[name.len()..];
            }
            _ => {
                let digits = &rest[..rest
                    .find(|c: char| !c.is_ascii_digit())
                    .unwrap_or(rest.len())];
                let number: u32 = digits.parse().ok()?;
                rest = &rest[digits.len()..];
                match part {
                    Part::Year => year = Some(full_year(digits, number)?),
                    Part::Month => month = Some(number),
                    _ => day = Some(number),
                }
            }
        }
    }
    // `st` or `th` behind a last day.
    let is_ended =
        rest.chars().count() <= 2 && rest.chars().all(|c| c.is_ascii_alphabetic() || c == '.');
    let month = month.filter(|month| (1..=12).contains(month) && is_ended)?;
    match (year, day) {
        (Some(year), Some(day)) => Date::new(year, month, day).map(|date| date.to_string()),
        (Some(year), None) => Some(format!("{year:04}-{month:02}")),
        (None, Some(day)) => {
            // 2000 is a leap year, so that 29 February is a day.
            (1..=days_in_month(2000, month))
                .contains(&day)
                .then(|| format!("--{month:02}-{day:02}"))
        }
        (None, None) => None,
    }
}

// Years of one or two digits are of this century, as the registries define.
fn full_year(digits: &str, number: u32) -> Option<i32> {
    match digits.len() {
        1 | 2 => i32::try_from(2_000 + number).ok(),
        4 => i32::try_from(number).ok(),
        _ => None,
    }
}

// A whole name, or the first three letters or more of one (`Sept`).
fn month_number(name: &str) -> Option<u32> {
    let name = name.to_lowercase();
    let at = MONTHS
        .iter()
        .position(|month| name.len() >= 3 && month.starts_with(&name))?;
    u32::try_from(at + 1).ok()
}

/// The last day of a quarter: `third quarter of 2021`, `Q3 2021`, `2021 Q3`.
pub(super) fn quarter_end(text: &str) -> Option<String> {
    let text = text.to_lowercase();
    let mut year = None;
    let mut quarter = None;
    for word in text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        let number = match word.trim_start_matches('q') {
            "1" | "first" | "1st" => Some(1),
            "2" | "second" | "2nd" => Some(2),
            "3" | "third" | "3rd" => Some(3),
            "4" | "fourth" | "4th" | "last" => Some(4),
            _ => None,
        };
        let is_year = word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
        match number {
            Some(number) if quarter.replace(number).is_some() => return None,
            None if is_year && year.replace(word.parse().ok()?).is_some() => return None,
            _ => {}
        }
    }
    let month: u32 = quarter? * 3;
    let year: i32 = year?;
    Date::new(year, month, days_in_month(year, month)).map(|date| date.to_string())
}
