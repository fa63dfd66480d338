//! Adaptive rate for unknown limits: multiplicative decrease, and increase much like AIMD. `rates.lua` and
//! `decrease_rate.lua` of the Redis adapter implement the same rules.
//!
//! A rejection shows that the limit is near what the last minute held. The rate becomes 95 % of that, but not less than
//! 70 % of the current rate, because a minute with few requests says little. Then it grows: 5 % in the first period,
//! and twice as much in each further one. A period is one minute, or longer where a minute holds few requests, so that
//! about one request in a hundred is rejected. It is ten seconds if the bucket was watched for less than a minute.
//!
//! A rejection does not say which of the two limits (requests, tokens) was exceeded. When prompts become longer or
//! shorter, one meter may block what the other would grant, perhaps for nothing. An unconfirmed rate that alone blocks
//! requests therefore grows by half every ten seconds. A rejection while the other meter was idle confirms the rate,
//! and then says nothing about the other.

use crate::env::Millis;

// Share of the last minute's rate that remains after a rejection.
pub(super) const DECREASE_FACTOR: f64 = 0.95;
// Share of the current rate that remains at least.
pub(super) const MIN_DECREASE_FACTOR: f64 = 0.7;
// Growth after the first period.
const GROWTH: f64 = 0.05;
// Periods after which growth stops: it has reached a factor of a thousand by then.
const MAX_GROWTH_PERIODS: f64 = 16.0;
// Length of a period in milliseconds, and of one while the bucket has been watched for less than a minute.
const PERIOD_MS: f64 = 60_000.0;
const YOUNG_PERIOD_MS: f64 = 10_000.0;
// Lower bound of a request rate learned in less than a minute: the first calls say little.
const MIN_YOUNG_REQUESTS: f64 = 30.0;
// Lower bound of a token rate: one that grants no request could never be corrected.
const MIN_TOKENS: f64 = 10_000.0;
// Minimum number of requests in a period.
const PERIOD_REQUESTS: f64 = 75.0;
// Minimum time window that counts as a sample.
const SAMPLE_MS: f64 = 5_000.0;
const MINUTE_MS: f64 = 60_000.0;
// Growth factor and interval of an unconfirmed rate that alone blocks requests.
const UNCONFIRMED_GROWTH: f64 = 1.5;
const UNCONFIRMED_GROWTH_MS: Millis = 10_000;
// How many times more often than the other a meter must have blocked alone: prompt lengths vary.
const BLOCKED_RATIO: u32 = 4;
// Slots of the one-minute window, and their length.
const SLOTS: u64 = 13;
const SLOT_MS: u64 = 5_000;

/// Learned requests and tokens per minute.
#[derive(Debug, Clone, Copy)]
pub(super) struct AdaptiveLimit {
    requests: f64,
    tokens: f64,
    decreased_ms: Millis,
    period_ms: f64,
    // Whether the rates of requests and of tokens are confirmed.
    confirmed: (bool, bool),
    // How often requests, and tokens, alone blocked since the last check.
    blocked_alone: (u32, u32),
    checked_ms: Millis,
}

/// The two limits of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitKind {
    Requests,
    Tokens,
}

impl AdaptiveLimit {
    pub(super) fn rates(&self, now_ms: Millis) -> (f64, f64) {
        let periods = (now_ms.saturating_sub(self.decreased_ms) as f64 / self.period_ms)
            .min(MAX_GROWTH_PERIODS);
        let grown = 1.0 + GROWTH * (periods.exp2() - 1.0);
        (self.requests * grown, self.tokens * grown)
    }

    // Called when one meter blocks a request while the other is idle. If that was nearly always so for a while, the
    // blocking rate grows unless it is confirmed.
    pub(super) fn on_blocked(&mut self, by: LimitKind, now_ms: Millis) {
        let (rate, proved, alone, other) = match by {
            LimitKind::Requests => (
                &mut self.requests,
                self.confirmed.0,
                &mut self.blocked_alone.0,
                self.blocked_alone.1,
            ),
            LimitKind::Tokens => (
                &mut self.tokens,
                self.confirmed.1,
                &mut self.blocked_alone.1,
                self.blocked_alone.0,
            ),
        };
        *alone += 1;
        if now_ms < self.checked_ms + UNCONFIRMED_GROWTH_MS {
            return;
        }
        if !proved && *alone >= BLOCKED_RATIO && *alone >= BLOCKED_RATIO * other {
            *rate *= UNCONFIRMED_GROWTH;
        }
        (self.checked_ms, self.blocked_alone) = (now_ms, (0, 0));
    }
}

