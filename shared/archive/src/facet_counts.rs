//! Counts documents by their properties.

use serde::Serialize;
use stemma_catalog::catalog::DocumentSet;
use stemma_catalog::facets::{FacetCounts, FacetSelector, ValueCount, value_path};
use stemma_catalog::property::Property;
use stemma_retrieval::search::{MatchedDocuments, TotalHits};
use stemma_store::PortResult;
use utoipa::ToSchema;

use crate::{ApiError, Archive};

// A search over many documents is narrowed by these.
const SEARCH_FACETS: [Property; 3] = [Property::Company, Property::Form, Property::FiscalYear];
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
    /// As most documents spell it.
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
    pub(crate) fn count_search_facets(
        &self,
        matched: &MatchedDocuments,
    ) -> PortResult<SearchFacets> {
        let documents = self.catalog.set_of_keys(&matched.keys)?;
        let total = documents.len();
        let facets = SEARCH_FACETS
            .iter()
            .map(|field| self.facet(*field, &documents, SEARCH_FACET_VALUES));
        Ok(SearchFacets {
            total: if matched.is_limit_reached {
                TotalHits::AtLeast { at_least: total }
            } else {
                TotalHits::Exact(total)
            },
            facets: facets.collect::<PortResult<_>>()?,
        })
    }

    /// The most frequent values of `fields` among documents that [`Archive::select`] found, at most `limit` of each.
    pub fn count_selected(
        &self,
        documents: &DocumentSet,
        fields: &[Property],
        limit: usize,
    ) -> Result<FacetList, ApiError> {
        let facets = fields
            .iter()
            .map(|field| self.facet(*field, documents, limit));
        Ok(FacetList {
            total: documents.len(),
            facets: facets.collect::<PortResult<_>>()?,
        })
    }

    /// The values of `column` among the documents that have each of some values of `row`, in order of the values.
    pub fn cross_count(
        &self,
        documents: &DocumentSet,
        (row, values): (Property, &[&str]),
        column: Property,
    ) -> Result<Vec<Vec<ValueCount>>, ApiError> {
        let mut rows = Vec::new();
        for value in values {
            let selector = FacetSelector::Exact(row.canonical(value));
            rows.push(self.catalog.with_value(row, &selector)?.and(documents));
        }
        let rows: Vec<&DocumentSet> = rows.iter().collect();
        Ok(self.catalog.values_by_set(&rows, column)?)
    }

    fn facet(&self, field: Property, documents: &DocumentSet, limit: usize) -> PortResult<Facet> {
        let FacetCounts {
            mut values,
            without,
        } = self.catalog.facet_counts(documents, field)?;
        let distinct = values.len();
        values.sort_by(|a, b| b.documents.cmp(&a.documents).then(a.value.cmp(&b.value)));
        values.truncate(limit);
        let values = values.into_iter().map(|count| FacetValue {
            locator: value_path(field, &count.value),
            value: count.value,
            documents: count.documents,
        });
        Ok(Facet {
            field: field.facet_name(),
            distinct,
            without,
            values: values.collect(),
        })
    }
}
