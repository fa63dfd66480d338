//! Where tasks of one class wait for their turn to ask the shared limits: the more urgent first, else as they came.
//!
//! What is near the end of its document is urgent: so documents end one after another instead of all at the end, and
//! questions of all kinds, short and long, are asked side by side, which uses a limit of requests and one of tokens.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stemma_engine::env::Millis;
use tokio::sync::oneshot;

/// The line.
#[derive(Default)]
pub(super) struct Line {
    waiting: Mutex<Waiting>,
    /// When someone of the line last had a permit.
    moved_ms: AtomicU64,
}

/// Urgency, and when it came.
type Place = (Reverse<u8>, u64);

#[derive(Default)]
struct Waiting {
    /// Whether it is someone's turn.
    taken: bool,
    came: u64,
    places: BTreeMap<Place, oneshot::Sender<()>>,
}

impl Line {
    /// Waits until it is the caller's turn; it is over when the [`Turn`] is dropped.
    pub(super) async fn turn(&self, urgency: u8) -> Turn<'_> {
        let mut place = match self.enter(urgency) {
            Ok(turn) => return turn,
            Err(place) => place,
        };
        // The sender lives in the line until it is this place's turn.
        let _told = (&mut place.told).await;
        place.left = true;
        Turn(self)
    }

    /// Someone of the line had a permit.
    pub(super) fn moved(&self, now_ms: Millis) {
        self.moved_ms.store(now_ms, Ordering::Relaxed);
    }

    /// How long the line has stood.
    pub(super) fn stood_ms(&self, now_ms: Millis) -> Millis {
        now_ms.saturating_sub(self.moved_ms.load(Ordering::Relaxed))
    }

    /// Whether someone waits behind whose turn it is.
    pub(super) fn is_waited_in(&self) -> bool {
        !self.waiting().places.is_empty()
    }

    fn enter(&self, urgency: u8) -> Result<Turn<'_>, Standing<'_>> {
        let mut waiting = self.waiting();
        if !waiting.taken {
            waiting.taken = true;
            return Ok(Turn(self));
        }
        let (tell, told) = oneshot::channel();
        let place = (Reverse(urgency), waiting.came);
        waiting.came += 1;
        waiting.places.insert(place, tell);
        Err(Standing {
            line: self,
            place,
            told,
            left: false,
        })
    }

    fn next(&self) {
        let mut waiting = self.waiting();
        while let Some((_, tell)) = waiting.places.pop_first() {
            if tell.send(()).is_ok() {
                return;
            }
        }
        waiting.taken = false;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to ask the limits.
pub(super) struct Turn<'a>(&'a Line);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.next();
    }
}

/// A place in the line. Whoever is cut off leaves it, and hands on a turn that came in that moment.
struct Standing<'a> {
    line: &'a Line,
    place: Place,
    told: oneshot::Receiver<()>,
    left: bool,
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        if !self.left && self.line.waiting().places.remove(&self.place).is_none() {
            self.line.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_more_urgent_go_first_and_others_as_they_came() {
        let line = Arc::new(Line::default());
        let first = line.turn(0).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = [(0, "a"), (2, "b"), (0, "c"), (2, "d"), (9, "e")]
            .map(|(urgency, name)| {
                let line = Arc::clone(&line);
                let order = Arc::clone(&order);
                tokio::spawn(async move {
                    let _turn = line.turn(urgency).await;
                    order.lock().unwrap().push(name);
                })
            })
            .into();
        tokio::task::yield_now().await;
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["e", "b", "d", "a", "c"]);
    }

    #[tokio::test]
    async fn who_is_cut_off_holds_up_no_one() {
        let line = Line::default();
        let first = line.turn(0).await;
        let mut gone = Box::pin(line.turn(1));
        assert!(gone.as_mut().now_or_never().is_none());
        let mut next = Box::pin(line.turn(0));
        assert!(next.as_mut().now_or_never().is_none());
        // It is the first one's turn, which is dropped before it hears of it.
        drop(first);
        drop(gone);
        assert!(next.now_or_never().is_some());
        assert!(
            line.turn(0).now_or_never().is_some(),
            "the line is empty again"
        );
    }
}
