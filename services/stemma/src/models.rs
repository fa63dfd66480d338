//! Configuration of language models: names, providers, limits and prices.
//!
//! One `[model]` section configures one model. Each entry of `[[models]]` adds a model and overrides what differs.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stemma_llm::anthropic::Anthropic;
use stemma_llm::client::{DEFAULT_MAX_REPLY_TOKENS, ModelClient, ModelClientSettings};
use stemma_llm::http::EndpointError;
use stemma_llm::openai::OpenAi;
use stemma_llm::prices::Prices;
use stemma_llm::request::{Llm, LlmError};
use stemma_pipeline::{BatchSettings, ModelSettings};
use stemma_store::limit::Limiter;
use stemma_store::{Env, Secret};

use crate::endpoint::EndpointConfig;
use crate::error::CommandError;

// Listing models is cheap, so a provider that needs longer counts as unreachable.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

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
        !(self.settings.name.is_empty() || self.provider.endpoint.base_url.is_empty())
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
    #[serde(flatten)]
    pub endpoint: EndpointConfig,
    /// How long all calls of one attempt of a task may take together, in seconds; at least twice `timeout_seconds`.
    pub task_timeout_seconds: u64,
    /// How long the provider may be unreachable before interactive work fails, in seconds.
    pub interactive_patience_seconds: u64,
    /// Most output tokens of a request that is asked again because its first reply ended before its text: room for a model that
    /// thinks. No result depends on it.
    pub max_reply_tokens: u32,
    pub batch: BatchConfig,
}

/// When requests of jobs with `--batch` are sent to the provider's batch interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchConfig {
    /// Requests in one batch; at most what the provider takes.
    pub max_requests: usize,
    /// A batch is sent when no request has arrived for so many seconds, at the latest ten times later.
    pub gather_seconds: u64,
    /// How often a batch is asked for, in seconds.
    pub poll_seconds: u64,
}

impl Default for BatchConfig {
    fn default() -> Self {
        let settings = BatchSettings::default();
        Self {
            max_requests: settings.max_requests,
            gather_seconds: settings.gather.as_secs(),
            poll_seconds: settings.poll.as_secs(),
        }
    }
}

impl BatchConfig {
    pub fn settings(&self) -> BatchSettings {
        BatchSettings {
            max_requests: self.max_requests.max(1),
            gather: Duration::from_secs(self.gather_seconds.max(1)),
            poll: Duration::from_secs(self.poll_seconds.max(1)),
        }
    }
}

impl Default for ProviderConfig {
    fn default() -> Self {
        Self {
            dialect: ApiDialect::Openai,
            endpoint: EndpointConfig::default(),
            task_timeout_seconds: 480,
            interactive_patience_seconds: 120,
            max_reply_tokens: DEFAULT_MAX_REPLY_TOKENS,
            batch: BatchConfig::default(),
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
    /// This and the others: see [`ProviderConfig`] and [`EndpointConfig`].
    pub dialect: Option<ApiDialect>,
    pub base_url: Option<String>,
    #[serde(default)]
    pub api_key: Secret,
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
    pub max_reply_tokens: Option<u32>,
}

impl ExtraModel {
    /// The provider of this model, where `model` is that of `[model]`.
    pub fn provider(&self, model: &ProviderConfig) -> ProviderConfig {
        let inherited = &model.endpoint;
        // Credentials are for one address only.
        let same_address = self.base_url.is_none();
        let endpoint = EndpointConfig {
            base_url: self
                .base_url
                .as_ref()
                .unwrap_or(&inherited.base_url)
                .clone(),
            api_key: match &self.api_key {
                key if key.is_empty() && same_address => inherited.api_key.clone(),
                key => key.clone(),
            },
            key_header: match &self.key_header {
                Some(header) => header.clone(),
                None if same_address => inherited.key_header.clone(),
                None => String::new(),
            },
            headers: match &self.headers {
                headers if headers.is_empty() && same_address => inherited.headers.clone(),
                headers => headers.clone(),
            },
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            prices: self.prices,
            concurrency: self.concurrency.unwrap_or(inherited.concurrency),
            timeout_seconds: self.timeout_seconds.unwrap_or(inherited.timeout_seconds),
            ..inherited.clone()
        };
        ProviderConfig {
            dialect: self.dialect.unwrap_or(model.dialect),
            max_reply_tokens: self.max_reply_tokens.unwrap_or(model.max_reply_tokens),
            endpoint,
            ..model.clone()
        }
    }
}

impl ProviderConfig {
    pub fn client(&self, env: &Env, process: &str) -> Result<Arc<dyn Llm>, CommandError> {
        let endpoint = self.endpoint.endpoint(env, process);
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
        let timeout_seconds = self
            .task_timeout_seconds
            .max(2 * self.endpoint.timeout_seconds);
        let settings = ModelClientSettings {
            task_timeout: Duration::from_secs(timeout_seconds),
            interactive_patience: Duration::from_secs(self.interactive_patience_seconds),
            max_reply_tokens: self.max_reply_tokens,
            ..self.endpoint.client_settings(name, client.host())
        };
        let limiter = Arc::clone(limiter);
        Ok(Arc::new(ModelClient::new(
            env.clone(),
            limiter,
            client,
            settings,
        )))
    }

    /// The models that the provider lists; empty if it lists none.
    pub async fn list_models(
        &self,
        env: &Env,
    ) -> Result<Result<Vec<String>, LlmError>, CommandError> {
        let client = self.client(env, "doctor")?;
        let response = tokio::time::timeout(LIST_TIMEOUT, client.models()).await;
        Ok(response.unwrap_or(Err(LlmError::TimedOut(LIST_TIMEOUT))))
    }
}
