//! Answers as server-sent events, with resumption after `Last-Event-ID`.
//!
//! An event id is `{answer}.{n}.{digest}`: answer id, position from 1, and eight hexadecimal digits over all events so far.
//! Identical runs have identical ids on every server; a run that differs (the model was unavailable) has other ids from that
//! event on. A resume id from the same run continues after it; any other id restarts from event 1. So no event is skipped,
//! and runs never mix.

use std::convert::Infallible;
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream, StreamExt};
use stemma_answers::{Answer, AnswerError, AnswerEvent, Answerer, AskRequest, EventSink};
use stemma_document::Digest;
use stemma_store::Env;
use stemma_store::work::outliving;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::admission::ConcurrencyPermit;

const DIGEST_DIGITS: usize = 8;

/// The events of a new answer up to `done` or `error`. Generation continues when the client disconnects.
pub fn stream_answer(
    env: &Env,
    place: ConcurrencyPermit,
    answerer: Arc<dyn Answerer>,
    question: AskRequest,
) -> impl Stream<Item = AnswerEvent> + Send + use<> {
    let (mut events, receiver) = TerminalSink::channel();
    let answering = async move {
        let _place = place;
        let ended = answerer.answer(&question, &mut events).await;
        events.finish(ended);
    };
    drop(env.spawn(outliving(answering))); // detached: ends with the answer
    receiver
}

/// All events of an answer in progress, or of the stored answer if it finished meanwhile.
pub fn stream_in_progress(
    env: &Env,
    answerer: Arc<dyn Answerer>,
    id: String,
) -> impl Stream<Item = AnswerEvent> + Send + use<> {
    let (mut events, receiver) = TerminalSink::channel();
    let following = async move {
        let ended = match answerer.follow(&id, &mut events).await {
            Some(ended) => ended,
            None => match answerer.stored(&id).await {
                Ok(Some(answer)) => {
                    answer
                        .events()
                        .into_iter()
                        .for_each(|event| events.send(event));
                    Ok(answer)
                }
                Ok(None) => Err(AnswerError::Internal),
                Err(error) => Err(error),
            },
        };
        events.finish(ended);
    };
    drop(env.spawn(following)); // detached: ends with the answer
    receiver
}

// Forwards events, and remembers whether a terminal event was sent.
struct TerminalSink {
    sender: UnboundedSender<AnswerEvent>,
    ended: bool,
}

impl TerminalSink {
    fn channel() -> (Self, impl Stream<Item = AnswerEvent> + Send + use<>) {
        let (sender, receiver) = unbounded_channel();
        (
            Self {
                sender,
                ended: false,
            },
            stream::unfold(
                receiver,
                |mut receiver: UnboundedReceiver<AnswerEvent>| async move {
                    receiver.recv().await.map(|event| (event, receiver))
                },
            ),
        )
    }

    // Sends an error event unless the answerer sent one itself.
    fn finish(&mut self, ended: Result<Answer, AnswerError>) {
        let Err(error) = ended else { return };
        tracing::info!(%error, "question failed");
        if !self.ended {
            self.send(AnswerEvent::Error {
                code: error.code().to_owned(),
                message: public_message(&error),
            });
        }
    }
}

impl EventSink for TerminalSink {
    fn send(&mut self, event: AnswerEvent) {
        self.ended |= is_terminal(&event);
        EventSink::send(&mut self.sender, event);
    }
}

// Errors of the store may contain keys and addresses.
fn public_message(error: &AnswerError) -> String {
    if error.code() == "store.unreadable" {
        "the store cannot be read".into()
    } else {
        error.to_string()
    }
}

fn is_terminal(event: &AnswerEvent) -> bool {
    matches!(event, AnswerEvent::Done(_) | AnswerEvent::Error { .. })
}

/// An event stream that resumes after `Last-Event-ID`. A comment every 15 s keeps the connection open.
pub fn sse_response(
    id: &str,
    events: impl Stream<Item = AnswerEvent> + Send + 'static,
    headers: &HeaderMap,
) -> Response {
    let mut cursor = SseCursor::new(id, headers);
    let frames = events
        .flat_map(move |event| stream::iter(cursor.push(&event)))
        .map(Ok::<_, Infallible>);
    Sse::new(frames)
        .keep_alive(KeepAlive::default())
        .into_response()
}

/// The events of a stored answer; 204 after the last event, which stops an `EventSource` from reconnecting.
pub fn stored_response(id: &str, answer: &Answer, headers: &HeaderMap) -> Response {
    let events = answer.events();
    let mut ids = SseCursor::new(id, &HeaderMap::new());
    let end = events.iter().map(|event| ids.next_id(event)).last();
    if end.is_some() && end.as_deref() == last_event(headers) {
        return StatusCode::NO_CONTENT.into_response();
    }
    sse_response(id, stream::iter(events), headers)
}

fn last_event(headers: &HeaderMap) -> Option<&str> {
    headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok())
}

// Position in the event stream of an answer.
struct SseCursor {
    answer: String,
    number: usize,
    // Over all events so far.
    digest: String,
    // Number and id of the client's last event; `None` once the stream reached it.
    resume_from: Option<(usize, String)>,
    // Events withheld because the client has them, if its id turns out to be of this run.
    pending: Vec<Frame>,
}

