//! What documents are found by.

use std::collections::BTreeSet;

use stemma_document::FilingFacts;

use crate::display_names::{fold_name, split_name};
use crate::document::CatalogDocument;
use crate::document_words::{document_words, stated_words};
use crate::property::Property;

/// A field that documents are found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TermField {
    /// Values in canonical form, with their spelling.
    Text(Property),
    /// Values by [`number_term`].
    Number(Property),
    /// Folders above a document.
    Folder,
    /// Words of names and facts.
    Word,
    /// Words of facts and description, as listings are searched for them.
    Stated,
    /// Numbers of the issuer.
    Issuer,
    /// Names of the properties that a document has.
    HasValue,
    /// One of [`LISTED`], [`WITH_TREE`] and [`FAILED`].
    State,
}

pub(crate) const LISTED: &str = "listed";
pub(crate) const WITH_TREE: &str = "tree";
pub(crate) const FAILED: &str = "failed";

impl TermField {
    /// Stored in keys.
    pub(crate) fn code(self) -> u8 {
        match self {
            TermField::Text(property) => property as u8,
            TermField::Number(property) => 64 + property as u8,
            TermField::Folder => 128,
            TermField::Word => 129,
            TermField::Issuer => 130,
            TermField::HasValue => 131,
            TermField::State => 132,
            TermField::Stated => 133,
        }
    }

    /// The terms that conditions compare; `None` for names and paths, which have tables of their own.
    pub(crate) fn for_filter(property: Property) -> Option<Self> {
        match property {
            Property::Path | Property::Name => None,
            _ if property.is_number() => Some(TermField::Number(property)),
            _ => Some(TermField::Text(property)),
        }
    }
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

impl DocumentTerms {
    pub(crate) fn new(document: &CatalogDocument) -> Self {
        let mut terms = Self::default();
        let version = document.version();
        terms.add(TermField::State, LISTED);
        if document.failure.is_some() {
            terms.add(TermField::State, FAILED);
        }
        for property in Property::ALL {
            terms.add_property(property, document);
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
            (NameKind::Canonical, Property::Name.canonical(name)),
        ];
        let (stem, ending) = split_name(name);
        if !ending.is_empty() {
            names.push((NameKind::Stem, stem.to_owned()));
        }
        terms.names.extend(names);
        terms
    }

    // If a fact states a number, both its text and the number.
    fn add_property(&mut self, property: Property, document: &CatalogDocument) {
        let Some(field) = TermField::for_filter(property) else {
            return;
        };
        for value in property.values(document) {
            let canonical = property.canonical(value);
            self.postings
                .insert((TermField::Text(property), canonical, value.to_owned()));
            self.add(TermField::HasValue, property.name());
        }
        if property.is_number() {
            let values = property.canonical_values(document);
            for number in values.iter().filter_map(|value| number_term(value)) {
                self.add(field, &number);
                self.add(TermField::HasValue, property.name());
            }
        }
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
