//! A request between gate and answer: what it may do, the place it holds among those answered at once, and how long it may
//! take.
//!
//! Every request enters as one that is answered at once. A handler that needs longer says so: [`Stay::linger`] for work
//! that takes long, [`Stay::ask`] before a model is asked. Both exchange its place for one of `query.answers` and its limit
//! for `query.answer_timeout_seconds`, so that questions keep no one waiting who only reads; whoever asks a model goes
//! through [`Stay::ask`], whatever the route.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use futures::future::{self, Either};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::asked::Stop;
use super::keys::Rights;
use super::problem::Problem;

/// Requests that may wait for each one that is answered, and how long they wait.
const SEATS_PER_PLACE: usize = 16;
const PATIENCE: Duration = Duration::from_secs(5);

/// Places of requests that are answered, and seats of those that wait for one: many that come at once are answered one
/// after another, not sent away.
#[derive(Clone)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    seats: Arc<Semaphore>,
    limit: Duration,
}

/// A place; free again when the last of its clones is dropped.
#[derive(Clone)]
pub(crate) struct Place {
    _permit: Arc<OwnedSemaphorePermit>,
}

impl Places {
    /// So many at once, each for so long.
    pub(super) fn new(places: usize, limit: Duration) -> Self {
        let semaphore = |places| Arc::new(Semaphore::new(places));
        let places = places.clamp(1, Semaphore::MAX_PERMITS / SEATS_PER_PLACE);
        Self {
            free: semaphore(places),
            seats: semaphore(places * SEATS_PER_PLACE),
            limit,
        }
    }

    /// A place, where one is free soon.
    async fn take(&self) -> Option<Place> {
        let held = |permit| {
            Some(Place {
                _permit: Arc::new(permit),
            })
        };
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return held(permit);
        }
        let _seat = self.seats.try_acquire().ok()?;
        let free = tokio::time::timeout(PATIENCE, Arc::clone(&self.free).acquire_owned()).await;
        held(free.ok()?.ok()?)
    }
}

/// Why a request goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Held {
    /// It may not have a model asked.
    #[error("this key may not have a model asked, which costs money: it lacks the scope `ask`")]
    NoRight,
    /// All places are taken, and so are the seats of those that wait for one.
    #[error("too many requests are being answered")]
    Busy,
}

/// A request that was let in. Clones are the same request.
#[derive(Clone)]
pub(crate) struct Stay(Arc<Inner>);

struct Inner {
    rights: Rights,
    long: Places,
    place: Mutex<Option<Place>>,
    limit: watch::Sender<Duration>,
}

impl Stay {
    /// Lets a request in, where there is a place soon; `long` are the places of those that take long.
    pub(super) async fn begin(rights: Rights, short: &Places, long: &Places) -> Result<Self, Held> {
        let place = Mutex::new(Some(short.take().await.ok_or(Held::Busy)?));
        let limit = watch::Sender::new(short.limit);
        Ok(Self(Arc::new(Inner {
            rights,
            long: long.clone(),
            place,
            limit,
        })))
    }

    /// That of a request, as the gate has noted it. What came past the gate may do nothing.
    pub(crate) fn of(parts: &Parts) -> Result<&Self, Held> {
        parts.extensions.get().ok_or(Held::NoRight)
    }

    /// What it may do.
    pub(super) fn rights(&self) -> &Rights {
        &self.0.rights
    }

    /// Whether it may submit and remove documents.
    pub(super) fn may_write(&self) -> bool {
        self.0.rights.write
    }

    /// Whether a model may be asked for it.
    pub(crate) fn may_ask(&self) -> bool {
        self.0.rights.ask
    }

    /// From here on a model is asked. Whoever works on after the request has gone holds the place until that is done: so
    /// many are paid for at once, also where nobody listens any more.
    pub(crate) async fn ask(&self) -> Result<Place, Held> {
        if self.may_ask() {
            self.linger().await
        } else {
            Err(Held::NoRight)
        }
    }

    /// From here on it takes long.
    pub(crate) async fn linger(&self) -> Result<Place, Held> {
        // The place of short requests is given back first: who waits here keeps no reader waiting.
        self.leave();
        let place = self.0.long.take().await.ok_or(Held::Busy)?;
        *self.0.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(place.clone());
        self.0.limit.send_replace(self.0.long.limit);
        Ok(place)
    }

