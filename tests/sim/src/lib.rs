//! A simulated provider of models: it knows the truth about documents, and misbehaves as a test asks it to.
//!
//! It speaks OpenAI's chat completions and embeddings and Anthropic's messages, on the loopback address. Its [`Oracle`]
//! answers from truth (sections with titles, levels and pages) and the text of pages: it recognizes the stage by the JSON
//! schema of the answer alone, and the page by its words. A good answer depends on nothing but the question.
//!
//! A [`Behavior`] says what else happens: latency, limits with the headers of real providers, faults of the first servings
//! of a question, lies, an outage, obedience to what a document says. Everything that chance decides follows from a seed and
//! from the question. A [`ProviderReport`] counts what was asked.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use stemma_sim::{Behavior, Provider};
//! let behavior = Behavior { lies: 0.2, ..Behavior::default() };
//! let provider = Provider::start(behavior).await.unwrap();
//! assert!(provider.base_url("worker").ends_with("/worker/v1"));
//! assert_eq!(provider.report().calls, 0);
//! # });
//! ```
//!
//! What it refuses to do: know how Stemma works inside. It sees requests, as a provider does.

mod answer;
mod behavior;
mod dialect;
mod echo;
mod embed;
pub mod http;
mod injection;
mod limits;
mod malformed;
mod oracle;
pub mod pages;
mod provider;
mod question;
mod report;
mod seeded;
mod titles;
mod toc;
mod truth;
mod wrong_answers;

pub use behavior::{
    Behavior, Latency, LimitHeaders, LimitMeter, Outage, ReplyFault, ReplyFaults, SimulatedLimits,
    TocReading,
};
pub use oracle::{Gold, Oracle, is_whole};
pub use provider::{Provider, Setup};
pub use question::{PromptBlock, PromptRequest, RequestStage};
pub use report::{CallTotals, PeakMinute, ProviderReport, RequestRecord, SectionCounts};
pub use truth::{KnownOutline, KnownSection, Library, PageTexts};
