//! Decides whether quotes support a statement: they must contain enough of its words, and agree with it on every word that
//! would turn its meaning around (negation, cause, rank, direction).
//!
//! Words are compared, not meaning: docs/ANSWERS.md says what that cannot detect.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::numbers::without_bounds;
use stemma_document::english_words::MONTHS;
use stemma_retrieval::lexicon::Lexicon;
use stemma_retrieval::tokenizer::{content_words, tokenize};

// Minimum words of a quote that supports a statement without figures, or as many as a shorter statement has.
const MIN_WORDS: usize = 4;
// The same for content words.
const MIN_CONTENT_WORDS: usize = 3;
// Minimum share of a statement's own words in the quotes, without figures. Fitted on the true and false statements in the
// tests below: at 0.6 all true ones pass and no false one does; at 0.4, false ones that are half true pass.
const MIN_SHARE: f64 = 0.6;
// The same when the figures were found in the quotes. Then the label of the table row counts too.
const MIN_SHARE_WITH_FIGURES: f64 = 0.4;

// Words about the form of a statement, as stems. They support nothing.
const FRAMING_WORDS: [&str; 26] = [
    "accord", "amount", "approxim", "billion", "compani", "corpor", "dollar", "end", "fiscal",
    "inc", "item", "million", "note", "page", "percent", "quarter", "registr", "report", "section",
    "state", "thousand", "total", "trillion", "usd", "year", "fy",
];

// When a statement has a word of a group, its quotes must have one of the same group.
const POLARITY_GROUPS: [&[&str]; 8] = [
    NEGATIONS,
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

// Each is replaced by "because" before comparing.
const CAUSE_PHRASES: [&str; 6] = [
    "due to",
    "owing to",
    "thanks to",
    "led to",
    "as a result",
    "the result of",
];

// The quotes must not have a negation that the statement lacks, either.
const NEGATIONS: &[&str] = &[
    "not", "no", "never", "none", "neither", "nor", "without", "cannot", "nothing", "nobody",
    "isn't", "aren't", "wasn't", "weren't", "don't", "doesn't", "didn't", "won't", "can't",
    "hasn't", "haven't", "lacks", "lack", "lacked",
];

const INCREASE_WORDS: [&str; 16] = [
    "rose",
    "rise",
    "rises",
    "increase",
    "increased",
    "increases",
    "grew",
    "grow",
    "grown",
    "growth",
    "higher",
    "improved",
    "gained",
    "up",
    "expanded",
    "strengthened",
];
const DECREASE_WORDS: [&str; 16] = [
    "fell",
    "fall",
    "falls",
    "decrease",
    "decreased",
    "decreases",
    "declined",
    "decline",
    "declines",
    "lower",
    "dropped",
    "shrank",
    "down",
    "reduced",
    "weakened",
    "worsened",
];

// Words that say how a figure is computed.
const COMPUTING_WORDS: [&str; 66] = [
    "ratio",
    "average",
    "averaged",
    "mean",
    "difference",
    "differs",
    "change",
    "changed",
    "compound",
    "compounded",
    "annual",
    "rate",
    "cagr",
    "percentage",
    "percent",
    "point",
    "points",
    "basis",
    "share",
    "divided",
    "relative",
    "times",
    "sum",
    "combined",
    "together",
    "aggregate",
    "cumulative",
    "less",
    "minus",
    "excess",
    "exceeded",
    "exceed",
    "greater",
    "compared",
    "computed",
    "calculated",
    "equals",
    "equal",
    "about",
    "roughly",
    "respectively",
    "period",
    "month",
    "months",
    "grew",
    "days",
    "day",
    "represented",
    "came",
    "stood",
    "reached",
    "totaled",
    "amounted",
    "recorded",
    "represents",
    "yields",
    "result",
    "gives",
    // Periods are compared by themselves.
    "first",
    "second",
    "third",
    "fourth",
    "three",
    "six",
    "nine",
    "half",
];

#[derive(Debug, Default)]
pub(super) struct ClaimEvidence {
    pub(super) quotes: Vec<String>,
    // The whole lines that the quotes are on.
    pub(super) lines: String,
    // Names and section paths of the documents. Words of it count neither way.
    pub(super) location: String,
}

// `figures`: the amounts of the statement were found in the quotes.
pub(super) fn is_supported(statement: &str, figures: bool, evidence: &ClaimEvidence) -> bool {
    let own = own_words(statement, &evidence.location);
    let quotes = evidence.quotes.join("\n");
    has_same_polarity(statement, &quotes)
        && match figures {
            true => {
                let text = format!("{}\n{quotes}", evidence.lines);
                let text = format!("{text}\n{}", synonym_words(&own, &text).join(" "));
                share_in(&own, &text) >= MIN_SHARE_WITH_FIGURES
            }
            false => {
                is_long_enough(statement, &evidence.quotes) && share_in(&own, &quotes) >= MIN_SHARE
            }
        }
}

/// Whether the lines of the operands have the words of a statement whose figure is computed. `measure` are the words that say how.
pub(super) fn is_supported_computation(
    statement: &str,
    measure: &BTreeSet<String>,
    evidence: &ClaimEvidence,
) -> bool {
    let quotes = evidence.quotes.join("\n");
    let text = format!("{}\n{quotes}", evidence.lines);
    let how = [&COMPUTING_WORDS[..], &MONTHS[..]].concat().join(" ");
    let how = content_words(&how);
    let direction = [INCREASE_WORDS, DECREASE_WORDS].concat().join(" ");
    let direction = content_words(&direction);
    let mut own = own_words(statement, &evidence.location);
    own.retain(|word| !measure.contains(word) && !how.contains(word) && !direction.contains(word));
    let text = format!("{text}\n{}", synonym_words(&own, &text).join(" "));
    has_same_polarity(statement, &quotes) && share_in(&own, &text) >= MIN_SHARE
}

// Content words of a statement, except numbers, framing words and words of the location.
fn own_words(statement: &str, place: &str) -> Vec<String> {
    let place: BTreeSet<String> = content_words(place).into_iter().collect();
    let mut own = content_words(statement);
    own.retain(|word| {
        word.chars().any(char::is_alphabetic)
            && !FRAMING_WORDS.contains(&word.as_str())
            && !place.contains(word)
    });
    own
}

fn share_in(own: &[String], text: &str) -> f64 {
    let there = content_words(text);
    let there: BTreeSet<&str> = there.iter().map(String::as_str).collect();
    let matching = own
        .iter()
        .filter(|word| there.contains(word.as_str()))
        .count();
    if own.is_empty() {
        1.0
    } else {
        matching as f64 / own.len() as f64
    }
}

// Words of a statement whose synonyms are in the text: `capital expenditure` where it says `purchases of property …`.
// Only for statements with figures: an entry of the lexicon tells which row a number is in, not what is said about it. The
// lines that a measure is made of are not the measure.
fn synonym_words<'w>(own: &'w [String], text: &str) -> Vec<&'w str> {
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

