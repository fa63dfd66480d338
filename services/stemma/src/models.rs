//! The models that may be asked: which ones, where they are, how fast they may be asked.
//!
//! One `[model]` section is enough for one model. Further ones, each under its name in `[[models]]`, say where they differ.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stemma_answers::tree_search::{AnswerModel, Knowledge};
use stemma_engine::limit::Limiter;
use stemma_engine::{Env, Ports, Secret};
use stemma_llm::anthropic::Anthropic;
use stemma_llm::client::{ModelClient, ModelClientSettings};
use stemma_llm::http::{Endpoint, EndpointError};
use stemma_llm::openai::OpenAi;
use stemma_llm::prices::Prices;
use stemma_llm::request::{Llm, LlmError};
use stemma_pipeline::{ModelSettings, OnModelFailure, Purpose, RunSettings};

use crate::config::Config;
use crate::context::{CommandError, Context};

/// A language model: which one and how it is asked changes results; where it is and how fast it may be asked does not.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelConfig {
    /// What changes results.
    #[serde(flatten)]
    pub settings: ModelSettings,
    /// Where it is, and how fast it may be asked.
    #[serde(flatten)]
    pub provider: ProviderConfig,
}

impl ModelConfig {
    /// Whether there is one to ask.
    pub fn is_configured(&self) -> bool {
        !(self.settings.name.is_empty() || self.provider.base_url.is_empty())
    }
}

/// The words a provider understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApiDialect {
    /// Chat completions, as of OpenAI, Azure, vLLM, Ollama, llama.cpp.
    #[default]
    Openai,
    /// Messages, as of Anthropic.
    Anthropic,
}

/// Where a model is, and how fast it may be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProviderConfig {
    /// The words it understands.
    pub dialect: ApiDialect,
    /// Its address, e.g. `https://api.openai.com/v1`; empty: no model. A query stays: `…?api-version=…` for Azure.
    pub base_url: String,
    /// The key for it; best given as `STEMMA_MODEL__API_KEY`.
    pub api_key: Secret,
    /// The header the key stands in, where it is another than the dialect's: `api-key` for Azure.
    pub key_header: String,
    /// Further headers, each `Name: value`.
    pub headers: Vec<Secret>,
    /// Requests per minute of all workers together; 0: unknown, what the provider states counts, else what is learned.
    pub requests_per_minute: u32,
    /// Tokens per minute of all workers together; 0: unknown.
    pub tokens_per_minute: u32,
    /// Dollars per million tokens: for `stemma cost`, estimates and budgets.
    pub prices: Prices,
    /// Calls a worker has under way at once.
    pub concurrency: u16,
    /// How long one call may take, in seconds.
    pub timeout_seconds: u64,
    /// How long all calls of one attempt of a task may take together, in seconds.
    pub task_timeout_seconds: u64,
    /// Workers that share the limits, for the time in which the shared limits are away.
    pub expected_workers: u32,
    /// How long the provider may be away before bulk work fails, in seconds.
    pub patience_seconds: u64,
    /// The same for interactive work.
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

/// A further model. What it leaves out is as in `[model]`; but the key and the headers of another address are its own, and so
/// are its limits and prices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraModel {
    /// The model, as its provider names it.
    pub name: String,
    /// See [`ProviderConfig`] for this and the others.
    pub dialect: Option<ApiDialect>,
    /// Its address.
    pub base_url: Option<String>,
    /// The key for it.
    #[serde(default)]
    pub api_key: Secret,
    /// The header the key stands in.
    pub key_header: Option<String>,
    /// Further headers.
    #[serde(default)]
    pub headers: Vec<Secret>,
    /// Requests per minute.
    #[serde(default)]
    pub requests_per_minute: u32,
    /// Tokens per minute.
    #[serde(default)]
    pub tokens_per_minute: u32,
    /// Dollars per million tokens.
    #[serde(default)]
    pub prices: Prices,
    /// Calls at once.
    pub concurrency: Option<u16>,
    /// Seconds of a call.
    pub timeout_seconds: Option<u64>,
}

