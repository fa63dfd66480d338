//! The stages of the flow, one file each.

mod assemble;
mod codec;
mod correct;
mod cover_tags;
mod describe;
mod draft_outline;
mod extracted;
mod fact_places;
mod merge_pages;
mod outline;
mod paginate;
mod plan_page;
mod publish;
mod read_window;
mod recognize;
mod replies;
mod summarize;
mod tagged_facts;
mod text_block_tags;
mod transcribe;
mod transcript;
mod withdraw;

use stemma_document::{Source, SourceBody};
use stemma_engine::stage::Stage;

use crate::llm::LlmQuestion;

pub(crate) use assemble::Assemble;
pub(crate) use correct::Correct;
pub(crate) use describe::{Describe, DescriptionBlob, QUESTION as DESCRIBE};
pub(crate) use draft_outline::{DraftOutcome, DraftOutline, ReadWindows};
pub use extracted::{ExtractedBlobs, split_extracted};
pub(crate) use merge_pages::MergePages;
pub(crate) use outline::Outline;
pub use paginate::extract_document;
pub(crate) use paginate::{Paginate, PaginateOutcome};
pub(crate) use plan_page::LoadPlanPage;
pub(crate) use publish::Publish;
pub use publish::{publish_imported, remove_document};
pub(crate) use read_window::{QUESTION as READ_WINDOW, ReadWindow};
pub(crate) use recognize::{Recognize, RecognizeOutcome, pages_to_recognize};
pub(crate) use summarize::{QUESTION as SUMMARIZE, Summarize};
pub(crate) use transcribe::{Transcribe, page_use};
pub(crate) use withdraw::Withdraw;

/// Stages and revisions of the flow without a model, in order. Trees record them, and a document published
/// with lower ones is ingested again.
pub(crate) const REVISIONS: [(&str, u32); 3] = [
    (Paginate::NAME, Paginate::REVISION),
    (Outline::NAME, Outline::REVISION),
    (Publish::NAME, Publish::REVISION),
];

/// The stages that replace [`Outline`] if the flow asks a model.
pub(crate) const MODEL_REVISIONS: [(&str, u32); 6] = [
    (DraftOutline::NAME, DraftOutline::REVISION),
    (LoadPlanPage::NAME, LoadPlanPage::REVISION),
    (ReadWindow::NAME, ReadWindow::REVISION),
    (Summarize::NAME, Summarize::REVISION),
    (Describe::NAME, Describe::REVISION),
    (Assemble::NAME, Assemble::REVISION),
];

/// The stages between [`Paginate`] and [`Outline`] if pages are pictures.
pub(crate) const OCR_REVISIONS: [(&str, u32); 2] = [
    (Recognize::NAME, Recognize::REVISION),
    (MergePages::NAME, MergePages::REVISION),
];

/// The stage between those of [`OCR_REVISIONS`] if a model sees.
pub(crate) const VISION_REVISIONS: [(&str, u32); 1] = [(Transcribe::NAME, Transcribe::REVISION)];

/// The stages of [`OCR_REVISIONS`] if text recognition read pages of a text.
fn ocr_revisions(source: &Source) -> impl Iterator<Item = (&'static str, u32)> {
    let any_read = match &source.body {
        SourceBody::Pages(pages) => pages.iter().any(|page| page.recognition().is_some()),
        SourceBody::Lines(_) => false,
    };
    OCR_REVISIONS.into_iter().filter(move |_| any_read)
}

/// The stage that replaces [`Outline`] if a person corrected the document.
pub(crate) const CORRECTION_REVISIONS: [(&str, u32); 1] = [(Correct::NAME, Correct::REVISION)];

/// The names of all stages that lead to a tree, in the order of the flow.
pub fn names() -> Vec<&'static str> {
    let [paginate, outline, publish] = REVISIONS;
    let [recognize, merge] = OCR_REVISIONS;
    let parts = [
        &[paginate, recognize][..],
        &VISION_REVISIONS,
        &[merge],
        &[outline],
        &CORRECTION_REVISIONS,
        &MODEL_REVISIONS,
        &[publish],
    ];
    parts.concat().into_iter().map(|(name, _)| name).collect()
}

/// All questions to a model, in the order of the flow.
pub(crate) static QUESTIONS: [&LlmQuestion; 3] = [&READ_WINDOW, &SUMMARIZE, &DESCRIBE];
