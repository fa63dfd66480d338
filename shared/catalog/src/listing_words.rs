//! Finds the documents of a listing in which some words occur: anywhere in path, issuer, form, symbol or description.
//!
//! Facts and descriptions of all documents have far fewer words than documents, so those words are stored and searched one
//! after another. Paths are stored in blocks, and a block is searched as one text.

use std::collections::BTreeSet;

use memchr::memmem::Finder;
use stemma_store::PortResult;

use crate::catalog::{Catalog, DocumentSet};
use crate::store::terms::TermField;

impl Catalog {
    /// The documents of a set in which all words of a text occur, in any case: anywhere in path, issuer, form, symbol or
    /// description, also inside a longer word.
    pub fn containing_words(&self, set: &DocumentSet, text: &str) -> PortResult<DocumentSet> {
        let words: BTreeSet<String> = text.split_whitespace().map(str::to_lowercase).collect();
        let mut inside = set.clone();
        for word in words {
            let word = Finder::new(&word);
            let stated = self
                .reader()
                .with_fitting_value(TermField::Stated, &|value, _| {
                    word.find(value.as_bytes()).is_some()
                })?;
            let stated = DocumentSet::new(stated);
            let rest = inside.without(&stated);
            let by_path = self.reader().with_word_in_path(&rest.numbers, &word)?;
            inside = inside.and(&stated.or(&DocumentSet::new(by_path)));
        }
        Ok(inside)
    }
}
