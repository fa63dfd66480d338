//! Terms of the index that are nearly written as a word: words of names and of texts within a typo's distance, and spellings.

use std::collections::BTreeMap;

use stemma_reading::tokenizer::for_each_word;
use tantivy::Term;
use tantivy::query::{BooleanQuery, FuzzyTermQuery, Occur, Query, TermQuery};
use tantivy::schema::{Field, IndexRecordOption};

use super::document_filter::all_of;
use super::schema::Fields;
use super::searcher::IndexSearcher;

// A spelling is looked up in this many passages.
const MAX_TEXTS: usize = 32;
// Shorter words with another first letter are other words.
const OTHER_START_LETTERS: usize = 5;

/// Words of names within `distance` edits of a word, 1 or 2, those with its first letter first. Swapped letters are one edit.
/// The first letter is rarely wrong: with another one the word needs five letters, and has no other error.
pub(super) fn near_alias_words(
    searcher: &IndexSearcher,
    fields: &Fields,
    word: &str,
    distance: usize,
) -> tantivy::Result<Vec<String>> {
    let near = near_terms(searcher, fields.alias_words, word, distance)?;
    let (mut alike, other): (Vec<String>, Vec<String>) =
        near.into_keys().partition(|near| starts_alike(near, word));
    if distance == 1 && word.chars().count() >= OTHER_START_LETTERS {
        alike.extend(other);
    }
    Ok(alike)
}

/// Words of the text within a typo's distance of a stem, the most frequent first, with the count of their passages.
pub(super) fn near_words(
    searcher: &IndexSearcher,
    fields: &Fields,
    stem: &str,
    distance: usize,
) -> tantivy::Result<Vec<(String, u64)>> {
    let mut near: Vec<(String, u64)> = near_terms(searcher, fields.body, stem, distance)?
        .into_iter()
        .filter(|(word, _)| starts_alike(word, stem))
        .collect();
    near.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    Ok(near)
}

/// Whether a passage in `scope` has one of the stems in a spelling that is accepted; `None` if no spelling is among the
/// best passages and there are more than these.
pub(super) fn spelling_in_texts(
    searcher: &IndexSearcher,
    fields: &Fields,
    scope: &[Box<dyn Query>],
    stems: &[String],
    accepts: impl Fn(&str) -> bool,
) -> tantivy::Result<Option<bool>> {
    let terms = stems.iter().map(|stem| {
        let term = Term::from_field_text(fields.body, stem);
        let query: Box<dyn Query> = Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs));
        (Occur::Should, query)
    });
    let query = all_of(scope, Box::new(BooleanQuery::new(terms.collect())));
    let hits = searcher.best(&query, MAX_TEXTS)?;
    let is_all = hits.len() < MAX_TEXTS;
    for (_, address) in hits {
        let text = searcher.stored_text(address, fields.text)?;
        let text = text.unwrap_or_default();
        let mut found = false;
        for_each_word(&text, |word, range| {
            found |= stems.iter().any(|stem| stem == word) && accepts(&text[range]);
        });
        if found {
            return Ok(Some(true));
        }
    }
    Ok(is_all.then_some(false))
}

/// Whether a word of a text is `word` but for its case and a possessive.
pub(super) fn is_spelled(written: &str, word: &str) -> bool {
    let written = written.replace('’', "'");
    let bare = written.trim_end_matches("'s").trim_end_matches('\'');
    bare.to_lowercase() == word
}

fn starts_alike(a: &str, b: &str) -> bool {
    a.chars().next() == b.chars().next()
}

fn near_terms(
    searcher: &IndexSearcher,
    field: Field,
    text: &str,
    distance: usize,
) -> tantivy::Result<BTreeMap<String, u64>> {
    let distance = u8::try_from(distance.min(2)).unwrap_or(2);
    let query = FuzzyTermQuery::new(Term::from_field_text(field, text), distance, true);
    let mut near = BTreeMap::new();
    for reader in searcher.segment_readers() {
        let index = reader.inverted_index(field)?;
        let mut terms = index.terms().search(query.automaton()?).into_stream()?;
        while terms.advance() {
            if let Ok(term) = std::str::from_utf8(terms.key()) {
                *near.entry(term.to_owned()).or_default() += u64::from(terms.value().doc_freq);
            }
        }
    }
    Ok(near)
}
