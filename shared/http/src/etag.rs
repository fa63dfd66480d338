//! Entity tags: a client that sends the last one gets 304 while nothing has changed.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use stemma_archive::SearchResponse;
use stemma_document::Digest;

/// The tag of a search response. Its duration is not part of it.
pub(crate) fn search_tag(response: &SearchResponse) -> String {
    let mut timeless = response.clone();
    timeless.searched.took_us = 0;
    let json = serde_json::to_vec(&timeless).unwrap_or_default();
    format!("W/\"{}\"", Digest::from_content(&json))
}

/// Whether the client has the content of this tag.
pub(crate) fn is_current(headers: &HeaderMap, tag: &str) -> bool {
    let tags = headers.get_all(header::IF_NONE_MATCH).iter();
    tags.filter_map(|value| value.to_str().ok())
        .flat_map(|tags| tags.split(','))
        .any(|known| matches!(known.trim(), "*") || known.trim() == tag)
}

/// A response without content.
pub(crate) fn not_modified(tag: String) -> Response {
    (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response()
}
