//! Pages for people: the archive in a browser, without anything to install.
//!
//! A handler parses its request, makes a few calls to the [`Archive`](stemma_archive::Archive), and renders HTML on the server
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
mod document_page;
mod document_parts;
mod download;
mod layout;
mod login;
mod page_view;
mod problem_page;
mod search_page;
mod section_list;
mod security;
mod text;
mod word_changes;

use axum::Router;
use axum::middleware;
use axum::routing::get;
use stemma_gateway::AppState;
use stemma_gateway::pages::WebPages;

/// The routes of the pages.
pub fn router(state: AppState) -> Router<AppState> {
    Router::new()
        .route("/", get(archive_page::archive))
        .route("/documents/{doc}", get(document_page::document))
        .route("/documents/{doc}/text.md", get(download::markdown))
        .route("/documents/{doc}/facts.csv", get(download::facts_csv))
        .route("/documents/{doc}/tables/{table}", get(download::table_csv))
        .route("/search", get(search_page::search))
        .route("/ask", get(ask_page::form).post(ask_page::ask))
        .route("/answers/{id}", get(ask_page::answer))
        .route("/compare", get(compare_page::compare))
        .route("/login", get(login::form).post(login::sign_in))
        .route("/logout", axum::routing::post(login::sign_out))
        .layer(middleware::from_fn_with_state(state, security::protect))
        .route("/assets/{digest}/{name}", get(assets::asset))
}

/// What access control has to know of the pages.
pub fn web_pages() -> WebPages {
    WebPages {
        is_page: |path| matches!(path, "/ask" | "/login" | "/logout"),
        is_public: |path| matches!(path, "/login" | "/logout") || path.starts_with("/assets/"),
        problem_page: problem_page::problem_page,
    }
}
