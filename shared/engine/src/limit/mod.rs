//! The port to shared limits: requests and tokens per minute of each model, held by all workers together.
//!
//! What every adapter promises: over any sliding minute no more than the limit plus its burst is granted; a request
//! that can never pass is refused with the reason; interactive work may use the share that bulk may not (I-11).

#[cfg(feature = "testing")]
pub mod conformance;
mod gcra;
mod memory;
mod redis;

use async_trait::async_trait;

pub use self::redis::RedisLimiter;
pub use memory::MemoryLimiter;

use crate::env::Millis;
use crate::key::Class;
use crate::port::PortError;

/// The limits of one bucket (one model at one provider).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Requests per minute.
    pub requests_per_minute: u32,
    /// Tokens per minute, prompt and reply together.
    pub tokens_per_minute: u32,
    /// Requests that may be made at once after a pause, in seconds of their rate. Over any sliding 60 s at most
    /// `requests_per_minute × (1 + burst_seconds / 60)` are granted (never less than one at a time): 3 s keep within
    /// 5 % of the limit.
    pub burst_seconds: u32,
    /// The same for tokens. It also bounds the largest request, which must fit into the burst; so it is longer than
    /// that for requests, whose size is always one.
    pub token_burst_seconds: u32,
    /// Per cent of the quota that bulk work leaves to interactive work.
    pub interactive_percent: u32,
}

impl Quota {
    /// The limits of a model with the usual bursts: 2 s of requests, 30 s of tokens (bulk work may send prompts of up
    /// to 0.4 minutes' worth), a fifth left to people (I-11).
    pub fn per_minute(requests: u32, tokens: u32) -> Self {
        Self {
            requests_per_minute: requests,
            tokens_per_minute: tokens,
            burst_seconds: 2,
            token_burst_seconds: 30,
            interactive_percent: 20,
        }
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Who waits.
    pub class: Class,
    /// Estimated tokens: prompt and the largest reply.
    pub tokens: u32,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit {
    /// Go on; settle with the real number of tokens afterwards.
    Granted,
    /// Ask again after this many milliseconds.
    Wait {
        /// Milliseconds.
        after_ms: u64,
    },
    /// It can never pass: larger than what the quota grants at once.
    Never {
        /// The largest number of tokens that can pass.
        largest: u32,
    },
}

/// Shared limits.
#[async_trait]
pub trait Limiter: Send + Sync {
    /// Asks for one request of `cost` from `bucket` under `quota`.
    ///
    /// # Errors
    /// [`PortError`] when the limiter is away.
    async fn acquire(&self, bucket: &str, quota: Quota, cost: Cost, now_ms: Millis) -> Result<Permit, PortError>;

    /// Corrects an estimate: `used` tokens instead of `estimated`.
    ///
    /// # Errors
    /// [`PortError`] when the limiter is away; the estimate stands.
    async fn settle(&self, bucket: &str, quota: Quota, estimated: u32, used: u32) -> Result<(), PortError>;

    /// Grants nothing from `bucket` before `until_ms`, to anyone: the provider said so.
    ///
    /// # Errors
    /// [`PortError`] when the limiter is away.
    async fn pause(&self, bucket: &str, until_ms: Millis) -> Result<(), PortError>;
}
