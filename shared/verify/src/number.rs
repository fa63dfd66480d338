//! Values as a model copies them.

use stemma_reading::numbers::{NumberMention, numbers};

// A longer value is not a number.
const MAX_VALUE_CHARS: usize = 60;

/// The one number of a value: `(1,749)`, `$ 1,749 million` and `$1,749` are one number.
pub(crate) fn stated_number(value: &str) -> Option<NumberMention> {
    if value.chars().count() > MAX_VALUE_CHARS {
        return None;
    }
    let squeezed = value
        .replace("$ ", "$")
        .replace("$(", "(")
        .replace("( ", "(")
        .replace(" )", ")");
    let mut found = numbers(&squeezed).into_iter();
    let mut number = found.next()?;
    // `12 (1,749)` is not one figure.
    if found.next().is_some() {
        return None;
    }
    number.read_as_cell("");
    Some(number)
}

/// Whether two numbers have one value and sign. Digits after the point may end in zeros.
pub(crate) fn is_same(one: &NumberMention, other: &NumberMention) -> bool {
    let values = one.signed_value().zip(other.signed_value());
    values.is_some_and(|(one, other)| one == other)
}
