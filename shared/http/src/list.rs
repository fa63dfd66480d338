//! Document lists and facet counts.

use std::collections::BTreeMap;
use std::fmt;

use axum::extract::State;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use stemma_archive::{ApiError, Archive, DocumentInfo, cursor};
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::facets::{FacetField, normalize_value, value_path};
use stemma_catalog::filter::Filter;
use stemma_document::DocId;
use stemma_gateway::AppState;
use stemma_gateway::extract::{HandlerResult, QueryParams, json, page_limit};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::{IntoParams, PartialSchema, ToSchema};

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DocumentsQuery {
    /// defaults to the server's first collection
    collection: Option<String>,
    /// items per page, defaults to 50
    #[param(value_type = Option<u32>, minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// `next_cursor` of the previous page
    cursor: Option<String>,
    /// a folder, an axis path or a document
    scope: Option<String>,
    /// typed filter: `form=10-K and fiscal_year>=2020`, or JSON
    #[serde(rename = "where")]
    filter: Option<String>,
    /// words of name, path, issuer, form or description
    q: Option<String>,
    #[param(ignore)]
    #[serde(flatten)]
    facets: FacetFilters,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct FacetsQuery {
    /// properties, with commas between: company, form, fiscal_year, fiscal_period, period, filed, ticker, cik, language, status, quality
    #[param(required, value_type = String, pattern = "^(company|form|fiscal_year|fiscal_period|period|filed|ticker|cik|language|status|quality)(,(company|form|fiscal_year|fiscal_period|period|filed|ticker|cik|language|status|quality))*$")]
    #[serde(default)]
    fields: String,
    collection: Option<String>,
    /// values per property, defaults to 50
    #[param(value_type = Option<u32>, minimum = 1, maximum = 500)]
    limit: Option<usize>,
    scope: Option<String>,
    #[serde(rename = "where")]
    filter: Option<String>,
    q: Option<String>,
    #[param(ignore)]
    #[serde(flatten)]
    facets: FacetFilters,
}

// Parameters named like a facet. They are the rest of a query, so any other name is an unknown parameter.
pub(crate) struct FacetFilters(BTreeMap<FacetField, String>);

impl<'de> Deserialize<'de> for FacetFilters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FacetFiltersVisitor)
    }
}

struct FacetFiltersVisitor;

impl<'de> Visitor<'de> for FacetFiltersVisitor {
    type Value = FacetFilters;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("parameters named like a facet")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FacetFilters, A::Error> {
        let mut filters = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, String>()? {
            let facet = FacetField::ALL
                .into_iter()
                .find(|facet| facet.as_str() == name);
            let facet =
                facet.ok_or_else(|| A::Error::custom(format!("unknown parameter `{name}`")))?;
            if filters.insert(facet, value).is_some() {
                return Err(A::Error::duplicate_field(facet.as_str()));
            }
        }
        Ok(FacetFilters(filters))
    }
}

impl IntoParams for FacetFilters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        FacetField::ALL
            .map(|facet| {
                ParameterBuilder::new()
                    .name(facet.as_str())
                    .parameter_in(ParameterIn::Query)
                    .required(Required::False)
                    .schema(Some(String::schema()))
                    .build()
            })
            .into()
    }
}

// The filters, which also bind the cursor.
struct DocumentSelection {
    scope: String,
    filter: Filter,
    // Lower case.
    words: Vec<String>,
    cursor_key: String,
}

/// A page of documents.
#[derive(Serialize, ToSchema)]
pub(crate) struct DocumentList {
    items: Vec<DocumentInfo>,
    /// Cursor of the next page; `null` on the last.
    next_cursor: Option<String>,
    /// Number of documents on all pages.
    total: usize,
}

/// Facet counts.
#[derive(Serialize, ToSchema)]
pub(crate) struct FacetList {
    /// Number of counted documents.
    total: usize,
    facets: Vec<Facet>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Facet {
    /// `form`, `fiscal_year` …
    field: &'static str,
    /// Distinct values.
    distinct: usize,
    /// Documents without a value.
    without: usize,
    /// Values by descending document count.
    values: Vec<FacetValue>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct FacetValue {
    /// Spelled as in the first document.
    value: String,
    documents: usize,
    /// Path in the file-system view that lists the documents.
    locator: String,
}

/// List documents
///
/// Ordered by path, then id. Parameters named like a property filter the list.
#[utoipa::path(get, path = "/v1/documents", tag = "documents", params(DocumentsQuery, FacetFilters),
    responses((status = 200, body = DocumentList)))]
