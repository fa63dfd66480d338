//! Turns filings into section trees: the flow of a document from a claimed version to a published tree.
//!
//! `filing_flow` is the flow, `llm_flow` its part that asks a model. Each file in [`stages`] is one stage,
//! and `llm` holds prompts, questions and the outline method. The pure rules are in `stemma_outline`.
//! [`FilingFlow`] connects all this with the engine.
//!
//! To add a stage: one file in `stages/`, one line in `stages/mod.rs`, one line in [`worker_registry`].
//!
//! Not possible here: publishing a tree that was not verified (this does not compile), using a name as a store
//! path, and side effects of a stage except through its task.

mod batches;
mod changes;
pub mod corrections;
mod external_metadata;
pub mod filing_facts;
mod filing_flow;
pub mod filing_folders;
pub mod gc;
mod llm;
mod llm_flow;
mod notify;
mod ocr_flow;
pub mod prompts;
mod settings;
pub mod sources;
pub mod stages;
mod versions;
mod work;

use stemma_engine::stage::StageRegistry;

pub use batches::{BatchSettings, run_batches};
pub use llm::{Batcher, ModelUse, TextCache, estimate_model_use, most_vision_use};
pub use settings::{
    ModelSettings, OcrMode, OcrSettings, OnModelFailure, Purpose, PurposeModel, RunSettings,
    StructureMode, VisionSettings,
};
pub use stemma_llm::client::ModelClient;
pub use versions::{CorrectionChange, FollowedObject, SeenObject, Submission, run_id, run_ref};
pub(crate) use work::FilingTask;
pub use work::{FilingFlow, Password, ReadProgress, WorkerDeps};

/// The stages that workers run.
pub fn worker_registry() -> StageRegistry<FilingFlow> {
    StageRegistry::default()
        .with_stage::<stages::Paginate>()
        .with_stage::<stages::Recognize>()
        .with_stage::<stages::Transcribe>()
        .with_stage::<stages::MergePages>()
        .with_stage::<stages::Outline>()
        .with_stage::<stages::Correct>()
        .with_stage::<stages::DraftOutline>()
        .with_stage::<stages::LoadPlanPage>()
        .with_stage::<stages::ReadWindow>()
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
