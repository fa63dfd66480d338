//! Stems of words. The script of a word says which stemmer it takes, so that a query finds the words of a text whatever language
//! either is in.

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};

use crate::vocabulary::{WORD_PREFIXES, WORD_SUFFIXES};

// Letters of the shortest words and stems.
const MIN_LETTERS: usize = 3;
const MIN_STEM: usize = 2;

/// The stem of a word in its plain spelling. Scripts of many languages have none, except that Latin words are English.
pub(super) fn stem(word: &str) -> Cow<'_, str> {
    if word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return match word.len() {
            0..MIN_LETTERS => word.into(),
            _ => Stemmer::create(Algorithm::English).stem(word),
        };
    }
    if word.is_ascii() || word.chars().take(MIN_LETTERS).count() < MIN_LETTERS {
        return word.into();
    }
    let is_in =
        |letters: std::ops::RangeInclusive<char>| word.chars().all(|c| letters.contains(&c));
    if is_in('а'..='я') {
        Stemmer::create(Algorithm::Russian).stem(word)
    } else if is_in('α'..='ω') {
        Stemmer::create(Algorithm::Greek).stem(word)
    } else if is_in('\u{621}'..='\u{6D3}') || is_in('\u{900}'..='\u{965}') {
        without_affixes(word).into()
    } else {
        word.into()
    }
}

// A word without the longest prefix and suffix of the lists.
fn without_affixes(word: &str) -> &str {
    let behind_prefixes = WORD_PREFIXES
        .iter()
        .filter_map(|prefix| word.strip_prefix(prefix));
    let word = shortest_stem(behind_prefixes).unwrap_or(word);
    let before_suffixes = WORD_SUFFIXES
        .iter()
        .filter_map(|suffix| word.strip_suffix(suffix));
    shortest_stem(before_suffixes).unwrap_or(word)
}

fn shortest_stem<'w>(rests: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    rests
        .filter(|rest| rest.chars().count() >= MIN_STEM)
        .min_by_key(|rest| rest.len())
}
