//! Tree search: finding sections by walking section trees with a model, under a budget per question.
//!
//! - `llm_session`: every LLM call of a question: budget, call log, response cache; `prompt`: delimited data.
//! - [`budget`]: what a question may cost, and its usage.
//! - [`routing`]: which documents to walk; [`knowledge`]: expert rules about where answers are.
//! - [`searcher`]: from a question to sections by one of the strategies; [`result`]: sections and report.
//! - `strategies`: the ways to walk a tree, and the loop that walks it; `scoring`: the scorer that they share.
//! - [`settings`]: what a user can set.

mod analysis;
pub mod budget;
mod in_flight;
pub mod knowledge;
mod llm_session;
mod model;
mod prompt;
mod response_cache;
pub mod result;
pub mod routing;
#[cfg(test)]
mod routing_tests;
mod scoring;
#[cfg(test)]
pub(crate) mod scripted;
mod search_tree;
pub mod searcher;
mod selection;
mod session_error;
pub mod settings;
mod strategies;
#[cfg(test)]
mod tests;

pub use budget::{QuestionBudget, SessionUsage};
pub use knowledge::Knowledge;
pub use llm_session::{LlmClient, LlmClientSettings, LlmSession};
pub use model::{AnswerModel, VisionModel};
pub use prompt::Prompt;
pub use response_cache::expired_replies;
pub use result::{
    Note, TreeSearchReport, TreeSearchResult, TreeSearchStep, TreeSearchStrategy, VisitedSection,
};
pub(crate) use search_tree::one_line;
pub use searcher::{TreeSearchSources, TreeSearcher};
pub use session_error::SessionError;
pub use settings::TreeSearchSettings;
