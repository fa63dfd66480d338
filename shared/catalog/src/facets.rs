//! Virtual folders: documents by what they say about themselves, beside the folders they were ingested from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stemma_document::{Fact, FilingFacts};

use crate::catalog::{Catalog, CatalogDocument};
use crate::display_names::{escape, unescape};
pub use crate::facet_buckets::FacetBucket;

/// Axes one path narrows by.
const MAX_FILTERS: usize = 16;

/// A property documents can be listed by: `/@company/…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FacetField {
    /// The registrant.
    Company,
    /// Form type.
    Form,
    /// Fiscal year.
    FiscalYear,
    /// `FY`, `Q1` … `Q4`.
    FiscalPeriod,
    /// End of the period, ISO date.
    Period,
    /// The day it was filed, ISO date; listed by year, then month: `/@filed/2023/02`.
    Filed,
    /// Trading symbol; a document may have several.
    Ticker,
    /// Central Index Key.
    Cik,
    /// ISO 639-1 code of the main language.
    Language,
    /// State of the document.
    Status,
    /// How much of the tree was verified: `verified` (≥ 0.9 of titles), `partly_verified` (≥ 0.6, below which another
    /// method is tried), `unverified`.
    Quality,
}

impl FacetField {
    /// All axes in the order they are listed.
    pub const ALL: [FacetField; 11] = [
        FacetField::Company,
        FacetField::Form,
        FacetField::FiscalYear,
        FacetField::FiscalPeriod,
        FacetField::Period,
        FacetField::Filed,
        FacetField::Ticker,
        FacetField::Cik,
        FacetField::Language,
        FacetField::Status,
        FacetField::Quality,
    ];

    /// The word behind the `@`.
    pub fn as_str(self) -> &'static str {
        match self {
            FacetField::Company => "company",
            FacetField::Form => "form",
            FacetField::FiscalYear => "fiscal_year",
            FacetField::FiscalPeriod => "fiscal_period",
            FacetField::Period => "period",
            FacetField::Filed => "filed",
            FacetField::Ticker => "ticker",
            FacetField::Cik => "cik",
            FacetField::Language => "language",
            FacetField::Status => "status",
            FacetField::Quality => "quality",
        }
    }

    /// The axis of this name, with or without `@`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.strip_prefix('@').unwrap_or(name);
        FacetField::ALL
            .into_iter()
            .find(|facet| facet.as_str().eq_ignore_ascii_case(name))
    }

    /// The document's values on this axis, as they are stated; none where it has none.
    pub fn values(self, document: &CatalogDocument) -> Vec<&str> {
        let entry = document.entry();
        let facts = entry.map(|entry| &entry.facts);
        let one = |fact: fn(&FilingFacts) -> &Option<Fact>| {
            facts
                .and_then(|facts| fact(facts).as_ref())
                .map(|fact| fact.value.as_str())
                .into_iter()
                .collect()
        };
        match self {
            FacetField::Company => one(|facts| &facts.issuer),
            FacetField::Form => one(|facts| &facts.form),
            FacetField::FiscalYear => one(|facts| &facts.fiscal_year),
            FacetField::FiscalPeriod => one(|facts| &facts.fiscal_period),
            FacetField::Period => one(|facts| &facts.period_end),
            FacetField::Filed => one(|facts| &facts.filed),
            FacetField::Cik => one(|facts| &facts.cik),
            FacetField::Language => one(|facts| &facts.language),
            FacetField::Ticker => facts
                .iter()
                .flat_map(|facts| &facts.tickers)
                .map(|ticker| ticker.symbol.value.as_str())
                .collect(),
            FacetField::Status => vec![document.state.as_str()],
            FacetField::Quality => entry
                .map(|entry| quality_value(entry.accuracy))
                .into_iter()
                .collect(),
        }
    }
}

/// The value of [`FacetField::Quality`] for a share of titles verified.
pub fn quality_value(accuracy: f32) -> &'static str {
    match accuracy {
        accuracy if accuracy >= 0.9 => "verified",
        accuracy if accuracy >= 0.6 => "partly_verified",
        _ => "unverified",
    }
}

/// Which values of an axis are meant; texts as [`normalize_value`] makes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FacetSelector {
    /// This one.
    Exact(String),
    /// All from one to another, both included, with all that begin like the last: `a..c`. A year of days is `2022..2022`.
    Range {
        /// The first.
        from: String,
        /// The last, or how the last begin.
        to: String,
    },
}

impl FacetSelector {
    /// Whether a folded value is meant.
    pub fn matches(&self, normalized: &str) -> bool {
        match self {
            FacetSelector::Exact(value) => value == normalized,
            FacetSelector::Range { from, to } => {
                from.as_str() <= normalized
                    && (normalized <= to.as_str() || normalized.starts_with(to.as_str()))
            }
        }
    }

