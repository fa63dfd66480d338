//! Per-request admission: access rights, concurrency permit, deadline.
//!
//! Every request starts under the short limits (`query.concurrency`, `query.timeout_seconds`). Handlers call
//! [`RequestPermit::upgrade_to_long`] for long work and [`RequestPermit::upgrade_for_model`] before any model call. Both
//! switch to `query.answers` and `query.answer_timeout_seconds`, so that questions never block reads.
//!
//! tower's `Timeout`, `ConcurrencyLimit` and `LoadShed` cannot express this: their limits are fixed before a handler runs, and
//! their permits end with the response.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use futures::future::{self, Either};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use crate::problem::Problem;
use crate::rights::Rights;

// A burst queues briefly instead of failing: 16 waiting requests per permit, for five seconds each.
const QUEUED_PER_PERMIT: usize = 16;
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bounds the requests that run at once. A bounded queue absorbs bursts. One of several API keys gets at most three
/// quarters of the permits, so that a client that floods the server leaves some to the others.
#[derive(Clone)]
pub struct ConcurrencyLimit {
    shared: Permits,
    // By position of the key; empty for at most one key.
    by_key: Arc<[Permits]>,
    timeout: Duration,
}

/// Released when its last clone is dropped.
#[derive(Clone)]
pub struct ConcurrencyPermit {
    _permits: Arc<(Option<OwnedSemaphorePermit>, OwnedSemaphorePermit)>,
}

#[derive(Clone)]
struct Permits {
    permits: Arc<Semaphore>,
    queue: Arc<Semaphore>,
}

impl Permits {
    fn new(permits: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(permits)),
            queue: Arc::new(Semaphore::new(permits * QUEUED_PER_PERMIT)),
        }
    }

    // `None`: the queue is full, or no permit was released before `deadline`.
    async fn acquire(&self, deadline: Instant) -> Option<OwnedSemaphorePermit> {
        let permits = Arc::clone(&self.permits);
        match Arc::clone(&permits).try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => {
                let _queued = self.queue.try_acquire().ok()?;
                timeout_at(deadline, permits.acquire_owned())
                    .await
                    .ok()?
                    .ok()
            }
        }
    }
}

impl ConcurrencyLimit {
    /// Allows `permits` requests at once, each for at most `timeout`, from clients with `keys` API keys.
    pub fn new(permits: usize, keys: usize, timeout: Duration) -> Self {
        let permits = permits.clamp(1, Semaphore::MAX_PERMITS / QUEUED_PER_PERMIT);
        let of_key = (permits * 3 / 4).max(1);
        let keys = if keys > 1 { keys } else { 0 };
        Self {
            shared: Permits::new(permits),
            by_key: (0..keys).map(|_| Permits::new(of_key)).collect(),
            timeout,
        }
    }

    // `None`: a queue is full, or no permit was released within `QUEUE_TIMEOUT`.
    async fn acquire(&self, key: Option<usize>) -> Option<ConcurrencyPermit> {
        let deadline = Instant::now() + QUEUE_TIMEOUT;
        let of_key = match key.and_then(|key| self.by_key.get(key)) {
            Some(permits) => Some(permits.acquire(deadline).await?),
            None => None,
        };
        let permit = self.shared.acquire(deadline).await?;
        Some(ConcurrencyPermit {
            _permits: Arc::new((of_key, permit)),
        })
    }
}

/// Why a request is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    #[error("this key may not call a model: it lacks the scope `ask`")]
    MissingScope,
    /// All permits are in use, and the queue is full or too slow.
    #[error("too many requests are in progress")]
    Busy,
}

/// An admitted request. Clones refer to the same request.
#[derive(Clone)]
pub struct RequestPermit(Arc<PermitState>);

struct PermitState {
    rights: Rights,
    long_limit: ConcurrencyLimit,
    permit: Mutex<Option<ConcurrencyPermit>>,
    timeout: watch::Sender<Duration>,
}

