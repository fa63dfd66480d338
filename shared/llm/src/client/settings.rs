//! How a model may be asked: local configuration, changes speed only.

use std::time::Duration;

use stemma_engine::limit::Quota;

use crate::prices::Prices;

/// How one model may be asked by one process.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelClientSettings {
    /// The model, as its provider names it.
    pub model: String,
    /// The bucket of the shared limits: `{model}@{host}`.
    pub bucket: String,
    /// Requests per minute of all workers together; 0: unknown, what the provider states counts, else what is learned.
    pub requests_per_minute: u32,
    /// Tokens per minute of all workers together; 0: unknown.
    pub tokens_per_minute: u32,
    /// Calls of bulk work that this process has under way at once, however many tasks are in hand; 0: no bound. Interactive
    /// work may have a quarter more (I-11).
    pub concurrency: u16,
    /// What it costs.
    pub prices: Prices,
    /// How long all calls of one attempt of a task may take together, waiting included.
    pub task_timeout: Duration,
    /// Workers that share the limits, for the time in which they cannot be asked.
    pub expected_workers: u32,
    /// How long the provider may be away before bulk work fails for good.
    pub patience: Duration,
    /// The same for interactive work.
    pub interactive_patience: Duration,
}

impl ModelClientSettings {
    /// `model` at `host` without limits but those the provider enforces, and with the patience of architecture §4.11.
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
        }
    }

    pub(super) fn quota(&self) -> Quota {
        let rate_or_unknown = |rate: u32| if rate == 0 { Quota::UNKNOWN } else { rate };
        Quota::per_minute(
            rate_or_unknown(self.requests_per_minute),
            rate_or_unknown(self.tokens_per_minute),
        )
    }

    /// Milliseconds from one request to the next at the known rate, rounded up; 0 where none is known.
    pub(super) fn request_ms(&self) -> u64 {
        match self.quota().requests_per_minute {
            Quota::UNKNOWN => 0,
            rate => 60_000 / u64::from(rate.max(1)) + 1,
        }
    }

    /// Whether a refusal teaches something: a known quota is kept by its bucket alone (rule 11).
    pub(super) fn is_adaptive(&self) -> bool {
        self.requests_per_minute == 0 || self.tokens_per_minute == 0
    }
}
