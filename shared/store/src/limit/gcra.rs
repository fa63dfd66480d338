//! The generic cell rate algorithm (GCRA, ITU-T I.371 Annex A): one theoretical arrival time per meter instead of a
//! window of timestamps. This file computes the increments of a request, in milliseconds, for every adapter.

use crate::key::Priority;

use super::{Quota, RequestCost};

const MINUTE_MS: f64 = 60_000.0;

/// Requests and tokens per minute in force.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub(super) requests: f64,
    pub(super) tokens: f64,
}

/// How far the theoretical arrival time may run ahead of now, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Burst {
    pub requests_ms: f64,
    pub tokens_ms: f64,
}

impl Burst {
    /// Bulk work gets a smaller burst: the share it cannot use is available when interactive work arrives.
    pub fn for_priority(quota: Quota, priority: Priority) -> Self {
        let share = match priority {
            Priority::Interactive => 1.0,
            Priority::Bulk => 1.0 - f64::from(quota.interactive_percent.min(100)) / 100.0,
        };
        Self {
            requests_ms: f64::from(quota.burst_seconds) * 1_000.0 * share,
            tokens_ms: f64::from(quota.token_burst_seconds) * 1_000.0 * share,
        }
    }
}

/// The demand of a request on the two meters of a bucket.
pub(super) struct MeteredRequest {
    pub(super) requests: Increment,
    pub(super) tokens: Increment,
    // The largest number of tokens that can pass.
    max_tokens: u32,
}

/// The demand of a request on one meter.
#[derive(Clone, Copy)]
pub(super) struct Increment {
    /// Cost in milliseconds of the rate.
    pub(super) cost_ms: f64,
    /// Allowed advance over now, in milliseconds.
    pub(super) ahead_ms: f64,
}

impl MeteredRequest {
    pub(super) fn new(quota: Quota, rates: Rates, cost: RequestCost) -> Self {
        let ahead = Burst::for_priority(quota, cost.priority);
        let one_ms = MINUTE_MS / rates.requests;
        // However slow the rate and short the burst, a single request must be able to pass.
        let requests = Increment {
            cost_ms: one_ms,
            ahead_ms: ahead.requests_ms.max(one_ms),
        };
        let tokens = Increment {
            cost_ms: tokens_ms(rates, f64::from(cost.tokens)),
            ahead_ms: ahead.tokens_ms,
        };
        let largest = tokens.ahead_ms * rates.tokens / MINUTE_MS;
        Self {
            requests,
            tokens,
            max_tokens: largest as u32,
        }
    }

    /// The largest number of tokens that can pass, if the request needs more.
    pub(super) fn exceeded_max(&self) -> Option<u32> {
        (self.tokens.cost_ms > self.tokens.ahead_ms).then_some(self.max_tokens)
    }
}

/// Converts tokens to milliseconds of their rate.
pub(super) fn tokens_ms(rates: Rates, tokens: f64) -> f64 {
    tokens * MINUTE_MS / rates.tokens
}

// Advances the arrival time so that at most `remaining` (plus `slack` in flight) are granted at once, after the
// provider has reported what remains. In milliseconds from now.
pub(super) fn owed_ms(ahead_ms: f64, remaining: u32, slack: f64, per_minute: f64) -> f64 {
    ahead_ms - (f64::from(remaining) + slack) * MINUTE_MS / per_minute
}

// Requests that may have been in flight when the provider counted what remains.
pub(super) const SLACK_REQUESTS: f64 = 2.0;

// Tokens that may have been in flight: one second's worth.
pub(super) fn slack_tokens(rates: Rates) -> f64 {
    rates.tokens / 60.0
}
