//! Limits of one process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::gcra::{Ahead, Asked, Rates, SLACK_REQUESTS, Span, owed_ms, slack_tokens, tokens_ms};
use super::learn::{Learned, Seen, Which};
use super::{Cost, Limiter, Permit, Quota, Reserved, Stated};
use crate::env::Millis;
use crate::key::Class;
use crate::port::PortError;

/// After so long without a word, what is reserved counts as spent.
const FORSAKEN_MS: Millis = 600_000;

/// Limits held in memory.
#[derive(Default)]
pub struct MemoryLimiter(
    Mutex<BTreeMap<String, Bucket>>,
    Mutex<BTreeMap<String, Account>>,
);

#[derive(Default)]
struct Account {
    spent: u64,
    reserved: u64,
    touched_ms: Millis,
}

#[derive(Default)]
struct Bucket {
    paused_until_ms: Millis,
    requests: Meter,
    tokens: Meter,
    stated: Stated,
    learned: Option<Learned>,
    seen: Seen,
    /// When it was last asked: a correction comes without a time.
    now_ms: Millis,
}

impl Bucket {
    /// What is in force: the quota, what the provider stated, and, where no quota is known, what was learned.
    fn rates(&self, quota: Quota, now_ms: Millis) -> Rates {
        let unknown = f64::from(Quota::UNKNOWN);
        let learned = self
            .learned
            .map_or((unknown, unknown), |learned| learned.rates(now_ms));
        let rate = |quota: u32, stated: Option<u32>, learned: f64| {
            let rate = f64::from(quota.min(stated.unwrap_or(quota)));
            let rate = if quota == Quota::UNKNOWN {
                rate.min(learned)
            } else {
                rate
            };
            rate.max(1.0)
        };
        Rates {
            requests: rate(
                quota.requests_per_minute,
                self.stated.requests_per_minute,
                learned.0,
            ),
            tokens: rate(
                quota.tokens_per_minute,
                self.stated.tokens_per_minute,
                learned.1,
            ),
        }
    }
}

/// The time, in milliseconds, at which everything granted so far will have been earned.
#[derive(Default)]
struct Meter {
    earned_at_ms: f64,
}

impl Meter {
    /// Milliseconds until `span` fits; 0 when it fits now.
    fn wait_ms(&self, span: Span, now: f64) -> f64 {
        (self.earned_at_ms.max(now) + span.cost_ms - span.ahead_ms - now).max(0.0)
    }

    /// Whether everything it granted is earned.
    fn rests(&self, now: f64) -> bool {
        self.earned_at_ms <= now
    }

    fn take(&mut self, span: Span, now: f64) {
        self.earned_at_ms = self.earned_at_ms.max(now) + span.cost_ms;
    }
}

