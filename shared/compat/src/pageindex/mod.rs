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
use serde::{Deserialize, Deserializer};
use stemma_catalog::catalog::CatalogDocument;
use stemma_gateway::AppState;
use stemma_gateway::access_control::MAX_CONVERSATION_BYTES;
use stemma_gateway::problem::Problem;
use utoipa::IntoParams;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

/// All PageIndex routes, each with and without a trailing slash.
pub(super) fn router(max_upload_bytes: usize) -> OpenApiRouter<AppState> {
    let upload_limit = DefaultBodyLimit::max(max_upload_bytes.saturating_add(uploads::FORM_BYTES));
    let routes: [UtoipaMethodRouter<AppState>; 12] = [
        routes!(uploads::submit).layer(upload_limit),
        routes!(documents::document, uploads::remove),
        routes!(documents::metadata),
        routes!(no_blocks),
        routes!(no_images),
        routes!(no_page_images),
        routes!(documents::list),
        routes!(folders::list),
        routes!(no_folders),
        routes!(chat::completions).layer(DefaultBodyLimit::max(MAX_CONVERSATION_BYTES)),
        routes!(retrieval::submit),
        routes!(retrieval::result),
    ];
    routes
        .into_iter()
        .fold(OpenApiRouter::default(), |router, routes| {
            let (_, paths, methods) = &routes;
            let router = paths.paths.keys().fold(router, |router, path| {
                router.route(path.trim_end_matches('/'), methods.clone())
            });
            router.routes(routes)
        })
}

/// The only parameter of most routes. Others are ignored.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LenientQuery {
    collection: Option<String>,
}

// Python's `True` and JSON's `true`.
fn lenient_bool<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(serde::de::Error::custom("must be true or false")),
    }
}

/// The folder id of a document (its path); `None` at the root.
fn folder_of(listed: &CatalogDocument) -> Option<String> {
    let (folder, _) = listed.version().path.rsplit_once('/')?;
    Some(format!("/{folder}"))
}

/// Blocks of a page
///
/// Not supported: 404 with the reason.
#[utoipa::path(get, path = "/doc/{doc}/block/{block}/", operation_id = "pageindex_block", tag = "pageindex",
    params(("doc" = String, Path), ("block" = String, Path)), responses())]
pub(super) async fn no_blocks() -> Problem {
    let detail = "pages have no blocks; citations have rectangles instead";
    Problem::new(404, "pageindex.no_blocks", detail)
}

/// The image of a page
///
/// Not supported: 404 with the reason.
#[utoipa::path(get, path = "/doc/{doc}/image/{image}/", operation_id = "pageindex_image", tag = "pageindex",
    params(("doc" = String, Path), ("image" = String, Path)), responses())]
pub(super) async fn no_images() -> Problem {
    let detail = "images of pages have another route";
    Problem::new(404, "pageindex.no_images", detail)
        .with_next("GET /v1/documents/{doc}/pages/{n}/image draws a page")
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
    let detail = "folders come from the paths of ingested documents and cannot be created";
    Problem::new(403, "pageindex.no_folders", detail)
}
