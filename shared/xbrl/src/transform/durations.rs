//! Displayed durations, as values of `xs:duration`.

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use super::words::{self, is_hyphen};

// Days of a month where a fraction of one is given, as the SEC defines: 365.25 / 12.
const DAYS_PER_MONTH: Decimal = Decimal::from_parts(304_375, 0, 0, false, 4);
// Longer durations are mistakes.
const MAX_UNITS: u64 = 1_000_000;

/// A number of years; its fraction becomes months and days.
pub(super) fn years(text: &str) -> Option<String> {
    let number = decimal(text)?;
    let months = number.fract() * Decimal::from(12);
    let days = months.fract() * DAYS_PER_MONTH;
    written([
        Some(whole(number)?),
        Some(whole(months)?),
        Some(whole(days)?),
    ])
}

/// A number of months; its fraction becomes days.
pub(super) fn months(text: &str) -> Option<String> {
    let number = decimal(text)?;
    written([
        None,
        Some(whole(number)?),
        Some(whole(number.fract() * DAYS_PER_MONTH)?),
    ])
}

pub(super) fn weeks(text: &str) -> Option<String> {
    written([None, None, Some(whole(decimal(text)? * Decimal::from(7))?)])
}

/// A number of days; its fraction becomes hours.
pub(super) fn days(text: &str) -> Option<String> {
    let number = decimal(text)?;
    let hours = whole(number.fract() * Decimal::from(24))?;
    let days = written([None, None, Some(whole(number)?)])?;
    Some(if hours == 0 {
        days
    } else {
        format!("{days}T{hours}H")
    })
}

pub(super) fn hours(text: &str) -> Option<String> {
    Some(format!("PT{}H", whole(decimal(text)?)?))
}

/// `five years`, `one year and 6 months`, `ninety-day`.
pub(super) fn in_words(text: &str) -> Option<String> {
    let text = text.to_lowercase();
    let words: Vec<&str> = text
        .split(|c: char| c == ',' || c.is_whitespace() || is_hyphen(c))
        .filter(|word| !word.is_empty())
        .collect();
    let mut values = [None; 3];
    let mut number: Vec<&str> = Vec::new();
    for word in words {
        let unit = match word {
            "year" | "years" => 0,
            "month" | "months" => 1,
            "day" | "days" => 2,
            // Between the units, not inside of a number.
            "and" if number.is_empty() => continue,
            word => {
                number.push(word);
                continue;
            }
        };
        // Units come in this order, each once.
        if values[unit..].iter().any(Option::is_some) {
            return None;
        }
        values[unit] = Some(count(&number)?);
        number.clear();
    }
    if !number.is_empty() {
        return None;
    }
    written(values)
}

fn count(words: &[&str]) -> Option<u64> {
    match words {
        [digits] if digits.len() <= 4 && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok()
        }
        words => words::number(&words.join(" ")),
    }
}

fn decimal(text: &str) -> Option<Decimal> {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_number
        .then(|| text.parse().ok())
        .flatten()
        .filter(|number: &Decimal| *number <= Decimal::from(MAX_UNITS))
}

fn whole(number: Decimal) -> Option<u64> {
    number.trunc().to_u64()
}

// Years, months and days. The first unit that is given means zero; other zeros are left out.
fn written(values: [Option<u64>; 3]) -> Option<String> {
    let first = values.iter().position(Option::is_some)?;
    let is_zero = values.iter().flatten().all(|value| *value == 0);
    let mut written = String::from("P");
    for (at, (value, unit)) in values.into_iter().zip(['Y', 'M', 'D']).enumerate() {
        let Some(value) = value else { continue };
        let is_needed = value > 0 || at == first && (is_zero || at == 0);
        if is_needed {
            written.push_str(&format!("{value}{unit}"));
        }
    }
    Some(written)
}
