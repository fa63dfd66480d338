//! Live statistics of one model for the commands `why` and `status`, in bounded memory.

use stemma_store::env::Millis;
use stemma_store::latency::LatencyHistogram;
use stemma_store::minute_window::MinuteWindow;
use stemma_store::model_status::ModelStatus;

use crate::request::TokenUsage;

/// The data behind a [`ModelStatus`].
#[derive(Debug, Default)]
pub(crate) struct ModelStats {
    pub(crate) waiting_for_permit: u32,
    pub(crate) in_call: u32,
    pub(crate) paused_until_ms: Millis,
    // Consecutive 429 replies, and the time of the last.
    throttles: u32,
    last_throttle_ms: Millis,
    /// Requests and tokens per minute, as last reported by the provider.
    pub(crate) rate_limits: (Option<u32>, Option<u32>),
    /// When they were last passed on to the limiters.
    pub(crate) reported_ms: Millis,
    pub(crate) last_error_code: Option<&'static str>,
    durations: LatencyHistogram,
    requests: MinuteWindow,
    tokens: MinuteWindow,
}

impl ModelStats {
    pub(crate) fn record_reply(&mut self, now_ms: Millis, took_ms: u64, usage: TokenUsage) {
        self.last_error_code = None;
        self.throttles = 0;
        self.durations.record(now_ms, took_ms);
        self.requests.add(now_ms, 1);
        self.tokens.add(now_ms, u64::from(usage.total()));
    }

    pub(crate) fn record_failure(&mut self, now_ms: Millis, took_ms: u64, code: &'static str) {
        self.last_error_code = Some(code);
        self.durations.record(now_ms, took_ms);
    }

    /// Returns the number of consecutive throttled calls.
    pub(crate) fn record_throttle(&mut self, began_ms: Millis, now_ms: Millis) -> u32 {
        // Calls in flight at the same time are often throttled together. They count once, or a single burst would
        // raise the backoff to its maximum.
        if self.throttles == 0 || began_ms >= self.last_throttle_ms {
            self.throttles += 1;
            self.last_throttle_ms = now_ms;
        }
        self.throttles
    }

    /// Snapshot at `now_ms`, without limits and breaker state.
    pub(crate) fn heartbeat(&self, now_ms: Millis) -> ModelStatus {
        ModelStatus {
            requests_last_minute: self.requests.sum(now_ms),
            tokens_last_minute: self.tokens.sum(now_ms),
            waiting: self.waiting_for_permit,
            calling: self.in_call,
            p50_ms: self.durations.percentile_ms(now_ms, 50),
            p95_ms: self.durations.percentile_ms(now_ms, 95),
            paused_until_ms: Some(self.paused_until_ms).filter(|until| *until > now_ms),
            last_error: self.last_error_code.map(Into::into),
            ..ModelStatus::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_minute_counts() {
        let mut meter = ModelStats::default();
        let usage = TokenUsage {
            prompt_tokens: 90,
            output_tokens: 10,
            cached_tokens: 0,
        };
        for second in 0..90 {
            meter.record_reply(second * 1_000, second, usage);
        }
        let status = meter.heartbeat(89_999);
        assert_eq!(status.requests_last_minute, 60);
        assert_eq!(status.tokens_last_minute, 6_000);
        assert_eq!(status.p50_ms, 47);
        assert_eq!(status.p95_ms, 95);
        assert_eq!(meter.heartbeat(200_000).requests_last_minute, 0);
    }

    #[test]
    fn last_error_is_cleared_by_a_good_reply() {
        let mut meter = ModelStats::default();
        meter.record_failure(0, 5, "model.timeout");
        assert_eq!(
            meter.heartbeat(0).last_error.as_deref(),
            Some("model.timeout")
        );
        meter.record_reply(0, 5, TokenUsage::default());
        assert_eq!(meter.heartbeat(0).last_error, None);
    }
}
