//! The properties of documents: what they are listed, filtered and sorted by.
//!
//! Facets, conditions of `where`, fields of a query, orders, stored terms, fields of the index and the table in
//! `docs/guide/search.md` follow from the rows below. A new property is a row here, behind the others, and a row in that table.

use serde::{Deserialize, Serialize};
use stemma_document::{Digest, Extent, Fact, FilingFacts};
use stemma_reading::companies::company_key;

use crate::document::CatalogDocument;

/// How values compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PropertyType {
    Text,
    /// ISO date. Dates compare as text, too.
    Date,
    /// Whole number.
    Number,
    /// From 0 to 1, with three digits in the index.
    Score,
}

// How values are read.
#[derive(Clone, Copy)]
enum Reader {
    Facts(fn(&FilingFacts) -> Vec<&Fact>),
    Text(fn(&CatalogDocument) -> Option<&str>),
    Number(fn(&CatalogDocument) -> Option<String>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Use {
    /// Documents are listed by it.
    Facet,
    /// Conditions are on it, so the index has it.
    Filter,
    /// Lists are sorted by it.
    Order,
    /// The page of the archive lists its values.
    Page,
}

use Use::{Facet, Filter, Order, Page};

struct Definition {
    name: &'static str,
    value_type: PropertyType,
    reader: Reader,
    uses: &'static [Use],
    normalize: fn(&str) -> String,
    // The name as a facet.
    facet: &'static str,
    // Another name in a query.
    alias: Option<&'static str>,
}

macro_rules! properties {
    ($($(#[doc = $doc:literal])+ $variant:ident = $definition:expr;)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Property {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Property {
            pub const COUNT: usize = [$(Property::$variant),+].len();

            /// In the order in which they are listed.
            pub const ALL: [Property; Self::COUNT] = [$(Property::$variant),+];
        }

        static DEFINITIONS: [Definition; Property::COUNT] = [$($definition),+];

        const DOCS: [&str; Property::COUNT] = [$(concat!($($doc),+)),+];
    };
}

properties! {
    /// Path of the file; the default order.
    Path = text("path", &[Order], |document| Some(&document.version().path));
    /// The registrants, compared without legal form.
    Company = Definition {
        normalize: company_key,
        ..stated("company", &[Facet, Filter, Order, Page], companies)
    };
    /// Form type, with `/A` for amendments.
    Form = stated("form", &[Facet, Filter, Order, Page], |facts| facts.form.iter().collect());
    /// The year that a filing covers, four digits.
    FiscalYear = Definition {
        value_type: PropertyType::Number,
        alias: Some("year"),
        ..stated("fiscal_year", &[Facet, Filter, Order, Page], |facts| facts.fiscal_year.iter().collect())
    };
    /// `FY`, or `Q1` to `Q4`.
    FiscalPeriod = Definition {
        alias: Some("quarter"),
        ..stated("fiscal_period", &[Facet, Filter], |facts| facts.fiscal_period.iter().collect())
    };
    /// The last day of the period, ISO date.
    PeriodEnd = Definition {
        value_type: PropertyType::Date,
        facet: "period",
        ..stated("period_end", &[Facet, Filter], |facts| facts.period_end.iter().collect())
    };
    /// Filing date, ISO date; listed by year, then month (`/@filed/2023/02`).
    Filed = Definition {
        value_type: PropertyType::Date,
        ..stated("filed", &[Facet, Filter], |facts| facts.filed.iter().collect())
    };
    /// Trading symbols.
    Ticker = stated("ticker", &[Facet, Filter], |facts| facts.symbols().collect());
    /// Central Index Key, without leading zeros.
    Cik = Definition {
        normalize: normalize_cik,
        ..stated("cik", &[Facet, Filter], |facts| facts.cik.iter().collect())
    };
    /// Accession number, which the documents of a filing share.
    Accession = stated("accession", &[Facet], |facts| facts.accession.iter().collect());
    /// ISO 639-1 code of the main language.
    Language = stated("language", &[Facet, Filter], |facts| facts.language.iter().collect());
    /// File name.
    Name = text("name", &[Filter], |document| Some(&document.version().name));
    /// Number of pages; none without pages.
    Pages = number("pages", &[Filter, Order], pages);
    /// Doubt about the tree, 0 to 1.
    Doubt = Definition {
        value_type: PropertyType::Score,
        ..number("doubt", &[Filter, Order], doubt)
    };
    /// `done`, `done_with_gaps`, `queued`, `running`, `failed` or `cancelled`.
    Status = text("status", &[Facet, Filter, Order, Page], |document| Some(document.state.as_str()));
    /// `good`, `uncertain` or `doubtful`, by the doubt about the tree.
    Quality = text("quality", &[Facet, Filter, Page], quality);
    /// The minute in which the tree was published.
    Published = number("published", &[Order], published_minute);
    /// The audit firm, as tagged; compared without legal form.
    Auditor = Definition {
        normalize: company_key,
        ..stated("auditor", &[Facet, Filter, Order, Page], |facts| facts.auditor.iter().collect())
    };
}

const fn stated(
    name: &'static str,
    uses: &'static [Use],
    read: fn(&FilingFacts) -> Vec<&Fact>,
) -> Definition {
    Definition {
        name,
        value_type: PropertyType::Text,
        reader: Reader::Facts(read),
        uses,
        normalize,
        facet: name,
        alias: None,
    }
}

const fn text(
    name: &'static str,
    uses: &'static [Use],
    read: fn(&CatalogDocument) -> Option<&str>,
) -> Definition {
    Definition {
        reader: Reader::Text(read),
        ..stated(name, uses, |_| Vec::new())
    }
}

const fn number(
    name: &'static str,
    uses: &'static [Use],
    read: fn(&CatalogDocument) -> Option<String>,
) -> Definition {
    Definition {
        value_type: PropertyType::Number,
        reader: Reader::Number(read),
        ..stated(name, uses, |_| Vec::new())
    }
}

fn normalize(value: &str) -> String {
    value.trim().to_lowercase()
}

fn normalize_cik(value: &str) -> String {
    FilingFacts::parse_cik(value).unwrap_or_else(|| normalize(value))
}

fn companies(facts: &FilingFacts) -> Vec<&Fact> {
    let others = facts.co_registrants.iter().map(|other| &other.name);
    facts.issuer.iter().chain(others).collect()
}

fn pages(document: &CatalogDocument) -> Option<String> {
    match document.entry()?.extent {
        Extent::Pages(pages) => Some(pages.to_string()),
        Extent::Lines(_) => None,
    }
}

fn doubt(document: &CatalogDocument) -> Option<String> {
    Some(document.entry()?.doubt?.to_string())
}

fn quality(document: &CatalogDocument) -> Option<&str> {
    document.entry()?.doubt.map(quality_value)
}

/// The [`Property::Quality`] value for a score of doubt (0–1).
// Of the 17 labeled trees from 0.4 on, 11 are among the 15 of 43 that score worst (locF1 × parent, tests/truth); of the 26
// below, 4.
pub fn quality_value(doubt: f32) -> &'static str {
    match doubt {
        doubt if doubt < 0.4 => "good",
        doubt if doubt < 0.5 => "uncertain",
        _ => "doubtful",
    }
}

fn published_minute(document: &CatalogDocument) -> Option<String> {
    Some((document.published_ms? / 60_000).to_string())
}

impl Property {
    fn definition(self) -> &'static Definition {
        &DEFINITIONS[self as usize]
    }

    fn used_as(part: Use) -> impl Iterator<Item = Property> {
        let all = Self::ALL.into_iter();
        all.filter(move |property| property.definition().uses.contains(&part))
    }

    /// The properties that documents are listed by: `/@form/10-K`.
    pub fn facets() -> impl Iterator<Item = Property> {
        Self::used_as(Facet)
    }

    /// The properties of all conditions. Each is a field of the index.
    pub fn filters() -> impl Iterator<Item = Property> {
        Self::used_as(Filter)
    }

    /// The properties that lists are sorted by.
    pub fn orders() -> impl Iterator<Item = Property> {
        Self::used_as(Order)
    }

    /// The facets that the page of the archive lists.
    pub fn page_facets() -> impl Iterator<Item = Property> {
        Self::used_as(Page)
    }

    /// The name in conditions, orders and the index.
    pub fn name(self) -> &'static str {
        self.definition().name
    }

