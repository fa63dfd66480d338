//! Limits of one process, by the generic cell rate algorithm (GCRA, ITU-T I.371 Annex A): one theoretical arrival
//! time per meter instead of a window of timestamps.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{Cost, Limiter, Permit, Quota};
use crate::env::Millis;
use crate::key::Class;
use crate::port::PortError;

/// Limits held in memory.
#[derive(Default)]
pub struct MemoryLimiter(Mutex<BTreeMap<String, Bucket>>);

#[derive(Default)]
struct Bucket {
    paused_until_ms: Millis,
    requests: Meter,
    tokens: Meter,
}

/// The time, in milliseconds, at which everything granted so far will have been earned.
#[derive(Default)]
struct Meter {
    earned_at_ms: f64,
}

/// How much of a meter a request wants: `cost` units at `rate` units per minute.
struct Ask {
    cost: f64,
    rate: f64,
    /// Milliseconds ahead of now that may be granted.
    ahead_ms: f64,
}

impl Meter {
    /// Milliseconds until `ask` fits; 0 when it fits now.
    fn wait_ms(&self, ask: &Ask, now: f64) -> f64 {
        (self.earned_at_ms.max(now) + ask.span_ms() - ask.ahead_ms - now).max(0.0)
    }

    fn take(&mut self, ask: &Ask, now: f64) {
        self.earned_at_ms = self.earned_at_ms.max(now) + ask.span_ms();
    }
}

impl Ask {
    fn new(cost: u32, rate: u32, quota: Quota, class: Class) -> Self {
        // Bulk sees a smaller burst: what it may not use is there when a person comes.
        let share = match class {
            Class::Interactive => 1.0,
            Class::Bulk => 1.0 - f64::from(quota.interactive_percent.min(100)) / 100.0,
        };
        Self {
            cost: f64::from(cost),
            rate: f64::from(rate.max(1)),
            ahead_ms: f64::from(quota.burst_seconds) * 1_000.0 * share,
        }
    }

    /// However slow the rate and short the burst, one request at a time must be able to pass.
    fn at_least_one(self) -> Self {
        Self { ahead_ms: self.ahead_ms.max(60_000.0 / self.rate), ..self }
    }

    fn span_ms(&self) -> f64 {
        self.cost * 60_000.0 / self.rate
    }

    fn can_pass(&self) -> bool {
        self.span_ms() <= self.ahead_ms
    }
}

impl MemoryLimiter {
    fn buckets(&self) -> MutexGuard<'_, BTreeMap<String, Bucket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Limiter for MemoryLimiter {
    async fn acquire(&self, bucket: &str, quota: Quota, cost: Cost, now_ms: Millis) -> Result<Permit, PortError> {
        let requests = Ask::new(1, quota.requests_per_minute, quota, cost.class).at_least_one();
        let tokens = Ask::new(cost.tokens, quota.tokens_per_minute, quota, cost.class);
        if !(requests.can_pass() && tokens.can_pass()) {
            let largest = (tokens.ahead_ms * tokens.rate / 60_000.0) as u32;
            return Ok(Permit::Never { largest });
        }
        let now = now_ms as f64;
        let mut buckets = self.buckets();
        let bucket = buckets.entry(bucket.into()).or_default();
        let paused = bucket.paused_until_ms.saturating_sub(now_ms) as f64;
        let wait = bucket.requests.wait_ms(&requests, now).max(bucket.tokens.wait_ms(&tokens, now)).max(paused);
        if wait > 0.0 {
            return Ok(Permit::Wait { after_ms: wait.ceil() as u64 });
        }
        bucket.requests.take(&requests, now);
        bucket.tokens.take(&tokens, now);
        Ok(Permit::Granted)
    }

    async fn settle(&self, bucket: &str, quota: Quota, estimated: u32, used: u32) -> Result<(), PortError> {
        let mut buckets = self.buckets();
        let meter = &mut buckets.entry(bucket.into()).or_default().tokens;
        let correction = f64::from(used) - f64::from(estimated);
        meter.earned_at_ms += correction * 60_000.0 / f64::from(quota.tokens_per_minute.max(1));
        Ok(())
    }

    async fn pause(&self, bucket: &str, until_ms: Millis) -> Result<(), PortError> {
        let mut buckets = self.buckets();
        let paused = &mut buckets.entry(bucket.into()).or_default().paused_until_ms;
        *paused = (*paused).max(until_ms);
        Ok(())
    }
}
