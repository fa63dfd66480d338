//! The model that answers questions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Knowledge, LlmClient, LlmClientSettings, TreeSearchSettings, TreeSearcher};
use stemma_document::Collection;
use stemma_llm::client::ModelClient;
use stemma_store::Env;
use stemma_store::blobs::Blobs;

/// A model client, how it is used for questions, and expert knowledge.
#[derive(Clone)]
pub struct AnswerModel {
    pub model_client: Arc<ModelClient>,
    pub settings: TreeSearchSettings,
    /// The operator's own expert knowledge, by collection.
    pub knowledge: BTreeMap<String, Knowledge>,
}

impl AnswerModel {
    /// A tree searcher over one collection, with its call log and response cache in the store.
    pub fn tree_searcher(
        &self,
        env: &Env,
        blobs: &Arc<dyn Blobs>,
        collection: &Collection,
    ) -> Arc<TreeSearcher> {
        let client = LlmClient::new(
            env.clone(),
            Arc::clone(&self.model_client),
            self.settings.client,
        );
        let client = client.with_store(Arc::clone(blobs), collection);
        let own = self
            .knowledge
            .get(collection.as_str())
            .cloned()
            .unwrap_or_default();
        let built_in = if self.settings.knowledge.built_in {
            Knowledge::built_in()
        } else {
            Knowledge::default()
        };
        Arc::new(TreeSearcher::new(
            Arc::new(client),
            self.settings.clone(),
            built_in.merged_with(own),
        ))
    }
}

/// The vision model, and how it is used.
#[derive(Clone)]
pub struct VisionModel {
    pub model_client: Arc<ModelClient>,
    pub settings: LlmClientSettings,
}

impl VisionModel {
    /// A client over one collection, with its call log and response cache in the store.
    pub fn client(
        &self,
        env: &Env,
        blobs: &Arc<dyn Blobs>,
        collection: &Collection,
    ) -> Arc<LlmClient> {
        let client = LlmClient::new(env.clone(), Arc::clone(&self.model_client), self.settings);
        Arc::new(client.with_store(Arc::clone(blobs), collection))
    }
}

impl fmt::Debug for AnswerModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerModel")
            .field("model", &self.model_client.model())
            .finish_non_exhaustive()
    }
}
