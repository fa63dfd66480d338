//! What a query looks for in a text: weighted words, and phrases that mean the same.

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::RandomState;
use stemma_reading::page_features::{is_number, year};
use stemma_reading::tokenizer::{for_each_word, is_stop_word};

use crate::parsed_query::ParsedQuery;
use crate::snippet::WordWeights;

/// The words and phrases of a query.
#[derive(Debug, Clone, Default)]
pub struct QueryTerms {
    words: WordWeights,
    // Content words of phrases with their groups, by the first word.
    phrases: HashMap<String, Vec<(Vec<String>, usize)>, RandomState>,
    // Its words and those of its phrases, which is all that is looked for in a text.
    known: HashMap<String, KnownWord, RandomState>,
    group_weights: Vec<f32>,
    wants_number: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct KnownWord {
    is_word: bool,
    is_in_phrase: bool,
}

/// What a text has of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TermMatches<'q> {
    pub words: BTreeSet<&'q str>,
    /// Groups of phrases, by index.
    pub groups: BTreeSet<usize>,
    /// Whether it has a number, if one is asked for.
    pub has_figure: bool,
}

impl QueryTerms {
    pub fn new(parsed: &ParsedQuery) -> Self {
        let mut phrases: HashMap<String, Vec<(Vec<String>, usize)>, RandomState> =
            HashMap::default();
        let mut known: HashMap<String, KnownWord, RandomState> = HashMap::default();
        for (word, _) in &parsed.words {
            known.entry(word.clone()).or_default().is_word = true;
        }
        for (at, group) in parsed.phrase_groups.iter().enumerate() {
            for phrase in &group.phrases {
                let words: Vec<String> = phrase.split(' ').map(str::to_owned).collect();
                for word in &words {
                    known.entry(word.clone()).or_default().is_in_phrase = true;
                }
                phrases
                    .entry(words[0].clone())
                    .or_default()
                    .push((words, at));
            }
        }
        Self {
            words: parsed.words.iter().cloned().collect(),
            phrases,
            known,
            group_weights: parsed
                .phrase_groups
                .iter()
                .map(|group| group.weight)
                .collect(),
            wants_number: parsed.wants_number,
        }
    }

    pub fn words(&self) -> &WordWeights {
        &self.words
    }

    /// The words and phrases of the query that `text` has.
    pub fn matches(&self, text: &str) -> TermMatches<'_> {
        let mut found = TermMatches {
            has_figure: self.wants_number
                && text
                    .split_whitespace()
                    .any(|word| is_number(word) && year(word).is_none()),
            ..TermMatches::default()
        };
        // Words of phrases. Other words between them are one empty word; stop words do not.
        let mut sequence: Vec<&str> = Vec::new();
        for_each_word(text, |word, _| {
            let known = self.known.get_key_value(word);
            if let Some((word, known)) = known {
                if known.is_word {
                    found.words.insert(word);
                }
                if known.is_in_phrase {
                    sequence.push(word);
                    return;
                }
            }
            if sequence.last().is_some_and(|last| !last.is_empty()) && !is_stop_word(word) {
                sequence.push("");
            }
        });
        for (at, word) in sequence.iter().enumerate() {
            if word.is_empty() {
                continue;
            }
            for (phrase, group) in self.phrases.get(*word).into_iter().flatten() {
                let words = sequence.get(at..at + phrase.len());
                if words.is_some_and(|words| words == phrase.as_slice()) {
                    found.groups.insert(*group);
                }
            }
        }
        found
    }

    /// The summed weights of what was found. A figure decides between texts that are equal otherwise, if one is asked for.
    pub fn worth(&self, found: &TermMatches<'_>) -> f32 {
        self.weighed(found, |_| 1.0)
    }

    /// [`QueryTerms::worth`] with words and groups multiplied by how rare they are.
    pub fn rare_worth(&self, found: &TermMatches<'_>, rarity: &TermRarity<'_>) -> f32 {
        self.weighed(found, |term| rarity.inverse_frequency(term))
    }

    fn weighed(&self, found: &TermMatches<'_>, factor: impl Fn(Term<'_>) -> f32) -> f32 {
        let words: f32 = found
            .words
            .iter()
            .map(|word| self.words.get(*word).copied().unwrap_or(0.0) * factor(Term::Word(word)))
            .sum();
        let groups: f32 = found
            .groups
            .iter()
            .map(|group| {
                self.group_weights.get(*group).copied().unwrap_or(0.0) * factor(Term::Group(*group))
            })
            .sum();
        let has_term = words + groups > 0.0;
        let figure = if has_term && self.wants_number && found.has_figure {
            FIGURE_WORTH
        } else {
            0.0
        };
        words + groups + figure
    }
}

// Less than any word, except those that almost every question has.
const FIGURE_WORTH: f32 = 0.3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Term<'q> {
    Word(&'q str),
    Group(usize),
}

impl<'q> TermMatches<'q> {
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.groups.is_empty()
    }

    /// Adds what another text has.
    pub fn extend(&mut self, other: &TermMatches<'q>) {
        self.words.extend(&other.words);
        self.groups.extend(&other.groups);
        self.has_figure |= other.has_figure;
    }
}

/// How many of some texts have each term.
#[derive(Debug, Clone, Default)]
pub struct TermRarity<'q> {
    texts: usize,
    counts: HashMap<Term<'q>, usize>,
}

impl<'q> TermRarity<'q> {
    pub fn new<'t>(texts: impl Iterator<Item = &'t TermMatches<'q>>) -> Self
    where
        'q: 't,
    {
        let mut rarity = Self::default();
        for found in texts {
            rarity.texts += 1;
            let words = found.words.iter().map(|word| Term::Word(word));
            for term in words.chain(found.groups.iter().map(|group| Term::Group(*group))) {
                *rarity.counts.entry(term).or_default() += 1;
            }
        }
        rarity
    }

    fn inverse_frequency(&self, term: Term<'_>) -> f32 {
        let count = self.counts.get(&term).copied().unwrap_or(0);
        (1.0 + self.texts as f32 / (1.0 + count as f32)).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_that_mean_the_same_count_once() {
        let terms = QueryTerms::new(&ParsedQuery::parse("What was capex in 2022?"));
        let row = terms.matches("Purchases of property, plant and equipment (PP&E) (1,749)");
        assert!(row.has_figure && !row.groups.is_empty(), "{row:?}");
        let other = terms.matches("Proceeds from sale of businesses 13");
        assert!(terms.worth(&row) > terms.worth(&other));
        let mut both = row.clone();
        both.extend(&row);
        assert_eq!(both, row);
    }
}
