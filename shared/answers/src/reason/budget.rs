//! What one question may cost, and what it came to.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use stemma_engine::Failure;
use stemma_engine::jobs::Amount;
use stemma_llm::request::Usage;
use tokio::sync::Notify;

use stemma_retrieval::paid::Paid;

/// The code of the failure of a call that the budget does not allow.
pub(super) const USED_UP: &str = "reason.budget_used_up";

/// What one question may cost; shared by all its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Calls of a model at most; a reply that has to be asked for again counts again, a remembered one does not.
    pub calls: u32,
    /// Tokens of prompts and replies at most. A call is made only when its prompt and the longest reply fit.
    pub tokens: u64,
    /// Billionths of a dollar at most; `None`: the other two decide. A model without prices has no call within it.
    pub nanodollars: Option<u64>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            calls: 30,
            tokens: 250_000,
            nanodollars: None,
        }
    }
}

/// What a question came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spent {
    /// Calls of a model, those for the vector of the question included.
    pub calls: u32,
    /// Replies that were remembered: asked for before, by anyone, and not paid for again.
    pub remembered: u32,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Tokens of replies.
    pub output_tokens: u64,
    /// Billionths of a dollar; `None` where the model has no price.
    pub nanodollars: Option<u64>,
}

/// A budget that is being spent.
#[derive(Debug)]
pub(super) struct Account {
    budget: Budget,
    state: Mutex<State>,
    settled: Notify,
}

#[derive(Debug)]
struct State {
    calls: u32,
    settled: Sum,
    /// Calls under way at their most, and how many those are.
    reserved: Sum,
    under_way: u32,
    spent: Spent,
}

/// Tokens and billionths of a dollar.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    tokens: u64,
    nanodollars: u64,
}

impl Sum {
    fn plus(self, more: Amount) -> Self {
        let nanodollars = self
            .nanodollars
            .saturating_add(more.nanodollars.unwrap_or(0));
        Self {
            tokens: self.tokens.saturating_add(more.tokens),
            nanodollars,
        }
    }

    fn and(self, other: Self) -> Self {
        self.plus(Amount {
            tokens: other.tokens,
            nanodollars: Some(other.nanodollars),
        })
    }

    fn less(self, most: Amount) -> Self {
        let nanodollars = self
            .nanodollars
            .saturating_sub(most.nanodollars.unwrap_or(0));
        Self {
            tokens: self.tokens.saturating_sub(most.tokens),
            nanodollars,
        }
    }
}

impl Budget {
    /// What of it a sum goes beyond.
    fn exceeded_by(&self, sum: Sum) -> Option<String> {
        if sum.tokens > self.tokens {
            return Some(format!("{} tokens", self.tokens));
        }
        let most = self.nanodollars.filter(|most| sum.nanodollars > *most)?;
        Some(format!("${}", most as f64 / 1e9))
    }
}

impl Account {
    pub(super) fn new(budget: Budget) -> Self {
        let spent = Spent {
            nanodollars: Some(0),
            ..Spent::default()
        };
        let state = Mutex::new(State {
            calls: 0,
            settled: Sum::default(),
            reserved: Sum::default(),
            under_way: 0,
            spent,
        });
        Self {
            budget,
            state,
            settled: Notify::new(),
        }
    }

    pub(super) fn budget(&self) -> Budget {
        self.budget
    }

    pub(super) fn spent(&self) -> Spent {
        self.state().spent
    }

    /// Reserves a call that costs `most` at most. Where it would fit but for calls under way, those are waited for: what is refused
    /// must not depend on which reply comes first.
    pub(super) async fn reserve(&self, most: Amount) -> Result<(), Failure> {
        loop {
            let settled = self.settled.notified();
            {
                let mut state = self.state();
                if state.calls >= self.budget.calls {
                    return Err(used_up(&format!("{} calls", self.budget.calls)));
                }
                if self.budget.nanodollars.is_some() && most.nanodollars.is_none() {
                    return Err(used_up("money, of a model whose price is not known,"));
                }
                if let Some(what) = self.budget.exceeded_by(state.settled.plus(most)) {
                    return Err(used_up(&what));
                }
                let fits = self
                    .budget
                    .exceeded_by(state.settled.and(state.reserved).plus(most))
                    .is_none();
                if state.under_way == 0 || fits {
                    state.calls += 1;
                    state.spent.calls += 1;
                    state.reserved = state.reserved.plus(most);
                    state.under_way += 1;
                    return Ok(());
                }
            }
            settled.await;
        }
    }

