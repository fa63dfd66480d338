//! Issuers of the catalog that a claim names: a claim about one is not proven by the filing of another.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::facets::{FacetField, normalize_value};
use stemma_document::DocId;
use stemma_engine::PortResult;
use stemma_retrieval::aliases::{MAX_WORDS, name_words};

use super::text_words::words;

// Shorter trading symbols are initials of much else.
const MIN_SYMBOL: usize = 2;
// Words of a name that are its usual short form: `Goldman Sachs` of `Goldman Sachs Group`.
const SHORT_WORDS: usize = 2;
// Shorter words of a name are mostly initials or articles.
const MIN_SHORT_FORM: usize = 4;

pub(super) struct Issuers<'a> {
    catalog: &'a Catalog,
    // Names without spaces, and symbols in capitals, with the keys of the issuers that have them.
    names: HashMap<String, BTreeSet<String>>,
    // The first word and the first two words of longer names, without spaces. `None`: of several issuers.
    short_forms: HashMap<String, Option<BTreeSet<String>>>,
}

impl<'a> Issuers<'a> {
    pub(super) fn new(catalog: &'a Catalog) -> PortResult<Self> {
        let mut names: HashMap<String, BTreeSet<String>> = HashMap::new();
        let mut short_forms: HashMap<String, Option<BTreeSet<String>>> = HashMap::new();
        // Most issuers have many filings.
        let mut known: BTreeSet<(Vec<String>, Vec<String>)> = BTreeSet::new();
        for document in catalog.documents() {
            let document = document?;
            let companies = FacetField::Company.values(&document);
            let symbols = FacetField::Ticker.values(&document);
            let owned = [&companies, &symbols]
                .map(|values| values.iter().map(|value| (*value).to_owned()).collect());
            if !known.insert(owned.into()) {
                continue;
            }
            let keys: BTreeSet<String> = keys(&document).into_iter().collect();
            for form in companies.iter().flat_map(|name| short_forms_of(name)) {
                let issuer = short_forms
                    .entry(form)
                    .or_insert_with(|| Some(keys.clone()));
                match issuer.as_mut().filter(|known| !known.is_disjoint(&keys)) {
                    Some(known) => known.extend(keys.iter().cloned()),
                    None => *issuer = None,
                }
            }
            let symbols = symbols.into_iter().map(str::to_uppercase);
            let symbols = symbols.filter(|symbol| symbol.len() >= MIN_SYMBOL);
            for name in companies.into_iter().map(joined_name).chain(symbols) {
                names.entry(name).or_default().extend(keys.iter().cloned());
            }
        }
        Ok(Self {
            catalog,
            names,
            short_forms,
        })
    }

    /// An issuer that a statement names, if it is that of none of the cited documents and `around`, the text of the citations, does not
    /// name it.
    pub(super) fn foreign_name<'t>(
        &self,
        statement: &'t str,
        cited: &BTreeSet<DocId>,
        around: &str,
    ) -> PortResult<Option<&'t str>> {
        let mut own: BTreeSet<String> = BTreeSet::new();
        for doc in cited {
            own.extend(self.catalog.get(*doc)?.iter().flat_map(|one| keys(one)));
        }
        // A document without an issuer may be about anyone.
        if own.is_empty() {
            return Ok(None);
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
                    let short = || {
                        let short = self.short_forms.get(&name)?.as_ref();
                        short.filter(|_| is_short_form(statement, &words, at..at + length))
                    };
                    found.or_else(short).map(|keys| (length, keys, text, name))
                });
            let Some((length, keys, text, name)) = longest else {
                at += 1;
                continue;
            };
            if keys.is_disjoint(&own) && !has_name(around, &name) {
                return Ok(Some(text));
            }
            at += length;
        }
        Ok(None)
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

// `JPMorgan` and `JPMorgan Chase` of `JPMorgan Chase & Co.`, where the name is longer.
fn short_forms_of(name: &str) -> Vec<String> {
    let words = name_words(&normalize_value(FacetField::Company, name));
    let forms =
        (1..=SHORT_WORDS.min(words.len().saturating_sub(1))).map(|count| words[..count].concat());
    forms
        .filter(|form| form.chars().count() >= MIN_SHORT_FORM)
        .collect()
}

// Whether these words of a text are written as a name that ends with them. First words of names are ordinary words, too: `United States`,
// `General expenses`.
fn is_short_form(text: &str, words: &[(String, Range<usize>)], at: Range<usize>) -> bool {
    let written = |at: usize| &text[words[at].1.clone()];
    let is_name = at.clone().all(|at| begins_with_capital(written(at)));
    let rest = &text[words[at.end - 1].1.end..];
    let is_possessive = rest.starts_with("'s") || rest.starts_with("’s");
    let continues = rest.starts_with([' ', '-', '&'])
        && words
            .get(at.end)
            .is_some_and(|(_, next)| begins_with_capital(&text[next.clone()]));
    // A capital at the start of a sentence tells nothing.
    let before = text[..words[at.start].1.start].trim_end();
    let is_first = before.is_empty() || before.ends_with(['.', '!', '?', ':']);
    let is_mixed = |word: &str| {
        let rest = || word.chars().skip(1);
        rest().any(char::is_uppercase) && rest().any(char::is_lowercase)
    };
    let is_telling = at.len() > 1 || !is_first || is_possessive || is_mixed(written(at.start));
    is_name && is_telling && (is_possessive || !continues)
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

    #[test]
    fn short_forms_of_one_issuer_are_its_names() {
        use stemma_catalog::fixtures::of_company;
        let catalog = Catalog::from_entries([
            of_company("a.pdf", "Acme Anvils, Inc."),
            of_company("b.pdf", "JPMorgan Chase & Co."),
            of_company("c.pdf", "The Goldman Sachs Group, Inc."),
            of_company("d.pdf", "General Widgets Company"),
            of_company("e.pdf", "General Flour Company"),
            of_company("f.pdf", "United Parcels, Inc."),
        ]);
        let issuers = Issuers::new(&catalog).unwrap();
        let cited = BTreeSet::from([catalog.resolve("a.pdf").unwrap().doc()]);
        for (statement, expected) in [
            ("JPMorgan's net income was $5 million.", Some("JPMorgan")),
            ("Net income of JPMorgan was $5 million.", Some("JPMorgan")),
            ("JPMorgan reported $5 million.", Some("JPMorgan")),
            ("Goldman Sachs had costs of $5.", Some("Goldman Sachs")),
            ("Costs of Goldman were $5 million.", Some("Goldman")),
            ("Costs of United were $5 million.", Some("United")),
            // Ordinary words, and names of others.
            ("United efforts cost $5 million.", None),
            ("Sales in the United States were $5 million.", None),
            ("General expenses were $5 million.", None),
            ("Costs of General were $5 million.", None),
            ("Sales of Acme were $5 million.", None),
            ("Acme Anvils' costs were $5 million.", None),
        ] {
            assert_eq!(
                issuers.foreign_name(statement, &cited, "").unwrap(),
                expected,
                "{statement}"
            );
        }
    }
}
