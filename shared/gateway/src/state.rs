//! Shared state of the handlers.

use std::sync::Arc;

use axum::routing::MethodRouter;
use stemma_answers::Answerer;
use stemma_archive::collections::Collections;
use stemma_archive::{AnswererFactory, Archive};
use stemma_document::Collection;
use stemma_engine::Env;
use stemma_retrieval::embedding::SemanticRouter;

use crate::auth::CollectionScope;
use crate::problem::Problem;
use crate::uploads::UploadPort;

/// Optional dependencies. Routes that need a missing one return a problem.
#[derive(Clone, Default)]
pub struct ServerDeps {
    pub answerers: Option<Arc<dyn AnswererFactory>>,
    /// Per collection that has embeddings.
    pub semantic_routers: Vec<(Collection, Arc<SemanticRouter>)>,
    /// Accepts and removes documents.
    pub uploads: Option<Arc<dyn UploadPort>>,
}

#[derive(Clone)]
pub struct AppState {
    pub env: Env,
    pub collections: Arc<Collections>,
    pub deps: ServerDeps,
}

/// A path and its method router.
pub type Route = (&'static str, MethodRouter<AppState>);

impl AppState {
    /// Opens the requested collection, or the first visible one.
    pub fn archive(
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

    pub fn answerer(&self, archive: &Arc<Archive>) -> Result<Arc<dyn Answerer>, Problem> {
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

    pub fn visible_collections(&self, reach: &CollectionScope) -> Vec<&Collection> {
        self.collections
            .collections()
            .iter()
            .filter(|collection| reach.allows(collection))
            .collect()
    }
}
