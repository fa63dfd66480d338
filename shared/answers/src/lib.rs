//! Question answering whose every claim carries a citation that can be checked.
//!
//! An [`AskRequest`] goes to an [`Answerer`] and an [`Answer`] comes back: claims with [`Citation`]s of the pages that were read.
//! Each citation is compared with the text of its page without a model. During generation an [`EventSink`] receives
//! [`AnswerEvent`]s. Text, citations and the end are sent only after the answer is stored, so that a stream, the stored answer
//! and every interface show the same content under the same ids.
//!
//! It never marks a claim as verified that no cited page supports, never cites what the model was not shown, never takes
//! what a model reads from a picture for more than that, and never leaves
//! the scope of a question because a model or a document says so.

mod answer;
mod cached;
mod citation;
mod claims;
mod context;
mod conversations;
mod decompose;
mod describe;
mod document_scope;
mod draft_answer;
mod event;
mod final_answer;
mod generate;
mod issuers;
mod page_vision;
mod prompt;
mod request;
mod scope;
#[cfg(any(test, feature = "testing"))]
mod scripted;
mod store;
#[cfg(test)]
mod tests;
mod tools;
pub mod tree_search;

use async_trait::async_trait;
use stemma_store::{PortError, PortResult};

pub use answer::{
    Answer, AnswerOutcome, AnswerStep, Claim, ClaimFigure, Degradation, FinalAnswer,
    GenerationUsage, ReadSection, RejectedCounts, SearchSummary, SeenPage, StepKind,
    missing_sentence,
};
pub use cached::CachedAnswerer;
pub use citation::Citation;
pub use context::SectionRequest;
pub use conversations::{
    ConversationError, ConversationStore, MAX_CONVERSATION_TURNS, QuestionScope,
    StoredConversation, StoredTurn, is_conversation_id,
};
pub use describe::{FigureDescription, PageDescription, SeenValue, describe_page};
pub use event::{AnswerEvent, EventSink, text_chunks};
pub use page_vision::{PageViewer, PageVision};
pub use request::{
    AnswerLimits, AnswerMode, AskRequest, CitationPolicy, ConversationTurn, FURTHER_CALLS,
    FURTHER_TOKENS, MAX_EARLIER, MAX_QUESTION_CHARS, RetrievalStrategy,
};
#[cfg(any(test, feature = "testing"))]
pub use scripted::ScriptedAnswerer;
pub use stemma_llm::image::PageImage;
pub use stemma_verify::{CitedRect, ClaimState, QuoteMatch};
pub use store::{AnswerStore, orphaned_answers};
pub use tools::{ToolCall, ToolReply, ToolSet};

use stemma_retrieval::SearchError;

/// Answers questions over one collection.
#[async_trait]
pub trait Answerer: Send + Sync {
    /// Answers a question and sends progress to `events`. The last event is [`AnswerEvent::Done`] with the same answer, or
    /// [`AnswerEvent::Error`]. The same question over the same trees, settings and knowledge returns the stored answer under the
    /// same id, without an LLM call.
    ///
    /// An unavailable model is not an error: the answer then lists what a search without a model found, and says so.
    ///
    /// # Errors
    /// [`AnswerError`] when there are no documents to answer from, or the store or index cannot be read.
    async fn answer(
        &self,
        question: &AskRequest,
        events: &mut dyn EventSink,
    ) -> Result<Answer, AnswerError>;

    /// Checks a question without answering it, by the rules of [`Answerer::answer`].
    ///
    /// # Errors
    /// [`AnswerError::Question`] when it is empty, too long, or asks for more than an answer may cost.
    fn check(&self, question: &AskRequest) -> Result<(), AnswerError> {
        question.check(&AnswerLimits::MAX)
    }

    /// The id under which a complete answer over the current trees is stored. A degraded answer gets another id.
    ///
    /// # Errors
    /// `PortError` if the catalog cannot be read.
    fn answer_id(&self, question: &AskRequest) -> PortResult<String>;

    /// Whether this process is generating the answer with this id.
    fn is_in_flight(&self, _id: &str) -> bool {
        false
    }

    /// Sends all events of an answer that this process is generating, from the first to the last; `None` when it is not in flight.
    async fn follow(
        &self,
        _id: &str,
        _events: &mut dyn EventSink,
    ) -> Option<Result<Answer, AnswerError>> {
        None
    }

    /// The stored answer with this id.
    ///
    /// # Errors
    /// [`AnswerError`] when the store cannot be read.
    async fn stored(&self, id: &str) -> Result<Option<Answer>, AnswerError>;
}

/// Why a question has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AnswerError {
    // The query cannot be searched for.
    #[error(transparent)]
    Search(#[from] SearchError),
    // The request is invalid, or cannot be answered in this scope.
    #[error("{message}")]
    Question {
        /// Stable code: `answer.request`, `answer.no_vision_model`, `answer.too_long`, `answer.limits_too_high`, `answer.no_documents`, `document.no_tree`, `locator.no_item`.
        code: &'static str,
        message: String,
    },
    #[error("the answer took longer than {seconds} s")]
    Timeout { seconds: u64 },
    /// A bug or a panic; the cause is in the log.
    #[error("the answer could not be generated")]
    Internal,
}

impl AnswerError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Search(SearchError::NoWords { .. }) => "search.no_words",
            Self::Search(SearchError::NoItem { .. }) => "search.item_unknown",
            Self::Search(SearchError::SkipTooLarge) => "search.skip_too_large",
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
