//! Configuration that language models and embeddings share: address, credentials, limits and prices.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use stemma_llm::client::ModelClientSettings;
use stemma_llm::http::Endpoint;
use stemma_llm::prices::Prices;
use stemma_store::{Env, Secret};

/// The endpoint of a provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointConfig {
    /// Base URL, e.g. `https://api.openai.com/v1`; empty: not used. A query is kept: `…?api-version=…` for Azure.
    pub base_url: String,
    /// Best given in the environment: `STEMMA_MODEL__API_KEY`, `STEMMA_EMBEDDINGS__API_KEY`.
    pub api_key: Secret,
    /// Header for the key if it differs from the default: `api-key` for Azure.
    pub key_header: String,
    /// Further headers, each `Name: value`.
    pub headers: Vec<Secret>,
    /// Requests per minute of all processes together; 0: use the provider's rate-limit headers, or learn the limit.
    pub requests_per_minute: u32,
    /// Tokens per minute of all processes together; 0: unknown.
    pub tokens_per_minute: u32,
    /// Dollars per million tokens: for `stemma cost`, estimates and budgets.
    pub prices: Prices,
    /// Concurrent calls of a process.
    pub concurrency: u16,
    /// Timeout of one call, in seconds.
    pub timeout_seconds: u64,
    /// How long the provider may be unreachable before bulk work fails, in seconds.
    pub patience_seconds: u64,
    /// Number of processes that divide the limits while the shared limiter (Redis) is unreachable: the workers of lane llm, and
    /// query servers with a model.
    pub expected_workers: u32,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            base_url: String::new(),
            api_key: Secret::default(),
            key_header: String::new(),
            headers: Vec::new(),
            requests_per_minute: 0,
            tokens_per_minute: 0,
            prices: Prices::default(),
            concurrency: 8,
            timeout_seconds: 120,
            patience_seconds: 3_600,
            expected_workers: 1,
        }
    }
}

impl EndpointConfig {
    /// The endpoint as its client needs it; the provider sees this process as `process`.
    pub fn endpoint(&self, env: &Env, process: &str) -> Endpoint {
        Endpoint {
            base_url: self.base_url.clone(),
            api_key: self.api_key.clone(),
            key_header: self.key_header.clone(),
            headers: self.headers.clone(),
            timeout: Duration::from_secs(self.timeout_seconds),
            process: process.into(),
            env: env.clone(),
        }
    }

    /// Limits and prices of `model` on `host`.
    pub fn client_settings(&self, model: &str, host: &str) -> ModelClientSettings {
        ModelClientSettings {
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            concurrency: self.concurrency.max(1),
            prices: self.prices,
            expected_workers: self.expected_workers,
            patience: Duration::from_secs(self.patience_seconds),
            ..ModelClientSettings::unlimited(model, host)
        }
    }
}
