//! The limiter port: requests and tokens per minute of each model, shared by all workers.
//!
//! Every adapter guarantees: any sliding minute grants at most the limit plus its burst; a request that can never pass
//! is refused with the reason; interactive work may use a share that bulk work may not (I-11). Limits reported by the
//! provider, and rates learned where it reports none, apply to all workers at once.

mod aimd;
mod gcra;
mod memory;

use crate::env::Millis;
use crate::key::Priority;
use crate::port_error::PortResult;
use async_trait::async_trait;

pub use gcra::Burst;
pub use memory::MemoryLimiter;

/// Limits of a bucket (a model at a provider).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// [`Quota::UNKNOWN`] if not configured.
    pub requests_per_minute: u32,
    /// Prompt and reply together; [`Quota::UNKNOWN`] if not configured.
    pub tokens_per_minute: u32,
    /// Burst of requests after a pause, in seconds of their rate. Any sliding 60 s grant at most `requests_per_minute ×
    /// (1 + burst_seconds / 60)`, but at least one: with 3 s the total stays within 5 % of the limit.
    pub burst_seconds: u32,
    /// Burst of tokens, in seconds of their rate. Bounds the largest request, which must fit into the burst; therefore
    /// longer than the burst of requests.
    pub token_burst_seconds: u32,
    /// Percentage of the quota that is reserved for interactive work.
    pub interactive_percent: u32,
}

impl Quota {
    /// No configured limit: reported limits apply, and what rejections teach.
    pub const UNKNOWN: u32 = u32::MAX;
    // Bursts of requests, and of tokens, that [`Quota::per_minute`] allows, in seconds.
    const BURST_SECONDS: u32 = 1;
    const TOKEN_BURST_SECONDS: u32 = 2;

    /// Limits with short bursts and a fifth reserved for interactive work (I-11). The rates are reduced so that no
    /// sliding minute exceeds the limits, bursts included. A request larger than a burst cannot pass.
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

/// The rate at which a sliding minute that contains a full burst stays within `limit`.
fn paced_rate(limit: u32, burst_seconds: u32) -> u32 {
    if limit == Quota::UNKNOWN {
        return limit;
    }
    let paced = u64::from(limit) * 60 / (60 + u64::from(burst_seconds));
    u32::try_from(paced).unwrap_or(limit).max(1)
}

/// How long a reported rate applies. A provider that limits says so in each reply; after ten minutes without, the limit was
/// lifted, or another server answers. `rates.lua` of the Redis adapter repeats the number.
pub(crate) const REPORT_TTL_MS: Millis = 600_000;

/// Limits reported by a provider in the headers of a reply; `None` if not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReportedLimits {
    pub requests_per_minute: Option<u32>,
    pub tokens_per_minute: Option<u32>,
    /// Requests that the provider would accept now.
    pub requests_remaining: Option<u32>,
    /// Tokens that the provider would accept now.
    pub tokens_remaining: Option<u32>,
}

impl ReportedLimits {
    /// The limits at which [`Quota::per_minute`] would pace requests.
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

/// Cost of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestCost {
    pub priority: Priority,
    /// Estimate: prompt plus the longest possible reply.
    pub tokens: u32,
}

/// Answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit {
    /// Granted; settle with the actual number of tokens afterwards.
    Granted,
    /// Ask again later.
    Wait { after_ms: u64 },
    /// Can never pass: larger than the burst.
    TooLarge {
        /// The largest number of tokens that can pass.
        max_tokens: u32,
    },
}

/// Shared rate limits, and accounts for budgets.
#[async_trait]
pub trait Limiter: Send + Sync {
    /// Requests a permit for one call of `cost` from `bucket` under `quota`.
    async fn acquire(
        &self,
        bucket: &str,
        quota: Quota,
        cost: RequestCost,
        now_ms: Millis,
    ) -> PortResult<Permit>;

    /// Corrects an estimate: `used` tokens instead of `estimated`.
    ///
    /// # Errors
    /// [`crate::PortError`] when the limiter is unavailable; the estimate stays reserved.
    async fn settle(&self, bucket: &str, quota: Quota, estimated: u32, used: u32)
    -> PortResult<()>;

    /// Grants nothing from `bucket` before `until_ms`, as the provider asked.
    async fn pause(&self, bucket: &str, until_ms: Millis) -> PortResult<()>;

    /// Applies limits reported by the provider: no more than these are granted for ten minutes, and no more at once than
    /// remains (plus two requests, or one second of tokens, that may have been in flight).
    async fn report_limits(
        &self,
        bucket: &str,
        quota: Quota,
        reported: ReportedLimits,
        now_ms: Millis,
    ) -> PortResult<()>;

    /// Lowers the learned rate after the provider rejected a request granted `age_ms` ago, where no limit is known. The
    /// rate grows again step by step. Requests granted before the last decrease are ignored: they teach nothing new.
    async fn decrease_rate(&self, bucket: &str, age_ms: u64, now_ms: Millis) -> PortResult<()>;

    /// Holds an amount for a call if spent plus reserved amounts stay within `limit`. Repeating it reserves once. What
    /// is not settled within its time is given back: the call ended without anyone to settle it. A limiter that was unavailable
    /// for longer than that may grant the amount again in the two seconds after its return, before the settlement arrives.
    ///
    /// # Errors
    /// [`crate::PortError`] when the limiter is unavailable; it may be reserved all the same.
    async fn reserve(
        &self,
        account: &str,
        limit: u64,
        call: AccountReservation,
        now_ms: Millis,
    ) -> PortResult<Reservation>;

    /// Replaces the reservation of a call by the amount used; other reservations are left alone. Repeating it within
    /// ten minutes charges once. Where the account is lost, the amount is kept and added when the account is opened again.
    ///
    /// # Errors
    /// [`crate::PortError`] when the limiter is unavailable; the reservation lasts until it expires.
    async fn settle_reservation(
        &self,
        account: &str,
        call: AccountReservation,
        used: u64,
        now_ms: Millis,
    ) -> PortResult<()>;

    /// Begins to open an account: call it before reading what was spent. Returns the opening to pass to
    /// [`Self::open_account`]: `proposed`, or the one that another process began.
    async fn begin_opening(&self, account: &str, proposed: u64) -> PortResult<u64>;

    /// Opens an account with an amount already spent, unless it exists: lost accounts are rebuilt this way. What was
    /// settled while there was no account is added, even if `used` contains it already: the sum may be too high by the
    /// calls that were in flight at the loss, never too low. Does nothing if the account was lost since `opening` began:
    /// `used` may lack calls that were settled before the loss.
    async fn open_account(&self, account: &str, opening: u64, used: u64) -> PortResult<()>;
}

/// How long an account knows which calls were settled. A process that was suspended may repeat a settlement when it goes on;
/// one that was suspended for longer charges the call twice.
pub const SETTLED_MS: Millis = 600_000;

/// What a call holds on an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountReservation {
    /// Random; identifies the call.
    pub id: u64,
    /// In the unit of the account.
    pub amount: u64,
    /// How long the amount is held without a settlement.
    pub ttl_ms: u64,
}

/// Answer to a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reservation {
    Granted,
    /// The account was never opened, or is lost.
    Unknown,
    /// The limit would be exceeded.
    Refused {
        /// Whether it may fit once other reservations are settled or given back.
        may_fit_later: bool,
    },
}
