//! The words of a query as they are written: where capitals, sentences and possessives tell names from other words.

use crate::aliases::name_words;

// Later words are ignored.
const MAX_WORDS: usize = 120;

/// A word of a query. A written word such as `Amazon.com` may be several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryWord {
    /// As in an alias: lower case.
    pub word: String,
    /// Index of the written word.
    pub at: usize,
    /// Starts with a capital letter, or has no letters.
    pub capital: bool,
    /// Has letters, all of them capitals.
    pub upper: bool,
    /// First word of a sentence, where a capital letter says nothing.
    pub first: bool,
    /// Written with `'s`, or with an apostrophe at its end.
    pub possessive: bool,
}

/// The words of a query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryWords {
    pub words: Vec<QueryWord>,
    written: Vec<String>,
}

impl QueryWords {
    pub fn new(text: &str) -> Self {
        let written: Vec<String> = text
            .split_whitespace()
            .take(MAX_WORDS)
            .map(|word| word.replace('’', "'"))
            .collect();
        let mut words = Vec::new();
        let mut first = true;
        for (at, raw) in written.iter().enumerate() {
            let trimmed = raw.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '\'');
            let bare = trimmed.trim_end_matches("'s").trim_end_matches('\'');
            let letters = || bare.chars().filter(|c| c.is_alphabetic());
            let capital = letters().next().is_none_or(char::is_uppercase);
            let upper = letters().next().is_some() && letters().all(char::is_uppercase);
            for word in name_words(raw) {
                words.push(QueryWord {
                    word,
                    at,
                    capital,
                    upper,
                    first,
                    possessive: bare.len() < trimmed.len(),
                });
            }
            first = raw.ends_with(['.', '?', '!', ':']);
        }
        Self { words, written }
    }

    /// Whether capitals say anything: not if all letters are.
    pub fn has_case(&self) -> bool {
        self.words
            .iter()
            .any(|word| !word.upper && word.word.chars().any(char::is_alphabetic))
    }

    /// Whether a word within a sentence starts with a capital letter.
    pub fn has_capitals(&self) -> bool {
        self.has_case()
            && self.words.iter().any(|word| {
                word.capital && !word.first && word.word.starts_with(char::is_alphabetic)
            })
    }

    /// The written words of some of `words`, without punctuation around them and without the possessive.
    pub fn written(&self, words: std::ops::Range<usize>) -> String {
        let Some(words) = self.words.get(words).filter(|words| !words.is_empty()) else {
            return String::new();
        };
        let joined = self.written[words[0].at..=words[words.len() - 1].at].join(" ");
        let bare = joined.trim_matches(|c: char| !c.is_alphanumeric());
        bare.strip_suffix("'s").unwrap_or(bare).to_owned()
    }

    /// Whether a word ends a phrase: punctuation or a possessive follows.
    pub fn ends_phrase(&self, word: usize) -> bool {
        let Some(query_word) = self.words.get(word) else {
            return true;
        };
        let is_last_part = self
            .words
            .get(word + 1)
            .is_none_or(|next| next.at != query_word.at);
        let written = &self.written[query_word.at];
        is_last_part
            && (query_word.possessive
                || written.ends_with([',', ';', ':', '?', '!', ')', '"', '”']))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_sentences_and_possessives_are_kept() {
        let words = QueryWords::new("Acme's (ACM) cost? The Widget.com story, told");
        let marks: Vec<(&str, bool, bool, bool, bool)> = words
            .words
            .iter()
            .map(|word| {
                (
                    word.word.as_str(),
                    word.capital,
                    word.upper,
                    word.first,
                    word.possessive,
                )
            })
            .collect();
        assert_eq!(
            marks,
            [
                ("acme", true, false, true, true),
                ("acm", true, true, false, false),
                ("cost", false, false, false, false),
                ("the", true, false, true, false),
                ("widget", true, false, false, false),
                ("com", true, false, false, false),
                ("story", false, false, false, false),
                ("told", false, false, false, false),
            ]
        );
        assert_eq!(words.written(0..1), "Acme");
        assert_eq!(words.written(4..7), "Widget.com story");
        assert!(words.ends_phrase(0) && words.ends_phrase(6) && !words.ends_phrase(4));
        assert!(words.has_case() && !QueryWords::new("ALL OF ACME").has_case());
    }
}
