//! The budget of one embedding run.

use async_trait::async_trait;
use stemma_llm::prices::CallBudget;
use stemma_store::Failure;
use stemma_store::spend::{CallReservation, JobBudget, SpendAmount};

use crate::spend_account::{SpendAccount, SpendLimits};

/// Failure code of a call that exceeds the budget.
pub const BUDGET_EXHAUSTED: &str = "embeddings.budget_used_up";

/// Tokens and money that one embedding run may use.
#[derive(Debug)]
pub struct EmbeddingBudget(SpendAccount);

impl EmbeddingBudget {
    /// An unspent budget.
    pub fn new(budget: JobBudget) -> Self {
        Self(SpendAccount::new(SpendLimits {
            calls: None,
            tokens: budget.tokens,
            nanodollars: budget.nanodollars,
        }))
    }
}

#[async_trait]
impl CallBudget for EmbeddingBudget {
    async fn reserve(&self, call: &CallReservation) -> Result<(), Failure> {
        let reserved = self.0.reserve(call.max).await;
        reserved.map_err(|limit| {
            let message = format!(
                "the budget of {limit} does not allow a further call of about {} tokens",
                call.max.tokens
            );
            Failure::permanent(BUDGET_EXHAUSTED, message).with_next(
                "raise the budget; the vectors so far are kept, and the same command continues",
            )
        })
    }

    async fn settle(&self, call: &CallReservation, used: SpendAmount) {
        self.0.settle(call.max, used);
    }

    fn abandon(&self, call: &CallReservation) {
        self.0.settle(call.max, SpendAmount::default());
    }
}
