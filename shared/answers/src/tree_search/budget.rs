//! The budget of a question, and its usage.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use stemma_llm::request::TokenUsage;
use stemma_store::Failure;
use stemma_store::spend::SpendAmount;
use tokio::sync::Notify;

use stemma_retrieval::usage::CallUsage;

pub(super) const BUDGET_EXHAUSTED: &str = "reason.budget_used_up";

/// The budget of one question, shared by all its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuestionBudget {
    /// LLM calls. A retried call counts again, a cached reply does not count.
    pub calls: u32,
    /// Prompt and output tokens. A call is made only when its prompt and the longest possible reply fit.
    pub tokens: u64,
    /// Billionths of a dollar; `None`: no limit. With a limit, a model without prices cannot be called.
    pub nanodollars: Option<u64>,
}

impl Default for QuestionBudget {
    fn default() -> Self {
        Self {
            calls: 30,
            tokens: 250_000,
            nanodollars: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionUsage {
    /// LLM calls, including those that embed the query.
    pub calls: u32,
    /// Replies from the cache, which cost nothing.
    #[serde(rename = "remembered")]
    pub cached_replies: u32,
    pub prompt_tokens: u64,
    pub output_tokens: u64,
    /// Billionths of a dollar; `None` when a price is unknown.
    pub nanodollars: Option<u64>,
}

#[derive(Debug)]
pub(super) struct SessionBudget {
    budget: QuestionBudget,
    spending: Mutex<Spending>,
    settlement: Notify,
}

#[derive(Debug)]
struct Spending {
    settled: SpendAmount,
    // The most that each call in flight may cost.
    in_flight: Vec<SpendAmount>,
    usage: SessionUsage,
}

impl Spending {
    fn settled_and_reserved(&self) -> SpendAmount {
        self.in_flight
            .iter()
            .fold(self.settled, |sum, call| sum.plus(*call))
    }
}

impl QuestionBudget {
    // The limit that `sum` exceeds.
    fn exceeded_by(&self, sum: SpendAmount) -> Option<String> {
        if sum.tokens > self.tokens {
            return Some(format!("{} tokens", self.tokens));
        }
        let (limit, nanodollars) = self.nanodollars.zip(sum.nanodollars)?;
        (nanodollars > limit).then(|| format!("${}", limit as f64 / 1e9))
    }
}

impl SessionBudget {
    pub(super) fn new(budget: QuestionBudget) -> Self {
        let spending = Spending {
            settled: with_known_cost(0, 0),
            in_flight: Vec::new(),
            usage: SessionUsage {
                nanodollars: Some(0),
                ..SessionUsage::default()
            },
        };
        Self {
            budget,
            spending: Mutex::new(spending),
            settlement: Notify::new(),
        }
    }

    pub(super) fn budget(&self) -> QuestionBudget {
        self.budget
    }

    pub(super) fn usage(&self) -> SessionUsage {
        self.spending.lock().usage
    }

    // Reserves a call of at most `most`. When it would fit but for calls in flight, wait for them: whether a call is refused
    // must not depend on which reply comes first.
    pub(super) async fn reserve(&self, most: SpendAmount) -> Result<(), Failure> {
        loop {
            let settlement = self.settlement.notified();
            {
                let mut spending = self.spending.lock();
                if spending.usage.calls >= self.budget.calls {
                    return Err(budget_exhausted(&format!("{} calls", self.budget.calls)));
                }
                if self.budget.nanodollars.is_some() && most.nanodollars.is_none() {
                    return Err(budget_exhausted(
                        "money, of a model whose price is not known,",
                    ));
                }
                if let Some(what) = self.budget.exceeded_by(spending.settled.plus(most)) {
                    return Err(budget_exhausted(&what));
                }
                let sum = spending.settled_and_reserved().plus(most);
                if spending.in_flight.is_empty() || self.budget.exceeded_by(sum).is_none() {
                    spending.usage.calls += 1;
                    spending.in_flight.push(most);
                    return Ok(());
                }
            }
            settlement.await;
        }
    }

    pub(super) fn settle(&self, most: SpendAmount, used: SpendAmount) {
        let mut spending = self.spending.lock();
        if let Some(at) = spending.in_flight.iter().position(|call| *call == most) {
            spending.in_flight.swap_remove(at);
        }
        let used = with_known_cost(used.tokens, used.nanodollars.unwrap_or(0));
        spending.settled = spending.settled.plus(used);
        drop(spending);
        self.settlement.notify_waiters();
    }

    /// Gives back what a call reserved whose caller has gone. The call itself still counts: it may have been made.
    pub(super) fn abandon(&self, most: SpendAmount) {
        self.settle(most, SpendAmount::default());
    }

    pub(super) fn record_reply(&self, usage: TokenUsage, cost: SpendAmount) {
        let totals = &mut self.spending.lock().usage;
        totals.prompt_tokens += u64::from(usage.prompt_tokens);
        totals.output_tokens += u64::from(usage.output_tokens);
        totals.nanodollars = totals
            .nanodollars
            .zip(cost.nanodollars)
            .map(|(sum, more)| sum + more);
    }

    // Calls made for the question elsewhere also count against the budget.
    pub(super) fn charge(&self, call_usage: CallUsage) {
        let mut spending = self.spending.lock();
        let used = with_known_cost(call_usage.prompt_tokens, call_usage.nanodollars);
        spending.settled = spending.settled.plus(used);
        let usage = &mut spending.usage;
        usage.calls += call_usage.calls;
        usage.prompt_tokens += call_usage.prompt_tokens;
        let known_cost = usage.nanodollars.filter(|_| call_usage.unpriced_calls == 0);
        usage.nanodollars = known_cost.map(|sum| sum + call_usage.nanodollars);
    }

    pub(super) fn record_cached_reply(&self) {
        self.spending.lock().usage.cached_replies += 1;
    }

    pub(super) fn can_afford(&self, tokens: u64) -> bool {
        let spending = self.spending.lock();
        let sum = spending
            .settled_and_reserved()
            .plus(with_known_cost(tokens, 0));
        spending.usage.calls < self.budget.calls && self.budget.exceeded_by(sum).is_none()
    }
}

fn with_known_cost(tokens: u64, nanodollars: u64) -> SpendAmount {
    SpendAmount {
        nanodollars: Some(nanodollars),
        tokens,
    }
}

fn budget_exhausted(what: &str) -> Failure {
    Failure::permanent(BUDGET_EXHAUSTED, format!("the budget of {what} is used up"))
        .with_next("allow more calls, tokens or money")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    fn tokens(tokens: u64) -> SpendAmount {
        SpendAmount {
            nanodollars: None,
            tokens,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reserve_waits_for_calls_in_flight_and_respects_the_budget() {
        let account = Arc::new(SessionBudget::new(QuestionBudget {
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
        assert_eq!(
            account.reserve(tokens(80)).await.unwrap_err().code,
            BUDGET_EXHAUSTED
        );
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
        assert_eq!(account.usage().calls, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn an_abandoned_call_leaves_its_tokens_to_others() {
        let account = SessionBudget::new(QuestionBudget {
            calls: 2,
            tokens: 100,
            nanodollars: None,
        });
        account.reserve(tokens(70)).await.unwrap();
        account.abandon(tokens(70));
        assert!(account.can_afford(100));
        account.reserve(tokens(100)).await.unwrap();
        assert_eq!(account.usage().calls, 2, "it may have been made");
    }

    #[tokio::test(start_paused = true)]
    async fn money_is_budgeted_like_tokens() {
        let priced = |nanodollars| SpendAmount {
            nanodollars: Some(nanodollars),
            tokens: 1,
        };
        let account = SessionBudget::new(QuestionBudget {
            nanodollars: Some(100),
            ..QuestionBudget::default()
        });
        account.reserve(priced(70)).await.unwrap();
        account.settle(priced(70), priced(30));
        let refused = account.reserve(priced(71)).await.unwrap_err();
        assert_eq!(refused.code, BUDGET_EXHAUSTED);
        assert!(refused.message.contains("$0.0000001"));
        account.reserve(priced(70)).await.unwrap();
        assert_eq!(
            account.reserve(tokens(1)).await.unwrap_err().code,
            BUDGET_EXHAUSTED,
            "a call without a price may not spend money"
        );
        let nothing = SessionBudget::new(QuestionBudget {
            nanodollars: Some(0),
            ..QuestionBudget::default()
        });
        assert!(nothing.reserve(priced(1)).await.is_err() && nothing.usage().calls == 0);
    }
}