    /// All values that begin so.
    pub fn with_prefix(with: impl Into<String>) -> Self {
        let from = with.into();
        FacetSelector::Range {
            to: from.clone(),
            from,
        }
    }

    /// The choice as a part of a path behind its axis.
    pub fn path(&self, facet: FacetField) -> String {
        let end = |text: &str| escape_segment(text).replace('.', "%2E");
        match self {
            // The months of a year lie in it.
            FacetSelector::Range { from, to }
                if from == to && facet == FacetField::Filed && from.len() == 7 =>
            {
                format!("/@filed/{}", from.replace('-', "/"))
            }
            FacetSelector::Range { from, to } if from == to && facet == FacetField::Filed => {
                format!("/@filed/{}", end(from))
            }
            FacetSelector::Range { from, to } => {
                format!("/@{}/{}..{}", facet.as_str(), end(from), end(to))
            }
            FacetSelector::Exact(value) => value_path(facet, value),
        }
    }
}

/// A place in the file-system view: a folder, narrowed by axes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Folder as ingested, without slashes at its ends; empty for all.
    pub folder: String,
    /// All must hold.
    pub filters: Vec<(FacetField, FacetSelector)>,
    /// Set where the path ends in an axis without a value (`/@company`), or with many (`/@company/a..c`, `/@filed/2023`):
    /// its values are asked for.
    pub values_of: Option<FacetField>,
}

/// Why a path is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// There is no such axis.
    #[error("there is no axis `@{name}`; axes are {}", facet_names())]
    NoFacet {
        /// As written.
        name: String,
    },
    /// No document has this value.
    #[error("no document has `{value}` on the axis @{axis}")]
    NoValue {
        /// The axis.
        axis: &'static str,
        /// As written.
        value: String,
        /// Values that are like it, at most five.
        near: Vec<String>,
    },
    /// More than one value fits.
    #[error("`{value}` fits more than one value of @{axis}")]
    Ambiguous {
        /// The axis.
        axis: &'static str,
        /// As written.
        value: String,
        /// Values that fit, at most five.
        candidates: Vec<String>,
    },
    /// There is no such folder.
    #[error("there is no folder `{folder}`")]
    NoFolder {
        /// As written.
        folder: String,
    },
    /// More than any listing says.
    #[error("a path narrows by at most {MAX_FILTERS} axes")]
    TooLong,
}

fn facet_names() -> String {
    let names: Vec<String> = FacetField::ALL
        .into_iter()
        .map(|facet| format!("@{}", facet.as_str()))
        .collect();
    names.join(", ")
}

impl Scope {
    /// Reads `/`, `/10-K/2022`, `/@company/3M/@form/10-K`, `/@fiscal_year/2018..2020`, `/@filed/2023/02`. Values may be
    /// given in part: whole words from the start.
    ///
    /// # Errors
    /// [`ScopeError`] when an axis, a value or the folder is not there, or a value fits more than one.
    pub fn parse(path: &str, catalog: &Catalog) -> Result<Self, ScopeError> {
        let mut scope = Scope::default();
        let mut segments = path
            .split('/')
            .filter(|segment| !segment.is_empty() && *segment != ".")
            .peekable();
        let mut folder: Vec<String> = Vec::new();
        while let Some(segment) = segments.next() {
            scope.values_of = None;
            let Some(name) = segment.strip_prefix('@') else {
                folder.push(unescape(segment));
                continue;
            };
            let facet = FacetField::from_name(name)
                .ok_or_else(|| ScopeError::NoFacet { name: name.into() })?;
            if scope.filters.len() == MAX_FILTERS {
                return Err(ScopeError::TooLong);
            }
            let Some(value) = segments.next() else {
                scope.values_of = Some(facet);
                break;
            };
            let choice = match facet {
                FacetField::Filed => parse_day(
                    value,
                    segments.next_if(|next| value.len() == 4 && is_month(next)),
                ),
                _ => parse_range(value),
            };
            let choice = choice.map_or_else(
                || find_value(facet, &unescape(value), catalog).map(FacetSelector::Exact),
                Ok,
            )?;
            // Days of a month are listed as documents, months of a year and values of a range as folders.
            let is_narrow = matches!(&choice, FacetSelector::Exact(_))
                || matches!(&choice, FacetSelector::Range { from, to } if from == to && facet == FacetField::Filed && from.len() > 4);
            scope.values_of = Some(facet).filter(|_| !is_narrow);
            scope.filters.push((facet, choice));
        }
        scope.folder = folder.join("/");
        if !scope.folder.is_empty()
            && !catalog
                .documents()
                .iter()
                .any(|document: &CatalogDocument| {
                    path_below(&scope.folder, &document.version().path).is_some()
                })
        {
            return Err(ScopeError::NoFolder {
                folder: scope.folder,
            });
        }
        Ok(scope)
    }

