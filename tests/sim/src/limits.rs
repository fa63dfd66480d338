//! Rate limits of a provider: which calls are admitted, and the headers about it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::behavior::{LimitMeter, SimulatedLimits};

const MINUTE: Duration = Duration::from_secs(60);
// Capacity of a bucket as a share of a minute.
const BURST: f64 = 1.0 / 6.0;

#[derive(Debug, Default)]
pub(crate) struct LimitUsage {
    requests: LimitCounter,
    tokens: LimitCounter,
}

/// The rest of one limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Remaining {
    pub(crate) limit: u32,
    pub(crate) available: u32,
    /// Time until the limit is full again.
    pub(crate) full_in: Duration,
}

impl LimitUsage {
    /// Admits a call of this many tokens and counts it, or returns the time to wait.
    pub(crate) fn admit(
        &mut self,
        limits: &SimulatedLimits,
        tokens: u32,
        now: Instant,
    ) -> Result<(), Duration> {
        let requests = limits
            .requests_per_minute
            .map(|limit| self.requests.wait(limits.meter, limit, 1, now));
        let token_wait = limits
            .tokens_per_minute
            .map(|limit| self.tokens.wait(limits.meter, limit, tokens, now));
        match requests
            .into_iter()
            .chain(token_wait)
            .max()
            .unwrap_or_default()
        {
            Duration::ZERO => {
                self.requests.take(1, now);
                self.tokens.take(tokens, now);
                Ok(())
            }
            wait => Err(wait),
        }
    }

    /// The rest of requests and tokens.
    pub(crate) fn remaining(
        &mut self,
        limits: &SimulatedLimits,
        now: Instant,
    ) -> [Option<Remaining>; 2] {
        let meter = limits.meter;
        [
            limits
                .requests_per_minute
                .map(|limit| self.requests.remaining(meter, limit, now)),
            limits
                .tokens_per_minute
                .map(|limit| self.tokens.remaining(meter, limit, now)),
        ]
    }
}

#[derive(Debug, Default)]
struct LimitCounter {
    // Calls admitted in the last minute.
    admitted: VecDeque<(Instant, u32)>,
    sum: u64,
    // Missing amount of the bucket, and the time of that value.
    deficit: f64,
    at: Option<Instant>,
}

impl LimitCounter {
    fn wait(&mut self, meter: LimitMeter, limit: u32, amount: u32, now: Instant) -> Duration {
        self.refill(limit, now);
        match meter {
            LimitMeter::Bucket => {
                // A call larger than the bucket is admitted when the bucket is full; otherwise it would wait
                // forever.
                let room = f64::from(limit) * BURST;
                let excess = (self.deficit + f64::from(amount).min(room) - room).max(0.0);
                MINUTE.mul_f64(excess / f64::from(limit.max(1)))
            }
            LimitMeter::Window => {
                let mut excess = (self.sum + u64::from(amount)).saturating_sub(u64::from(limit));
                let mut wait = Duration::ZERO;
                for (at, tokens) in &self.admitted {
                    if excess == 0 {
                        break;
                    }
                    excess = excess.saturating_sub(u64::from(*tokens));
                    wait = MINUTE.saturating_sub(now.duration_since(*at));
                }
                wait
            }
        }
    }

    fn take(&mut self, amount: u32, now: Instant) {
        self.admitted.push_back((now, amount));
        self.sum += u64::from(amount);
        self.deficit += f64::from(amount);
    }

    fn remaining(&mut self, meter: LimitMeter, limit: u32, now: Instant) -> Remaining {
        self.refill(limit, now);
        let (room, missing) = match meter {
            LimitMeter::Bucket => (f64::from(limit) * BURST, self.deficit),
            LimitMeter::Window => (f64::from(limit), self.sum as f64),
        };
        let full_in = match meter {
            LimitMeter::Bucket => MINUTE.mul_f64(missing / f64::from(limit.max(1))),
            LimitMeter::Window => self.admitted.back().map_or(Duration::ZERO, |(at, _)| {
                MINUTE - now.duration_since(*at).min(MINUTE)
            }),
        };
        Remaining {
            limit,
            available: (room - missing).max(0.0) as u32,
            full_in,
        }
    }

    // Refills the bucket for the elapsed time.
    fn refill(&mut self, limit: u32, now: Instant) {
        let gone = self
            .at
            .map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.deficit =
            (self.deficit - gone.as_secs_f64() / MINUTE.as_secs_f64() * f64::from(limit)).max(0.0);
        self.at = Some(now);
        while let Some((at, amount)) = self
            .admitted
            .front()
            .copied()
            .filter(|(at, _)| now.duration_since(*at) >= MINUTE)
        {
            debug_assert!(at <= now);
            self.sum -= u64::from(amount);
            self.admitted.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(meter: LimitMeter, requests: Option<u32>, tokens: Option<u32>) -> SimulatedLimits {
        SimulatedLimits {
            requests_per_minute: requests,
            tokens_per_minute: tokens,
            meter,
            ..SimulatedLimits::default()
        }
    }

    // Seconds of admitted calls if a client tries every 0.1 s for `seconds`.
    fn admitted(limits: &SimulatedLimits, tokens: u32, seconds: u32) -> Vec<f64> {
        let begin = Instant::now();
        let mut used = LimitUsage::default();
        let times = (0..seconds * 10).map(|n| f64::from(n) / 10.0);
        times
            .filter(|at| {
                used.admit(limits, tokens, begin + Duration::from_secs_f64(*at))
                    .is_ok()
            })
            .collect()
    }

    #[test]
    fn window_never_exceeds_the_limit() {
        let at = admitted(&limits(LimitMeter::Window, Some(30), None), 1, 180);
        assert!(at[29] < 3.0 && at[30] >= 60.0, "{at:?}");
        assert_eq!(at.len(), 90);
        let at = admitted(&limits(LimitMeter::Window, None, Some(1_000)), 100, 60);
        assert_eq!(at.len(), 10);
    }

    #[test]
    fn bucket_admits_evenly_after_a_burst() {
        let at = admitted(&limits(LimitMeter::Bucket, Some(300), None), 1, 120);
        assert!((645..=655).contains(&at.len()), "{}", at.len());
        let at = admitted(&limits(LimitMeter::Bucket, Some(60), Some(6_000)), 300, 120);
        assert!(
            (42..=45).contains(&at.len()),
            "tokens are the tighter limit: {}",
            at.len()
        );
        let large = admitted(&limits(LimitMeter::Bucket, None, Some(6_000)), 3_000, 120);
        assert!(
            (3..=6).contains(&large.len()),
            "larger than the bucket: {large:?}"
        );
    }

    #[test]
    fn waiting_the_given_time_is_enough() {
        for meter in [LimitMeter::Bucket, LimitMeter::Window] {
            let limits = limits(meter, Some(20), Some(900));
            let mut used = LimitUsage::default();
            let mut now = Instant::now();
            for _ in 0..100 {
                if let Err(wait) = used.admit(&limits, 50, now) {
                    now += wait + Duration::from_millis(1);
                    assert_eq!(used.admit(&limits, 50, now), Ok(()));
                }
            }
            let [requests, tokens] = used.remaining(&limits, now);
            assert!(requests.unwrap().available < 20 && tokens.unwrap().full_in > Duration::ZERO);
        }
    }
}
