//! Configuration of language models: names, providers, limits and prices.
//!
//! One `[model]` section configures one model. Each entry of `[[models]]` adds a model and overrides what differs.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stemma_engine::limit::Limiter;
use stemma_engine::{Env, Secret};
use stemma_llm::anthropic::Anthropic;
use stemma_llm::client::{ModelClient, ModelClientSettings};
use stemma_llm::http::{Endpoint, EndpointError};
use stemma_llm::openai::OpenAi;
use stemma_llm::prices::Prices;
use stemma_llm::request::{Llm, LlmError};
use stemma_pipeline::{ModelSettings, OnModelFailure};

use crate::error::CommandError;

/// A language model. Its settings change results; its provider and rate limits do not.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelConfig {
    #[serde(flatten)]
    pub settings: ModelSettings,
    /// Address, credentials, limits and prices.
    #[serde(flatten)]
    pub provider: ProviderConfig,
}

impl ModelConfig {
    /// Whether name and address are set.
    pub fn is_configured(&self) -> bool {
        !(self.settings.name.is_empty() || self.provider.base_url.is_empty())
    }
}

/// The API of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApiDialect {
    /// Chat completions, as of OpenAI, Azure, vLLM, Ollama, llama.cpp.
    #[default]
    Openai,
    Anthropic,
}

/// Address, credentials, limits and prices of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProviderConfig {
    pub dialect: ApiDialect,
    /// Base URL, e.g. `https://api.openai.com/v1`; empty: no model. A query is kept: `…?api-version=…` for Azure.
    pub base_url: String,
    /// The key for it; best given as `STEMMA_MODEL__API_KEY`.
    pub api_key: Secret,
    /// Header for the key if it differs from the dialect's default: `api-key` for Azure.
    pub key_header: String,
    /// Further headers, each `Name: value`.
    pub headers: Vec<Secret>,
    /// Requests per minute of all workers together; 0: use the provider's rate-limit headers, or learn the limit.
    pub requests_per_minute: u32,
    /// Tokens per minute of all workers together; 0: unknown.
    pub tokens_per_minute: u32,
    /// Dollars per million tokens: for `stemma cost`, estimates and budgets.
    pub prices: Prices,
    /// Concurrent calls of a worker.
    pub concurrency: u16,
    /// How long one call may take, in seconds.
    pub timeout_seconds: u64,
    /// How long all calls of one attempt of a task may take together, in seconds.
    pub task_timeout_seconds: u64,
    /// Number of workers that divide the limits while the shared limiter is unreachable.
    pub expected_workers: u32,
    /// How long the provider may be unreachable before bulk work fails, in seconds.
    pub patience_seconds: u64,
    /// How long the provider may be unreachable before interactive work fails, in seconds.
    pub interactive_patience_seconds: u64,
}

impl Default for ProviderConfig {
    fn default() -> Self {
        Self {
            dialect: ApiDialect::Openai,
            base_url: String::new(),
            api_key: Secret::default(),
            key_header: String::new(),
            headers: Vec::new(),
            requests_per_minute: 0,
            tokens_per_minute: 0,
            prices: Prices::default(),
            concurrency: 8,
            timeout_seconds: 120,
            task_timeout_seconds: 480,
            expected_workers: 1,
            patience_seconds: 3_600,
            interactive_patience_seconds: 120,
        }
    }
}

/// A further model. Omitted settings come from `[model]`, except that key and headers are not sent to another address;
/// limits and prices are never inherited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraModel {
    /// The model, as its provider names it.
    pub name: String,
    /// See [`ProviderConfig`] for this and the others.
    pub dialect: Option<ApiDialect>,
    pub base_url: Option<String>,
    #[serde(default)]
    pub api_key: Secret,
    /// Header for the key.
    pub key_header: Option<String>,
    #[serde(default)]
    pub headers: Vec<Secret>,
    #[serde(default)]
    pub requests_per_minute: u32,
    #[serde(default)]
    pub tokens_per_minute: u32,
    #[serde(default)]
    pub prices: Prices,
    pub concurrency: Option<u16>,
    pub timeout_seconds: Option<u64>,
}

