//! How much of what a query asks about its best passages have.
//!
//! The words of a query count by their rarity (IDF). A word is there if the passage or a title above it has it, or a phrase
//! that the lexicon gives for it, or if the running head that the document has first stands on it. Of the best passages the one that has most counts: the words of a question stand
//! together where the answer is.

use std::collections::BTreeSet;

use tantivy::query::Bm25StatisticsProvider;
use tantivy::{Searcher, Term};

use super::schema::Fields;
use crate::lexicon::Lexicon;
use crate::parsed_query::ParsedQuery;
use crate::question_words::is_question_word;
use crate::tokenizer::{content_words, is_stop_word};

/// Best passages that are looked at.
pub(super) const PASSAGES: usize = 10;

/// The words of a query with their rarity, and the phrases that stand for them.
pub(super) struct Evidence {
    subjects: Vec<Subject>,
}

/// What a passage says.
pub(super) struct PassageWords {
    /// Its text, and the titles above it.
    pub(super) text: String,
    /// Those words of the query that stand in running heads.
    pub(super) running: Vec<String>,
}

struct Subject {
    word: String,
    weight: f32,
    // Phrases of the lexicon that say the same.
    phrases: BTreeSet<String>,
}

impl Evidence {
    pub(super) fn new(
        searcher: &Searcher,
        fields: &Fields,
        parsed: &ParsedQuery,
        issuer_words: &[String],
        text: &str,
    ) -> tantivy::Result<Self> {
        let content = content_words(text);
        let entries = Lexicon::get().triggered_entries(&content);
        let total = searcher.total_num_docs()? as f32;
        let mut subjects = Vec::new();
        for (word, weight) in &parsed.words {
            let is_subject = *weight >= 1.0
                && !is_stop_word(word)
                && !is_question_word(word)
                && !issuer_words.contains(word);
            if !is_subject {
                continue;
            }
            let term = Term::from_field_text(fields.body, word);
            let passages = searcher.doc_freq(&term)? as f32;
            let phrases = entries
                .iter()
                .filter(|entry| content[entry.from.clone()].contains(word))
                .flat_map(|entry| entry.entry.phrases.iter().cloned());
            subjects.push(Subject {
                word: word.clone(),
                weight: (1.0 + (total - passages + 0.5) / (passages + 0.5)).ln(),
                phrases: phrases.collect(),
            });
        }
        Ok(Self { subjects })
    }

    /// The words that the query asks about, as stems.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.subjects.iter().map(|subject| subject.word.as_str())
    }

    /// The share that one of `passages` has; `None` if the query has no words that say what it is about.
    pub(super) fn best(&self, passages: impl Iterator<Item = PassageWords>) -> Option<f32> {
        let total: f32 = self.subjects.iter().map(|subject| subject.weight).sum();
        if total <= 0.0 {
            return None;
        }
        let shares = passages.map(|passage| self.found(&passage) / total);
        Some(shares.fold(0.0, f32::max))
    }

    fn found(&self, passage: &PassageWords) -> f32 {
        let content = content_words(&passage.text);
        let words: BTreeSet<&str> = content
            .iter()
            .chain(&passage.running)
            .map(String::as_str)
            .collect();
        let mut phrases: BTreeSet<&str> = BTreeSet::new();
        Lexicon::get().for_each_phrase(&content, |phrase, _| {
            phrases.insert(phrase);
        });
        let found = self.subjects.iter().filter(|subject| {
            words.contains(subject.word.as_str())
                || subject
                    .phrases
                    .iter()
                    .any(|phrase| phrases.contains(phrase.as_str()))
        });
        found.map(|subject| subject.weight).sum()
    }
}
