//! A simulated model provider. It knows the truth about documents, and fails in the ways that a test asks
//! for.
//!
//! It serves OpenAI's chat completions and embeddings, Anthropic's messages, and the batches of both, on the loopback address. Its
//! [`Oracle`] answers from truth (sections with titles, levels and pages) and page texts. It recognizes the
//! stage by the JSON schema of the answer alone, and pages by their words. A correct answer depends on the
//! question alone.
//!
//! What an image shows is what [`Provider::add_image`] said about its bytes.
//!
//! A [`Behavior`] adds latency, limits with the headers of real providers, faulty first replies, wrong
//! answers, an outage, and obedience to injected instructions. All randomness derives from a seed and the
//! question. A [`ProviderReport`] counts the requests.
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
//! It knows nothing of Stemma's internals: it sees requests, as a real provider does.

mod answer;
mod batches;
mod behavior;
mod dialect;
mod echo;
mod embed;
pub mod http;
mod images;
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
mod truth;
mod wrong_answers;

pub use behavior::{
    Behavior, Latency, LimitHeaders, LimitMeter, Outage, Reading, ReplyFault, ReplyFaults,
    SimulatedBatches, SimulatedLimits,
};
pub use images::PromptImage;
pub use oracle::{Gold, Oracle, is_whole};
pub use provider::{Provider, Setup};
pub use question::{PromptBlock, PromptRequest, RequestStage};
pub use report::{
    BatchTotals, CallTotals, PeakMinute, ProviderReport, RequestRecord, SectionCounts,
};
pub use truth::{KnownOutline, KnownSection, Library, PageTexts};
