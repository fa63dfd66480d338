//! Tagged facts of a document, and series over documents.

use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use stemma_archive::{FactList, FactsRequest, SeriesRequest, SeriesResponse};
use stemma_gateway::AppState;
use stemma_gateway::extract::{
    HandlerResult, MaybeReady, Path, QueryParams, json, page_limit, published_document,
};
use stemma_gateway::rights::CollectionScope;
use utoipa::IntoParams;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FactsQuery {
    collection: Option<String>,
    /// name of a concept, with or without its prefix; or words of its label, else of the row that displays it
    concept: Option<String>,
    /// `2024` (ends in), `2024-12-31` (ends on) or `2024-01-01/2024-12-31`
    period: Option<String>,
    /// also facts of segments and other dimensions
    #[param(value_type = Option<bool>, required = false)]
    #[serde(default)]
    dimensions: bool,
    /// facts per page, defaults to 50
    #[param(value_type = Option<u32>, minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// `next_cursor` of the previous page
    cursor: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SeriesQuery {
    collection: Option<String>,
    /// a folder, an axis path or a document
    scope: Option<String>,
    /// a concept, or several with commas between; each period shows the first that has a value
    #[param(required, value_type = String)]
    #[serde(default)]
    concept: String,
    /// typed filter: `form=10-K and fiscal_year>=2020`, or JSON
    #[serde(rename = "where")]
    filter: Option<String>,
    /// defaults to annual
    #[param(pattern = "^(annual|quarterly|all)$")]
    frequency: Option<String>,
}

/// The tagged facts of a filing
///
/// Figures and texts of inline XBRL, with concept, period, unit, exact value, sign and table cell; empty for other documents.
#[utoipa::path(get, path = "/v1/documents/{doc}/facts", tag = "documents",
    params(("doc" = String, Path), FactsQuery),
    responses((status = 200, body = MaybeReady<FactList>)))]
pub(crate) async fn facts(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path(doc): Path<String>,
    QueryParams(query): QueryParams<FactsQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let request = FactsRequest {
        document: published_document(&archive, &doc)?.label.clone(),
        concept: query.concept,
        period: query.period,
        dimensions: query.dimensions,
        limit: page_limit(query.limit)?,
        cursor: query.cursor,
    };
    json(MaybeReady::Yes(archive.facts(&request).await?)).await
}

/// Compare a figure over periods and companies
///
/// Values of the whole company from the tagged facts of filings, with the filing that reports each, and restatements.
#[utoipa::path(get, path = "/v1/series", tag = "documents", params(SeriesQuery),
    responses((status = 200, body = SeriesResponse)))]
pub(crate) async fn series(
    State(state): State<AppState>,
    scope: CollectionScope,
    QueryParams(query): QueryParams<SeriesQuery>,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let request = SeriesRequest {
        scope: query.scope.unwrap_or_default(),
        concept: query.concept,
        filter: query.filter.map(Value::String),
        frequency: query.frequency,
    };
    json(archive.series(&request).await?).await
}
