//! Shared state of the handlers.

use std::sync::Arc;

use stemma_answers::Answerer;
use stemma_archive::collections::Collections;
use stemma_archive::{AnswererFactory, Archive};
use stemma_document::Collection;
use stemma_engine::Env;
use stemma_retrieval::embedding::SemanticRouter;

use crate::problem::Problem;
use crate::rights::CollectionScope;
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

impl AppState {
    /// Opens the requested collection, or the first visible one.
    pub fn archive(
        &self,
        scope: &CollectionScope,
        collection: Option<&str>,
    ) -> Result<Arc<Archive>, Problem> {
        let visible = self.visible_collections(scope);
        let found = visible
            .into_iter()
            .find(|visible| collection.is_none_or(|name| visible.as_str() == name));
        let Some(found) = found else {
            let status = if *scope == CollectionScope::All {
                404
            } else {
                403
            };
            let detail = "the collection does not exist, or this key may not read it";
            return Err(Problem::new(status, "collection.unknown", detail));
        };
        self.collections.get(found).ok_or_else(|| {
            Problem::new(503, "catalogue.loading", "the catalog is still loading")
                .with_next("retry later")
        })
    }

    pub fn answerer(&self, archive: &Arc<Archive>) -> Result<Arc<dyn Answerer>, Problem> {
        self.deps
            .answerers
            .as_ref()
            .map(|answering| answering.answerer(archive))
            .ok_or_else(|| {
                let detail = "this server answers no questions: it was started without a model";
                Problem::new(501, "answer.not_here", detail).with_next("POST /v1/search")
            })
    }

    pub fn visible_collections(&self, scope: &CollectionScope) -> Vec<&Collection> {
        self.collections
            .collections()
            .iter()
            .filter(|collection| scope.allows(collection))
            .collect()
    }
}