impl MemoryLimiter {
    fn buckets(&self) -> MutexGuard<'_, BTreeMap<String, Bucket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accounts(&self) -> MutexGuard<'_, BTreeMap<String, Account>> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Limiter for MemoryLimiter {
    async fn acquire(
        &self,
        bucket: &str,
        quota: Quota,
        cost: Cost,
        now_ms: Millis,
    ) -> Result<Permit, PortError> {
        let mut buckets = self.buckets();
        let bucket = buckets.entry(bucket.into()).or_default();
        bucket.now_ms = now_ms;
        let asked = Asked::new(quota, bucket.rates(quota, now_ms), cost);
        if let Some(largest) = asked.too_large() {
            return Ok(Permit::Never { largest });
        }
        let now = now_ms as f64;
        let paused = bucket.paused_until_ms.saturating_sub(now_ms) as f64;
        let requests = asked.requests;
        let tokens = asked.tokens;
        let waits = (
            bucket.requests.wait_ms(requests, now),
            bucket.tokens.wait_ms(tokens, now),
        );
        let wait = waits.0.max(waits.1).max(paused);
        if wait > 0.0 {
            let alone = match waits {
                (_, 0.0) if bucket.tokens.rests(now) => Some(Which::Requests),
                (0.0, _) if bucket.requests.rests(now) => Some(Which::Tokens),
                _ => None,
            };
            if let (Some(learned), Some(alone), true) = (&mut bucket.learned, alone, paused == 0.0)
            {
                learned.held_up(alone, now_ms);
            }
            return Ok(Permit::Wait {
                after_ms: wait.ceil() as u64,
            });
        }
        bucket.requests.take(requests, now);
        bucket.tokens.take(tokens, now);
        bucket.seen.granted(cost.tokens, now_ms);
        Ok(Permit::Granted)
    }

    async fn settle(
        &self,
        bucket: &str,
        quota: Quota,
        estimated: u32,
        used: u32,
    ) -> Result<(), PortError> {
        let mut buckets = self.buckets();
        let bucket = buckets.entry(bucket.into()).or_default();
        let now_ms = bucket.now_ms;
        let more = f64::from(used) - f64::from(estimated);
        bucket.tokens.earned_at_ms += tokens_ms(bucket.rates(quota, now_ms), more);
        bucket.seen.add(0.0, more, now_ms);
        Ok(())
    }

    async fn pause(&self, bucket: &str, until_ms: Millis) -> Result<(), PortError> {
        let mut buckets = self.buckets();
        let paused = &mut buckets.entry(bucket.into()).or_default().paused_until_ms;
        *paused = (*paused).max(until_ms);
        Ok(())
    }

    async fn state(
        &self,
        bucket: &str,
        quota: Quota,
        stated: Stated,
        now_ms: Millis,
    ) -> Result<(), PortError> {
        let mut buckets = self.buckets();
        let bucket = buckets.entry(bucket.into()).or_default();
        let Stated {
            requests_per_minute,
            tokens_per_minute,
            requests_left,
            tokens_left,
        } = stated;
        bucket.stated.requests_per_minute =
            requests_per_minute.or(bucket.stated.requests_per_minute);
        bucket.stated.tokens_per_minute = tokens_per_minute.or(bucket.stated.tokens_per_minute);
        let rates = bucket.rates(quota, now_ms);
        let ahead = Ahead::of(quota, Class::Bulk);
        let owe = |meter: &mut Meter, owed_ms: f64| {
            meter.earned_at_ms = meter.earned_at_ms.max(now_ms as f64 + owed_ms.max(0.0));
        };
        if let Some(left) = requests_left {
            owe(
                &mut bucket.requests,
                owed_ms(
                    ahead.requests_ms,
                    f64::from(left),
                    SLACK_REQUESTS,
                    rates.requests,
                ),
            );
        }
        if let Some(left) = tokens_left {
            owe(
                &mut bucket.tokens,
                owed_ms(
                    ahead.tokens_ms,
                    f64::from(left),
                    slack_tokens(rates),
                    rates.tokens,
                ),
            );
        }
        Ok(())
    }

    async fn slow(&self, bucket: &str, age_ms: u64, now_ms: Millis) -> Result<(), PortError> {
        let mut buckets = self.buckets();
        let bucket = buckets.entry(bucket.into()).or_default();
        let now = now_ms as f64;
        let fault = match (bucket.requests.rests(now), bucket.tokens.rests(now)) {
            (false, true) => Some(Which::Requests),
            (true, false) => Some(Which::Tokens),
            _ => None,
        };
        bucket.learned = bucket.seen.refused(bucket.learned, fault, age_ms, now_ms);
        Ok(())
    }

    async fn reserve(
        &self,
        account: &str,
        limit: u64,
        amount: u64,
        now_ms: Millis,
    ) -> Result<Reserved, PortError> {
        let mut accounts = self.accounts();
        let Some(account) = accounts.get_mut(account) else {
            return Ok(Reserved::Unknown);
        };
        if account
            .spent
            .saturating_add(account.reserved)
            .saturating_add(amount)
            > limit
        {
            let gone = now_ms > account.touched_ms + FORSAKEN_MS;
            return Ok(Reserved::Refused {
                later: account.spent.saturating_add(amount) <= limit && !gone,
            });
        }
        account.reserved += amount;
        account.touched_ms = now_ms;
        Ok(Reserved::Granted)
    }

    async fn spend(
        &self,
        account: &str,
        reserved: u64,
        used: u64,
        now_ms: Millis,
    ) -> Result<(), PortError> {
        if let Some(account) = self.accounts().get_mut(account) {
            account.reserved = account.reserved.saturating_sub(reserved);
            account.spent = account.spent.saturating_add(used);
            account.touched_ms = now_ms;
        }
        Ok(())
    }

    async fn open_account(
        &self,
        account: &str,
        spent: u64,
        now_ms: Millis,
    ) -> Result<(), PortError> {
        let new = Account {
            spent,
            reserved: 0,
            touched_ms: now_ms,
        };
        self.accounts().entry(account.into()).or_insert(new);
        Ok(())
    }
}
