//! Priority queue for rate limit permits: most urgent first, FIFO among equals.
//!
//! Tasks near the end of their document are more urgent, so documents finish one after another. This also mixes short and
//! long requests, which uses both the request quota and the token quota.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use stemma_store::env::Millis;
use tokio::sync::oneshot;

#[derive(Default)]
pub(super) struct PermitQueue {
    waiting: Mutex<WaitList>,
    // When a waiter last got a permit.
    progressed_ms: AtomicU64,
}

// Urgency, then arrival.
type QueuePosition = (Reverse<u8>, u64);

#[derive(Default)]
struct WaitList {
    // Whether a `PermitTicket` exists.
    is_busy: bool,
    next_seq: u64,
    waiters: BTreeMap<QueuePosition, oneshot::Sender<()>>,
}

impl PermitQueue {
    /// Waits for the caller's turn, which lasts until the [`PermitTicket`] is dropped.
    pub(super) async fn wait_turn(&self, urgency: u8) -> PermitTicket<'_> {
        let mut guard = match self.try_enter(urgency) {
            Ok(turn) => return turn,
            Err(guard) => guard,
        };
        // Cannot fail: the sender stays in the queue until it is used.
        let _notified = (&mut guard.notified).await;
        guard.is_done = true;
        PermitTicket(self)
    }

    /// Records that a waiter got a permit.
    pub(super) fn record_progress(&self, now_ms: Millis) {
        self.progressed_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Time since the last permit.
    pub(super) fn stalled_ms(&self, now_ms: Millis) -> Millis {
        now_ms.saturating_sub(self.progressed_ms.load(Ordering::Relaxed))
    }

    /// Whether others wait behind the current ticket.
    pub(super) fn has_waiters(&self) -> bool {
        !self.waiting.lock().waiters.is_empty()
    }

    fn try_enter(&self, urgency: u8) -> Result<PermitTicket<'_>, WaitGuard<'_>> {
        let mut waiting = self.waiting.lock();
        if !waiting.is_busy {
            waiting.is_busy = true;
            return Ok(PermitTicket(self));
        }
        let (notify, notified) = oneshot::channel();
        let position = (Reverse(urgency), waiting.next_seq);
        waiting.next_seq += 1;
        waiting.waiters.insert(position, notify);
        Err(WaitGuard {
            queue: self,
            position,
            notified,
            is_done: false,
        })
    }

    fn wake_next(&self) {
        let mut waiting = self.waiting.lock();
        while let Some((_, notify)) = waiting.waiters.pop_first() {
            if notify.send(()).is_ok() {
                return;
            }
        }
        waiting.is_busy = false;
    }
}

/// The exclusive right to poll the limiter.
pub(super) struct PermitTicket<'a>(&'a PermitQueue);

impl Drop for PermitTicket<'_> {
    fn drop(&mut self) {
        self.0.wake_next();
    }
}

// Removes a cancelled waiter from the queue. If it was woken at the same moment, its turn passes to the next waiter.
struct WaitGuard<'a> {
    queue: &'a PermitQueue,
    position: QueuePosition,
    notified: oneshot::Receiver<()>,
    is_done: bool,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        if !self.is_done
            && self
                .queue
                .waiting
                .lock()
                .waiters
                .remove(&self.position)
                .is_none()
        {
            self.queue.wake_next();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn urgent_waiters_go_first_equals_are_fifo() {
        let line = Arc::new(PermitQueue::default());
        let first = line.wait_turn(0).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = [(0, "a"), (2, "b"), (0, "c"), (2, "d"), (9, "e")]
            .map(|(urgency, name)| {
                let line = Arc::clone(&line);
                let order = Arc::clone(&order);
                tokio::spawn(async move {
                    let _turn = line.wait_turn(urgency).await;
                    order.lock().push(name);
                })
            })
            .into();
        tokio::task::yield_now().await;
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), ["e", "b", "d", "a", "c"]);
    }

    #[tokio::test]
    async fn cancelled_waiter_does_not_block_the_queue() {
        let line = PermitQueue::default();
        let first = line.wait_turn(0).await;
        let mut gone = Box::pin(line.wait_turn(1));
        assert!(gone.as_mut().now_or_never().is_none());
        let mut next = Box::pin(line.wait_turn(0));
        assert!(next.as_mut().now_or_never().is_none());
        // `gone` is woken, but dropped before it runs.
        drop(first);
        drop(gone);
        assert!(next.now_or_never().is_some());
        assert!(
            line.wait_turn(0).now_or_never().is_some(),
            "the queue is empty again"
        );
    }
}
