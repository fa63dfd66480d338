//! The budget of one embedding run.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use stemma_llm::prices::CallBudget;
use stemma_store::Failure;
use stemma_store::spend::{CallReservation, JobBudget, SpendAmount};
use tokio::sync::Notify;

/// Failure code of a call that exceeds the budget.
pub const BUDGET_EXHAUSTED: &str = "embeddings.budget_used_up";

/// Tokens and money that one embedding run may use.
#[derive(Debug)]
pub struct EmbeddingBudget {
    budget: JobBudget,
    state: Mutex<SpendState>,
    settlement: Notify,
}

#[derive(Debug, Default)]
struct SpendState {
    used: SpendSum,
    reserved: SpendSum,
    calls_in_flight: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct SpendSum {
    tokens: u64,
    nanodollars: u64,
}

impl SpendSum {
    fn with_amount(self, amount: SpendAmount) -> Self {
        let nanodollars = self
            .nanodollars
            .saturating_add(amount.nanodollars.unwrap_or_default());
        Self {
            tokens: self.tokens.saturating_add(amount.tokens),
            nanodollars,
        }
    }

    fn exceeds(self, budget: JobBudget) -> bool {
        budget.tokens.is_some_and(|most| self.tokens > most)
            || budget
                .nanodollars
                .is_some_and(|most| self.nanodollars > most)
    }
}

impl EmbeddingBudget {
    /// An unspent budget.
    pub fn new(budget: JobBudget) -> Self {
        Self {
            budget,
            state: Mutex::default(),
            settlement: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, SpendState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, call: &CallReservation, used: SpendAmount) {
        let most = call.max;
        let mut state = self.state();
        state.reserved.tokens = state.reserved.tokens.saturating_sub(most.tokens);
        let nanodollars = most.nanodollars.unwrap_or_default();
        state.reserved.nanodollars = state.reserved.nanodollars.saturating_sub(nanodollars);
        state.used = state.used.with_amount(used);
        state.calls_in_flight = state.calls_in_flight.saturating_sub(1);
        drop(state);
        self.settlement.notify_waiters();
    }
}

#[async_trait]
impl CallBudget for EmbeddingBudget {
    // A call that only fits without the calls in flight waits for them: they may cost less than they reserved.
    async fn reserve(&self, call: &CallReservation) -> Result<(), Failure> {
        let most = call.max;
        loop {
            let settlement = self.settlement.notified();
            {
                let mut state = self.state();
                if state.used.with_amount(most).exceeds(self.budget) {
                    let message = format!(
                        "the budget does not allow a further call of about {} tokens",
                        most.tokens
                    );
                    return Err(Failure::permanent(BUDGET_EXHAUSTED, message).with_next(
                        "raise the budget; the vectors so far are kept, and the same command continues",
                    ));
                }
                let reserved = state.reserved;
                let all = state
                    .used
                    .with_amount(SpendAmount {
                        tokens: reserved.tokens,
                        nanodollars: Some(reserved.nanodollars),
                    })
                    .with_amount(most);
                if state.calls_in_flight == 0 || !all.exceeds(self.budget) {
                    state.reserved = state.reserved.with_amount(most);
                    state.calls_in_flight += 1;
                    return Ok(());
                }
            }
            settlement.await;
        }
    }

    async fn settle(&self, call: &CallReservation, used: SpendAmount) {
        self.release(call, used);
    }

    fn abandon(&self, call: &CallReservation) {
        self.release(call, SpendAmount::NOTHING);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn cost(tokens: u64) -> SpendAmount {
        SpendAmount {
            nanodollars: Some(2 * tokens),
            tokens,
        }
    }

    fn call(tokens: u64) -> CallReservation {
        CallReservation {
            id: tokens,
            max: cost(tokens),
            timeout: Duration::from_secs(60),
        }
    }

    #[tokio::test]
    async fn concurrent_calls_do_not_overdraw_the_budget() {
        let budget = EmbeddingBudget::new(JobBudget {
            nanodollars: Some(200),
            tokens: None,
        });
        budget.reserve(&call(60)).await.unwrap();
        // Fits only once the first call has cost less than it reserved.
        let waiting = async {
            budget.reserve(&call(60)).await.unwrap();
            budget.settle(&call(60), cost(50)).await;
        };
        let settling = async { budget.settle(&call(60), cost(40)).await };
        futures::join!(waiting, settling);
        assert_eq!(
            budget.reserve(&call(11)).await.unwrap_err().code,
            BUDGET_EXHAUSTED
        );
        budget.reserve(&call(10)).await.unwrap();
    }

    #[tokio::test]
    async fn an_abandoned_call_costs_nothing() {
        let budget = EmbeddingBudget::new(JobBudget {
            nanodollars: Some(200),
            tokens: None,
        });
        budget.reserve(&call(60)).await.unwrap();
        budget.abandon(&call(60));
        budget.reserve(&call(100)).await.unwrap();
    }
}
