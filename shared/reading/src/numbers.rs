//! Parses numbers as filings write them (value, scale, sign, unit), and checks whether a quote supports a number of a claim.

mod currency;
mod lexing;
mod marks;
#[cfg(test)]
mod tests;

use std::ops::Range;

use rust_decimal::Decimal;
use stemma_document::english_words::NUMBER_WORDS;

use crate::text_words::says;
use crate::vocabulary::PERCENT_WORDS;
pub use currency::Currency;
pub use currency::scales;
pub(crate) use currency::{declares_currency, is_currency_sign};
use lexing::SPELLED;
pub(crate) use lexing::{is_decimal_digit, is_triangle, number_end, plain_char};
pub use lexing::{numbers, scale_of};
pub(crate) use marks::{CellBorders, MarkCounts, have_spaces, settle_marks};
pub use marks::{DecimalMark, NumberMarks};

// No filing prints more digits after the point. A reply is untrusted input: half a unit of its last digit must be a decimal.
const MAX_DECIMALS: u32 = 12;

#[derive(Debug, Clone, PartialEq)]
pub struct NumberMention {
    /// As written: `$1.7 billion`.
    pub text: String,
    /// Digits and marks as written: `1,234.7`.
    pub digits: String,
    // Digits and a decimal point: `1234.7`.
    plain: String,
    /// Byte range of the digits, or of the word, in the text.
    pub at: Range<usize>,
    // Without scale; never negative.
    value: f64,
    // Digits after the decimal point.
    decimals: i32,
    // A scale word next to the number, such as million.
    scale: Option<u64>,
    // Written as negative: `(5)`, `-5`.
    is_negative: bool,
    // `12-`, which is negative in a cell.
    ends_in_dash: bool,
    is_percent: bool,
    // A sign or a word next to the number.
    currency: Option<Currency>,
    // Counts the things named after it: `31 stores`.
    is_count: bool,
    pub role: NumberRole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberRole {
    /// A measured figure.
    Amount,
    /// A count written as a word or tied to one: `three`, `5-year`. Neither money nor a share.
    Count,
    Year,
    /// A name: a day, a note, an Item, an ordinal.
    Name,
}

impl NumberMention {
    /// The value without scale, with its sign; `None` when it has more digits than a decimal can hold, or more places than
    /// twelve.
    pub fn signed_value(&self) -> Option<Decimal> {
        (self.decimals() <= MAX_DECIMALS).then_some(())?;
        let value: Decimal = self.plain.parse().ok()?;
        Some(if self.is_negative { -value } else { value })
    }

    /// Digits and a decimal point, whatever the marks are: `1234.7`.
    pub fn plain_digits(&self) -> &str {
        &self.plain
    }

    /// Digits after the decimal mark.
    pub fn decimals(&self) -> u32 {
        self.decimals.unsigned_abs()
    }

    /// The scale word next to the number, as a factor.
    pub fn own_scale(&self) -> Option<u64> {
        self.scale
    }

    pub fn is_negative(&self) -> bool {
        self.is_negative
    }

    pub fn is_percent(&self) -> bool {
        self.is_percent
    }

    pub fn currency(&self) -> Option<Currency> {
        self.currency
    }

    /// Reads the number as a cell whose label and column head are `words` (lower case): a percentage column prints no sign.
    pub fn read_as_cell(&mut self, words: &str) {
        self.is_negative |= self.ends_in_dash;
        self.is_percent |= self.currency.is_none() && says(words, &PERCENT_WORDS);
        // A number alone in its cell is an amount, also where it looks like a year.
        self.role = NumberRole::Amount;
    }

    /// Whether the number is a year or a name, not a quantity.
    pub fn is_label(&self) -> bool {
        matches!(self.role, NumberRole::Year | NumberRole::Name)
    }

    /// The digits, and the word where there is one: a label may be spelled out.
    pub fn spellings(&self) -> Vec<String> {
        let word = SPELLED
            .zip(&NUMBER_WORDS[1..])
            .find(|(value, _)| f64::from(*value) == self.value);
        let word = word.map(|(_, word)| (*word).to_owned());
        std::iter::once(self.digits.clone()).chain(word).collect()
    }
}
