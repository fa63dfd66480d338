//! Everything that can be configured, with its default: named once, here and in the types it is made of.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stemma_boot::servers::Servers;
use stemma_boot::telemetry;
use stemma_coordinator::reindex::Source;
use stemma_document::Collection;
use stemma_engine::{Env, Ports, Secret};
use stemma_llm::gate::{Gate, GateSettings};
use stemma_llm::openai::{Endpoint, OpenAi};
use stemma_pipeline::prompts::Instructions;
use stemma_pipeline::{ModelSettings, Settings, StructureMode};
use stemma_query::server::QuerySettings;

use crate::context::CommandError;
use crate::prompts;

/// The configuration of Stemma. `settings` change results and are frozen with each job; the others change where and how
/// fast it is done.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// What changes results.
    #[serde(flatten)]
    pub settings: Settings,
    /// The model, where one is asked.
    pub model: Model,
    /// A folder of instructions of one's own for the questions to a model, `<stage>.md` each; empty: those built in.
    pub prompts: PathBuf,
    /// What changes speed only.
    pub local: Local,
    /// Logs and traces.
    pub telemetry: telemetry::Settings,
    /// The query server.
    pub query: QuerySettings,
    /// What messages and notifications may have indexed again: prefixes in buckets, each with its collection.
    pub sources: Vec<SourceRule>,
    /// Broker, Redis and object storage.
    #[serde(flatten)]
    pub servers: Servers,
}

impl Config {
    /// The settings as they are frozen with a job. Those of jobs that ask no model are the same whichever is configured.
    ///
    /// # Errors
    /// [`CommandError`] when they ask for a model that is not configured, or instructions cannot be taken.
    pub fn frozen(&self) -> Result<Settings, CommandError> {
        let asked = match self.settings.structure {
            StructureMode::Llm => true,
            StructureMode::Auto => self.model.is_configured(),
            StructureMode::Layout => false,
        };
        if asked && self.model.asked.name.is_empty() {
            return Err(no_model("model.name"));
        }
        let model = asked.then(|| self.model.asked.clone());
        let instructions = if asked { prompts::in_force(&self.prompts)? } else { Instructions::default() };
        Ok(Settings { model, instructions, ..self.settings.clone() })
    }
}

/// A language model: which one and how it is asked changes results; where it is and how fast it may be asked does not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Model {
    /// What changes results.
    #[serde(flatten)]
    pub asked: ModelSettings,
    /// Its provider, e.g. `https://api.openai.com/v1`; empty: no model.
    pub base_url: String,
    /// The key for it; best given as `STEMMA_MODEL__API_KEY`.
    pub api_key: Secret,
    /// Requests per minute of all workers together; 0: unknown.
    pub requests_per_minute: u32,
    /// Tokens per minute of all workers together; 0: unknown.
    pub tokens_per_minute: u32,
    /// Questions a worker has under way at once.
    pub concurrency: u16,
    /// How long one call may take, in seconds.
    pub timeout_seconds: u64,
    /// Workers that share the limits, for the time in which the shared limits are away.
    pub expected_workers: u32,
    /// How long the provider may be away before bulk work fails, in seconds.
    pub patience_seconds: u64,
    /// The same for interactive work.
    pub interactive_patience_seconds: u64,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            asked: ModelSettings::default(),
            base_url: String::new(),
            api_key: Secret::default(),
            requests_per_minute: 0,
            tokens_per_minute: 0,
            concurrency: 8,
            timeout_seconds: 120,
            expected_workers: 1,
            patience_seconds: 3_600,
            interactive_patience_seconds: 120,
        }
    }
}

impl Model {
    /// Whether there is one to ask.
    pub fn is_configured(&self) -> bool {
        !(self.asked.name.is_empty() || self.base_url.is_empty())
    }