    pub(super) fn settle(&self, most: Amount, used: Amount) {
        let mut state = self.state();
        state.reserved = state.reserved.less(most);
        state.under_way = state.under_way.saturating_sub(1);
        state.settled = state.settled.plus(used);
        drop(state);
        self.settled.notify_waiters();
    }

    /// Notes what a reply cost.
    pub(super) fn replied(&self, usage: Usage, cost: Amount) {
        let spent = &mut self.state().spent;
        spent.prompt_tokens += u64::from(usage.prompt_tokens);
        spent.output_tokens += u64::from(usage.output_tokens);
        spent.nanodollars = spent
            .nanodollars
            .zip(cost.nanodollars)
            .map(|(sum, more)| sum + more);
    }

    /// Notes calls that were made for the question elsewhere; they count, and leave less for others.
    pub(super) fn charge(&self, paid: Paid) {
        let mut state = self.state();
        state.calls += paid.calls;
        state.settled = state.settled.plus(Amount {
            tokens: paid.prompt_tokens,
            nanodollars: Some(paid.nanodollars),
        });
        let spent = &mut state.spent;
        spent.calls += paid.calls;
        spent.prompt_tokens += paid.prompt_tokens;
        let known = spent.nanodollars.filter(|_| paid.without_price == 0);
        spent.nanodollars = known.map(|sum| sum + paid.nanodollars);
    }

    pub(super) fn remembered(&self) {
        self.state().spent.remembered += 1;
    }

    /// Whether one more call of `tokens` would be allowed.
    pub(super) fn allows(&self, tokens: u64) -> bool {
        let state = self.state();
        let more = state.settled.and(state.reserved).plus(Amount {
            tokens,
            nanodollars: None,
        });
        state.calls < self.budget.calls && self.budget.exceeded_by(more).is_none()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn used_up(what: &str) -> Failure {
    Failure::permanent(USED_UP, format!("the budget of {what} is used up"))
        .with_next("allow more calls, tokens or money")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    fn tokens(tokens: u64) -> Amount {
        Amount {
            nanodollars: None,
            tokens,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_under_way_are_waited_for_and_the_budget_holds() {
        let account = Arc::new(Account::new(Budget {
            calls: 3,
            tokens: 100,
            nanodollars: None,
        }));
        account.reserve(tokens(70)).await.unwrap();
        let other = Arc::clone(&account);
        let waits = tokio::spawn(async move { other.reserve(tokens(60)).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waits.is_finished(), "70 and 60 do not fit together");
        account.settle(tokens(70), tokens(30));
        waits.await.unwrap().unwrap();
        assert_eq!(account.reserve(tokens(80)).await.unwrap_err().code, USED_UP);
        account.settle(tokens(60), tokens(10));
        account.reserve(tokens(60)).await.unwrap();
        assert!(
            account
                .reserve(tokens(1))
                .await
                .unwrap_err()
                .message
                .contains("3 calls")
        );
        assert_eq!(account.spent().calls, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn money_is_kept_as_tokens_are() {
        let priced = |nanodollars| Amount {
            nanodollars: Some(nanodollars),
            tokens: 1,
        };
        let account = Account::new(Budget {
            nanodollars: Some(100),
            ..Budget::default()
        });
        account.reserve(priced(70)).await.unwrap();
        account.settle(priced(70), priced(30));
        let refused = account.reserve(priced(71)).await.unwrap_err();
        assert_eq!(
            (
                refused.code.as_str(),
                refused.message.contains("$0.0000001")
            ),
            (USED_UP, true)
        );
        account.reserve(priced(70)).await.unwrap();
        assert_eq!(
            account.reserve(tokens(1)).await.unwrap_err().code,
            USED_UP,
            "no price is no leave to spend"
        );
        let nothing = Account::new(Budget {
            nanodollars: Some(0),
            ..Budget::default()
        });
        assert!(nothing.reserve(priced(1)).await.is_err() && nothing.spent().calls == 0);
    }
}