    /// Gives its place back.
    pub(super) fn leave(&self) {
        drop(
            self.0
                .place
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }

    /// What `answer` comes to within the time the request may take; else that time.
    pub(super) async fn within<T>(&self, answer: impl Future<Output = T>) -> Result<T, Duration> {
        let began = Instant::now();
        let mut limits = self.0.limit.subscribe();
        let mut answer = std::pin::pin!(answer);
        loop {
            let limit = *limits.borrow_and_update();
            let late = std::pin::pin!(tokio::time::sleep_until(began + limit));
            let changed = std::pin::pin!(limits.changed());
            match future::select(&mut answer, future::select(late, changed)).await {
                Either::Left((answer, _)) => return Ok(answer),
                Either::Right((Either::Left(_), _)) => return Err(limit),
                // It may take longer than was thought: the sender is ours, so that this is no end.
                Either::Right((Either::Right(_), _)) => {}
            }
        }
    }
}

impl Held {
    /// Stable code.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Held::NoRight => "key.scope",
            Held::Busy => "server.busy",
        }
    }

    /// What to do.
    pub(crate) fn next(self) -> &'static str {
        match self {
            Held::NoRight => {
                "give it the scope `ask` in query.keys, or search without a strategy that asks a model"
            }
            Held::Busy => "ask again",
        }
    }
}

impl From<Held> for Problem {
    fn from(held: Held) -> Self {
        let status = if held == Held::Busy { 503 } else { 403 };
        Self::new(status, held.code(), held.to_string()).next(held.next())
    }
}

impl From<Held> for Stop {
    fn from(held: Held) -> Self {
        Stop::Problem(held.into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::Reach;
    use super::*;

    fn places(places: usize) -> Places {
        Places::new(places, Duration::from_secs(30))
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_waited_for_a_little() {
        let places = places(1);
        let place = places.take().await;
        assert!(place.is_some());
        let free_soon = async {
            tokio::time::sleep(PATIENCE / 2).await;
            drop(place);
        };
        let (waited, ()) = tokio::join!(places.take(), free_soon);
        assert!(waited.is_some());
        let begun = Instant::now();
        assert!(places.take().await.is_none(), "it is never free");
        assert_eq!(begun.elapsed(), PATIENCE);
        let many = futures::future::join_all((0..SEATS_PER_PLACE).map(|_| places.take()));
        let late = async {
            tokio::time::sleep(PATIENCE / 2).await;
            let begun = Instant::now();
            (places.take().await.is_none(), begun.elapsed())
        };
        let (_, late) = tokio::join!(many, late);
        assert_eq!(late, (true, Duration::ZERO), "no seat is left");
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_a_model_needs_the_right_and_gets_a_place_and_time_of_its_own() {
        let short = places(1);
        let long = Places::new(1, Duration::from_secs(600));
        let rights = |ask| Rights {
            reach: Reach::All,
            ask,
            write: false,
        };
        let reads = Stay::begin(rights(false), &short, &long).await.unwrap();
        assert_eq!(
            (reads.ask().await.err(), long.free.available_permits()),
            (Some(Held::NoRight), 1)
        );
        assert_eq!(
            reads
                .within(tokio::time::sleep(Duration::from_secs(31)))
                .await,
            Err(Duration::from_secs(30))
        );
        reads.leave();
        let asks = Stay::begin(rights(true), &short, &long).await.unwrap();
        let answer = async {
            let place = asks.ask().await.unwrap();
            tokio::time::sleep(Duration::from_secs(500)).await;
            place
        };
        let made = asks.within(answer).await.unwrap();
        assert_eq!(
            short.free.available_permits(),
            1,
            "it keeps no one waiting who reads"
        );
        asks.leave();
        assert_eq!(
            long.free.available_permits(),
            0,
            "what is made after the request has gone counts"
        );
        let second = Stay::begin(rights(true), &short, &long).await.unwrap();
        assert_eq!(second.ask().await.err(), Some(Held::Busy));
        drop(made);
        assert!(second.ask().await.is_ok());
    }
}
