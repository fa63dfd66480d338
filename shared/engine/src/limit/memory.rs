//! Limits of one process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::gcra::{Asked, Span, tokens_ms};
use super::{Cost, Limiter, Permit, Quota};
use crate::env::Millis;
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

impl Meter {
    /// Milliseconds until `span` fits; 0 when it fits now.
    fn wait_ms(&self, span: Span, now: f64) -> f64 {
        (self.earned_at_ms.max(now) + span.cost_ms - span.ahead_ms - now).max(0.0)
    }

    fn take(&mut self, span: Span, now: f64) {
        self.earned_at_ms = self.earned_at_ms.max(now) + span.cost_ms;
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
        let asked = Asked::new(quota, cost);
        if let Some(largest) = asked.too_large() {
            return Ok(Permit::Never { largest });
        }
        let now = now_ms as f64;
        let mut buckets = self.buckets();
        let bucket = buckets.entry(bucket.into()).or_default();
        let paused = bucket.paused_until_ms.saturating_sub(now_ms) as f64;
        let (requests, tokens) = (asked.requests, asked.tokens);
        let wait = bucket.requests.wait_ms(requests, now).max(bucket.tokens.wait_ms(tokens, now)).max(paused);
        if wait > 0.0 {
            return Ok(Permit::Wait { after_ms: wait.ceil() as u64 });
        }
        bucket.requests.take(requests, now);
        bucket.tokens.take(tokens, now);
        Ok(Permit::Granted)
    }

    async fn settle(&self, bucket: &str, quota: Quota, estimated: u32, used: u32) -> Result<(), PortError> {
        let mut buckets = self.buckets();
        let meter = &mut buckets.entry(bucket.into()).or_default().tokens;
        meter.earned_at_ms += tokens_ms(quota, f64::from(used) - f64::from(estimated));
        Ok(())
    }

    async fn pause(&self, bucket: &str, until_ms: Millis) -> Result<(), PortError> {
        let mut buckets = self.buckets();
        let paused = &mut buckets.entry(bucket.into()).or_default().paused_until_ms;
        *paused = (*paused).max(until_ms);
        Ok(())
    }
}
