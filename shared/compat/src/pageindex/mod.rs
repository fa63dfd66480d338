//! PageIndex Cloud API (`/doc/…`, `/docs/`, `/folders/`, `/retrieval/`, `/chat/completions/`), so that programs written for
//! its SDK work with a changed base URL.
//!
//! Routes, parameters and fields are PageIndex's; ids are Stemma's (names and paths work as well). Page images, manual
//! folders and schemas have no counterpart and are refused with a reason. Unknown parameters are ignored, as in PageIndex;
//! responses may have additional fields. Keys are sent as `api_key` or bearer token. The `Accept` header does not change
//! the format.

pub(super) mod chat;
pub(super) mod documents;
pub(super) mod folders;
mod nodes;
pub(super) mod retrieval;
pub(super) mod uploads;

use axum::extract::DefaultBodyLimit;
use axum::routing::{MethodRouter, get, post};
use stemma_catalog::catalog::CatalogDocument;
use stemma_gateway::problem::Problem;
use stemma_gateway::state::{AppState, Route};

use crate::conversation::MAX_BYTES;

/// All PageIndex routes, each with and without a trailing slash.
pub(super) fn routes() -> Vec<Route> {
    let conversations = DefaultBodyLimit::max(MAX_BYTES);
    let both = |paths: [&'static str; 2], method: MethodRouter<AppState>| {
        paths.map(|path| (path, method.clone()))
    };
    let routes = [
        both(["/doc", "/doc/"], post(uploads::submit)),
        both(
            ["/doc/{doc}", "/doc/{doc}/"],
            get(documents::document).delete(uploads::remove),
        ),
        both(
            ["/doc/{doc}/metadata", "/doc/{doc}/metadata/"],
            get(documents::metadata),
        ),
        both(
            ["/doc/{doc}/block/{block}", "/doc/{doc}/block/{block}/"],
            get(no_blocks),
        ),
        both(
            ["/doc/{doc}/image/{image}", "/doc/{doc}/image/{image}/"],
            get(no_images),
        ),
        both(
            ["/doc/s3/{doc}/images", "/doc/s3/{doc}/images/"],
            get(no_page_images),
        ),
        both(["/docs", "/docs/"], get(documents::list)),
        both(["/folders", "/folders/"], get(folders::list)),
        both(["/folder", "/folder/"], post(no_folders)),
        both(
            ["/chat/completions", "/chat/completions/"],
            post(chat::completions).layer(conversations),
        ),
        both(["/retrieval", "/retrieval/"], post(retrieval::submit)),
        both(
            ["/retrieval/{retrieval}", "/retrieval/{retrieval}/"],
            get(retrieval::result),
        ),
    ];
    routes.into_iter().flatten().collect()
}

/// The folder id of a document (its path); `None` at the root.
fn folder_of(listed: &CatalogDocument) -> Option<String> {
    listed
        .version()
        .path
        .rsplit_once('/')
        .map(|(folder, _)| format!("/{folder}"))
}

/// Blocks of a page
///
/// Not supported: 404 with the reason.
#[utoipa::path(get, path = "/doc/{doc}/block/{block}/", operation_id = "pageindex_block", tag = "pageindex",
    params(("doc" = String, Path), ("block" = String, Path)), responses())]
pub(super) async fn no_blocks() -> Problem {
    Problem::new(
        404,
        "pageindex.no_blocks",
        "pages are not cut into blocks here; citations carry rectangles instead",
    )
}

/// The image of a page
///
/// Not supported: 404 with the reason.
#[utoipa::path(get, path = "/doc/{doc}/image/{image}/", operation_id = "pageindex_image", tag = "pageindex",
    params(("doc" = String, Path), ("image" = String, Path)), responses())]
pub(super) async fn no_images() -> Problem {
    Problem::new(
        404,
        "pageindex.no_images",
        "the store holds the text of pages and where it stands, not their drawings",
    )
    .with_next("GET /v1/documents/{doc}/source has the file, where it lies in the store")
}

/// The images of pages
///
/// Not supported: 404 with the reason.
#[utoipa::path(get, path = "/doc/s3/{doc}/images/", operation_id = "pageindex_images", tag = "pageindex",
    params(("doc" = String, Path)), responses())]
pub(super) async fn no_page_images() -> Problem {
    no_images().await
}

/// Make a folder
///
/// Not supported: folders come from ingested paths. 403 with the reason.
#[utoipa::path(
    post,
    path = "/folder/",
    operation_id = "pageindex_make_folder",
    tag = "pageindex",
    responses()
)]
pub(super) async fn no_folders() -> Problem {
    Problem::new(
        403,
        "pageindex.no_folders",
        "folders are those that documents were ingested from, and are not made here",
    )
}
