//! Answers whose every claim can be clicked and checked.
//!
//! A [`AskRequest`] goes to an [`Answerer`], an [`Answer`] comes back: claims, each with [`Citation`]s of pages that were
//! read, each checked against the text of its page without a model. While it is made, a [`EventSink`] hears [`AnswerEvent`]s; those
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

mod answer;
mod cached;
mod citation;
mod claims;
mod context;
mod decompose;
mod event;
mod generate;
mod normalize;
pub mod numbers;
mod prompt;
pub mod quote;
pub mod quote_target;
mod request;
mod scope;
mod scripted;
mod store;
#[cfg(test)]
mod tests;
mod tools;
pub mod tree_search;
mod verify_claim;

use async_trait::async_trait;
use stemma_engine::PortError;

pub use answer::{
    Answer, AnswerOutcome, Claim, Degradation, GenerationUsage, ReadSection, RejectedCounts,
    SearchSummary, text_chunks,
};
pub use cached::CachedAnswerer;
pub use citation::{Citation, CitedRect, QuoteMatch};
pub use context::SectionRequest;
pub use event::{AnswerEvent, AnswerStep, EventSink, StepKind};
pub use request::{
    AnswerLimits, AnswerMode, AskRequest, CitationPolicy, ConversationTurn, MAX_EARLIER,
    MAX_QUESTION_CHARS, RetrievalStrategy,
};
pub use scripted::ScriptedAnswerer;
pub use store::{AnswerStore, orphaned_answers};
pub use tools::{ToolCall, ToolReply, ToolSet};

use stemma_retrieval::SearchError;

/// Answers questions over one collection.
#[async_trait]
pub trait Answerer: Send + Sync {
    /// Answers a question, and tells `events` of it on the way. The last event is [`AnswerEvent::Done`] with the same answer, or
    /// [`AnswerEvent::Error`]. The same question over the same trees, settings and knowledge gives the same answer under the
    /// same id, without a call of a model.
    ///
    /// A model that stays away is no error: the answer then lists what a search without a model found, and says so.
    ///
    /// # Errors
    /// [`AnswerError`] when there is nothing to answer, or the store or index could not say.
    async fn answer(
        &self,
        question: &AskRequest,
        events: &mut dyn EventSink,
    ) -> Result<Answer, AnswerError>;

    /// Whether a question can be asked here; [`Answerer::answer`] refuses the same.
    ///
    /// # Errors
    /// [`AnswerError::AskRequest`]: it is empty, too long, or asks for more than an answer may cost.
    fn check(&self, question: &AskRequest) -> Result<(), AnswerError> {
        question.check(&AnswerLimits::MAX)
    }

    /// The id under which a question is answered over the trees as they are, where the model is not away.
    fn answer_id(&self, question: &AskRequest) -> String;

    /// Whether an answer of this id is being made here.
    fn is_in_flight(&self, _id: &str) -> bool {
        false
    }

    /// Tells all that is told of the answer of this id that is being made here, from its beginning to its end; `None` where none is.
    async fn follow(
        &self,
        _id: &str,
        _events: &mut dyn EventSink,
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
    Search(#[from] SearchError),
    /// It is no question that can be asked, or not here.
    #[error("{message}")]
    Question {
        /// Stable code: `answer.request`, `answer.too_long`, `answer.limits`, `answer.no_documents`, `document.no_tree`, `locator.item`.
        code: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// It was not made in the time that answers have.
    #[error("the answer was not made within {seconds} s")]
    Timeout {
        /// How long it had.
        seconds: u64,
    },
    /// Stemma is at fault; what it met is in the log.
    #[error("the answer could not be made")]
    Internal,
}

impl AnswerError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Search(SearchError::NoWords { .. }) => "search.no_words",
            Self::Search(SearchError::NoItem { .. }) => "search.item",
            Self::Search(SearchError::SkipTooLarge) => "search.too_far",
            Self::Search(SearchError::Port(_)) => "store.unreadable",
            Self::Question { code, .. } => code,
            Self::Timeout { .. } => "answer.timeout",
            Self::Internal => "answer.failed",
        }
    }
}

impl From<PortError> for AnswerError {
    fn from(error: PortError) -> Self {
        Self::Search(error.into())
    }
}
