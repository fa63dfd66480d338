//! A tagged fact.

use std::fmt;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use stemma_document::PageNo;

use crate::Date;

/// When a fact holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Period {
    /// The end of a day.
    Instant(Date),
    /// From the start of the first day to the end of the last.
    Duration {
        from: Date,
        to: Date,
    },
    Forever,
}

impl Period {
    /// The last day; `None` for [`Period::Forever`].
    pub fn end(self) -> Option<Date> {
        match self {
            Self::Instant(day) | Self::Duration { to: day, .. } => Some(day),
            Self::Forever => None,
        }
    }

    /// Days of a duration, both ends included.
    pub fn days(self) -> Option<i32> {
        match self {
            Self::Duration { from, to } => Some(to.days_since(from) + 1),
            Self::Instant(_) | Self::Forever => None,
        }
    }
}

impl fmt::Display for Period {
    /// `2024-12-31`, `2024-01-01/2024-12-31` or `forever`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instant(day) => day.fmt(f),
            Self::Duration { from, to } => write!(f, "{from}/{to}"),
            Self::Forever => f.write_str("forever"),
        }
    }
}

/// How exactly a number is stated: the attribute `decimals`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decimals {
    /// Rounded to this many decimal places; -6 for millions.
    Places(i16),
    /// Exact (`INF`).
    Exact,
}

impl Decimals {
    /// Half a unit of the last stated place: what a rounded number may differ from the exact one; 0 if it is exact.
    pub fn half_unit(self) -> Decimal {
        // Beyond 28 places a number is exact for every purpose.
        match self {
            Self::Places(places) => half_of_last_place(places).unwrap_or_default(),
            Self::Exact => Decimal::ZERO,
        }
    }
}

fn half_of_last_place(places: i16) -> Option<Decimal> {
    match u32::try_from(places) {
        Ok(places) => Decimal::try_from_i128_with_scale(5, places.checked_add(1)?).ok(),
        Err(_) => {
            let power = u32::from(places.unsigned_abs()).checked_sub(1)?;
            Decimal::try_from_i128_with_scale(5 * 10_i128.checked_pow(power)?, 0).ok()
        }
    }
}

impl fmt::Display for Decimals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Places(places) => places.fmt(f),
            Self::Exact => f.write_str("INF"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FactValue<'a> {
    /// With scale and sign applied.
    Number(Decimal),
    /// The transformed text of a fact that is not a number. Long texts are cut; see [`TaggedFact::is_cut`].
    Text(&'a str),
    /// `xsi:nil`.
    Nil,
    /// The displayed text could not be read; a defect says why.
    Unreadable,
}

/// One fact of a [`crate::FactTable`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaggedFact<'a> {
    /// Name with its prefix: `us-gaap:Revenues`.
    pub concept: &'a str,
    /// Label of a linkbase, or the name in words.
    pub label: &'a str,
    /// Identifier of the reporting company: a CIK of ten digits in EDGAR filings.
    pub entity: &'a str,
    pub period: Period,
    /// As declared, with prefixes: `iso4217:USD`, `iso4217:USD/xbrli:shares`. `None` for texts.
    pub unit: Option<&'a str>,
    /// Axis and member, sorted by axis. Empty for a figure of the whole company.
    pub dimensions: &'a [(String, String)],
    pub value: FactValue<'a>,
    /// The text in the document, white space collapsed; cut like the value.
    pub displayed: &'a str,
    pub decimals: Option<Decimals>,
    /// Power of ten by which the displayed number is multiplied.
    pub scale: i8,
    /// Whether the sign is declared as negative.
    pub is_negated: bool,
    /// Whether it is in the hidden part of the file.
    pub is_hidden: bool,
    /// Whether displayed text and value are only the beginning.
    pub is_cut: bool,
    /// Offset of the tag in the file.
    pub byte: u32,
    /// Offset behind the closing tag.
    pub end: u32,
    /// Page of the tag, where the document has pages.
    pub page: Option<PageNo>,
    /// 0-based line on the page, or 0-based line of a text.
    pub line: Option<u32>,
}

impl TaggedFact<'_> {
    pub fn number(&self) -> Option<Decimal> {
        match self.value {
            FactValue::Number(number) => Some(number),
            FactValue::Text(_) | FactValue::Nil | FactValue::Unreadable => None,
        }
    }

    /// The unit without the prefixes of the general registries: `USD`, `USD/shares`, `pure`.
    pub fn short_unit(&self) -> Option<String> {
        Some(
            self.unit?
                .split('/')
                .map(|unit| {
                    unit.split('*')
                        .map(without_prefix)
                        .collect::<Vec<_>>()
                        .join("*")
                })
                .collect::<Vec<_>>()
                .join("/"),
        )
    }

    /// Whether another number says the same as far as both are exact.
    pub fn has_same_number(&self, other: &TaggedFact<'_>) -> bool {
        let exactness =
            |fact: &TaggedFact<'_>| fact.decimals.map_or(Decimal::ZERO, Decimals::half_unit);
        match (self.number(), other.number()) {
            (Some(one), Some(two)) => (one - two).abs() <= exactness(self).max(exactness(other)),
            (one, two) => one.is_none() && two.is_none() && self.value == other.value,
        }
    }

    /// The name without its prefix.
    pub fn local_name(&self) -> &str {
        self.concept
            .split_once(':')
            .map_or(self.concept, |(_, name)| name)
    }
}

fn without_prefix(measure: &str) -> &str {
    ["iso4217:", "xbrli:"]
        .iter()
        .find_map(|prefix| measure.strip_prefix(prefix))
        .unwrap_or(measure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_numbers_differ_by_half_a_unit() {
        for (decimals, half) in [
            (Decimals::Places(-6), "500000"),
            (Decimals::Places(-1), "5"),
            (Decimals::Places(0), "0.5"),
            (Decimals::Places(2), "0.005"),
            (Decimals::Exact, "0"),
            (Decimals::Places(30), "0"),
        ] {
            assert_eq!(decimals.half_unit(), half.parse().unwrap(), "{decimals}");
        }
    }
}
