//! Percentiles of recent latencies: of tasks from publication to outcome (which shows a backlog), of stages, and of calls of
//! models.

use parking_lot::{Mutex, MutexGuard};

use crate::env::Millis;

// A sample counts for one to two windows.
const WINDOW_MS: Millis = 300_000;
// Four buckets per power of two of milliseconds: a percentile is at most a quarter too high.
const BUCKETS: usize = 160;

/// A histogram of the latencies of the last minutes.
#[derive(Debug, Default)]
pub struct LatencyHistogram(Mutex<HistogramWindows>);

#[derive(Debug, Default)]
struct HistogramWindows {
    since_ms: Millis,
    current: HistogramBuckets,
    previous: HistogramBuckets,
}

#[derive(Debug)]
struct HistogramBuckets([u64; BUCKETS]);

impl Default for HistogramBuckets {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl LatencyHistogram {
    /// Adds a sample of `took_ms`.
    pub fn record(&self, now_ms: Millis, took_ms: Millis) {
        self.windows(now_ms).current.0[bucket_index(took_ms)] += 1;
    }

    /// The 99th percentile; 0 without samples.
    pub fn p99_ms(&self, now_ms: Millis) -> Millis {
        self.percentile_ms(now_ms, 99)
    }

    /// The given percentile, up to a quarter too high; 0 without samples.
    pub fn percentile_ms(&self, now_ms: Millis, percent: u64) -> Millis {
        let windows = self.windows(now_ms);
        let counts: Vec<u64> = windows
            .current
            .0
            .iter()
            .zip(windows.previous.0)
            .map(|(a, b)| a + b)
            .collect();
        let all: u64 = counts.iter().sum();
        let mut below = 0;
        for (bucket, count) in counts.iter().enumerate() {
            below += count;
            if all > 0 && 100 * below >= percent * all {
                return upper_bound_ms(bucket);
            }
        }
        0
    }

    fn windows(&self, now_ms: Millis) -> MutexGuard<'_, HistogramWindows> {
        let mut windows = self.0.lock();
        if now_ms >= windows.since_ms + 2 * WINDOW_MS {
            *windows = HistogramWindows {
                since_ms: now_ms,
                ..HistogramWindows::default()
            };
        } else if now_ms >= windows.since_ms + WINDOW_MS {
            windows.previous = std::mem::take(&mut windows.current);
            windows.since_ms = now_ms;
        }
        windows
    }
}

fn bucket_index(took_ms: Millis) -> usize {
    match took_ms.checked_ilog2() {
        None | Some(0 | 1) => took_ms as usize,
        Some(octave) => {
            (4 * (octave as usize - 1) + (took_ms >> (octave - 2)) as usize % 4).min(BUCKETS - 1)
        }
    }
}

/// Upper bound of a bucket, inclusive.
fn upper_bound_ms(bucket: usize) -> Millis {
    match bucket {
        0..=3 => bucket as Millis,
        _ => ((5 + bucket as Millis % 4) << (bucket / 4 - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_bounds_are_within_a_quarter_of_the_value() {
        for took in (0..5_000).chain([1 << 20, (1 << 20) + 1, (1 << 38) - 1]) {
            let end = upper_bound_ms(bucket_index(took));
            assert!(end >= took && end <= took + took / 4, "{took}: {end}");
        }
        assert_eq!(bucket_index(Millis::MAX), BUCKETS - 1);
    }

    #[test]
    fn p99_ignores_one_slow_task_of_a_thousand() {
        let waits = LatencyHistogram::default();
        (0..999).for_each(|_| waits.record(1_000_000, 900));
        waits.record(1_000_000, 400_000);
        assert_eq!(waits.p99_ms(1_000_000), 1_023);
    }

    #[test]
    fn old_samples_expire() {
        let waits = LatencyHistogram::default();
        assert_eq!(waits.p99_ms(1_000_000), 0);
        waits.record(1_000_000, 100_000);
        assert_eq!(waits.p99_ms(1_000_000 + WINDOW_MS), 114_687);
        assert_eq!(waits.p99_ms(1_000_000 + 2 * WINDOW_MS), 0);
    }
}
