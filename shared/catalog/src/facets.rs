//! Facets: virtual folders by document property (`/@form/10-K`), next to the ingested folders.

use stemma_store::{PortError, PortResult};

use crate::catalog::{Catalog, CatalogDocument};
use crate::display_names::{escape, unescape};
pub use crate::facet_buckets::FacetBucket;
use crate::property::Property;

// Each facet filter is checked per document; real paths have two or three.
const MAX_FILTERS: usize = 16;

/// Selects values of a facet. All texts are normalized by [`Property::canonical`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FacetSelector {
    Exact(String),
    /// From `from` to `to`, both inclusive, and all values with the prefix `to`: the days of a year are `2022..2022`.
    Range {
        from: String,
        to: String,
    },
}

impl FacetSelector {
    /// Whether a normalized value is selected.
    pub fn matches(&self, normalized: &str) -> bool {
        match self {
            FacetSelector::Exact(value) => value == normalized,
            FacetSelector::Range { from, to } => {
                from.as_str() <= normalized
                    && (normalized <= to.as_str() || normalized.starts_with(to.as_str()))
            }
        }
    }

    /// Selects all values with a prefix.
    pub fn with_prefix(with: impl Into<String>) -> Self {
        let from = with.into();
        FacetSelector::Range {
            to: from.clone(),
            from,
        }
    }

    /// The path segments of this selector: `/@form/10-K`, `/@fiscal_year/2018..2020`.
    pub fn path(&self, facet: Property) -> String {
        match self {
            // Months are listed as folders inside their year.
            FacetSelector::Range { from, to }
                if from == to && facet == Property::Filed && from.len() == 7 =>
            {
                format!("/@filed/{}", from.replace('-', "/"))
            }
            FacetSelector::Range { from, to } if from == to && facet == Property::Filed => {
                format!("/@filed/{}", escape_range_end(from))
            }
            FacetSelector::Range { from, to } => {
                format!(
                    "/@{}/{}..{}",
                    facet.facet_name(),
                    escape_range_end(from),
                    escape_range_end(to)
                )
            }
            FacetSelector::Exact(value) => value_path(facet, value),
        }
    }
}

// A dot at the end of a value would run into the `..` of the range.
fn escape_range_end(text: &str) -> String {
    escape_segment(text).replace('.', "%2E")
}

/// A value of a facet, and how many documents have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueCount {
    /// By [`Property::canonical`].
    pub normalized: String,
    /// As most documents spell it.
    pub value: String,
    pub documents: usize,
}

/// The values of a facet among some documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FacetCounts {
    /// In order of their normalized form.
    pub values: Vec<ValueCount>,
    /// Number of documents without a value.
    pub without: usize,
}

/// A folder of the file-system view, filtered by facets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Ingested folder without leading or trailing slash; empty for all.
    pub folder: String,
    /// All must match.
    pub filters: Vec<(Property, FacetSelector)>,
    /// Set if the path ends in a facet without a value (`/@company`) or with many (`/@company/a..c`, `/@filed/2023`), so
    /// that its values are listed.
    pub values_of: Option<Property>,
}

/// Why a path is not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    #[error("there is no facet `@{name}`; facets are {}", facet_names())]
    NoFacet { name: String },
    #[error("no document has `{value}` in @{axis}")]
    NoValue {
        axis: &'static str,
        value: String,
        /// Similar values, at most five.
        near: Vec<String>,
    },
    #[error("`{value}` fits more than one value of @{axis}")]
    Ambiguous {
        axis: &'static str,
        value: String,
        /// Matching values, at most five.
        candidates: Vec<String>,
    },
    #[error("there is no folder `{folder}`")]
    NoFolder { folder: String },
    #[error("a path has at most {MAX_FILTERS} facets")]
    TooLong,
    /// The catalog cannot be read.
    #[error(transparent)]
    Port(#[from] PortError),
}

