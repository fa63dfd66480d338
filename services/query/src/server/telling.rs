//! Answers told as server-sent events, and told on where a stream broke off.
//!
//! The id of an event is `{answer}.{n}.{digest}`: the answer that was asked for, its place from 1, and eight hexadecimal digits over all
//! that was told up to it. Two tellings of one answer have the same ids, whenever and by whatever server they are told; a telling that went
//! another way (the model stayed away then, and not now) has others from there on. So an id either is one of this telling, which
//! goes on behind it, or it is not, and all is told from the beginning: nothing is skipped, and no two tellings are spliced.

use std::convert::Infallible;
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream, StreamExt};
use stemma_answers::{Answer, AnswerError, Answerer, Event, Question, Sink};
use stemma_document::Digest;
use stemma_engine::Env;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::stay::Place;

/// Hexadecimal digits of what was told so far.
const DIGITS: usize = 8;

/// What is told of an answer while it is made, to its end: `done` or `error`. It is made to its end also where no one listens.
pub(super) fn told(
    env: &Env,
    place: Place,
    answerer: Arc<dyn Answerer>,
    question: Question,
) -> impl Stream<Item = Event> + Send + use<> {
    let (mut events, heard) = Ended::channel();
    let answering = async move {
        let _place = place;
        let ended = answerer.answer(&question, &mut events).await;
        events.end(ended);
    };
    drop(env.spawn(answering)); // ends with the answer
    heard
}

/// What is told of an answer that is being made already, from its beginning; of one that has ended meanwhile, what is stored.
pub(super) fn followed(
    env: &Env,
    answerer: Arc<dyn Answerer>,
    id: String,
) -> impl Stream<Item = Event> + Send + use<> {
    let (mut events, heard) = Ended::channel();
    let following = async move {
        let ended = match answerer.follow(&id, &mut events).await {
            Some(ended) => ended,
            None => match answerer.stored(&id).await {
                Ok(Some(answer)) => {
                    answer
                        .events()
                        .into_iter()
                        .for_each(|event| events.hear(event));
                    Ok(answer)
                }
                Ok(None) => Err(AnswerError::Broken),
                Err(error) => Err(error),
            },
        };
        events.end(ended);
    };
    drop(env.spawn(following)); // ends with the answer
    heard
}

/// Passes on what it hears, and knows whether that has come to its end.
struct Ended {
    sender: UnboundedSender<Event>,
    ended: bool,
}

impl Ended {
    fn channel() -> (Self, impl Stream<Item = Event> + Send + use<>) {
        let (sender, receiver) = unbounded_channel();
        (
            Self {
                sender,
                ended: false,
            },
            stream::unfold(
                receiver,
                |mut receiver: UnboundedReceiver<Event>| async move {
                    receiver.recv().await.map(|event| (event, receiver))
                },
            ),
        )
    }

    /// Says what went wrong, where that was not told.
    fn end(&mut self, ended: Result<Answer, AnswerError>) {
        let Err(error) = ended else { return };
        tracing::info!(%error, "a question was not answered");
        if !self.ended {
            self.hear(Event::Error {
                code: error.code().to_owned(),
                message: said(&error),
            });
        }
    }
}

impl Sink for Ended {
    fn hear(&mut self, event: Event) {
        self.ended |= is_end(&event);
        self.sender.hear(event);
    }
}

/// A sentence for who asked: what a store says may name keys and addresses.
fn said(error: &AnswerError) -> String {
    if error.code() == "store.unreadable" {
        "the store cannot be read".into()
    } else {
        error.to_string()
    }
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::Done(_) | Event::Error { .. })
}

/// A stream of events, from behind `Last-Event-ID` on. A comment every fifteen seconds keeps the connection.
pub(super) fn streamed(
    id: &str,
    events: impl Stream<Item = Event> + Send + 'static,
    headers: &HeaderMap,
) -> Response {
    let mut telling = Telling::new(id, headers);
    let frames = events
        .flat_map(move |event| stream::iter(telling.hear(&event)))
        .map(Ok::<_, Infallible>);
    Sse::new(frames)
        .keep_alive(KeepAlive::default())
        .into_response()
}

/// The same of an answer that is stored: who has heard its end, and asks again as an `EventSource` does, is told to stop (204).
pub(super) fn retold(id: &str, answer: &Answer, headers: &HeaderMap) -> Response {
    let events = answer.events();
    let mut ids = Telling::new(id, &HeaderMap::new());
    let end = events.iter().map(|event| ids.next(event)).last();
    if end.is_some() && end.as_deref() == last_event(headers) {
        return StatusCode::NO_CONTENT.into_response();
    }
    streamed(id, stream::iter(events), headers)
}

fn last_event(headers: &HeaderMap) -> Option<&str> {
    headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok())
}