impl ExtraModel {
    fn provider(&self, model: &ProviderConfig) -> ProviderConfig {
        let there = self.base_url.is_none();
        let or = |own: &Secret, theirs: &Secret| {
            if own.is_empty() && there {
                theirs.clone()
            } else {
                own.clone()
            }
        };
        let theirs = |header: &String| if there { header.clone() } else { String::new() };
        ProviderConfig {
            dialect: self.dialect.unwrap_or(model.dialect),
            base_url: self
                .base_url
                .clone()
                .unwrap_or_else(|| model.base_url.clone()),
            api_key: or(&self.api_key, &model.api_key),
            key_header: self
                .key_header
                .clone()
                .unwrap_or_else(|| theirs(&model.key_header)),
            headers: if self.headers.is_empty() && there {
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
    /// A client of it.
    ///
    /// # Errors
    /// [`CommandError`] naming the setting that is wrong.
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

    fn model_client(
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

impl Config {
    /// Every model that may be asked, with its provider: the one of each purpose, and those in `[[models]]`; none where
    /// `[model]` is not configured.
    pub fn providers(&self) -> Vec<(String, ProviderConfig)> {
        if !self.model.is_configured() {
            return Vec::new();
        }
        let mut names = self.model.settings.names();
        names.extend(self.models.iter().map(|model| model.name.as_str()));
        let further = |name: &str| self.models.iter().find(|model| model.name == name);
        let provider = |name: &str| match further(name) {
            Some(model) => model.provider(&self.model.provider),
            None => self.model.provider.clone(),
        };
        names
            .into_iter()
            .map(|name| (name.to_string(), provider(name)))
            .collect()
    }

    /// The ways to the models for this process, which providers see as `process`; empty where none is configured.
    ///
    /// # Errors
    /// [`CommandError`] naming the setting that is wrong.
    pub fn model_clients(
        &self,
        env: &Env,
        ports: &Ports,
        process: &str,
    ) -> Result<Vec<Arc<ModelClient>>, CommandError> {
        self.providers()
            .iter()
            .map(|(name, provider)| provider.model_client(name, env, &ports.limiter, process))
            .collect()
    }
}

/// The model for answers to people, under limits that others of this process, or of all processes, share; `None` where no
/// model is. `process` names this process to the provider.
///
/// # Errors
/// [`CommandError`] naming the setting that is wrong.
pub fn answer_model(
    config: &Config,
    env: &Env,
    limiter: &Arc<dyn Limiter>,
    process: &str,
) -> Result<Option<AnswerModel>, CommandError> {
    let model_settings = &config.model.settings;
    let name = model_settings.name_for(Purpose::Answers);
    let Some((_, provider)) = config
        .providers()
        .into_iter()
        .find(|(candidate, _)| candidate == name)
    else {
        return Ok(None);
    };
    let model_client = provider.model_client(name, env, limiter, process)?;
    let mut settings = config.reason.clone();
    let most = model_settings.max_prompt_tokens_for(Purpose::Answers);
    settings.client.max_prompt_tokens = settings.client.max_prompt_tokens.min(most);
    let knowledge = knowledge(&settings.knowledge.files)?;
    Ok(Some(AnswerModel {
        model_client,
        settings,
        knowledge,
    }))
}

/// The files of expert knowledge, by collection.
fn knowledge(
    files: &BTreeMap<String, PathBuf>,
) -> Result<BTreeMap<String, Knowledge>, CommandError> {
    files
        .iter()
        .map(|(collection, file): (&String, &PathBuf)| {
            let wrong = |why: String| {
                CommandError::new("config.knowledge", format!("{}: {why}", file.display()))
                    .with_next("correct the file; its form is in docs/REASONING.md")
            };
            let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
            let knowledge = Knowledge::parse(&text).map_err(|error| wrong(error.to_string()))?;
            Ok((collection.clone(), knowledge))
        })
        .collect()
}

/// Reads what becomes of a document where the model does not answer.
///
/// # Errors
/// What the words are.
pub fn on_model_failure(text: &str) -> Result<OnModelFailure, String> {
    serde_json::from_value(text.into())
        .map_err(|_| format!("`{text}` is none of fail, gap and offline"))
}

/// How long a provider is given to say whether it would serve us.
const PREFLIGHT_TIMEOUT: Duration = Duration::from_secs(5);

/// Looks before anything is done whether the providers of the models of `settings` would serve us, without asking a model.
/// One that cannot be reached now may be back later: that is a note and no more.
///
/// # Errors
/// [`CommandError`] when one refuses our key.
pub async fn preflight(
    config: &Config,
    settings: &RunSettings,
    env: &Env,
    context: &Context,
) -> Result<(), CommandError> {
    let names = settings
        .model
        .as_ref()
        .map(ModelSettings::names)
        .unwrap_or_default();
    for (name, provider) in config
        .providers()
        .iter()
        .filter(|(name, _)| names.contains(name.as_str()))
    {
        match provider.list_models(env).await? {
            Ok(_) => {}
            Err(error @ LlmError::Configuration { .. }) => {
                return Err(preflight_error(name, &error));
            }
            Err(error) => context
                .output
                .note(&format!("model {name}: {error}; going on, it may be back")),
        }
    }
    Ok(())
}

/// What is said where a provider does not serve us.
pub fn preflight_error(name: &str, error: &LlmError) -> CommandError {
    CommandError::new("model.configuration", format!("model {name}: {error}"))
        .with_next("check model.base_url, model.api_key, model.name and the provider's quota")
}

impl ProviderConfig {
    /// The names of the models the provider says it has; empty where it does not say.
    ///
    /// # Errors
    /// [`CommandError`] naming the setting that is wrong; inside, what the provider answered.
    pub async fn list_models(
        &self,
        env: &Env,
    ) -> Result<Result<Vec<String>, LlmError>, CommandError> {
        let client = self.client(env, "doctor")?;
        let response = tokio::time::timeout(PREFLIGHT_TIMEOUT, client.models()).await;
        Ok(response.unwrap_or(Err(LlmError::TimedOut(PREFLIGHT_TIMEOUT))))
    }
}

#[cfg(test)]
mod tests {
    use stemma_pipeline::PurposeModel;

    use super::*;

    #[test]
    fn extra_models_inherit_unset_fields() {
        let purpose = |name: &str| PurposeModel {
            name: name.into(),
            ..PurposeModel::default()
        };
        let model_settings = ModelSettings {
            name: "a".into(),
            summaries: purpose("b"),
            answers: purpose("c"),
            ..Default::default()
        };
        let provider = ProviderConfig {
            base_url: "https://one.example/v1".into(),
            api_key: "key of one".into(),
            requests_per_minute: 600,
            ..ProviderConfig::default()
        };
        let further: Vec<ExtraModel> = serde_json::from_value(serde_json::json!([
            { "name": "b", "requests_per_minute": 60 },
            { "name": "d", "base_url": "https://other.example/v1", "dialect": "anthropic" },
        ]))
        .unwrap();
        let config = Config {
            model: ModelConfig {
                settings: model_settings,
                provider,
            },
            models: further,
            ..Config::default()
        };
        let actual: Vec<_> = config
            .providers()
            .into_iter()
            .map(|(name, provider)| {
                (
                    name,
                    provider.api_key.reveal().to_string(),
                    provider.requests_per_minute,
                )
            })
            .collect();
        let expected = [
            ("a", "key of one", 600),
            ("b", "key of one", 60),
            ("c", "key of one", 600),
            ("d", "", 0),
        ];
        assert_eq!(
            actual,
            expected.map(|(name, key, limit)| (name.to_string(), key.to_string(), limit))
        );
    }
}
