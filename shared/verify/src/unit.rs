//! Units: as a model states them, as a page declares them, and as they are shown.

use stemma_reading::numbers::{Currency, NumberMention};
use stemma_reading::tables::CellUnit;
use stemma_reading::text_words::{says, words};
use stemma_reading::vocabulary::{
    BASIS_POINTS, CURRENCIES, NUMBER_SCALES, PER_WORDS, PERCENT_WORDS, POINT_WORDS, SPOKEN_SCALES,
};

use super::claim::Measure;

const THOUSAND: u64 = 1_000;
// Words of a unit such as `days`. What is longer is not a unit.
const MAX_UNIT_CHARS: usize = 24;

/// What a stated unit says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StatedUnit {
    pub(crate) currency: Option<Currency>,
    pub(crate) scale: Option<u64>,
    pub(crate) is_percent: bool,
    /// Percentage points, and hundredths of them.
    pub(crate) is_points: bool,
    pub(crate) is_basis_points: bool,
    pub(crate) is_per_unit: bool,
    /// `days`, `x`.
    pub(crate) name: String,
}

impl StatedUnit {
    /// The unit, and what the value itself says: `$1,749 million`.
    pub(crate) fn new(unit: &str, value: Option<&NumberMention>) -> Self {
        let lower = unit.trim().to_lowercase();
        let named = words(&lower);
        let mut signs = lower.chars().map(|c| c.to_string());
        let sign = signs.find_map(|c| Currency::from_word(&c));
        let word = || named.iter().find_map(|(word, _)| Currency::from_word(word));
        let scale = named.iter().find_map(|(word, _)| scale_of(word));
        let is_points = says_any(&lower, &POINT_WORDS);
        let is_basis_points = says_any(&lower, &BASIS_POINTS);
        let is_percent = says(&lower, &PERCENT_WORDS) && !is_points && !is_basis_points;
        Self {
            currency: sign.or_else(word).or_else(|| value?.currency()),
            scale: scale.or_else(|| value?.own_scale().map(whole)),
            is_percent: is_percent || value.is_some_and(NumberMention::is_percent) && !is_points,
            is_points,
            is_basis_points,
            is_per_unit: says(&lower, &PER_WORDS),
            name: plain_name(&lower),
        }
    }

    /// Whether a page contradicts it.
    pub(crate) fn contradicts(&self, own: &CellUnit) -> bool {
        let currency_differs = self.currency.is_some_and(|stated| {
            own.is_percent || own.is_count || own.currency.is_some_and(|own| own != stated)
        });
        let scale_differs = self
            .scale
            .is_some_and(|stated| own.is_percent || own.scale.is_some_and(|own| own != stated));
        let is_percent = self.is_percent || self.is_points || self.is_basis_points;
        currency_differs
            || scale_differs
            || is_percent && !own.is_percent
            || self.is_per_unit && !own.is_per_unit && own.scale != Some(1)
    }
}

fn says_any(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.contains(phrase))
}

// What is left of a unit without currency, scale and signs.
fn plain_name(lower: &str) -> String {
    let is_name = lower.chars().all(|c| c.is_alphabetic() || c == ' ');
    let mut words = lower.split(' ');
    let has_known = words.any(|word| scale_of(word).is_some() || CURRENCIES.get(word).is_some())
        || says(lower, &PERCENT_WORDS);
    match is_name && !has_known && lower.len() <= MAX_UNIT_CHARS {
        true => lower.to_owned(),
        false => String::new(),
    }
}

// `millions` is 1,000,000.
fn scale_of(word: &str) -> Option<u64> {
    let factor: f64 = NUMBER_SCALES.get(word)?.parse().ok()?;
    Some(whole(factor))
}

// Scales are powers of a thousand.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn whole(scale: f64) -> u64 {
    scale as u64
}

/// What a figure with such a unit measures.
pub(crate) fn measure_of(unit: &CellUnit) -> Measure {
    match unit {
        CellUnit {
            is_percent: true, ..
        } => Measure::Percent,
        CellUnit { is_count: true, .. } => Measure::Count,
        CellUnit {
            is_per_unit: true,
            currency,
            ..
        } => Measure::PerUnit(*currency),
        CellUnit {
            currency: Some(currency),
            ..
        } => Measure::Money(Some(*currency)),
        CellUnit { .. } => Measure::Unknown,
    }
}

fn sign_of(currency: Currency) -> &'static str {
    CURRENCIES
        .iter()
        .map(|(sign, _)| *sign)
        .find(|sign| {
            !sign.chars().any(char::is_alphanumeric) && Currency::from_word(sign) == Some(currency)
        })
        .unwrap_or_default()
}

fn scale_word(scale: u64) -> &'static str {
    let mut factor = 1;
    for word in SPOKEN_SCALES.iter() {
        factor *= THOUSAND;
        if factor == scale {
            return word;
        }
    }
    ""
}

/// A figure as it is shown, and its unit. `digits` have no sign; without a known scale nothing but the number is shown.
pub(crate) fn printed(
    digits: &str,
    is_negative: bool,
    measure: Measure,
    scale: Option<u64>,
) -> (String, String) {
    let sign = if is_negative { "-" } else { "" };
    let (currency, scale) = match (measure, scale) {
        (Measure::Percent, _) => return (format!("{sign}{digits}%"), "%".to_owned()),
        (_, None) => ("", ""),
        (Measure::Money(Some(currency)) | Measure::PerUnit(Some(currency)), Some(scale)) => {
            (sign_of(currency), scale_word(scale))
        }
        (_, Some(scale)) => ("", scale_word(scale)),
    };
    let text = format!("{sign}{currency}{digits} {scale}");
    let unit = format!("{currency} {scale}");
    (text.trim().to_owned(), unit.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stated_units_are_read_in_usual_writings() {
        let million = Some(1_000_000);
        for (unit, currency, scale, is_percent, is_per_unit, name) in [
            ("$ million", true, million, false, false, ""),
            ("millions of dollars", true, million, false, false, ""),
            ("USD", true, None, false, false, ""),
            ("$ per share", true, None, false, true, ""),
            ("%", false, None, true, false, ""),
            ("percent", false, None, true, false, ""),
            ("percentage points", false, None, false, false, ""),
            ("million", false, million, false, false, ""),
            ("days", false, None, false, false, "days"),
            ("", false, None, false, false, ""),
        ] {
            let read = StatedUnit::new(unit, None);
            assert_eq!(read.currency.is_some(), currency, "{unit}");
            assert_eq!(read.scale, scale, "{unit}");
            assert_eq!(read.is_percent, is_percent, "{unit}");
            assert_eq!(read.is_per_unit, is_per_unit, "{unit}");
            assert_eq!(read.name, name, "{unit}");
        }
    }

    #[test]
    fn figures_are_shown_with_their_units() {
        let dollars = Measure::Money(Some(Currency::Dollar));
        for (digits, is_negative, measure, scale, expected) in [
            ("1,749", true, dollars, Some(1_000_000), "-$1,749 million"),
            ("1,749", false, dollars, None, "1,749"),
            ("5.1", false, Measure::Percent, Some(1), "5.1%"),
            ("31", false, Measure::Count, Some(1), "31"),
            (
                "1.25",
                false,
                Measure::PerUnit(Some(Currency::Dollar)),
                Some(1),
                "$1.25",
            ),
        ] {
            assert_eq!(printed(digits, is_negative, measure, scale).0, expected);
        }
    }
}
