//! Search over sections and documents.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::request::Parts;
use stemma_answers::RetrievalStrategy;
use stemma_archive::{BrowseRequest, BrowseResponse, SearchRequest, SearchResponse};
use stemma_gateway::AppState;
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::auth::CollectionScope;
use stemma_gateway::body::parse_body;
use stemma_gateway::extract::{HandlerResult, json};

/// Search sections
///
/// Ranked sections with the pages and terms that match. A model is called only by strategies that need one; `reasoning` then
/// reports the steps, the cost and any degradation.
#[utoipa::path(post, path = "/v1/search", tag = "search", request_body = SearchRequest,
    responses((status = 200, body = SearchResponse)))]
pub(crate) async fn search(
    site: axum::extract::State<AppState>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> HandlerResult {
    let mut request: SearchRequest = parse_body(&parts, body)?;
    let permit = RequestPermit::from_parts(&parts)?;
    if let RetrievalStrategy::TreeSearch(_) = request.retrieval_strategy()? {
        // The permit is held until the response. A disconnect cancels the search; paid model replies stay cached.
        permit.upgrade_for_model().await?;
    }
    request.free_only = !permit.may_ask();
    let scope = CollectionScope::from_parts(&parts);
    let archive = site.archive(scope, request.collection.as_deref())?;
    json(archive.search(&request).await?).await
}

/// Rank documents
///
/// Ranked documents of a folder, each with its best section.
#[utoipa::path(post, path = "/v1/browse", tag = "search", request_body = BrowseRequest,
    responses((status = 200, body = BrowseResponse)))]
pub(crate) async fn browse(
    site: axum::extract::State<AppState>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> HandlerResult {
    let mut request: BrowseRequest = parse_body(&parts, body)?;
    request.free_only = !RequestPermit::from_parts(&parts)?.may_ask();
    let scope = CollectionScope::from_parts(&parts);
    let archive = site.archive(scope, request.collection.as_deref())?;
    json(archive.browse(&request).await?).await
}
