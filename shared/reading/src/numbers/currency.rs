//! Currencies and scales, as pages declare them.

use super::lexing::scale_of;
use crate::vocabulary::{CURRENCIES, NUMBER_SCALES};

/// A currency, as far as signs tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Currency {
    Dollar,
    Euro,
    Pound,
    // Yen and yuan have one sign.
    Yen,
}

impl Currency {
    /// The currency that a sign or a word in lower case names.
    pub fn from_word(word: &str) -> Option<Self> {
        match CURRENCIES.get(word)? {
            "dollar" => Some(Self::Dollar),
            "euro" => Some(Self::Euro),
            "pound" => Some(Self::Pound),
            "yen" => Some(Self::Yen),
            _ => None,
        }
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

/// The scales that a page declares for its numbers: `(in millions)`.
pub fn scales(page: &str) -> Vec<u64> {
    let lower = page.to_lowercase();
    NUMBER_SCALES
        .iter()
        .filter(|(word, _)| word.ends_with('s') && declares_scale(&lower, word))
        .filter_map(|(word, _)| scale_of(word))
        .collect()
}

fn declares_scale(lower: &str, word: &str) -> bool {
    // `($ million)`
    let one = word.trim_end_matches('s');
    lower.contains(one)
        && [
            format!("in {word}"),
            format!("({word}"),
            format!("$ {word}"),
            format!("($ {one})"),
            format!("(€ {one})"),
            format!("(in $ {one})"),
            format!("(us$ {one})"),
            format!("{word} of dollars"),
            format!("{word}, except"),
        ]
        .iter()
        .any(|form| has_whole(lower, form))
}

// `within millions` declares no scale.
fn has_whole(text: &str, form: &str) -> bool {
    text.match_indices(form).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let starts = form.starts_with(|c: char| !c.is_alphanumeric())
            || !before.is_some_and(char::is_alphanumeric);
        let next = text[at + form.len()..].chars().next();
        let ends = form.ends_with(')') || !next.is_some_and(char::is_alphanumeric);
        starts && ends
    })
}
