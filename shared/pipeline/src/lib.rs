//! The walk of a document: from a claimed version to a published tree.
//!
//! `filing_flow` is the walk on one screen; each file in [`stages`] is one step; [`structure`] finds the sections without a
//! model; [`sections`] finishes them; [`llm`] asks one; [`items`] maps the Items of a form onto them. [`FilingFlow`] ties them to the engine.
//!
//! To add a stage: one file in `stages/`, one line in `stages/mod.rs`, one line in [`worker_registry`].
//!
//! What it refuses to do: publish a tree that was not verified (it does not compile), let a name become a store path,
//! or let a stage touch the world except through its task.

pub mod external_metadata;
mod filing_flow;
pub mod gc;
pub mod llm;
mod notify;
pub mod prompts;
mod settings;
pub mod sources;
pub mod stages;
mod versions;

use std::collections::BTreeMap;
use std::sync::Arc;

use stemma_engine::jobs::BudgetRegistry;
use stemma_engine::stage::{StageRegistry, Work};
use stemma_extract::Extractor;

pub use settings::{
    ModelSettings, OnModelFailure, Purpose, PurposeModel, RunSettings, StructureMode,
};
pub use stemma_llm::client::ModelClient;
pub use versions::{Submission, has_open_run, header_key, run_id};

use crate::llm::{Batcher, TextCache};
use crate::sources::SourceStore;

/// The work Stemma does: turning filings into section trees.
pub struct FilingFlow;

impl Work for FilingFlow {
    type Settings = RunSettings;
    type Tools = WorkerDeps;
}

/// What stages use to touch the world beside the ports: local to a worker, never part of a key.
pub struct WorkerDeps {
    /// Where the bytes of documents come from.
    pub sources: Arc<dyn SourceStore>,
    /// What reads hostile bytes.
    pub extractor: Arc<dyn Extractor>,
    /// Tried on encrypted documents that the empty password does not open; never stored.
    pub password: Option<Password>,
    /// The ways to the models that are configured, by the model's name.
    pub models: BTreeMap<String, Arc<ModelClient>>,
    /// Who pays for questions.
    pub budgets: Arc<BudgetRegistry>,
    /// Text at hand for the questions to a model.
    pub text_cache: TextCache,
    /// Sections that travel to a model together.
    pub batcher: Batcher,
}

impl WorkerDeps {
    /// Tools without a password and without models.
    pub fn new(sources: Arc<dyn SourceStore>, extractor: Arc<dyn Extractor>) -> Self {
        let (models, budgets, text_cache, batcher) = Default::default();
        Self {
            sources: sources,
            extractor,
            password: None,
            models,
            budgets: budgets,
            text_cache: text_cache,
            batcher: batcher,
        }
    }

    /// The same with a password.
    #[must_use]
    pub fn with_password(self, password: Option<Password>) -> Self {
        Self { password, ..self }
    }

    /// The same with ways to models.
    #[must_use]
    pub fn with_models(self, clients: impl IntoIterator<Item = Arc<ModelClient>>) -> Self {
        let models = clients
            .into_iter()
            .map(|client| (client.model().to_string(), client))
            .collect();
        Self { models, ..self }
    }
}

/// A password: without `Debug` and `Serialize`, so that it cannot reach a log or a store by accident.
pub struct Password(pub String);

/// The stages of the worker.
pub fn worker_registry() -> StageRegistry<FilingFlow> {
    StageRegistry::default()
        .with_stage::<stages::Paginate>()
        .with_stage::<stages::Outline>()
        .with_stage::<stages::DetectToc>()
        .with_stage::<stages::DraftOutline>()
        .with_stage::<stages::LoadPlanPage>()
        .with_stage::<stages::ReadContents>()
        .with_stage::<stages::ReadWindow>()
        .with_stage::<stages::Locate>()
        .with_stage::<stages::VerifyTitle>()
        .with_stage::<stages::Repair>()
        .with_stage::<stages::Summarize>()
        .with_stage::<stages::Describe>()
        .with_stage::<stages::Assemble>()
}

/// The stages of the assembler: the only ones that write trees and change records.
pub fn assembler_registry() -> StageRegistry<FilingFlow> {
    StageRegistry::default()
        .with_stage::<stages::Publish>()
        .with_stage::<stages::Withdraw>()
}
