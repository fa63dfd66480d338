//! File-system view.

use axum::extract::Request;
use serde::Serialize;
use stemma_archive::{FileListing, FilesOptions, cursor};
use stemma_gateway::extract::{ArchiveRequest, HandlerResult, json};
use stemma_gateway::problem::Problem;
use utoipa::ToSchema;

const MAX_DEPTH: usize = 32;

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
#[utoipa::path(get, path = "/v1/fs/{path}", tag = "files",
    params(
        ("path" = String, Path, description = "as printed, percent-encoded or not; empty for the root"),
        ("collection" = Option<String>, Query),
        ("depth" = Option<u32>, Query, minimum = 1, maximum = 32, description = "levels, defaults to 1"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "rows per page, defaults to 50"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page"),
    ),
    responses((status = 200, body = FileListingPage)))]
pub(crate) async fn files(mut archive_request: ArchiveRequest, request: Request) -> HandlerResult {
    let limit = archive_request.limit()?;
    let cursor = archive_request.parameters.text("cursor");
    let depth = archive_request.parameters.number("depth")?.unwrap_or(1);
    archive_request.parameters.reject_unknown()?;
    if !(1..=MAX_DEPTH).contains(&depth) {
        return Err(
            Problem::parameter(400, "depth", format!("depth is from 1 to {MAX_DEPTH}")).into(),
        );
    }
    // Listed paths contain percent escapes, so the raw URL path is tried first, then the decoded one.
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
