//! Clients of the configured models.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use stemma_answers::tree_search::{AnswerModel, Knowledge, LlmClientSettings, VisionModel};
use stemma_archive::Vision;
use stemma_engine::Ports;
use stemma_llm::client::ModelClient;
use stemma_llm::request::LlmError;
use stemma_pipeline::{Purpose, RunSettings};
use stemma_store::Env;
use stemma_store::limit::Limiter;

use crate::config::Config;
use crate::context::Context;
use crate::embeddings::EmbeddingClient;
use crate::error::CommandError;
use crate::output::Output;
use crate::page_images::page_images;

// How long a call may wait for its permit, in addition to the time of the call itself.
const CALL_SLACK_SECONDS: u64 = 5;

/// Clients of all models for this process, which providers see as `process`; empty if none is configured.
pub fn model_clients(
    config: &Config,
    ports: &Ports,
    process: &str,
) -> Result<Vec<Arc<ModelClient>>, CommandError> {
    config
        .providers()
        .iter()
        .map(|(name, provider)| provider.model_client(name, &ports.env, &ports.limiter, process))
        .collect()
}

/// Clients for search and answers, under limits that all users of `limiter` share.
pub struct ReadModels {
    /// `None` if no model is configured.
    pub answers: Option<AnswerModel>,
    pub embeddings: EmbeddingClient,
}

impl ReadModels {
    /// Sends no request. `process` identifies this process to the providers.
    pub fn connect(
        context: &Context,
        env: &Env,
        limiter: &Arc<dyn Limiter>,
        process: &str,
    ) -> Result<Self, CommandError> {
        let config = context.config()?;
        let cache_dir = context.cache_dir()?;
        Ok(Self {
            answers: answer_model(config, env, limiter, process)?,
            embeddings: EmbeddingClient::new(&config.embeddings, cache_dir, env, limiter, process)?,
        })
    }
}

/// The client of the model with this name; `None` if no provider is configured for it.
pub fn client_of(
    config: &Config,
    name: &str,
    env: &Env,
    limiter: &Arc<dyn Limiter>,
    process: &str,
) -> Result<Option<Arc<ModelClient>>, CommandError> {
    let mut providers = config.providers().into_iter();
    let provider = providers.find(|(candidate, _)| candidate == name);
    let client = provider.map(|(_, provider)| provider.model_client(name, env, limiter, process));
    client.transpose()
}

/// The vision model, with what draws pages for it; `None` if `vision.model` is empty or has no provider.
pub fn vision(
    context: &Context,
    env: &Env,
    limiter: &Arc<dyn Limiter>,
    process: &str,
) -> Result<Option<Arc<Vision>>, CommandError> {
    let config = context.config()?;
    let model_client = client_of(config, &config.vision.model, env, limiter, process)?;
    let Some(model_client) = model_client else {
        return Ok(None);
    };
    let model = VisionModel {
        model_client,
        settings: question_settings(config, &config.vision.model),
    };
    Ok(Some(Vision::new(env.clone(), model, page_images(context)?)))
}

// A person waits for a call of a slow model as long as the call may take.
fn question_settings(config: &Config, name: &str) -> LlmClientSettings {
    let settings = config.reason.client;
    let mut providers = config.providers().into_iter();
    let provider = providers.find(|(candidate, _)| candidate == name);
    let call_seconds = provider.map_or(0, |(_, provider)| {
        provider.endpoint.timeout_seconds + CALL_SLACK_SECONDS
    });
    LlmClientSettings {
        patience_seconds: settings.patience_seconds.max(call_seconds),
        ..settings
    }
}

fn answer_model(
    config: &Config,
    env: &Env,
    limiter: &Arc<dyn Limiter>,
    process: &str,
) -> Result<Option<AnswerModel>, CommandError> {
    let model_settings = &config.model.settings;
    let name = model_settings.name_for(Purpose::Answers);
    let Some(model_client) = client_of(config, name, env, limiter, process)? else {
        return Ok(None);
    };
    let mut settings = config.reason.clone();
    settings.client = question_settings(config, name);
    let most = model_settings.max_prompt_tokens_for(Purpose::Answers);
    settings.client.max_prompt_tokens = settings.client.max_prompt_tokens.min(most);
    let knowledge = knowledge(&settings.knowledge.files)?;
    Ok(Some(AnswerModel {
        model_client,
        settings,
        knowledge,
    }))
}

// The files of expert knowledge, by collection.
fn knowledge(
    files: &BTreeMap<String, PathBuf>,
) -> Result<BTreeMap<String, Knowledge>, CommandError> {
    files
        .iter()
        .map(|(collection, file): (&String, &PathBuf)| {
            let knowledge = std::fs::read_to_string(file)
                .map_err(|error| error.to_string())
                .and_then(|text| Knowledge::parse(&text).map_err(|error| error.to_string()))
                .map_err(|problem| {
                    let message = format!("{}: {problem}", file.display());
                    CommandError::new("config.knowledge", message)
                        .with_next("correct the file; docs/guide/search.md describes its format")
                })?;
            Ok((collection.clone(), knowledge))
        })
        .collect()
}

/// Checks before a job starts that the providers accept the key, without calling a model.
/// An unreachable provider is only noted, because it may be back when the first call is made.
pub async fn preflight(
    config: &Config,
    settings: &RunSettings,
    env: &Env,
    output: &Output,
) -> Result<(), CommandError> {
    let names = settings.model_names();
    for (name, provider) in &config.providers() {
        if !names.contains(name.as_str()) {
            continue;
        }
        match provider.list_models(env).await? {
            Ok(_) => {}
            Err(error @ LlmError::Configuration { .. }) => {
                return Err(preflight_error(name, &error));
            }
            Err(error) => {
                output.note(&format!(
                    "model {name}: {error}; continuing, as it may recover"
                ));
            }
        }
    }
    Ok(())
}

/// The error for a provider that rejects the configuration.
pub fn preflight_error(name: &str, error: &LlmError) -> CommandError {
    CommandError::new("model.configuration", format!("model {name}: {error}"))
        .with_next("check model.base_url, model.api_key, model.name and the provider's quota")
}
