//! A language model and an embedder for tests of answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use stemma_answers::tree_search::{AnswerModel, TreeSearchSettings};
use stemma_document::Collection;
use stemma_llm::client::{ModelClient, ModelClientSettings};
use stemma_llm::embeddings::{Embedder, EmbeddingReply};
use stemma_llm::http::Endpoint;
use stemma_llm::openai::OpenAi;
use stemma_llm::request::LlmError;
use stemma_retrieval::embedding::embedder::{EmbedderSettings, MeteredEmbedder};
use stemma_retrieval::embedding::flat_index::FlatIndex;
use stemma_retrieval::embedding::{EmbeddingSettings, SemanticRouter};
use stemma_sim::Provider;
use stemma_store::limit::MemoryLimiter;
use stemma_store::{Env, Secret};

/// A model behind a simulated provider.
pub fn answer_model(provider: &Provider) -> AnswerModel {
    let env = Env::system();
    let limiter = Arc::new(MemoryLimiter::default());
    let endpoint = Endpoint {
        base_url: provider.base_url("query"),
        api_key: Secret::default(),
        key_header: String::new(),
        headers: Vec::new(),
        timeout: Duration::from_secs(300),
        process: "query".into(),
        env: env.clone(),
    };
    let client = Arc::new(OpenAi::new(endpoint).unwrap());
    let model_client = Arc::new(ModelClient::new(
        env,
        limiter,
        client,
        ModelClientSettings::unlimited("sim", "here"),
    ));
    AnswerModel {
        model_client,
        settings: TreeSearchSettings::default(),
        knowledge: BTreeMap::new(),
    }
}

/// Returns the same vector for every text, and counts the texts.
#[derive(Default)]
pub struct ConstantEmbedder(AtomicUsize);

impl ConstantEmbedder {
    /// Number of texts so far.
    pub fn texts(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Embedder for ConstantEmbedder {
    async fn embed(&self, texts: &[&str]) -> Result<EmbeddingReply, LlmError> {
        self.0.fetch_add(texts.len(), Ordering::Relaxed);
        Ok(EmbeddingReply {
            vectors: vec![vec![1.0, 0.0]; texts.len()],
            ..EmbeddingReply::default()
        })
    }
}

/// A semantic router that applies from two documents on, without stored vectors.
pub fn semantic_router(counting: &Arc<ConstantEmbedder>, folder: &Path) -> Arc<SemanticRouter> {
    let env = Env::system();
    let embedder = Arc::<ConstantEmbedder>::clone(counting);
    let limiter = Arc::new(MemoryLimiter::default());
    let client = ModelClient::for_embeddings(
        env.clone(),
        limiter,
        embedder,
        ModelClientSettings::unlimited("vectors", "here"),
    );
    let vectorizer =
        MeteredEmbedder::new(env.clone(), Arc::new(client), EmbedderSettings::default());
    let vectors = Arc::new(FlatIndex::new(folder, &Collection::default(), "vectors"));
    let settings = EmbeddingSettings {
        documents: 1,
        ..EmbeddingSettings::default()
    };
    Arc::new(SemanticRouter::new(env, vectorizer, vectors, settings))
}