pub(crate) async fn documents(
    State(state): State<AppState>,
    scope: CollectionScope,
    QueryParams(query): QueryParams<DocumentsQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let limit = page_limit(query.limit)?;
    let selection = DocumentSelection::new(query.scope, query.facets, query.filter, query.q)?;
    let after = query
        .cursor
        .map(|text| cursor::decode(&text, &selection.cursor_key))
        .transpose()?;
    let after = after
        .map(|place| cursor_position(&place).ok_or_else(cursor::invalid))
        .transpose()?;
    let selected = selection.documents(&archive)?;
    let mut rest = selected.iter().filter(|listed: &&&CatalogDocument| {
        after.as_ref().is_none_or(|(doc, path)| {
            (listed.version().path.as_str(), listed.doc()) > (path.as_str(), *doc)
        })
    });
    let page: Vec<&CatalogDocument> = rest.by_ref().take(limit).copied().collect();
    let last = page.last().filter(|_| rest.next().is_some());
    let next_cursor = last.map(|last| {
        let position = format!("{}\n{}", last.doc(), last.version().path);
        cursor::encode(&selection.cursor_key, &position)
    });
    let items = page.into_iter().map(DocumentInfo::from_catalog).collect();
    json(DocumentList {
        items,
        next_cursor,
        total: selected.len(),
    })
    .await
}

/// Count documents by their properties
///
/// Accepts the filters of the document list.
#[utoipa::path(get, path = "/v1/facets", tag = "documents", params(FacetsQuery, FacetFilters),
    responses((status = 200, body = FacetList)))]
pub(crate) async fn facets(
    State(state): State<AppState>,
    scope: CollectionScope,
    QueryParams(query): QueryParams<FacetsQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let limit = page_limit(query.limit)?;
    let selection = DocumentSelection::new(query.scope, query.facets, query.filter, query.q)?;
    let axes: Option<Vec<FacetField>> = query
        .fields
        .split(',')
        .map(|field| FacetField::from_name(field.trim()))
        .collect();
    let Some(mut axes) = axes else {
        let all = FacetField::ALL.map(FacetField::as_str).join(", ");
        return Err(
            Problem::parameter(400, "fields", format!("fields must be some of {all}")).into(),
        );
    };
    axes.sort_unstable();
    axes.dedup();
    let documents = selection.documents(&archive)?;
    let facets = axes
        .into_iter()
        .map(|axis| facet(axis, &documents, limit))
        .collect();
    json(FacetList {
        total: documents.len(),
        facets,
    })
    .await
}

fn facet(axis: FacetField, documents: &[&CatalogDocument], limit: usize) -> Facet {
    let mut counted = BTreeMap::<String, (&str, usize)>::new();
    let mut without = 0;
    for listed in documents {
        let values = axis.values(listed);
        without += usize::from(values.is_empty());
        for value in values {
            counted
                .entry(normalize_value(axis, value))
                .or_insert((value, 0))
                .1 += 1;
        }
    }
    let distinct = counted.len();
    let mut values: Vec<(&str, usize)> = counted.into_values().collect();
    values.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    Facet {
        field: axis.as_str(),
        distinct,
        without,
        values: values
            .into_iter()
            .take(limit)
            .map(|(value, documents): (&str, usize)| FacetValue {
                value: value.into(),
                documents,
                locator: value_path(axis, value),
            })
            .collect(),
    }
}

impl DocumentSelection {
    fn new(
        scope: Option<String>,
        facets: FacetFilters,
        typed: Option<String>,
        words: Option<String>,
    ) -> Result<Self, Problem> {
        let mut scope = scope.unwrap_or_default();
        for (facet, value) in facets.0 {
            let folder = scope.trim_end_matches('/');
            scope = format!("{folder}{}", value_path(facet, &value));
        }
        let typed = typed.unwrap_or_default();
        let filter = Filter::parse(&typed).map_err(ApiError::from)?;
        let words = words.unwrap_or_default();
        let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
        let cursor_key = format!("{scope}\n{typed}\n{}", words.join(" "));
        Ok(Self {
            scope,
            filter,
            words,
            cursor_key,
        })
    }

    fn documents<'a>(&self, archive: &'a Archive) -> Result<Vec<&'a CatalogDocument>, ApiError> {
        let selected = match archive.documents_in_scope(&self.scope) {
            Err(error) if error.is_not_found() && self.scope.contains("/@") => Vec::new(), // no document has that value
            selected => selected?,
        };
        Ok(selected
            .into_iter()
            .filter(|listed: &&CatalogDocument| {
                self.filter.matches(listed) && self.matches_words(listed)
            })
            .collect())
    }

    // All words must occur in the name, path, issuer, form or description.
    fn matches_words(&self, listed: &CatalogDocument) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let description = listed
            .entry()
            .and_then(|entry| entry.description.as_deref());
        let facts = [FacetField::Company, FacetField::Form, FacetField::Ticker]
            .into_iter()
            .flat_map(|axis| axis.values(listed));
        let texts = [listed.version().path.as_str()]
            .into_iter()
            .chain(description)
            .chain(facts);
        let text = texts.collect::<Vec<_>>().join("\n").to_lowercase();
        self.words.iter().all(|word| text.contains(word.as_str()))
    }
}

fn cursor_position(place: &str) -> Option<(DocId, String)> {
    let (doc, path) = place.split_once('\n')?;
    Some((doc.parse().ok()?, path.to_owned()))
}
