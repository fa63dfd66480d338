//! Finds the documents of a listing in which some words occur: anywhere in path, issuer, form, symbol or description.
//!
//! Facts and descriptions of all documents have far fewer words than documents, so those words are stored and searched one
//! after another. Paths are searched themselves, without reading their documents.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use roaring::RoaringBitmap;
use stemma_engine::PortResult;

use crate::catalog::{Catalog, CatalogDocument, DocumentSet};
use crate::document_set::MAX_SORTED;
use crate::facets::{FacetField, path_below};
use crate::store::terms::TermField;

/// The words of facts and description in lower case. A word ends at white space only, as those that are searched for do, so
/// that what is searched for never spans two of them.
pub(crate) fn stated_words(document: &CatalogDocument) -> BTreeSet<String> {
    const FACTS: [FacetField; 3] = [FacetField::Company, FacetField::Form, FacetField::Ticker];
    let entry = document.entry();
    let description = entry.and_then(|entry| entry.description.as_deref());
    let facts = FACTS.iter().flat_map(|facet| facet.values(document));
    let words = facts.chain(description).flat_map(str::split_whitespace);
    words.map(str::to_lowercase).collect()
}

impl Catalog {
    /// The documents of a set in which all words of a text occur, in any case: anywhere in path, issuer, form, symbol or
    /// description, also inside a longer word.
    ///
    /// # Errors
    /// As [`Catalog::all`].
    pub fn containing_words(&self, set: &DocumentSet, text: &str) -> PortResult<DocumentSet> {
        let words: BTreeSet<String> = text.split_whitespace().map(str::to_lowercase).collect();
        let mut stated = Vec::with_capacity(words.len());
        let mut of_all = set.clone();
        for word in words {
            let fits = |value: &str, _: &str| value.contains(word.as_str());
            let having = self.reader().with_fitting_value(TermField::Stated, &fits)?;
            of_all = of_all.and(&DocumentSet::new(having.clone()));
            stated.push((word, having));
        }
        let rest = self.listed(set.without(&of_all).numbers);
        let by_path = self.with_words_in_path(&rest, &set.folder, &stated)?;
        Ok(set.and(&of_all.or(&DocumentSet::new(by_path))))
    }

    // The documents whose paths have all words that they do not state.
    fn with_words_in_path(
        &self,
        set: &DocumentSet,
        folder: &str,
        stated: &[(String, RoaringBitmap)],
    ) -> PortResult<RoaringBitmap> {
        let mut lower = String::new();
        let mut fits = |path: &str, number: u32| {
            lower.clear();
            if path.is_ascii() {
                lower.push_str(path);
                lower.make_ascii_lowercase();
            } else {
                lower.push_str(&path.to_lowercase());
            }
            let mut words = stated.iter();
            words.all(|(word, having)| having.contains(number) || lower.contains(word.as_str()))
        };
        if set.numbers.len() <= MAX_SORTED {
            let mut fitting = RoaringBitmap::new();
            for number in &set.numbers {
                let listed = self.reader().listed(number)?;
                if listed.is_some_and(|(.., path)| fits(&path, number)) {
                    fitting.insert(number);
                }
            }
            return Ok(fitting);
        }
        let first = match folder {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        self.reader().with_fitting_path(&first, |path, number| {
            if path_below(folder, path).is_none() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(set.numbers.contains(number) && fits(path, number))
        })
    }
}
