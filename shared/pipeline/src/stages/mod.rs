//! The steps of the walk, one file each.

mod assemble;
mod describe;
mod detect_toc;
mod draft_outline;
mod locate;
mod outline;
mod paginate;
mod plan_page;
mod publish;
mod read_contents;
mod read_window;
mod repair;
mod summarize;
mod verify_title;
mod withdraw;

use stemma_engine::stage::Stage;

use crate::llm::LlmQuestion;

pub use assemble::Assemble;
pub use describe::Describe;
pub(crate) use describe::DescriptionBlob;
pub use detect_toc::DetectToc;
pub use draft_outline::{DraftOutcome, DraftOutline};
pub use locate::Locate;
pub use outline::Outline;
pub use paginate::{Paginate, extract_document};
pub use plan_page::LoadPlanPage;
pub use publish::{Publish, publish_imported, remove_document};
pub(crate) use publish::{PublishOutcome, publish_outcome};
pub use read_contents::ReadContents;
pub use read_window::ReadWindow;
pub use repair::Repair;
pub use summarize::Summarize;
pub use verify_title::VerifyTitle;
pub use withdraw::Withdraw;

/// The stages of the flow without a model with their revisions, in order: what a tree records of how it was made, and what makes a document
/// published under lower ones be indexed again.
pub(crate) const REVISIONS: [(&str, u32); 3] = [
    (Paginate::NAME, Paginate::REVISION),
    (Outline::NAME, Outline::REVISION),
    (Publish::NAME, Publish::REVISION),
];

/// The stages that the flow has in the place of [`Outline`] where it asks a model.
pub(crate) const MODEL_REVISIONS: [(&str, u32); 11] = [
    (DraftOutline::NAME, DraftOutline::REVISION),
    (LoadPlanPage::NAME, LoadPlanPage::REVISION),
    (DetectToc::NAME, DetectToc::REVISION),
    (ReadContents::NAME, ReadContents::REVISION),
    (ReadWindow::NAME, ReadWindow::REVISION),
    (Locate::NAME, Locate::REVISION),
    (VerifyTitle::NAME, VerifyTitle::REVISION),
    (Repair::NAME, Repair::REVISION),
    (Summarize::NAME, Summarize::REVISION),
    (Describe::NAME, Describe::REVISION),
    (Assemble::NAME, Assemble::REVISION),
];

/// The questions that are asked of a model, in the order of the walk.
pub(crate) static QUESTIONS: [&LlmQuestion; 8] = [
    &detect_toc::QUESTION,
    &read_contents::QUESTION,
    &read_window::QUESTION,
    &locate::QUESTION,
    &verify_title::QUESTION,
    &repair::QUESTION,
    &summarize::QUESTION,
    &describe::QUESTION,
];