// One quote must be long enough by itself. Unspaced scripts are counted by segmented words.
fn is_long_enough(statement: &str, quotes: &[String]) -> bool {
    let min_words = MIN_WORDS.min(tokenize(statement).len());
    let min_content = MIN_CONTENT_WORDS.min(distinct_content_words(statement));
    quotes.iter().any(|quote| {
        tokenize(quote).len() >= min_words && distinct_content_words(quote) >= min_content
    })
}

fn distinct_content_words(text: &str) -> usize {
    content_words(text)
        .into_iter()
        .collect::<BTreeSet<_>>()
        .len()
}

fn has_any(words: &BTreeSet<String>, group: &[&str]) -> bool {
    group.iter().any(|word| words.contains(*word))
}

// Whether the words speak of an increase (`Greater`) or a decrease (`Less`); `None` for neither or both.
fn direction(words: &BTreeSet<String>) -> Option<Ordering> {
    match (
        has_any(words, &INCREASE_WORDS),
        has_any(words, &DECREASE_WORDS),
    ) {
        (true, false) => Some(Ordering::Greater),
        (false, true) => Some(Ordering::Less),
        _ => None,
    }
}

/// The direction that a statement speaks of; `None` for neither or both.
pub(super) fn direction_of(statement: &str) -> Option<Ordering> {
    direction(&plain_words(statement))
}

// Every polarity group of the statement must occur in the quotes, the quotes must not add a negation, and both must agree on
// increase or decrease.
fn has_same_polarity(statement: &str, quotes: &str) -> bool {
    let statement_words = plain_words(&without_bounds(statement));
    let quoted = plain_words(quotes);
    let groups_agree = POLARITY_GROUPS
        .iter()
        .all(|group| !has_any(&statement_words, group) || has_any(&quoted, group));
    let denied = has_any(&quoted, NEGATIONS) && !has_any(&plain_words(statement), NEGATIONS);
    let stated = direction(&statement_words);
    let contradicted = stated.is_some() && stated == direction(&quoted).map(Ordering::reverse);
    groups_agree && !denied && !contradicted
}

