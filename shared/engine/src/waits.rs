//! How long tasks lately took from publication to outcome: the backlog, as a coordinator sees it (rule 9).

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::env::Millis;

/// How long what was seen counts: between one and two windows.
const WINDOW_MS: Millis = 300_000;
/// One bucket per power of two of milliseconds.
const BUCKETS: usize = 40;

/// A histogram of waits over the last minutes.
#[derive(Default)]
pub(crate) struct Waits(Mutex<Windows>);

#[derive(Default)]
struct Windows {
    since_ms: Millis,
    current: Buckets,
    previous: Buckets,
}

struct Buckets([u64; BUCKETS]);

impl Default for Buckets {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Waits {
    /// Notes that a task waited this long.
    pub(crate) fn note(&self, now_ms: Millis, wait_ms: Millis) {
        let bucket = (Millis::BITS - wait_ms.leading_zeros()) as usize;
        self.windows(now_ms).current.0[bucket.min(BUCKETS - 1)] += 1;
    }

    /// What 99 of 100 waits did not exceed (up to the next power of two); 0 when nothing was seen.
    pub(crate) fn p99_ms(&self, now_ms: Millis) -> Millis {
        let windows = self.windows(now_ms);
        let counts: Vec<u64> = windows.current.0.iter().zip(windows.previous.0).map(|(a, b)| a + b).collect();
        let all: u64 = counts.iter().sum();
        let mut below = 0;
        for (bucket, count) in counts.iter().enumerate() {
            below += count;
            if all > 0 && 100 * below >= 99 * all {
                return (1 << bucket) - 1;
            }
        }
        0
    }

    fn windows(&self, now_ms: Millis) -> MutexGuard<'_, Windows> {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now_ms >= windows.since_ms + 2 * WINDOW_MS {
            *windows = Windows { since_ms: now_ms, ..Windows::default() };
        } else if now_ms >= windows.since_ms + WINDOW_MS {
            windows.previous = std::mem::take(&mut windows.current);
            windows.since_ms = now_ms;
        }
        windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_task_of_a_thousand_is_no_backlog() {
        let waits = Waits::default();
        (0..999).for_each(|_| waits.note(1_000_000, 900));
        waits.note(1_000_000, 400_000);
        assert_eq!(waits.p99_ms(1_000_000), 1_023);
    }

    #[test]
    fn what_was_seen_long_ago_does_not_count() {
        let waits = Waits::default();
        assert_eq!(waits.p99_ms(1_000_000), 0);
        waits.note(1_000_000, 100_000);
        assert_eq!(waits.p99_ms(1_000_000 + WINDOW_MS), 131_071);
        assert_eq!(waits.p99_ms(1_000_000 + 2 * WINDOW_MS), 0);
    }
}
