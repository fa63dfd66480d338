//! Currencies and scales, as pages declare them.

use super::lexing::scale_of;
use crate::vocabulary::{
    CURRENCIES, EXCEPT_WORDS, NUMBER_SCALES, SCALE_GENITIVES, SCALE_PREPOSITIONS, SPOKEN_SCALES,
    UNIT_NAMES,
};

// `m` and `bn` say nothing without a currency.
const SHORT_SCALE: usize = 2;

/// A currency, as far as signs tell: yen and yuan have one sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Currency(&'static str);

impl Currency {
    /// The currency that a sign or a word in lower case names.
    pub fn from_word(word: &str) -> Option<Self> {
        CURRENCIES.get(word).map(Self)
    }

    /// The currencies of the signs and words of a text, in order.
    pub fn named_in_text(text: &str) -> Vec<Self> {
        Self::named_in(&text.to_lowercase())
    }

    fn named_in(lower: &str) -> Vec<Self> {
        let signs = lower
            .chars()
            .filter_map(|c| Self::from_word(c.encode_utf8(&mut [0; 4])));
        let words = lower.split(|c: char| !c.is_alphanumeric());
        signs.chain(words.filter_map(Self::from_word)).collect()
    }
}

pub(crate) fn is_currency_sign(c: char) -> bool {
    !c.is_alphanumeric() && Currency::from_word(c.encode_utf8(&mut [0; 4])).is_some()
}

/// The scales that a text declares for its numbers, in their order: `(in millions)`, `Mio. EUR`, `£m`, `单位：万元`.
pub fn scales(text: &str) -> Vec<u64> {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let mut found: Vec<u64> = Vec::new();
    for at in 0..words.len() {
        let before = at.checked_sub(1).map_or("", |before| words[before]);
        let declared = declared_scale(before, words[at], words.get(at + 1..).unwrap_or_default())
            .or_else(|| scale_behind_name(&words[at..]));
        found.extend(declared.filter(|scale| !found.contains(scale)));
    }
    found
}

// A scale without a number: after `in` or a currency, in parentheses, or as one word with its currency.
fn declared_scale(before: &str, word: &str, behind: &[&str]) -> Option<u64> {
    // `Billions)(1)`
    let bare = bare_word(word.split_once(')').map_or(word, |(inside, _)| inside));
    // `US$m`, `EUR'000`
    let joint = bare
        .trim_end_matches(is_currency_sign)
        .rfind(|c: char| is_currency_sign(c) || c == '\'');
    let name = joint.map_or(bare, |joint| {
        bare[joint..].trim_start_matches(|c: char| !c.is_alphanumeric())
    });
    let has_sign = !Currency::named_in(&bare[..bare.len() - name.len()]).is_empty();
    let scale = scale_of(name)?;
    let opens = word.starts_with('(');
    let has_number = !opens && before.ends_with(|c: char| c.is_numeric());
    let is_currency = |word: &str| !Currency::named_in(word).is_empty();
    // `£m`, `T€`, `EUR'000`, but not `$5m`.
    let is_unit = has_sign || is_currency(name);
    let follows_currency = is_currency(before) && !before.contains(char::is_numeric);
    let is_short = name.chars().count() <= SHORT_SCALE && !is_unit;
    let is_spoken = SPOKEN_SCALES.contains(name);
    let follows_preposition = SCALE_PREPOSITIONS.contains(bare_word(before));
    // `Millions of dollars`; above a table, also `Millions of pieces`.
    let has_genitive = matches!(behind, [genitive, unit, ..]
        if SCALE_GENITIVES.contains(genitive) && (before.is_empty() || is_currency(unit)));
    let has_exception = word.ends_with(',')
        && behind
            .first()
            .is_some_and(|next| EXCEPT_WORDS.contains(bare_word(next)));
    let is_declared = match () {
        () if has_number => false,
        () if is_unit || follows_currency => true,
        () if is_short => false,
        () if is_spoken => false,
        () => follows_preposition || opens || has_genitive || has_exception,
    };
    is_declared.then_some(scale)
}

// `单位：万元`
fn scale_behind_name(words: &[&str]) -> Option<u64> {
    let word = words.first()?;
    let name = UNIT_NAMES.iter().find(|name| word.contains(**name))?;
    let behind = word.split_once(name)?.1;
    let next = words.get(1).copied().unwrap_or_default();
    let unit = format!("{behind}{next}");
    NUMBER_SCALES
        .iter()
        .filter(|(scale, _)| !scale.is_ascii() && unit.contains(scale))
        .max_by_key(|(scale, _)| scale.len())
        .and_then(|(scale, _)| scale_of(scale))
}

fn bare_word(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric() && !is_currency_sign(c))
}

/// Whether a text says which currency figures are in: `in dollars`.
pub(crate) fn declares_currency(text: &str) -> bool {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split_whitespace().map(bare_word).collect();
    words
        .windows(2)
        .any(|pair| SCALE_PREPOSITIONS.contains(pair[0]) && Currency::from_word(pair[1]).is_some())
}
