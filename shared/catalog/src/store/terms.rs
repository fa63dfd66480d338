//! What documents are found by.

use std::collections::BTreeSet;

use stemma_document::FilingFacts;
use stemma_store::env::Millis;

use crate::display_names::split_name;
use crate::document::CatalogDocument;
use crate::document_names::fold_name;
use crate::facets::{FacetField, normalize_value};
use crate::filter::FilterField;
use crate::listing_words::stated_words;
use crate::locator::document_words;

/// A field that documents are found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TermField {
    /// Values by `normalize_value`, with their spelling.
    Facet(FacetField),
    /// Values of a filter that is no facet; numbers by [`number_term`].
    Filter(FilterField),
    /// Folders above a document.
    Folder,
    /// Words of names and facts.
    Word,
    /// Words of facts and description, as listings are searched for them.
    Stated,
    /// Numbers of the issuer.
    Issuer,
    /// Names of facets, filters and orders of which a document has a value.
    HasValue,
    /// One of [`LISTED`], [`WITH_TREE`] and [`FAILED`].
    State,
    /// When the tree was published, by [`minute_term`].
    Published,
}

/// Documents whose time of publication is known.
pub(crate) const PUBLISHED: &str = "published";
pub(crate) const LISTED: &str = "listed";
pub(crate) const WITH_TREE: &str = "tree";
pub(crate) const FAILED: &str = "failed";

impl TermField {
    /// Stored in keys. Facets come first, in their order.
    pub(crate) fn code(self) -> u8 {
        match self {
            TermField::Facet(facet) => position(&FacetField::ALL, facet),
            TermField::Filter(field) => 64 + position(&FilterField::ALL, field),
            TermField::Folder => 128,
            TermField::Word => 129,
            TermField::Issuer => 130,
            TermField::HasValue => 131,
            TermField::State => 132,
            TermField::Stated => 133,
            TermField::Published => 134,
        }
    }
}

fn position<T: PartialEq + Copy>(all: &[T], one: T) -> u8 {
    let at = all.iter().position(|other| *other == one);
    at.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)
}

/// How a name refers to a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum NameKind {
    Name = 0,
    /// The name without its extension, if it has one.
    Stem = 1,
    /// By `fold_name`.
    Folded = 2,
    Uri = 3,
    /// As filters compare names.
    Canonical = 4,
}

/// Field, normalized value and spelling.
pub(crate) type Term = (TermField, String, String);

/// What a document is found by.
#[derive(Debug, Default)]
pub(crate) struct DocumentTerms {
    pub(crate) postings: BTreeSet<Term>,
    pub(crate) names: BTreeSet<(NameKind, String)>,
}

// Filters whose values differ from those of a facet, or compare as numbers.
const FILTERS: [FilterField; 4] = [
    FilterField::Cik,
    FilterField::FiscalYear,
    FilterField::Doubt,
    FilterField::Pages,
];

impl DocumentTerms {
    pub(crate) fn new(document: &CatalogDocument) -> Self {
        let mut terms = Self::default();
        let version = document.version();
        terms.add(TermField::State, LISTED);
        if document.failure.is_some() {
            terms.add(TermField::State, FAILED);
        }
        for facet in FacetField::ALL {
            for value in facet.values(document) {
                let normalized = normalize_value(facet, value);
                terms
                    .postings
                    .insert((TermField::Facet(facet), normalized, value.to_owned()));
                terms.add(TermField::HasValue, facet.as_str());
            }
        }
        for field in FILTERS {
            for value in field.values(document) {
                let value = if field.is_number() {
                    number_term(&value)
                } else {
                    Some(value)
                };
                if let Some(value) = value {
                    terms.add(TermField::Filter(field), &value);
                    terms.add(TermField::HasValue, field.as_str());
                }
            }
        }
        if let Some(published_ms) = document.published_ms {
            terms.add(TermField::Published, &minute_term(published_ms));
            terms.add(TermField::HasValue, PUBLISHED);
        }
        for (at, _) in version.path.match_indices('/') {
            terms.add(TermField::Folder, &version.path[..at]);
        }
        for word in document_words(document) {
            terms.add(TermField::Word, &word);
        }
        for word in stated_words(document) {
            terms.add(TermField::Stated, &word);
        }
        if let Some(entry) = document.entry() {
            terms.add(TermField::State, WITH_TREE);
            for number in FilingFacts::issuer_identity(&entry.facts) {
                terms.add(TermField::Issuer, &number);
            }
        }
        let name = version.name.as_str();
        let mut names = vec![
            (NameKind::Name, name.to_owned()),
            (NameKind::Folded, fold_name(name)),
            (NameKind::Uri, version.uri.clone()),
            (NameKind::Canonical, FilterField::Name.canonical(name)),
        ];
        let (stem, ending) = split_name(name);
        if !ending.is_empty() {
            names.push((NameKind::Stem, stem.to_owned()));
        }
        terms.names.extend(names);
        terms
    }

    fn add(&mut self, field: TermField, value: &str) {
        self.postings
            .insert((field, value.to_owned(), String::new()));
    }
}

/// A number as a text that sorts as the number does; `None` for anything else.
pub(crate) fn number_term(value: &str) -> Option<String> {
    let bits = value.parse::<f64>().ok()?.to_bits();
    // Negative numbers sort in reverse by their bits.
    let ordered = if bits >> 63 == 0 {
        bits | 1 << 63
    } else {
        !bits
    };
    Some(format!("{ordered:016x}"))
}

/// The minute of a time as a text that sorts as the time does.
pub(crate) fn minute_term(at_ms: Millis) -> String {
    format!("{:016x}", at_ms / 60_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn number_terms_sort_as_numbers(a in any::<f64>(), b in any::<f64>()) {
            let terms = [a, b].map(|number| number_term(&number.to_string()).unwrap());
            prop_assert_eq!(terms[0].cmp(&terms[1]), a.to_string().parse::<f64>().unwrap().total_cmp(&b.to_string().parse().unwrap()));
        }
    }
}
