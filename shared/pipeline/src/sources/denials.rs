//! Tells a bucket that refuses everything from one that denies single objects.
//!
//! A wrong policy or key denies every object of a bucket for a while; an attempt must not be counted for that, because it
//! says nothing about the document. An object that stays denied while others of its bucket are read fails.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

// Where nothing else of a bucket is read, a refusal counts when the object has been denied for this long: a person has had time
// to correct the policy, and a job with a single denied object ends.
const GRACE: Duration = Duration::from_hours(1);
// Denied objects that are remembered. With more of them the bucket refuses everything.
const MAX_DENIED: usize = 10_000;

/// What this process has read, and what it was denied.
#[derive(Default)]
pub(super) struct Denials(Mutex<DenialTimes>);

#[derive(Default)]
struct DenialTimes {
    last_read: HashMap<String, Instant>,
    // First refusal by bucket and key.
    denied: HashMap<(String, String), Instant>,
}

impl Denials {
    pub(super) fn note_read(&self, bucket: &str, key: &str) {
        let mut times = self.0.lock();
        times.last_read.insert(bucket.to_owned(), Instant::now());
        if !times.denied.is_empty() {
            times.denied.remove(&(bucket.to_owned(), key.to_owned()));
        }
    }

    /// Notes a refusal. Returns whether it is about the object and not about its bucket.
    pub(super) fn concerns_object(&self, bucket: &str, key: &str) -> bool {
        let now = Instant::now();
        let mut times = self.0.lock();
        let last_read = times.last_read.get(bucket).copied();
        let name = (bucket.to_owned(), key.to_owned());
        if !times.denied.contains_key(&name) && times.denied.len() >= MAX_DENIED {
            return false;
        }
        let first = *times.denied.entry(name).or_insert(now);
        last_read.is_some_and(|read| read > first) || now >= first + GRACE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_bucket_that_refuses_everything_says_nothing_about_its_objects() {
        let denials = Denials::default();
        denials.note_read("filings", "before.pdf");
        for _ in 0..10 {
            tokio::time::advance(Duration::from_secs(30)).await;
            assert!(!denials.concerns_object("filings", "a.pdf"));
            assert!(!denials.concerns_object("filings", "b.pdf"));
        }
        denials.note_read("elsewhere", "c.pdf");
        assert!(!denials.concerns_object("filings", "a.pdf"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_stays_denied_while_others_are_read_fails() {
        let denials = Denials::default();
        assert!(!denials.concerns_object("filings", "a.pdf"));
        tokio::time::advance(Duration::from_secs(1)).await;
        denials.note_read("filings", "b.pdf");
        assert!(denials.concerns_object("filings", "a.pdf"));
        denials.note_read("filings", "a.pdf");
        assert!(
            !denials.concerns_object("filings", "a.pdf"),
            "it was readable in between"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_denied_object_fails_after_a_while() {
        let denials = Denials::default();
        assert!(!denials.concerns_object("filings", "a.pdf"));
        tokio::time::advance(GRACE).await;
        assert!(denials.concerns_object("filings", "a.pdf"));
    }
}
