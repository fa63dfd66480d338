//! Words that turn the meaning of a statement around: negation, possibility, hearsay, cause, rank, direction. A statement must agree on them
//! with the text that it cites.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::numbers::without_bounds;
use super::telling_words::{DECREASES, INCREASES};

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
    &[
        "except",
        "excluding",
        "excludes",
        "excluded",
        "exclusive",
        "adjusted",
    ],
];

// Phrases that are read as a word of a group.
const PHRASES: [(&str, &str); 13] = [
    ("due to", "because"),
    ("owing to", "because"),
    ("thanks to", "because"),
    ("led to", "because"),
    ("as a result", "because"),
    ("the result of", "because"),
    ("declined to", "refused"),
    ("declines to", "refused"),
    ("rather than", "not"),
    ("instead of", "not"),
    ("plan to", "intend"),
    ("plans to", "intend"),
    // No possibility.
    ("if any", ""),
];

const NEGATIONS: [&str; 25] = [
    "not", "no", "never", "none", "neither", "nor", "without", "cannot", "nothing", "nobody",
    "isn't", "aren't", "wasn't", "weren't", "don't", "doesn't", "didn't", "won't", "can't",
    "hasn't", "haven't", "lacks", "lack", "lacked", "hardly",
];
// Words that deny what follows them. `Not` before one of them affirms it.
const DENIALS: [&str; 49] = [
    "fail",
    "fails",
    "failed",
    "failing",
    "failure",
    "unable",
    "inability",
    "deny",
    "denies",
    "denied",
    "denying",
    "denial",
    "refuse",
    "refuses",
    "refused",
    "refusal",
    "cease",
    "ceases",
    "ceased",
    "ceasing",
    "unlikely",
    "reject",
    "rejects",
    "rejected",
    "rejecting",
    "abandon",
    "abandons",
    "abandoned",
    "prevent",
    "prevents",
    "prevented",
    "withdrew",
    "withdrawn",
    "withdraws",
    "canceled",
    "cancelled",
    "cancels",
    "terminate",
    "terminates",
    "terminated",
    "suspend",
    "suspends",
    "suspended",
    "revoked",
    "rescinded",
    "dismissed",
    "halted",
    "stopped",
    "impossible",
];
// `Unsecured` is not `secured`.
const NEGATIVE_PREFIXES: [&str; 6] = ["un", "in", "non", "im", "dis", "ir"];
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

/// Whether a statement and its source agree: quotes, and the clauses of prose in which these stand.
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
    [&NEGATIONS[..], &DENIALS[..]]
        .into_iter()
        .filter(|group| has_any(words, group))
        .count()
}

// Whether a word stands in the others only with a prefix that denies it.
fn is_negated_by_prefix(words: &BTreeSet<String>, others: &BTreeSet<String>) -> bool {
    let mut long = words.iter().filter(|word| word.len() >= MIN_PREFIXED);
    long.any(|word| {
        let is_denied = |prefix: &&str| others.contains(&format!("{prefix}{word}"));
        !others.contains(word) && NEGATIVE_PREFIXES.iter().any(|prefix| is_denied(&prefix))
    })
}

fn has_any(words: &BTreeSet<String>, group: &[&str]) -> bool {
    group.iter().any(|word| words.contains(*word))
}

// The words of a text without the bounds of its figures; the month of May is no possibility.
fn plain_words(text: &str) -> BTreeSet<String> {
    let bare = without_bounds(text).to_lowercase().replace('\u{2019}', "'");
    let joined = bare.replace("non-", "non");
    let words: Vec<&str> = joined
        .split(|c: char| !(c.is_alphanumeric() || c == '\''))
        .map(|word| word.trim_matches('\''))
        .filter(|word| !word.is_empty())
        .collect();
    let is_month = |at: usize| {
        let next = words.get(at + 1);
        words[at] == "may"
            && next.is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit()))
    };
    let plain: Vec<&str> = (0..words.len())
        .filter(|at| !is_month(*at))
        .map(|at| words[at])
        .collect();
    let text = format!(" {} ", plain.join(" "));
    let text = PHRASES.iter().fold(text, |text, (phrase, word)| {
        text.replace(&format!(" {phrase} "), &format!(" {word} "))
    });
    text.split_whitespace().map(str::to_owned).collect()
}
