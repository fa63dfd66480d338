//! What calls of models cost, and what a job may spend on them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limit::AccountReservation;

/// An amount that was or may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SpendAmount {
    /// Billionths of a dollar; `None` without a known price.
    pub nanodollars: Option<u64>,
    /// Prompt and reply tokens.
    pub tokens: u64,
}

impl SpendAmount {
    pub const NOTHING: Self = Self {
        nanodollars: Some(0),
        tokens: 0,
    };

    /// The sum; its price is unknown where one is.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let nanodollars = self.nanodollars.zip(other.nanodollars);
        Self {
            nanodollars: nanodollars.map(|(sum, more)| sum.saturating_add(more)),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }
}

/// What of a job's spending has to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpendMeasure {
    Tokens,
    /// Also the cost, which a record without a price only shows when it is read.
    TokensAndCost,
}

/// One call that is charged to budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallReservation {
    /// Random; identifies the call on its accounts.
    pub id: u64,
    /// The most that it may cost.
    pub max: SpendAmount,
    /// By then the call has ended, settled or not: a process may be killed during a call, and a task may be cancelled.
    pub timeout: Duration,
}

impl CallReservation {
    /// Its reservation of `amount` on one account.
    pub fn on_account(&self, amount: u64) -> AccountReservation {
        AccountReservation {
            id: self.id,
            amount,
            ttl_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX >> 12),
        }
    }
}

/// Spending limit of a job; `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobBudget {
    /// Billionths of a dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nanodollars: Option<u64>,
    /// Prompt and reply tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}
