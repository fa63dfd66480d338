//! The budget of a question, and its usage.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use stemma_llm::request::TokenUsage;
use stemma_retrieval::spend_account::{SpendAccount, SpendLimits};
use stemma_retrieval::usage::CallUsage;
use stemma_store::Failure;
use stemma_store::spend::SpendAmount;

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
    account: SpendAccount,
    // Without the calls, which the account counts.
    usage: Mutex<SessionUsage>,
}

impl SessionBudget {
    pub(super) fn new(budget: QuestionBudget) -> Self {
        Self {
            budget,
            account: SpendAccount::new(SpendLimits {
                calls: Some(budget.calls),
                tokens: Some(budget.tokens),
                nanodollars: budget.nanodollars,
            }),
            usage: Mutex::new(SessionUsage {
                nanodollars: Some(0),
                ..SessionUsage::default()
            }),
        }
    }

    pub(super) fn budget(&self) -> QuestionBudget {
        self.budget
    }

    pub(super) fn usage(&self) -> SessionUsage {
        SessionUsage {
            calls: self.account.calls(),
            ..*self.usage.lock()
        }
    }

    pub(super) async fn reserve(&self, most: SpendAmount) -> Result<(), Failure> {
        let reserved = self.account.reserve(most).await;
        reserved.map_err(|limit| {
            let message = format!("the budget of {limit} is used up");
            Failure::permanent(BUDGET_EXHAUSTED, message)
                .with_next("allow more calls, tokens or money")
        })
    }

    pub(super) fn settle(&self, most: SpendAmount, used: SpendAmount) {
        self.account.settle(most, used);
    }

    pub(super) fn record_reply(&self, usage: TokenUsage, cost: SpendAmount) {
        let mut totals = self.usage.lock();
        totals.prompt_tokens += u64::from(usage.prompt_tokens);
        totals.output_tokens += u64::from(usage.output_tokens);
        let costs = totals.nanodollars.zip(cost.nanodollars);
        totals.nanodollars = costs.map(|(sum, more)| sum + more);
    }

    // Calls made for the question elsewhere also count against the budget.
    pub(super) fn charge(&self, calls: CallUsage) {
        let used = SpendAmount {
            tokens: calls.prompt_tokens,
            nanodollars: Some(calls.nanodollars),
        };
        self.account.charge(calls.calls, used);
        let mut totals = self.usage.lock();
        totals.prompt_tokens += calls.prompt_tokens;
        let known = totals.nanodollars.filter(|_| calls.unpriced_calls == 0);
        totals.nanodollars = known.map(|sum| sum + calls.nanodollars);
    }

    pub(super) fn record_cached_reply(&self) {
        self.usage.lock().cached_replies += 1;
    }

    pub(super) fn can_afford(&self, tokens: u64) -> bool {
        self.account.can_afford(tokens)
    }
}
