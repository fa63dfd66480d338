//! All settings with their defaults.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stemma_answers::tree_search::TreeSearchSettings;
use stemma_archive::AnswerSettings;
use stemma_boot::backends::BackendConfig;
use stemma_boot::telemetry;
use stemma_document::Collection;
use stemma_gateway::settings::QuerySettings;
use stemma_pipeline::prompts::Instructions;
use stemma_pipeline::{OcrMode, RunSettings, StructureMode, VisionSettings};
use stemma_retrieval::index::shard::ShardCount;
use stemma_roles::coordinator::reindex::ReindexSource;

use crate::embeddings::EmbeddingsConfig;
use crate::error::CommandError;
use crate::models::{ExtraModel, ModelConfig, ProviderConfig};
use crate::prompts;

/// The configuration of Stemma. `settings` change results and are stored with each job; the others change where and how
/// fast work runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    #[serde(flatten)]
    pub settings: RunSettings,
    /// The model, if one is used.
    pub model: ModelConfig,
    /// Further models, each with its name and where it differs from `model`.
    pub models: Vec<ExtraModel>,
    /// The vision model. It uses the provider of `model`, or of an entry of `models`.
    pub vision: VisionSettings,
    pub embeddings: EmbeddingsConfig,
    /// A folder with custom prompts, `<stage>.md` each; empty: the built-in prompts.
    pub prompts: PathBuf,
    /// How questions are answered with a model.
    pub reason: TreeSearchSettings,
    /// Limits on the cost of an answer, for all clients.
    pub answer: AnswerSettings,
    pub local: LocalConfig,
    pub telemetry: telemetry::TelemetrySettings,
    pub query: QuerySettings,
    /// Bucket prefixes that reindex messages may name, each with its collection.
    pub sources: Vec<SourceRule>,
    /// Broker, Redis and object storage.
    #[serde(flatten)]
    pub servers: BackendConfig,
}

impl Config {
    /// The settings stored with a job. A job without a model does not record the configured one.
    pub fn job_settings(&self) -> Result<RunSettings, CommandError> {
        let uses_model = match self.settings.structure {
            StructureMode::Llm => true,
            StructureMode::Auto => self.model.is_configured(),
            StructureMode::Layout => false,
        };
        if uses_model && self.model.settings.name.is_empty() {
            return Err(no_model("model.name"));
        }
        // On a cluster only workers need the address.
        if uses_model && !self.model.is_configured() && !self.servers.is_cluster() {
            return Err(no_model("model.base_url"));
        }
        let uses_vision = !self.vision.model.is_empty() && self.settings.ocr.mode != OcrMode::Never;
        if uses_vision
            && !self.servers.is_cluster()
            && !self
                .providers()
                .iter()
                .any(|(name, _)| *name == self.vision.model)
        {
            let message = "vision.model names a model whose provider has no address";
            return Err(CommandError::new("config.no_model", message)
                .with_next("set model.base_url, or base_url of an entry of models"));
        }
        Ok(RunSettings {
            model: uses_model.then(|| self.model.settings.clone()),
            vision: uses_vision.then(|| self.vision.clone()),
            instructions: match uses_model {
                true => prompts::load(&self.prompts)?,
                false => Instructions::default(),
            },
            ..self.settings.clone()
        })
    }

    /// Every model with its provider: if `[model]` is configured, the model of each purpose and those in `[[models]]`; the
    /// vision model, if its provider has an address.
    pub fn providers(&self) -> Vec<(String, ProviderConfig)> {
        let mut names = BTreeSet::new();
        if self.model.is_configured() {
            names.extend(self.model.settings.names());
            names.extend(self.models.iter().map(|model| model.name.as_str()));
        }
        names.extend(Some(self.vision.model.as_str()).filter(|name| !name.is_empty()));
        let mut provided = Vec::new();
        for name in names {
            let provider = match self.models.iter().find(|model| model.name == name) {
                Some(model) => model.provider(&self.model.provider),
                None => self.model.provider.clone(),
            };
            if !provider.endpoint.base_url.is_empty() {
                provided.push((name.to_owned(), provider));
            }
        }
        provided
    }
}

// The error for a job that needs a model while none is configured.
fn no_model(setting: &str) -> CommandError {
    let message = format!("structure = \"llm\" needs a model, but {setting} is not set");
    CommandError::new("config.no_model", message).with_next(
        "set model.name and model.base_url (see `stemma config model`), or structure = \"auto\"",
    )
}

