//! A payer in memory.

use std::collections::BTreeMap;

use async_trait::async_trait;
use parking_lot::Mutex;
use stemma_store::spend::{CallReservation, SpendAmount};
use stemma_store::{Failure, JobId, RunRef};

use super::fixture::HOUR;
use crate::batches::BatchPayer;

/// Reservations and spending of one account.
#[derive(Default)]
pub(super) struct FakePayer(Mutex<Account>);

#[derive(Default)]
struct Account {
    // By request.
    held: BTreeMap<u64, i64>,
    spent: i64,
    limit: Option<i64>,
    pauses: u32,
    // Jobs that joined a run later.
    joined: u32,
    // For how many calls it is not known who pays.
    unknown: u32,
}

impl Account {
    fn reserved(&self) -> i64 {
        self.held.values().sum()
    }
}

impl FakePayer {
    pub(super) fn reserved(&self) -> i64 {
        self.0.lock().reserved()
    }

    pub(super) fn spending(&self) -> i64 {
        self.0.lock().spent
    }

    pub(super) fn pauses(&self) -> u32 {
        self.0.lock().pauses
    }

    pub(super) fn join_job(&self) {
        self.0.lock().joined += 1;
    }

    /// The next calls fail to learn who pays.
    pub(super) fn fail_jobs(&self, calls: u32) {
        self.0.lock().unknown = calls;
    }

    pub(super) fn set_limit(&self, limit: i64) {
        self.0.lock().limit = Some(limit);
    }
}

fn nanodollars(amount: SpendAmount) -> i64 {
    i64::try_from(amount.nanodollars.unwrap()).unwrap()
}

#[async_trait]
impl BatchPayer for FakePayer {
    async fn reserve(&self, _: &RunRef, request: &CallReservation) -> Result<(), Failure> {
        let mut account = self.0.lock();
        let max = nanodollars(request.max);
        let after = account.reserved() + account.spent + max;
        if account.limit.is_some_and(|limit| after > limit) {
            return Err(Failure::throttled("budget.reserved", "reserved", HOUR));
        }
        account.held.insert(request.id, max);
        Ok(())
    }

    async fn settle(&self, _: &RunRef, request: &CallReservation, used: SpendAmount) {
        let mut account = self.0.lock();
        account.held.remove(&request.id);
        account.spent += nanodollars(used);
    }

    async fn jobs(&self, _: &RunRef) -> Result<Vec<JobId>, Failure> {
        let mut account = self.0.lock();
        if account.unknown > 0 {
            account.unknown -= 1;
            return Err(Failure::throttled(
                "budget.unknown",
                "Redis is unavailable",
                HOUR,
            ));
        }
        let joined = (0..account.joined).map(|n| JobId(format!("j-{n}")));
        Ok([JobId("j".into())].into_iter().chain(joined).collect())
    }

    async fn pause(&self, _: &RunRef) {
        self.0.lock().pauses += 1;
    }
}