impl SseCursor {
    fn new(answer: &str, headers: &HeaderMap) -> Self {
        let resume_from = last_event(headers).and_then(|id| {
            let number = id
                .strip_prefix(answer)?
                .strip_prefix('.')?
                .split('.')
                .next()?
                .parse()
                .ok()?;
            Some((number, id.to_owned()))
        });
        Self {
            answer: answer.to_owned(),
            number: 0,
            digest: String::new(),
            resume_from,
            pending: Vec::new(),
        }
    }

    fn next_id(&mut self, event: &AnswerEvent) -> String {
        self.number += 1;
        let hashed = format!(
            "{}\n{}\n{}",
            self.digest,
            event.name(),
            stable_content(event)
        );
        self.digest =
            Digest::from_content(hashed.as_bytes()).to_string()[..DIGEST_DIGITS].to_owned();
        format!("{}.{}.{}", self.answer, self.number, self.digest)
    }

    // The frames to send for this event. A terminal event is always sent, so that the stream ends properly.
    fn push(&mut self, event: &AnswerEvent) -> Vec<Frame> {
        let id = self.next_id(event);
        let met = self
            .resume_from
            .as_ref()
            .map(|(number, resume_id)| (*resume_id == id, self.number >= *number));
        self.pending.push(frame(&id, event));
        match met {
            Some((true, _)) if !is_terminal(event) => {
                self.pending.clear();
                self.resume_from = None;
            }
            Some((true, _)) => drop(self.pending.drain(..self.pending.len() - 1)),
            Some((false, false)) if !is_terminal(event) => return Vec::new(),
            _ => self.resume_from = None,
        }
        std::mem::take(&mut self.pending)
    }
}

fn frame(id: &str, event: &AnswerEvent) -> Frame {
    let data = match serde_json::to_value(event) {
        Ok(mut event) => event["data"].take(),
        Err(error) => serde_json::json!({ "code": "answer.failed", "message": error.to_string() }),
    };
    Frame::default()
        .id(id)
        .event(event.name())
        .data(data.to_string())
}

// The part of an event that is equal in every run. Usage is excluded: costs and times differ.
fn stable_content(event: &AnswerEvent) -> String {
    match event {
        AnswerEvent::Route(route) => {
            format!("{} {} {:?}", route.documents, route.sections, route.queries)
        }
        AnswerEvent::Step(step) => step.what.clone(),
        AnswerEvent::Section(section) => format!("{} {:?}", section.locator, section.pages),
        AnswerEvent::Delta { text } => text.clone(),
        AnswerEvent::Citation(citation) => {
            format!("{} {} {}", citation.id, citation.locator, citation.quote)
        }
        AnswerEvent::Usage(_) => String::new(),
        AnswerEvent::Done(answer) => answer.id.clone(),
        AnswerEvent::Error { code, .. } => code.clone(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn delta(text: &str) -> AnswerEvent {
        AnswerEvent::Delta { text: text.into() }
    }

    fn event_sequence(texts: &[&str]) -> Vec<AnswerEvent> {
        let end = AnswerEvent::Error {
            code: "answer.failed".into(),
            message: "no".into(),
        };
        texts.iter().map(|text| delta(text)).chain([end]).collect()
    }

    fn ids(answer: &str, events: &[AnswerEvent]) -> Vec<String> {
        let mut cursor = SseCursor::new(answer, &HeaderMap::new());
        events.iter().map(|event| cursor.next_id(event)).collect()
    }

    // Frames sent per event to a client whose last event was `last`.
    fn stream_answer(events: &[AnswerEvent], last: &str) -> Vec<usize> {
        let headers = HeaderMap::from_iter([(
            "last-event-id".parse().unwrap(),
            HeaderValue::from_str(last).unwrap(),
        )]);
        let mut cursor = SseCursor::new("a-1", &headers);
        events
            .iter()
            .map(|event| cursor.push(event).len())
            .collect()
    }

    #[test]
    fn streams_resume_only_after_their_own_events() {
        let good = event_sequence(&["a", "b", "c"]);
        let degraded = event_sequence(&["a", "x", "c"]);
        let own = ids("a-1", &good);
        assert_eq!(stream_answer(&good, &own[0]), [0, 1, 1, 1]);
        assert_eq!(stream_answer(&good, &own[2]), [0, 0, 0, 1]);
        assert_eq!(
            stream_answer(&good, &own[3]),
            [0, 0, 0, 1],
            "the terminal event is always sent"
        );
        let other = ids("a-1", &degraded);
        assert_eq!(
            (&other[0], other[1] == own[1], other[2] == own[2]),
            (&own[0], false, false)
        );
        assert_eq!(
            stream_answer(&good, &other[0]),
            [0, 1, 1, 1],
            "both runs are equal up to this event"
        );
        assert_eq!(
            stream_answer(&good, &other[2]),
            [0, 0, 3, 1],
            "another run restarts from event 1"
        );
        for strange in [
            "a-2.2.00000000",
            &ids("a-2", &good)[1],
            "a-1",
            "a-1.x",
            "",
            "nonsense",
            "a-1.0.0",
        ] {
            assert_eq!(
                stream_answer(&good, strange).iter().sum::<usize>(),
                4,
                "{strange}"
            );
        }
        assert_eq!(
            stream_answer(&good, "a-1.99999.00000000"),
            [0, 0, 0, 4],
            "an id after the last event"
        );
    }
}
