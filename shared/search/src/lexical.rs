//! Words of a text and terms of a question.
//!
//! A word stays whole where people read it as one: `R&D`, `3M's` (as `3M`), `1,577` (as `1577`, with or without `$`),
//! `U.S.`; `year-end` counts as itself and as its parts. English words are stemmed; scripts without spaces are cut into
//! pairs of neighboring characters, which needs no dictionary and finds every substring of two or more.

use std::collections::BTreeMap;
use std::ops::Range;

use rust_stemmers::{Algorithm, Stemmer};

/// Terms of a question; later ones are ignored.
pub const MAX_TERMS: usize = 32;
/// Longest word that is looked at, in bytes; longer runs are no words.
const MAX_WORD_BYTES: usize = 64;

/// Words of a question that say nothing about its subject. Left in when there is nothing else.
const STOP_WORDS: [&str; 68] = [
    "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "been", "by", "can", "did", "do", "does", "for",
    "from", "had", "has", "have", "how", "if", "in", "into", "is", "it", "its", "may", "me", "more", "much", "many",
    "my", "no", "not", "of", "on", "or", "our", "over", "per", "please", "s", "should", "so", "such", "tell", "than",
    "that", "the", "their", "there", "these", "this", "to", "was", "we", "were", "what", "when", "where", "which",
    "who", "why", "will", "with", "you",
];

/// The terms of a question, and how to find them in texts.
pub struct Terms {
    stemmer: Stemmer,
    terms: Vec<String>,
    index: BTreeMap<String, usize>,
    /// First two bytes of terms in Latin letters or digits: what most words are turned away by.
    starts: Vec<[u8; 2]>,
    /// Whether there are terms that `starts` cannot speak for.
    others: bool,
}

impl Terms {
    /// The distinct terms of `question` in order, without stop words; at most [`MAX_TERMS`].
    pub fn of(question: &str) -> Self {
        let stemmer = Stemmer::create(Algorithm::English);
        let mut all: Vec<String> = Vec::new();
        let mut significant: Vec<String> = Vec::new();
        each_word(question, |word, _| {
            let keep = !STOP_WORDS.contains(&word.to_lowercase().as_str());
            each_term(&stemmer, word, |term| {
                for list in [Some(&mut all), keep.then_some(&mut significant)].into_iter().flatten() {
                    if list.len() < MAX_TERMS && !list.iter().any(|known| known == term) {
                        list.push(term.to_owned());
                    }
                }
            });
        });
        let terms = if significant.is_empty() { all } else { significant };
        let index = terms.iter().cloned().enumerate().map(|(at, term)| (term, at)).collect();
        let start = |term: &String| term.as_bytes().first_chunk::<2>().copied();
        let latin = |term: &String| term.len() >= 2 && term.is_ascii();
        let starts = terms.iter().filter(|term| latin(term)).filter_map(start).collect();
        let others = !terms.iter().all(latin);
        Self { stemmer, terms, index, starts, others }
    }

    /// The terms, as they are compared.
    pub fn as_slice(&self) -> &[String] {
        &self.terms
    }

    /// Calls `visit` with the index of each term found in `text` and the bytes of the word it was found in.
    pub fn find(&self, text: &str, mut visit: impl FnMut(usize, Range<usize>)) {
        each_word(text, |word, range| {
            if self.may_be(word) {
                each_term(&self.stemmer, word, |term| {
                    if let Some(&at) = self.index.get(term) {
                        visit(at, range.clone());
                    }
                });
            }
        });
    }

    /// How often each term occurs in `text`.
    pub fn count(&self, text: &str) -> Vec<u32> {
        let mut counts = vec![0; self.terms.len()];
        self.find(text, |at, _| counts[at] += 1);
        counts
    }

    /// Whether a word could give one of the terms. A stem starts as its word does, but for "dying", "lying" and "tying".
    fn may_be(&self, word: &str) -> bool {
        let bytes = word.as_bytes();
        let starts = |at: usize| {
            let pair = bytes.get(at..at + 2).map(|pair| [pair[0].to_ascii_lowercase(), pair[1].to_ascii_lowercase()]);
            pair.is_some_and(|pair| self.starts.contains(&pair))
        };
        if starts(0) {
            return true;
        }
        let compound = bytes.iter().position(|byte| matches!(byte, b'-' | b','));
        compound.is_some() && self.compound_may_be(word) || (self.others && (bytes.len() < 2 || !word.is_ascii()))
    }

    fn compound_may_be(&self, word: &str) -> bool {
        // "1,577" gives "1577"; parts of compounds start anywhere behind a hyphen.
        word.starts_with(|c: char| c.is_ascii_digit())
            || word.split('-').skip(1).any(|part| {
                let start = part.as_bytes().first_chunk::<2>().map(|pair| pair.map(|byte| byte.to_ascii_lowercase()));
                start.is_some_and(|start| self.starts.contains(&start)) || (self.others && part.len() < 2)
            })
    }
}

