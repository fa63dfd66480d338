//! Progress events of an answer, and the events that a stored answer sends again.

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

use super::answer::{Answer, AnswerStep, GenerationUsage, ReadSection, SearchSummary};
use super::citation::Citation;

// Approximate characters of one text delta.
const CHUNK_CHARS: usize = 80;

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

impl Answer {
    /// All events of the answer, in their original order: the position of an event in a stream never changes.
    pub fn events(&self) -> Vec<AnswerEvent> {
        let mut events = Vec::new();
        self.replay(&mut events);
        events
    }

    // Sends all events of the answer again.
    pub(super) fn replay(&self, events: &mut dyn EventSink) {
        events.send(AnswerEvent::Route(self.searched.without_names()));
        for (index, step) in self.steps.iter().enumerate() {
            events.send(AnswerEvent::Step(step.clone()));
            for section in self.sections.iter().filter(|section| section.step == index) {
                events.send(AnswerEvent::Section(ReadSection {
                    cited: false,
                    ..section.clone()
                }));
            }
        }
        self.send_content(events);
    }

    // Sends the stored content: text deltas, each citation before the first delta that names it, usage, and the whole answer.
    pub(super) fn send_content(&self, events: &mut dyn EventSink) {
        let mut sent_citations: Vec<&str> = Vec::new();
        for piece in text_chunks(&self.text) {
            for citation in &self.citations {
                if piece.contains(&format!("[{}]", citation.id))
                    && !sent_citations.contains(&citation.id.as_str())
                {
                    sent_citations.push(&citation.id);
                    events.send(AnswerEvent::Citation(citation.clone()));
                }
            }
            events.send(AnswerEvent::Delta {
                text: piece.to_owned(),
            });
        }
        // Citations that the text does not name still belong to the answer.
        for citation in &self.citations {
            if !sent_citations.contains(&citation.id.as_str()) {
                events.send(AnswerEvent::Citation(citation.clone()));
            }
        }
        events.send(AnswerEvent::Usage(self.usage));
        events.send(AnswerEvent::Done(Box::new(self.clone())));
    }
}

/// Splits a text into deltas that end after a space; joined, they are the text.
pub fn text_chunks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let far = rest
            .char_indices()
            .nth(CHUNK_CHARS)
            .map_or(rest.len(), |(at, _)| at);
        let end = rest[far..]
            .find(' ')
            .map_or(rest.len(), |space| far + space + 1);
        let (piece, tail) = rest.split_at(end);
        rest = tail;
        (!piece.is_empty()).then_some(piece)
    })
}
