//! What making vectors may cost at most.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use stemma_engine::Failure;
use stemma_engine::jobs::{Amount, Budget};
use stemma_llm::prices::Purse;
use tokio::sync::Notify;

/// The code of the failure of a call that the budget does not allow.
pub const USED_UP: &str = "embeddings.budget_used_up";

/// A purse for one making of vectors, in tokens and money.
#[derive(Debug)]
pub struct Limited {
    budget: Budget,
    state: Mutex<State>,
    settled: Notify,
}

#[derive(Debug, Default)]
struct State {
    spent: Sum,
    reserved: Sum,
    under_way: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    tokens: u64,
    nanodollars: u64,
}

impl Sum {
    fn and(self, amount: Amount) -> Self {
        let nanodollars = self
            .nanodollars
            .saturating_add(amount.nanodollars.unwrap_or_default());
        Self {
            tokens: self.tokens.saturating_add(amount.tokens),
            nanodollars,
        }
    }

    fn exceeds(self, budget: Budget) -> bool {
        budget.tokens.is_some_and(|most| self.tokens > most)
            || budget
                .nanodollars
                .is_some_and(|most| self.nanodollars > most)
    }
}

impl Limited {
    /// A purse with `budget` in it.
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            state: Mutex::default(),
            settled: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Purse for Limited {
    /// Where a call would fit but for others under way, those are waited for: they may cost less than was reserved.
    async fn reserve(&self, most: Amount) -> Result<(), Failure> {
        loop {
            let settled = self.settled.notified();
            {
                let mut state = self.state();
                if state.spent.and(most).exceeds(self.budget) {
                    let message = format!(
                        "the budget does not allow a further call of about {} tokens",
                        most.tokens
                    );
                    return Err(Failure::permanent(USED_UP, message).with_next(
                        "allow more; what was made is kept, and the same command goes on from it",
                    ));
                }
                let reserved = state.reserved;
                let all = state
                    .spent
                    .and(Amount {
                        tokens: reserved.tokens,
                        nanodollars: Some(reserved.nanodollars),
                    })
                    .and(most);
                if state.under_way == 0 || !all.exceeds(self.budget) {
                    state.reserved = state.reserved.and(most);
                    state.under_way += 1;
                    return Ok(());
                }
            }
            settled.await;
        }
    }

    async fn settle(&self, most: Amount, used: Amount) {
        let mut state = self.state();
        state.reserved.tokens = state.reserved.tokens.saturating_sub(most.tokens);
        let nanodollars = most.nanodollars.unwrap_or_default();
        state.reserved.nanodollars = state.reserved.nanodollars.saturating_sub(nanodollars);
        state.spent = state.spent.and(used);
        state.under_way = state.under_way.saturating_sub(1);
        drop(state);
        self.settled.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(tokens: u64) -> Amount {
        Amount {
            nanodollars: Some(2 * tokens),
            tokens,
        }
    }

    #[tokio::test]
    async fn a_purse_is_not_overdrawn_by_calls_side_by_side() {
        let purse = Limited::new(Budget {
            nanodollars: Some(200),
            tokens: None,
        });
        purse.reserve(cost(60)).await.unwrap();
        // Fits only when the other has cost less than it might.
        let waiting = async {
            purse.reserve(cost(60)).await.unwrap();
            purse.settle(cost(60), cost(50)).await;
        };
        let settling = async { purse.settle(cost(60), cost(40)).await };
        futures::join!(waiting, settling);
        assert_eq!(purse.reserve(cost(11)).await.unwrap_err().code, USED_UP);
        purse.reserve(cost(10)).await.unwrap();
    }
}
