//! Issuers of the catalog that a claim names: a claim about one is not proven by the filing of another.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use stemma_catalog::catalog::{Catalog, CatalogDocument, DocumentSet};
use stemma_catalog::facets::FacetSelector;
use stemma_catalog::property::Property;
use stemma_document::DocId;
use stemma_reading::text_words::words;
use stemma_retrieval::aliases::{MAX_WORDS, name_words};
use stemma_store::PortResult;

// Shorter trading symbols are initials of much else.
const MIN_SYMBOL: usize = 2;
// Words of a name that are its usual short form: `Goldman Sachs` of `Goldman Sachs Group`.
const SHORT_WORDS: usize = 2;
// Shorter words of a name are mostly initials or articles.
const MIN_SHORT_FORM: usize = 4;
// An issuer's numbers are the same in most of its documents, so a few are enough.
const READ_DOCUMENTS: usize = 8;

pub(super) struct Issuers<'a> {
    catalog: &'a Catalog,
    // Names without spaces, with the normalized names of companies that have them.
    names: HashMap<String, BTreeSet<String>>,
    // The same for the first word and the first two words of longer names.
    short_forms: HashMap<String, BTreeSet<String>>,
}

impl<'a> Issuers<'a> {
    pub(super) fn new(catalog: &'a Catalog) -> PortResult<Self> {
        let mut names: HashMap<String, BTreeSet<String>> = HashMap::new();
        let mut short_forms: HashMap<String, BTreeSet<String>> = HashMap::new();
        for company in catalog.distinct_values(Property::Company)? {
            let words = name_words(&company);
            for form in short_forms_of(&words) {
                short_forms.entry(form).or_default().insert(company.clone());
            }
            names.entry(words.concat()).or_default().insert(company);
        }
        Ok(Self {
            catalog,
            names,
            short_forms,
        })
    }

    /// An issuer that a statement names, if it is not the issuer of a cited document and `around`, the text of the citations, does not
    /// name it.
    pub(super) fn foreign_name<'t>(
        &self,
        statement: &'t str,
        cited: &BTreeSet<DocId>,
        around: &str,
    ) -> PortResult<Option<&'t str>> {
        let cited: PortResult<Vec<_>> = cited.iter().map(|doc| self.catalog.get(*doc)).collect();
        let cited: Vec<Arc<CatalogDocument>> = cited?.into_iter().flatten().collect();
        // A document without an issuer may be about anyone.
        if !cited.iter().any(|document| has_issuer(document)) {
            return Ok(None);
        }
        let own = self.same_issuers(&cited)?;
        let words = words(statement);
        let mut at = 0;
        while at < words.len() {
            let mut length = MAX_WORDS.min(words.len() - at);
            let mut named = self.documents_named(statement, &words, at..at + length)?;
            // If one name contains another, the longer one counts.
            while named.is_empty() && length > 1 {
                length -= 1;
                named = self.documents_named(statement, &words, at..at + length)?;
            }
            let text = written(statement, &words, at..at + length);
            let is_foreign = !named.is_empty() && named.and(&own).is_empty();
            if is_foreign && !has_name(around, &joined_name(text)) {
                return Ok(Some(text));
            }
            at += length;
        }
        Ok(None)
    }

    // The documents of the issuer that these words of a statement name: by its name, its symbol in capitals, or a short form of
    // its name. None if they are no name.
    fn documents_named(
        &self,
        statement: &str,
        words: &[(String, Range<usize>)],
        at: Range<usize>,
    ) -> PortResult<DocumentSet> {
        let text = written(statement, words, at.clone());
        let name = joined_name(text);
        let mut named = DocumentSet::default();
        if let Some(companies) = self.names.get(&name).filter(|_| begins_with_capital(text)) {
            named = self.documents_of(companies)?;
        }
        let is_symbol = at.len() == 1 && text.len() >= MIN_SYMBOL && text == text.to_uppercase();
        if named.is_empty() && is_symbol {
            named = self.with_value(Property::Ticker, Property::Ticker.canonical(text))?;
        }
        match self.short_forms.get(&name) {
            Some(companies) if named.is_empty() && is_short_form(statement, words, at) => {
                self.one_issuer(companies)
            }
            _ => Ok(named),
        }
    }

    // The documents with a normalized value.
    fn with_value(&self, facet: Property, value: String) -> PortResult<DocumentSet> {
        self.catalog.with_value(facet, &FacetSelector::Exact(value))
    }

    fn documents_of(&self, companies: &BTreeSet<String>) -> PortResult<DocumentSet> {
        companies
            .iter()
            .try_fold(DocumentSet::default(), |all, company| {
                Ok(all.or(&self.with_value(Property::Company, company.clone())?))
            })
    }

    // The documents of companies that are one issuer under several names; none if they are several issuers.
    fn one_issuer(&self, companies: &BTreeSet<String>) -> PortResult<DocumentSet> {
        let documents = companies
            .iter()
            .map(|company| self.with_value(Property::Company, company.clone()));
        let mut apart = documents.collect::<PortResult<Vec<DocumentSet>>>()?;
        apart.retain(|documents| !documents.is_empty());
        let mut issuer = apart.pop().unwrap_or_default();
        let mut added = issuer.clone();
        while !added.is_empty() {
            let few = self.catalog.list(&added).take(READ_DOCUMENTS);
            let same = self.same_issuers(&few.collect::<PortResult<Vec<_>>>()?)?;
            added = DocumentSet::default();
            for other in apart.extract_if(.., |other| !other.and(&same).is_empty()) {
                added = added.or(&other);
            }
            issuer = issuer.or(&added);
        }
        Ok(match apart.is_empty() {
            true => issuer,
            false => DocumentSet::default(),
        })
    }

    // The documents that share an official number, or a name, of their issuers with these.
    fn same_issuers(&self, documents: &[Arc<CatalogDocument>]) -> PortResult<DocumentSet> {
        let stated = documents
            .iter()
            .flat_map(|one| Property::Company.values(one));
        let names = stated.filter_map(|name| self.names.get(&joined_name(name)));
        let companies: BTreeSet<String> = names.flatten().cloned().collect();
        let same = self.catalog.same_issuers(documents)?;
        Ok(same.or(&self.documents_of(&companies)?))
    }
}

