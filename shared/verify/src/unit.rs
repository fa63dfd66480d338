//! Values and units: as a model states them, as a page declares them, and as they are shown.

use stemma_reading::numbers::{Currency, NumberMarks, NumberMention, scale_of};
use stemma_reading::tables::CellUnit;
use stemma_reading::text_words::{says, words};
use stemma_reading::vocabulary::{
    BASIS_POINTS, CURRENCIES, PER_WORDS, PERCENT_WORDS, POINT_WORDS, SPOKEN_SCALES,
};

use super::quantity::Measure;

// A longer value is not a number.
const MAX_VALUE_CHARS: usize = 60;
// Words of a unit such as `days`. What is longer is not a unit.
const MAX_UNIT_CHARS: usize = 24;

/// The one number of a value that has marks as its page: `(1,749)`, `$ 1,749 million` and `$1,749` are one number. It may have those of
/// English on any page.
pub(crate) fn copied_number(value: &str, marks: NumberMarks) -> Option<NumberMention> {
    one_number(value, marks).or_else(|| stated_number(value))
}

/// The one number of a value in English.
pub(crate) fn stated_number(value: &str) -> Option<NumberMention> {
    one_number(value, NumberMarks::ENGLISH)
}

fn one_number(value: &str, marks: NumberMarks) -> Option<NumberMention> {
    if value.chars().count() > MAX_VALUE_CHARS {
        return None;
    }
    let squeezed = value.replace("$ ", "$").replace("$(", "(");
    // `12 (1,749)` is not one figure.
    let [number] = &mut marks.numbers(&squeezed)[..] else {
        return None;
    };
    number.read_as_cell("");
    Some(number.clone())
}

/// What a stated unit says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatedUnit {
    pub(crate) currency: Option<Currency>,
    pub(crate) scale: Option<u64>,
    /// How much of it makes a whole: 100 per cent or points, 10,000 basis points.
    pub(crate) per_whole: Option<u32>,
    is_per_unit: bool,
    /// `days`, `x`, `percentage points`.
    name: String,
}

impl StatedUnit {
    /// The unit, and what the value itself says: `$1,749 million`.
    pub(crate) fn new(unit: &str, value: &NumberMention) -> Self {
        let lower = unit.trim().to_lowercase();
        let currencies = Currency::named_in_text(&lower);
        let scale = words(&lower).iter().find_map(|(word, _)| scale_of(word));
        let is_share = says(&lower, &PERCENT_WORDS);
        let is_points = POINT_WORDS.occurs_in(&lower);
        let is_plain = lower.chars().all(|c| c.is_alphabetic() || c == ' ');
        let is_name =
            is_plain && !is_share && scale.is_none() && currencies.is_empty() && !is_points;
        Self {
            currency: currencies.first().copied().or(value.currency()),
            scale: scale.or(value.own_scale()),
            per_whole: match () {
                () if BASIS_POINTS.occurs_in(&lower) => Some(10_000),
                () if is_points || is_share || value.is_percent() => Some(100),
                () => None,
            },
            is_per_unit: says(&lower, &PER_WORDS),
            name: match is_points || is_name && lower.len() <= MAX_UNIT_CHARS {
                true => unit.trim().to_owned(),
                false => String::new(),
            },
        }
    }

    /// What follows a ratio.
    pub(crate) fn ratio_name(&self) -> &str {
        match self.per_whole {
            Some(_) if self.name.is_empty() => "%",
            _ => &self.name,
        }
    }

    /// Whether a page contradicts it.
    pub(crate) fn contradicts(&self, own: &CellUnit) -> bool {
        let scale_differs = self
            .scale
            .is_some_and(|stated| own.is_percent || own.scale.is_some_and(|own| own != stated));
        let currency_differs = self.currency.is_some_and(|stated| {
            own.is_percent || own.is_count || own.currency.is_some_and(|own| own != stated)
        });
        currency_differs
            || scale_differs
            || self.per_whole.is_some() && !own.is_percent
            || self.is_per_unit && !own.is_per_unit && own.scale != Some(1)
    }
}

fn sign_of(currency: Currency) -> &'static str {
    let signs = CURRENCIES.iter().map(|(sign, _)| *sign);
    let mut signs = signs.filter(|sign| !sign.chars().any(char::is_alphanumeric));
    signs
        .find(|sign| Currency::from_word(sign) == Some(currency))
        .unwrap_or_default()
}

/// A figure as it is shown, and its unit. `name` names a ratio. If the scale is not known, only the number is shown.
pub(crate) fn printed(
    number: &NumberMention,
    measure: Measure,
    scale: Option<u64>,
    name: &str,
) -> (String, String) {
    let sign = if number.is_negative() { "-" } else { "" };
    let digits = &number.digits;
    if measure.is_ratio() {
        let space = if name.len() == 1 { "" } else { " " };
        let text = format!("{sign}{digits}{space}{name}");
        return (text.trim_end().to_owned(), name.to_owned());
    }
    let currency = measure.currency.filter(|_| scale.is_some());
    let currency = currency.map_or("", sign_of);
    let word = SPOKEN_SCALES
        .iter()
        .find(|word| scale.is_some() && scale_of(word) == scale)
        .copied()
        .unwrap_or_default();
    let text = format!("{sign}{currency}{digits} {word}");
    let unit = format!("{currency} {word}");
    (text.trim().to_owned(), unit.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stated_units_are_read_in_usual_writings() {
        let million = Some(1_000_000);
        let value = stated_number("5").unwrap();
        for (unit, currency, scale, per_whole, is_per_unit, name) in [
            ("$ million", true, million, None, false, ""),
            ("millions of dollars", true, million, None, false, ""),
            ("USD", true, None, None, false, ""),
            ("$ per share", true, None, None, true, ""),
            ("%", false, None, Some(100), false, "%"),
            ("percent", false, None, Some(100), false, "%"),
            (
                "percentage points",
                false,
                None,
                Some(100),
                false,
                "percentage points",
            ),
            (
                "basis points",
                false,
                None,
                Some(10_000),
                false,
                "basis points",
            ),
            ("bps", false, None, Some(10_000), false, "bps"),
            ("million", false, million, None, false, ""),
            ("days", false, None, None, false, "days"),
            ("", false, None, None, false, ""),
        ] {
            let read = StatedUnit::new(unit, &value);
            assert_eq!(read.currency.is_some(), currency, "{unit}");
            assert_eq!(read.scale, scale, "{unit}");
            assert_eq!(read.per_whole, per_whole, "{unit}");
            assert_eq!(read.is_per_unit, is_per_unit, "{unit}");
            assert_eq!(read.ratio_name(), name, "{unit}");
        }
    }

    #[test]
    fn figures_are_shown_with_their_units() {
        let of = |powers: (i32, i32)| Measure {
            powers: Some(powers),
            currency: Currency::from_word("$").filter(|_| powers.0 == 1),
        };
        for (value, powers, scale, expected) in [
            ("(1,749)", (1, 0), Some(1_000_000), "-$1,749 million"),
            ("1,749", (1, 0), None, "1,749"),
            ("5.1", (0, 0), Some(1), "5.1%"),
            ("31", (0, 1), Some(1), "31"),
            ("1.25", (1, -1), Some(1), "$1.25"),
        ] {
            let number = stated_number(value).unwrap();
            assert_eq!(printed(&number, of(powers), scale, "%").0, expected);
        }
    }
}
