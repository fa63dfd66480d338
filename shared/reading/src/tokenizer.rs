//! The tokenizer shared by index, queries and snippets.
//!
//! Text is normalized to NFKC and lower case. A word stays whole where people read it as one: `3M's` is `3m`, `R&D` is
//! `r&d`, `$1,577` is `1577`, `U.S.` is `us`, `10-K` is `10k`. A compound counts joined and as its parts (`non-GAAP` is
//! `nongaap`, `non`, `gaap`); a fiscal year is its year (`FY22` is `2022`); a word hyphenated at a line end is rejoined.
//! Words of scripts with one main language are stemmed (`stems.rs`), and spelled in one way (`spelling.rs`). Chinese is
//! segmented by a dictionary that is loaded on first use; kana, hangul and the scripts of South East Asia become bigrams.
//!
//! Most words of a document repeat, so each thread caches the terms of words. [`TokenizedText`] has the words of a text with
//! their places, for readers that need several parts of it.

mod runs;
mod spelling;
mod stems;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use foldhash::fast::RandomState;

use jieba_rs::{Jieba, TokenizeMode};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

use self::runs::{RunKind, for_each_run};
use self::stems::stem;
use crate::letters::is_mark;
use crate::vocabulary::{COMPOUNDS, ELIDED_WORDS, IRREGULAR_PLURALS, STOP_WORDS};

// Bounds of the cache of a thread: about 2 MB.
const MAX_CACHED_WORDS: usize = 1 << 14;
const MAX_CACHED_WORD_BYTES: usize = 24;

/// Between the words of [`TokenizedText::joined`]. No word contains it.
pub const SEPARATOR: char = '\u{1F}';

/// Whether a normalized word is a stop word.
pub fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(word)
}

/// Calls `visit` with each normalized word of `text` and its byte range. All parts of a compound share one range.
pub fn for_each_word(text: &str, mut visit: impl FnMut(&str, Range<usize>)) {
    thread_local!(static CACHE: Cell<WordCache> = Cell::default());
    // Taken rather than borrowed, because `visit` may tokenize, too.
    let mut cache = CACHE.take();
    let mut fiscal_prefix: Option<Range<usize>> = None;
    for_each_run(text, &mut |run, range| match run {
        RunKind::Chinese => segment_chinese(&text[range.clone()], range.start, &mut visit),
        RunKind::Bigrams => bigrams(&text[range.clone()], range.start, &mut visit),
        RunKind::Word => {
            let word = &text[range.clone()];
            let year = match fiscal_prefix.take() {
                // In `FY 22`, `FY` is a word of its own.
                Some(at) if text[at.end..range.start].trim().is_empty() => {
                    normalize_year(&normalize_word(word))
                }
                _ => None,
            };
            match year {
                Some(year) => visit(&year, range.clone()),
                None => cache.for_each_term(word, |term| visit(term, range.clone())),
            }
            fiscal_prefix = word.eq_ignore_ascii_case("fy").then_some(range);
        }
    });
    CACHE.set(cache);
}

// The terms of words as written, joined by `SEPARATOR`.
#[derive(Default)]
struct WordCache(HashMap<Box<str>, Box<str>, RandomState>);

impl WordCache {
    fn for_each_term(&mut self, word: &str, mut visit: impl FnMut(&str)) {
        // Numbers seldom repeat.
        if word
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b','))
        {
            return visit(&remove_char(word, ','));
        }
        if let Some(terms) = self.0.get(word) {
            return terms.split(SEPARATOR).for_each(visit);
        }
        let mut terms = String::new();
        word_terms(&normalize_word(word), &mut |term| {
            if !terms.is_empty() {
                terms.push(SEPARATOR);
            }
            terms.push_str(term);
        });
        terms.split(SEPARATOR).for_each(&mut visit);
        if word.len() <= MAX_CACHED_WORD_BYTES && self.0.len() < MAX_CACHED_WORDS {
            self.0.insert(word.into(), terms.into());
        }
    }
}

/// The normalized words of a text, with their places in it.
#[derive(Debug, Clone, Default)]
pub struct TokenizedText {
    joined: String,
    words: Vec<WordPlace>,
}

#[derive(Debug, Clone, Copy)]
struct WordPlace {
    // Range of the word in `joined`.
    start: u32,
    end: u32,
    // Where the word starts in the text.
    from: u32,
}

impl TokenizedText {
    /// Tokenizes `text`, of at most 4 GB.
    pub fn new(text: &str) -> Self {
        let mut tokens = Self::default();
        for_each_word(text, |word, range| tokens.push(word, range.start));
        tokens
    }

