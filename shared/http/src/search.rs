//! Search over sections and documents.

use axum::extract::State;
use stemma_answers::RetrievalStrategy;
use stemma_archive::{BrowseRequest, BrowseResponse, SearchRequest, SearchResponse};
use stemma_gateway::AppState;
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::extract::{HandlerResult, Json, json};
use stemma_gateway::rights::CollectionScope;

/// Search sections
///
/// Ranked sections with the pages and terms that match. A model is called only by strategies that need one; `reasoning` then
/// reports the steps, the cost and any degradation.
#[utoipa::path(post, path = "/v1/search", tag = "search", request_body = SearchRequest,
    responses((status = 200, body = SearchResponse)))]
pub(crate) async fn search(
    State(site): State<AppState>,
    permit: RequestPermit,
    scope: CollectionScope,
    Json(mut request): Json<SearchRequest>,
) -> HandlerResult {
    if let RetrievalStrategy::TreeSearch(_) = request.retrieval_strategy()? {
        // The permit is held until the response. A disconnect cancels the search; paid model replies stay cached.
        permit.upgrade_for_model().await?;
    }
    request.free_only = !permit.may_ask();
    let archive = site.archive(&scope, request.collection.as_deref())?;
    json(archive.search(&request).await?).await
}

/// Rank documents
///
/// Ranked documents of a folder, each with its best section.
#[utoipa::path(post, path = "/v1/browse", tag = "search", request_body = BrowseRequest,
    responses((status = 200, body = BrowseResponse)))]
pub(crate) async fn browse(
    State(site): State<AppState>,
    permit: RequestPermit,
    scope: CollectionScope,
    Json(mut request): Json<BrowseRequest>,
) -> HandlerResult {
    request.free_only = !permit.may_ask();
    let archive = site.archive(&scope, request.collection.as_deref())?;
    json(archive.browse(&request).await?).await
}
