//! Removes from a question what is not part of its subject: roles, sources, and the form of the answer.

use stemma_reading::tokenizer::content_words;
use stemma_reading::vocabulary::{
    ANSWER_STARTS, CONDITIONAL_ANSWERS, CONDITIONS, FORM_ENDS, FORM_FILLERS, FORM_OBJECTS,
    FORM_PREPOSITIONS, FORM_VERBS, INSTRUCTIONS, QUESTION_STARTS, SOURCE_CLAUSES,
};

// Where an instruction may begin: also after the full stop of `Inc.`, since what is not an instruction is joined again.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut marks = rest.match_indices(['?', '!', '\n', '.', ':']);
        let end = marks.find_map(|(at, mark)| {
            let after = &rest[at + mark.len()..];
            let is_spaced = after.starts_with(char::is_whitespace);
            let ends = match mark {
                "." => is_spaced && after.trim_start().starts_with(char::is_uppercase),
                ":" => is_spaced,
                _ => true,
            };
            ends.then_some(at + mark.len())
        });
        let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        (!part.is_empty()).then_some(part)
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
}

/// Removes instructions, unless fewer than two content words would remain.
pub fn strip_instructions(text: &str) -> String {
    let mut remaining: Vec<String> = Vec::new();
    for sentence in parts(text) {
        let lower = sentence.to_lowercase();
        let is_form = is_about_form(&lower);
        let conditional = CONDITIONS.starts(&lower) && CONDITIONAL_ANSWERS.occurs_in(&lower);
        let (instruction, rest) = match INSTRUCTIONS.iter().find(|start| lower.starts_with(*start))
        {
            // "Basing your judgments off of the balance sheet, what is …": only the clause is an instruction.
            Some(_) => (
                true,
                sentence
                    .split_once(", ")
                    .map(|(_, rest)| rest)
                    .filter(|rest| has_question_word(rest)),
            ),
            None => (conditional || is_form, None),
        };
        match (instruction, rest) {
            (false, _) => remaining.push(strip_form(&strip_sources(sentence))),
            (true, Some(rest)) => remaining.push(rest.to_owned()),
            (true, None) => {}
        }
    }
    let remaining = remaining.join(" ");
    if content_words(&remaining).len() < 2 {
        text.to_owned()
    } else {
        remaining
    }
}

fn has_question_word(text: &str) -> bool {
    let lower = text.to_lowercase();
    QUESTION_STARTS.iter().any(|start| lower.starts_with(start))
}

// Removes `based on …` up to the next comma or the end, unless fewer than two content words would remain.
fn strip_sources(sentence: &str) -> String {
    let lower = sentence.to_ascii_lowercase();
    let start = SOURCE_CLAUSES
        .iter()
        .filter_map(|source| lower.find(source))
        .min();
    let Some(at) = start.filter(|at| sentence.is_char_boundary(*at)) else {
        return sentence.to_owned();
    };
    let end = sentence[at..]
        .find([',', '?'])
        .map_or(sentence.len(), |end| at + end);
    let rest = format!("{} {}", &sentence[..at], &sentence[end..]);
    if content_words(&rest).len() < 2 {
        sentence.to_owned()
    } else {
        rest
    }
}

// "Write the answer in int format.", "The answer should be a list."
fn is_about_form(sentence: &str) -> bool {
    let first = sentence
        .split(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap_or("");
    let asks =
        FORM_VERBS.contains(first) && FORM_OBJECTS.iter().any(|object| sentence.contains(object));
    asks || ANSWER_STARTS
        .iter()
        .any(|start| sentence.starts_with(start))
}

// Removes "in USD millions", "into float format" and "to two decimal places".
fn strip_form(sentence: &str) -> String {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let bare: Vec<String> = words
        .iter()
        .map(|word| {
            word.trim_matches(|c: char| !c.is_alphanumeric())
                .to_lowercase()
        })
        .collect();
    let mut remaining = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let starts = FORM_PREPOSITIONS.contains(&bare[at]);
        let rest = bare[at + 1..].iter().take(5);
        let clause = rest.take_while(|word| {
            FORM_FILLERS.contains(word.as_str())
                || FORM_ENDS.contains(word.as_str())
                || word.parse::<u8>().is_ok()
        });
        let length = clause
            .enumerate()
            .filter(|(_, word)| FORM_ENDS.contains(word.as_str()))
            .last();
        match length.filter(|_| starts) {
            Some((length, _)) => at += length + 2,
            None => {
                remaining.push(words[at]);
                at += 1;
            }
        }
    }
    remaining.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_the_answer_is_no_part_of_the_subject() {
        for (question, subject) in [
            (
                "How many papers are cited in Table 2? Write the answer in int format.",
                "How many papers are cited in Table 2?",
            ),
            (
                "What was revenue in FY2022 in USD millions?",
                "What was revenue in FY2022",
            ),
            (
                "List the primary questions. The answer should be formatted as a list like ['a'].",
                "List the primary questions.",
            ),
            (
                "Write the case number in this document?",
                "Write the case number in this document?",
            ),
            ("revenue in 2022", "revenue in 2022"),
        ] {
            assert_eq!(strip_instructions(question), subject);
        }
    }
}
