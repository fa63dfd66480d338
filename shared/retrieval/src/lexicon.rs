//! The lexicon: how people ask, and how documents say it.
//!
//! The data is `lexicon.toml`; its comments state the format and the source. Phrases are index terms of their own, so a
//! changed file needs a new index: [`Lexicon::revision`] is part of the index revision.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::OnceLock;

use foldhash::fast::RandomState;
use serde::Deserialize;
use stemma_reading::statement_pages::StatementKind;
use stemma_reading::tokenizer::content_words;

const TEXT: &str = include_str!("lexicon.toml");

/// What an entry of the lexicon means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A line of a statement: its phrases label rows.
    Line,
    /// The names of a measure.
    Measure,
    /// A subject of filings.
    Subject,
    /// A clause, which counts in all documents.
    Clause,
}

/// Phrases that mean the same.
#[derive(Debug, Clone, PartialEq)]
pub struct LexiconEntry {
    pub kind: EntryKind,
    /// As index terms: normalized words joined by spaces.
    pub phrases: Vec<String>,
    /// The statement that has the line.
    pub statement: Option<StatementKind>,
}

/// An entry that a query triggers.
#[derive(Debug, Clone, PartialEq)]
pub struct TriggeredEntry<'l> {
    pub entry: &'l LexiconEntry,
    /// The content words of the query that trigger it, by position.
    pub from: Range<usize>,
    /// Whether they name a measure that the line is a part of, rather than the entry itself.
    pub is_part: bool,
}

// A phrase as an index term and as written.
struct Phrase {
    term: String,
    text: String,
}

// Phrases by their first word.
type PhrasesByFirst<T> = HashMap<String, Vec<(T, Vec<String>)>, RandomState>;

