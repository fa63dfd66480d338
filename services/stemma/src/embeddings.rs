//! Configuration of the embedding endpoint. Without one, semantic routing is off.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stemma_document::Collection;
use stemma_engine::blobs::Blobs;
use stemma_engine::limit::Limiter;
use stemma_engine::{Env, Secret};
use stemma_llm::client::{ModelClient, ModelClientSettings};
use stemma_llm::embeddings::{Embedder, MAX_TOKENS, OpenAiEmbedder};
use stemma_llm::http::Endpoint;
use stemma_llm::prices::Prices;
use stemma_retrieval::embedding::embedder::{EmbedderSettings, MeteredEmbedder};
use stemma_retrieval::embedding::flat_index::FlatIndex;
use stemma_retrieval::embedding::{EmbeddingSettings, SemanticRouter};

use crate::error::CommandError;

// One call uses at most this share of the tokens per minute; a single call with all of them would stall the others.
const MIN_CALLS_PER_MINUTE: u32 = 4;

/// Endpoint, limits and prices of embeddings, and the weights of semantic routing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EmbeddingsConfig {
    pub model: String,
    /// Base URL of an OpenAI-compatible API: `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key for it; best given as `STEMMA_EMBEDDINGS__API_KEY`.
    pub api_key: Secret,
    /// Header for the key if it is not `Authorization`: `api-key` for Azure.
    pub key_header: String,
    /// Further headers, each `Name: value`.
    pub headers: Vec<Secret>,
    /// Requests per minute of all processes together; 0: use the provider's rate-limit headers, or learn the limit.
    pub requests_per_minute: u32,
    /// Tokens per minute of all processes together; 0: unknown.
    pub tokens_per_minute: u32,
    /// Dollars per million tokens (`input`): for `stemma cost`, estimates and budgets.
    pub prices: Prices,
    /// Concurrent calls of this process.
    pub concurrency: u16,
    /// How long one call may take, in seconds.
    pub timeout_seconds: u64,
    /// How long one call for documents may take with retries and waiting, in seconds; questions wait 8 s at most.
    pub patience_seconds: u64,
    /// Number of processes that divide the limits while the shared limiter is unreachable.
    pub expected_workers: u32,
    /// What is embedded, and its weight in routing.
    #[serde(flatten)]
    pub routing: EmbeddingSettings,
}

impl Default for EmbeddingsConfig {
    fn default() -> Self {
        Self {
            model: String::new(),
            base_url: String::new(),
            api_key: Secret::default(),
            key_header: String::new(),
            headers: Vec::new(),
            requests_per_minute: 0,
            tokens_per_minute: 0,
            prices: Prices::default(),
            concurrency: 4,
            timeout_seconds: 30,
            patience_seconds: 600,
            expected_workers: 1,
            routing: EmbeddingSettings::default(),
        }
    }
}

/// The endpoint with its limits, shared by all collections of the process.
pub struct EmbeddingClient(Option<Arc<ModelClient<dyn Embedder>>>);

impl EmbeddingsConfig {
    /// Whether model and address are set.
    pub fn is_configured(&self) -> bool {
        !(self.model.is_empty() || self.base_url.is_empty())
    }

    /// Prices for the call log. Replies are free: a vector has no output tokens.
    pub fn prices(&self) -> Prices {
        Prices {
            output: self.prices.output.or(self.prices.input.map(|_| 0.0)),
            ..self.prices
        }
    }

    /// A client under limits that all users of `limiter` share; `process` identifies this
    /// process to the provider.
    pub fn client(
        &self,
        env: &Env,
        limiter: &Arc<dyn Limiter>,
        process: &str,
    ) -> Result<EmbeddingClient, CommandError> {
        if !self.is_configured() {
            return Ok(EmbeddingClient(None));
        }
        let endpoint = Endpoint {
            base_url: self.base_url.clone(),
            api_key: self.api_key.clone(),
            key_header: self.key_header.clone(),
            headers: self.headers.clone(),
            timeout: Duration::from_secs(self.timeout_seconds),
            process: process.into(),
            env: env.clone(),
        };
        let client = OpenAiEmbedder::new(endpoint, self.model.clone()).map_err(|error| {
            CommandError::new("config.embeddings", format!("embeddings: {error}"))
                .with_next("correct embeddings.base_url, embeddings.api_key or embeddings.headers")
        })?;
        let settings = ModelClientSettings {
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            concurrency: self.concurrency.max(1),
            prices: self.prices(),
            expected_workers: self.expected_workers,
            patience: Duration::from_secs(self.patience_seconds),
            ..ModelClientSettings::unlimited(&self.model, client.host())
        };
        let model_client = ModelClient::for_embeddings(
            env.clone(),
            Arc::clone(limiter),
            Arc::new(client),
            settings,
        );
        Ok(EmbeddingClient(Some(Arc::new(model_client))))
    }

    /// Semantic routing over a collection whose call log is in `blobs`; `None` if no endpoint is configured.
    pub fn semantic_router(
        &self,
        embedding_client: &EmbeddingClient,
        env: &Env,
        blobs: &Arc<dyn Blobs>,
        collection: &Collection,
        cache_dir: &Path,
    ) -> Option<Arc<SemanticRouter>> {
        let embedding_client = embedding_client.0.as_ref()?;
        let batch_tokens = match self.tokens_per_minute {
            0 => MAX_TOKENS,
            limit => (limit / MIN_CALLS_PER_MINUTE).max(1),
        };
        let settings = EmbedderSettings {
            batch_tokens,
            concurrent_documents: usize::from(self.concurrency.max(1)),
            timeout_ms: self.patience_seconds.saturating_mul(1_000),
        };
        let vectorizer = MeteredEmbedder::new(env.clone(), Arc::clone(embedding_client), settings)
            .with_call_log(Arc::clone(blobs), collection);
        // Vectors depend on the model and on how much of a section is embedded, so both identify the vector file.
        let kind = format!(
            "{}\n{}\n{}",
            self.base_url, self.model, self.routing.section_tokens
        );
        let vectors = Arc::new(FlatIndex::new(cache_dir, collection, &kind));
        Some(Arc::new(SemanticRouter::new(
            env.clone(),
            vectorizer,
            vectors,
            self.routing,
        )))
    }
}
