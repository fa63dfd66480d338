//! The stages of the flow, one file each.

mod assemble;
mod codec;
mod correct;
mod describe;
mod detect_toc;
mod draft_outline;
mod locate;
mod outline;
mod paginate;
mod plan_page;
mod publish;
mod question_stage;
mod read_contents;
mod read_window;
mod repair;
mod replies;
mod summarize;
mod verify_title;
mod withdraw;

use stemma_engine::stage::Stage;

use crate::llm::LlmQuestion;

pub(crate) use assemble::Assemble;
pub(crate) use correct::Correct;
pub(crate) use describe::{Describe, DescriptionBlob};
pub(crate) use detect_toc::{DetectToc, DetectTocQuestion};
pub(crate) use draft_outline::{DraftOutcome, DraftOutline};
pub(crate) use locate::{Locate, LocateQuestion};
pub(crate) use outline::Outline;
pub(crate) use paginate::Paginate;
pub use paginate::extract_document;
pub(crate) use plan_page::LoadPlanPage;
pub(crate) use publish::Publish;
pub use publish::{publish_imported, remove_document};
pub(crate) use question_stage::{Question, QuestionStage};
pub(crate) use read_contents::{ReadContents, ReadContentsQuestion};
pub(crate) use read_window::{ReadWindow, ReadWindowQuestion};
pub(crate) use repair::{Repair, RepairQuestion};
pub(crate) use summarize::Summarize;
pub(crate) use verify_title::{VerifyTitle, VerifyTitleQuestion};
pub(crate) use withdraw::Withdraw;

/// Stages and revisions of the flow without a model, in order. Trees record them, and a document published
/// with lower ones is ingested again.
pub(crate) const REVISIONS: [(&str, u32); 3] = [
    (Paginate::NAME, Paginate::REVISION),
    (Outline::NAME, Outline::REVISION),
    (Publish::NAME, Publish::REVISION),
];

/// The stages that replace [`Outline`] if the flow asks a model.
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

/// The stage that replaces [`Outline`] if a person corrected the document.
pub(crate) const CORRECTION_REVISIONS: [(&str, u32); 1] = [(Correct::NAME, Correct::REVISION)];

/// All questions to a model, in the order of the flow.
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
