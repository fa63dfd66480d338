//! What the simulated calls cost, and what a job may spend: its budget, and what was in flight when something was lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stemma_engine::jobs::{self, BudgetOwner, BudgetRegistry, JobManifest, PauseReason, SpendLog};
use stemma_engine::ports::Ports;
use stemma_engine::stage::TaskContext;
use stemma_store::artifact;
use stemma_store::blobs::{Blobs, list_all, put_json};
use stemma_store::env::Millis;
use stemma_store::failure::Failure;
use stemma_store::key::JobId;
use stemma_store::port_error::PortResult;
use stemma_store::spend::{CallReservation, JobBudget, SpendAmount, SpendMeasure};

use super::SimulatedWork;

/// The most that one call costs, in tokens.
pub(super) const MAX_TOKENS: u64 = 100;
/// By how much a budget is raised when its job was paused for it.
pub(super) const BUDGET_STEP: u64 = 250;
// A call takes at most 150 s.
const CALL_TIMEOUT: Duration = Duration::from_secs(200);
// The owner looks again after this long at most: while workers still know the last budget, and after.
const MAX_RAISE_INTERVAL_MS: Millis = 45_000;
const RECORDS: &str = "calls/";

/// The accounts as the providers and the owners of the jobs know them.
#[derive(Default)]
pub(super) struct Spending {
    budgets: BTreeMap<JobId, u64>,
    spent: BTreeMap<JobId, u64>,
    // What calls that were under way at a loss may cost.
    lost: BTreeMap<JobId, u64>,
    // Calls by id: who pays, and whether they count as lost.
    calls: BTreeMap<u64, (Vec<JobId>, bool)>,
    violations: Vec<String>,
    pub(super) raises: u32,
}

impl Spending {
    /// Something was lost or suspended: calls under way may be unknown to the accounts.
    pub(super) fn lose(&mut self) {
        let calls: Vec<u64> = self.calls.keys().copied().collect();
        calls.into_iter().for_each(|id| self.lose_call(id));
    }

    fn lose_call(&mut self, id: u64) {
        if let Some((jobs, is_lost @ false)) = self.calls.get_mut(&id) {
            *is_lost = true;
            for job in jobs.iter() {
                *self.lost.entry(job.clone()).or_default() += MAX_TOKENS;
            }
        }
    }

    /// A call that has no reservation is not made: nothing of it can be lost.
    fn give_up(&mut self, id: u64) {
        let Some((jobs, true)) = self.calls.remove(&id) else {
            return;
        };
        for job in jobs {
            *self.lost.entry(job).or_default() -= MAX_TOKENS;
        }
    }

    fn pay(&mut self, id: u64, tokens: u64, now_ms: Millis) {
        let Some((jobs, _)) = self.calls.get(&id) else {
            return;
        };
        for job in jobs {
            let spent = self.spent.entry(job.clone()).or_default();
            *spent += tokens;
            let lost = self.lost.get(job).copied().unwrap_or(0);
            if let Some(budget) = self
                .budgets
                .get(job)
                .filter(|budget| *spent > **budget + lost)
            {
                self.violations.push(format!(
                    "{job} has spent {spent} of {budget} tokens at {now_ms} ms, and {lost} may be lost"
                ));
            }
        }
    }

    // A job is paused for its budget only if its next call could exceed it.
    fn raise(&mut self, job: &JobId) -> u64 {
        let spent = self.spent.get(job).copied().unwrap_or(0);
        let lost = self.lost.get(job).copied().unwrap_or(0);
        let budget = self.budgets.entry(job.clone()).or_default();
        if spent + lost + MAX_TOKENS <= *budget {
            self.violations.push(format!(
                "{job} is paused although it has spent only {spent} of {budget} tokens, and {lost} may be lost"
            ));
        }
        *budget += BUDGET_STEP;
        self.raises += 1;
        *budget
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.violations.first().cloned()
    }
}

/// The spending of a schedule, shared by its processes.
#[derive(Clone, Default)]
pub(super) struct SharedSpending(Arc<Mutex<Spending>>);

