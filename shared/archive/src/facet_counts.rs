//! Counts documents by their properties.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::facets::{FacetField, normalize_value, value_path};
use stemma_retrieval::index::entry::doc_key;
use stemma_retrieval::search::{MatchedDocuments, TotalHits};
use utoipa::ToSchema;

use crate::{ApiError, Archive, ListRequest};

// A search over many documents is narrowed by these.
const SEARCH_FACETS: [FacetField; 3] = [
    FacetField::Company,
    FacetField::Form,
    FacetField::FiscalYear,
];
// Longer lists are for `GET /v1/facets`.
const SEARCH_FACET_VALUES: usize = 10;

/// Facet counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FacetList {
    /// Number of counted documents.
    pub total: usize,
    pub facets: Vec<Facet>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Facet {
    /// `form`, `fiscal_year` …
    pub field: &'static str,
    /// Distinct values.
    pub distinct: usize,
    /// Documents without a value.
    pub without: usize,
    /// Values by descending document count.
    pub values: Vec<FacetValue>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FacetValue {
    /// Spelled as in the first document.
    pub value: String,
    pub documents: usize,
    /// Path in the file-system view that lists the documents.
    pub locator: String,
}

/// The documents with a hit among the candidates of a search (the best 400 passages, or more for later pages), by
/// property.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SearchFacets {
    /// Number of counted documents; `{"at_least": 120}` where the candidate limit was reached.
    pub total: TotalHits,
    /// `company`, `form` and `fiscal_year`, each with its most frequent values.
    pub facets: Vec<Facet>,
}

impl Archive {
    // The matching documents by company, form and fiscal year.
    pub(crate) fn count_search_facets(&self, matched: &MatchedDocuments) -> SearchFacets {
        let documents: Vec<&CatalogDocument> = self
            .catalog
            .documents()
            .iter()
            .filter(|listed| matched.keys.contains(&doc_key(listed.doc())))
            .collect();
        let total = documents.len();
        SearchFacets {
            total: if matched.is_limit_reached {
                TotalHits::AtLeast { at_least: total }
            } else {
                TotalHits::Exact(total)
            },
            facets: SEARCH_FACETS
                .iter()
                .map(|field| facet(*field, &documents, SEARCH_FACET_VALUES))
                .collect(),
        }
    }

    /// The most frequent values of `fields` among the listed documents, at most `limit` of each.
    ///
    /// # Errors
    /// As [`Archive::list`].
    pub fn count_facets(
        &self,
        request: &ListRequest,
        fields: &[FacetField],
        limit: usize,
    ) -> Result<FacetList, ApiError> {
        let documents = self.select(request)?;
        Ok(FacetList {
            total: documents.len(),
            facets: fields
                .iter()
                .map(|field| facet(*field, &documents, limit))
                .collect(),
        })
    }
}

fn facet(field: FacetField, documents: &[&CatalogDocument], limit: usize) -> Facet {
    let mut counted = BTreeMap::<String, (&str, usize)>::new();
    let mut without = 0;
    for listed in documents {
        let values = field.values(listed);
        without += usize::from(values.is_empty());
        for value in values {
            counted
                .entry(normalize_value(field, value))
                .or_insert((value, 0))
                .1 += 1;
        }
    }
    let distinct = counted.len();
    let mut values: Vec<(&str, usize)> = counted.into_values().collect();
    values.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    Facet {
        field: field.as_str(),
        distinct,
        without,
        values: values
            .into_iter()
            .take(limit)
            .map(|(value, documents)| FacetValue {
                value: value.into(),
                documents,
                locator: value_path(field, value),
            })
            .collect(),
    }
}
