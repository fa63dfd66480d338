//! The stages of the flow, one file each.

mod assemble;
mod codec;
mod correct;
mod cover_tags;
mod describe;
mod draft_outline;
mod extract_document;
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

use std::collections::BTreeMap;

use stemma_document::{Source, SourceBody};
use stemma_engine::stage::Stage;

use crate::llm::LlmQuestion;

pub(crate) use assemble::Assemble;
pub(crate) use correct::Correct;
pub(crate) use describe::{Describe, DescriptionBlob, QUESTION as DESCRIBE};
pub(crate) use draft_outline::{DraftOutcome, DraftOutline, ReadWindows};
pub use extract_document::extract_document;
pub use extracted::{ExtractedBlobs, split_extracted};
pub(crate) use merge_pages::MergePages;
pub(crate) use outline::Outline;
pub(crate) use paginate::{Paginate, PaginateOutcome};
pub(crate) use plan_page::LoadPlanPage;
pub(crate) use publish::Publish;
pub use publish::{publish_imported, remove_document};
pub(crate) use read_window::{QUESTION as READ_WINDOW, ReadWindow};
pub(crate) use recognize::{Recognize, RecognizeOutcome, pages_to_recognize};
pub(crate) use summarize::{QUESTION as SUMMARIZE, Summarize};
pub(crate) use transcribe::{Transcribe, page_use};
pub(crate) use withdraw::Withdraw;

/// Which trees a stage leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StageUse {
    All,
    /// Trees by rules, and by a person.
    Rules,
    /// Trees of texts with pages that text recognition read.
    Ocr,
    /// The same, if a model sees. Trees do not record it.
    Vision,
    Person,
    Model,
}

/// The stages that lead to a tree, with their revisions, in the order of the flow. Trees record them, and a document published
/// with lower ones is ingested again.
pub(crate) const STAGES: [(&str, u32, StageUse); 13] = [
    stage::<Paginate>(StageUse::All),
    stage::<Recognize>(StageUse::Ocr),
    stage::<Transcribe>(StageUse::Vision),
    stage::<MergePages>(StageUse::Ocr),
    stage::<Outline>(StageUse::Rules),
    stage::<Correct>(StageUse::Person),
    stage::<DraftOutline>(StageUse::Model),
    stage::<LoadPlanPage>(StageUse::Model),
    stage::<ReadWindow>(StageUse::Model),
    stage::<Summarize>(StageUse::Model),
    stage::<Describe>(StageUse::Model),
    stage::<Assemble>(StageUse::Model),
    stage::<Publish>(StageUse::All),
];

const fn stage<S: Stage>(used: StageUse) -> (&'static str, u32, StageUse) {
    (S::NAME, S::REVISION, used)
}

/// What a tree of a text records: the stages of `uses`, and the stages of text recognition if it read pages.
fn revisions(source: &Source, uses: &[StageUse]) -> BTreeMap<String, u32> {
    let any_read = match &source.body {
        SourceBody::Pages(pages) => pages.iter().any(|page| page.recognition().is_some()),
        SourceBody::Lines(_) => false,
    };
    STAGES
        .into_iter()
        .filter(|(_, _, used)| uses.contains(used) || (any_read && *used == StageUse::Ocr))
        .map(|(name, revision, _)| (name.to_string(), revision))
        .collect()
}

/// The names of all stages that lead to a tree, in the order of the flow.
pub fn names() -> Vec<&'static str> {
    STAGES.map(|(name, ..)| name).to_vec()
}

/// All questions to a model, in the order of the flow.
pub(crate) static QUESTIONS: [&LlmQuestion; 3] = [&READ_WINDOW, &SUMMARIZE, &DESCRIBE];
