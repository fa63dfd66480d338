//! The rate that is learned where no limit is known: additive-increase-like, multiplicative decrease (rule 11), over what
//! was let through in the last minute. `redis/rates.lua` and `redis/slow.lua` say the same in the words of Redis.
//!
//! A refusal says that the limit is about what the last minute held: the rate becomes 95 % of that, but not less than
//! 70 % of what it was (a minute in which little was asked says little). Then it grows: 5 % in the first period, twice as
//! much more in each that follows. A period is a minute, more where a minute is few requests, so that about one request
//! in a hundred is refused; ten seconds where the bucket was watched for less than a minute.
//!
//! A refusal does not say which of the two limits it was. While questions stay alike that does not matter; when they
//! become longer or shorter, one meter holds up what the other would let through, perhaps for nothing. So a rate that
//! alone holds up work, and that nobody has proved, grows by half every ten seconds. A refusal proves it when the other
//! meter has been at rest, and then says nothing about the other.

use crate::env::Millis;

/// What a refusal leaves of the rate of the last minute.
pub(super) const DECREASE_FACTOR: f64 = 0.95;
/// What it leaves of the rate in force, at least.
pub(super) const MIN_DECREASE_FACTOR: f64 = 0.7;
/// How much a rate has grown after one period.
const GROWTH: f64 = 0.05;
/// Periods after which it grows no further: a thousand times and more.
const MAX_GROWTH_PERIODS: f64 = 16.0;
/// A period, in milliseconds, and that of a rate that was learned in less than a minute.
const PERIOD_MS: f64 = 60_000.0;
const YOUNG_PERIOD_MS: f64 = 10_000.0;
/// The lowest rate of requests that is learned in less than a minute: the first calls say little.
const MIN_YOUNG_REQUESTS: f64 = 30.0;
/// The lowest rate of tokens: one that lets no question through teaches nothing.
const MIN_TOKENS: f64 = 10_000.0;
/// Requests that a period holds at least.
const PERIOD_REQUESTS: f64 = 75.0;
/// The shortest time that is taken for a sample.
const SAMPLE_MS: f64 = 5_000.0;
const MINUTE_MS: f64 = 60_000.0;
/// How much an unproved rate grows at a time that alone holds up work, and how often.
const UNCONFIRMED_GROWTH: f64 = 1.5;
const UNCONFIRMED_GROWTH_MS: Millis = 10_000;
/// How many times more often than the other a meter alone must have held up work: lengths of questions vary.
const BLOCKED_RATIO: u32 = 4;
/// Slots of the last minute, and their length.
const SLOTS: u64 = 13;
const SLOT_MS: u64 = 5_000;

/// A learned rate per minute.
#[derive(Debug, Clone, Copy)]
pub(super) struct AdaptiveLimit {
    requests: f64,
    tokens: f64,
    decreased_ms: Millis,
    period_ms: f64,
    /// Whether the rates of requests and of tokens were proved.
    confirmed: (bool, bool),
    /// How often requests, and tokens, alone held up a request since it was last looked at.
    blocked_alone: (u32, u32),
    checked_ms: Millis,
}

/// One of the two limits of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitKind {
    Requests,
    Tokens,
}

impl AdaptiveLimit {
    /// Requests and tokens per minute at `now_ms`.
    pub(super) fn rates(&self, now_ms: Millis) -> (f64, f64) {
        let periods = (now_ms.saturating_sub(self.decreased_ms) as f64 / self.period_ms)
            .min(MAX_GROWTH_PERIODS);
        let grown = 1.0 + GROWTH * (periods.exp2() - 1.0);
        (self.requests * grown, self.tokens * grown)
    }

    /// A request is held up at `now_ms` by one meter, while the other is at rest. Where that was so nearly every time for a
    /// while, the rate grows, unless it was proved.
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

/// What was granted in the last minute, in slots of five seconds.
#[derive(Debug, Default)]
pub(super) struct GrantWindow {
    slots: [GrantSlot; SLOTS as usize],
    /// When the first request came after a minute of rest, and when the last one came.
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
    /// Counts a grant.
    pub(super) fn record_grant(&mut self, tokens: u32, now_ms: Millis) {
        if now_ms >= self.last_ms + PERIOD_MS as u64 {
            self.since_ms = now_ms;
        }
        self.last_ms = now_ms;
        self.add(1.0, f64::from(tokens), now_ms);
    }

    /// Corrects what was counted: in the slot of now, for an estimate is settled soon.
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

    /// What a refusal of a request granted `age_ms` ago teaches; `known` is what was learned before, `fault` the limit that
    /// it must have been, where the other was at rest.
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
        // The other limit stays what it has grown to.
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

    /// Requests and tokens of the last minute; of the slot in which it begins, the part that lies in it.
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
