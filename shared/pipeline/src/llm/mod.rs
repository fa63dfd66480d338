//! Everything about asking a model: questions, prompts, batches and the outline method.
//!
//! A model has no authority. Answers are typed and bounded, and choose only among what their question held.

mod answer_set;
mod batch;
mod call_log;
mod entries;
mod llm_question;
mod outline_method;
mod prompt_text;
mod questions;
mod section_answers;
mod split;
mod structure_queries;
mod summaries;
mod summary_plan;
#[cfg(test)]
mod tests;
mod text_cache;
mod toc;
mod usage;
mod verify;

pub(crate) use answer_set::{AnswerSet, empty_digest, extend_digest};
pub use batch::Batcher;
pub(crate) use batch::{SummaryBatch, delimit_sections};
pub(crate) use llm_question::{LlmQuestion, check_digest, check_size};
pub(crate) use outline_method::{OutlineRound, outline_round};
pub(crate) use prompt_text::{
    InputDigest, first_sentence, load_summary, part_summaries, single_line, title_digest,
    with_title,
};
pub(crate) use questions::{
    QuestionId, QuestionKind, QuestionRef, StructureAnswer, StructureReply, TocEntry, WindowSection,
};
pub(crate) use section_answers::{ReplyResult, SectionAnswers, SummaryRef};
pub(crate) use summaries::{
    DescriptionTask, MAX_PART_SUMMARIES as MAX_PARTS, SummaryAnswer, SummaryAnswers, SummaryTask,
    SummaryTree, own_stretches,
};
pub(crate) use summary_plan::{DraftBlob, ITEMS_PER_PAGE, PlanPage, SummaryPlan, plan_pages};
pub use text_cache::TextCache;
pub(crate) use usage::StageUsage;