/// A prefix in a bucket whose documents belong to a collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRule {
    pub collection: Collection,
    /// `s3://bucket/prefix`; keys begin with the prefix as it is written.
    pub location: String,
}

impl SourceRule {
    pub fn source(&self) -> Result<ReindexSource, String> {
        let place = self.location.strip_prefix("s3://");
        match place.map(|place| place.split_once('/').unwrap_or((place, ""))) {
            Some((bucket, prefix)) if !bucket.is_empty() => Ok(ReindexSource {
                collection: self.collection.clone(),
                bucket: bucket.into(),
                prefix: prefix.into(),
            }),
            _ => Err(format!(
                "sources: `{}` is not of the form s3://bucket/prefix",
                self.location
            )),
        }
    }
}

/// Speed and memory of this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LocalConfig {
    /// Documents read or structured at once; 0: one per core.
    pub concurrency: u16,
    /// Runs a coordinator holds open at once.
    pub open_documents: usize,
    /// Documents after which an extraction child is replaced.
    pub recycle_after_documents: u32,
    /// Resident memory of an extraction child above which it is replaced, in bytes.
    pub recycle_above_bytes: u64,
    /// Address space of an extraction child, in bytes.
    pub memory_limit_bytes: u64,
    /// Largest reply of an extraction child, in bytes.
    pub max_reply_bytes: u64,
    /// How long work in progress may go on after an interrupt, in seconds.
    pub grace_seconds: u64,
    /// Shards of the search index, a power of two: machines that share snapshots have the same number.
    pub index_shards: ShardCount,
    /// The ONNX file of the model whose digest `ocr.second_reader` names; empty: this machine has none.
    pub second_reader: PathBuf,
}

impl Default for LocalConfig {
    fn default() -> Self {
        Self {
            concurrency: 0,
            open_documents: 2_000,
            recycle_after_documents: 200,
            recycle_above_bytes: 200_000_000,
            memory_limit_bytes: 1 << 30,
            max_reply_bytes: 256 << 20,
            grace_seconds: 10,
            index_shards: ShardCount::default(),
            second_reader: PathBuf::new(),
        }
    }
}

impl LocalConfig {
    /// Documents worked on at once.
    pub fn concurrency(&self) -> u16 {
        match self.concurrency {
            0 => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                u16::try_from(cores).unwrap_or(u16::MAX)
            }
            concurrency => concurrency,
        }
    }
}

/// Unit of a setting, for `stemma config`.
pub fn unit(key: &str) -> &'static str {
    let name = key.rsplit('.').next().unwrap_or(key);
    let units = [
        ("_bytes", "bytes"),
        ("_seconds", "seconds"),
        ("answer.seconds", "seconds"),
        ("_pages", "pages"),
        ("pages_per_node", "pages"),
        ("tokens_per_node", "tokens"),
        ("_tokens", "tokens"),
        ("_tokens_verbatim", "tokens"),
        ("_words", "words"),
        ("nodes_per_page", "sections per page"),
        ("min_accuracy", "share 0–1"),
        ("model.concurrency", "calls"),
        ("_per_minute", "per minute"),
        ("_workers", "workers"),
        ("concurrency", "documents"),
        ("documents", "documents"),
    ];
    units
        .into_iter()
        .find(|(ending, _)| {
            let text = if ending.contains('.') { key } else { name };
            text.ends_with(ending)
        })
        .map_or("", |(_, unit)| unit)
}

#[cfg(test)]
mod tests {
    use stemma_pipeline::{ModelSettings, PurposeModel};

    use super::*;
    use crate::endpoint::EndpointConfig;

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
            endpoint: EndpointConfig {
                base_url: "https://one.example/v1".into(),
                api_key: "key of one".into(),
                requests_per_minute: 600,
                ..EndpointConfig::default()
            },
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
                    provider.endpoint.api_key.reveal().to_string(),
                    provider.endpoint.requests_per_minute,
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

    #[test]
    fn a_model_that_sees_needs_no_other_model() {
        let config = |models: serde_json::Value| Config {
            vision: VisionSettings { model: "v".into() },
            models: serde_json::from_value(models).unwrap(),
            ..Config::default()
        };
        let own = serde_json::json!([{ "name": "v", "base_url": "https://v.example/v1" }]);
        let providers = config(own).providers();
        assert_eq!((providers.len(), providers[0].0.as_str()), (1, "v"));
        let none = config(serde_json::json!([]));
        assert_eq!(none.providers(), []);
        let error = none.job_settings().unwrap_err();
        assert_eq!(error.code, "config.no_model");
    }
}
