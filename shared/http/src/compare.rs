//! Document comparison.

use axum::extract::State;
use stemma_archive::{CompareRequest, Comparison};
use stemma_gateway::AppState;
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::extract::{HandlerResult, Json, json};
use stemma_gateway::rights::CollectionScope;

/// Compare two documents
///
/// Aligns the sections of two documents, in the order of the second: unchanged, modified, added or removed, and whether
/// renamed or moved, with the share of changed words per Item. No model is called.
#[utoipa::path(post, path = "/v1/comparisons", tag = "search", request_body = CompareRequest,
    responses((status = 200, body = Comparison)))]
pub(crate) async fn compare(
    State(state): State<AppState>,
    permit: RequestPermit,
    scope: CollectionScope,
    Json(request): Json<CompareRequest>,
) -> HandlerResult {
    permit.upgrade_to_long().await?; // reads the text of two documents
    let archive = state.archive(&scope, request.collection.as_deref())?;
    json(archive.compare(&request).await?).await
}
