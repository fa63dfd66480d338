//! What a question or a run has spent, against its limits.

use std::sync::{Mutex, MutexGuard, PoisonError};

use stemma_store::spend::SpendAmount;
use tokio::sync::Notify;

/// Limits of spending; `None`: no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpendLimits {
    pub calls: Option<u32>,
    /// Prompt and output tokens.
    pub tokens: Option<u64>,
    /// Billionths of a dollar. With a limit, a model without prices cannot be called.
    pub nanodollars: Option<u64>,
}

/// Paid calls against limits. A call is reserved before it is made, and settled when its cost is known.
#[derive(Debug)]
pub struct SpendAccount {
    limits: SpendLimits,
    spending: Mutex<Spending>,
    settlement: Notify,
}

#[derive(Debug, Default)]
struct Spending {
    calls: u32,
    settled: SpendAmount,
    // The most that each call in flight may cost.
    in_flight: Vec<SpendAmount>,
}

impl Spending {
    fn settled_and_reserved(&self) -> SpendAmount {
        self.in_flight.iter().copied().fold(self.settled, sum)
    }
}

impl SpendLimits {
    // The limit that spending exceeds.
    fn exceeded_by(self, spent: SpendAmount) -> Option<String> {
        if let Some(most) = self.tokens.filter(|most| spent.tokens > *most) {
            return Some(format!("{most} tokens"));
        }
        let nanodollars = spent.nanodollars.unwrap_or_default();
        let most = self.nanodollars.filter(|most| nanodollars > *most)?;
        Some(format!("${}", most as f64 / 1e9))
    }
}

impl SpendAccount {
    pub fn new(limits: SpendLimits) -> Self {
        Self {
            limits,
            spending: Mutex::default(),
            settlement: Notify::new(),
        }
    }

    /// Calls that were reserved or charged. One whose caller has gone counts: it may have been made.
    pub fn calls(&self) -> u32 {
        self.lock().calls
    }

    /// Reserves a call of at most `most`. A call that only fits without those in flight waits for them: they may cost less, and
    /// whether a call is refused must not depend on which reply comes first.
    ///
    /// # Errors
    /// The limit that the call would exceed: `30 calls`.
    pub async fn reserve(&self, most: SpendAmount) -> Result<(), String> {
        loop {
            let settlement = self.settlement.notified();
            {
                let mut spending = self.lock();
                if let Some(calls) = self.limits.calls.filter(|calls| spending.calls >= *calls) {
                    return Err(format!("{calls} calls"));
                }
                if self.limits.nanodollars.is_some() && most.nanodollars.is_none() {
                    return Err("money, of a model whose price is not known,".into());
                }
                if let Some(limit) = self.limits.exceeded_by(sum(spending.settled, most)) {
                    return Err(limit);
                }
                let all = sum(spending.settled_and_reserved(), most);
                if spending.in_flight.is_empty() || self.limits.exceeded_by(all).is_none() {
                    spending.calls += 1;
                    spending.in_flight.push(most);
                    return Ok(());
                }
            }
            settlement.await;
        }
    }

    /// Replaces the reservation of a call by what it used.
    pub fn settle(&self, most: SpendAmount, used: SpendAmount) {
        let mut spending = self.lock();
        if let Some(at) = spending.in_flight.iter().position(|call| *call == most) {
            spending.in_flight.swap_remove(at);
        }
        spending.settled = sum(spending.settled, used);
        drop(spending);
        self.settlement.notify_waiters();
    }

    /// Adds calls that were made elsewhere.
    pub fn charge(&self, calls: u32, used: SpendAmount) {
        let mut spending = self.lock();
        spending.calls += calls;
        spending.settled = sum(spending.settled, used);
    }

    /// Whether one more call of so many tokens fits, next to those in flight.
    pub fn can_afford(&self, tokens: u64) -> bool {
        let spending = self.lock();
        let call = SpendAmount {
            tokens,
            ..SpendAmount::default()
        };
        let all = sum(spending.settled_and_reserved(), call);
        self.limits.calls.is_none_or(|calls| spending.calls < calls)
            && self.limits.exceeded_by(all).is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Spending> {
        self.spending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// An unknown price counts nothing.
fn sum(left: SpendAmount, right: SpendAmount) -> SpendAmount {
    let nanodollars = [left, right].map(|amount| amount.nanodollars.unwrap_or_default());
    SpendAmount {
        tokens: left.tokens.saturating_add(right.tokens),
        nanodollars: Some(nanodollars[0].saturating_add(nanodollars[1])),
    }
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

    fn priced(nanodollars: u64) -> SpendAmount {
        SpendAmount {
            nanodollars: Some(nanodollars),
            tokens: 1,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reserve_waits_for_calls_in_flight_and_respects_the_limits() {
        let account = Arc::new(SpendAccount::new(SpendLimits {
            calls: Some(3),
            tokens: Some(100),
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
            account.reserve(tokens(80)).await,
            Err("100 tokens".to_owned())
        );
        account.settle(tokens(60), tokens(10));
        account.reserve(tokens(60)).await.unwrap();
        assert_eq!(account.reserve(tokens(1)).await, Err("3 calls".to_owned()));
        assert_eq!(account.calls(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_cost_leaves_its_tokens_to_others() {
        let account = SpendAccount::new(SpendLimits {
            calls: Some(2),
            tokens: Some(100),
            nanodollars: None,
        });
        account.reserve(tokens(70)).await.unwrap();
        account.settle(tokens(70), SpendAmount::default());
        assert!(account.can_afford(100));
        account.reserve(tokens(100)).await.unwrap();
        assert_eq!(account.calls(), 2, "it may have been made");
    }

    #[tokio::test(start_paused = true)]
    async fn money_is_limited_like_tokens() {
        let account = |nanodollars| {
            SpendAccount::new(SpendLimits {
                nanodollars: Some(nanodollars),
                ..SpendLimits::default()
            })
        };
        let hundred = account(100);
        hundred.reserve(priced(70)).await.unwrap();
        hundred.settle(priced(70), priced(30));
        assert_eq!(
            hundred.reserve(priced(71)).await,
            Err("$0.0000001".to_owned())
        );
        hundred.reserve(priced(70)).await.unwrap();
        assert!(
            hundred.reserve(tokens(1)).await.is_err(),
            "a call without a price may not spend money"
        );
        let nothing = account(0);
        assert!(nothing.reserve(priced(1)).await.is_err() && nothing.calls() == 0);
    }
}
