//! The routes of `/v1`.

use axum::routing::{get, post};
use stemma_gateway::Route;

use crate::{answers, compare, documents, files, list, search, source, text};

/// All routes of the REST surface. Each is described in `/openapi.json`: a test compares them.
pub fn routes() -> Vec<Route> {
    vec![
        ("/v1/documents", get(list::documents)),
        ("/v1/facets", get(list::facets)),
        ("/v1/documents/{doc}", get(documents::document)),
        ("/v1/documents/{doc}/tree", get(documents::tree)),
        ("/v1/documents/{doc}/items", get(documents::items)),
        ("/v1/documents/{doc}/items/{item}", get(text::item)),
        ("/v1/documents/{doc}/sections/{id}", get(text::section)),
        ("/v1/documents/{doc}/pages", get(text::pages)),
        ("/v1/documents/{doc}/source", get(source::source)),
        ("/v1/search", post(search::search)),
        ("/v1/browse", post(search::browse)),
        ("/v1/comparisons", post(compare::compare)),
        ("/v1/answers", post(answers::ask)),
        ("/v1/answers/{id}", get(answers::stored)),
        ("/v1/fs", get(files::files)),
        ("/v1/fs/", get(files::files)),
        ("/v1/fs/{*path}", get(files::files)),
    ]
}
