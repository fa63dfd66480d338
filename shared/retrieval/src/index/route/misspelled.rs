//! Names that a query misspells: words near a name that no document has, or that are written as a name.

use std::collections::BTreeSet;

use stemma_reading::tokenizer::{is_stop_word, tokenize};
use tantivy::Term;

use super::{NameMatch, NamedDocuments, Router, resolve_matches};
use crate::aliases::{AliasStrength, MAX_WORDS};
use crate::index::near_terms::{is_spelled, near_alias_words, spelling_in_texts};
use crate::query_words::QueryWord;

// A capitalized word on more passages than this is probably spelled right.
const MAX_TYPO_PASSAGES: u64 = 3;
// With this many letters, a word may have one typo; with twice as many, two.
const TYPO_LETTERS: usize = 4;
// Shorter words are never the misspelled ones of a name.
const UNKNOWN_LETTERS: usize = 3;

// Why a word may be a misspelled one of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Typo {
    // No document has it.
    Unknown,
    // It is another word, but written as a name.
    Known,
}

impl Router<'_> {
    // Further names that match an alias but for a typo in one word.
    pub(super) fn corrected_matches(
        &self,
        accepted: &[NameMatch],
    ) -> tantivy::Result<Vec<NameMatch>> {
        let mut corrected: Vec<NameMatch> = Vec::new();
        for at in 0..self.query.words.len() {
            let mut known = accepted.iter().chain(&corrected);
            if known.any(|one| one.from.contains(&at)) {
                continue;
            }
            let Some(typo) = self.typo(at)? else { continue };
            if let Some(found) = self.correct(at, typo)?
                && !accepted
                    .iter()
                    .chain(&corrected)
                    .any(|one| one.overlaps(&found))
            {
                corrected.push(found);
            }
        }
        Ok(corrected)
    }

    // Whether a word may be a misspelled one of a name.
    fn typo(&self, at: usize) -> tantivy::Result<Option<Typo>> {
        let word = &self.query.words[at];
        let letters = word.word.chars().count();
        if letters < UNKNOWN_LETTERS || !word.word.chars().all(char::is_alphabetic) {
            return Ok(None);
        }
        let is_capitalized = word.capital && self.query.has_case();
        // Whoever writes capitals writes them in names.
        if !is_capitalized && self.query.has_capitals() {
            return Ok(None);
        }
        Ok(match self.is_unknown(word)? {
            true => Some(Typo::Unknown),
            false if is_capitalized && !is_stop_word(&word.word) || word.possessive => {
                Some(Typo::Known)
            }
            false => None,
        })
    }

    // Whether no document writes a word like this.
    fn is_unknown(&self, word: &QueryWord) -> tantivy::Result<bool> {
        let Some(stem) = tokenize(&word.word).into_iter().next() else {
            return Ok(false);
        };
        let term = Term::from_field_text(self.fields.body, &stem);
        let passages = self.searcher.doc_freq(&term)?;
        let is_capitalized = word.capital && !word.first && self.query.has_case();
        if passages == 0 || is_capitalized && passages <= MAX_TYPO_PASSAGES {
            return Ok(true);
        }
        // A misspelled name may have the stem of another word: `Coring` and `core`.
        if !is_capitalized || stem == word.word {
            return Ok(false);
        }
        let is_written = spelling_in_texts(self.searcher, self.fields, &[], &[stem], |written| {
            is_spelled(written, &word.word)
        })?;
        Ok(is_written != Some(true))
    }

    // The issuer with the nearest name, if there is one only.
    fn correct(&self, at: usize, typo: Typo) -> tantivy::Result<Option<NameMatch>> {
        let word = &self.query.words[at];
        let letters = word.word.chars().count();
        let most = match typo {
            Typo::Unknown if letters >= 2 * TYPO_LETTERS => 2,
            _ => 1,
        };
        for distance in 1..=most {
            let mut found: Vec<NameMatch> = Vec::new();
            let mut is_alike = false;
            for near in near_alias_words(self.searcher, self.fields, &word.word, distance)? {
                if near == word.word {
                    continue;
                }
                let starts_alike = near.chars().next() == word.word.chars().next();
                if is_alike && !starts_alike {
                    break;
                }
                let named = self.names_with(at, &near, typo)?;
                is_alike |= starts_alike && !named.is_empty();
                found.extend(named);
            }
            let is_one_issuer = self.is_one_issuer(&found)?;
            // The longest name, then the strongest.
            if let Some(best) = resolve_matches(found).into_iter().next() {
                return Ok(is_one_issuer.then_some(best));
            }
        }
        Ok(None)
    }

    // Whether all these names are of one issuer. It may have changed its name.
    fn is_one_issuer(&self, found: &[NameMatch]) -> tantivy::Result<bool> {
        let named = || found.iter().map(|one| &one.documents);
        let issuers: BTreeSet<u64> = named().flat_map(|one| &one.issuers).copied().collect();
        let documents: BTreeSet<u64> = named().flat_map(|one| &one.documents).copied().collect();
        if issuers.len() <= 1 {
            return Ok(true);
        }
        let mut same: BTreeSet<u64> = documents.iter().copied().take(1).collect();
        self.add_same_issuer(&mut same)?;
        Ok(documents.is_subset(&same))
    }

    // The names that have `near` in place of the word `at`.
    fn names_with(&self, at: usize, near: &str, typo: Typo) -> tantivy::Result<Vec<NameMatch>> {
        let count = self.query.words.len();
        let mut named = Vec::new();
        for start in at.saturating_sub(MAX_WORDS - 1)..=at {
            for end in at + 1..=count.min(start + MAX_WORDS) {
                let range = start..end;
                let words = &self.query.words[range.clone()];
                let is_name = match typo {
                    Typo::Unknown => range.len() > 1 || near.chars().count() >= TYPO_LETTERS,
                    // Other words that are right, or a possessive, say that it is a name.
                    Typo::Known if range.len() > 1 => words.iter().all(|word| word.capital),
                    Typo::Known => words[0].possessive && near.chars().count() > TYPO_LETTERS,
                };
                if !is_name {
                    continue;
                }
                let words = range.clone().map(|position| match position == at {
                    true => near,
                    false => self.query.words[position].word.as_str(),
                });
                let name = words.collect::<Vec<_>>().join(" ");
                for strength in AliasStrength::ALL {
                    // One word in lower case may be near the first word of a name by accident: `covid`.
                    let is_sure = strength != AliasStrength::First || self.query.words[at].capital;
                    if !strength.is_spelled() || !is_sure {
                        continue;
                    }
                    let mut documents = NamedDocuments::default();
                    self.add_documents(strength, &name, &mut documents)?;
                    if !documents.documents.is_empty() {
                        named.push(NameMatch {
                            strength,
                            from: range.clone(),
                            documents,
                            is_marked: true,
                            is_corrected: true,
                        });
                    }
                }
            }
        }
        Ok(named)
    }
}
