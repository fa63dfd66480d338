//! Lines of financial statements and measures made of them: what a label means, and how a named figure is computed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::OnceLock;

use serde::Deserialize;
use stemma_reading::text_words::without_parentheses;
use stemma_reading::tokenizer::for_each_word;
use stemma_reading::vocabulary::{FUNCTION_WORDS, NEUTRAL_LABEL_WORDS, OF_OTHERS};

use stemma_verify::formula::Formula;

/// The lexicon of `terms.toml`.
pub(super) struct Terms {
    lines: Vec<StatementLine>,
    outflows: BTreeSet<String>,
    measures: Vec<Measure>,
}

// A line of a statement, with the words of each of its labels as sets and in order.
type StatementLine = (String, Vec<BTreeSet<String>>, Vec<Vec<String>>);

/// A figure with a name of its own and its definitions.
pub(super) struct Measure {
    names: Vec<Vec<String>>,
    pub(super) formulas: Vec<Formula>,
}

#[derive(Deserialize)]
struct TermsFile {
    outflows: BTreeSet<String>,
    lines: BTreeMap<String, Vec<String>>,
    measures: Vec<MeasureEntry>,
}

#[derive(Deserialize)]
struct MeasureEntry {
    names: Vec<String>,
    formulas: Vec<String>,
}

impl Terms {
    pub(super) fn get() -> &'static Self {
        static TERMS: OnceLock<Terms> = OnceLock::new();
        TERMS.get_or_init(|| Self::parse(include_str!("terms.toml")))
    }

    // A test checks that the file is complete; here an entry that cannot be read is left out.
    fn parse(text: &str) -> Self {
        let file = toml::from_str::<TermsFile>(text).unwrap_or_else(|_| TermsFile {
            outflows: BTreeSet::new(),
            lines: BTreeMap::new(),
            measures: Vec::new(),
        });
        let phrases = |names: &[String]| names.iter().map(|name| phrase(name)).collect();
        Self {
            lines: file
                .lines
                .iter()
                .map(|(line, names)| {
                    let sets = names.iter().map(|name| label_words(name)).collect();
                    (line.clone(), sets, phrases(names))
                })
                .collect(),
            outflows: file.outflows,
            measures: file
                .measures
                .iter()
                .map(|measure| Measure {
                    names: phrases(&measure.names),
                    formulas: measure
                        .formulas
                        .iter()
                        .filter_map(|formula| Formula::parse(formula).ok())
                        .collect(),
                })
                .collect(),
        }
    }

    /// The statement line that a label names.
    pub(super) fn line(&self, label: &str) -> Option<&str> {
        let lower = label.to_lowercase();
        // `Less: current portion of long-term debt` has the words of `long-term debt less current portion`.
        let label = lower.strip_prefix("less").unwrap_or(&lower);
        // What belongs to others is not the company's line.
        if OF_OTHERS.iter().any(|owner| label.contains(owner)) {
            return None;
        }
        let words = label_words(label);
        let line = self
            .lines
            .iter()
            .find(|(_, names, _)| names.contains(&words));
        line.map(|(line, ..)| line.as_str())
    }

    pub(super) fn is_outflow(&self, line: &str) -> bool {
        self.outflows.contains(line)
    }

    /// Whether the words of a text have a name of the line, and where.
    pub(super) fn position_of_line(&self, line: &str, words: &[String]) -> Option<usize> {
        let (.., phrases) = self.lines.iter().find(|(known, ..)| known == line)?;
        phrases
            .iter()
            .filter_map(|phrase| position(phrase, words))
            .min()
    }

    /// Words of the longest name of a line that a text has.
    pub(super) fn name_length(&self, line: &str, words: &[String]) -> usize {
        let phrases = self.lines.iter().find(|(known, ..)| known == line);
        let names = phrases.into_iter().flat_map(|(.., phrases)| phrases);
        names
            .filter(|name| position(name, words).is_some())
            .map(Vec::len)
            .max()
            .unwrap_or(0)
    }

    /// The measures that the words of a statement name, and where; of nested names the longest.
    pub(super) fn measures(&self, words: &[String]) -> Vec<(&Measure, Range<usize>)> {
        let mut found: Vec<(&Measure, usize, usize)> = Vec::new();
        for measure in &self.measures {
            let longest = measure
                .names
                .iter()
                .filter_map(|name| Some((position(name, words)?, name.len())))
                .max_by_key(|(_, length)| *length);
            found.extend(longest.map(|(at, length)| (measure, at, at + length)));
        }
        found
            .iter()
            .filter(|(_, start, end)| {
                found.iter().all(|(_, from, to)| {
                    start < from || to < end || to - from <= end - start // not nested in it
                })
            })
            .map(|(measure, start, end)| (*measure, *start..*end))
            .collect()
    }
}