impl RequestPermit {
    /// Admits a request under `short`; [`Self::upgrade_to_long`] moves it to `long`.
    pub async fn admit(
        rights: Rights,
        short: &ConcurrencyLimit,
        long: &ConcurrencyLimit,
    ) -> Result<Self, AdmissionError> {
        let permit = short
            .acquire(rights.key)
            .await
            .ok_or(AdmissionError::Busy)?;
        Ok(Self(Arc::new(PermitState {
            rights,
            long_limit: long.clone(),
            permit: Mutex::new(Some(permit)),
            timeout: watch::Sender::new(short.timeout),
        })))
    }

    /// The permit that [`crate::access_control`] stored in the request. Without one the request has no rights.
    pub fn from_parts(parts: &Parts) -> Result<&Self, AdmissionError> {
        parts.extensions.get().ok_or(AdmissionError::MissingScope)
    }

    pub fn rights(&self) -> &Rights {
        &self.0.rights
    }

    pub fn may_write(&self) -> bool {
        self.0.rights.write
    }

    pub fn may_ask(&self) -> bool {
        self.0.rights.ask
    }

    /// Moves the request to the long-running limits before an LLM call.
    ///
    /// Hold the returned permit until generation ends, even after a disconnect, so that `query.answers` bounds paid calls.
    pub async fn upgrade_for_model(&self) -> Result<ConcurrencyPermit, AdmissionError> {
        self.check_may_ask()?;
        self.upgrade_to_long().await
    }

    fn check_may_ask(&self) -> Result<(), AdmissionError> {
        if self.may_ask() {
            Ok(())
        } else {
            Err(AdmissionError::MissingScope)
        }
    }

    /// Moves the request to the long-running limits.
    pub async fn upgrade_to_long(&self) -> Result<ConcurrencyPermit, AdmissionError> {
        // Release the short permit first: a request that waits for a long permit must not block reads.
        self.release();
        let place = self
            .0
            .long_limit
            .acquire(self.0.rights.key)
            .await
            .ok_or(AdmissionError::Busy)?;
        *self.0.permit.lock().unwrap_or_else(PoisonError::into_inner) = Some(place.clone());
        self.0.timeout.send_replace(self.0.long_limit.timeout);
        Ok(place)
    }

    /// Releases the permit before the request ends.
    pub fn release(&self) {
        drop(
            self.0
                .permit
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }

    /// Runs `answer` under the request's deadline. The error is the deadline that passed.
    pub async fn with_timeout<T>(&self, answer: impl Future<Output = T>) -> Result<T, Duration> {
        let started_at = Instant::now();
        let mut limits = self.0.timeout.subscribe();
        let mut answer = std::pin::pin!(answer);
        loop {
            let limit = *limits.borrow_and_update();
            let late = std::pin::pin!(tokio::time::sleep_until(started_at + limit));
            let changed = std::pin::pin!(limits.changed());
            match future::select(&mut answer, future::select(late, changed)).await {
                Either::Left((answer, _)) => return Ok(answer),
                Either::Right((Either::Left(_), _)) => return Err(limit),
                // An upgrade extended the deadline. `self` owns the sender, so this is never a closed channel.
                Either::Right((Either::Right(_), _)) => {}
            }
        }
    }
}

impl AdmissionError {
    pub fn code(self) -> &'static str {
        match self {
            AdmissionError::MissingScope => "key.scope_missing",
            AdmissionError::Busy => "server.busy",
        }
    }

    pub fn next(self) -> &'static str {
        match self {
            AdmissionError::MissingScope => {
                "add the scope `ask` in query.keys, or search with a strategy that calls no model"
            }
            AdmissionError::Busy => "retry later",
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

impl<S: Sync> FromRequestParts<S> for RequestPermit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self::from_parts(parts)?.clone())
    }
}