fn facet_names() -> String {
    let names: Vec<String> = Property::facets()
        .map(|facet| format!("@{}", facet.facet_name()))
        .collect();
    names.join(", ")
}

impl Scope {
    /// Parses `/`, `/10-K/2022`, `/@company/3M/@form/10-K`, `/@fiscal_year/2018..2020` or `/@filed/2023/02`. A value may be
    /// shortened to its first whole words.
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
            let facet = Property::from_facet_name(name)
                .ok_or_else(|| ScopeError::NoFacet { name: name.into() })?;
            if scope.filters.len() == MAX_FILTERS {
                return Err(ScopeError::TooLong);
            }
            let Some(value) = segments.next() else {
                scope.values_of = Some(facet);
                break;
            };
            let choice = match facet {
                Property::Filed => parse_day(
                    value,
                    segments.next_if(|next| value.len() == 4 && is_month(next)),
                ),
                _ => parse_range(value),
            };
            let choice = choice.map_or_else(
                || find_value(facet, &unescape(value), catalog).map(FacetSelector::Exact),
                Ok,
            )?;
            // A month lists its documents; a year lists its months, and a range its values.
            let is_narrow = matches!(&choice, FacetSelector::Exact(_))
                || matches!(&choice, FacetSelector::Range { from, to } if from == to && facet == Property::Filed && from.len() > 4);
            scope.values_of = Some(facet).filter(|_| !is_narrow);
            scope.filters.push((facet, choice));
        }
        scope.folder = folder.join("/");
        if !scope.folder.is_empty() && !catalog.has_folder(&scope.folder)? {
            return Err(ScopeError::NoFolder {
                folder: scope.folder,
            });
        }
        Ok(scope)
    }

    pub fn contains(&self, document: &CatalogDocument) -> bool {
        path_below(&self.folder, &document.version().path).is_some()
            && self
                .filters
                .iter()
                .all(|(facet, choice): &(Property, FacetSelector)| {
                    facet
                        .values(document)
                        .into_iter()
                        .any(|value| choice.matches(&facet.canonical(value)))
                })
    }

    /// The values of a facet in this scope, in order of their normalized form.
    pub fn values(&self, facet: Property, catalog: &Catalog) -> PortResult<Vec<ValueCount>> {
        let mut values = catalog
            .facet_counts(&catalog.in_scope(self)?, facet)?
            .values;
        let narrowed = self.filters.iter().filter(|(on, _)| *on == facet);
        values.retain(|value| {
            narrowed
                .clone()
                .all(|(_, choice)| choice.matches(&value.normalized))
        });
        Ok(values)
    }

    /// How many values of a facet the documents in this scope have.
    pub fn value_count(&self, facet: Property, catalog: &Catalog) -> PortResult<usize> {
        // A selected range narrows the values.
        if self.filters.iter().any(|(on, _)| *on == facet) {
            return Ok(self.values(facet, catalog)?.len());
        }
        catalog.value_count(&catalog.in_scope(self)?, facet)
    }

    /// A folder directly in this one, with the same filters.
    #[must_use]
    pub fn subfolder(&self, name: &str) -> Self {
        let folder = match self.folder.as_str() {
            "" => name.to_owned(),
            above => format!("{above}/{name}"),
        };
        Self {
            folder,
            filters: self.filters.clone(),
            values_of: None,
        }
    }

    /// This scope without the values that are selected of a facet.
    #[must_use]
    pub fn without(&self, facet: Property) -> Self {
        let mut scope = self.clone();
        scope.filters.retain(|(on, _)| *on != facet);
        scope.values_of = None;
        scope
    }

    /// The scope as a path with normalized values; `/` for all documents.
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
            path.push_str(&format!("/@{}", facet.facet_name()));
        }
        if path.is_empty() { "/".into() } else { path }
    }
}

// `a..c`; `None` if it is not a range.
fn parse_range(segment: &str) -> Option<FacetSelector> {
    let (from, to) = segment.split_once("..")?;
    // The end may be cut within a word, so it cannot be normalized like a whole company name.
    Some(FacetSelector::Range {
        from: unescape(from).to_lowercase(),
        to: unescape(to).to_lowercase(),
    })
}

