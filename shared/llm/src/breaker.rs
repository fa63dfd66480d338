//! Circuit breaker: no calls are made during a provider outage, so that an outage uses up no task attempts.

use stemma_store::env::Millis;

// Consecutive failures after which the breaker opens.
const FAILURE_THRESHOLD: u32 = 5;
// The open time doubles with each failed probe, up to the maximum.
const MIN_OPEN_MS: Millis = 5_000;
const MAX_OPEN_MS: Millis = 60_000;
// An outage ends after this time without a failure. Calls may stop on their own, so silence is not proof of an outage.
const OUTAGE_RESET_MS: Millis = 2 * MAX_OPEN_MS;

/// Counts consecutive connection errors, timeouts and 5xx replies. Any other reply proves that the provider is up.
#[derive(Debug, Default)]
pub struct Breaker {
    failures: u32,
    failed_probes: u32,
    open_until_ms: Option<Millis>,
    // Times of the first and the last failure since the last success.
    outage: Option<(Millis, Millis)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Calls are allowed.
    Closed,
    /// This call is allowed, to test whether the provider is back.
    Probe,
    /// No calls before this time.
    Open { until_ms: Millis },
}

impl Breaker {
    /// Decides whether a call may be made now.
    pub fn admit(&mut self, now_ms: Millis) -> Admission {
        match self.open_until_ms {
            None => Admission::Closed,
            Some(until_ms) if now_ms < until_ms => Admission::Open { until_ms },
            Some(_) => {
                // Other calls wait for the probe. The wait is bounded, since the probe may be cancelled without a result.
                self.open_until_ms = Some(now_ms + MIN_OPEN_MS);
                Admission::Probe
            }
        }
    }

    /// Records any reply of the provider.
    pub fn record_success(&mut self) {
        *self = Self::default();
    }

    /// Records that the call admitted by `admission` did not reach the provider.
    pub fn record_failure(&mut self, admission: Admission, now_ms: Millis) {
        self.failures += 1;
        let since = self
            .outage
            .filter(|(_, last)| now_ms < last + OUTAGE_RESET_MS)
            .map_or(now_ms, |(first, _)| first);
        self.outage = Some((since, now_ms));
        if admission == Admission::Probe {
            self.failed_probes += 1;
            self.open_until_ms =
                Some(now_ms + (MIN_OPEN_MS << self.failed_probes.min(8)).min(MAX_OPEN_MS));
        } else if self.open_until_ms.is_none() && self.failures >= FAILURE_THRESHOLD {
            self.open_until_ms = Some(now_ms + MIN_OPEN_MS);
        }
    }

    /// Time of the next probe; `None` while closed.
    pub fn open_until_ms(&self) -> Option<Millis> {
        self.open_until_ms
    }

    /// Duration of the current outage in milliseconds; 0 if there is none.
    pub fn outage_ms(&self, now_ms: Millis) -> Millis {
        self.outage
            .map_or(0, |(first, _)| now_ms.saturating_sub(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened_breaker(now_ms: Millis) -> Breaker {
        let mut breaker = Breaker::default();
        (0..FAILURE_THRESHOLD).for_each(|_| breaker.record_failure(Admission::Closed, now_ms));
        breaker
    }

    #[test]
    fn breaker_opens_after_consecutive_failures() {
        let mut breaker = Breaker::default();
        for _ in 0..20 {
            (1..FAILURE_THRESHOLD).for_each(|_| breaker.record_failure(Admission::Closed, 0));
            breaker.record_success();
        }
        assert_eq!(breaker.admit(0), Admission::Closed);
        assert_eq!(
            opened_breaker(100).admit(101),
            Admission::Open {
                until_ms: 100 + MIN_OPEN_MS
            }
        );
    }

    #[test]
    fn open_breaker_probes_one_at_a_time_with_backoff() {
        let mut breaker = opened_breaker(0);
        assert_eq!(breaker.admit(MIN_OPEN_MS), Admission::Probe);
        assert_eq!(
            breaker.admit(MIN_OPEN_MS),
            Admission::Open {
                until_ms: 2 * MIN_OPEN_MS
            }
        );
        let mut now = MIN_OPEN_MS;
        let mut pauses = Vec::new();
        for _ in 0..6 {
            breaker.record_failure(Admission::Probe, now);
            let Admission::Open { until_ms } = breaker.admit(now) else {
                panic!("{breaker:?}")
            };
            pauses.push((until_ms - now) / 1_000);
            now = until_ms;
            assert_eq!(breaker.admit(now), Admission::Probe);
        }
        assert_eq!(pauses, [10, 20, 40, 60, 60, 60]);
        assert_eq!(breaker.outage_ms(now), now);
        breaker.record_success();
        assert_eq!(breaker.admit(now), Admission::Closed);
        assert_eq!(breaker.outage_ms(now), 0);
    }

    #[test]
    fn old_outages_are_forgotten() {
        let mut breaker = opened_breaker(0);
        let day = 86_400_000;
        assert_eq!(breaker.admit(day), Admission::Probe);
        breaker.record_failure(Admission::Probe, day);
        assert_eq!(breaker.outage_ms(day + 10), 10);
    }
}
