//! Configuration of the embedding endpoint. Without one, semantic routing is off.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stemma_document::Collection;
use stemma_llm::client::{ModelClient, ModelClientSettings};
use stemma_llm::embeddings::{Embedder, MAX_TOKENS, OpenAiEmbedder};
use stemma_llm::prices::Prices;
use stemma_retrieval::embedding::embedder::{EmbedderSettings, MeteredEmbedder};
use stemma_retrieval::embedding::flat_index::FlatIndex;
use stemma_retrieval::embedding::{EmbeddingSettings, SemanticRouter};
use stemma_store::Env;
use stemma_store::blobs::Blobs;
use stemma_store::limit::Limiter;

use crate::endpoint::EndpointConfig;
use crate::error::CommandError;

// A batch has at most this part of the tokens per minute. After a batch with all of them, a question would wait a minute
// for its permit.
const BATCHES_PER_MINUTE: u32 = 4;

/// Endpoint, limits and prices of embeddings, and the weights of semantic routing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EmbeddingsConfig {
    pub model: String,
    /// An OpenAI-compatible API. `patience_seconds` limits calls for documents; those for questions wait 8 s at most.
    #[serde(flatten)]
    pub endpoint: EndpointConfig,
    /// The embedded texts, and the weight of embeddings in routing.
    #[serde(flatten)]
    pub routing: EmbeddingSettings,
}

impl Default for EmbeddingsConfig {
    fn default() -> Self {
        Self {
            model: String::new(),
            endpoint: EndpointConfig {
                concurrency: 4,
                timeout_seconds: 30,
                patience_seconds: 600,
                ..EndpointConfig::default()
            },
            routing: EmbeddingSettings::default(),
        }
    }
}

impl EmbeddingsConfig {
    /// Whether model and address are set.
    pub fn is_configured(&self) -> bool {
        !(self.model.is_empty() || self.endpoint.base_url.is_empty())
    }

    /// Prices for the call log. Replies are free: a vector has no output tokens.
    pub fn prices(&self) -> Prices {
        let prices = self.endpoint.prices;
        Prices {
            output: prices.output.or(prices.input.map(|_| 0.0)),
            ..prices
        }
    }
}

/// The embedding endpoint with its limits, shared by all collections of the process.
pub struct EmbeddingClient {
    // `None` if no endpoint is configured.
    client: Option<Arc<ModelClient<dyn Embedder>>>,
    config: EmbeddingsConfig,
    env: Env,
    cache_dir: PathBuf,
}

impl EmbeddingClient {
    /// A client under limits that all users of `limiter` share; `process` identifies this process to the provider.
    pub fn new(
        config: &EmbeddingsConfig,
        cache_dir: PathBuf,
        env: &Env,
        limiter: &Arc<dyn Limiter>,
        process: &str,
    ) -> Result<Self, CommandError> {
        Ok(Self {
            client: match config.is_configured() {
                true => Some(connect(config, env, limiter, process)?),
                false => None,
            },
            config: config.clone(),
            env: env.clone(),
            cache_dir,
        })
    }

    /// Semantic routing over a collection whose call log is in `blobs`; `None` if no endpoint is configured.
    pub fn router(
        &self,
        blobs: &Arc<dyn Blobs>,
        collection: &Collection,
    ) -> Option<Arc<SemanticRouter>> {
        let client = Arc::clone(self.client.as_ref()?);
        let endpoint = &self.config.endpoint;
        let routing = self.config.routing;
        let settings = EmbedderSettings {
            batch_tokens: match endpoint.tokens_per_minute {
                0 => MAX_TOKENS,
                limit => (limit / BATCHES_PER_MINUTE).max(1),
            },
            concurrent_documents: usize::from(endpoint.concurrency.max(1)),
            timeout_ms: endpoint.patience_seconds.saturating_mul(1_000),
        };
        let embedder = MeteredEmbedder::new(self.env.clone(), client, settings)
            .with_call_log(Arc::clone(blobs), collection);
        // Vectors depend on the model and on how much of a section is embedded, so both identify the vector file.
        let url = &endpoint.base_url;
        let model = &self.config.model;
        let kind = format!("{url}\n{model}\n{}", routing.section_tokens);
        let vectors = Arc::new(FlatIndex::new(&self.cache_dir, collection, &kind));
        let router = SemanticRouter::new(self.env.clone(), embedder, vectors, routing);
        Some(Arc::new(router))
    }
}

fn connect(
    config: &EmbeddingsConfig,
    env: &Env,
    limiter: &Arc<dyn Limiter>,
    process: &str,
) -> Result<Arc<ModelClient<dyn Embedder>>, CommandError> {
    let endpoint = config.endpoint.endpoint(env, process);
    let client = OpenAiEmbedder::new(endpoint, config.model.clone()).map_err(|error| {
        CommandError::new("config.embeddings", format!("embeddings: {error}"))
            .with_next("correct embeddings.base_url, embeddings.api_key or embeddings.headers")
    })?;
    let settings = ModelClientSettings {
        prices: config.prices(),
        ..config
            .endpoint
            .client_settings(&config.model, client.host())
    };
    Ok(Arc::new(ModelClient::for_embeddings(
        env.clone(),
        Arc::clone(limiter),
        Arc::new(client),
        settings,
    )))
}
