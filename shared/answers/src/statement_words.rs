//! Words of statements that tell nothing about what their figures are, and synonyms of those that do.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use stemma_document::english_words::MONTHS;
use stemma_reading::tokenizer::content_words;
use stemma_reading::vocabulary::{COMPUTING_WORDS, DECREASES, FRAMING_WORDS, INCREASES};
use stemma_retrieval::lexicon::Lexicon;

/// Words about rising and falling.
pub(super) fn direction_words() -> String {
    [&INCREASES[..], &DECREASES[..]].concat().join(" ")
}

/// Whether the text has a synonym of one of the words.
pub(super) fn has_synonym(words: &[String], text: &str) -> bool {
    !synonym_words(words, text).is_empty()
}

/// Whether a stem tells nothing about what a figure is: words of the form of a statement, of computing, of directions and periods.
pub(super) fn is_neutral(word: &str) -> bool {
    static NEUTRAL: OnceLock<BTreeSet<String>> = OnceLock::new();
    let neutral = NEUTRAL.get_or_init(|| {
        let words = [&COMPUTING_WORDS[..], &MONTHS[..]].concat().join(" ");
        let words = format!("{words} {} {}", direction_words(), FRAMING_WORDS.join(" "));
        content_words(&words).into_iter().collect()
    });
    neutral.contains(word)
        || FRAMING_WORDS.contains(word)
        || word.contains(|c: char| c.is_ascii_digit())
        || content_words(word).is_empty()
}

// Words of a statement whose synonyms are in the text: `capital expenditure` where it says `purchases of property …`.
// Only for statements with figures: an entry of the lexicon tells which row a number is in, not what is said about it. The
// lines that a measure is made of are not the measure.
pub(super) fn synonym_words<'w>(own: &'w [String], text: &str) -> Vec<&'w str> {
    let lexicon = Lexicon::get();
    let mut phrases: BTreeSet<&str> = BTreeSet::new();
    lexicon.for_each_phrase(&content_words(text), |phrase, _| {
        phrases.insert(phrase);
    });
    let triggered = lexicon.triggered_entries(own).into_iter();
    let matching = triggered.filter(|triggered| {
        let spellings = &triggered.entry.phrases;
        !triggered.is_part
            && spellings
                .iter()
                .any(|phrase| phrases.contains(phrase.as_str()))
    });
    matching
        .flat_map(|triggered| own[triggered.from].iter().map(String::as_str))
        .collect()
}
