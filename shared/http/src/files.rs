//! File-system view.

use axum::extract::State;
use axum::http::Uri;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use stemma_archive::{FileListing, FilesOptions, cursor};
use stemma_document::MAX_LEVELS;
use stemma_gateway::AppState;
use stemma_gateway::extract::{HandlerResult, QueryParams, json, page_limit};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use utoipa::{IntoParams, ToSchema};

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FilesQuery {
    collection: Option<String>,
    /// levels, defaults to 1
    #[param(value_type = Option<u32>, minimum = 1, maximum = 32)]
    depth: Option<usize>,
    /// rows per page, defaults to 50
    #[param(value_type = Option<u32>, minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// `next_cursor` of the previous page
    cursor: Option<String>,
}

/// A page of a file listing.
#[derive(Serialize, ToSchema)]
pub(crate) struct FileListingPage {
    #[serde(flatten)]
    files: FileListing,
    /// Cursor of the next page; `null` on the last.
    next_cursor: Option<String>,
}

/// The file-system view
///
/// Folders as ingested, combinable axes (`/@company/3M/@form/10-K`), and the contents of documents: sections, Items, pages.
/// Any `path` of a listing can follow `/v1/fs`.
#[utoipa::path(get, path = "/v1/fs/{*path}", tag = "files",
    params(("path" = String, Path, description = "as printed, percent-encoded or not; empty for the root"), FilesQuery),
    responses((status = 200, body = FileListingPage)))]
pub(crate) async fn files(
    State(state): State<AppState>,
    scope: CollectionScope,
    QueryParams(query): QueryParams<FilesQuery>,
    uri: Uri,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let limit = page_limit(query.limit)?;
    let depth = query.depth.unwrap_or(1);
    if !(1..=MAX_LEVELS).contains(&depth) {
        let detail = format!("depth must be from 1 to {MAX_LEVELS}");
        return Err(Problem::parameter(400, "depth", detail).into());
    }
    // Listed paths contain percent escapes, so the raw URL path is tried first, then the decoded one.
    let raw = uri.path().strip_prefix("/v1/fs").unwrap_or_default();
    let decoded = percent_decode_str(raw).decode_utf8().map_err(|_| {
        let detail = "the path of the URL is not percent-encoded UTF-8";
        Problem::parameter(400, "path", detail)
    })?;
    let path = match archive.catalog().resolve_path(raw) {
        Ok(_) => raw,
        Err(_) if decoded.is_empty() => "/",
        Err(_) => decoded.as_ref(),
    };
    let under = format!("{path}\n{depth}");
    let after = query
        .cursor
        .map(|text| cursor::decode(&text, &under))
        .transpose()?;
    let options = FilesOptions {
        depth,
        after,
        skip: 0,
        limit,
    };
    let files = archive.files(path, &options).await?;
    let next_cursor = files
        .entries
        .last()
        .filter(|_| files.more)
        .map(|last| cursor::encode(&under, &last.path));
    json(FileListingPage { files, next_cursor }).await
}
