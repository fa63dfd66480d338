//! Shared state of the handlers.

use std::sync::Arc;

use stemma_answers::{Answerer, AskRequest};
use stemma_archive::collections::Collections;
use stemma_archive::{
    AnswerRequest, AnswererFactory, ApiError, Archive, Conversations, PageImages, Vision,
};
use stemma_document::Collection;
use stemma_operations::Operations;
use stemma_retrieval::embedding::SemanticRouter;
use stemma_store::Env;

use crate::problem::{Problem, answer_problem};
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
    /// The jobs of the store.
    pub operations: Option<Arc<Operations>>,
    /// Draws pages.
    pub page_images: Option<Arc<PageImages>>,
    /// Shows pages to a model.
    pub vision: Option<Arc<Vision>>,
}

#[derive(Clone)]
pub struct AppState {
    pub env: Env,
    pub collections: Arc<Collections>,
    pub deps: ServerDeps,
}

/// A question that may be answered.
pub struct PreparedQuestion {
    pub answerer: Arc<dyn Answerer>,
    pub question: AskRequest,
    /// The id of its answer.
    pub id: String,
    /// The conversation that keeps it.
    pub conversation: Option<String>,
}

impl AppState {
    /// Opens the requested collection, or the first visible one.
    pub fn archive(
        &self,
        scope: &CollectionScope,
        collection: Option<&str>,
    ) -> Result<Arc<Archive>, Problem> {
        let found = self.visible_collection(scope, collection)?;
        self.collections.get(found).ok_or_else(|| {
            Problem::new(503, "catalog.loading", "the catalog is still loading")
                .with_next("retry later")
        })
    }

    /// The jobs of the requested collection, or of the first visible one.
    pub fn operations(
        &self,
        scope: &CollectionScope,
        collection: Option<&str>,
    ) -> Result<Operations, Problem> {
        let found = self.visible_collection(scope, collection)?;
        let operations = self.deps.operations.as_ref().ok_or_else(|| {
            let detail = "this server has no jobs: it only reads published trees";
            Problem::new(501, "job.not_available", detail).with_next("stemma status")
        })?;
        Ok(operations.in_collection(found))
    }

    fn visible_collection(
        &self,
        scope: &CollectionScope,
        collection: Option<&str>,
    ) -> Result<&Collection, Problem> {
        let visible = self.visible_collections(scope);
        let found = visible
            .into_iter()
            .find(|visible| collection.is_none_or(|name| visible.as_str() == name));
        found.ok_or_else(|| {
            let status = if *scope == CollectionScope::All {
                404
            } else {
                403
            };
            let detail = "the collection does not exist, or this key may not read it";
            Problem::new(status, "collection.unknown", detail)
        })
    }

    /// The port that submits documents.
    pub fn uploads(&self) -> Result<&Arc<dyn UploadPort>, Problem> {
        self.deps.uploads.as_ref().ok_or_else(|| {
            let detail = "this server is read-only: it neither ingests nor removes documents";
            Problem::new(403, "upload.not_available", detail)
                .with_next("use a server that accepts uploads; this one only reads")
        })
    }

    pub fn answerer(&self, archive: &Arc<Archive>) -> Result<Arc<dyn Answerer>, Problem> {
        self.deps
            .answerers
            .as_ref()
            .map(|answering| answering.answerer(archive))
            .ok_or_else(|| {
                let detail = "this server answers no questions: it was started without a model";
                Problem::new(501, "answer.not_available", detail).with_next("POST /v1/search")
            })
    }

    /// The stored conversations of a collection.
    pub fn conversations(&self, collection: &Collection) -> Result<Conversations, Problem> {
        let answerers = self.deps.answerers.as_ref();
        let found = answerers.and_then(|answering| answering.conversations(collection));
        found.ok_or_else(|| {
            let message = "there is no store of conversations";
            ApiError::new("conversation.not_available", message, "").into()
        })
    }

    /// Checks a question, and keeps it in the conversation that it names.
    pub async fn prepare_question(
        &self,
        archive: &Arc<Archive>,
        mut request: AnswerRequest,
    ) -> Result<PreparedQuestion, Problem> {
        let answerer = self.answerer(archive)?;
        let conversations = match request.conversation {
            Some(_) => Some(self.conversations(&archive.collection)?),
            None => None,
        };
        if let Some(conversations) = &conversations {
            conversations
                .complete(&mut request, answerer.as_ref())
                .await?;
        }
        let question = archive.ask_request(&request)?;
        answerer.check(&question).map_err(answer_problem)?;
        let id = answerer.answer_id(&question).map_err(ApiError::from)?;
        let conversation = match conversations {
            Some(conversations) => Some(conversations.keep(&request, &id).await?),
            None => None,
        };
        Ok(PreparedQuestion {
            answerer,
            question,
            id,
            conversation,
        })
    }

    pub fn page_images(&self) -> Result<&Arc<PageImages>, Problem> {
        self.deps.page_images.as_ref().ok_or_else(|| {
            let detail = "this server draws no pages";
            Problem::new(501, "image.not_available", detail)
                .with_next("GET /v1/documents/{doc}/pages?range=5 reads their text")
        })
    }

    pub fn vision(&self) -> Result<&Arc<Vision>, Problem> {
        self.deps.vision.as_ref().ok_or_else(|| {
            let detail = "this server has no vision model: its vision.model is not set";
            Problem::new(501, "vision.no_model", detail)
                .with_next("GET /v1/documents/{doc}/pages/{n}/image draws a page")
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