/// Grants of the last minute, in slots of five seconds.
#[derive(Debug, Default)]
pub(super) struct GrantWindow {
    slots: [GrantSlot; SLOTS as usize],
    // First request after a minute of inactivity, and last request.
    since_ms: Millis,
    last_ms: Millis,
}

#[derive(Debug, Default, Clone, Copy)]
struct GrantSlot {
    number: u64,
    requests: f64,
    tokens: f64,
}

impl GrantWindow {
    pub(super) fn record_grant(&mut self, tokens: u32, now_ms: Millis) {
        if now_ms >= self.last_ms + PERIOD_MS as u64 {
            self.since_ms = now_ms;
        }
        self.last_ms = now_ms;
        self.add(1.0, f64::from(tokens), now_ms);
    }

    // Corrects the current slot instead of the slot of the grant: estimates are settled soon.
    pub(super) fn add(&mut self, requests: f64, tokens: f64, now_ms: Millis) {
        let number = now_ms / SLOT_MS;
        let slot = &mut self.slots[(number % SLOTS) as usize];
        if slot.number != number {
            *slot = GrantSlot {
                number,
                ..GrantSlot::default()
            };
        }
        (slot.requests, slot.tokens) = (slot.requests + requests, slot.tokens + tokens);
    }

    // Learns from the rejection of a request granted `age_ms` ago. `known` is the rate learned before; `fault` is the
    // limit that must have been exceeded because the other meter was idle.
    pub(super) fn on_rejected(
        &mut self,
        previous: Option<AdaptiveLimit>,
        fault: Option<LimitKind>,
        age_ms: u64,
        now_ms: Millis,
    ) -> Option<AdaptiveLimit> {
        self.add(-1.0, 0.0, now_ms);
        if previous.is_some_and(|previous| now_ms.saturating_sub(age_ms) < previous.decreased_ms) {
            return previous;
        }
        let watched = (now_ms.saturating_sub(self.since_ms) as f64).clamp(SAMPLE_MS, MINUTE_MS);
        let sum = self.last_minute(now_ms);
        let before = previous.map_or((1.0, 1.0), |previous| previous.rates(now_ms));
        let rate = |sum: f64, before: f64| {
            (DECREASE_FACTOR * sum * MINUTE_MS / watched).max(MIN_DECREASE_FACTOR * before)
        };
        let fewest = if watched < MINUTE_MS {
            MIN_YOUNG_REQUESTS
        } else {
            1.0
        };
        let requests = rate(sum.0, before.0).max(fewest);
        let tokens = rate(sum.1, before.1).max(MIN_TOKENS);
        let settled = PERIOD_MS.max(PERIOD_REQUESTS * MINUTE_MS / requests);
        let period_ms = if watched < MINUTE_MS {
            YOUNG_PERIOD_MS
        } else {
            settled
        };
        let proved = (false, false);
        let alone = (0, 0);
        let learned = AdaptiveLimit {
            requests,
            tokens,
            decreased_ms: now_ms,
            period_ms,
            confirmed: proved,
            blocked_alone: alone,
            checked_ms: now_ms,
        };
        let Some(previous) = previous else {
            return Some(learned);
        };
        // The other limit keeps the rate it has grown to.
        Some(match fault {
            None => AdaptiveLimit {
                confirmed: previous.confirmed,
                ..learned
            },
            Some(LimitKind::Requests) => AdaptiveLimit {
                tokens: before.1,
                confirmed: (true, previous.confirmed.1),
                ..learned
            },
            Some(LimitKind::Tokens) => AdaptiveLimit {
                requests: before.0,
                confirmed: (previous.confirmed.0, true),
                ..learned
            },
        })
    }

    // Requests and tokens of the last minute. The oldest slot counts in proportion to its overlap.
    fn last_minute(&self, now_ms: Millis) -> (f64, f64) {
        let first = (now_ms / SLOT_MS).saturating_sub(SLOTS - 1);
        let part = 1.0 - (now_ms % SLOT_MS) as f64 / SLOT_MS as f64;
        let share = |slot: &GrantSlot| match slot.number {
            number if number > first => 1.0,
            number if number == first => part,
            _ => 0.0,
        };
        self.slots
            .iter()
            .fold((0.0, 0.0), |(requests, tokens), slot| {
                (
                    requests + share(slot) * slot.requests,
                    tokens + share(slot) * slot.tokens,
                )
            })
    }
}