impl ExtraModel {
    pub fn provider(&self, model: &ProviderConfig) -> ProviderConfig {
        // Credentials are for one address only.
        let same_address = self.base_url.is_none();
        ProviderConfig {
            dialect: self.dialect.unwrap_or(model.dialect),
            base_url: self
                .base_url
                .clone()
                .unwrap_or_else(|| model.base_url.clone()),
            api_key: if self.api_key.is_empty() && same_address {
                model.api_key.clone()
            } else {
                self.api_key.clone()
            },
            key_header: match &self.key_header {
                Some(header) => header.clone(),
                None if same_address => model.key_header.clone(),
                None => String::new(),
            },
            headers: if self.headers.is_empty() && same_address {
                model.headers.clone()
            } else {
                self.headers.clone()
            },
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            prices: self.prices,
            concurrency: self.concurrency.unwrap_or(model.concurrency),
            timeout_seconds: self.timeout_seconds.unwrap_or(model.timeout_seconds),
            ..model.clone()
        }
    }
}

impl ProviderConfig {
    pub fn client(&self, env: &Env, process: &str) -> Result<Arc<dyn Llm>, CommandError> {
        let endpoint = Endpoint {
            base_url: self.base_url.clone(),
            api_key: self.api_key.clone(),
            key_header: self.key_header.clone(),
            headers: self.headers.clone(),
            timeout: Duration::from_secs(self.timeout_seconds),
            process: process.into(),
            env: env.clone(),
        };
        let client: Result<Arc<dyn Llm>, EndpointError> = match self.dialect {
            ApiDialect::Openai => OpenAi::new(endpoint).map(|client| Arc::new(client) as _),
            ApiDialect::Anthropic => Anthropic::new(endpoint).map(|client| Arc::new(client) as _),
        };
        client.map_err(|error| {
            let setting = match error {
                EndpointError::Header(_) => "model.headers, model.key_header or model.api_key",
                EndpointError::Url(_) | EndpointError::Client(_) => "model.base_url",
            };
            CommandError::new("config.model", format!("{setting}: {error}"))
                .with_next(format!("correct {setting}"))
        })
    }

    pub fn model_client(
        &self,
        name: &str,
        env: &Env,
        limiter: &Arc<dyn Limiter>,
        process: &str,
    ) -> Result<Arc<ModelClient>, CommandError> {
        let client = self.client(env, process)?;
        let settings = ModelClientSettings {
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            concurrency: self.concurrency.max(1),
            prices: self.prices,
            task_timeout: Duration::from_secs(self.task_timeout_seconds),
            expected_workers: self.expected_workers,
            patience: Duration::from_secs(self.patience_seconds),
            interactive_patience: Duration::from_secs(self.interactive_patience_seconds),
            ..ModelClientSettings::unlimited(name, client.host())
        };
        Ok(Arc::new(ModelClient::new(
            env.clone(),
            Arc::clone(limiter),
            client,
            settings,
        )))
    }
}

/// Parses `--on-model-failure`.
pub fn on_model_failure(text: &str) -> Result<OnModelFailure, String> {
    serde_json::from_value(text.into())
        .map_err(|_| format!("unknown value `{text}`; use fail, gap or offline"))
}

// Listing models is cheap, so a provider that needs longer counts as unreachable.
const PREFLIGHT_TIMEOUT: Duration = Duration::from_secs(5);

impl ProviderConfig {
    /// The models that the provider lists; empty if it lists none.
    pub async fn list_models(
        &self,
        env: &Env,
    ) -> Result<Result<Vec<String>, LlmError>, CommandError> {
        let client = self.client(env, "doctor")?;
        let response = tokio::time::timeout(PREFLIGHT_TIMEOUT, client.models()).await;
        Ok(response.unwrap_or(Err(LlmError::TimedOut(PREFLIGHT_TIMEOUT))))
    }
}
