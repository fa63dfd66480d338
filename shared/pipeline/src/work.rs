//! The type of work for the engine, and the dependencies that workers bring.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use stemma_engine::jobs::BudgetRegistry;
use stemma_engine::stage::{TaskContext, Work};
use stemma_extract::Extractor;
use stemma_llm::client::ModelClient;

use crate::llm::{Batcher, TextCache};
use crate::settings::RunSettings;
use crate::sources::SourceStore;

/// The work of Stemma: turning filings into section trees.
pub struct FilingFlow;

impl Work for FilingFlow {
    type Settings = RunSettings;
    type Tools = WorkerDeps;
}

/// A running stage of this work.
pub(crate) type FilingTask<'a> = TaskContext<'a, FilingFlow>;

/// Dependencies of stages besides the ports. They are local to a worker and never part of a key.
pub struct WorkerDeps {
    pub sources: Arc<dyn SourceStore>,
    /// Parses untrusted documents.
    pub extractor: Arc<dyn Extractor>,
    /// Tried on encrypted documents that the empty password does not open. Never stored.
    pub password: Option<Password>,
    /// Clients of the configured models, by model name.
    pub models: BTreeMap<String, Arc<ModelClient>>,
    pub budgets: Arc<BudgetRegistry>,
    pub text_cache: TextCache,
    pub batcher: Batcher,
    pub read_progress: Arc<ReadProgress>,
}

/// How much this process has read of its documents, for progress displays.
#[derive(Debug, Default)]
pub struct ReadProgress {
    pub pages: AtomicU64,
    /// Sizes of the files.
    pub bytes: AtomicU64,
}

impl WorkerDeps {
    /// Dependencies without a password and without models.
    pub fn new(sources: Arc<dyn SourceStore>, extractor: Arc<dyn Extractor>) -> Self {
        let (models, budgets, text_cache, batcher, read_progress) = Default::default();
        Self {
            sources,
            extractor,
            password: None,
            models,
            budgets,
            text_cache,
            batcher,
            read_progress,
        }
    }

    #[must_use]
    pub fn with_password(self, password: Option<Password>) -> Self {
        Self { password, ..self }
    }

    #[must_use]
    pub fn with_models(self, clients: impl IntoIterator<Item = Arc<ModelClient>>) -> Self {
        let models = clients
            .into_iter()
            .map(|client| (client.model().to_string(), client))
            .collect();
        Self { models, ..self }
    }
}

/// Has neither `Debug` nor `Serialize`, so that it cannot reach a log or a store by accident.
pub struct Password(pub String);
