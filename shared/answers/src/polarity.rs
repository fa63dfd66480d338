//! Words that turn the meaning of a statement around: negation, possibility, hearsay, cause, rank, direction. A statement must agree on them
//! with the text that it cites.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use stemma_reading::numbers::without_bounds;
use stemma_reading::vocabulary::{
    BEFORE_MONTHS, DENIALS, DENYING_VERBS, NEGATIONS, NEGATIVE_PREFIXES, SINGLE_WORDS,
};

use super::statement_words::{DECREASES, INCREASES};

// When a statement has a word of a group, its quotes must have one of the same group.
const GROUPS: [&[&str]; 7] = [
    &[
        "because",
        "therefore",
        "thus",
        "hence",
        "caused",
        "causes",
        "resulted",
        "resulting",
        "driven",
        "attributable",
        "reflecting",
    ],
    &[
        "largest",
        "biggest",
        "highest",
        "greatest",
        "most",
        "best",
        "strongest",
        "maximum",
        "primarily",
        "mainly",
    ],
    &["smallest", "lowest", "least", "worst", "weakest", "minimum"],
    &["only", "sole", "solely", "exclusively", "exclusive"],
    &[
        "all",
        "every",
        "always",
        "entire",
        "entirely",
        "whole",
        "wholly",
        "everything",
        "everyone",
    ],
    &[
        "doubled",
        "tripled",
        "quadrupled",
        "halved",
        "twice",
        "twofold",
        "threefold",
    ],
    &[
        "must",
        "shall",
        "required",
        "requires",
        "obliged",
        "obligated",
        "prohibited",
        "guaranteed",
    ],
];

// Both must have a word of a group, or neither: what is expected did not happen, and what is alleged is not so.
const MODAL_GROUPS: [&[&str]; 3] = [
    &[
        "may",
        "might",
        "could",
        "would",
        "should",
        "will",
        "if",
        "unless",
        "assuming",
        "expect",
        "expects",
        "expected",
        "expecting",
        "anticipate",
        "anticipates",
        "anticipated",
        "intend",
        "intends",
        "intended",
        "planned",
        "planning",
        "proposed",
        "proposes",
        "forecast",
        "forecasts",
        "projected",
        "estimate",
        "estimated",
        "believe",
        "believes",
        "believed",
        "seek",
        "seeks",
        "hope",
        "hopes",
        "likely",
        "unlikely",
        "potential",
        "potentially",
        "possible",
        "possibly",
        "probable",
        "probably",
    ],
    &[
        "allege",
        "alleges",
        "alleged",
        "alleging",
        "allegedly",
        "allegation",
        "allegations",
        "purported",
        "purportedly",
        "asserts",
        "asserted",
        "accused",
        "accuses",
    ],
    &["except", "excluding", "excludes", "excluded", "adjusted"],
];

// Shorter words begin like others by chance: `tend` and `intend`.
const MIN_PREFIXED: usize = 6;

// Where a statement has words of one side only, its quotes must not have words of the other side only.
const OPPOSITES: [[&[&str]; 2]; 7] = [
    [&INCREASES, &DECREASES],
    [
        &[
            "acquire",
            "acquires",
            "acquired",
            "buys",
            "bought",
            "purchased",
        ],
        &[
            "sell", "sells", "sold", "divest", "divests", "divested", "disposed",
        ],
    ],
    [&["opens", "opened"], &["closes", "closed"]],
    [&["won", "wins"], &["lost", "loses"]],
    [&["receives", "received"], &["pays", "paid"]],
    [
        &["borrows", "borrowed"],
        &["lends", "lent", "repays", "repaid"],
    ],
    [&["issued"], &["redeemed", "repurchased", "retired"]],
];

/// The direction that a statement speaks of, up (`Greater`) or down (`Less`); `None` for neither or both.
pub(super) fn direction_of(statement: &str) -> Option<Ordering> {
    let words = plain_words(statement);
    match (has_any(&words, &INCREASES), has_any(&words, &DECREASES)) {
        (true, false) => Some(Ordering::Greater),
        (false, true) => Some(Ordering::Less),
        _ => None,
    }
}

/// Whether a statement and its source agree: quotes, and the clauses of prose that contain them.
pub(super) fn agree(statement: &str, quotes: &str, clauses: &str) -> bool {
    let stated = plain_words(statement);
    let quoted = plain_words(quotes);
    let in_clauses = plain_words(clauses);
    let around: BTreeSet<String> = quoted.union(&in_clauses).cloned().collect();
    let groups_agree = GROUPS
        .iter()
        .all(|group| !has_any(&stated, group) || has_any(&quoted, group));
    // The labels of rows are compared as labels.
    let modals_agree = MODAL_GROUPS.iter().all(|group| {
        let is_stated = has_any(&stated, group);
        (!is_stated || has_any(&around, group)) && (is_stated || !has_any(&in_clauses, group))
    });
    let contradicts = |[one, two]: &[&[&str]; 2]| {
        let sides = |words| [has_any(words, one), has_any(words, two)];
        let [is_one, is_two] = sides(&stated);
        is_one != is_two && sides(&quoted) == [is_two, is_one]
    };
    groups_agree
        && modals_agree
        && negations(&stated) == negations(&around)
        && !OPPOSITES.iter().any(contradicts)
        && !is_negated_by_prefix(&stated, &around)
        && !is_negated_by_prefix(&around, &stated)
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
        || matches!(end, "s" | "es" | "ed" | "ing" | "ies" | "ied" | "ying")
        || doubled.is_some_and(|end| matches!(end, "ed" | "ing"))
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
        words[at].eq_ignore_ascii_case("may")
            && (next.is_some_and(|next| is_number(next)) || words[at] == "May" && is_date)
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
