//! The generic cell rate algorithm (GCRA, ITU-T I.371 Annex A): one theoretical arrival time per meter instead of a
//! window of timestamps. What a request asks for, in milliseconds of the rate, is worked out here for every adapter.

use super::{Cost, Quota};
use crate::key::Class;

const MINUTE_MS: f64 = 60_000.0;

/// What a request wants of the two meters of a bucket.
pub(super) struct Asked {
    pub(super) requests: Span,
    pub(super) tokens: Span,
    /// The largest number of tokens that can pass.
    largest: u32,
}

/// How much of a meter a request wants.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Milliseconds of the rate.
    pub(super) cost_ms: f64,
    /// Milliseconds ahead of now that may be granted.
    pub(super) ahead_ms: f64,
}

impl Asked {
    /// One request of `cost` under `quota`.
    pub(super) fn new(quota: Quota, cost: Cost) -> Self {
        // Bulk sees a smaller burst: what it may not use is there when a person comes.
        let share = match cost.class {
            Class::Interactive => 1.0,
            Class::Bulk => 1.0 - f64::from(quota.interactive_percent.min(100)) / 100.0,
        };
        let ahead_ms = |seconds: u32| f64::from(seconds) * 1_000.0 * share;
        let one_ms = MINUTE_MS / f64::from(quota.requests_per_minute.max(1));
        // However slow the rate and short the burst, one request at a time must be able to pass.
        let requests = Span { cost_ms: one_ms, ahead_ms: ahead_ms(quota.burst_seconds).max(one_ms) };
        let tokens =
            Span { cost_ms: tokens_ms(quota, f64::from(cost.tokens)), ahead_ms: ahead_ms(quota.token_burst_seconds) };
        let largest = tokens.ahead_ms * f64::from(quota.tokens_per_minute.max(1)) / MINUTE_MS;
        Self { requests, tokens, largest: largest as u32 }
    }

    /// The largest number of tokens that can pass, when these cannot.
    pub(super) fn too_large(&self) -> Option<u32> {
        (self.tokens.cost_ms > self.tokens.ahead_ms).then_some(self.largest)
    }
}

/// What `tokens` are in milliseconds of their rate.
pub(super) fn tokens_ms(quota: Quota, tokens: f64) -> f64 {
    tokens * MINUTE_MS / f64::from(quota.tokens_per_minute.max(1))
}
