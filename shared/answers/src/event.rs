//! Progress events of an answer.

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

use super::answer::{Answer, GenerationUsage, ReadSection, SearchSummary};
use super::citation::Citation;

/// A progress event. Order: `route`, then `step`s and `section`s, then `delta`s with the
/// `citation`s they name, `usage`, `done`. `error` may come at any point and is the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum AnswerEvent {
    /// The searched scope.
    Route(SearchSummary),
    Step(AnswerStep),
    /// A section was read.
    Section(ReadSection),
    /// A piece of the text; all deltas joined are [`Answer::text`].
    Delta {
        text: String,
    },
    /// Sent before the delta that names it.
    Citation(Citation),
    Usage(GenerationUsage),
    /// The whole answer, as stored.
    Done(Box<Answer>),
    /// There is no answer.
    Error {
        code: String,
        message: String,
    },
}

impl AnswerEvent {
    /// The event's name in a stream.
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

/// A step on the way to an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerStep {
    pub kind: StepKind,
    /// A few words, without text of documents.
    pub what: String,
    /// The model's own reason; empty when no model was asked.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub thinking: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The question was split or rewritten.
    Plan,
    Search,
    /// Text was read.
    Read,
    Tool,
    /// A tool call was rejected: no such tool, or outside the scope of the question.
    Refused,
    /// The model was asked.
    Ask,
    /// Quotes and numbers were compared with pages.
    Check,
    /// The model was unavailable, or a limit was reached.
    Degrade,
}

/// Receives events. Never blocks the sender.
pub trait EventSink: Send {
    fn send(&mut self, event: AnswerEvent);
}

// Discards all events.
impl EventSink for () {
    fn send(&mut self, _: AnswerEvent) {}
}

impl EventSink for Vec<AnswerEvent> {
    fn send(&mut self, event: AnswerEvent) {
        self.push(event);
    }
}

// A closed receiver is not an error: the answer is generated to its end and stored, also after a disconnect.
impl EventSink for UnboundedSender<AnswerEvent> {
    fn send(&mut self, event: AnswerEvent) {
        if UnboundedSender::send(self, event).is_err() {
            tracing::trace!("the event receiver is closed");
        }
    }
}