/// Characters of scripts that are written without spaces between words.
fn is_cjk(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{2FDF}' | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}'
        | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3134F}')
}

fn is_letter(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() } else { c.is_alphanumeric() && !is_cjk(c) }
}

/// Calls `visit` with each word of `text` and its bytes. Runs of characters without spaces between words come as pairs.
fn each_word(text: &str, mut visit: impl FnMut(&str, Range<usize>)) {
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        if is_cjk(c) {
            let next = chars.peek().filter(|(_, next)| is_cjk(*next));
            let before = text[..start].chars().next_back().is_some_and(is_cjk);
            if let Some((at, next)) = next {
                let end = at + next.len_utf8();
                visit(&text[start..end], start..end);
            } else if !before {
                let end = start + c.len_utf8();
                visit(&text[start..end], start..end);
            }
        } else if is_letter(c) {
            let mut end = start + c.len_utf8();
            let mut last = c;
            while let Some(&(at, c)) = chars.peek() {
                if is_letter(c) {
                    end = at + c.len_utf8();
                } else if !joins(last, c, text[at + c.len_utf8()..].chars().next()) {
                    break;
                }
                last = c;
                chars.next();
            }
            if end - start <= MAX_WORD_BYTES {
                visit(&text[start..end], start..end);
            }
        }
    }
}

/// Whether `c` between two characters keeps them one word.
fn joins(before: char, c: char, after: Option<char>) -> bool {
    let Some(after) = after.filter(|after| is_letter(*after)) else { return false };
    match c {
        '&' | '-' | '\'' | '’' => is_letter(before),
        ',' => before.is_ascii_digit() && after.is_ascii_digit(),
        '.' => is_letter(before) && before.is_ascii_digit() == after.is_ascii_digit(),
        _ => false,
    }
}

/// Calls `visit` with the terms a word stands for.
fn each_term(stemmer: &Stemmer, word: &str, mut visit: impl FnMut(&str)) {
    let lower = if word.is_ascii() { word.to_ascii_lowercase() } else { word.to_lowercase().replace('’', "'") };
    let bare = lower.strip_suffix("'s").or_else(|| lower.strip_suffix('\'')).unwrap_or(&lower);
    if bare.starts_with(|c: char| c.is_ascii_digit()) && !bare.contains('-') {
        return visit(&bare.replace(',', ""));
    }
    if bare.contains('-') {
        visit(bare);
        for part in bare.split('-').filter(|part| !part.is_empty()) {
            visit(&stem(stemmer, part));
        }
        return;
    }
    visit(&stem(stemmer, bare));
}

fn stem<'a>(stemmer: &Stemmer, word: &'a str) -> std::borrow::Cow<'a, str> {
    if word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_alphabetic()) { stemmer.stem(word) } else { word.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(question: &str) -> Vec<String> {
        Terms::of(question).as_slice().to_vec()
    }

    #[test]
    fn words_stay_whole_where_people_read_them_as_one() {
        assert_eq!(terms("What drove 3M's R&D at year-end?"), ["drove", "3m", "r&d", "year-end", "year", "end"]);
        assert_eq!(terms("$1,577 or 7.5% in U.S. dollars"), ["1577", "7.5", "u.s", "dollar"]);
        assert_eq!(terms("营业收入 2022"), ["营业", "业收", "收入", "2022"]);
        assert_eq!(terms("what is it"), ["what", "is", "it"]);
        assert_eq!(terms("..., !"), [""; 0]);
    }

    #[test]
    fn a_term_is_found_however_it_is_written() {
        for (question, text, found) in [
            ("hedging", "hedges and a HEDGE", 2),
            ("$1,577", "(1,577) $ 1577 1,577.0", 2),
            ("year end", "at year-end", 2),
            ("year-end", "the end of the year", 2),
            ("R&D", "r&d, R & D", 1),
            ("3M's", "3M, 3m’s", 2),
            ("收入", "营业收入增长", 1),
            ("年", "年 2022年", 2),
            ("currency", "currencies", 1),
            ("b", "a-b", 1),
        ] {
            let counts = Terms::of(question).count(text);
            assert_eq!(counts.iter().sum::<u32>(), found, "{question} in {text}: {counts:?}");
        }
    }

    #[test]
    fn hostile_text_is_no_words() {
        assert_eq!(terms(&"x".repeat(10_000)), [""; 0]);
        assert_eq!(terms(&"a-".repeat(10_000)).len(), 0);
        let many: String = (0..100).map(|n| format!("word{n} ")).collect();
        assert_eq!(terms(&many).len(), MAX_TERMS);
    }
}
