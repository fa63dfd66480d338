//! The tokenizer shared by index, queries and snippets.
//!
//! Text is normalized to NFKC and lower case. A word stays whole where people read it as one: `3M's` is `3m`, `R&D` is
//! `r&d`, `$1,577` is `1577`, `U.S.` is `us`, `10-K` is `10k`. A compound counts joined and as its parts (`non-GAAP` is
//! `nongaap`, `non`, `gaap`); a fiscal year is its year (`FY22` is `2022`); a word hyphenated at a line end is rejoined.
//! English words are stemmed. Chinese is segmented by a dictionary that is loaded on first use; kana and hangul become
//! bigrams.
//!
//! Most words of a document repeat, so each thread caches the terms of words. [`TokenizedText`] has the words of a text with
//! their places, for readers that need several parts of it.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use foldhash::fast::RandomState;

use jieba_rs::{Jieba, TokenizeMode};
use rust_stemmers::{Algorithm, Stemmer};
use stemma_document::note_marks::is_raised;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

use crate::vocabulary::{COMPOUNDS, IRREGULAR_PLURALS, STOP_WORDS};

// Longer runs are data, such as base64, rather than words.
const MAX_WORD_BYTES: usize = 64;

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

enum RunKind {
    Word,
    Chinese,
    Bigrams,
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{2FDF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3134F}')
}

fn is_bigram_script(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30FF}' | '\u{AC00}'..='\u{D7AF}' | '\u{31F0}'..='\u{31FF}')
}

fn is_letter(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric()
    } else {
        c.is_alphanumeric() && !is_han(c) && !is_bigram_script(c) && !is_raised(c)
    }
}

// Calls `visit` with each word, and with each run of a script written without spaces.
fn for_each_run(text: &str, visit: &mut impl FnMut(RunKind, Range<usize>)) {
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        let mut end = start + c.len_utf8();
        let same: fn(char) -> bool = if is_han(c) {
            is_han
        } else if is_bigram_script(c) {
            is_bigram_script
        } else if is_letter(c) {
            let mut last = c;
            while let Some(&(at, c)) = chars.peek() {
                if is_letter(c) {
                    end = at + c.len_utf8();
                } else if !is_word_joiner(last, c, &text[at + c.len_utf8()..]) {
                    break;
                }
                last = c;
                chars.next();
            }
            if end - start <= MAX_WORD_BYTES {
                visit(RunKind::Word, start..end);
            }
            continue;
        } else {
            continue;
        };
        while let Some((at, c)) = chars.next_if(|(_, c)| same(*c)) {
            end = at + c.len_utf8();
        }
        visit(
            if is_han(c) {
                RunKind::Chinese
            } else {
                RunKind::Bigrams
            },
            start..end,
        );
    }
}

// Whether `c` joins the characters around it into one word.
fn is_word_joiner(before: char, c: char, rest: &str) -> bool {
    let mut rest = rest.chars();
    let Some(after) = rest.next() else {
        return false;
    };
    match c {
        '&' | '\'' | '’' => is_letter(before) && is_letter(after),
        '-' | '\u{2010}' | '\u{2011}' => {
            is_letter(before)
                && (is_letter(after)
                    || after == '\n' && is_hyphenated_at_line_end(before, rest.next()))
        }
        // The line break after a hyphen that splits a word.
        '\n' => matches!(before, '-' | '\u{2010}' | '\u{2011}') && after.is_lowercase(),
        '\u{AD}' => true,
        ',' => before.is_ascii_digit() && after.is_ascii_digit(),
        '.' => {
            is_letter(before)
                && is_letter(after)
                && before.is_ascii_digit() == after.is_ascii_digit()
        }
        _ => false,
    }
}

fn is_hyphenated_at_line_end(before: char, next: Option<char>) -> bool {
    before.is_lowercase() && next.is_some_and(char::is_lowercase)
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
    Cow::Owned(composed.replace('\u{AD}', "").to_lowercase())
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

fn stem(word: &str) -> Cow<'_, str> {
    if word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        Stemmer::create(Algorithm::English).stem(word)
    } else {
        word.into()
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

fn bigrams(text: &str, offset: usize, visit: &mut impl FnMut(&str, Range<usize>)) {
    let starts: Vec<usize> = text
        .char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .collect();
    if starts.len() == 2 {
        return visit(text, offset..offset + text.len());
    }
    for pair in starts.windows(3) {
        visit(&text[pair[0]..pair[2]], offset + pair[0]..offset + pair[2]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_and_compounds_stay_whole() {
        for (text, expected) in [
            (
                "What drove 3M's R&D at year-end?",
                "what drove 3m r&d at yearend year end",
            ),
            ("$1,577 or 7.5% in U.S. dollars", "1577 or 7.5 in us dollar"),
            (
                "non-GAAP, FY22, FY 2022 and 10-K",
                "nongaap non gaap 2022 fy 2022 and 10k",
            ),
            ("cashflow; topline", "cash flow top line"),
            ("appendices, women's", "appendix woman"),
            ("the manage-\nment of", "the manag of"),
            ("ﬁnancial １２３", "financi 123"),
            ("it’s", "it"),
            ("..., !", ""),
        ] {
            assert_eq!(tokenize(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn unspaced_scripts_are_segmented() {
        let chinese = tokenize("营业收入增长了，2022年");
        assert!(
            chinese.contains(&"收入".to_owned()) && chinese.contains(&"2022".to_owned()),
            "{chinese:?}"
        );
        assert_eq!(tokenize("カネ"), ["カネ"]);
        assert_eq!(tokenize("매출액").len(), 2);
    }

    #[test]
    fn words_report_their_byte_ranges() {
        let text = "R&D’s 营业收入, non-GAAP";
        for_each_word(text, |word, range| {
            let there = text[range].to_lowercase();
            assert!(
                there.contains(word) || there.replace('-', "").contains(word),
                "{word} in {there}"
            );
        });
    }

    #[test]
    fn parts_of_a_tokenized_text_have_the_words_that_start_there() {
        let text = "Net sales of R&D\nnon-GAAP 1,577 5";
        let tokens = TokenizedText::new(text);
        assert_eq!(
            tokens.joined().split(SEPARATOR).collect::<Vec<_>>(),
            tokenize(text)
        );
        assert_eq!(tokens.len(), 9);
        let line = 17..text.len();
        assert_eq!(
            tokens.joined_in(&line).replace(SEPARATOR, " "),
            "nongaap non gaap 1577 5"
        );
        assert_eq!(tokens.content_words(&(0..16)), ["net", "sale", "r&d"]);
        assert_eq!(tokens.joined_in(&(4..4)), "");
        assert_eq!(TokenizedText::default().joined_in(&(0..9)), "");
    }

    #[test]
    fn tokenizing_inside_a_visit_is_possible() {
        let mut words = Vec::new();
        for_each_word("hedging risks", |word, _| words.extend(tokenize(word)));
        assert_eq!(words, ["hedg", "risk"]);
    }

    #[test]
    fn hostile_text_yields_no_words() {
        assert!(tokenize(&"x".repeat(10_000)).is_empty());
        assert!(tokenize(&"a-".repeat(10_000)).is_empty());
        assert!(tokenize("-\n-\n\u{AD}").is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics_and_ranges_are_sound(text in ".{0,60}") {
            for_each_word(&text, |_, range| assert!(text.get(range).is_some()));
        }
    }
}
