//! Decides whether quotes support a statement: they must contain enough of its words, and agree with it on every word that
//! would turn its meaning around ([`polarity`]).
//!
//! Words are compared, not meaning: docs/guide/ask.md says what that cannot detect.

use std::collections::BTreeSet;

use super::polarity;
use super::row_names::{RowNames, literal_length};
use super::statement_words::{direction_words, synonym_words};
use stemma_document::english_words::MONTHS;
use stemma_reading::numbers::numbers;
use stemma_reading::tokenizer::{content_words, tokenize};
use stemma_reading::vocabulary::{COMPUTING_WORDS, FRAMING_WORDS, PERIOD_LENGTHS};

// Minimum words of a quote that supports a statement without figures, or as many as a shorter statement has.
const MIN_WORDS: usize = 4;
// The same for content words.
const MIN_CONTENT_WORDS: usize = 3;
// Minimum share of a statement's own words in the quotes, without figures. Fitted on the true and false statements in the
// tests below: at 0.6 all true ones pass and no false one does; at 0.4, false ones that are half true pass.
const MIN_SHARE: f64 = 0.6;
// The same when the figures were found in the quotes. Then the label of the table row counts too.
const MIN_SHARE_WITH_FIGURES: f64 = 0.4;

// Begins the label of a row of debts.
const DUE_TO: &str = "due to";

#[derive(Debug, Default)]
pub(super) struct ClaimEvidence {
    pub(super) quotes: Vec<String>,
    // The clauses of prose that the quotes are part of.
    pub(super) clauses: String,
    // The whole lines that the quotes are on.
    pub(super) lines: String,
    // The labels of the rows that have figures of the statement.
    pub(super) labels: Vec<String>,
    // Names and section paths of the documents. Words of it count neither way.
    pub(super) location: String,
}

// `figures`: the amounts of the statement were found in the quotes.
pub(super) fn is_supported(statement: &str, figures: bool, evidence: &ClaimEvidence) -> bool {
    let mut own = own_words(statement, &evidence.location);
    // The periods of figures are compared by themselves.
    own.retain(|word| !figures || !PERIOD_LENGTHS.contains(word.as_str()));
    let quotes = evidence.quotes.join("\n");
    agrees_apart_from_labels(statement, &quotes, evidence)
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

// `Due to affiliates` names a row and no cause. A label that the statement has word for word before its figure is left out on both sides;
// after the figure, as in `rose by $5 million due to affiliates`, it may be a cause, of which such a row says nothing.
fn agrees_apart_from_labels(statement: &str, quotes: &str, evidence: &ClaimEvidence) -> bool {
    let figures = numbers(statement).into_iter();
    let first_figure = figures
        .filter(|number| !number.is_label())
        .map(|number| number.at.start)
        .min();
    let subject = &statement[..first_figure.unwrap_or(statement.len())];
    let labels = || evidence.labels.iter().map(String::as_str);
    let repeated: Vec<&str> = labels()
        .filter(|label| literal_length(label, subject) > 0)
        .collect();
    let statement = RowNames::new(statement, &repeated).rest();
    let is_debt = labels().any(|label| label.to_lowercase().starts_with(DUE_TO));
    let no_causes = repeated.iter().copied().chain(is_debt.then_some(DUE_TO));
    let quotes = RowNames::new(quotes, &no_causes.collect::<Vec<&str>>()).rest();
    polarity::agree(&statement, &quotes, &evidence.clauses)
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
    let direction = content_words(&direction_words());
    let mut own = own_words(statement, &evidence.location);
    own.retain(|word| !measure.contains(word) && !how.contains(word) && !direction.contains(word));
    let text = format!("{text}\n{}", synonym_words(&own, &text).join(" "));
    polarity::agree(statement, &quotes, &evidence.clauses) && share_in(&own, &text) >= MIN_SHARE
}

// Content words of a statement, except numbers, framing words and words of the location.
fn own_words(statement: &str, place: &str) -> Vec<String> {
    let place: BTreeSet<String> = content_words(place).into_iter().collect();
    let mut own = content_words(statement);
    own.retain(|word| {
        word.chars().any(char::is_alphabetic)
            && !FRAMING_WORDS.contains(word.as_str())
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

/// Whether a text agrees with another and has enough of its telling words.
pub(super) fn has_words_of(statement: &str, own: &[String], text: &str) -> bool {
    polarity::agree(statement, text, "") && share_in(own, text) >= MIN_SHARE
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

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str =
        "BOEING 2022 10K.pdf The Boeing Company 10-K 2022 Item 7 Management's Discussion";

    fn supported(statement: &str, quotes: &[&str], line: &str) -> bool {
        let evidence = ClaimEvidence {
            quotes: quotes.iter().map(|quote| (*quote).to_owned()).collect(),
            clauses: quotes.join("\n"),
            lines: line.into(),
            labels: Vec::new(),
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
