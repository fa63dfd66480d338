//! The routes of `/v1`, and what handlers answer from.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::routing::{MethodRouter, get, post};
use axum::{Router, middleware};
use stemma_answers::Answerer;
use stemma_retrieval::Finder;

use stemma_document::Collection;
use stemma_engine::Env;

use super::Means;
use super::archive::Archive;
use super::gate::{self, Gate};
use super::keys::Reach;
use super::problem::Problem;
use super::{
    answers, comparing, documents, files, listing, openai, openapi, pageindex, searching, source,
    texts,
};
use crate::Reader;
use crate::mcp::McpService;

/// What handlers answer from.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) env: Env,
    pub(super) archive: Arc<Archive>,
    pub(super) means: Means,
}

/// A path, and what answers there by its methods.
pub(super) type Route = (&'static str, MethodRouter<Site>);

/// All routes but `/mcp`. Each is described in `/openapi.json`: a test compares them.
pub(super) fn all() -> Vec<Route> {
    let own = vec![
        ("/openapi.json", get(openapi::document)),
        ("/v1/documents", get(listing::documents)),
        ("/v1/facets", get(listing::facets)),
        ("/v1/documents/{doc}", get(documents::document)),
        ("/v1/documents/{doc}/tree", get(documents::tree)),
        ("/v1/documents/{doc}/items", get(documents::items)),
        ("/v1/documents/{doc}/items/{item}", get(texts::item)),
        ("/v1/documents/{doc}/sections/{id}", get(texts::section)),
        ("/v1/documents/{doc}/pages", get(texts::pages)),
        ("/v1/documents/{doc}/source", get(source::source)),
        ("/v1/search", post(searching::search)),
        ("/v1/browse", post(searching::browse)),
        ("/v1/comparisons", post(comparing::compare)),
        ("/v1/answers", post(answers::ask)),
        ("/v1/answers/{id}", get(answers::stored)),
        ("/v1/fs", get(files::files)),
        ("/v1/fs/", get(files::files)),
        ("/v1/fs/{*path}", get(files::files)),
    ];
    [own, openai::routes(), pageindex::routes()].concat()
}

/// All routes, behind the gate.
pub(super) fn router(site: Site, gate: Arc<Gate>, mcp: McpService) -> Router {
    let max_body_bytes = gate.max_body_bytes;
    let routes = all()
        .into_iter()
        .fold(Router::new(), |router, (path, method)| {
            router.route(path, method)
        });
    routes
        .route_service("/mcp", mcp)
        .fallback(|| async {
            Problem::new(404, "route.unknown", "there is no such route").next("GET /openapi.json")
        })
        .method_not_allowed_fallback(|| async {
            Problem::new(405, "route.method", "this route does not take that method")
        })
        .layer(DefaultBodyLimit::max(max_body_bytes))
        .layer(middleware::from_fn_with_state(gate, gate::pass))
        .with_state(site)
}

impl Site {
    /// The collection a request means, as far as its key reaches.
    pub(super) fn reader(
        &self,
        reach: &Reach,
        collection: Option<&str>,
    ) -> Result<Arc<Reader>, Problem> {
        let all = self.archive.collections();
        let meant = match collection {
            None => all.iter().find(|collection| reach.holds(collection)),
            Some(name) => all
                .iter()
                .find(|collection| collection.as_str() == name && reach.holds(collection)),
        };
        let Some(meant) = meant else {
            let detail = "this key reads no such collection";
            return Err(Problem::new(
                if *reach == Reach::All { 404 } else { 403 },
                "collection.unknown",
                detail,
            ));
        };
        self.archive.reader(meant).ok_or_else(|| {
            Problem::new(503, "catalogue.loading", "the catalogue is being read").next("ask again")
        })
    }

    /// Who answers questions in words over the collection of a reader.
    pub(super) fn answerer(&self, reader: &Arc<Reader>) -> Result<Arc<dyn Answerer>, Problem> {
        self.means
            .answering
            .as_ref()
            .map(|answering| answering.over(reader))
            .ok_or_else(|| {
            let detail =
                "this server only searches: it was started without what answers questions in words";
            Problem::new(501, "answer.not_here", detail).next("POST /v1/search")
        })
    }

    /// The collections a key reaches.
    pub(super) fn collections(&self, reach: &Reach) -> Vec<&Collection> {
        self.archive
            .collections()
            .iter()
            .filter(|collection| reach.holds(collection))
            .collect()
    }

    /// What answers questions over the collection of a reader.
    pub(super) fn finder<'a>(&self, reader: &'a Reader) -> &'a dyn Finder {
        reader
    }
}
