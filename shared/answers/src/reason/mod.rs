//! Reasoning: walking trees with a model under a budget, and the one way in which questions of people ask one.
//!
//! - [`asker`]: gate, call log, budget, remembered replies and fenced data behind one `ask`.
//! - [`budget`]: what a question may cost, and what it came to.
//! - [`knowledge`]: what experts know about where answers stand; [`routing`]: which documents, with a model.
//! - [`reasoner`]: from a question to sections, by one of the strategies; [`walked`]: what comes back, with all reasons.
//! - [`paid`]: what was paid for, and who is charged.
//! - [`settings`]: every parameter, named once.

pub mod accounted;
mod analysis;
mod asker;
pub mod budget;
mod choice;
mod judge;
pub mod knowledge;
mod memory;
mod model;
mod outline;
pub mod reasoner;
pub mod routing;
#[cfg(test)]
mod routing_tests;
#[cfg(test)]
pub(crate) mod scripted;
pub mod settings;
mod strategies;
#[cfg(test)]
mod tests;
mod verdicts;
pub mod walked;

pub use asker::{AskError, Asker, AskerSettings, Consultation, Prompt};
pub use budget::{Budget, Spent};
pub use knowledge::Knowledge;
pub use memory::forgotten;
pub use model::AnswerModel;
pub use reasoner::{Reasoner, Sources};
pub use settings::ReasonSettings;
pub use walked::{Note, Reasoning, Strategy, Walked};
