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
pub(super) const KEPT: f64 = 0.95;
/// What it leaves of the rate in force, at least.
pub(super) const KEPT_AT_LEAST: f64 = 0.7;
/// How much a rate has grown after one period.
const GROWTH: f64 = 0.05;
/// Periods after which it grows no further: a thousand times and more.
const PERIODS: f64 = 16.0;
/// A period, in milliseconds, and that of a rate that was learned in less than a minute.
const PERIOD_MS: f64 = 60_000.0;
const YOUNG_PERIOD_MS: f64 = 10_000.0;
/// The lowest rate of requests that is learned in less than a minute: the first calls say little.
const FEWEST_WHILE_YOUNG: f64 = 30.0;
/// The lowest rate of tokens: one that lets no question through teaches nothing.
const FEWEST_TOKENS: f64 = 10_000.0;
/// Requests that a period holds at least.
const PERIOD_REQUESTS: f64 = 75.0;
/// The shortest time that is taken for a sample.
const SAMPLE_MS: f64 = 5_000.0;
const MINUTE_MS: f64 = 60_000.0;
/// How much an unproved rate grows at a time that alone holds up work, and how often.
const STEP: f64 = 1.5;
const STEP_MS: Millis = 10_000;
/// How many times more often than the other a meter alone must have held up work: lengths of questions vary.
const ALONE: u32 = 4;
/// Slots of the last minute, and their length.
const SLOTS: u64 = 13;
const SLOT_MS: u64 = 5_000;

/// A learned rate per minute.
#[derive(Debug, Clone, Copy)]
pub(super) struct Learned {
    requests: f64,
    tokens: f64,
    slowed_ms: Millis,
    period_ms: f64,
    /// Whether the rates of requests and of tokens were proved.
    proved: (bool, bool),
    /// How often requests, and tokens, alone held up a request since it was last looked at.
    alone: (u32, u32),
    looked_ms: Millis,
}

/// One of the two limits of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Requests,
    Tokens,
}

impl Learned {
    /// Requests and tokens per minute at `now_ms`.
    pub(super) fn rates(&self, now_ms: Millis) -> (f64, f64) {
        let periods = (now_ms.saturating_sub(self.slowed_ms) as f64 / self.period_ms).min(PERIODS);
        let grown = 1.0 + GROWTH * (periods.exp2() - 1.0);
        (self.requests * grown, self.tokens * grown)
    }

    /// A request is held up at `now_ms` by one meter, while the other is at rest. Where that was so nearly every time for a
    /// while, the rate grows, unless it was proved.
    pub(super) fn held_up(&mut self, by: Which, now_ms: Millis) {
        let (rate, proved, alone, other) = match by {
            Which::Requests => (
                &mut self.requests,
                self.proved.0,
                &mut self.alone.0,
                self.alone.1,
            ),
            Which::Tokens => (
                &mut self.tokens,
                self.proved.1,
                &mut self.alone.1,
                self.alone.0,
            ),
        };
        *alone += 1;
        if now_ms < self.looked_ms + STEP_MS {
            return;
        }
        if !proved && *alone >= ALONE && *alone >= ALONE * other {
            *rate *= STEP;
        }
        (self.looked_ms, self.alone) = (now_ms, (0, 0));
    }
}

/// What was granted in the last minute, in slots of five seconds.
#[derive(Debug, Default)]
pub(super) struct Seen {
    slots: [Slot; SLOTS as usize],
    /// When the first request came after a minute of rest, and when the last one came.
    since_ms: Millis,
    last_ms: Millis,
}

#[derive(Debug, Default, Clone, Copy)]
struct Slot {
    number: u64,
    requests: f64,
    tokens: f64,
}

impl Seen {
    /// Counts a grant.
    pub(super) fn granted(&mut self, tokens: u32, now_ms: Millis) {
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
            *slot = Slot {
                number,
                ..Slot::default()
            };
        }
        (slot.requests, slot.tokens) = (slot.requests + requests, slot.tokens + tokens);
    }

    /// What a refusal of a request granted `age_ms` ago teaches; `known` is what was learned before, `fault` the limit that
    /// it must have been, where the other was at rest.
    pub(super) fn refused(
        &mut self,
        known: Option<Learned>,
        fault: Option<Which>,
        age_ms: u64,
        now_ms: Millis,
    ) -> Option<Learned> {
        self.add(-1.0, 0.0, now_ms);
        if known.is_some_and(|known| now_ms.saturating_sub(age_ms) < known.slowed_ms) {
            return known;
        }
        let watched = (now_ms.saturating_sub(self.since_ms) as f64).clamp(SAMPLE_MS, MINUTE_MS);
        let sum = self.last_minute(now_ms);
        let before = known.map_or((1.0, 1.0), |known| known.rates(now_ms));
        let rate =
            |sum: f64, before: f64| (KEPT * sum * MINUTE_MS / watched).max(KEPT_AT_LEAST * before);
        let fewest = if watched < MINUTE_MS {
            FEWEST_WHILE_YOUNG
        } else {
            1.0
        };
        let requests = rate(sum.0, before.0).max(fewest);
        let tokens = rate(sum.1, before.1).max(FEWEST_TOKENS);
        let settled = PERIOD_MS.max(PERIOD_REQUESTS * MINUTE_MS / requests);
        let period_ms = if watched < MINUTE_MS {
            YOUNG_PERIOD_MS
        } else {
            settled
        };
        let proved = (false, false);
        let alone = (0, 0);
        let learned = Learned {
            requests,
            tokens,
            slowed_ms: now_ms,
            period_ms,
            proved,
            alone,
            looked_ms: now_ms,
        };
        let Some(known) = known else {
            return Some(learned);
        };
        // The other limit stays what it has grown to.
        Some(match fault {
            None => Learned {
                proved: known.proved,
                ..learned
            },
            Some(Which::Requests) => Learned {
                tokens: before.1,
                proved: (true, known.proved.1),
                ..learned
            },
            Some(Which::Tokens) => Learned {
                requests: before.0,
                proved: (known.proved.0, true),
                ..learned
            },
        })
    }

    /// Requests and tokens of the last minute; of the slot in which it begins, the part that lies in it.
    fn last_minute(&self, now_ms: Millis) -> (f64, f64) {
        let first = (now_ms / SLOT_MS).saturating_sub(SLOTS - 1);
        let part = 1.0 - (now_ms % SLOT_MS) as f64 / SLOT_MS as f64;
        let share = |slot: &Slot| match slot.number {
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
