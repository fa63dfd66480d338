//! The walk of a document: from a claimed version to a published tree.
//!
//! `flow` is the walk on one screen; each file in [`stages`] is one step; [`structure`] finds the sections without a
//! model; [`sections`] finishes them; [`model`] asks one; [`items`] maps the Items of a form onto them. [`Filings`] ties them to the engine.
//!
//! To add a stage: one file in `stages/`, one line in `stages/mod.rs`, one line in [`registry`].
//!
//! What it refuses to do: publish a tree that was not verified (it does not compile), let a name become a store path,
//! or let a stage touch the world except through its task.

mod claim;
mod event;
mod flow;
pub mod garbage;
pub mod model;
pub mod originals;
pub mod prompts;
mod settings;
pub mod stages;
pub mod stated;

use std::collections::BTreeMap;
use std::sync::Arc;

use stemma_engine::jobs::Purses;
use stemma_engine::stage::{Registry, Work};
use stemma_extract::Extractor;

pub use claim::{Submission, header_key, in_work, run_id};
pub use settings::{ModelSettings, OnModelFailure, Purpose, PurposeModel, Settings, StructureMode};
pub use stemma_llm::gate::Gate;

use crate::model::{Packs, Texts};
use crate::originals::Originals;

/// The work Stemma does: turning filings into section trees.
pub struct Filings;

impl Work for Filings {
    type Settings = Settings;
    type Tools = Tools;
}

/// What stages use to touch the world beside the ports: local to a worker, never part of a key.
pub struct Tools {
    /// Where the bytes of documents come from.
    pub originals: Arc<dyn Originals>,
    /// What reads hostile bytes.
    pub extractor: Arc<dyn Extractor>,
    /// Tried on encrypted documents that the empty password does not open; never stored.
    pub password: Option<Password>,
    /// The ways to the models that are configured, by the model's name.
    pub models: BTreeMap<String, Arc<Gate>>,
    /// Who pays for questions.
    pub purses: Arc<Purses>,
    /// Text at hand for the questions to a model.
    pub texts: Texts,
    /// Sections that travel to a model together.
    pub packs: Packs,
}

impl Tools {
    /// Tools without a password and without models.
    pub fn new(originals: Arc<dyn Originals>, extractor: Arc<dyn Extractor>) -> Self {
        let (models, purses, texts, packs) = Default::default();
        Self {
            originals,
            extractor,
            password: None,
            models,
            purses,
            texts,
            packs,
        }
    }

    /// The same with a password.
    #[must_use]
    pub fn with_password(self, password: Option<Password>) -> Self {
        Self { password, ..self }
    }

    /// The same with ways to models.
    #[must_use]
    pub fn with_models(self, gates: impl IntoIterator<Item = Arc<Gate>>) -> Self {
        let models = gates
            .into_iter()
            .map(|gate| (gate.model().to_string(), gate))
            .collect();
        Self { models, ..self }
    }
}

/// A password: without `Debug` and `Serialize`, so that it cannot reach a log or a store by accident.
pub struct Password(pub String);

/// The stages of the worker.
pub fn registry() -> Registry<Filings> {
    Registry::default()
        .with::<stages::Paginate>()
        .with::<stages::Outline>()
        .with::<stages::DetectToc>()
        .with::<stages::DraftOutline>()
        .with::<stages::DraftPart>()
        .with::<stages::ReadContents>()
        .with::<stages::ReadWindow>()
        .with::<stages::Locate>()
        .with::<stages::VerifyTitle>()
        .with::<stages::Repair>()
        .with::<stages::Summarize>()
        .with::<stages::Describe>()
        .with::<stages::Assemble>()
}

/// The stages of the assembler: the only ones that write trees and change records.
pub fn assembler_registry() -> Registry<Filings> {
    Registry::default()
        .with::<stages::Publish>()
        .with::<stages::Withdraw>()
}
