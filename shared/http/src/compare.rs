//! Document comparison.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::request::Parts;
use stemma_archive::{CompareRequest, Comparison};
use stemma_gateway::AppState;
use stemma_gateway::admission::RequestPermit;
use stemma_gateway::auth::CollectionScope;
use stemma_gateway::body::parse_body;
use stemma_gateway::extract::{HandlerResult, json};

/// Compare two documents
///
/// Aligns the sections of two documents, in the order of the second: unchanged, modified, added or removed, and whether
/// renamed or moved, with the share of changed words per Item. No model is called.
#[utoipa::path(post, path = "/v1/comparisons", tag = "search", request_body = CompareRequest,
    responses((status = 200, body = Comparison)))]
pub(crate) async fn compare(
    site: axum::extract::State<AppState>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> HandlerResult {
    let request: CompareRequest = parse_body(&parts, body)?;
    RequestPermit::from_parts(&parts)?.upgrade_to_long().await?; // reads the text of two documents
    let scope = CollectionScope::from_parts(&parts);
    let archive = site.archive(scope, request.collection.as_deref())?;
    json(archive.compare(&request).await?).await
}
