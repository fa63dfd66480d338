//! The REST surface: `/v1`, described by `/openapi.json`.
//!
//! A handler parses its request, makes one call to the [`Archive`](stemma_archive::Archive) or to
//! [`Operations`](stemma_operations::Operations), and renders the response.

mod answers;
mod compare;
mod conversations;
mod documents;
mod etag;
mod facts;
mod files;
mod health;
mod jobs;
mod list;
mod openapi;
mod page;
mod search;
mod source;
mod text;

pub use openapi::add_common_parts;

use axum::routing::get;
use stemma_gateway::AppState;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The REST routes with their OpenAPI.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(openapi::Api::openapi())
        .routes(routes!(list::documents))
        .routes(routes!(list::facets))
        .routes(routes!(documents::document))
        .routes(routes!(documents::tree))
        .routes(routes!(documents::items))
        .routes(routes!(facts::facts))
        .routes(routes!(facts::series))
        .routes(routes!(documents::tables))
        .routes(routes!(documents::table))
        .routes(routes!(text::item))
        .routes(routes!(text::section))
        .routes(routes!(text::pages))
        .routes(routes!(page::image))
        .routes(routes!(page::words))
        .routes(routes!(page::description))
        .routes(routes!(source::source))
        .routes(routes!(search::search, search::search_by_url))
        .routes(routes!(search::browse))
        .routes(routes!(compare::compare))
        .routes(routes!(answers::ask))
        .routes(routes!(answers::stored))
        .routes(routes!(conversations::list))
        .routes(routes!(conversations::conversation, conversations::delete))
        .routes(routes!(jobs::jobs))
        .routes(routes!(jobs::job))
        .routes(routes!(jobs::why))
        .routes(routes!(jobs::failures))
        .routes(routes!(jobs::control))
        .routes(routes!(jobs::retry))
        .routes(routes!(jobs::attempts))
        .routes(routes!(health::health))
        .routes(routes!(health::replay))
        .routes(routes!(files::files))
        // The root of the file-system view: the wildcard of `files` matches no empty path.
        .route("/v1/fs", get(files::files))
        .route("/v1/fs/", get(files::files))
}
