//! The file-system view over HTTP.

use axum::extract::Request;
use serde::Serialize;
use utoipa::ToSchema;

use stemma_archive::{FileListing, FilesOptions};
use stemma_gateway::cursor;
use stemma_gateway::extract::{ArchiveRequest, HandlerResult, json};
use stemma_gateway::problem::Problem;

/// Levels of one listing.
const MAX_DEPTH: usize = 32;

/// A part of a listing.
#[derive(Serialize, ToSchema)]
pub(super) struct FileListingPage {
    #[serde(flatten)]
    files: FileListing,
    /// Asks for the next rows; `null` at the end.
    next_cursor: Option<String>,
}

/// The file-system view
///
/// Folders as ingested, axes that combine (`/@company/3M/@form/10-K`), and what lies in a document: sections, Items,
/// pages. Whatever a listing prints as `path` can follow `/v1/fs`.
#[utoipa::path(get, path = "/v1/fs/{path}", tag = "files",
    params(
        ("path" = String, Path, description = "as printed, percent-encoded or not; empty for the root"),
        ("collection" = Option<String>, Query),
        ("depth" = Option<u32>, Query, minimum = 1, maximum = 32, description = "levels, 1 without"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "rows of the answer, 50 without"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the answer before"),
    ),
    responses((status = 200, body = FileListingPage)))]
pub(super) async fn files(mut archive_request: ArchiveRequest, request: Request) -> HandlerResult {
    let limit = archive_request.limit()?;
    let cursor = archive_request.parameters.text("cursor");
    let depth = archive_request.parameters.number("depth")?.unwrap_or(1);
    archive_request.parameters.reject_unknown()?;
    if !(1..=MAX_DEPTH).contains(&depth) {
        return Err(
            Problem::parameter(400, "depth", format!("depth is from 1 to {MAX_DEPTH}")).into(),
        );
    }
    // As printed, escapes are part of a path: what stands in the URL is tried first, and what it decodes to after it.
    let raw = request
        .uri()
        .path()
        .strip_prefix("/v1/fs")
        .unwrap_or_default()
        .to_owned();
    let decoded = match archive_request.segment("path") {
        "" => "/".to_owned(),
        path => format!("/{path}"),
    };
    let path = match archive_request.archive.catalog().resolve_path(&raw) {
        Ok(_) => raw,
        Err(_) => decoded,
    };
    let under = format!("{path}\n{depth}");
    let after = cursor
        .map(|text| cursor::decode(&text, &under))
        .transpose()?;
    let options = FilesOptions {
        depth,
        after,
        skip: 0,
        limit,
    };
    let files = archive_request.archive.files(&path, &options).await?;
    let next_cursor = files
        .entries
        .last()
        .filter(|_| files.more)
        .map(|last| cursor::encode(&under, &last.path));
    json(FileListingPage { files, next_cursor }).await
}
