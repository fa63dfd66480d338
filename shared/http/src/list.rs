//! Document lists and facet counts.

use std::collections::BTreeMap;
use std::fmt;

use axum::extract::State;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use stemma_archive::{DocumentList, FacetList, ListRequest};
use stemma_catalog::document_order::DocumentOrder;
use stemma_catalog::facets::FacetField;
use stemma_gateway::AppState;
use stemma_gateway::extract::{HandlerResult, QueryParams, json, page_limit};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::{IntoParams, PartialSchema};

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
    /// `path` (the default), `company`, `form`, `fiscal_year`, `pages`, `doubt`, `status` or `published`; behind `-` it
    /// descends. Documents without a value come last
    #[param(value_type = Option<String>, pattern = "^-?(path|company|form|fiscal_year|pages|doubt|status|published)$")]
    sort: Option<String>,
    #[param(ignore)]
    #[serde(flatten)]
    list: ListRequest,
    #[param(ignore)]
    #[serde(flatten)]
    facets: FacetFilters,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct FacetsQuery {
    /// properties, with commas between: company, form, fiscal_year, fiscal_period, period, filed, ticker, cik, accession, language, status, quality
    #[param(required, value_type = String, pattern = "^(company|form|fiscal_year|fiscal_period|period|filed|ticker|cik|accession|language|status|quality)(,(company|form|fiscal_year|fiscal_period|period|filed|ticker|cik|accession|language|status|quality))*$")]
    #[serde(default)]
    fields: String,
    collection: Option<String>,
    /// values per property, defaults to 50
    #[param(value_type = Option<u32>, minimum = 1, maximum = 500)]
    limit: Option<usize>,
    #[param(ignore)]
    #[serde(flatten)]
    list: ListRequest,
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

/// List documents
///
/// Ordered by `sort`, then path. Parameters named like a property filter the list.
#[utoipa::path(get, path = "/v1/documents", tag = "documents", params(DocumentsQuery, ListRequest, FacetFilters),
    responses((status = 200, body = DocumentList)))]
pub(crate) async fn documents(
    State(state): State<AppState>,
    scope: CollectionScope,
    QueryParams(query): QueryParams<DocumentsQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let limit = page_limit(query.limit)?;
    let order = query.sort.map_or(Ok(DocumentOrder::default()), |sort| {
        let order = sort.parse::<DocumentOrder>();
        order.map_err(|error| Problem::parameter(400, "sort", error.to_string()))
    });
    let request = ListRequest {
        facets: query.facets.0,
        order: order?,
        ..query.list
    };
    json(archive.list_documents(&request, limit, query.cursor.as_deref())?).await
}

/// Count documents by their properties
///
/// Accepts the filters of the document list.
#[utoipa::path(get, path = "/v1/facets", tag = "documents", params(FacetsQuery, ListRequest, FacetFilters),
    responses((status = 200, body = FacetList)))]
pub(crate) async fn facets(
    State(state): State<AppState>,
    scope: CollectionScope,
    QueryParams(query): QueryParams<FacetsQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let limit = page_limit(query.limit)?;
    let fields: Option<Vec<FacetField>> = query
        .fields
        .split(',')
        .map(|field| FacetField::from_name(field.trim()))
        .collect();
    let Some(mut fields) = fields else {
        let all = FacetField::ALL.map(FacetField::as_str).join(", ");
        return Err(
            Problem::parameter(400, "fields", format!("fields must be some of {all}")).into(),
        );
    };
    fields.sort_unstable();
    fields.dedup();
    let request = ListRequest {
        facets: query.facets.0,
        ..query.list
    };
    json(archive.count_facets(&request, &fields, limit)?).await
}