impl SharedSpending {
    pub(super) fn lock(&self) -> MutexGuard<'_, Spending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_budget(&self, job: &JobId, tokens: u64) {
        self.lock().budgets.insert(job.clone(), tokens);
    }

    /// Raises the budget of a job whenever it is paused for it, until the job has ended.
    pub(super) async fn raise_budgets(self, ports: Ports, job: JobId) -> PortResult<()> {
        while jobs::report(&ports.blobs, &job).await?.is_none() {
            let wait_ms = ports.env.random() % MAX_RAISE_INTERVAL_MS;
            ports.env.sleep(Duration::from_millis(wait_ms)).await;
            let paused = jobs::load_control(&ports.blobs, &job).await?.paused;
            if paused.is_some_and(|paused| paused.reason == PauseReason::Budget) {
                let budget = JobBudget {
                    tokens: Some(self.lock().raise(&job)),
                    nanodollars: None,
                };
                jobs::set_budget(&ports, &job, budget).await?;
                jobs::resume(&ports, &job).await?;
            }
        }
        Ok(())
    }
}

/// What a process needs to pay for calls.
pub(super) struct CallPayer {
    pub(super) spending: SharedSpending,
    pub(super) budgets: BudgetRegistry,
}

/// A call with a reservation.
pub(super) struct PaidCall {
    owners: Arc<Vec<BudgetOwner>>,
    call: CallReservation,
    tokens: u64,
}

impl CallPayer {
    pub(super) async fn begin(
        &self,
        task: &TaskContext<'_, SimulatedWork>,
    ) -> Result<PaidCall, Failure> {
        let id = task.ports.env.random();
        let call = CallReservation {
            id,
            max: tokens(MAX_TOKENS),
            timeout: CALL_TIMEOUT,
        };
        let owners = self.budgets.owners(task.ports, task.run).await?;
        let log = Arc::new(StoredSpend(task.ports.clone()));
        // Under way from here on: a reservation that was made may be lost before its reply is here.
        let jobs = owners.iter().map(|owner| owner.job.job.clone());
        let call_under_way = (jobs.collect(), false);
        self.spending.lock().calls.insert(id, call_under_way);
        let reserved = self.budgets.reserve(task.ports, &owners, &call, log).await;
        if let Err(failure) = reserved {
            self.spending.lock().give_up(id);
            return Err(failure);
        }
        let stored = artifact::ensure_missing(&task.ports.blobs, &task.run.scope, &task.key);
        if let Err(failure) = stored.await {
            let used = tokens(0);
            let settled = self.budgets.settle(task.ports, &owners, &call, used);
            settled.await;
            self.spending.lock().give_up(id);
            return Err(failure);
        }
        Ok(PaidCall {
            owners,
            call,
            tokens: 40 + id % (MAX_TOKENS - 40),
        })
    }

    /// The reply is here, and paid.
    pub(super) async fn end(
        &self,
        task: &TaskContext<'_, SimulatedWork>,
        paid: PaidCall,
    ) -> Result<(), Failure> {
        let PaidCall {
            owners,
            call,
            tokens: used,
        } = paid;
        self.spending
            .lock()
            .pay(call.id, used, task.ports.env.now_ms());
        let is_settled = self
            .budgets
            .settle(task.ports, &owners, &call, tokens(used))
            .await;
        let jobs: Vec<&JobId> = owners.iter().map(|owner| &owner.job.job).collect();
        let key = format!("{RECORDS}{:016x}.json", call.id);
        put_json(&task.ports.blobs.with_long_retries(), &key, &(jobs, used)).await?;
        // What is settled later may be lost with the limiter, or come after the end of its reservation.
        let mut spending = self.spending.lock();
        if is_settled {
            spending.calls.remove(&call.id);
        } else {
            spending.lose_call(call.id);
        }
        Ok(())
    }
}

fn tokens(tokens: u64) -> SpendAmount {
    SpendAmount {
        nanodollars: None,
        tokens,
    }
}

// The log of paid calls.
struct StoredSpend(Ports);

#[async_trait]
impl SpendLog for StoredSpend {
    async fn total_spend(&self, job: &JobManifest, _: SpendMeasure) -> PortResult<SpendAmount> {
        let mut total = 0;
        for key in list_all(&self.0.blobs, RECORDS).await? {
            let record = self.0.blobs.get(&key).await?.unwrap_or_default();
            if let Ok((jobs, used)) = serde_json::from_slice::<(Vec<JobId>, u64)>(&record)
                && jobs.contains(&job.job)
            {
                total += used;
            }
        }
        Ok(tokens(total))
    }
}
