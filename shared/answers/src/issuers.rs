//! Issuers of the catalog that a claim names: a claim about one is not proven by the filing of another.

use std::collections::{BTreeSet, HashMap};

use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::facets::{FacetField, normalize_value};
use stemma_document::DocId;
use stemma_retrieval::aliases::{MAX_WORDS, name_words};

use super::text_words::words;

// Shorter trading symbols are initials of much else.
const MIN_SYMBOL: usize = 2;

pub(super) struct Issuers<'a> {
    catalog: &'a Catalog,
    // Names without spaces, and symbols in capitals, with the keys of the issuers that have them.
    names: HashMap<String, BTreeSet<String>>,
}

impl<'a> Issuers<'a> {
    pub(super) fn new(catalog: &'a Catalog) -> Self {
        let mut names: HashMap<String, BTreeSet<String>> = HashMap::new();
        // Most issuers have many filings.
        let mut known: BTreeSet<(Vec<&str>, Vec<&str>)> = BTreeSet::new();
        for document in catalog.documents() {
            let companies = FacetField::Company.values(document);
            let symbols = FacetField::Ticker.values(document);
            if !known.insert((companies.clone(), symbols.clone())) {
                continue;
            }
            let keys = keys(document);
            let symbols = symbols.into_iter().map(str::to_uppercase);
            let symbols = symbols.filter(|symbol| symbol.len() >= MIN_SYMBOL);
            for name in companies.into_iter().map(joined_name).chain(symbols) {
                names.entry(name).or_default().extend(keys.iter().cloned());
            }
        }
        Self { catalog, names }
    }

    /// An issuer that a statement names, if it is that of none of the cited documents and `around`, the text of the citations, does not
    /// name it.
    pub(super) fn foreign_name<'t>(
        &self,
        statement: &'t str,
        cited: &BTreeSet<DocId>,
        around: &str,
    ) -> Option<&'t str> {
        let cited = cited.iter().filter_map(|doc| self.catalog.get(*doc));
        let own: BTreeSet<String> = cited.flat_map(keys).collect();
        // A document without an issuer may be about anyone.
        if own.is_empty() {
            return None;
        }
        let words = words(statement);
        let mut at = 0;
        while at < words.len() {
            // Of nested names the longest.
            let longest = (1..=MAX_WORDS.min(words.len() - at))
                .rev()
                .find_map(|length| {
                    let last = &words[at + length - 1].1;
                    let text = &statement[words[at].1.start..last.end];
                    let name = joined_name(text);
                    let symbol = Some(text.to_owned()).filter(|_| length == 1);
                    let found = self.names.get(&name).filter(|_| begins_with_capital(text));
                    let found = found.or_else(|| self.names.get(&symbol?));
                    found.map(|keys| (length, keys, text, name))
                });
            let Some((length, keys, text, name)) = longest else {
                at += 1;
                continue;
            };
            if keys.is_disjoint(&own) && !has_name(around, &name) {
                return Some(text);
            }
            at += length;
        }
        None
    }
}

// A common word is no name: `our target`.
fn has_name(text: &str, name: &str) -> bool {
    let words = words(text);
    (0..words.len()).any(|at| {
        let rest = &words[at..words.len().min(at + MAX_WORDS)];
        let start = rest[0].1.start;
        let mut names = rest.iter().map(|(_, last)| &text[start..last.end]);
        begins_with_capital(&text[start..]) && names.any(|text| joined_name(text) == name)
    })
}

fn begins_with_capital(text: &str) -> bool {
    text.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
}

fn joined_name(text: &str) -> String {
    name_words(&normalize_value(FacetField::Company, text)).concat()
}

// What tells an issuer from others: its official numbers, and its names.
fn keys(document: &CatalogDocument) -> Vec<String> {
    let entry = document.entry();
    let mut keys = entry.map_or_else(Vec::new, |entry| entry.facts.issuer_identity());
    let names = FacetField::Company.values(document);
    keys.extend(names.into_iter().map(joined_name));
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_begins_with_a_capital() {
        for (text, expected) in [
            ("The sales of Target's stores grew.", true),
            ("Costs met our target.", false),
            ("a target for the Gap", false),
        ] {
            assert_eq!(has_name(text, "target"), expected, "{text}");
        }
        let name = joined_name("The Goldman Sachs Group");
        assert!(has_name("a loan of The Goldman Sachs Group to us", &name));
    }
}