fn plain_words(text: &str) -> BTreeSet<String> {
    let normalized = text
        .to_lowercase()
        .replace('\u{2019}', "'")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let text = CAUSE_PHRASES
        .iter()
        .fold(normalized, |text, cause| text.replace(cause, "because"));
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '\''));
    words
        .map(|word| word.trim_matches('\'').to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str =
        "BOEING 2022 10K.pdf The Boeing Company 10-K 2022 Item 7 Management's Discussion";

    fn supported(statement: &str, quotes: &[&str], line: &str) -> bool {
        let evidence = ClaimEvidence {
            quotes: quotes.iter().map(|quote| (*quote).to_owned()).collect(),
            lines: line.into(),
            location: PLACE.into(),
        };
        is_supported(statement, !line.is_empty(), &evidence)
    }

    #[test]
    fn honest_statements_are_supported() {
        for (statement, quote, line) in [
            (
                "Boeing may fail to retain skilled people.",
                "We may fail to retain skilled people",
                "",
            ),
            (
                "The company is subject to environmental regulation.",
                "We are subject to federal and state environmental regulation",
                "",
            ),
            (
                "Boeing is not a party to any strike.",
                "the Company is not party to any strike or work stoppage",
                "",
            ),
            (
                "Deliveries fell because of supply chain disruption.",
                "Deliveries fell due to supply chain disruption",
                "",
            ),
            (
                "Its largest customers are airlines and governments.",
                "our largest customers are airlines and the U.S. government",
                "",
            ),
            (
                "It depends on a few suppliers.",
                "We depend on a limited number of suppliers",
                "",
            ),
            ("Net sales rose.", "Net sales rose", ""),
            (
                "Boeing's total revenues were $66,608 million in 2022.",
                "66,608",
                "Total revenues 66,608 62,286",
            ),
            (
                "Capital expenditure was $1,749 million in 2022.",
                "(1,749)",
                "Purchases of property, plant and equipment (PP&E) (1,749)",
            ),
            (
                "Boeing had 156,000 employees at year-end.",
                "156,000 employees",
                "our total workforce was approximately 156,000 employees",
            ),
            (
                "Research and development came to $2,852 million.",
                "2,852",
                "Research and development expense, net 2,852 2,249",
            ),
            (
                "The tax rate was 21.5%.",
                "21.5 %",
                "Effective tax rate 21.5 %",
            ),
        ] {
            assert!(
                supported(statement, &[quote], line),
                "{statement} / {quote}"
            );
        }
    }

    #[test]
    fn false_statements_are_not_supported() {
        let revenues = "Total revenues increased because of higher deliveries and services";
        let debt = "We had $57 billion of consolidated debt outstanding";
        for (statement, quotes, line) in [
            (
                "Boeing declared insolvency in December 2022.",
                vec!["Boeing", "December"],
                "",
            ),
            (
                "Boeing declared insolvency in December 2022.",
                vec!["the Board declared no dividends in December 2022"],
                "",
            ),
            (
                "Revenues rose because management committed accounting fraud.",
                vec!["revenues"],
                "",
            ),
            (
                "Revenues increased because management committed accounting fraud.",
                vec![revenues],
                "",
            ),
            ("Boeing has no debt.", vec!["debt"], ""),
            ("Boeing has no debt.", vec![debt], ""),
            (
                "Boeing has consolidated debt outstanding.",
                vec!["We had no consolidated debt outstanding"],
                "",
            ),
            (
                "Boeing expects a strike of its workers.",
                vec!["Boeing does not expect a strike of its workers"],
                "",
            ),
            (
                "Boeing is the largest employer of airline workers.",
                vec!["Boeing is an employer of airline workers"],
                "",
            ),
            (
                "Deliveries decreased in the commercial segment.",
                vec!["Deliveries increased in the commercial segment"],
                "",
            ),
            (
                "Revenues doubled in the defense segment.",
                vec!["Revenues in the defense segment were flat"],
                "",
            ),
            (
                "Its only supplier of engines is in France.",
                vec!["a supplier of engines is in France"],
                "",
            ),
            (
                "The chief executive was paid $1,749 million.",
                vec!["(1,749)"],
                "Purchases of property, plant and equipment (1,749)",
            ),
            (
                "Deliveries decreased 5 percent.",
                vec!["Deliveries increased 5 %"],
                "Deliveries increased 5 %",
            ),
            (
                "Boeing did not exceed $5 million of claims.",
                vec!["claims exceeded $5 million"],
                "claims exceeded $5 million",
            ),
        ] {
            assert!(
                !supported(statement, &quotes, line),
                "{statement} / {quotes:?}"
            );
        }
    }

    #[test]
    fn unspaced_scripts_are_checked_by_word() {
        assert!(supported(
            "营业收入增长主要由于销量增加",
            &["营业收入增长主要由于销量增加"],
            ""
        ));
        assert!(!supported("公司已经破产", &["公司"], ""));
    }

    proptest::proptest! {
        #[test]
        fn a_statement_supports_itself(statement in "[a-z]{2,9}( [a-z]{2,9}){0,12}") {
            proptest::prop_assert!(supported(&statement, &[&statement], ""));
        }
    }
}
