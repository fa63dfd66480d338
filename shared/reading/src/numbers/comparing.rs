//! Checks whether the numbers of a quote or a cell support a number of a claim.

use super::bounds::Bound;
use super::currency::{Currency, Money, scales};
use super::{NumberMention, NumberRole, PERCENT_WORDS, numbers};
use crate::text_words::says;
use crate::vocabulary::{GAINS, LOSSES};

/// The numbers of a quote, and what its page says about them.
#[derive(Debug, Clone, Default)]
pub struct QuotedNumbers {
    numbers: Vec<NumberMention>,
    // Scales that the page declares: `(in millions)`.
    scales: Vec<f64>,
    mentions_percent: bool,
    money: Money,
    // A sentence, not a cell.
    is_prose: bool,
}

impl QuotedNumbers {
    pub fn new(quote: &str, page: &str) -> Self {
        let scales = scales(page);
        let mut money = Money::new(page);
        money.is_mentioned |= Currency::is_named_in(quote);
        Self {
            numbers: numbers(quote),
            scales,
            mentions_percent: says(quote, &PERCENT_WORDS),
            money,
            is_prose: true,
        }
    }
}

/// Whether a claim speaks of a gain, which a number written as negative cannot support.
pub fn mentions_gain(claim: &str) -> bool {
    let words: Vec<String> = claim
        .split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase)
        .collect();
    words.iter().any(|word| GAINS.contains(word.as_str()))
        && !words.iter().any(|word| LOSSES.contains(word.as_str()))
}

impl NumberMention {
    /// Whether the number of a cell supports this number of a claim, by the rules of [`NumberMention::is_supported_by`].
    pub fn is_supported_by_cell(
        &self,
        cell: &NumberMention,
        scales: &[f64],
        money: &Money,
    ) -> bool {
        let quoted = QuotedNumbers {
            numbers: vec![cell.clone()],
            scales: scales.to_vec(),
            mentions_percent: cell.is_percent,
            money: money.clone(),
            is_prose: false,
        };
        self.is_supported_by(&quoted, false)
    }

    /// Whether the number of a cell keeps to this number as a bound: `more than $5 billion`. Nothing is rounded, and outflows count by their
    /// amount.
    pub fn is_bound_of_cell(
        &self,
        bound: Bound,
        cell: &NumberMention,
        scales: &[f64],
        money: &Money,
    ) -> bool {
        let quoted = QuotedNumbers {
            numbers: Vec::new(),
            scales: scales.to_vec(),
            mentions_percent: cell.is_percent,
            money: money.clone(),
            is_prose: false,
        };
        let limit = self.value * self.scale.unwrap_or(1.0);
        let scales = self.scales_of(cell, scales, false);
        self.has_same_kind(cell, &quoted)
            && !scales.is_empty()
            && scales
                .iter()
                .all(|scale| bound.holds(cell.value * scale, limit))
    }

    // Scales that the number of a page may have for this one.
    fn scales_of(&self, cited: &NumberMention, declared: &[f64], is_prose: bool) -> Vec<f64> {
        let bare = cited.scale.is_none() && !cited.is_percent;
        // A sentence prints dollars and cents as they are: `a dividend of $1.20`.
        let has_cents = is_prose && cited.currency.is_some() && cited.decimals == 2;
        // In a table declared in millions, money is in millions. The declared scales of an amount per share are empty.
        let scaled_only = bare && !declared.is_empty() && self.currency.is_some() && !has_cents;
        let as_written = Some(cited.scale.unwrap_or(1.0)).filter(|_| !scaled_only);
        let declared = declared
            .iter()
            .copied()
            .filter(|_| bare && !self.is_percent);
        as_written.into_iter().chain(declared).collect()
    }

    /// Whether one of the quoted numbers supports this number of a claim. A claim may round, and may drop the sign unless it speaks
    /// of a gain (`gain`); it may not drop the scale of money. The kinds must be compatible: no year, day or note for an
    /// amount, no count of other things, no money for a share.
    pub fn is_supported_by(&self, quoted: &QuotedNumbers, gain: bool) -> bool {
        quoted
            .numbers
            .iter()
            .any(|other| self.is_same(other, quoted, gain))
    }

    /// Whether one number of a quote supports this number of a claim.
    pub fn is_same(&self, other: &NumberMention, quoted: &QuotedNumbers, gain: bool) -> bool {
        self.has_same_kind(other, quoted) && self.equals(other, quoted, gain)
    }

    fn has_same_kind(&self, cited: &NumberMention, quoted: &QuotedNumbers) -> bool {
        let measures =
            self.is_percent || self.currency.is_some() || self.scale.is_some() || self.decimals > 0;
        let fits = match cited.role {
            NumberRole::Amount => true,
            NumberRole::Count => !measures,
            NumberRole::Year | NumberRole::Name => false,
        };
        let bare = cited.currency.is_none() && !cited.is_percent;
        let share = cited.is_percent
            || (bare && cited.scale.is_none() && !cited.is_count && quoted.mentions_percent);
        let money =
            cited.currency.is_some() || (bare && !cited.is_count && quoted.money.is_mentioned);
        fits && (!self.is_percent || share)
            && (self.currency.is_none() || money)
            && quoted.money.allows(self.currency, cited)
            && !(cited.is_percent && (self.scale.is_some() || self.is_count) && !self.is_percent)
            && !(cited.currency.is_some() && self.is_count && self.currency.is_none())
    }

    fn equals(&self, cited: &NumberMention, quoted: &QuotedNumbers, gain: bool) -> bool {
        let signs_differ = (self.is_negative && !cited.is_negative)
            || (gain && cited.is_negative && !self.is_negative);
        if signs_differ {
            return false;
        }
        let exponent = 10_f64.powi(-self.decimals);
        let value = self.value * self.scale.unwrap_or(1.0);
        let unit = exponent * self.scale.unwrap_or(1.0);
        let scales = self.scales_of(cited, &quoted.scales, quoted.is_prose);
        scales.into_iter().any(|scale| {
            let theirs = cited.value * scale;
            let step = 10_f64.powi(-cited.decimals) * scale;
            // A number with fewer digits is rounded; half a unit of its last digit is allowed.
            let slack = if unit > step { unit * 0.5 } else { 0.0 };
            (value - theirs).abs() <= slack + value.abs() * 1e-9
        })
    }
}
