//! Words that turn the meaning of a statement around: negation, possibility, hearsay, cause, rank, direction. A statement must agree on them
//! with the text that it cites.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use stemma_reading::numbers::without_bounds;
use stemma_reading::vocabulary::{
    AMBIGUOUS_MONTHS, BEFORE_MONTHS, DECREASES, DENIALS, DENYING_VERBS, INCREASES, MODAL_GROUPS,
    NEGATIONS, NEGATIVE_PREFIXES, OPPOSITES, SINGLE_WORDS, VERB_ENDINGS, WORD_GROUPS,
};

// Shorter words begin like others by chance: `tend` and `intend`.
const MIN_PREFIXED: usize = 6;

/// The direction that a statement speaks of, up (`Greater`) or down (`Less`); `None` for neither or both.
pub(super) fn direction_of(statement: &str) -> Option<Ordering> {
    match directions(&plain_words(statement)) {
        [true, false] => Some(Ordering::Greater),
        [false, true] => Some(Ordering::Less),
        _ => None,
    }
}

/// Whether a statement and its source agree: quotes, and the clauses of prose that contain them.
pub(super) fn agree(statement: &str, quotes: &str, clauses: &str) -> bool {
    let stated = plain_words(statement);
    let quoted = plain_words(quotes);
    let in_clauses = plain_words(clauses);
    let around: BTreeSet<String> = quoted.union(&in_clauses).cloned().collect();
    let groups_agree = WORD_GROUPS
        .iter()
        .all(|group| !has_group(&stated, group) || has_group(&quoted, group));
    // The labels of rows are compared as labels.
    let modals_agree = MODAL_GROUPS.iter().all(|group| {
        let is_stated = has_group(&stated, group);
        (!is_stated || has_group(&around, group)) && (is_stated || !has_group(&in_clauses, group))
    });
    let contradicts = OPPOSITES.iter().any(|(one, two)| {
        let sides = |words| [has_group(words, one), has_group(words, two)];
        are_opposite(sides(&stated), sides(&quoted))
    });
    groups_agree
        && modals_agree
        && negations(&stated) == negations(&around)
        && !contradicts
        && !are_opposite(directions(&stated), directions(&quoted))
        && !is_negated_by_prefix(&stated, &around)
        && !is_negated_by_prefix(&around, &stated)
}

// Whether words speak of rising, and of falling.
fn directions(words: &BTreeSet<String>) -> [bool; 2] {
    [has_any(words, &INCREASES), has_any(words, &DECREASES)]
}

// Whether both have words of one side only, and not of the same.
fn are_opposite([is_one, is_two]: [bool; 2], other: [bool; 2]) -> bool {
    is_one != is_two && other == [is_two, is_one]
}

// Two negations are none: "did not fail to pay" is not what "failed to pay" says.
fn negations(words: &BTreeSet<String>) -> usize {
    let denies = words.iter().any(|word| is_denial(word));
    usize::from(has_any(words, &NEGATIONS)) + usize::from(denies)
}

fn is_denial(word: &str) -> bool {
    DENIALS.contains(word) || DENYING_VERBS.iter().any(|verb| is_form_of(word, verb))
}

// `stopped`, `denies`, `waiving` are forms of `stop`, `deny` and `waive`.
fn is_form_of(word: &str, verb: &str) -> bool {
    let stem = verb.trim_end_matches(['e', 'y']);
    let Some(end) = word.strip_prefix(stem) else {
        return false;
    };
    let doubled = stem.chars().last().and_then(|last| end.strip_prefix(last));
    word == verb
        || VERB_ENDINGS.contains(end)
        || doubled.is_some_and(|end| VERB_ENDINGS.contains(end))
}

// Whether the others have a word only with a prefix that denies it.
fn is_negated_by_prefix(words: &BTreeSet<String>, others: &BTreeSet<String>) -> bool {
    let mut long = words.iter().filter(|word| word.len() >= MIN_PREFIXED);
    long.any(|word| {
        !others.contains(word)
            && NEGATIVE_PREFIXES
                .iter()
                .any(|prefix| others.contains(&format!("{prefix}{word}")))
    })
}

fn has_any(words: &BTreeSet<String>, group: &[&str]) -> bool {
    group.iter().any(|word| words.contains(*word))
}

// The words of a group are on one line of its list.
fn has_group(words: &BTreeSet<String>, group: &str) -> bool {
    group.split(", ").any(|word| words.contains(word))
}

// The words of a text without the bounds of its figures; the month of May is not a possibility.
fn plain_words(text: &str) -> BTreeSet<String> {
    let bare = without_bounds(text).replace('\u{2019}', "'");
    let joined = bare.replace("non-", "non").replace("Non-", "non");
    let words: Vec<&str> = joined
        .split(|c: char| !(c.is_alphanumeric() || c == '\''))
        .map(|word| word.trim_matches('\''))
        .filter(|word| !word.is_empty())
        .collect();
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let is_month = |at: usize| {
        let before = at.checked_sub(1).map(|before| words[before]);
        let is_date = before.is_some_and(|before| {
            is_number(before) || BEFORE_MONTHS.contains(before.to_lowercase().as_str())
        });
        let next = words.get(at + 1);
        let is_capitalized = words[at].starts_with(char::is_uppercase);
        AMBIGUOUS_MONTHS.contains(words[at].to_lowercase().as_str())
            && (next.is_some_and(|next| is_number(next)) || is_capitalized && is_date)
    };
    // `Declined to 5` refuses nothing.
    let is_fall = |at: usize| {
        words[at] == "to"
            && words.get(at + 1).is_some_and(|next| is_number(next))
            && at > 0
            && words[at - 1].to_lowercase().starts_with("declin")
    };
    let plain: Vec<String> = (0..words.len())
        .filter(|at| !is_month(*at) && !is_fall(*at))
        .map(|at| words[at].to_lowercase())
        .collect();
    let text = format!(" {} ", plain.join(" "));
    let text = SINGLE_WORDS.iter().fold(text, |text, (phrase, word)| {
        text.replace(&format!(" {phrase} "), &format!(" {word} "))
    });
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_before_a_denial_affirms() {
        for (verb, past) in [
            ("fail", "failed"),
            ("cancel", "cancelled"),
            ("withdraw", "withdrew"),
        ] {
            let one = format!("Acme did not {verb} the agreement.");
            let other = format!("Acme {past} the agreement.");
            assert!(!agree(&one, &other, &other), "{one} / {other}");
            assert!(!agree(&other, &one, &one), "{other} / {one}");
            assert!(agree(&other, &other, &other), "{other}");
            assert!(
                !agree("Acme honors the agreement.", &other, &other),
                "{other}"
            );
        }
        assert!(agree("Sales fell to $5.", "Sales declined to $5.", ""));
    }

    #[test]
    fn the_month_of_may_is_no_possibility() {
        for (statement, source, expected) in [
            (
                "In May, Acme acquired Beta.",
                "In May, Acme acquired Beta.",
                true,
            ),
            (
                "In May 2023 Acme acquired Beta.",
                "In May of 2023, Acme acquired Beta.",
                true,
            ),
            (
                "In May, Acme acquired Beta.",
                "Acme may acquire Beta.",
                false,
            ),
            ("Acme acquired Beta.", "Acme May Acquire Beta", false),
            ("Acme acquired Beta.", "Acme may acquire Beta.", false),
        ] {
            assert_eq!(
                agree(statement, source, source),
                expected,
                "{statement} / {source}"
            );
        }
    }
}
