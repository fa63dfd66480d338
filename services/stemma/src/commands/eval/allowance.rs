//! What an evaluation may still spend: one budget over answers and their judgements, shared by all questions at once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What was spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Tokens of prompts and replies.
    pub tokens: u64,
    /// Billionths of a dollar.
    pub nanodollars: u64,
}

/// A budget that is being spent. What a question may need is set aside before it is asked, so that questions side by side do
/// not spend it together.
#[derive(Debug)]
pub struct Allowance {
    most_tokens: Option<u64>,
    most_nanodollars: Option<u64>,
    /// Billionths of a dollar that one token costs at most.
    dearest: u64,
    state: Mutex<State>,
    settled: Notify,
}

#[derive(Debug, Default)]
struct State {
    spent: Spent,
    reserved_tokens: u64,
    under_way: u32,
    closed: bool,
}

impl Allowance {
    /// A budget of which `spent` is spent already. Money is held as tokens at the `dearest` price, rounded up.
    pub fn new(
        most_tokens: Option<u64>,
        most_nanodollars: Option<u64>,
        dearest: u64,
        spent: Spent,
    ) -> Self {
        let state = Mutex::new(State {
            spent,
            ..State::default()
        });
        Self {
            most_tokens,
            most_nanodollars,
            dearest: dearest.max(1),
            state,
            settled: Notify::new(),
        }
    }

    /// Sets aside what a question may use, in tokens: `wanted`, or what is left where that is less and no other question is
    /// under way; `None`: nothing is left.
    pub async fn reserve(&self, wanted: u64) -> Option<u64> {
        loop {
            let settled = self.settled.notified();
            {
                let mut state = self.state();
                let left = self.left(&state);
                if left >= wanted || state.under_way == 0 {
                    let granted = left.min(wanted);
                    if granted == 0 {
                        return None;
                    }
                    state.reserved_tokens += granted;
                    state.under_way += 1;
                    return Some(granted);
                }
            }
            settled.await;
        }
    }

    /// Gives back what was set aside, and counts what was spent of it.
    pub fn settle(&self, granted: u64, spent: Spent) {
        let mut state = self.state();
        state.reserved_tokens = state.reserved_tokens.saturating_sub(granted);
        state.under_way = state.under_way.saturating_sub(1);
        state.spent.tokens += spent.tokens;
        state.spent.nanodollars += spent.nanodollars;
        drop(state);
        self.settled.notify_waiters();
    }

    /// Nothing is set aside any more: what is left is too little.
    pub fn close(&self) {
        self.state().closed = true;
        self.settled.notify_waiters();
    }

    fn left(&self, state: &State) -> u64 {
        if state.closed {
            return 0;
        }
        let tokens = self
            .most_tokens
            .map(|most| most.saturating_sub(state.spent.tokens));
        let money = self
            .most_nanodollars
            .map(|most| most.saturating_sub(state.spent.nanodollars) / self.dearest);
        tokens
            .into_iter()
            .chain(money)
            .min()
            .unwrap_or(u64::MAX)
            .saturating_sub(state.reserved_tokens)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn questions_side_by_side_do_not_spend_the_budget_together() {
        let tokens = |tokens: u64| Spent {
            tokens,
            nanodollars: 3 * tokens,
        };
        let allowance = Arc::new(Allowance::new(Some(1_000), Some(2_400), 3, tokens(100)));
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
        let without = Allowance::new(None, None, 0, Spent::default());
        assert_eq!(without.reserve(7).await, Some(7));
        without.settle(7, Spent::default());
        without.close();
        assert_eq!(without.reserve(7).await, None);
    }
}
