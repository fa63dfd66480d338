//! Words with which people ask, in questions about anything. They name no subject, so no document has to have them.
//!
//! Interrogatives, auxiliaries, pronouns and prepositions are stop words of the tokenizer. A question also has a
//! closed class of words: verbs that say what to do with a text or what a text does, verbs that mean little without their
//! object, verbs of change, parts of texts, and words of amount. Each class is listed with its irregular forms; others have
//! the same stem.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::tokenizer::tokenize;
use crate::vocabulary::QUESTION_WORDS;

/// Whether a stem is that of a word with which people ask.
pub fn is_question_word(stem: &str) -> bool {
    static STEMS: LazyLock<HashSet<String>> = LazyLock::new(|| {
        QUESTION_WORDS
            .iter()
            .flat_map(|word| tokenize(word))
            .collect()
    });
    STEMS.contains(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_all_questions_are_told_from_subjects() {
        for (text, expected) in [
            ("mentioned", true),
            ("describes", true),
            ("went", true),
            ("casino", false),
            ("hedging", false),
        ] {
            let stems = tokenize(text);
            assert_eq!(is_question_word(&stems[0]), expected, "{text}");
        }
    }
}
