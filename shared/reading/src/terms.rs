//! Terms of a text, and its length in words, in scripts with and without spaces.

use crate::letters::{is_unspaced, is_word_part};
use crate::vocabulary::FUNCTION_WORDS_OF_LANGUAGES;

/// Whether the character belongs to a script written without spaces between words.
pub fn is_cjk(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{2FDF}' | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}'
        | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3134F}')
}

// Letters of a word of Thai, Lao, Burmese and Khmer, with vowel signs, in texts of these.
const UNSPACED_LETTERS: usize = 5;

/// Words that have no spaces between them; two ideographs count as one word.
pub fn unspaced_words(text: &str) -> usize {
    if text.is_ascii() {
        return 0;
    }
    let count = |is_member: fn(char) -> bool| text.chars().filter(|c| is_member(*c)).count();
    count(is_cjk) / 2 + count(is_unspaced) / UNSPACED_LETTERS
}

/// Length in words; two ideographs count as one word.
pub fn count(text: &str) -> usize {
    let mut words = 0;
    for word in text.split_whitespace() {
        if word.is_ascii() {
            words += 1;
            continue;
        }
        let ideographs = word.chars().filter(|c| is_cjk(*c)).count();
        let others = word.chars().any(|c| c.is_alphanumeric() && !is_cjk(c)) || ideographs == 0;
        let unspaced = word.chars().filter(|c| is_unspaced(*c)).count();
        words += ideographs.div_ceil(2) + (unspaced / UNSPACED_LETTERS).max(usize::from(others));
    }
    words
}

fn is_stop_word(word: &str) -> bool {
    word.len() < 2 || FUNCTION_WORDS_OF_LANGUAGES.contains(word)
}

/// Calls `visit` with each content term: lower-case words without plural endings, and pairs of neighboring ideographs.
/// Stop words and numbers are skipped.
pub fn terms(text: &str, mut visit: impl FnMut(&str)) {
    let mut word = String::new();
    let mut last_ideograph: Option<char> = None;
    for c in text.chars().chain([' ']) {
        if is_cjk(c) {
            flush(&mut word, &mut visit);
            if let Some(last) = last_ideograph {
                let mut pair = String::with_capacity(8);
                pair.extend([last, c]);
                visit(&pair);
            }
            last_ideograph = Some(c);
            continue;
        }
        last_ideograph = None;
        if c.is_ascii_alphanumeric() && word.len() < 64 {
            word.push(c.to_ascii_lowercase());
        } else if is_word_part(c) && word.len() < 64 {
            word.extend(c.to_lowercase());
        } else if !matches!(c, '&' | '\'' | '’') {
            flush(&mut word, &mut visit);
        }
    }
}

fn flush(word: &mut String, visit: &mut impl FnMut(&str)) {
    if !is_stop_word(word) && !word.chars().all(char::is_numeric) {
        visit(stem(word));
    }
    word.clear();
}

// Removes only the plural ending: enough to match a sentence with the title of its section, in any language.
fn stem(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if word.len() > 3 && !stem.ends_with(['s', 'u', 'i']) => stem,
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_terms(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        terms(text, |term| out.push(term.into()));
        out
    }

    #[test]
    fn terms_are_words_and_ideograph_pairs() {
        assert_eq!(
            all_terms("The sales of 3M's R&D were $1,749 in 2022"),
            ["sale", "3ms", "rd"]
        );
        assert_eq!(
            all_terms("营业收入增长 12%"),
            ["营业", "业收", "收入", "入增", "增长"]
        );
    }

    #[test]
    fn two_ideographs_count_as_one_word() {
        assert_eq!(count("net sales rose"), 3);
        assert_eq!(count("营业收入 2022 年"), 4);
        assert_eq!(count(""), 0);
    }
}