    /// Whether a document lies in it.
    pub fn contains(&self, document: &CatalogDocument) -> bool {
        path_below(&self.folder, &document.version().path).is_some()
            && self
                .filters
                .iter()
                .all(|(facet, choice): &(FacetField, FacetSelector)| {
                    facet
                        .values(document)
                        .into_iter()
                        .any(|value| choice.matches(&normalize_value(*facet, value)))
                })
    }

    /// The values of an axis among the documents of this scope, with their numbers of documents, in order. The spelling
    /// is that of the first document.
    pub fn values(&self, facet: FacetField, catalog: &Catalog) -> Vec<(String, usize)> {
        let values = self.folded_values(facet, catalog);
        values
            .into_values()
            .map(|(value, documents)| (value.to_owned(), documents))
            .collect()
    }

    /// What [`Scope::values`] says, by folded value.
    pub(crate) fn folded_values<'a>(
        &self,
        facet: FacetField,
        catalog: &'a Catalog,
    ) -> BTreeMap<String, (&'a str, usize)> {
        let mut values: BTreeMap<String, (&str, usize)> = BTreeMap::new();
        let narrowed: Vec<&FacetSelector> = self
            .filters
            .iter()
            .filter(|(on, _)| *on == facet)
            .map(|(_, choice)| choice)
            .collect();
        for document in catalog
            .documents()
            .iter()
            .filter(|document| self.contains(document))
        {
            let mut document_values: Vec<String> = Vec::new();
            for value in facet.values(document) {
                let normalized = normalize_value(facet, value);
                // A document with several values is counted under each, once, and only under those that are meant.
                if !document_values.contains(&normalized)
                    && narrowed.iter().all(|choice| choice.matches(&normalized))
                {
                    values.entry(normalized.clone()).or_insert((value, 0)).1 += 1;
                    document_values.push(normalized);
                }
            }
        }
        values
    }

    /// The scope as a path, values as they are compared; `/` for everything.
    pub fn path(&self) -> String {
        let folder = self.folder.split('/').filter(|name| !name.is_empty());
        let mut path: String = folder
            .map(|name| format!("/{}", escape_segment(name)))
            .collect();
        path.extend(
            self.filters
                .iter()
                .map(|(facet, choice)| choice.path(*facet)),
        );
        if let Some(facet) = self
            .values_of
            .filter(|facet| self.filters.last().is_none_or(|(last, _)| last != facet))
        {
            path.push_str(&format!("/@{}", facet.as_str()));
        }
        if path.is_empty() { "/".into() } else { path }
    }
}

/// `a..c`; `None` where it is no range.
fn parse_range(segment: &str) -> Option<FacetSelector> {
    let (from, to) = segment.split_once("..")?;
    // Ends may stand in the middle of a word, so that legal forms are not looked for.
    Some(FacetSelector::Range {
        from: unescape(from).to_lowercase(),
        to: unescape(to).to_lowercase(),
    })
}

/// A year, a month or a day by which documents were filed.
fn parse_day(segment: &str, month: Option<&str>) -> Option<FacetSelector> {
    if let Some(range) = parse_range(segment) {
        return Some(range);
    }
    let is_day = matches!(segment.len(), 4 | 7 | 10)
        && segment.bytes().enumerate().all(|(at, byte)| {
            if matches!(at, 4 | 7) {
                byte == b'-'
            } else {
                byte.is_ascii_digit()
            }
        });
    is_day.then(|| {
        FacetSelector::with_prefix(
            month.map_or_else(|| segment.to_owned(), |month| format!("{segment}-{month}")),
        )
    })
}

/// Two digits, as a year has four.
fn is_month(segment: &str) -> bool {
    segment.len() == 2 && segment.bytes().all(|byte| byte.is_ascii_digit())
}

/// The path of an axis value: `/@form/10-Q%2FA`.
pub fn value_path(facet: FacetField, value: &str) -> String {
    // Two dots would be read as a range.
    format!(
        "/@{}/{}",
        facet.as_str(),
        escape_segment(value).replace("..", "%2E%2E")
    )
}

/// A name as a part of a path: what would be read as an axis, or as the folder itself or the one above, is escaped.
pub(crate) fn escape_segment(name: &str) -> String {
    match name {
        "." => "%2E".into(),
        ".." => "%2E%2E".into(),
        _ => match name.strip_prefix('@') {
            Some(rest) => format!("%40{}", escape(rest)),
            None => escape(name),
        },
    }
}

/// What of `path` lies below `folder`; `None` when it does not.
pub fn path_below<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    if folder.is_empty() {
        return Some(path);
    }
    path.strip_prefix(folder)?.strip_prefix('/')
}