/// All entries, with what triggers them.
#[derive(Default)]
pub struct Lexicon {
    entries: Vec<LexiconEntry>,
    phrases: Vec<Phrase>,
    phrases_by_first: PhrasesByFirst<usize>,
    // The entry itself, and the lines that it is made of.
    triggers_by_first: PhrasesByFirst<Vec<usize>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LexiconFile {
    lines: BTreeMap<String, LineText>,
    measures: Vec<MeasureText>,
    subjects: Vec<SubjectText>,
    clauses: Vec<SubjectText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineText {
    #[serde(rename = "in")]
    statement: String,
    labels: Vec<String>,
    asks: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasureText {
    names: Vec<String>,
    lines: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubjectText {
    asks: Vec<String>,
    says: Vec<String>,
}

impl Lexicon {
    /// The built-in lexicon. A test checks that the file can be read.
    pub fn get() -> &'static Self {
        static LEXICON: OnceLock<Lexicon> = OnceLock::new();
        LEXICON.get_or_init(|| toml::from_str(TEXT).map_or_else(|_| Self::default(), Self::new))
    }

    /// A number derived from the content of the file.
    pub fn revision() -> u32 {
        let digest = stemma_document::Digest::from_content(TEXT.as_bytes());
        let first = digest.as_bytes().first_chunk::<4>();
        first.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    fn new(file: LexiconFile) -> Self {
        let mut lexicon = Self::default();
        let mut lines: BTreeMap<String, usize> = BTreeMap::new();
        for (name, line) in file.lines {
            let entry = lexicon.add(EntryKind::Line, &line.labels);
            lexicon.entries[entry].statement = StatementKind::from_code(&line.statement);
            lexicon.add_triggers(line.asks.iter().chain(&line.labels), &[entry]);
            lines.insert(name, entry);
        }
        for measure in file.measures {
            let mut made_of = vec![lexicon.add(EntryKind::Measure, &measure.names)];
            made_of.extend(measure.lines.iter().filter_map(|line| lines.get(line)));
            lexicon.add_triggers(measure.names.iter(), &made_of);
        }
        for subject in file.subjects {
            let entry = lexicon.add(EntryKind::Subject, &subject.says);
            lexicon.add_triggers(subject.asks.iter(), &[entry]);
        }
        for clause in file.clauses {
            let entry = lexicon.add(EntryKind::Clause, &clause.says);
            lexicon.add_triggers(clause.asks.iter(), &[entry]);
        }
        lexicon
    }

    // Adds an entry and returns its index.
    fn add(&mut self, kind: EntryKind, phrases: &[String]) -> usize {
        let mut entry = LexiconEntry {
            kind,
            phrases: Vec::new(),
            statement: None,
        };
        for text in phrases {
            let words = content_words(text);
            let term = words.join(" ");
            if term.is_empty() || entry.phrases.contains(&term) {
                continue;
            }
            entry.phrases.push(term.clone());
            if !self.phrases.iter().any(|phrase| phrase.term == term) {
                let first = self.phrases_by_first.entry(words[0].clone());
                first.or_default().push((self.phrases.len(), words));
                let text = text.clone();
                self.phrases.push(Phrase { term, text });
            }
        }
        self.entries.push(entry);
        self.entries.len() - 1
    }

    fn add_triggers<'t>(&mut self, texts: impl Iterator<Item = &'t String>, entries: &[usize]) {
        for words in texts.map(|text| content_words(text)) {
            if let Some(first) = words.first() {
                let triggers = self.triggers_by_first.entry(first.clone()).or_default();
                triggers.push((entries.to_vec(), words));
            }
        }
    }

    /// A phrase as the lexicon writes it, by its index term.
    pub fn written(&self, term: &str) -> Option<&str> {
        let phrase = self.phrases.iter().find(|phrase| phrase.term == term)?;
        Some(&phrase.text)
    }

    /// Calls `visit` with each phrase in a sequence of content words, and with the index of its first word.
    pub fn for_each_phrase<'l, W: AsRef<str>>(
        &'l self,
        words: &[W],
        mut visit: impl FnMut(&'l str, usize),
    ) {
        for (at, word) in words.iter().enumerate() {
            let phrases = self.phrases_by_first.get(word.as_ref());
            for (number, phrase) in phrases.into_iter().flatten() {
                let mut found = words[at..].iter().map(AsRef::as_ref);
                if phrase.iter().all(|word| found.next() == Some(word)) {
                    visit(&self.phrases[*number].term, at);
                }
            }
        }
    }

    /// The entries that the content words of a query trigger. Of nested triggers only the longest counts: "operating cash
    /// flow" is not "cash flow".
    pub fn triggered_entries(&self, words: &[String]) -> Vec<TriggeredEntry<'_>> {
        let mut matches: Vec<(&[usize], Range<usize>)> = Vec::new();
        for (at, word) in words.iter().enumerate() {
            for (entries, trigger) in self.triggers_by_first.get(word).into_iter().flatten() {
                if words[at..].starts_with(trigger) {
                    matches.push((entries, at..at + trigger.len()));
                }
            }
        }
        let mut triggered: BTreeMap<usize, TriggeredEntry<'_>> = BTreeMap::new();
        for (entries, range) in &matches {
            if matches.iter().any(|(_, other)| is_nested(range, other)) {
                continue;
            }
            for (part, at) in entries.iter().enumerate() {
                let new = TriggeredEntry {
                    entry: &self.entries[*at],
                    from: range.clone(),
                    is_part: part > 0,
                };
                let known = triggered.get(at);
                if known.is_none_or(|known| known.is_part && !new.is_part) {
                    triggered.insert(*at, new);
                }
            }
        }
        triggered.into_values().collect()
    }
}

fn is_nested(inner: &Range<usize>, outer: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end && inner.len() < outer.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn triggered(question: &str) -> Vec<TriggeredEntry<'static>> {
        Lexicon::get().triggered_entries(&content_words(question))
    }

    fn has_phrase(entries: &[TriggeredEntry<'_>], phrase: &str) -> bool {
        let phrase = content_words(phrase).join(" ");
        entries
            .iter()
            .any(|one| one.entry.phrases.contains(&phrase))
    }

    #[test]
    fn every_entry_of_the_file_is_read() {
        let file: LexiconFile = toml::from_str(TEXT).unwrap();
        for code in file.lines.values().map(|line| &line.statement) {
            assert!(StatementKind::from_code(code).is_some(), "{code}");
        }
        for line in file.measures.iter().flat_map(|measure| &measure.lines) {
            assert!(file.lines.contains_key(line), "{line}");
        }
        for text in file
            .lines
            .values()
            .flat_map(|line| line.labels.iter().chain(&line.asks))
        {
            assert!(!content_words(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn longest_of_nested_triggers_wins() {
        let entries = triggered("What is the operating cash flow?");
        assert_eq!(entries.len(), 1);
        assert!(has_phrase(
            &entries,
            "net cash provided by operating activities"
        ));
        assert_eq!(entries[0].entry.statement, Some(StatementKind::CashFlow));
    }

    #[test]
    fn a_measure_means_the_lines_it_is_made_of() {
        for (question, lines) in [
            (
                "What is Acme's debt service coverage?",
                ["operating income", "interest expense"],
            ),
            (
                "Compute the plowback ratio.",
                ["dividends paid", "net income"],
            ),
            (
                "loan-to-deposit ratio in 2020",
                ["total loans", "total deposits"],
            ),
        ] {
            let entries = triggered(question);
            for line in lines {
                assert!(has_phrase(&entries, line), "{question}: {line}");
            }
        }
    }

    #[test]
    fn phrases_match_in_any_inflection() {
        let mut phrases = Vec::new();
        let words = content_words("Purchases of property, plant and equipment (PP&E)");
        Lexicon::get().for_each_phrase(&words, |phrase, at| phrases.push((phrase.to_owned(), at)));
        let purchase = content_words("purchase of property plant and equipment").join(" ");
        assert!(phrases.contains(&(purchase, 0)), "{phrases:?}");
    }
}
