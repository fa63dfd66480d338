//! What is told of an answer while it is made.

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

use super::answer::{Answer, GenerationUsage, ReadSection, SearchSummary};
use super::citation::Citation;

/// What is told of an answer while it is made, in the order: `route`, then `step`s and `section`s, then `delta`s with the
/// `citation`s they name, `usage`, `done`. Or, at any point, `error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum AnswerEvent {
    /// Where is looked.
    Route(SearchSummary),
    /// Something was done.
    Step(AnswerStep),
    /// A section was read.
    Section(ReadSection),
    /// More of the text; all of them together are [`Answer::text`].
    Delta {
        /// The text.
        text: String,
    },
    /// A citation, checked; before the delta that names it.
    Citation(Citation),
    /// What the answer took to make.
    Usage(GenerationUsage),
    /// The whole answer, as it is stored.
    Done(Box<Answer>),
    /// There is no answer.
    Error {
        /// Stable code.
        code: String,
        /// One sentence.
        message: String,
    },
}

impl AnswerEvent {
    /// The name of the event in a stream.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Route(_) => "route",
            Self::Step(_) => "step",
            Self::Section(_) => "section",
            Self::Delta { .. } => "delta",
            Self::Citation(_) => "citation",
            Self::Usage(_) => "usage",
            Self::Done(_) => "done",
            Self::Error { .. } => "error",
        }
    }
}

/// Something that was done on the way to an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerStep {
    /// What was done.
    pub kind: StepKind,
    /// In a few words, without text of documents.
    pub what: String,
    /// What the model said about why, in its words; empty where no model was asked.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub thinking: String,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The question was divided.
    Plan,
    /// Sections were looked for.
    Search,
    /// Text was read.
    Read,
    /// A tool was called.
    Tool,
    /// A tool was asked for that is not allowed, or lies beyond the scope of the question.
    Refused,
    /// The model was asked.
    Ask,
    /// Quotes and numbers were compared with pages.
    Check,
    /// The model stayed away, or a limit was reached.
    Degrade,
}

/// Hears of events; never slows down who tells.
pub trait EventSink: Send {
    /// Hears of an event.
    fn send(&mut self, event: AnswerEvent);
}

/// Hears nothing.
impl EventSink for () {
    fn send(&mut self, _: AnswerEvent) {}
}

/// Keeps all.
impl EventSink for Vec<AnswerEvent> {
    fn send(&mut self, event: AnswerEvent) {
        self.push(event);
    }
}

/// Passes on for as long as someone listens: an answer is made to its end all the same, for it is stored.
impl EventSink for UnboundedSender<AnswerEvent> {
    fn send(&mut self, event: AnswerEvent) {
        if UnboundedSender::send(self, event).is_err() {
            tracing::trace!("no one listens any more");
        }
    }
}