    /// The name behind the `@` of a path, and in the JSON of facets.
    pub fn facet_name(self) -> &'static str {
        self.definition().facet
    }

    pub fn is_facet(self) -> bool {
        self.definition().uses.contains(&Facet)
    }

    pub fn is_filter(self) -> bool {
        self.definition().uses.contains(&Filter)
    }

    pub fn value_type(self) -> PropertyType {
        self.definition().value_type
    }

    /// Whether values compare as numbers. All others compare as text.
    pub fn is_number(self) -> bool {
        matches!(
            self.value_type(),
            PropertyType::Number | PropertyType::Score
        )
    }

    /// Parses the name of a facet, with or without `@`.
    pub fn from_facet_name(name: &str) -> Option<Self> {
        let name = name.strip_prefix('@').unwrap_or(name);
        Self::facets().find(|facet| facet.facet_name().eq_ignore_ascii_case(name))
    }

    /// Parses the name of a field of conditions, with or without `@`.
    pub fn from_filter_name(name: &str) -> Option<Self> {
        let name = name.trim().trim_start_matches('@');
        Self::filters().find(|field| field.name().eq_ignore_ascii_case(name))
    }

    /// Parses the name of a field in a query, which may be an alias: `year`.
    pub fn from_query_name(name: &str) -> Option<Self> {
        let alias = |field: &Self| field.definition().alias;
        Self::filters()
            .find(|field| alias(field).is_some_and(|alias| alias.eq_ignore_ascii_case(name)))
            .or_else(|| Self::from_filter_name(name))
    }

    /// The document's values, as its facts state them. Empty if unknown, and for numbers that no fact states.
    pub fn values(self, document: &CatalogDocument) -> Vec<&str> {
        match self.definition().reader {
            Reader::Facts(read) => {
                let facts = document.entry().map(|entry| read(&entry.facts));
                let facts = facts.into_iter().flatten();
                facts.map(|fact| fact.value.as_str()).collect()
            }
            Reader::Text(read) => read(document).into_iter().collect(),
            Reader::Number(_) => Vec::new(),
        }
    }

    /// The document's values in canonical form; empty if unknown.
    pub fn canonical_values(self, document: &CatalogDocument) -> Vec<String> {
        match self.definition().reader {
            Reader::Number(read) => read(document).into_iter().collect(),
            Reader::Facts(_) | Reader::Text(_) => {
                let values = self.values(document).into_iter();
                values.map(|value| self.canonical(value)).collect()
            }
        }
    }

    /// The form in which values are compared: lower case; companies without legal form; CIKs without leading zeros.
    pub fn canonical(self, value: &str) -> String {
        (self.definition().normalize)(value)
    }

    /// Changes with the rows of the table: what is stored by property is then built anew.
    pub fn revision() -> u32 {
        let rows = DEFINITIONS
            .iter()
            .map(|row| format!("{} {:?} {:?}\n", row.name, row.value_type, row.uses));
        let digest = Digest::from_content(rows.collect::<String>().as_bytes());
        let first = digest.as_bytes().first_chunk::<4>();
        first.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// The row of the property in `docs/guide/search.md`.
    pub fn documentation(self) -> String {
        let Definition {
            name,
            uses,
            facet,
            alias,
            ..
        } = self.definition();
        let alias = alias.map(|alias| format!(", in a query also `{alias}`"));
        let uses = uses.iter().map(|part| match part {
            Facet => format!("`/@{facet}`"),
            Filter => "`where`, query".to_owned(),
            Order => "sort".to_owned(),
            Page => "archive page".to_owned(),
        });
        format!(
            "| `{name}`{} | {} | {} |",
            alias.unwrap_or_default(),
            DOCS[self as usize].trim(),
            uses.collect::<Vec<_>>().join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_those_of_json() {
        for property in Property::ALL {
            let json = serde_json::to_value(property).unwrap();
            assert_eq!(json, property.name());
            let named = Property::ALL.into_iter().filter(|other| {
                let definition = other.definition();
                let names = [
                    Some(definition.name),
                    Some(definition.facet),
                    definition.alias,
                ];
                names.contains(&Some(property.name()))
            });
            assert_eq!(named.collect::<Vec<_>>(), [property]);
        }
    }

    #[test]
    fn documents_are_listed_by_texts_only() {
        for property in Property::facets() {
            assert!(!matches!(property.definition().reader, Reader::Number(_)));
        }
    }

    #[test]
    fn the_documentation_has_all_properties() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/search.md");
        let page = std::fs::read_to_string(path).unwrap();
        for property in Property::ALL {
            let row = property.documentation();
            assert!(
                page.lines().any(|line| line == row),
                "docs/guide/search.md lacks\n{row}"
            );
        }
    }
}
