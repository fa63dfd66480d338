//! Answers whose every claim can be clicked and checked.
//!
//! A [`Question`] goes to an [`Answerer`], an [`Answer`] comes back: claims, each with [`Citation`]s of pages that were
//! read, each checked against the text of its page without a model. While it is made, a [`Sink`] hears [`Event`]s; those
//! that are part of the answer (deltas, citations, the end) are told only when it is stored, so that a stream, the stored
//! answer and every other surface say the same under the same ids.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use stemma_answers::{Answerer, Event, Question, Scripted};
//! let scripted = Scripted::default().says("capital expenditure", "It was $1,749 million [1].");
//! let mut heard: Vec<Event> = Vec::new();
//! let answer = scripted.answer(&Question::of("What was capital expenditure?"), &mut heard).await.unwrap();
//! assert_eq!(answer.text, "It was $1,749 million [1].");
//! assert_eq!(heard.last(), Some(&Event::Done(Box::new(answer))));
//! # });
//! ```
//!
//! What it refuses to do: show a claim as verified that no cited page bears out, cite what a model was not shown, or look
//! beyond the scope of a question because a model, or a document, says so.

mod citation;
mod claims;
mod compose;
mod event;
mod fold;
mod librarian;
mod making;
pub mod numbers;
mod passages;
mod plan;
mod question;
pub mod quote;
pub mod reason;
mod record;
mod scope;
mod scripted;
pub mod sheet;
mod store;
mod support;
#[cfg(test)]
mod tests;
mod tools;

use async_trait::async_trait;
use stemma_engine::PortError;

pub use citation::{Citation, CitedRect, Verified};
pub use event::{Event, Sink, Step, StepKind};
pub use librarian::Librarian;
pub use passages::Wanted;
pub use question::{
    Citations, Finding, Limits, MAX_EARLIER, MAX_QUESTION_CHARS, Mode, Question, Turn,
};
pub use record::{Answer, Claim, Degraded, Dropped, Looked, Outcome, ReadSection, Spent, pieces};
pub use scripted::Scripted;
pub use store::{Answers, unfounded};
pub use tools::{ToolCall, ToolReply, Tools};

use stemma_retrieval::FindError;

/// Answers questions over one collection.
#[async_trait]
pub trait Answerer: Send + Sync {
    /// Answers a question, and tells `events` of it on the way. The last event is [`Event::Done`] with the same answer, or
    /// [`Event::Error`]. The same question over the same trees, settings and knowledge gives the same answer under the
    /// same id, without a call of a model.
    ///
    /// A model that stays away is no error: the answer then lists what a search without a model found, and says so.
    ///
    /// # Errors
    /// [`AnswerError`] when there is nothing to answer, or the store or index could not say.
    async fn answer(
        &self,
        question: &Question,
        events: &mut dyn Sink,
    ) -> Result<Answer, AnswerError>;

    /// Whether a question can be asked here; [`Answerer::answer`] refuses the same.
    ///
    /// # Errors
    /// [`AnswerError::Question`]: it is empty, too long, or asks for more than an answer may cost.
    fn check(&self, question: &Question) -> Result<(), AnswerError> {
        question.check(&Limits::MOST)
    }

    /// The id under which a question is answered over the trees as they are, where the model is not away.
    fn id_of(&self, question: &Question) -> String;

    /// Whether an answer of this id is being made here.
    fn is_making(&self, _id: &str) -> bool {
        false
    }

    /// Tells all that is told of the answer of this id that is being made here, from its beginning to its end; `None` where none is.
    async fn follow(
        &self,
        _id: &str,
        _events: &mut dyn Sink,
    ) -> Option<Result<Answer, AnswerError>> {
        None
    }

    /// The stored answer of this id; `None` where there is none.
    ///
    /// # Errors
    /// [`AnswerError`] when the store could not say.
    async fn stored(&self, id: &str) -> Result<Option<Answer>, AnswerError>;
}

/// Why there is no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AnswerError {
    /// The question cannot be looked for.
    #[error(transparent)]
    Find(#[from] FindError),
    /// It is no question that can be asked, or not here.
    #[error("{message}")]
    Question {
        /// Stable code: `answer.question`, `answer.too_long`, `answer.limits`, `answer.no_documents`, `document.no_tree`, `locator.item`.
        code: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// It was not made in the time that answers have.
    #[error("the answer was not made within {seconds} s")]
    Late {
        /// How long it had.
        seconds: u64,
    },
    /// Stemma is at fault; what it met is in the log.
    #[error("the answer could not be made")]
    Broken,
}

impl AnswerError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Find(FindError::NoWords { .. }) => "search.no_words",
            Self::Find(FindError::Item { .. }) => "search.item",
            Self::Find(FindError::TooFar) => "search.too_far",
            Self::Find(FindError::Port(_)) => "store.unreadable",
            Self::Question { code, .. } => code,
            Self::Late { .. } => "answer.timeout",
            Self::Broken => "answer.failed",
        }
    }
}

impl From<PortError> for AnswerError {
    fn from(error: PortError) -> Self {
        Self::Find(error.into())
    }
}
