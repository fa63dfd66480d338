//! What a process reports about the models that it calls.

use serde::{Deserialize, Serialize};

use crate::env::Millis;

/// Status of a model in one process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelStatus {
    pub requests_last_minute: u64,
    /// Prompt and reply tokens in the last minute.
    pub tokens_last_minute: u64,
    /// Shared limit of requests per minute; 0 for none.
    pub requests_limit: u32,
    /// Shared limit of tokens per minute; 0 for none.
    pub tokens_limit: u32,
    /// Tasks waiting for a permit.
    pub waiting: u32,
    /// Calls in flight.
    pub calling: u32,
    /// Median duration of a call over the last minutes, in milliseconds.
    pub p50_ms: u64,
    /// 95th percentile of that duration, in milliseconds.
    pub p95_ms: u64,
    /// End of the current breaker interval, in which no call is made.
    pub breaker_open_until_ms: Option<Millis>,
    /// End of the pause that the provider asked for.
    pub paused_until_ms: Option<Millis>,
    /// Code of the last failed call.
    pub last_error: Option<String>,
    /// Batches at the provider, of the process that looks after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batches: Vec<ModelBatch>,
}

/// A batch of requests at a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelBatch {
    pub name: String,
    pub collection: String,
    pub requests: u64,
    /// Requests with a result, as last reported by the provider.
    pub done: u64,
    /// `None` before it has reached the provider.
    pub submitted_ms: Option<Millis>,
}
