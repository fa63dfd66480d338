//! How much of what a query asks about its best passages have.
//!
//! The words of a query count by their rarity (IDF). A word is there if the passage or a title above it has it, or the passage a
//! phrase that the lexicon gives for it, or if it is the first page with a running head that has it. Of the best passages the
//! one that has most counts: the words of a question are together where the answer is.

use std::collections::BTreeSet;

use tantivy::Term;
use tantivy::query::Bm25StatisticsProvider;

use super::passage_set::PassageSet;
use super::schema::Fields;
use super::scope_statistics::inverse_frequency;
use super::searcher::IndexSearcher;
use crate::parsed_query::ParsedQuery;

/// Best passages that are looked at.
pub(super) const PASSAGES: usize = 10;

/// The words of a query with their rarity, and the phrases of the lexicon for them.
pub(super) struct Evidence {
    subjects: Vec<Subject>,
}

struct Subject {
    word: String,
    weight: f32,
    // Phrases of the lexicon that say the same.
    phrases: BTreeSet<String>,
}

impl Evidence {
    pub(super) fn new(
        searcher: &IndexSearcher,
        fields: &Fields,
        parsed: &ParsedQuery,
    ) -> tantivy::Result<Self> {
        let total = searcher.total_num_docs()? as f32;
        let mut subjects = Vec::new();
        for word in parsed.subject_words() {
            let term = Term::from_field_text(fields.body, word);
            let passages = searcher.doc_freq(&term)? as f32;
            let phrases = parsed
                .entries_with(word)
                .flat_map(|entry| entry.entry.phrases.iter().cloned())
                .collect();
            subjects.push(Subject {
                word: word.to_owned(),
                weight: inverse_frequency(total, passages),
                phrases,
            });
        }
        Ok(Self { subjects })
    }

    /// The share that one of `passages` has; `None` if the query has no words that say what it is about.
    pub(super) fn best(
        &self,
        passages: &PassageSet<'_>,
        fields: &Fields,
    ) -> tantivy::Result<Option<f32>> {
        let total: f32 = self.subjects.iter().map(|subject| subject.weight).sum();
        if total <= 0.0 {
            return Ok(None);
        }
        let mut sums = vec![0.0_f32; passages.len()];
        for subject in &self.subjects {
            let mut is_there = vec![false; passages.len()];
            for term in subject.terms(fields) {
                let found = passages.having(&term)?;
                is_there
                    .iter_mut()
                    .zip(found)
                    .for_each(|(is_there, found)| *is_there |= found);
            }
            for (sum, is_there) in sums.iter_mut().zip(is_there) {
                *sum += if is_there { subject.weight } else { 0.0 };
            }
        }
        Ok(Some(sums.into_iter().fold(0.0, f32::max) / total))
    }
}

impl Subject {
    // The index knows what each passage has, so no text is read again.
    fn terms(&self, fields: &Fields) -> impl Iterator<Item = Term> {
        let words = [fields.body, fields.headings, fields.path, fields.running]
            .map(|field| Term::from_field_text(field, &self.word));
        let phrases = self
            .phrases
            .iter()
            .map(|phrase| Term::from_field_text(fields.phrases, phrase));
        words.into_iter().chain(phrases)
    }
}
