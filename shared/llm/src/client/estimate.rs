//! What a call will cost in tokens: limits are asked for it before the call, and told the truth after it.
//!
//! The longest reply is no estimate: a limit that is charged for it lets through a fraction of what it could. A reply of
//! one kind of question is about as long as those before: mean and twice the mean deviation, both moving, at most the
//! longest. What is estimated too low is paid back at once when the reply is there.

use std::collections::HashMap;

use crate::request::TokenUsage;

/// Weight of the newest value in a mean, and in the deviation from it.
const MEAN_WEIGHT: f64 = 0.125;
const DEVIATION_WEIGHT: f64 = 0.25;
/// Mean deviations that are added to the mean.
const DEVIATION_FACTOR: f64 = 2.0;
/// A provider counts a prompt by its own vocabulary: its count over ours is believed within these bounds.
const RATIO_BOUNDS: (f64, f64) = (0.5, 2.5);

/// What is reserved for a prompt over what it is estimated at.
const PROMPT_MARGIN: f64 = 1.1;

/// What a call is, as far as its cost goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallSize {
    /// Who asks: replies of one kind are about as long as those before.
    pub(crate) stage: &'static str,
    /// Tokens of the prompt, by our count.
    pub(crate) prompt_tokens: u32,
    /// Tokens of the reply at most.
    pub(crate) max_output_tokens: u32,
}

/// What calls came to so far.
#[derive(Debug, Default)]
pub(crate) struct TokenEstimator {
    /// Tokens of replies, by stage.
    outputs: HashMap<&'static str, MovingAverage>,
    /// The provider's count of prompts over ours.
    ratio: Option<f64>,
}

#[derive(Debug)]
struct MovingAverage {
    value: f64,
    deviation: f64,
}

impl TokenEstimator {
    /// Tokens that a call will use.
    pub(crate) fn expected_tokens(&self, call: CallSize) -> u32 {
        let longest = f64::from(call.max_output_tokens);
        let output = self
            .outputs
            .get(call.stage)
            .map_or(longest, |mean| mean.upper_bound().min(longest));
        (f64::from(call.prompt_tokens) * self.ratio.unwrap_or(1.0) + output).ceil() as u32
    }

    /// What a call may use at most, by what the provider counted before: a tenth more, for vocabularies differ from text to
    /// text.
    pub(crate) fn max_usage(&self, call: CallSize) -> TokenUsage {
        let prompt =
            f64::from(call.prompt_tokens) * self.ratio.unwrap_or(1.0).max(1.0) * PROMPT_MARGIN;
        TokenUsage {
            prompt_tokens: prompt.ceil() as u32,
            cached_tokens: 0,
            output_tokens: call.max_output_tokens,
        }
    }

    /// Learns from the reply to a call.
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
