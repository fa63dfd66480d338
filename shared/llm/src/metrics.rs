//! Metrics of model calls; see `docs/OBSERVING.md`. A bucket is a model at a provider.

use metrics::{counter, histogram};
use stemma_store::env::Millis;

use crate::request::TokenUsage;

/// Counts a call. `outcome` is `answered` or an error code.
pub(crate) fn record_call(bucket: &str, outcome: &'static str, took_ms: Millis) {
    counter!("stemma_model_calls_total", "bucket" => bucket.to_string(), "outcome" => outcome)
        .increment(1);
    histogram!("stemma_model_seconds", "bucket" => bucket.to_string())
        .record(took_ms as f64 / 1_000.0);
}

pub(crate) fn record_tokens(bucket: &str, usage: TokenUsage) {
    for (kind, tokens) in [
        ("prompt", usage.prompt_tokens),
        ("reply", usage.output_tokens),
    ] {
        let tokens = u64::from(tokens);
        counter!("stemma_model_tokens_total", "bucket" => bucket.to_string(), "kind" => kind)
            .increment(tokens);
    }
}

/// Records the wait for a permit, whether or not it was granted.
pub(crate) fn record_wait(bucket: &str, waited_ms: Millis) {
    histogram!("stemma_model_wait_seconds", "bucket" => bucket.to_string())
        .record(waited_ms as f64 / 1_000.0);
}
