//! Values with what they measure, and arithmetic over them.

use std::cmp::Ordering;

use rust_decimal::{Decimal, MathematicalOps};
use stemma_reading::numbers::Currency;
use stemma_reading::tables::CellUnit;

const MAX_BASE: u64 = 1_000_000_000_000_000_000;
const MAX_EXPONENT: u64 = 64;
const NO_NUMBER: &str = "the formula gives no number";

/// What a figure measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measure {
    /// Powers of money and of things: `(1, -1)` is money for one thing, `(0, 0)` a share or ratio. `None` where the page does not say.
    pub(crate) powers: Option<(i32, i32)>,
    pub(crate) currency: Option<Currency>,
}

impl Measure {
    pub(crate) const RATIO: Self = Self {
        powers: Some((0, 0)),
        currency: None,
    };

    pub(crate) fn new(unit: &CellUnit) -> Self {
        let powers = match unit {
            _ if unit.is_percent => Some((0, 0)),
            _ if unit.is_count => Some((0, 1)),
            _ if unit.is_per_unit => Some((1, -1)),
            _ => unit.currency.map(|_| (1, 0)),
        };
        Self {
            powers,
            currency: unit.currency,
        }
    }

    pub(crate) fn is_ratio(&self) -> bool {
        self.powers == Some((0, 0))
    }

    // What the page does not say is taken for the money or the count that it is compared with.
    fn aligned(self, other: Self) -> Self {
        let is_amount = matches!(other.powers, Some((1, 0) | (0, 1)));
        match self.powers {
            None if is_amount => other,
            _ => self,
        }
    }

    /// What an operator gives; `None` if that mixes units.
    fn combined(self, operator: char, other: Self) -> Option<Self> {
        let (one, two) = match operator {
            '*' => (self, other),
            _ => (self.aligned(other), other.aligned(self)),
        };
        let powers = match (operator, one.powers, two.powers) {
            ('+' | '-', one, two) if one == two => one,
            ('*', Some(one), Some(two)) => Some((one.0 + two.0, one.1 + two.1)),
            ('/', Some(one), Some(two)) => Some((one.0 - two.0, one.1 - two.1)),
            ('/', None, None) | ('^', Some((0, 0)), _) => Some((0, 0)),
            // A share of what is not known.
            ('*' | '/', None, Some((0, 0))) | ('*', Some((0, 0)), None) => None,
            _ => return None,
        };
        let currency = one.currency.or(two.currency);
        let is_money = powers.is_none_or(|(money, _)| money != 0);
        (two.currency.is_none() || two.currency == currency).then_some(Self {
            powers,
            currency: currency.filter(|_| is_money),
        })
    }
}

/// A value of a formula.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quantity {
    pub(crate) value: Decimal,
    pub(crate) measure: Measure,
    /// Whether it has no figure.
    pub(crate) is_constant: bool,
    /// The order of its newest period.
    pub(crate) newest: Option<(i32, u32)>,
    /// How it changes from the earlier to the later of the periods that it compares.
    pub(crate) change: Option<Ordering>,
}

impl Quantity {
    pub(crate) fn constant(value: Decimal) -> Self {
        Self {
            value,
            measure: Measure::RATIO,
            is_constant: true,
            newest: None,
            change: None,
        }
    }

    pub(crate) fn negated(self) -> Self {
        Self {
            value: -self.value,
            ..self
        }
    }

    /// # Errors
    /// Says why the operator gives no value, or one that mixes units.
    pub(crate) fn apply(self, operator: char, right: Self) -> Result<Self, String> {
        let one = self.value;
        let two = right.value;
        let value = match operator {
            '+' => one.checked_add(two),
            '-' => one.checked_sub(two),
            '*' => one.checked_mul(two),
            '/' if two.is_zero() => return Err("the formula divides by zero".into()),
            '/' => one.checked_div(two),
            _ if is_too_large(one, two) => None,
            _ => one.checked_powd(two),
        };
        let measure = self.measure.combined(operator, right.measure);
        let change = match operator {
            '-' => self.change_to(&right).or(self.change),
            // `(a - b) / b` divides a change.
            '/' => self.change.or_else(|| self.change_to(&right)),
            _ => self.change.or(right.change),
        };
        Ok(Self {
            value: value.ok_or(NO_NUMBER)?,
            measure: measure.ok_or("the formula mixes units")?,
            is_constant: self.is_constant && right.is_constant,
            newest: self.newest.max(right.newest),
            change,
        })
    }

    /// From the earlier to the later of both; `None` if they are of one period.
    pub(crate) fn change_to(&self, other: &Self) -> Option<Ordering> {
        match self.newest?.cmp(&other.newest?) {
            Ordering::Less => Some(compare(self.value, other.value)),
            Ordering::Greater => Some(compare(other.value, self.value)),
            Ordering::Equal => None,
        }
    }

    /// # Errors
    /// Says why a function gives no value.
    pub(crate) fn call(function: &str, given: &[Self]) -> Result<Self, String> {
        let folded = |pick: &dyn Fn(Self, Self, Self) -> Self| -> Result<Self, String> {
            let (first, rest) = given.split_first().ok_or(NO_NUMBER)?;
            rest.iter().try_fold(*first, |all, next| {
                Ok(pick(all.apply('+', *next)?, all, *next))
            })
        };
        let sum = || folded(&|sum, _, _| sum);
        let count = Self::constant(given.len().into());
        let one = Self::constant(Decimal::ONE);
        let with_value = |value: Decimal, sum: Self| Self { value, ..sum };
        match (function.to_ascii_lowercase().as_str(), given) {
            ("avg" | "average" | "mean", _) => sum()?.apply('/', count),
            ("sum", _) => sum(),
            ("min", _) => folded(&|sum, all, next| with_value(all.value.min(next.value), sum)),
            ("max", _) => folded(&|sum, all, next| with_value(all.value.max(next.value), sum)),
            ("count", _) => Ok(count),
            ("abs", [one]) => Ok(with_value(one.value.abs(), *one)),
            ("sqrt", [base]) => base.apply('^', one.apply('/', Self::constant(2.into()))?),
            // Compound annual growth rate.
            ("cagr", [first, last, years]) if first.value > Decimal::ZERO => {
                let growth = last.apply('/', *first)?;
                growth.apply('^', one.apply('/', *years)?)?.apply('-', one)
            }
            ("sqrt", _) | ("abs", _) | ("cagr", _) => Err(NO_NUMBER.into()),
            _ => Err(format!("the formula uses an unknown function `{function}`")),
        }
    }
}

/// What flows out is printed as negative, and rises with its amount.
fn compare(earlier: Decimal, later: Decimal) -> Ordering {
    match earlier.is_sign_negative() && later.is_sign_negative() {
        true => later.abs().cmp(&earlier.abs()),
        false => later.cmp(&earlier),
    }
}

// Powers of larger numbers overflow inside the library, and negative ones have no roots.
fn is_too_large(base: Decimal, exponent: Decimal) -> bool {
    base.abs() > MAX_BASE.into()
        || exponent.abs() > MAX_EXPONENT.into()
        || base.is_sign_negative() && !exponent.fract().is_zero()
}
