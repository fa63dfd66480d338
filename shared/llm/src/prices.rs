//! Prices and budgets of model calls. Prices are local configuration and never part of a result.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stemma_store::Failure;
use stemma_store::spend::{CallReservation, SpendAmount};

use crate::request::TokenUsage;

// One dollar per million tokens is 1,000 nanodollars per token.
const NANODOLLARS_PER_TOKEN: f64 = 1_000.0;

/// Dollars per million tokens. `None` means unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Prices {
    pub input: Option<f64>,
    /// Price of cached prompt tokens; `None` means the price of `input`.
    pub cached_input: Option<f64>,
    pub output: Option<f64>,
    /// How much less a request in a batch costs, as a share of the price (0–1); `None` means half.
    pub batch_discount: Option<f64>,
}

// Both OpenAI and Anthropic charge half.
const BATCH_DISCOUNT: f64 = 0.5;

impl Prices {
    /// The prices of requests in batches.
    #[must_use]
    pub fn for_batch(self) -> Self {
        let discount = self.batch_discount.unwrap_or(BATCH_DISCOUNT);
        let share = 1.0 - discount.clamp(0.0, 1.0);
        Self {
            input: self.input.map(|price| price * share),
            cached_input: self.cached_input.map(|price| price * share),
            output: self.output.map(|price| price * share),
            batch_discount: Some(0.0),
        }
    }

    /// Whether the cost of a call can be computed.
    pub fn is_complete(&self) -> bool {
        self.input.is_some() && self.output.is_some()
    }

    /// The cost of `usage`, rounded up to nanodollars.
    pub fn cost(&self, usage: TokenUsage) -> SpendAmount {
        let TokenUsage {
            prompt_tokens,
            cached_tokens,
            output_tokens,
        } = usage;
        self.cost_of(
            prompt_tokens.into(),
            cached_tokens.into(),
            output_tokens.into(),
        )
    }

    /// The cost of many calls: prompt tokens, cached prompt tokens among them, and reply tokens.
    pub fn cost_of(&self, prompt: u64, cached: u64, output_tokens: u64) -> SpendAmount {
        let tokens = prompt + output_tokens;
        let Self {
            input: Some(input),
            output: Some(output),
            cached_input,
            ..
        } = *self
        else {
            return SpendAmount {
                nanodollars: None,
                tokens,
            };
        };
        let cached_tokens = cached.min(prompt);
        let uncached = (prompt - cached_tokens) as f64 * input;
        let cached = cached_tokens as f64 * cached_input.unwrap_or(input);
        let nanodollars = ((uncached + cached + output_tokens as f64 * output)
            * NANODOLLARS_PER_TOKEN)
            .ceil() as u64;
        SpendAmount {
            nanodollars: Some(nanodollars),
            tokens,
        }
    }
}

/// A budget that calls are charged to.
#[async_trait]
pub trait CallBudget: Send + Sync {
    /// Reserves the maximum cost of a call.
    ///
    /// # Errors
    /// The task's [`Failure`] if the budget does not cover it.
    async fn reserve(&self, call: &CallReservation) -> Result<(), Failure>;

    /// Replaces the reservation with the actual cost.
    async fn settle(&self, call: &CallReservation, used: SpendAmount);

    /// Gives the reservation of a call back whose caller has gone before its reply came. Shared accounts need not do
    /// anything: their reservations end by time.
    fn abandon(&self, _call: &CallReservation) {}
}

// A reserved call. Unless it is settled, its reservation is given back on drop.
pub(crate) struct ReservedCall<'a> {
    budget: &'a dyn CallBudget,
    call: CallReservation,
    is_open: bool,
}

impl<'a> ReservedCall<'a> {
    pub(crate) async fn reserve(
        budget: &'a dyn CallBudget,
        call: CallReservation,
    ) -> Result<Self, Failure> {
        budget.reserve(&call).await?;
        Ok(Self {
            budget,
            call,
            is_open: true,
        })
    }

    pub(crate) async fn settle(mut self, used: SpendAmount) {
        self.budget.settle(&self.call, used).await;
        self.is_open = false;
    }
}

impl Drop for ReservedCall<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.budget.abandon(&self.call);
        }
    }
}

/// A budget without a limit.
pub struct UnlimitedBudget;

#[async_trait]
impl CallBudget for UnlimitedBudget {
    async fn reserve(&self, _: &CallReservation) -> Result<(), Failure> {
        Ok(())
    }

    async fn settle(&self, _: &CallReservation, _: SpendAmount) {}
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
            batch_discount: None,
        };
        assert_eq!(
            prices.for_batch().cost(usage).nanodollars,
            Some(1_300_000_000)
        );
        let own = Prices {
            batch_discount: Some(0.25),
            ..prices
        };
        assert_eq!(own.for_batch().cost(usage).nanodollars, Some(1_950_000_000));
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
