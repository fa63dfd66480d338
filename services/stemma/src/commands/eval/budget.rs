//! The budget of an evaluation, shared by all concurrent questions for their answers and judgements.

use std::ops::AddAssign;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expense {
    /// Tokens of prompts and replies.
    pub tokens: u64,
    pub nanodollars: u64,
}

impl AddAssign for Expense {
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.nanodollars += other.nanodollars;
    }
}

/// A budget with reservations. The most that a question may use is reserved before it starts, so that concurrent
/// questions cannot exceed the budget together.
#[derive(Debug)]
pub struct EvalBudget {
    max_tokens: Option<u64>,
    max_nanodollars: Option<u64>,
    // Billionths of a dollar that one token costs at most.
    max_token_price: u64,
    state: Mutex<EvalBudgetState>,
    settled: Notify,
}

#[derive(Debug, Default)]
struct EvalBudgetState {
    used: Expense,
    reserved_tokens: u64,
    in_flight: u32,
    closed: bool,
}

impl EvalBudget {
    /// A budget with `used` spent. Dollars are converted to tokens at `max_token_price`, rounded up.
    pub fn new(
        max_tokens: Option<u64>,
        max_nanodollars: Option<u64>,
        max_token_price: u64,
        used: Expense,
    ) -> Self {
        let state = Mutex::new(EvalBudgetState {
            used,
            ..EvalBudgetState::default()
        });
        Self {
            max_tokens,
            max_nanodollars,
            max_token_price: max_token_price.max(1),
            state,
            settled: Notify::new(),
        }
    }

    /// Reserves `requested` tokens for a question, or the rest of the budget if that is less and no other question is
    /// running; `None` if nothing is left.
    pub async fn reserve(&self, requested: u64) -> Option<u64> {
        loop {
            let settled = self.settled.notified();
            {
                let mut state = self.state();
                let available = self.available_tokens(&state);
                if available >= requested || state.in_flight == 0 {
                    let granted = available.min(requested);
                    if granted == 0 {
                        return None;
                    }
                    state.reserved_tokens += granted;
                    state.in_flight += 1;
                    return Some(granted);
                }
            }
            settled.await;
        }
    }

    /// Returns a reservation and counts what was used.
    pub fn settle(&self, granted: u64, used: Expense) {
        let mut state = self.state();
        state.reserved_tokens = state.reserved_tokens.saturating_sub(granted);
        state.in_flight = state.in_flight.saturating_sub(1);
        state.used += used;
        drop(state);
        self.settled.notify_waiters();
    }

    /// Refuses further reservations: the rest of the budget is too small.
    pub fn close(&self) {
        self.state().closed = true;
        self.settled.notify_waiters();
    }

    fn available_tokens(&self, state: &EvalBudgetState) -> u64 {
        if state.closed {
            return 0;
        }
        let tokens = self
            .max_tokens
            .map_or(u64::MAX, |most| most.saturating_sub(state.used.tokens));
        let money = self.max_nanodollars.map_or(u64::MAX, |most| {
            most.saturating_sub(state.used.nanodollars) / self.max_token_price
        });
        tokens.min(money).saturating_sub(state.reserved_tokens)
    }

    fn state(&self) -> MutexGuard<'_, EvalBudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn concurrent_questions_cannot_overspend_the_budget() {
        let tokens = |tokens: u64| Expense {
            tokens,
            nanodollars: 3 * tokens,
        };
        let allowance = Arc::new(EvalBudget::new(Some(1_000), Some(2_400), 3, tokens(100)));
        assert_eq!(
            allowance.reserve(500).await,
            Some(500),
            "800 tokens are paid for, 100 of them spent"
        );
        let other = Arc::clone(&allowance);
        let waits = tokio::spawn(async move { other.reserve(500).await });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        allowance.settle(500, tokens(300));
        assert_eq!(
            waits.await.unwrap(),
            Some(400),
            "the last one has what is left"
        );
        allowance.settle(400, tokens(400));
        assert_eq!(allowance.reserve(1).await, None);
        let without = EvalBudget::new(None, None, 0, Expense::default());
        assert_eq!(without.reserve(7).await, Some(7));
        without.settle(7, Expense::default());
        without.close();
        assert_eq!(without.reserve(7).await, None);
    }
}
