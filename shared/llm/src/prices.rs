//! What calls cost, and who pays for them. Prices are local configuration: no price and no amount of money is ever part of a
//! result.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_engine::Failure;
use stemma_engine::jobs::SpendAmount;

use crate::request::TokenUsage;

/// Billionths of a dollar per token, for a price of one dollar per million tokens.
const NANODOLLARS_PER_TOKEN: f64 = 1_000.0;

/// Dollars per million tokens of one model.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Prices {
    /// Of prompts; `None`: unknown.
    pub input: Option<f64>,
    /// Of the part of prompts that the provider had at hand; `None`: as of prompts.
    pub cached_input: Option<f64>,
    /// Of replies; `None`: unknown.
    pub output: Option<f64>,
}

impl Prices {
    /// Whether the cost of a call can be told.
    pub fn is_complete(&self) -> bool {
        self.input.is_some() && self.output.is_some()
    }

    /// What `usage` costs, rounded up.
    pub fn cost(&self, usage: TokenUsage) -> SpendAmount {
        let tokens = u64::from(usage.prompt_tokens) + u64::from(usage.output_tokens);
        let Self {
            input: Some(input),
            output: Some(output),
            cached_input,
        } = *self
        else {
            return SpendAmount {
                nanodollars: None,
                tokens,
            };
        };
        let cached = usage.cached_tokens.min(usage.prompt_tokens);
        let fresh = f64::from(usage.prompt_tokens - cached) * input;
        let at_hand = f64::from(cached) * cached_input.unwrap_or(input);
        let nanodollars = ((fresh + at_hand + f64::from(usage.output_tokens) * output)
            * NANODOLLARS_PER_TOKEN)
            .ceil() as u64;
        SpendAmount {
            nanodollars: Some(nanodollars),
            tokens,
        }
    }
}

/// Who pays for calls.
#[async_trait]
pub trait CallBudget: Send + Sync {
    /// Reserves what a call may cost at most.
    ///
    /// # Errors
    /// What happens to the task when it may not be spent.
    async fn reserve(&self, most: SpendAmount) -> Result<(), Failure>;

    /// Settles what was reserved for a call that came to `used`.
    async fn settle(&self, most: SpendAmount, used: SpendAmount);
}

/// A purse that is never empty.
pub struct UnlimitedBudget;

#[async_trait]
impl CallBudget for UnlimitedBudget {
    async fn reserve(&self, _: SpendAmount) -> Result<(), Failure> {
        Ok(())
    }

    async fn settle(&self, _: SpendAmount, _: SpendAmount) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_prompt_tokens_cost_less() {
        let usage = TokenUsage {
            prompt_tokens: 1_000_000,
            cached_tokens: 400_000,
            output_tokens: 100_000,
        };
        let prices = Prices {
            input: Some(2.5),
            cached_input: Some(0.25),
            output: Some(10.0),
        };
        // 600,000 at 2.50, 400,000 at 0.25 and 100,000 at 10 dollars a million.
        assert_eq!(prices.cost(usage).nanodollars, Some(2_600_000_000));
        assert_eq!(
            Prices {
                cached_input: None,
                ..prices
            }
            .cost(usage)
            .nanodollars,
            Some(3_500_000_000)
        );
        assert_eq!(
            Prices {
                output: None,
                ..prices
            }
            .cost(usage),
            SpendAmount {
                nanodollars: None,
                tokens: 1_100_000
            }
        );
    }
}