// A year, month or day, or a range of them.
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

// A month has two digits, a year four.
fn is_month(segment: &str) -> bool {
    segment.len() == 2 && segment.bytes().all(|byte| byte.is_ascii_digit())
}

/// The path of a facet value: `/@form/10-Q%2FA`.
pub fn value_path(facet: Property, value: &str) -> String {
    // Unescaped, `..` would parse as a range.
    format!(
        "/@{}/{}",
        facet.facet_name(),
        escape_segment(value).replace("..", "%2E%2E")
    )
}

// Escapes `.` and `..`, and a leading `@`, which would parse as a facet.
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

/// `path` relative to `folder`; `None` if it is not below it.
pub fn path_below<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    if folder.is_empty() {
        return Some(path);
    }
    path.strip_prefix(folder)?.strip_prefix('/')
}

fn find_value(facet: Property, normalized: &str, catalog: &Catalog) -> Result<String, ScopeError> {
    // An exact match wins; otherwise the value may be a prefix of whole words, if it fits one value only.
    let normalized_text = facet.canonical(normalized);
    let exact = FacetSelector::Exact(normalized_text.clone());
    if !catalog.with_value(facet, &exact)?.is_empty() {
        return Ok(normalized_text);
    }
    let values = Scope::default().values(facet, catalog)?;
    let mut candidates: Vec<String> = values
        .iter()
        .filter(|value| starts_with_words(&value.normalized, &normalized_text))
        .map(|value| value.value.clone())
        .collect();
    let axis_name = facet.facet_name();
    let value = normalized.to_owned();
    match candidates.len() {
        1 if !normalized_text.is_empty() => Ok(facet.canonical(&candidates[0])),
        0 => {
            let near = values
                .into_iter()
                .filter(|value| {
                    !normalized_text.is_empty() && value.normalized.contains(&normalized_text)
                })
                .map(|value| value.value)
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

fn starts_with_words(value: &str, prefix: &str) -> bool {
    value
        .strip_prefix(prefix)
        .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{company_entry, entry};

    fn catalog() -> Catalog {
        Catalog::from_entries([
            company_entry("10-K/a.pdf", "3M COMPANY"),
            company_entry("10-K/b.pdf", "3M Co."),
            company_entry("8-K/c.pdf", "American Express Company"),
            company_entry("8-K/d.pdf", "American Water Works Company, Inc."),
            entry("e.md"),
        ])
    }

    fn documents_at(path: &str) -> Result<Vec<String>, ScopeError> {
        let catalog = catalog();
        let scope = Scope::parse(path, &catalog)?;
        let inside = catalog.in_scope(&scope)?;
        let documents = catalog.list(&inside);
        Ok(documents
            .map(|document| document.unwrap().version().path.clone())
            .collect())
    }

    #[test]
    fn company_spellings_share_one_value() {
        let values = Scope::default()
            .values(Property::Company, &catalog())
            .unwrap();
        let spelled = ValueCount {
            normalized: "3m".into(),
            value: "3M COMPANY".into(),
            documents: 2,
        };
        assert_eq!(values[0], spelled);
        assert_eq!(
            documents_at("/@company/3m").unwrap(),
            ["10-K/a.pdf", "10-K/b.pdf"]
        );
        assert_eq!(
            documents_at("/@company/american express/@status/done").unwrap(),
            ["8-K/c.pdf"]
        );
        assert_eq!(documents_at("/10-K/@quality/good").unwrap().len(), 2);
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
        for facet in Property::facets() {
            for value in Scope::default().values(facet, &catalog).unwrap() {
                let scope = Scope::parse(&value_path(facet, &value.value), &catalog).unwrap();
                assert_eq!(catalog.in_scope(&scope).unwrap().len(), value.documents);
            }
        }
    }
}
