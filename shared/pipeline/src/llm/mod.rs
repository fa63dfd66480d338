//! Everything about asking a model: questions, prompts, batches and the outline method.
//!
//! A model has no authority. Replies are typed and bounded, and count only where the text confirms them.

mod batch;
mod batched;
mod call_log;
mod estimate;
mod llm_question;
mod outline_method;
mod prompt_text;
mod questions;
mod section_answers;
mod summaries;
mod summary_plan;
mod text_cache;
mod usage;

pub use batch::Batcher;
pub(crate) use batch::{ExpectedItem, SummaryBatch, delimit_sections};
pub(crate) use batched::BatchUse;
pub(crate) use call_log::TaskCallLog;
pub use estimate::{ModelUse, estimate_model_use, most_vision_use};
pub(crate) use llm_question::{LlmQuestion, ask, check_digest, check_size, client_for};
pub(crate) use outline_method::{outline_with_replies, plan_windows};
pub(crate) use prompt_text::{
    InputDigest, first_sentence, load_summary, part_summaries, single_line, title_digest,
    with_title,
};
pub(crate) use questions::{
    WindowHeading, WindowRef, WindowReplies, WindowReply, replies_digest, window_prompt,
};
pub(crate) use section_answers::{ReplyResult, SectionAnswers, SummaryRef};
pub(crate) use summaries::{
    DescriptionTask, MAX_PART_SUMMARIES as MAX_PARTS, SummaryAnswer, SummaryAnswers, SummaryTask,
    SummaryTree, own_stretches,
};
pub(crate) use summary_plan::{DraftBlob, ITEMS_PER_PAGE, PlanPage, SummaryPlan, plan_pages};
pub use text_cache::TextCache;
pub(crate) use usage::StageUsage;
