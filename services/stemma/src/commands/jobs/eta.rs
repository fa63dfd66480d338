//! Estimates the remaining time of a job from its recent rate.

use std::collections::VecDeque;

// Only the latest 90 % of the time count, because the start of a job is not representative.
const RECENT_SHARE: f64 = 0.9;
// Shorter windows jump too much, because documents finish in bursts.
const MIN_SECONDS: f64 = 20.0;
// Bounds memory for jobs of many hours: at this size every second sample is dropped.
const MAX_SAMPLES: usize = 512;

/// Samples of (seconds, what was done by then).
#[derive(Debug, Default)]
pub struct Eta(VecDeque<(f64, f64)>);

impl Eta {
    /// Notes how much was done after so many seconds.
    pub fn record(&mut self, seconds: f64, done: f64) {
        if self.0.len() == MAX_SAMPLES {
            let mut keep = false;
            self.0.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.0.push_back((seconds, done));
    }

    /// Seconds until `total` is done, at the mean rate of the window. Medians of shorter windows were tried and were
    /// off by half when documents finish in bursts.
    pub fn seconds(&self, total: f64) -> Option<f64> {
        let first = self.0.front()?;
        let last = self.0.back()?;
        let since = (last.0 - ((last.0 - first.0) * RECENT_SHARE).max(MIN_SECONDS)).max(first.0);
        let from = self.0.iter().find(|(at, _)| *at >= since)?;
        let rate = (last.1 - from.1) / (last.0 - from.0).max(f64::EPSILON);
        (rate > 0.0).then(|| (total - last.1).max(0.0) / rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_after_a_tenth_is_within_a_third() {
        for seed in 1..50_u64 {
            let mut eta = Eta::default();
            let mut done = 0.0;
            let mut state = seed;
            for second in 0..100 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                // Bursts of up to 30 documents, ten a second in the mean of a minute.
                done += if state >> 62 == 0 {
                    30.0
                } else {
                    (state >> 33) as f64 % 7.0 + 0.3
                };
                eta.record(f64::from(second), done);
            }
            let rate = done / 99.0;
            let estimate = eta.seconds(10.0 * done).unwrap();
            let truth = 9.0 * done / rate;
            assert!(
                (0.7..1.3).contains(&(estimate / truth)),
                "seed {seed}: {estimate} instead of {truth}"
            );
        }
    }

    #[test]
    fn stalled_job_has_no_estimate() {
        let mut eta = Eta::default();
        assert_eq!(eta.seconds(10.0), None);
        (0..60).for_each(|second| eta.record(f64::from(second), 3.0));
        assert_eq!(eta.seconds(10.0), None);
        (60..2_000).for_each(|second| eta.record(f64::from(second), f64::from(second - 57)));
        let estimate = eta.seconds(2_443.0).unwrap();
        assert!((490.0..510.0).contains(&estimate), "{estimate}");
    }
}
