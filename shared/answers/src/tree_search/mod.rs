//! Reasoning: walking trees with a model under a budget, and the one way in which questions of people ask one.
//!
//! - [`llm_session`]: gate, call log, budget, remembered replies and fenced data behind one `ask`.
//! - [`budget`]: what a question may cost, and what it came to.
//! - [`knowledge`]: what experts know about where answers stand; [`routing`]: which documents, with a model.
//! - [`searcher`]: from a question to sections, by one of the strategies; [`result`]: what comes back, with all reasons.
//! - [`paid`]: what was paid for, and who is charged.
//! - [`settings`]: every parameter, named once.

pub mod accounted;
mod analysis;
pub mod budget;
pub mod knowledge;
mod llm_session;
mod model;
mod response_cache;
pub mod result;
pub mod routing;
#[cfg(test)]
mod routing_tests;
mod score_cache;
mod scoring;
#[cfg(test)]
pub(crate) mod scripted;
mod search_tree;
pub mod searcher;
mod selection;
pub mod settings;
mod strategies;
#[cfg(test)]
mod tests;

pub use budget::{QuestionBudget, SessionUsage};
pub use knowledge::Knowledge;
pub use llm_session::{LlmClient, LlmClientSettings, LlmSession, Prompt, SessionError};
pub use model::AnswerModel;
pub use response_cache::expired_replies;
pub use result::{Note, TreeSearchResult, TreeSearchStrategy, TreeSearchTrace};
pub use searcher::{TreeSearchSources, TreeSearcher};
pub use settings::TreeSearchSettings;
