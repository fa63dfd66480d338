//! Requests that wait for a reply in this process.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use parking_lot::Mutex;
use tokio::sync::watch;

// By request digest. Identical concurrent requests must not be paid for twice.
#[derive(Default)]
pub(super) struct InFlightRequests(Mutex<HashMap<String, watch::Sender<()>>>);

// Ends the request when dropped, also on cancellation.
pub(super) struct RequestGuard<'a> {
    requests: &'a InFlightRequests,
    digest: String,
}

impl InFlightRequests {
    // `None`: another task sent the same request and has finished; its reply is cached, or there is none.
    pub(super) async fn acquire(&self, digest: &str) -> Option<RequestGuard<'_>> {
        let mut other = match self.0.lock().entry(digest.to_owned()) {
            Entry::Occupied(other) => other.get().subscribe(),
            Entry::Vacant(free) => {
                free.insert(watch::Sender::new(()));
                return Some(RequestGuard {
                    requests: self,
                    digest: digest.to_owned(),
                });
            }
        };
        // Nothing is ever sent; the channel closes when the first request ends.
        while other.changed().await.is_ok() {}
        None
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        self.requests.0.lock().remove(&self.digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn identical_concurrent_requests_wait_for_the_first() {
        let asking = InFlightRequests::default();
        let first = asking.acquire("x").await;
        assert!(
            first.is_some() && asking.acquire("y").await.is_some(),
            "others do not wait"
        );
        let mut second = std::pin::pin!(asking.acquire("x"));
        assert!(futures::poll!(&mut second).is_pending());

        drop(first); // as on a disconnect
        assert!(second.await.is_none() && asking.acquire("x").await.is_some());
        assert!(asking.0.lock().is_empty());
    }
}