/// Endings that say what kind of company one is, not which.
const LEGAL_FORMS: [&str; 16] = [
    "inc",
    "incorporated",
    "corp",
    "corporation",
    "co",
    "company",
    "ltd",
    "limited",
    "plc",
    "llc",
    "lp",
    "sa",
    "ag",
    "nv",
    "se",
    "the",
];

/// The value as it is compared: lower case; a company without punctuation and legal form (`3M COMPANY` is `3m`).
pub fn normalize_value(facet: FacetField, value: &str) -> String {
    if facet != FacetField::Company {
        return value.trim().to_lowercase();
    }
    let lower = value.to_lowercase().replace(['.', '\'', '’'], "");
    let mut words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric() && c != '&')
        .filter(|w| !w.is_empty())
        .collect();
    let all = words.clone();
    while words.last().is_some_and(|word| LEGAL_FORMS.contains(word)) {
        words.pop();
    }
    if words.first() == Some(&"the") {
        words.remove(0);
    }
    if words.is_empty() {
        all.join(" ")
    } else {
        words.join(" ")
    }
}

fn find_value(
    facet: FacetField,
    normalized: &str,
    catalog: &Catalog,
) -> Result<String, ScopeError> {
    let normalized_text = normalize_value(facet, normalized);
    let values = Scope::default().values(facet, catalog);
    if values
        .iter()
        .any(|(value, _)| normalize_value(facet, value) == normalized_text)
    {
        return Ok(normalized_text);
    }
    let starts = |value: &str| {
        normalize_value(facet, value)
            .strip_prefix(&normalized_text)
            .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    let mut candidates: Vec<String> = values
        .iter()
        .map(|(value, _)| value.clone())
        .filter(|value| starts(value))
        .collect();
    let axis_name = facet.as_str();
    let value = normalized.to_owned();
    match candidates.len() {
        1 if !normalized_text.is_empty() => Ok(normalize_value(facet, &candidates[0])),
        0 => {
            let near = values
                .into_iter()
                .map(|(value, _)| value)
                .filter(|value: &String| {
                    !normalized_text.is_empty()
                        && normalize_value(facet, value).contains(&normalized_text)
                })
                .take(5)
                .collect();
            Err(ScopeError::NoValue {
                axis: axis_name,
                value,
                near,
            })
        }
        _ => {
            candidates.truncate(5);
            Err(ScopeError::Ambiguous {
                axis: axis_name,
                value,
                candidates,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{entry, of_company};

    fn catalog() -> Catalog {
        Catalog::from_entries([
            of_company("10-K/a.pdf", "3M COMPANY"),
            of_company("10-K/b.pdf", "3M Co."),
            of_company("8-K/c.pdf", "American Express Company"),
            of_company("8-K/d.pdf", "American Water Works Company, Inc."),
            entry("e.md"),
        ])
    }

    fn documents_at(path: &str) -> Result<Vec<String>, ScopeError> {
        let catalog = catalog();
        let scope = Scope::parse(path, &catalog)?;
        let documents = catalog
            .documents()
            .iter()
            .filter(|document| scope.contains(document));
        Ok(documents
            .map(|document| document.version().path.clone())
            .collect())
    }

    #[test]
    fn company_spellings_share_one_value() {
        let values = Scope::default().values(FacetField::Company, &catalog());
        assert_eq!(values[0], ("3M COMPANY".to_owned(), 2));
        assert_eq!(
            documents_at("/@company/3m").unwrap(),
            ["10-K/a.pdf", "10-K/b.pdf"]
        );
        assert_eq!(
            documents_at("/@company/american express/@status/done").unwrap(),
            ["8-K/c.pdf"]
        );
        assert_eq!(documents_at("/10-K/@quality/verified").unwrap().len(), 2);
    }

    #[test]
    fn ambiguous_values_are_rejected() {
        assert!(
            matches!(documents_at("/@company/american"), Err(ScopeError::Ambiguous { candidates, .. }) if candidates.len() == 2)
        );
        assert!(
            matches!(documents_at("/@company/express"), Err(ScopeError::NoValue { near, .. }) if near.len() == 1)
        );
        assert!(matches!(
            documents_at("/@colour/red"),
            Err(ScopeError::NoFacet { .. })
        ));
        assert!(matches!(
            documents_at("/9-K"),
            Err(ScopeError::NoFolder { .. })
        ));
    }

    #[test]
    fn printed_values_parse_back() {
        let catalog = catalog();
        for facet in FacetField::ALL {
            for (value, documents) in Scope::default().values(facet, &catalog) {
                let scope = Scope::parse(&value_path(facet, &value), &catalog).unwrap();
                assert_eq!(
                    catalog
                        .documents()
                        .iter()
                        .filter(|listed| scope.contains(listed))
                        .count(),
                    documents
                );
            }
        }
    }
}
