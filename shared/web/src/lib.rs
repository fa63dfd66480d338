//! Pages for people: the archive in a browser, without anything to install.
//!
//! A handler parses its request, makes a few calls to the [`Archive`](stemma_archive::Archive) or to
//! [`Operations`](stemma_operations::Operations), and renders HTML on the server
//! with the request types that the REST surface uses. The state of a page is in its address, so that it can be
//! shared. Everything can be read without a script.
//!
//! All text of documents passes through the module `text`. This crate reads no blobs itself, and no page loads anything from
//! another server.

mod answer_view;
mod archive_page;
mod ask_page;
mod assets;
mod compare_page;
mod context;
mod conversation_page;
mod description_page;
mod document_page;
mod document_parts;
mod download;
mod drawn_page;
mod health_page;
mod job_page;
mod jobs_page;
mod layout;
mod live;
mod login;
mod page_view;
mod problem_page;
mod reading_layer;
mod search_page;
mod section_list;
mod security;
mod text;
mod text_layer;
mod upload_page;
mod word_changes;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{get, post};
use stemma_gateway::AppState;
use stemma_gateway::pages::WebPages;

// Token, names and boundaries in addition to the file of an upload.
const FORM_BYTES: usize = 64 << 10;

/// The routes of the pages.
pub fn router(state: AppState) -> Router<AppState> {
    let uploads = state.deps.uploads.as_ref();
    let max_upload_bytes = uploads.map_or(0, |uploads| uploads.max_bytes());
    let max_upload_bytes = usize::try_from(max_upload_bytes).unwrap_or(usize::MAX);
    let upload_limit = DefaultBodyLimit::max(max_upload_bytes.saturating_add(FORM_BYTES));
    Router::new()
        .route("/", get(archive_page::archive))
        .route("/documents/{doc}", get(document_page::document))
        .route("/documents/{doc}/text.md", get(download::markdown))
        .route("/documents/{doc}/facts.csv", get(download::facts_csv))
        .route("/documents/{doc}/tables/{table}", get(download::table_csv))
        .route(
            "/documents/{doc}/pages/{number}/image",
            get(drawn_page::image),
        )
        .route(
            "/documents/{doc}/pages/{number}/description",
            post(description_page::describe),
        )
        .route("/search", get(search_page::search))
        .route("/ask", get(ask_page::form).post(ask_page::ask))
        .route("/answers/{id}", get(ask_page::answer))
        .route("/conversations", get(conversation_page::conversations))
        .route("/conversations/{id}", get(conversation_page::conversation))
        .route(
            "/conversations/{id}/delete",
            post(conversation_page::delete),
        )
        .route("/compare", get(compare_page::compare))
        .route("/jobs", get(jobs_page::jobs))
        .route("/jobs/{job}", get(job_page::job))
        .route("/jobs/{job}/control", post(job_page::control))
        .route("/jobs/{job}/retry", post(job_page::retry))
        .route("/health", get(health_page::health))
        .route("/health/replay", post(health_page::replay))
        .route(
            "/upload",
            get(upload_page::form)
                .post(upload_page::upload)
                .layer(upload_limit),
        )
        .route("/login", get(login::form).post(login::sign_in))
        .route("/logout", post(login::sign_out))
        .layer(middleware::from_fn_with_state(state, security::protect))
        .route("/assets/{digest}/{name}", get(assets::asset))
}

/// What access control has to know of the pages.
pub fn web_pages() -> WebPages {
    WebPages {
        is_page: |path| {
            matches!(path, "/ask" | "/login" | "/logout" | "/upload")
                || path.starts_with("/jobs/")
                || path.starts_with("/conversations/")
                || path == "/health/replay"
                || (path.starts_with("/documents/") && path.ends_with("/description"))
        },
        is_public: |path| matches!(path, "/login" | "/logout") || path.starts_with("/assets/"),
        problem_page: problem_page::problem_page,
    }
}
