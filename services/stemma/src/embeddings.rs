//! The endpoint for embeddings, where one is configured: routing by meaning is off without.

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

/// Calls that hold what the limit of tokens allows in a minute: one call is never the whole of it.
const MIN_CALLS_PER_MINUTE: u32 = 4;

/// Where embeddings are made, how fast, at what price, and what of them counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EmbeddingsConfig {
    /// The model; empty: none.
    pub model: String,
    /// Its address, in the shape of OpenAI: `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key for it; best given as `STEMMA_EMBEDDINGS__API_KEY`.
    pub api_key: Secret,
    /// The header the key stands in, where it is another than `Authorization`: `api-key` for Azure.
    pub key_header: String,
    /// Further headers, each `Name: value`.
    pub headers: Vec<Secret>,
    /// Requests per minute of all processes together; 0: unknown, what the provider states counts, else what is learned.
    pub requests_per_minute: u32,
    /// Tokens per minute of all processes together; 0: unknown.
    pub tokens_per_minute: u32,
    /// Dollars per million tokens (`input`): for `stemma cost`, estimates and budgets.
    pub prices: Prices,
    /// Calls of this process under way at once.
    pub concurrency: u16,
    /// How long one call may take, in seconds.
    pub timeout_seconds: u64,
    /// How long one call for documents may take with all its tries and waiting, in seconds; questions wait 8 s at most.
    pub patience_seconds: u64,
    /// Processes that share the limits, for the time in which the shared limits are away.
    pub expected_workers: u32,
    /// What is embedded, and how much of it counts.
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

/// The endpoint with its limits: one per process, for all collections.
pub struct EmbeddingClient(Option<Arc<ModelClient<dyn Embedder>>>);

impl EmbeddingsConfig {
    /// Whether there is an endpoint.
    pub fn is_configured(&self) -> bool {
        !(self.model.is_empty() || self.base_url.is_empty())
    }

    /// The price table's row: a vector has no reply that would be paid for.
    pub fn prices(&self) -> Prices {
        Prices {
            output: self.prices.output.or(self.prices.input.map(|_| 0.0)),
            ..self.prices
        }
    }

    /// The way to the endpoint under limits that others of this process, or of all processes, share; `process` names this
    /// process to the provider.
    ///
    /// # Errors
    /// [`CommandError`] naming the setting that is wrong.
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

    /// Search by meaning over a collection, whose call log is in `blobs`; `None` where no endpoint is configured.
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
        // What is embedded of a section is part of what its vector is.
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