impl Measure {
    /// Stems of its names.
    pub(super) fn words(&self) -> impl Iterator<Item = &String> {
        self.names.iter().flatten()
    }
}

/// The words of a text in order, as stems, without numbers and function words.
pub(super) fn phrase(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for_each_meaning(text, |word, _| words.push(word.to_owned()));
    words
}

/// The words of a name: those of [`phrase`], but numbers and single letters together with the word before them, or the one after
/// where a name begins with them. They may be all that tells two names apart: `level 1`, `class a`, `2014 plan`.
pub(super) fn name_words(text: &str) -> Vec<String> {
    marked_words(text, false)
}

/// The words of a text that may have names in it: numbers and single letters with the words on both sides.
pub(super) fn words_with_names(text: &str) -> Vec<String> {
    marked_words(text, true)
}

fn marked_words(text: &str, on_both_sides: bool) -> Vec<String> {
    let mut words = Vec::new();
    let mut before: Option<String> = None;
    let mut mark: Option<String> = None;
    let mut is_start = true;
    for_each_word(text, |word, _| {
        let is_mark = word.chars().nth(1).is_none() || word.chars().all(|c| c.is_ascii_digit());
        if is_mark {
            words.extend(before.take().map(|before| format!("{before} {word}")));
            mark = (is_start || on_both_sides).then(|| word.to_owned());
            is_start = false;
        } else if FUNCTION_WORDS.contains(word) {
            before = None;
            mark = None;
            is_start = true;
        } else {
            words.extend(mark.take().map(|mark| format!("{mark} {word}")));
            words.push(word.to_owned());
            before = Some(word.to_owned());
            is_start = false;
        }
    });
    words
}

/// Calls `visit` with each word of [`phrase`] and its byte range.
pub(super) fn for_each_meaning(text: &str, mut visit: impl FnMut(&str, Range<usize>)) {
    for_each_word(text, |word, at| {
        if word.chars().any(char::is_alphabetic) && !FUNCTION_WORDS.contains(word) {
            visit(word, at);
        }
    });
}

/// Where the words of a phrase begin among the words of a text.
pub(super) fn position(phrase: &[String], words: &[String]) -> Option<usize> {
    (!phrase.is_empty()).then_some(())?;
    words
        .windows(phrase.len())
        .position(|window| window == phrase)
}

/// The stems of a label that tell its line from others.
pub(super) fn label_words(label: &str) -> BTreeSet<String> {
    let mut bare = without_parentheses(label).to_lowercase();
    for end in [
        " attributable to",
        ", net of",
        " net of ",
        ", less ",
        " - net",
        " — net",
        " – net",
        ", at cost",
    ] {
        if let Some(at) = bare.find(end).filter(|at| *at > 0) {
            bare.truncate(at);
        }
    }
    let words: BTreeSet<String> = phrase(&bare).into_iter().collect();
    let mut own = words.clone();
    own.retain(|word| !NEUTRAL_LABEL_WORDS.contains(word.as_str()));
    // `Total Company` has no other words.
    if own.is_empty() { words } else { own }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_formula_is_made_of_known_lines() {
        let file: TermsFile = toml::from_str(include_str!("terms.toml")).unwrap();
        for measure in &file.measures {
            for formula in &measure.formulas {
                let parsed = Formula::parse(formula).unwrap();
                for name in parsed.names() {
                    assert!(file.lines.contains_key(name), "{formula}: {name}");
                }
            }
        }
        assert!(
            file.outflows
                .iter()
                .all(|line| file.lines.contains_key(line))
        );
    }

    #[test]
    fn labels_name_lines() {
        let terms = Terms::get();
        for (label, line) in [
            ("Total revenues", Some("revenue")),
            ("Net sales", Some("revenue")),
            (
                "Cost of sales (exclusive of depreciation)",
                Some("cost_of_sales"),
            ),
            (
                "Purchases of property, plant and equipment (PP&E)",
                Some("capital_expenditure"),
            ),
            (
                "Net income (loss) attributable to shareholders",
                Some("net_income"),
            ),
            (
                "Accounts receivable, net of allowances of 12 and 15",
                Some("receivables"),
            ),
            ("Total current assets", Some("current_assets")),
            ("Total liabilities and equity", None),
            ("Other revenue", None),
            (
                "Long-term debt, less current portion",
                Some("long_term_debt"),
            ),
            (
                "Less: current portion of long-term debt",
                Some("short_term_debt"),
            ),
            ("Net income attributable to noncontrolling interests", None),
        ] {
            assert_eq!(terms.line(label), line, "{label}");
        }
    }

    #[test]
    fn the_longest_name_of_a_measure_counts() {
        let measures = Terms::get().measures(&phrase("The EBITDA margin was 12%"));
        assert_eq!(measures.len(), 1);
        assert_eq!(measures[0].0.formulas.len(), 1);
    }
}
