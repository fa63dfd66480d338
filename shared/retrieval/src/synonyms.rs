//! The vocabulary: how people ask about filings, and how filings phrase it.
//!
//! The data is `vocabulary.txt`; its header names the sources. Phrases are index terms of their own, so a changed file
//! needs a new index: [`Synonyms::revision`] is part of the index revision.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use foldhash::fast::RandomState;

use crate::page_class::PageClass;
use crate::tokenizer::content_words;

const TEXT: &str = include_str!("vocabulary.txt");

/// The synonym groups, indexed by first word.
pub struct Synonyms {
    groups: Vec<SynonymGroup>,
    phrases: Vec<String>,
    phrases_by_first: HashMap<String, Vec<(usize, Vec<String>)>, RandomState>,
    triggers_by_first: HashMap<String, Vec<(usize, Vec<String>)>>,
}

/// Phrases expected on pages for some words of a query, and the page classes where they appear.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SynonymGroup {
    /// Index terms of the phrases: normalized words joined by spaces.
    pub phrases: Vec<String>,
    /// Page classes, with their weights (0–1).
    pub page_classes: Vec<(PageClass, f32)>,
}

/// A synonym group that a query triggers.
#[derive(Debug, Clone, PartialEq)]
pub struct TriggeredGroup<'v> {
    /// Index of the group.
    pub at: usize,
    pub group: &'v SynonymGroup,
    /// The content words of the query that trigger it, by position.
    pub from: Range<usize>,
}

impl Synonyms {
    /// The built-in vocabulary.
    pub fn get() -> &'static Self {
        static VOCABULARY: OnceLock<Synonyms> = OnceLock::new();
        VOCABULARY.get_or_init(|| Self::parse(TEXT))
    }

    /// A number derived from the content of the file.
    pub fn revision() -> u32 {
        let bytes = stemma_document::Digest::from_content(TEXT.as_bytes());
        bytes
            .as_bytes()
            .first_chunk::<4>()
            .map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    fn parse(text: &str) -> Self {
        let mut synonyms = Self {
            groups: Vec::new(),
            phrases: Vec::new(),
            phrases_by_first: HashMap::default(),
            triggers_by_first: HashMap::new(),
        };
        let mut phrase_ids: HashMap<String, usize> = HashMap::new();
        for line in text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        {
            let columns: Vec<&str> = line.split('|').map(str::trim).collect();
            let [triggers, phrases, places, ..] = columns[..] else {
                continue;
            };
            let at = synonyms.groups.len();
            for words in triggers.split(';').map(content_words) {
                if let Some(first) = words.first() {
                    synonyms
                        .triggers_by_first
                        .entry(first.clone())
                        .or_default()
                        .push((at, words));
                }
            }
            let mut group = SynonymGroup {
                phrases: Vec::new(),
                page_classes: places
                    .split_whitespace()
                    .filter_map(parse_page_class)
                    .collect(),
            };
            for words in phrases
                .split(';')
                .map(content_words)
                .filter(|words| !words.is_empty())
            {
                let phrase = words.join(" ");
                if !group.phrases.contains(&phrase) {
                    group.phrases.push(phrase.clone());
                }
                phrase_ids.entry(phrase.clone()).or_insert_with(|| {
                    let number = synonyms.phrases.len();
                    synonyms.phrases.push(phrase);
                    synonyms
                        .phrases_by_first
                        .entry(words[0].clone())
                        .or_default()
                        .push((number, words));
                    number
                });
            }
            synonyms.groups.push(group);
        }
        synonyms
    }

    /// Calls `visit` with each phrase among content words, and its position. Phrases may overlap.
    pub fn for_each_phrase<'v>(
        &'v self,
        words: &[impl AsRef<str>],
        mut visit: impl FnMut(&'v str, usize),
    ) {
        for (at, word) in words.iter().enumerate() {
            let phrases = self.phrases_by_first.get(word.as_ref());
            for (number, phrase) in phrases.into_iter().flatten() {
                let mut found = words[at..].iter().map(AsRef::as_ref);
                if phrase.iter().all(|word| found.next() == Some(word)) {
                    visit(&self.phrases[*number], at);
                }
            }
        }
    }

    /// The groups that the content words of a query trigger. Of nested triggers only the longest counts: "operating cash
    /// flow" is not "cash flow".
    pub fn triggered_groups(&self, words: &[String]) -> Vec<TriggeredGroup<'_>> {
        let mut matches: Vec<(usize, Range<usize>)> = Vec::new();
        for (at, word) in words.iter().enumerate() {
            for (group, trigger) in self.triggers_by_first.get(word).into_iter().flatten() {
                if words[at..].starts_with(trigger) {
                    matches.push((*group, at..at + trigger.len()));
                }
            }
        }
        let longest: Vec<_> = matches
            .iter()
            .filter(|(_, range)| !matches.iter().any(|(_, other)| is_nested(range, other)))
            .cloned()
            .collect();
        let mut triggered: Vec<TriggeredGroup<'_>> = Vec::new();
        for (at, from) in longest {
            if !triggered.iter().any(|existing| existing.at == at) {
                triggered.push(TriggeredGroup {
                    at,
                    group: &self.groups[at],
                    from,
                });
            }
        }
        triggered
    }
}

fn is_nested(inner: &Range<usize>, outer: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end && inner.len() < outer.len()
}

// `IS*0.5`: a page class and its weight, 1 by default.
fn parse_page_class(text: &str) -> Option<(PageClass, f32)> {
    let (name, share) = text.split_once('*').unwrap_or((text, "1"));
    Some((PageClass::from_name(name)?, share.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_file_parses() {
        let synonyms = Synonyms::get();
        let lines = TEXT
            .lines()
            .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        for (line, group) in lines.zip(&synonyms.groups) {
            let columns: Vec<&str> = line.split('|').collect();
            assert_eq!(columns.len(), 3, "{line}");
            assert_eq!(
                group.page_classes.len(),
                columns[2].split_whitespace().count(),
                "{line}"
            );
            assert!(!group.phrases.is_empty(), "{line}");
        }
        assert!(synonyms.groups.len() >= 80);
    }

    #[test]
    fn longest_of_nested_triggers_wins() {
        let synonyms = Synonyms::get();
        let words = content_words("What is the operating cash flow?");
        let triggered = synonyms.triggered_groups(&words);
        assert_eq!(triggered.len(), 1);
        assert!(
            triggered[0]
                .group
                .phrases
                .contains(&content_words("net cash provided by operating activities").join(" "))
        );
        assert_eq!(
            triggered[0].group.page_classes,
            [(PageClass::CashFlow, 1.0)]
        );
    }

    #[test]
    fn phrases_match_in_any_inflection() {
        let mut phrases = Vec::new();
        let words = content_words("Purchases of property, plant and equipment (PP&E)");
        Synonyms::get().for_each_phrase(&words, |phrase, at| phrases.push((phrase.to_owned(), at)));
        assert!(
            phrases.contains(&(
                content_words("purchase of property plant and equipment").join(" "),
                0
            )),
            "{phrases:?}"
        );
    }
}