/// How far the telling of an answer is.
struct Telling {
    answer: String,
    number: usize,
    /// Over all that was told so far.
    digest: String,
    /// The number and the id of the event that was heard last, until it is met.
    heard: Option<(usize, String)>,
    /// What was not told because it was heard already, if the id is one of this telling.
    held: Vec<Frame>,
}

impl Telling {
    fn new(answer: &str, headers: &HeaderMap) -> Self {
        let heard = last_event(headers).and_then(|said| {
            let number = said
                .strip_prefix(answer)?
                .strip_prefix('.')?
                .split('.')
                .next()?
                .parse()
                .ok()?;
            Some((number, said.to_owned()))
        });
        Self {
            answer: answer.to_owned(),
            number: 0,
            digest: String::new(),
            heard,
            held: Vec::new(),
        }
    }

    /// The id of the next event.
    fn next(&mut self, event: &Event) -> String {
        self.number += 1;
        let told = format!("{}\n{}\n{}", self.digest, event.name(), gist(event));
        self.digest = Digest::of(told.as_bytes()).to_string()[..DIGITS].to_owned();
        format!("{}.{}.{}", self.answer, self.number, self.digest)
    }

    /// What is told now that this event has come. The end is always told.
    fn hear(&mut self, event: &Event) -> Vec<Frame> {
        let id = self.next(event);
        let met = self
            .heard
            .as_ref()
            .map(|(number, heard)| (*heard == id, self.number >= *number));
        self.held.push(frame(&id, event));
        match met {
            Some((true, _)) if !is_end(event) => {
                self.held.clear();
                self.heard = None;
            }
            Some((true, _)) => drop(self.held.drain(..self.held.len() - 1)),
            Some((false, false)) if !is_end(event) => return Vec::new(),
            _ => self.heard = None,
        }
        std::mem::take(&mut self.held)
    }
}

fn frame(id: &str, event: &Event) -> Frame {
    let data = match serde_json::to_value(event) {
        Ok(mut event) => event["data"].take(),
        Err(error) => serde_json::json!({ "code": "answer.failed", "message": error.to_string() }),
    };
    Frame::default()
        .id(id)
        .event(event.name())
        .data(data.to_string())
}

/// What makes an event this one, whenever it is told: what it cost is another thing each time.
fn gist(event: &Event) -> String {
    match event {
        Event::Route(looked) => format!(
            "{} {} {:?}",
            looked.documents, looked.sections, looked.queries
        ),
        Event::Step(step) => step.what.clone(),
        Event::Section(section) => format!("{} {:?}", section.locator, section.pages),
        Event::Delta { text } => text.clone(),
        Event::Citation(citation) => {
            format!("{} {} {}", citation.id, citation.locator, citation.quote)
        }
        Event::Usage(_) => String::new(),
        Event::Done(answer) => answer.id.clone(),
        Event::Error { code, .. } => code.clone(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn delta(text: &str) -> Event {
        Event::Delta { text: text.into() }
    }

    /// A telling without its end, and its end.
    fn telling(texts: &[&str]) -> Vec<Event> {
        let end = Event::Error {
            code: "answer.failed".into(),
            message: "no".into(),
        };
        texts.iter().map(|text| delta(text)).chain([end]).collect()
    }

    fn ids(answer: &str, events: &[Event]) -> Vec<String> {
        let mut telling = Telling::new(answer, &HeaderMap::new());
        events.iter().map(|event| telling.next(event)).collect()
    }

    /// How many frames are told at each event to who has heard `last`.
    fn told(events: &[Event], last: &str) -> Vec<usize> {
        let headers = HeaderMap::from_iter([(
            "last-event-id".parse().unwrap(),
            HeaderValue::from_str(last).unwrap(),
        )]);
        let mut telling = Telling::new("a-1", &headers);
        events
            .iter()
            .map(|event| telling.hear(event).len())
            .collect()
    }

    #[test]
    fn a_telling_goes_on_behind_its_own_events_alone() {
        let good = telling(&["a", "b", "c"]);
        let degraded = telling(&["a", "x", "c"]);
        let own = ids("a-1", &good);
        assert_eq!(told(&good, &own[0]), [0, 1, 1, 1]);
        assert_eq!(told(&good, &own[2]), [0, 0, 0, 1]);
        assert_eq!(told(&good, &own[3]), [0, 0, 0, 1], "the end is always told");
        let other = ids("a-1", &degraded);
        assert_eq!(
            (&other[0], other[1] == own[1], other[2] == own[2]),
            (&own[0], false, false)
        );
        assert_eq!(told(&good, &other[0]), [0, 1, 1, 1], "the same until there");
        assert_eq!(
            told(&good, &other[2]),
            [0, 0, 3, 1],
            "another way: from the beginning"
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
            assert_eq!(told(&good, strange).iter().sum::<usize>(), 4, "{strange}");
        }
        assert_eq!(
            told(&good, "a-1.99999.00000000"),
            [0, 0, 0, 4],
            "beyond the end"
        );
    }
}