fn written<'t>(text: &'t str, words: &[(String, Range<usize>)], at: Range<usize>) -> &'t str {
    &text[words[at.start].1.start..words[at.end - 1].1.end]
}

fn has_issuer(document: &CatalogDocument) -> bool {
    let numbers = document.entry().map(|entry| entry.facts.issuer_identity());
    numbers.is_some_and(|numbers| !numbers.is_empty())
        || !Property::Company.values(document).is_empty()
}

// A common word is not a name: `our target`.
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
    name_words(&Property::Company.canonical(text)).concat()
}

// `JPMorgan` and `JPMorgan Chase` of `JPMorgan Chase & Co.`, where the name is longer.
fn short_forms_of(words: &[String]) -> impl Iterator<Item = String> {
    let forms =
        (1..=SHORT_WORDS.min(words.len().saturating_sub(1))).map(|count| words[..count].concat());
    forms.filter(|form| form.chars().count() >= MIN_SHORT_FORM)
}

// Whether these words of a text are written as a name that ends with them. First words of names are ordinary words, too: `United States`,
// `General expenses`.
fn is_short_form(text: &str, words: &[(String, Range<usize>)], at: Range<usize>) -> bool {
    let is_name = at
        .clone()
        .all(|at| begins_with_capital(written(text, words, at..at + 1)));
    let rest = &text[words[at.end - 1].1.end..];
    let is_possessive = rest.starts_with("'s") || rest.starts_with("’s");
    let continues = rest.starts_with([' ', '-', '&'])
        && words
            .get(at.end)
            .is_some_and(|(_, next)| begins_with_capital(&text[next.clone()]));
    // A capital at the start of a sentence tells nothing.
    let before = text[..words[at.start].1.start].trim_end();
    let is_first = before.is_empty() || before.ends_with(['.', '!', '?', ':']);
    let rest = || written(text, words, at.start..at.start + 1).chars().skip(1);
    let is_mixed = rest().any(char::is_uppercase) && rest().any(char::is_lowercase);
    let is_telling = at.len() > 1 || !is_first || is_possessive || is_mixed;
    is_name && is_telling && (is_possessive || !continues)
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
        use stemma_catalog::fixtures::company_entry;
        let catalog = Catalog::from_entries([
            company_entry("a.pdf", "Acme Anvils, Inc."),
            company_entry("b.pdf", "JPMorgan Chase & Co."),
            company_entry("c.pdf", "The Goldman Sachs Group, Inc."),
            company_entry("d.pdf", "General Widgets Company"),
            company_entry("e.pdf", "General Flour Company"),
            company_entry("f.pdf", "United Parcels, Inc."),
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

    #[test]
    fn a_word_in_lower_case_is_no_name() {
        use stemma_catalog::fixtures::company_entry;
        let catalog = Catalog::from_entries([
            company_entry("a.pdf", "Acme Anvils, Inc."),
            company_entry("b.pdf", "Target Corporation"),
        ]);
        let issuers = Issuers::new(&catalog).unwrap();
        let cited = BTreeSet::from([catalog.resolve("a.pdf").unwrap().doc()]);
        for (statement, expected) in [
            ("Costs met the target of $5 million.", None),
            ("Costs of Target were $5 million.", Some("Target")),
        ] {
            let foreign = issuers.foreign_name(statement, &cited, "").unwrap();
            assert_eq!(foreign, expected, "{statement}");
        }
    }

    const COMPANIES: [&str; 8] = [
        "",
        "Acme Anvils, Inc.",
        "ACME ANVILS",
        "Acme Ropes Ltd",
        "Acme",
        "Beta & Gamma Corp",
        "Beta Gamma Two",
        // Normalizing its name twice gives another name.
        "The The Anvils Inc",
    ];
    const SYMBOLS: [&str; 4] = ["", "ACM", "acm", "BG"];
    const CIKS: [&str; 4] = ["", "1001", "0001001", "2002"];
    const PHRASES: [&str; 9] = [
        "Acme Anvils",
        "Acme",
        "acme",
        "ACM",
        "Acme Ropes",
        "Beta Gamma",
        "Beta",
        "BG",
        "The The Anvils",
    ];

    fn filings(values: &[(usize, usize, usize, usize)]) -> Catalog {
        use stemma_catalog::fixtures::entry;
        use stemma_document::{CoRegistrant, Fact, Ticker};
        let fact = |value: &str| Fact::from_text(value, None);
        let stated = |value: &str| (!value.is_empty()).then(|| fact(value));
        Catalog::from_entries(values.iter().enumerate().map(|(at, values)| {
            let (company, other, symbol, cik) = *values;
            let mut entry = entry(&format!("{at}.pdf"));
            entry.facts.issuer = stated(COMPANIES[company]);
            entry.facts.tickers = stated(SYMBOLS[symbol])
                .map(|symbol| Ticker {
                    symbol,
                    exchange: None,
                })
                .into_iter()
                .collect();
            entry.facts.cik = stated(CIKS[cik]);
            let others = stated(COMPANIES[other]).filter(|_| company > 0);
            let others = others.into_iter().map(|name| CoRegistrant {
                name,
                file_number: None,
                irs_number: None,
                state: None,
            });
            entry.facts.co_registrants = others.collect();
            entry
        }))
    }

    // What tells an issuer from others: its official numbers, and its names.
    fn keys(document: &CatalogDocument) -> BTreeSet<String> {
        let entry = document.entry().unwrap();
        let names = Property::Company.values(document).into_iter();
        let numbers = entry.facts.issuer_identity().into_iter();
        numbers.chain(names.map(joined_name)).collect()
    }

    fn walked(all: &[Arc<CatalogDocument>], phrase: &str) -> BTreeSet<DocId> {
        let having = |fits: &dyn Fn(&CatalogDocument) -> bool| -> Vec<&Arc<CatalogDocument>> {
            all.iter().filter(|document| fits(document)).collect()
        };
        let name = joined_name(phrase);
        let companies = |document: &CatalogDocument| -> Vec<String> {
            let values = Property::Company.values(document).into_iter();
            values
                .map(|value| Property::Company.canonical(value))
                .collect()
        };
        let by_name = having(&|it| {
            begins_with_capital(phrase)
                && companies(it)
                    .iter()
                    .any(|one| name_words(one).concat() == name)
        });
        let by_symbol = having(&|it| {
            let symbols = Property::Ticker.values(it);
            symbols.iter().any(|symbol| symbol.to_uppercase() == phrase)
        });
        let by_short_form = having(&|it| {
            let mut forms = companies(it)
                .into_iter()
                .flat_map(|one| short_forms_of(&name_words(&one)).collect::<Vec<_>>());
            begins_with_capital(phrase) && forms.any(|form| form == name)
        });
        let mut joined = Vec::new();
        let mut apart = by_short_form;
        let mut known: BTreeSet<String> =
            apart.first().map(|first| keys(first)).unwrap_or_default();
        while let Some(at) = apart.iter().position(|one| !keys(one).is_disjoint(&known)) {
            known.extend(keys(apart[at]));
            joined.push(apart.remove(at));
        }
        let of_one_issuer = if apart.is_empty() { joined } else { Vec::new() };
        let mut found = [by_name, by_symbol, of_one_issuer].into_iter();
        let found = found.find(|found| !found.is_empty()).unwrap_or_default();
        found.into_iter().map(|document| document.doc()).collect()
    }

    proptest::proptest! {
        // Each case has its own catalog.
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
        #[test]
        fn stored_values_name_the_documents_that_a_walk_finds(
            values in proptest::collection::vec((0..8_usize, 0..8_usize, 0..4_usize, 0..4_usize), 1..8)
        ) {
            let catalog = filings(&values);
            let issuers = Issuers::new(&catalog).unwrap();
            let all: Vec<_> = catalog.documents().collect::<PortResult<_>>().unwrap();
            let docs = |set: &DocumentSet| catalog.ids(set).unwrap().into_iter().collect::<BTreeSet<_>>();
            for phrase in PHRASES {
                let statement = format!("{phrase}'s costs fell.");
                let words = words(&statement);
                let length = phrase.split(' ').count();
                let named = issuers.documents_named(&statement, &words, 0..length).unwrap();
                proptest::prop_assert_eq!(docs(&named), walked(&all, phrase), "{}", phrase);
            }
            for document in &all {
                let same = issuers.same_issuers(std::slice::from_ref(document)).unwrap();
                let expected = all.iter().filter(|other| !keys(other).is_disjoint(&keys(document)) || other == &document);
                proptest::prop_assert_eq!(docs(&same), expected.map(|it| it.doc()).collect::<BTreeSet<_>>());
            }
        }
    }
}
