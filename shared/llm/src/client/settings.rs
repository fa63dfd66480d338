//! Settings of a model client. They affect speed, never results.

use std::time::Duration;

use stemma_store::limit::Quota;

use crate::prices::Prices;

/// Room for a model that thinks; [`ModelClientSettings::max_reply_tokens`].
pub const DEFAULT_MAX_REPLY_TOKENS: u32 = 16_000;

/// Limits and timeouts for one model in one process.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelClientSettings {
    /// The provider's name of the model.
    pub model: String,
    /// The shared rate limit bucket: `{model}@{host}`.
    pub bucket: String,
    /// Quota of all workers together. 0: unknown; the limit reported by the provider applies, else an adaptive one.
    pub requests_per_minute: u32,
    /// Quota of all workers together; 0: unknown.
    pub tokens_per_minute: u32,
    /// Maximum concurrent bulk calls of this process; 0: unlimited. Interactive calls get a quarter on top.
    pub concurrency: u16,
    pub prices: Prices,
    /// Maximum time of all calls of one task attempt, including waits.
    pub task_timeout: Duration,
    /// Number of workers that divide the quota while the shared limiter is unavailable.
    pub expected_workers: u32,
    /// Outage after which bulk tasks fail permanently.
    pub patience: Duration,
    /// Outage after which interactive tasks fail permanently.
    pub interactive_patience: Duration,
    /// Most output tokens of a request whose first reply ended before its text, as those of models that think may.
    pub max_reply_tokens: u32,
}

impl ModelClientSettings {
    /// Settings without configured limits, with default timeouts.
    pub fn unlimited(model: &str, host: &str) -> Self {
        Self {
            model: model.into(),
            bucket: format!("{model}@{host}"),
            requests_per_minute: 0,
            tokens_per_minute: 0,
            concurrency: 0,
            prices: Prices::default(),
            task_timeout: Duration::from_secs(480),
            expected_workers: 1,
            patience: Duration::from_secs(3_600),
            interactive_patience: Duration::from_secs(120),
            max_reply_tokens: DEFAULT_MAX_REPLY_TOKENS,
        }
    }

    pub(super) fn quota(&self) -> Quota {
        Quota::per_minute(
            rate_or_unknown(self.requests_per_minute),
            rate_or_unknown(self.tokens_per_minute),
        )
    }

    /// Interval between requests at the configured rate, rounded up; 0 if no rate is configured.
    pub(super) fn request_ms(&self) -> u64 {
        match self.quota().requests_per_minute {
            Quota::UNKNOWN => 0,
            rate => 60_000 / u64::from(rate.max(1)) + 1,
        }
    }

    /// Whether throttled calls lower the rate. A configured quota is enforced by its bucket alone.
    pub(super) fn is_adaptive(&self) -> bool {
        self.requests_per_minute == 0 || self.tokens_per_minute == 0
    }
}

fn rate_or_unknown(rate: u32) -> u32 {
    if rate == 0 { Quota::UNKNOWN } else { rate }
}
