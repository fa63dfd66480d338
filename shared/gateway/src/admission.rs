//! A request between gate and answer: what it may do, the place it holds among those answered at once, and how long it may
//! take.
//!
//! Every request enters as one that is answered at once. A handler that needs longer says so: [`RequestPermit::upgrade_to_long`] for work
//! that takes long, [`RequestPermit::upgrade_for_model`] before a model is asked. Both exchange its place for one of `query.answers` and its limit
//! for `query.answer_timeout_seconds`, so that questions keep no one waiting who only reads; whoever asks a model goes
//! through [`RequestPermit::upgrade_for_model`], whatever the route.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use futures::future::{self, Either};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use crate::auth::Rights;
use crate::extract::HandlerError;
use crate::problem::Problem;

/// Requests that may wait for each one that is answered, and how long they wait.
const QUEUED_PER_PERMIT: usize = 16;
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

/// Places of requests that are answered, and seats of those that wait for one: many that come at once are answered one
/// after another, not sent away.
#[derive(Clone)]
pub struct ConcurrencyLimit {
    permits: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    timeout: Duration,
}

/// A place; free again when the last of its clones is dropped.
#[derive(Clone)]
pub struct ConcurrencyPermit {
    _permit: Arc<OwnedSemaphorePermit>,
}

impl ConcurrencyLimit {
    /// So many at once, each for so long.
    pub fn new(places: usize, timeout: Duration) -> Self {
        let semaphore = |places| Arc::new(Semaphore::new(places));
        let places = places.clamp(1, Semaphore::MAX_PERMITS / QUEUED_PER_PERMIT);
        Self {
            permits: semaphore(places),
            queue: semaphore(places * QUEUED_PER_PERMIT),
            timeout,
        }
    }

    /// A place, where one is free soon.
    async fn acquire(&self) -> Option<ConcurrencyPermit> {
        let permit_of = |permit| {
            Some(ConcurrencyPermit {
                _permit: Arc::new(permit),
            })
        };
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return permit_of(permit);
        }
        let _seat = self.queue.try_acquire().ok()?;
        let free =
            tokio::time::timeout(QUEUE_TIMEOUT, Arc::clone(&self.permits).acquire_owned()).await;
        permit_of(free.ok()?.ok()?)
    }
}

/// Why a request goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// It may not have a model asked.
    #[error("this key may not have a model asked, which costs money: it lacks the scope `ask`")]
    MissingScope,
    /// All places are taken, and so are the seats of those that wait for one.
    #[error("too many requests are being answered")]
    Busy,
}

/// A request that was let in. Clones are the same request.
#[derive(Clone)]
pub struct RequestPermit(Arc<PermitState>);

struct PermitState {
    rights: Rights,
    long_limit: ConcurrencyLimit,
    permit: Mutex<Option<ConcurrencyPermit>>,
    timeout: watch::Sender<Duration>,
}

impl RequestPermit {
    /// Lets a request in, where there is a place soon; `long_limit` are the places of those that take long.
    pub async fn admit(
        rights: Rights,
        short: &ConcurrencyLimit,
        long: &ConcurrencyLimit,
    ) -> Result<Self, AdmissionError> {
        let place = Mutex::new(Some(short.acquire().await.ok_or(AdmissionError::Busy)?));
        let limit = watch::Sender::new(short.timeout);
        Ok(Self(Arc::new(PermitState {
            rights,
            long_limit: long.clone(),
            permit: place,
            timeout: limit,
        })))
    }

    /// That of a request, as the gate has noted it. What came past the gate may do nothing.
    pub fn from_parts(parts: &Parts) -> Result<&Self, AdmissionError> {
        parts.extensions.get().ok_or(AdmissionError::MissingScope)
    }

    /// What it may do.
    pub fn rights(&self) -> &Rights {
        &self.0.rights
    }

    /// Whether it may submit and remove documents.
    pub fn may_write(&self) -> bool {
        self.0.rights.write
    }

    /// Whether a model may be asked for it.
    pub fn may_ask(&self) -> bool {
        self.0.rights.ask
    }

    /// From here on a model is asked. Whoever works on after the request has gone holds the place until that is done: so
    /// many are paid for at once, also where nobody listens any more.
    pub async fn upgrade_for_model(&self) -> Result<ConcurrencyPermit, AdmissionError> {
        if self.may_ask() {
            self.upgrade_to_long().await
        } else {
            Err(AdmissionError::MissingScope)
        }
    }

