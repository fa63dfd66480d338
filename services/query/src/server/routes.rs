//! The routes of `/v1`, and what handlers answer from.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::routing::{MethodRouter, get, post};
use axum::{Router, middleware};
use stemma_answers::Answerer;
use stemma_retrieval::SearchService;

use stemma_document::Collection;
use stemma_engine::Env;

use super::ServerDeps;
use super::access_control::{self, AccessControl};
use super::auth::CollectionScope;
use super::collections::Collections;
use super::problem::Problem;
use super::{
    answers, compare, documents, files, list, openai, openapi, pageindex, search, source, text,
};
use crate::Archive;
use crate::mcp::McpService;

/// What handlers answer from.
#[derive(Clone)]
pub(super) struct AppState {
    pub(super) env: Env,
    pub(super) collections: Arc<Collections>,
    pub(super) deps: ServerDeps,
}

/// A path, and what answers there by its methods.
pub(super) type Route = (&'static str, MethodRouter<AppState>);

/// All routes but `/mcp`. Each is described in `/openapi.json`: a test compares them.
pub(super) fn all() -> Vec<Route> {
    let own = vec![
        ("/openapi.json", get(openapi::document)),
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
    ];
    [own, openai::routes(), pageindex::routes()].concat()
}

/// All routes, behind the gate.
pub(super) fn router(site: AppState, control: Arc<AccessControl>, mcp: McpService) -> Router {
    let max_body_bytes = control.max_body_bytes;
    let routes = all()
        .into_iter()
        .fold(Router::new(), |router, (path, method)| {
            router.route(path, method)
        });
    routes
        .route_service("/mcp", mcp)
        .fallback(|| async {
            Problem::new(404, "route.unknown", "there is no such route")
                .with_next("GET /openapi.json")
        })
        .method_not_allowed_fallback(|| async {
            Problem::new(405, "route.method", "this route does not take that method")
        })
        .layer(DefaultBodyLimit::max(max_body_bytes))
        .layer(middleware::from_fn_with_state(
            control,
            access_control::enforce,
        ))
        .with_state(site)
}

impl AppState {
    /// The collection a request means, as far as its key reaches.
    pub(super) fn archive(
        &self,
        reach: &CollectionScope,
        collection: Option<&str>,
    ) -> Result<Arc<Archive>, Problem> {
        let all = self.collections.collections();
        let collection_id = match collection {
            None => all.iter().find(|collection| reach.allows(collection)),
            Some(name) => all
                .iter()
                .find(|collection| collection.as_str() == name && reach.allows(collection)),
        };
        let Some(collection_id) = collection_id else {
            let detail = "this key reads no such collection";
            return Err(Problem::new(
                if *reach == CollectionScope::All {
                    404
                } else {
                    403
                },
                "collection.unknown",
                detail,
            ));
        };
        self.collections.get(collection_id).ok_or_else(|| {
            Problem::new(503, "catalogue.loading", "the catalogue is being read")
                .with_next("ask again")
        })
    }

    /// Who answers questions in words over the collection of a reader.
    pub(super) fn answerer(&self, archive: &Arc<Archive>) -> Result<Arc<dyn Answerer>, Problem> {
        self.deps
            .answerers
            .as_ref()
            .map(|answering| answering.answerer(archive))
            .ok_or_else(|| {
            let detail =
                "this server only searches: it was started without what answers questions in words";
            Problem::new(501, "answer.not_here", detail).with_next("POST /v1/search")
        })
    }

    /// The collections a key reaches.
    pub(super) fn visible_collections(&self, reach: &CollectionScope) -> Vec<&Collection> {
        self.collections
            .collections()
            .iter()
            .filter(|collection| reach.allows(collection))
            .collect()
    }

    /// What answers questions over the collection of a reader.
    pub(super) fn searcher<'a>(&self, archive: &'a Archive) -> &'a dyn SearchService {
        archive
    }
}
