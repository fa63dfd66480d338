//! The words by which people name and list documents.

use std::collections::{BTreeSet, HashSet};

use crate::document::CatalogDocument;
use crate::property::Property;

/// Words in lower case; `10-K` is the word `10k`.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> {
    let mut words: Vec<String> = Vec::new();
    let parts = text.split(|c: char| !c.is_alphanumeric());
    for part in parts.filter(|part| !part.is_empty()) {
        let is_letter = part.len() == 1 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
        match words.last_mut() {
            Some(last) if is_letter && last.bytes().all(|byte| byte.is_ascii_digit()) => {
                last.push_str(&part.to_lowercase());
            }
            _ => words.push(part.to_lowercase()),
        }
    }
    words.into_iter()
}

/// The words of a document's name and of the facts that people name filings by.
pub(crate) fn document_words(document: &CatalogDocument) -> HashSet<String> {
    const FACTS: [Property; 4] = [
        Property::Company,
        Property::Ticker,
        Property::Form,
        Property::FiscalYear,
    ];
    let facts = FACTS.iter().flat_map(|facet| facet.values(document));
    facts
        .chain([document.version().name.as_str()])
        .flat_map(words)
        .collect()
}

/// The words of facts and description in lower case. A word ends at white space only, as those that are searched for do, so
/// that what is searched for never spans two of them.
pub(crate) fn stated_words(document: &CatalogDocument) -> BTreeSet<String> {
    const FACTS: [Property; 3] = [Property::Company, Property::Form, Property::Ticker];
    let entry = document.entry();
    let description = entry.and_then(|entry| entry.description.as_deref());
    FACTS
        .iter()
        .flat_map(|facet| facet.values(document))
        .chain(description)
        .flat_map(str::split_whitespace)
        .map(str::to_lowercase)
        .collect()
}
