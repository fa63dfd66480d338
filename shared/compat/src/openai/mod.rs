//! OpenAI-compatible API: `/v1/chat/completions`, `/v1/models`.
//!
//! A model is a collection, or a part of one: `default`, `default/10-K/2022`, `default/@company/3M`,
//! `default/3M_2022_10K`. Questions are answered from its documents, with citations in `annotations` as `url_citation` and
//! in full under `stemma`. Sampling parameters are ignored: the operator configures the model. The id of a completion is
//! the id of the stored answer.

pub(super) mod chat;
pub(super) mod models;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::HeaderMap;
use serde::Serialize;
use stemma_archive::Archive;
use stemma_gateway::AppState;
use stemma_gateway::access_control::MAX_CONVERSATION_BYTES;
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use utoipa::ToSchema;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use crate::conversation;
use crate::render::{CitationMark, NOT_VERIFIED};

pub(super) fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::default()
        .routes(routes!(models::list))
        .routes(routes!(models::one))
        .routes(routes!(chat::completions).layer(DefaultBodyLimit::max(MAX_CONVERSATION_BYTES)))
}

// A model is a visible collection, optionally with a scope; any other name is a scope in the first collection.
fn resolve_model(
    state: &AppState,
    collections: &CollectionScope,
    model: &str,
) -> Result<(Arc<Archive>, Vec<String>), Problem> {
    let (first, rest) = model.split_once('/').unwrap_or((model, ""));
    let is_collection = state
        .visible_collections(collections)
        .into_iter()
        .any(|collection| collection.as_str() == first);
    let (collection, scope) = if is_collection {
        (Some(first), rest)
    } else {
        (None, model)
    };
    let archive = state.archive(collections, collection)?;
    let scope = scope.trim_matches('/');
    if scope.is_empty() {
        return Ok((archive, Vec::new()));
    }
    // Folders and axes are paths of the file-system view; documents can also be named.
    let paths = [format!("/{scope}"), scope.to_owned()];
    let scope_path = (paths.into_iter()).find(|path| archive.documents_in_scope(path).is_ok());
    let scope_path = scope_path.ok_or_else(|| {
        let name: String = model.chars().take(80).collect();
        let detail = format!("the model `{name}` does not exist");
        Problem::new(404, "model_not_found", detail).with_next("GET /v1/models")
    })?;
    Ok((archive, vec![scope_path]))
}

// The title repeats the verification status, because clients may list sources without the text.
fn annotation(headers: &HeaderMap, mark: &CitationMark<'_>) -> UrlCitation {
    let citation = mark.citation;
    let doubt = if mark.verified { "" } else { NOT_VERIFIED };
    let page = citation.page.map(|page| page.to_string());
    let page = citation.page_label.clone().or(page);
    let place = page.map(|page| format!(", p {page}")).unwrap_or_default();
    UrlCitation {
        start_index: mark.start,
        end_index: mark.end,
        title: format!("{}{place}{doubt}", citation.name),
        url: conversation::address(headers, &citation.url),
    }
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct UrlCitation {
    /// First character of the mark, 0-based.
    start_index: usize,
    /// End of the mark, exclusive.
    end_index: usize,
    /// Document name and page; ` (not verified)` if its claim is not.
    title: String,
    /// URL of the page on this server.
    url: String,
}