/// Refuses a request without the scope `write`.
pub(crate) fn check_may_write(rights: &Rights) -> Result<(), Problem> {
    if rights.write {
        return Ok(());
    }
    let problem = Problem::new(403, "key.scope_missing", "this key lacks the scope `write`");
    Err(problem.with_next("add the scope `write` in query.keys"))
}

/// Extracts the permit of a request that may submit, control and remove, so that others are refused before their body is read.
pub struct WriteRequest(pub RequestPermit);

impl<S: Sync> FromRequestParts<S> for WriteRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let permit = RequestPermit::from_parts(parts)?;
        check_may_write(permit.rights())?;
        Ok(Self(permit.clone()))
    }
}

/// Extracts the permit of a request that may call a model, so that others are refused before their body is read.
pub struct ModelRequest(pub RequestPermit);

impl<S: Sync> FromRequestParts<S> for ModelRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let permit = RequestPermit::from_parts(parts)?;
        permit.check_may_ask()?;
        Ok(Self(permit.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::CollectionScope;

    fn concurrency_limit(places: usize) -> ConcurrencyLimit {
        ConcurrencyLimit::new(places, 1, Duration::from_secs(30))
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_several_keys_leaves_permits_to_the_others() {
        let places = ConcurrencyLimit::new(8, 2, Duration::from_secs(30));
        let mut held = Vec::new();
        while let Some(permit) = places.acquire(Some(0)).await {
            held.push(permit);
        }
        assert_eq!(held.len(), 6);
        let started_at = Instant::now();
        let others = [places.acquire(Some(1)).await, places.acquire(Some(1)).await];
        assert!(others.iter().all(Option::is_some));
        assert_eq!(started_at.elapsed(), Duration::ZERO);
        // The whole wait is bounded, also where both limits are reached.
        assert!(places.acquire(Some(1)).await.is_none());
        assert_eq!(started_at.elapsed(), QUEUE_TIMEOUT);
        held.pop();
        assert!(places.acquire(Some(0)).await.is_some());
        // A single key may use them all.
        let alone = ConcurrencyLimit::new(8, 1, Duration::from_secs(30));
        for _ in 0..8 {
            held.extend(alone.acquire(Some(0)).await);
        }
        assert_eq!(held.len(), 5 + 8);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_queue_briefly_for_a_permit() {
        let places = concurrency_limit(1);
        let place = places.acquire(None).await;
        assert!(place.is_some());
        let free_soon = async {
            tokio::time::sleep(QUEUE_TIMEOUT / 2).await;
            drop(place);
        };
        let (waited, ()) = tokio::join!(places.acquire(None), free_soon);
        assert!(waited.is_some());
        let started_at = Instant::now();
        assert!(
            places.acquire(None).await.is_none(),
            "no permit was released"
        );
        assert_eq!(started_at.elapsed(), QUEUE_TIMEOUT);
        let many = futures::future::join_all((0..QUEUED_PER_PERMIT).map(|_| places.acquire(None)));
        let late = async {
            tokio::time::sleep(QUEUE_TIMEOUT / 2).await;
            let started_at = Instant::now();
            (places.acquire(None).await.is_none(), started_at.elapsed())
        };
        let (_, late) = tokio::join!(many, late);
        assert_eq!(late, (true, Duration::ZERO), "the queue is full");
    }

    #[tokio::test(start_paused = true)]
    async fn model_requests_need_the_ask_scope_and_use_the_long_limit() {
        let short = concurrency_limit(1);
        let long = ConcurrencyLimit::new(1, 1, Duration::from_secs(600));
        let rights = |ask| Rights {
            key: None,
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
                long.shared.permits.available_permits()
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
            short.shared.permits.available_permits(),
            1,
            "a model request holds no short permit"
        );
        asks.release();
        assert_eq!(
            long.shared.permits.available_permits(),
            0,
            "generation after a disconnect still holds its permit"
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
