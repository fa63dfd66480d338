//! The port to shared limits: requests and tokens per minute of each model, held by all workers together.
//!
//! What every adapter promises: over any sliding minute no more than the limit plus its burst is granted; a request
//! that can never pass is refused with the reason; interactive work may use the share that bulk may not (I-11). What the
//! provider states about its limits, and what is learned where it states nothing, holds for all workers at once.

mod aimd;
mod gcra;
mod memory;
mod redis;

use async_trait::async_trait;

pub use self::redis::RedisLimiter;
pub use memory::MemoryLimiter;

use crate::env::Millis;
use crate::key::Priority;
use crate::port_error::PortError;

/// The limits of one bucket (one model at one provider).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Requests per minute; [`Quota::UNKNOWN`] where no one has said.
    pub requests_per_minute: u32,
    /// Tokens per minute, prompt and reply together; [`Quota::UNKNOWN`] where no one has said.
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
    /// A limit that no one has said: what the provider states counts, and what is learned from its refusals.
    pub const UNKNOWN: u32 = u32::MAX;
    /// Seconds of requests, and of tokens, that [`Quota::per_minute`] grants at once.
    const BURST_SECONDS: u32 = 1;
    const TOKEN_BURST_SECONDS: u32 = 2;

    /// The limits of a model with short bursts, a fifth left to people (I-11), and rates so much below the limits that no
    /// sliding minute exceeds them, bursts included. A request larger than a burst is the caller's to pay for.
    pub fn per_minute(requests: u32, tokens: u32) -> Self {
        Self {
            requests_per_minute: paced_rate(requests, Self::BURST_SECONDS),
            tokens_per_minute: paced_rate(tokens, Self::TOKEN_BURST_SECONDS),
            burst_seconds: Self::BURST_SECONDS,
            token_burst_seconds: Self::TOKEN_BURST_SECONDS,
            interactive_percent: 20,
        }
    }
}

/// The rate at which a sliding minute with a whole burst in it holds `limit`.
fn paced_rate(limit: u32, burst_seconds: u32) -> u32 {
    if limit == Quota::UNKNOWN {
        return limit;
    }
    let paced = u64::from(limit) * 60 / (60 + u64::from(burst_seconds));
    u32::try_from(paced).unwrap_or(limit).max(1)
}

/// What a provider says about its limits, in the headers of a reply. `None`: nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReportedLimits {
    /// Requests per minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens per minute.
    pub tokens_per_minute: Option<u32>,
    /// Requests that it would take now.
    pub requests_remaining: Option<u32>,
    /// Tokens that it would take now.
    pub tokens_remaining: Option<u32>,
}

impl ReportedLimits {
    /// The same with limits at which [`Quota::per_minute`] would pace requests.
    #[must_use]
    pub fn paced(self) -> Self {
        Self {
            requests_per_minute: self
                .requests_per_minute
                .map(|limit| paced_rate(limit, Quota::BURST_SECONDS)),
            tokens_per_minute: self
                .tokens_per_minute
                .map(|limit| paced_rate(limit, Quota::TOKEN_BURST_SECONDS)),
            ..self
        }
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestCost {
    /// Who waits.
    pub class: Priority,
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
    TooLarge {
        /// The largest number of tokens that can pass.
        max_tokens: u32,
    },
}

/// Shared limits.
#[async_trait]
pub trait Limiter: Send + Sync {
    /// Asks for one request of `cost` from `bucket` under `quota`.
    ///
    /// # Errors
    /// [`PortError`] when the limiter is away.
    async fn acquire(
        &self,
        bucket: &str,
        quota: Quota,
        cost: RequestCost,
        now_ms: Millis,
    ) -> Result<Permit, PortError>;

    /// Corrects an estimate: `used` tokens instead of `estimated`.
    ///
    /// # Errors
    /// [`PortError`] when the limiter is away; the estimate stands.
    async fn settle(
        &self,
        bucket: &str,
        quota: Quota,
        estimated: u32,
        used: u32,
    ) -> Result<(), PortError>;

    /// Grants nothing from `bucket` before `until_ms`, to anyone: the provider said so.
    ///
    /// # Errors
    /// [`PortError`] when the limiter is away.
    async fn pause(&self, bucket: &str, until_ms: Millis) -> Result<(), PortError>;

    /// Takes over what the provider says: from now on no more than the stated limits is granted, to anyone, and no more
    /// at once than it would take (give or take two requests, or a second of tokens, that were under way meanwhile).
    ///
    /// # Errors
    /// [`PortError`] when the limiter is away.
    async fn report_limits(
        &self,
        bucket: &str,
        quota: Quota,
        reported: ReportedLimits,
        now_ms: Millis,
    ) -> Result<(), PortError>;

    /// The provider refused a request that was granted `age_ms` ago as one too many, and no limit is known: slower from
    /// now on, for everyone, and step by step faster again. A request granted before the last such word says nothing
    /// new.
    ///
    /// # Errors
    /// [`PortError`] when the limiter is away.
    async fn decrease_rate(
        &self,
        bucket: &str,
        age_ms: u64,
        now_ms: Millis,
    ) -> Result<(), PortError>;

    /// Reserves `amount` (of whatever the account is kept in) where all that was spent and is reserved stays within `limit`.
    ///
    /// # Errors
    /// [`PortError`] when the limiter is away; it may be reserved all the same.
    async fn reserve(
        &self,
        account: &str,
        limit: u64,
        amount: u64,
        now_ms: Millis,
    ) -> Result<Reservation, PortError>;

    /// Spends `used` instead of `reserved`, which is given back. Does nothing where there is no account.
    ///
    /// # Errors
    /// [`PortError`] when the limiter is away; the reservation stands.
    async fn settle_reservation(
        &self,
        account: &str,
        reserved: u64,
        used: u64,
        now_ms: Millis,
    ) -> Result<(), PortError>;

    /// Opens an account of which `spent` is spent, unless there is one: a lost account is made anew from what is known.
    ///
    /// # Errors
    /// [`PortError`] when the limiter is away.
    async fn open_account(&self, account: &str, used: u64, now_ms: Millis)
    -> Result<(), PortError>;
}

/// What came of asking for money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reservation {
    /// It is reserved.
    Granted,
    /// There is no such account: it was never opened, or is lost.
    Unknown,
    /// It would exceed the limit.
    Refused {
        /// Whether it may fit when what others have reserved is settled. What was reserved and not touched for ten minutes
        /// counts as spent: whoever reserved it has gone.
        may_fit_later: bool,
    },
}
