//! The endpoint for embeddings, where one is configured: routing by meaning is off without.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stemma_document::Collection;
use stemma_engine::{Env, Secret};
use stemma_llm::embeddings::OpenAiEmbedder;
use stemma_llm::http::Endpoint;
use stemma_search::meaning::exact::ExactVectors;
use stemma_search::meaning::{Meaning, MeaningError, MeaningSettings};

use crate::context::{CommandError, Context};

/// Where embeddings are made, and what of them counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Embeddings {
    /// The model; empty: none.
    pub model: String,
    /// Its address, in the shape of OpenAI: `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key for it; best given as `STEMMA_EMBEDDINGS__API_KEY`.
    pub api_key: Secret,
    /// How long one call may take, in seconds.
    pub timeout_seconds: u64,
    /// What is embedded, and how much of it counts.
    #[serde(flatten)]
    pub routing: MeaningSettings,
}

impl Default for Embeddings {
    fn default() -> Self {
        let (model, base_url, api_key) = (String::new(), String::new(), Secret::default());
        Self { model, base_url, api_key, timeout_seconds: 30, routing: MeaningSettings::default() }
    }
}

impl Embeddings {
    /// Search by meaning over a collection; `None` where no endpoint is configured.
    ///
    /// # Errors
    /// [`CommandError`] naming the setting that is wrong.
    pub fn meaning(
        &self,
        env: &Env,
        collection: &Collection,
        context: &Context,
    ) -> Result<Option<Arc<Meaning>>, CommandError> {
        if self.model.is_empty() || self.base_url.is_empty() {
            return Ok(None);
        }
        let endpoint = Endpoint {
            base_url: self.base_url.clone(),
            api_key: self.api_key.clone(),
            key_header: String::new(),
            headers: Vec::new(),
            timeout: Duration::from_secs(self.timeout_seconds),
            process: "embeddings".into(),
            env: env.clone(),
        };
        let embedder = OpenAiEmbedder::new(endpoint, self.model.clone()).map_err(|error| {
            CommandError::new("config.embeddings", format!("embeddings: {error}"))
                .with_next("correct embeddings.base_url or embeddings.api_key")
        })?;
        // What is embedded of a section is part of what its vector is.
        let kind = format!("{}\n{}\n{}", self.base_url, self.model, self.routing.section_tokens);
        let vectors = Arc::new(ExactVectors::new(&context.cache(), collection, &kind));
        Ok(Some(Arc::new(Meaning::new(env.clone(), Arc::new(embedder), vectors, self.routing))))
    }
}

impl From<MeaningError> for CommandError {
    fn from(error: MeaningError) -> Self {
        let message = error.to_string();
        match error {
            MeaningError::Endpoint(_) => Self::new("embeddings.endpoint", message)
                .with_next("check embeddings.base_url, embeddings.model and embeddings.api_key; what was made is kept"),
            MeaningError::Port(error) => error.into(),
            MeaningError::Dimensions { .. } => {
                Self::new("embeddings.dimensions", message).with_next("name the model as what it is: another one")
            }
            MeaningError::TooMany { .. } => Self::new("embeddings.too_many", message)
                .with_next("leave embeddings.model empty for this collection: it is routed by names and words"),
        }
    }
}