    /// From here on it takes long.
    pub async fn upgrade_to_long(&self) -> Result<ConcurrencyPermit, AdmissionError> {
        // The place of short requests is given back first: who waits here keeps no reader waiting.
        self.release();
        let place = self
            .0
            .long_limit
            .acquire()
            .await
            .ok_or(AdmissionError::Busy)?;
        *self.0.permit.lock().unwrap_or_else(PoisonError::into_inner) = Some(place.clone());
        self.0.timeout.send_replace(self.0.long_limit.timeout);
        Ok(place)
    }

    /// Gives its place back.
    pub fn release(&self) {
        drop(
            self.0
                .permit
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }

    /// What `answer` comes to within the time the request may take; else that time.
    pub async fn with_timeout<T>(&self, answer: impl Future<Output = T>) -> Result<T, Duration> {
        let began = Instant::now();
        let mut limits = self.0.timeout.subscribe();
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

impl AdmissionError {
    /// Stable code.
    pub fn code(self) -> &'static str {
        match self {
            AdmissionError::MissingScope => "key.scope",
            AdmissionError::Busy => "server.busy",
        }
    }

    /// What to do.
    pub fn next(self) -> &'static str {
        match self {
            AdmissionError::MissingScope => {
                "give it the scope `ask` in query.keys, or search without a strategy that asks a model"
            }
            AdmissionError::Busy => "ask again",
        }
    }
}

impl From<AdmissionError> for Problem {
    fn from(error: AdmissionError) -> Self {
        let status = if error == AdmissionError::Busy {
            503
        } else {
            403
        };
        Self::new(status, error.code(), error.to_string()).with_next(error.next())
    }
}

impl From<AdmissionError> for HandlerError {
    fn from(error: AdmissionError) -> Self {
        HandlerError::Problem(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::CollectionScope;

    fn concurrency_limit(places: usize) -> ConcurrencyLimit {
        ConcurrencyLimit::new(places, Duration::from_secs(30))
    }

    #[tokio::test(start_paused = true)]
    async fn requests_queue_briefly_for_a_permit() {
        let places = concurrency_limit(1);
        let place = places.acquire().await;
        assert!(place.is_some());
        let free_soon = async {
            tokio::time::sleep(QUEUE_TIMEOUT / 2).await;
            drop(place);
        };
        let (waited, ()) = tokio::join!(places.acquire(), free_soon);
        assert!(waited.is_some());
        let started_at = Instant::now();
        assert!(places.acquire().await.is_none(), "it is never free");
        assert_eq!(started_at.elapsed(), QUEUE_TIMEOUT);
        let many = futures::future::join_all((0..QUEUED_PER_PERMIT).map(|_| places.acquire()));
        let late = async {
            tokio::time::sleep(QUEUE_TIMEOUT / 2).await;
            let started_at = Instant::now();
            (places.acquire().await.is_none(), started_at.elapsed())
        };
        let (_, late) = tokio::join!(many, late);
        assert_eq!(late, (true, Duration::ZERO), "no seat is left");
    }

    #[tokio::test(start_paused = true)]
    async fn model_requests_need_the_ask_scope_and_use_the_long_limit() {
        let short = concurrency_limit(1);
        let long = ConcurrencyLimit::new(1, Duration::from_secs(600));
        let rights = |ask| Rights {
            collections: CollectionScope::All,
            ask,
            write: false,
        };
        let reads = RequestPermit::admit(rights(false), &short, &long)
            .await
            .unwrap();
        assert_eq!(
            (
                reads.upgrade_for_model().await.err(),
                long.permits.available_permits()
            ),
            (Some(AdmissionError::MissingScope), 1)
        );
        assert_eq!(
            reads
                .with_timeout(tokio::time::sleep(Duration::from_secs(31)))
                .await,
            Err(Duration::from_secs(30))
        );
        reads.release();
        let asks = RequestPermit::admit(rights(true), &short, &long)
            .await
            .unwrap();
        let answer = async {
            let place = asks.upgrade_for_model().await.unwrap();
            tokio::time::sleep(Duration::from_secs(500)).await;
            place
        };
        let answer_text = asks.with_timeout(answer).await.unwrap();
        assert_eq!(
            short.permits.available_permits(),
            1,
            "it keeps no one waiting who reads"
        );
        asks.release();
        assert_eq!(
            long.permits.available_permits(),
            0,
            "what is made after the request has gone counts"
        );
        let second = RequestPermit::admit(rights(true), &short, &long)
            .await
            .unwrap();
        assert_eq!(
            second.upgrade_for_model().await.err(),
            Some(AdmissionError::Busy)
        );
        drop(answer_text);
        assert!(second.upgrade_for_model().await.is_ok());
    }
}
