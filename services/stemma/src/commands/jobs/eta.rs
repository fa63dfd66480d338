//! How long the rest takes, from how it went lately.

use std::collections::VecDeque;

/// What is kept: the later half of the time counts, at least this many seconds of it.
const SECONDS: f64 = 20.0;
/// Samples kept at most; older ones are thinned.
const SAMPLES: usize = 512;

/// Samples of (seconds, what was done by then).
#[derive(Debug, Default)]
pub struct Eta(VecDeque<(f64, f64)>);

impl Eta {
    /// Notes how much was done after so many seconds.
    pub fn note(&mut self, seconds: f64, done: f64) {
        if self.0.len() == SAMPLES {
            let mut keep = false;
            self.0.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.0.push_back((seconds, done));
    }

    /// Seconds until `total` is done: the median of the rates between the samples of the later half of the time, so
    /// that neither a burst nor a pause counts for much.
    pub fn seconds(&self, total: f64) -> Option<f64> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        let since = (last.0 - ((last.0 - first.0) / 2.0).max(SECONDS)).max(first.0);
        let recent: Vec<&(f64, f64)> = self.0.iter().filter(|(at, _)| *at >= since).collect();
        // Rates over a third of the window each: shorter ones are all noise.
        let span = (last.0 - since) / 3.0;
        let mut rates: Vec<f64> = Vec::new();
        for (n, from) in recent.iter().enumerate() {
            if let Some(to) = recent[n..].iter().find(|to| to.0 - from.0 >= span && to.0 > from.0) {
                rates.push((to.1 - from.1) / (to.0 - from.0));
            }
        }
        rates.sort_by(f64::total_cmp);
        let rate = *rates.get(rates.len() / 2)?;
        (rate > 0.0).then(|| (total - last.1).max(0.0) / rate)
    }
}

/// `45s`, `3m20s`, `2h05m`.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_a_noisy_job_tells_the_rest_within_a_third() {
        for seed in 1..50_u64 {
            let mut eta = Eta::default();
            let (mut done, mut state) = (0.0, seed);
            for second in 0..100 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Bursts of up to 30 documents, ten a second in the mean of a minute.
                done += if state >> 62 == 0 { 30.0 } else { (state >> 33) as f64 % 7.0 + 0.3 };
                eta.note(f64::from(second), done);
            }
            let rate = done / 99.0;
            let told = eta.seconds(10.0 * done).unwrap();
            let truth = 9.0 * done / rate;
            assert!((0.7..1.3).contains(&(told / truth)), "seed {seed}: {told} instead of {truth}");
        }
    }

    #[test]
    fn what_stands_still_has_no_end() {
        let mut eta = Eta::default();
        assert_eq!(eta.seconds(10.0), None);
        (0..60).for_each(|second| eta.note(f64::from(second), 3.0));
        assert_eq!(eta.seconds(10.0), None);
        (60..2_000).for_each(|second| eta.note(f64::from(second), f64::from(second - 57)));
        let told = eta.seconds(2_443.0).unwrap();
        assert!((490.0..510.0).contains(&told), "{told}");
    }

    #[test]
    fn durations_are_short() {
        assert_eq!([9.6, 200.0, 7_500.0].map(duration), ["10s", "3m20s", "2h05m"]);
    }
}
