//! Live numbers of one model, for `why` and `status`: a few counters and rings, never a log.

use std::collections::VecDeque;

use stemma_engine::env::Millis;
use stemma_engine::presence::ModelBeat;

use crate::request::Usage;

/// Calls whose time is remembered.
const CALLS: usize = 256;
/// Seconds of a minute.
const SECONDS: usize = 60;

/// Collects what a [`ModelBeat`] says.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) waiting_for_permit: u32,
    pub(crate) in_call: u32,
    pub(crate) paused_until_ms: Millis,
    /// Refusals in a row as one too many, and when the last one came.
    refusals: u32,
    refused_ms: Millis,
    /// Requests and tokens per minute that the provider stated last.
    pub(crate) stated: (Option<u32>, Option<u32>),
    pub(crate) last_error_code: Option<&'static str>,
    times_ms: VecDeque<u64>,
    requests: LastMinute,
    tokens: LastMinute,
}

impl Meter {
    pub(crate) fn replied(&mut self, now_ms: Millis, took_ms: u64, usage: Usage) {
        self.last_error_code = None;
        self.refusals = 0;
        self.took(took_ms);
        self.requests.add(now_ms, 1);
        self.tokens.add(now_ms, u64::from(usage.total()));
    }

    pub(crate) fn failed(&mut self, code: &'static str, took_ms: u64) {
        self.last_error_code = Some(code);
        self.took(took_ms);
    }

    /// Counts a refusal of a call that began at `began_ms`; those that were under way together count once. Returns how many
    /// came in a row.
    pub(crate) fn refused(&mut self, began_ms: Millis, now_ms: Millis) -> u32 {
        if self.refusals == 0 || began_ms >= self.refused_ms {
            self.refusals += 1;
            self.refused_ms = now_ms;
        }
        self.refusals
    }

    fn took(&mut self, took_ms: u64) {
        if self.times_ms.len() == CALLS {
            self.times_ms.pop_front();
        }
        self.times_ms.push_back(took_ms);
    }

    /// What there is to say at `now_ms`; limits and breaker are the caller's to add.
    pub(crate) fn beat(&self, now_ms: Millis) -> ModelBeat {
        let mut times: Vec<u64> = self.times_ms.iter().copied().collect();
        times.sort_unstable();
        let share = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or(0);
        ModelBeat {
            requests_last_minute: self.requests.sum(now_ms),
            tokens_last_minute: self.tokens.sum(now_ms),
            waiting: self.waiting_for_permit,
            calling: self.in_call,
            p50_ms: share(50),
            p95_ms: share(95),
            paused_until_ms: Some(self.paused_until_ms).filter(|until| *until > now_ms),
            last_error: self.last_error_code.map(Into::into),
            ..ModelBeat::default()
        }
    }
}

/// A sum over the last sixty seconds, by the second.
#[derive(Debug)]
struct LastMinute([(u64, u64); SECONDS]);

impl Default for LastMinute {
    fn default() -> Self {
        Self([(0, 0); SECONDS])
    }
}

impl LastMinute {
    fn add(&mut self, now_ms: Millis, amount: u64) {
        let second = now_ms / 1_000;
        let slot = &mut self.0[(second % SECONDS as u64) as usize];
        *slot = if slot.0 == second {
            (second, slot.1 + amount)
        } else {
            (second, amount)
        };
    }

    fn sum(&self, now_ms: Millis) -> u64 {
        let second = now_ms / 1_000;
        self.0
            .iter()
            .filter(|(at, _)| at + SECONDS as u64 > second)
            .map(|(_, amount)| amount)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_minute_counts() {
        let mut meter = Meter::default();
        let usage = Usage {
            prompt_tokens: 90,
            output_tokens: 10,
            cached_tokens: 0,
        };
        for second in 0..90 {
            meter.replied(second * 1_000, second, usage);
        }
        let state = meter.beat(89_999);
        assert_eq!(
            (state.requests_last_minute, state.tokens_last_minute),
            (60, 6_000)
        );
        assert_eq!((state.p50_ms, state.p95_ms), (45, 85));
        assert_eq!(meter.beat(200_000).requests_last_minute, 0);
    }

    #[test]
    fn the_last_error_is_forgotten_with_a_good_reply() {
        let mut meter = Meter::default();
        meter.failed("model.timeout", 5);
        assert_eq!(meter.beat(0).last_error.as_deref(), Some("model.timeout"));
        meter.replied(0, 5, Usage::default());
        assert_eq!(meter.beat(0).last_error, None);
    }
}
