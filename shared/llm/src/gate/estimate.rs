//! What a call will cost in tokens: limits are asked for it before the call, and told the truth after it.
//!
//! The longest reply is no estimate: a limit that is charged for it lets through a fraction of what it could. A reply of
//! one kind of question is about as long as those before: mean and twice the mean deviation, both moving, at most the
//! longest. What is estimated too low is paid back at once when the reply is there.

use std::collections::HashMap;

use crate::request::Usage;

/// Weight of the newest value in a mean, and in the deviation from it.
const NEW: f64 = 0.125;
const NEW_DEVIATION: f64 = 0.25;
/// Mean deviations that are added to the mean.
const DEVIATIONS: f64 = 2.0;
/// A provider counts a prompt by its own vocabulary: its count over ours is believed within these bounds.
const RATIO: (f64, f64) = (0.5, 2.5);

/// What is reserved for a prompt over what it is estimated at.
const MARGIN: f64 = 1.1;

/// What a call is, as far as its cost goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sketch {
    /// Who asks: replies of one kind are about as long as those before.
    pub(crate) stage: &'static str,
    /// Tokens of the prompt, by our count.
    pub(crate) prompt_tokens: u32,
    /// Tokens of the reply at most.
    pub(crate) max_output_tokens: u32,
}

/// What calls came to so far.
#[derive(Debug, Default)]
pub(crate) struct Estimates {
    /// Tokens of replies, by stage.
    outputs: HashMap<&'static str, Mean>,
    /// The provider's count of prompts over ours.
    ratio: Option<f64>,
}

#[derive(Debug)]
struct Mean {
    value: f64,
    deviation: f64,
}

impl Estimates {
    /// Tokens that a call will use.
    pub(crate) fn tokens(&self, call: Sketch) -> u32 {
        let longest = f64::from(call.max_output_tokens);
        let output = self
            .outputs
            .get(call.stage)
            .map_or(longest, |mean| mean.high().min(longest));
        (f64::from(call.prompt_tokens) * self.ratio.unwrap_or(1.0) + output).ceil() as u32
    }

    /// What a call may use at most, by what the provider counted before: a tenth more, for vocabularies differ from text to
    /// text.
    pub(crate) fn most(&self, call: Sketch) -> Usage {
        let prompt = f64::from(call.prompt_tokens) * self.ratio.unwrap_or(1.0).max(1.0) * MARGIN;
        Usage {
            prompt_tokens: prompt.ceil() as u32,
            cached_tokens: 0,
            output_tokens: call.max_output_tokens,
        }
    }

    /// Learns from the reply to a call.
    pub(crate) fn replied(&mut self, call: Sketch, usage: Usage) {
        let Sketch {
            stage,
            prompt_tokens,
            ..
        } = call;
        let output = f64::from(usage.output_tokens);
        match self.outputs.get_mut(stage) {
            Some(mean) => mean.add(output),
            None => drop(self.outputs.insert(
                stage,
                Mean {
                    value: output,
                    deviation: output / 2.0,
                },
            )),
        }
        if usage.prompt_tokens > 0 && prompt_tokens > 0 {
            let found =
                (f64::from(usage.prompt_tokens) / f64::from(prompt_tokens)).clamp(RATIO.0, RATIO.1);
            let before = self.ratio.unwrap_or(found);
            self.ratio = Some(before + (found - before) * NEW);
        }
    }
}

impl Mean {
    fn high(&self) -> f64 {
        self.value + DEVIATIONS * self.deviation
    }

    fn add(&mut self, found: f64) {
        self.deviation += ((found - self.value).abs() - self.deviation) * NEW_DEVIATION;
        self.value += (found - self.value) * NEW;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_comes_near_what_is_used_and_never_exceeds_the_longest() {
        let call = Sketch {
            stage: "s",
            prompt_tokens: 100,
            max_output_tokens: 4_000,
        };
        let mut estimates = Estimates::default();
        assert_eq!(estimates.tokens(call), 4_100);
        for n in 0..200 {
            let usage = Usage {
                prompt_tokens: 120,
                cached_tokens: 0,
                output_tokens: 55 + n % 10,
            };
            estimates.replied(call, usage);
        }
        let found = estimates.tokens(call);
        assert!(
            (180..=195).contains(&found),
            "120 and a little above 60: {found}"
        );
        assert_eq!(
            estimates.tokens(Sketch {
                max_output_tokens: 10,
                ..call
            }),
            130
        );
    }
}