    /// The way to the model for this process, which the provider sees as `process`; `None` where none is configured.
    ///
    /// # Errors
    /// [`CommandError`] naming the setting that is wrong.
    pub fn gate(&self, env: &Env, ports: &Ports, process: &str) -> Result<Option<Arc<Gate>>, CommandError> {
        if !self.is_configured() {
            return Ok(None);
        }
        let client = OpenAi::new(Endpoint {
            base_url: self.base_url.clone(),
            api_key: self.api_key.clone(),
            timeout: Duration::from_secs(self.timeout_seconds),
            process: process.into(),
        });
        let client = client.map_err(|error| {
            CommandError::new("config.model", format!("model.base_url: {error}")).with_next("correct model.base_url")
        })?;
        let settings = GateSettings {
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            expected_workers: self.expected_workers,
            patience: Duration::from_secs(self.patience_seconds),
            interactive_patience: Duration::from_secs(self.interactive_patience_seconds),
            ..GateSettings::unlimited(&self.asked.name, client.host())
        };
        let limiter = Arc::clone(&ports.limiter);
        Ok(Some(Arc::new(Gate::new(env.clone(), limiter, Arc::new(client), settings))))
    }
}

/// What is missing where a model is asked for.
pub fn no_model(setting: &str) -> CommandError {
    let message = format!("structure = \"llm\" needs a model, and {setting} is not set");
    CommandError::new("config.no_model", message)
        .with_next("set model.name and model.base_url (see `stemma config model`), or structure = \"auto\"")
}

/// A prefix in a bucket whose documents belong to a collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRule {
    /// The collection.
    pub collection: Collection,
    /// `s3://bucket/prefix`; keys begin with the prefix as it is written.
    pub location: String,
}

impl SourceRule {
    /// For the coordinator.
    ///
    /// # Errors
    /// What is wrong with the location.
    pub fn source(&self) -> Result<Source, String> {
        let place = self.location.strip_prefix("s3://").map(|place| place.split_once('/').unwrap_or((place, "")));
        match place {
            Some((bucket, prefix)) if !bucket.is_empty() => {
                let (bucket, prefix) = (bucket.into(), prefix.into());
                Ok(Source { collection: self.collection.clone(), bucket, prefix })
            }
            _ => Err(format!("sources: `{}` is no s3://bucket/prefix", self.location)),
        }
    }
}

/// Speed and memory of this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Local {
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
}

impl Default for Local {
    fn default() -> Self {
        Self {
            concurrency: 0,
            open_documents: 2_000,
            recycle_after_documents: 200,
            recycle_above_bytes: 200_000_000,
            memory_limit_bytes: 1 << 30,
            max_reply_bytes: 256 << 20,
            grace_seconds: 10,
        }
    }
}

impl Local {
    /// Documents worked on at once.
    pub fn concurrency(&self) -> u16 {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        if self.concurrency > 0 { self.concurrency } else { u16::try_from(cores()).unwrap_or(u16::MAX) }
    }
}

/// Unit of a setting, for `stemma config`.
pub fn unit(key: &str) -> &'static str {
    let name = key.rsplit('.').next().unwrap_or(key);
    let units = [
        ("_bytes", "bytes"),
        ("_seconds", "seconds"),
        ("_pages", "pages"),
        ("pages_per_node", "pages"),
        ("tokens_per_node", "tokens"),
        ("_tokens", "tokens"),
        ("_tokens_verbatim", "tokens"),
        ("_words", "words"),
        ("nodes_per_page", "sections per page"),
        ("accuracy", "share 0–1"),
        ("model.concurrency", "calls"),
        ("_per_minute", "per minute"),
        ("_workers", "workers"),
        ("concurrency", "documents"),
        ("documents", "documents"),
    ];
    let ends = |ending: &str| if ending.contains('.') { key.ends_with(ending) } else { name.ends_with(ending) };
    units.into_iter().find(|(ending, _)| ends(ending)).map_or("", |(_, unit)| unit)
}
