//! Words with which people ask, in questions about anything. They name no subject, so no document has to have them.
//!
//! Interrogatives, auxiliaries, pronouns and prepositions are stop words of the tokenizer. Beside them, a question has a
//! closed class of words: verbs that say what to do with a text or what a text does, verbs that mean little without their
//! object, verbs of change, parts of texts, and words of amount. Each class is listed with its irregular forms; others have
//! the same stem.

use std::collections::HashSet;
use std::sync::OnceLock;

use crate::tokenizer::tokenize;

// What to do with a text, and what a text does: "which risks does it mention", "list the names".
const REPORTING: &str = "answer ask cite claim comment compare compute count define describe discuss display draw drew drawn \
    elaborate exclude explain express find found highlight identify imply include indicate list mention note outline point \
    present print provide quote read refer represent respond say said see saw seen select separate show shown speak spoke \
    specify state suggest sum summarize talk tell told think thought write wrote written";
// Verbs that mean little without their object: "come from", "take into account".
const LIGHT: &str = "appear attach become became begin began begun bring brought call come came contain consist do doing done \
    follow form get got give gave given go goes going gone went happen help keep kept like make made match mean meant need put \
    relate run ran take took taken use want";
// "How did it develop": texts state the figures, not the change.
const CHANGE: &str = "decline decrease double drag drive drove driven drop fall fell fallen gain grow grew grown improve \
    increase lose lost rise rose risen worsen";
// Where something stands, and the form of an answer.
const PARTS: &str = "appendix beginning bullet caption cell chart column diagram digit document ending figure format graph \
    heading image italic item letter line note page paragraph phrase picture question quotation row section sentence shape \
    slide string subsection subtitle symbol table term text title word yes";
// "How many", "which kind", "at least".
const AMOUNT: &str = "below decimal directly entire even float greater int integer kind least length less metric name number \
    often one order part people percent percentage proportion round share thing together type value versus worth \
    two three";

/// Whether a stem is that of a word with which people ask.
pub fn is_question_word(stem: &str) -> bool {
    static WORDS: OnceLock<HashSet<String>> = OnceLock::new();
    let words = WORDS.get_or_init(|| {
        let classes = [REPORTING, LIGHT, CHANGE, PARTS, AMOUNT];
        classes.into_iter().flat_map(tokenize).collect()
    });
    words.contains(stem)
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