    fn push(&mut self, word: &str, from: usize) {
        if !self.joined.is_empty() {
            self.joined.push(SEPARATOR);
        }
        let start = self.joined.len() as u32;
        self.joined.push_str(word);
        self.words.push(WordPlace {
            start,
            end: self.joined.len() as u32,
            from: from as u32,
        });
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// All words, joined by [`SEPARATOR`].
    pub fn joined(&self) -> &str {
        &self.joined
    }

    /// The words that start in a byte range of the text, joined by [`SEPARATOR`].
    pub fn joined_in(&self, range: &Range<usize>) -> &str {
        let words = self.words_in(range);
        match (words.first(), words.last()) {
            (Some(first), Some(last)) => &self.joined[first.start as usize..last.end as usize],
            _ => "",
        }
    }

    /// The words that start in a byte range of the text, without stop words. Phrases are made of these.
    pub fn content_words(&self, range: &Range<usize>) -> Vec<&str> {
        self.words_in(range)
            .iter()
            .map(|word| &self.joined[word.start as usize..word.end as usize])
            .filter(|word| !is_stop_word(word))
            .collect()
    }

    // The parts of a segmented Chinese run may overlap. A range that begins or ends inside of a run is not exact.
    fn words_in(&self, range: &Range<usize>) -> &[WordPlace] {
        let at = |byte| {
            self.words
                .partition_point(|word| (word.from as usize) < byte)
        };
        let start = at(range.start);
        &self.words[start..at(range.end).max(start)]
    }
}

/// The normalized words of `text`, in order.
pub fn tokenize(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for_each_word(text, |word, _| words.push(word.to_owned()));
    words
}

/// The normalized words of `text` without stop words. Phrases are made of these.
pub fn content_words(text: &str) -> Vec<String> {
    let mut words = tokenize(text);
    words.retain(|word| !is_stop_word(word));
    words
}

// NFKC and lower case, with one kind of hyphen and apostrophe. ASCII text, which is nearly all of it, skips NFKC.
fn normalize_word(word: &str) -> Cow<'_, str> {
    if word.is_ascii() && !word.contains('\n') {
        let plain = word.bytes().all(|byte| !byte.is_ascii_uppercase());
        return if plain {
            Cow::Borrowed(word)
        } else {
            Cow::Owned(word.to_ascii_lowercase())
        };
    }
    let composed: String = if is_nfkc_quick(word.chars()) == IsNormalized::Yes {
        word.into()
    } else {
        word.nfkc().collect()
    };
    let composed = composed
        .replace(['\u{2010}', '\u{2011}'], "-")
        .replace("-\n", "")
        .replace('’', "'");
    Cow::Owned(spelling::plain(&composed.to_lowercase()).into_owned())
}

// Calls `visit` with each index term of a normalized word.
fn word_terms(word: &str, visit: &mut impl FnMut(&str)) {
    let bare = word
        .strip_suffix("'s")
        .or_else(|| word.strip_suffix('\''))
        .unwrap_or(word);
    if let Some(year) = bare.strip_prefix("fy").and_then(normalize_year) {
        return visit(&year);
    }
    if let Some(parts) = COMPOUNDS.get(bare) {
        return parts.split(' ').for_each(visit);
    }
    if bare.contains('-') {
        return compound_terms(bare, visit);
    }
    if let Some((article, noun)) = bare.split_once('\'')
        && ELIDED_WORDS.contains(article)
    {
        // Names are searched as they are written: `L'Oréal`.
        visit(bare);
        return word_terms(noun, visit);
    }
    let bare = IRREGULAR_PLURALS.get(bare).unwrap_or(bare);
    if bare.starts_with(|c: char| c.is_ascii_digit()) {
        return visit(&remove_char(bare, ','));
    }
    visit(&stem(&remove_char(bare, '.')));
}

// The joined compound, then its parts of at least two characters.
fn compound_terms(word: &str, visit: &mut impl FnMut(&str)) {
    let joined = remove_char(word, '-');
    visit(&stem(&joined));
    if joined.len() <= 4 && joined.bytes().any(|byte| byte.is_ascii_digit()) {
        // The parts of `10-K` or `8-K` carry no meaning.
        return;
    }
    for part in word.split('-').filter(|part| part.chars().count() > 1) {
        word_terms(part, visit);
    }
}

fn remove_char(word: &str, mark: char) -> Cow<'_, str> {
    if word.contains(mark) {
        Cow::Owned(word.replace(mark, ""))
    } else {
        Cow::Borrowed(word)
    }
}

// Expands `22` to `2022`, as years are written after `FY`.
fn normalize_year(digits: &str) -> Option<String> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match (digits.len(), digits.parse::<u32>().ok()?) {
        (2, year) if year < 70 => Some(format!("20{year:02}")),
        (2, year) => Some(format!("19{year}")),
        (4, 1900..=2099) => Some(digits.to_owned()),
        _ => None,
    }
}

// Loading takes half a second and tens of megabytes, so it waits for the first Chinese text.
fn dictionary() -> &'static Jieba {
    static DICTIONARY: OnceLock<Jieba> = OnceLock::new();
    DICTIONARY.get_or_init(Jieba::new)
}

fn segment_chinese(text: &str, offset: usize, visit: &mut impl FnMut(&str, Range<usize>)) {
    let starts: Vec<usize> = text
        .char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .collect();
    for token in dictionary().tokenize(text, TokenizeMode::Search, true) {
        if let (Some(start), Some(end)) = (starts.get(token.start), starts.get(token.end)) {
            visit(token.word, offset + start..offset + end);
        }
    }
}

// Pairs of letters with their marks.
fn bigrams(text: &str, offset: usize, visit: &mut impl FnMut(&str, Range<usize>)) {
    let mut starts = text
        .char_indices()
        .filter(|(_, c)| !is_mark(*c))
        .map(|(at, _)| at)
        .chain([text.len()]);
    let mut first = starts.next().unwrap_or_default();
    let mut second = starts.next().unwrap_or(text.len());
    let mut is_alone = true;
    for end in starts {
        visit(&text[first..end], offset + first..offset + end);
        (first, second) = (second, end);
        is_alone = false;
    }
    if is_alone && first < second {
        visit(text, offset..offset + text.len());
    }
}

#[cfg(test)]
mod tests;
