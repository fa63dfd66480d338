//! Estimates the tokens of a call, which are charged to the rate limit before the call and corrected after it.
//!
//! Charging `max_output_tokens` would let through only a fraction of the quota. Replies of one stage are of similar length, so
//! the estimate is the moving mean plus twice the mean deviation, capped at the maximum.

use std::collections::HashMap;

use crate::request::TokenUsage;

// The weights of the retransmission timer of TCP (RFC 6298).
const MEAN_WEIGHT: f64 = 0.125;
const DEVIATION_WEIGHT: f64 = 0.25;
const DEVIATION_FACTOR: f64 = 2.0;
// Bounds of the ratio between the provider's prompt count and ours. Values outside indicate wrong usage numbers, not
// another vocabulary.
const RATIO_BOUNDS: (f64, f64) = (0.5, 2.5);

// Budgets reserve a margin, since the ratio of vocabularies differs from text to text.
const PROMPT_MARGIN: f64 = 1.1;

#[derive(Debug, Clone, Copy)]
pub(crate) struct CallSize {
    pub(crate) stage: &'static str,
    /// In o200k tokens.
    pub(crate) prompt_tokens: u32,
    pub(crate) max_output_tokens: u32,
}

#[derive(Debug, Default)]
pub(crate) struct TokenEstimator {
    // Output tokens by stage.
    outputs: HashMap<&'static str, MovingAverage>,
    // The provider's prompt count divided by ours.
    ratio: Option<f64>,
}

#[derive(Debug)]
struct MovingAverage {
    value: f64,
    deviation: f64,
}

impl TokenEstimator {
    /// Expected prompt and output tokens of a call.
    pub(crate) fn expected_tokens(&self, call: CallSize) -> u32 {
        let longest = f64::from(call.max_output_tokens);
        let output = self
            .outputs
            .get(call.stage)
            .map_or(longest, |mean| mean.upper_bound().min(longest));
        (f64::from(call.prompt_tokens) * self.ratio.unwrap_or(1.0) + output).ceil() as u32
    }

    /// Upper bound of the usage of a call, for budgets.
    pub(crate) fn max_usage(&self, call: CallSize) -> TokenUsage {
        let prompt =
            f64::from(call.prompt_tokens) * self.ratio.unwrap_or(1.0).max(1.0) * PROMPT_MARGIN;
        TokenUsage {
            prompt_tokens: prompt.ceil() as u32,
            cached_tokens: 0,
            output_tokens: call.max_output_tokens,
        }
    }

    /// Whether a prompt of `stage` was answered before. All begin alike.
    pub(crate) fn knows(&self, stage: &str) -> bool {
        self.outputs.contains_key(stage)
    }

    pub(crate) fn record_reply(&mut self, call: CallSize, usage: TokenUsage) {
        let CallSize {
            stage,
            prompt_tokens,
            ..
        } = call;
        let output = f64::from(usage.output_tokens);
        match self.outputs.get_mut(stage) {
            Some(mean) => mean.add(output),
            None => drop(self.outputs.insert(
                stage,
                MovingAverage {
                    value: output,
                    deviation: output / 2.0,
                },
            )),
        }
        if usage.prompt_tokens > 0 && prompt_tokens > 0 {
            let ratio = (f64::from(usage.prompt_tokens) / f64::from(prompt_tokens))
                .clamp(RATIO_BOUNDS.0, RATIO_BOUNDS.1);
            let previous = self.ratio.unwrap_or(ratio);
            self.ratio = Some(previous + (ratio - previous) * MEAN_WEIGHT);
        }
    }
}

impl MovingAverage {
    fn upper_bound(&self) -> f64 {
        self.value + DEVIATION_FACTOR * self.deviation
    }

    fn add(&mut self, value: f64) {
        self.deviation += ((value - self.value).abs() - self.deviation) * DEVIATION_WEIGHT;
        self.value += (value - self.value) * MEAN_WEIGHT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_converge_and_are_capped_at_max_output_tokens() {
        let call = CallSize {
            stage: "s",
            prompt_tokens: 100,
            max_output_tokens: 4_000,
        };
        let mut estimates = TokenEstimator::default();
        assert_eq!(estimates.expected_tokens(call), 4_100);
        for n in 0..200 {
            let usage = TokenUsage {
                prompt_tokens: 120,
                cached_tokens: 0,
                output_tokens: 55 + n % 10,
            };
            estimates.record_reply(call, usage);
        }
        let expected = estimates.expected_tokens(call);
        assert!(
            (180..=195).contains(&expected),
            "120 and a little above 60: {expected}"
        );
        assert_eq!(
            estimates.expected_tokens(CallSize {
                max_output_tokens: 10,
                ..call
            }),
            130
        );
    }
}
