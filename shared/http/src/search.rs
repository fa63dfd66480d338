//! Search over sections and documents.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::Value;
use stemma_answers::RetrievalStrategy;
use stemma_archive::{BrowseRequest, BrowseResponse, SearchRequest, SearchResponse};
use stemma_gateway::AppState;
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::extract::{HandlerResult, Json, QueryParams, json};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use utoipa::IntoParams;

use crate::etag;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchParams {
    /// a question or keywords, with operators: `"a phrase"`, `a OR b`, `-word`, `title:word`, `company:3M`, `year:2022`
    q: String,
    /// defaults to the server's first collection
    collection: Option<String>,
    /// documents, one Item (`3M_2022_10K#item-7A`), folders or axis paths, with commas between
    documents: Option<String>,
    /// conditions on documents: `(form=10-K or form=10-Q) and fiscal_year>=2020`
    #[serde(rename = "where")]
    filter: Option<String>,
    /// limits the search to an Item: 1A, II.1A
    item: Option<String>,
    /// hits per page, defaults to 10
    #[param(value_type = Option<u32>, minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// hits to skip
    #[param(value_type = Option<u32>, maximum = 10000)]
    #[serde(default)]
    skip: usize,
    /// `next_cursor` of the previous page, instead of `skip`
    cursor: Option<String>,
    /// include score components
    #[serde(default)]
    explain: bool,
}

impl SearchParams {
    fn into_request(self) -> Result<SearchRequest, Problem> {
        if self.cursor.is_some() && self.skip > 0 {
            let detail = "a cursor already says where the page starts";
            return Err(Problem::parameter(400, "skip", detail));
        }
        let scopes = self.documents.iter().flat_map(|names| names.split(','));
        let scopes = scopes.map(|name| name.trim().to_owned());
        Ok(SearchRequest {
            query: self.q,
            collection: self.collection,
            scopes: scopes.collect(),
            filter: self.filter.map(Value::String),
            item: self.item,
            limit: self.limit,
            skip: self.skip,
            cursor: self.cursor,
            explain: self.explain,
            // Links, images and prefetching send `GET` without asking anyone, so it must not cost anything.
            free_only: true,
            ..SearchRequest::default()
        })
    }
}

/// Search sections
///
/// Ranked sections with the pages and terms that match. A model is called only by strategies that need one; `reasoning` then
/// reports the steps, the cost and any degradation.
#[utoipa::path(post, path = "/v1/search", tag = "search", request_body = SearchRequest,
    responses((status = 200, body = SearchResponse)))]
pub(crate) async fn search(
    State(state): State<AppState>,
    permit: RequestPermit,
    scope: CollectionScope,
    Json(mut request): Json<SearchRequest>,
) -> HandlerResult {
    if let RetrievalStrategy::TreeSearch(_) = request.retrieval_strategy()? {
        // The permit is held until the response. A disconnect cancels the search; paid model replies stay cached.
        permit.upgrade_for_model().await?;
    }
    request.free_only = !permit.may_ask();
    let archive = state.archive(&scope, request.collection.as_deref())?;
    json(archive.search(&request).await?).await
}

/// Search sections, by URL
///
/// The same search without a model, and without paid calls. `ETag` changes with the results.
#[utoipa::path(get, path = "/v1/search", tag = "search",
    params(SearchParams,
        ("If-None-Match" = Option<String>, Header, description = "an ETag: 304 if the results have not changed")),
    responses((status = 200, body = SearchResponse, headers(("ETag" = String))),
        (status = 304, description = "the results have not changed")))]
pub(crate) async fn search_by_url(
    State(state): State<AppState>,
    scope: CollectionScope,
    QueryParams(params): QueryParams<SearchParams>,
    headers: HeaderMap,
) -> HandlerResult {
    let request = params.into_request()?;
    let archive = state.archive(&scope, request.collection.as_deref())?;
    let response = archive.search(&request).await?;
    let tag = etag::search_tag(&response);
    if etag::is_current(&headers, &tag) {
        return Ok(etag::not_modified(tag));
    }
    Ok(([(header::ETAG, tag)], json(response).await?).into_response())
}

/// Rank documents
///
/// Ranked documents of a folder, each with its best section.
#[utoipa::path(post, path = "/v1/browse", tag = "search", request_body = BrowseRequest,
    responses((status = 200, body = BrowseResponse)))]
pub(crate) async fn browse(
    State(state): State<AppState>,
    permit: RequestPermit,
    scope: CollectionScope,
    Json(mut request): Json<BrowseRequest>,
) -> HandlerResult {
    request.free_only = !permit.may_ask();
    let archive = state.archive(&scope, request.collection.as_deref())?;
    json(archive.browse(&request).await?).await
}
