//! Budgets: what a job may spend on models, in money, tokens, or both.
//!
//! Each call reserves its maximum cost on a shared account and settles the actual cost afterwards. A job whose next
//! call would exceed its budget is paused: nothing more is opened, running calls finish. Every running job that waits
//! for a run pays for it, so none of them can exceed its budget through the requests of another. An account lost with
//! the shared limiter is rebuilt from the spend log before anything more is reserved; a call in flight at that moment
//! is counted when it ends. A reservation has the id of its call and an end, so what a killed, cancelled or stopped call
//! held is given back.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use stemma_store::env::Millis;
use stemma_store::failure::Failure;
use stemma_store::key::{JobId, RunHeader, RunId, RunRef};
use stemma_store::limit::{AccountReservation, Reservation};
use stemma_store::port_error::PortResult;
use stemma_store::port_retry::{with_long_retry, with_retry};
use stemma_store::spend::{CallReservation, JobBudget, SpendAmount, SpendMeasure};

use super::control::{JobControl, PauseReason, PauseResult, load_control, pause_once};
use super::manifest;
use crate::jobs::JobManifest;
use crate::ledger::Ledger;
use crate::ports::Ports;

// How long the cached owners of a run and controls of a job are used. Each process reads the control of each job in use this
// often: a listing or two. The coordinator stops requesting tasks of a paused job sooner; this is for those already requested.
const CACHE_TTL_MS: Millis = 15_000;
// Cached runs and jobs before expired ones are evicted.
const MAX_CACHED: usize = 10_000;
// Retry delays: of a task whose jobs are out of budget, and of one that waits for reservations of other calls to
// settle.
const EXHAUSTED_RETRY: Duration = Duration::from_secs(30);
const RESERVED_RETRY: Duration = Duration::from_secs(5);
// Delay of a task whose budget was changed meanwhile: the next attempt reads the new one.
const CHANGED_RETRY: Duration = Duration::from_secs(1);
// How long a reservation waits for a lost account before its task is throttled. A million replies are read in less.
const REOPEN_WAIT: Duration = Duration::from_secs(2);
// How often one reservation rebuilds a lost account.
const MAX_REOPENS: usize = 3;

/// Durable record of spending, from which lost accounts are rebuilt.
#[async_trait]
pub trait SpendLog: Send + Sync {
    /// Total spending of a job so far. The cost may be `None` where only tokens are asked for.
    async fn total_spend(
        &self,
        job: &JobManifest,
        measure: SpendMeasure,
    ) -> PortResult<SpendAmount>;
}

/// A job that pays for a run.
#[derive(Debug, Clone)]
pub struct BudgetOwner {
    pub job: Arc<JobManifest>,
    budget: Option<JobBudget>,
    budget_version: u64,
}

impl BudgetOwner {
    /// The reservations that a call of at most `most` needs: account, limit, amount.
    fn account_reservations(&self, most: SpendAmount) -> Result<Vec<(String, u64, u64)>, Failure> {
        let budget = self.budget.unwrap_or_default();
        let job = &self.job.job;
        let mut lines = Vec::new();
        if let Some(limit) = budget.nanodollars {
            let amount = most.nanodollars.ok_or_else(missing_price)?;
            lines.push((format!("{job}.money"), limit, amount));
        }
        if let Some(limit) = budget.tokens {
            lines.push((format!("{job}.tokens"), limit, most.tokens));
        }
        Ok(lines)
    }
}

// Owners of a run, and when they were read.
type CachedOwners = (Millis, Arc<Vec<BudgetOwner>>);
// Manifest and control of a job, and when they were read.
type CachedJob = (Millis, Arc<JobManifest>, JobControl);

type Reopening = Shared<BoxFuture<'static, Result<(), Failure>>>;
type Reopenings = Arc<Mutex<HashMap<JobId, Reopening>>>;

/// Caches for some seconds who pays for which run. One per process.
#[derive(Default)]
pub struct BudgetRegistry {
    owners: Mutex<HashMap<RunId, CachedOwners>>,
    jobs: Mutex<HashMap<JobId, CachedJob>>,
    // Jobs whose lost accounts are being rebuilt, so that each is rebuilt once.
    reopening: Reopenings,
}

impl BudgetRegistry {
    /// The jobs that pay for a run: the running ones among those that wait for it.
    ///
    /// # Errors
    /// Throttled, when all of them are paused or a port is unavailable.
    pub async fn owners(
        &self,
        ports: &Ports,
        run: &RunRef,
    ) -> Result<Arc<Vec<BudgetOwner>>, Failure> {
        let now = ports.env.now_ms();
        if let Some((read_ms, owners)) = self.owners.lock().get(&run.run)
            && now < read_ms + CACHE_TTL_MS
        {
            return Ok(Arc::clone(owners));
        }
        let waiting = self.waiting(ports, run).await?;
        let running = waiting.iter().any(|(_, control)| control.is_running());
        let blocked = waiting.iter().any(|(_, control)| {
            control.paused.is_some_and(|paused| {
                matches!(
                    paused.reason,
                    PauseReason::Budget | PauseReason::Credentials
                )
            })
        });
        if !running && blocked {
            let message = "every job that waits for this is paused";
            return Err(Failure::throttled(
                "budget.paused",
                message,
                EXHAUSTED_RETRY,
            ));
        }
        let owners = Arc::new(charged(waiting));
        let mut all = self.owners.lock();
        if all.len() >= MAX_CACHED {
            all.retain(|_, (read_ms, _)| now < *read_ms + CACHE_TTL_MS);
        }
        all.insert(run.run.clone(), (now, Arc::clone(&owners)));
        Ok(owners)
    }

    /// The jobs that pay for what was spent on a run, even if all of them are paused.
    ///
    /// # Errors
    /// Throttled, when a port is unavailable.
    pub async fn payers(&self, ports: &Ports, run: &RunRef) -> Result<Vec<BudgetOwner>, Failure> {
        Ok(charged(self.waiting(ports, run).await?))
    }

    async fn waiting(
        &self,
        ports: &Ports,
        run: &RunRef,
    ) -> Result<Vec<(Arc<JobManifest>, JobControl)>, Failure> {
        let mut waiting = Vec::new();
        for job in waiting_jobs(ports, run).await? {
            waiting.extend(self.load_job(ports, &job).await?);
        }
        Ok(waiting)
    }

    /// Reserves the most that `call` may cost on the accounts of all `owners`, or on none.
    ///
    /// # Errors
    /// Throttled, when it would exceed a budget; the job is then paused, unless the amount may fit once reservations of
    /// other calls settle. Also throttled when a port is unavailable: unaccounted spending is not allowed.
    pub async fn reserve(
        &self,
        ports: &Ports,
        owners: &[BudgetOwner],
        call: &CallReservation,
        log: Arc<dyn SpendLog>,
    ) -> Result<(), Failure> {
        let mut reserved = Vec::new();
        for owner in owners {
            for (account, limit, amount) in owner.account_reservations(call.max)? {
                let line = call.on_account(amount);
                match self
                    .reserve_account(ports, owner, (&account, limit, line), &log)
                    .await
                {
                    Ok(()) => reserved.push((account, line)),
                    Err(failure) => {
                        for (account, line) in reserved {
                            log_lost_settlement(
                                &account,
                                ports
                                    .limiter
                                    .settle_reservation(&account, line, 0, ports.env.now_ms())
                                    .await,
                            );
                        }
                        return Err(failure);
                    }
                }
            }
        }
        Ok(())
    }

    /// Settles the reservation of a call that cost `used`. Settle before the call is recorded in the [`SpendLog`]: an
    /// account that is rebuilt at that moment then knows of the call in one way only.
    ///
    /// If the limiter is unavailable for long, this goes on in the background: the reply need not wait to be stored. Returns
    /// whether everything is settled.
    pub async fn settle(
        &self,
        ports: &Ports,
        owners: &[BudgetOwner],
        call: &CallReservation,
        used: SpendAmount,
    ) -> bool {
        let mut is_settled = true;
        for owner in owners {
            let (Ok(reserved), Ok(actual)) = (
                owner.account_reservations(call.max),
                owner.account_reservations(used),
            ) else {
                continue;
            };
            for ((account, _, reserved), (_, _, used)) in reserved.into_iter().zip(actual) {
                let reservation = call.on_account(reserved);
                let settled = with_retry(&ports.env, || {
                    let now_ms = ports.env.now_ms();
                    ports
                        .limiter
                        .settle_reservation(&account, reservation, used, now_ms)
                });
                if let Err(error) = settled.await {
                    tracing::warn!(account, %error, "cannot settle a reservation; trying again until it is settled");
                    is_settled = false;
                    ports
                        .env
                        .spawn(settle_later(ports.clone(), account, reservation, used));
                }
            }
        }
        is_settled
    }

    /// Pauses the running jobs among `owners`.
    pub async fn pause(
        &self,
        ports: &Ports,
        owners: &[BudgetOwner],
        reason: PauseReason,
    ) -> PortResult<()> {
        for owner in owners {
            self.pause_job(ports, owner, (reason, None)).await?;
        }
        Ok(())
    }

    async fn pause_job(
        &self,
        ports: &Ports,
        owner: &BudgetOwner,
        (reason, budget_version): (PauseReason, Option<u64>),
    ) -> PortResult<PauseResult> {
        let job = &owner.job.job;
        let result = pause_once(ports, job, reason, budget_version).await?;
        if result == PauseResult::Paused {
            tracing::warn!(%job, ?reason, "job paused");
        }
        self.jobs.lock().remove(job);
        self.owners.lock().clear();
        Ok(result)
    }

    // The budget that the process knows does not allow a call. It may have been raised since it was read.
    async fn pause_at_budget(&self, ports: &Ports, owner: &BudgetOwner) -> PortResult<Failure> {
        let job = &owner.job.job;
        let found = (PauseReason::Budget, Some(owner.budget_version));
        if self.pause_job(ports, owner, found).await? == PauseResult::BudgetChanged {
            let message = format!("the budget of {job} was changed before the call");
            return Ok(Failure::throttled("budget.changed", message, CHANGED_RETRY));
        }
        let message = format!("the next call would exceed the budget of {job}");
        Ok(
            Failure::throttled("budget.reached", message, EXHAUSTED_RETRY)
                .with_next(format!("stemma job resume {job} --budget MORE")),
        )
    }

    async fn reserve_account(
        &self,
        ports: &Ports,
        owner: &BudgetOwner,
        (account, limit, call): (&str, u64, AccountReservation),
        log: &Arc<dyn SpendLog>,
    ) -> Result<(), Failure> {
        for _ in 0..MAX_REOPENS {
            match ports
                .limiter
                .reserve(account, limit, call, ports.env.now_ms())
                .await?
            {
                Reservation::Granted => return Ok(()),
                Reservation::Unknown => self.reopen_accounts(ports, owner, log).await?,
                Reservation::Refused {
                    may_fit_later: true,
                } => {
                    let message = "what is left of the budget is reserved by calls under way";
                    return Err(Failure::throttled(
                        "budget.reserved",
                        message,
                        RESERVED_RETRY,
                    ));
                }
                Reservation::Refused {
                    may_fit_later: false,
                } => return Err(self.pause_at_budget(ports, owner).await?),
            }
        }
        Err(account_lost())
    }

    /// Waits a short time until the accounts of a job are open again. The log is read in a task of its own, so that a long
    /// one does not use up the task's time, and goes on being read when the task has gone.
    async fn reopen_accounts(
        &self,
        ports: &Ports,
        owner: &BudgetOwner,
        log: &Arc<dyn SpendLog>,
    ) -> Result<(), Failure> {
        let reopening = self
            .reopening
            .lock()
            .entry(owner.job.job.clone())
            .or_insert_with(|| {
                let ports = ports.clone();
                let owner = owner.clone();
                let log = Arc::clone(log);
                let registered = Arc::clone(&self.reopening);
                let reading = ports.env.clone().spawn(async move {
                    let result = open_accounts(&ports, &owner, log.as_ref()).await;
                    registered.lock().remove(&owner.job.job);
                    result
                });
                reading
                    .map(|result| result.unwrap_or_else(|_| Err(account_lost())))
                    .boxed()
                    .shared()
            })
            .clone();
        let waited = tokio::time::timeout(REOPEN_WAIT, reopening).await;
        waited.unwrap_or_else(|_| Err(account_lost()))
    }

    /// A job and its control; `None` if there is no such job.
    async fn load_job(
        &self,
        ports: &Ports,
        job: &JobId,
    ) -> Result<Option<(Arc<JobManifest>, JobControl)>, Failure> {
        let now = ports.env.now_ms();
        let cached = self.jobs.lock().get(job).cloned();
        let cached = match cached {
            Some((read_ms, manifest, control)) if now < read_ms + CACHE_TTL_MS => {
                return Ok(Some((manifest, control)));
            }
            Some((_, manifest, _)) => Some(manifest),
            None => manifest(&ports.blobs, job).await?.map(Arc::new),
        };
        let Some(manifest) = cached else {
            return Ok(None);
        };
        let control = load_control(&ports.blobs, job).await?;
        let mut jobs = self.jobs.lock();
        if jobs.len() >= MAX_CACHED {
            jobs.clear();
        }
        jobs.insert(job.clone(), (now, Arc::clone(&manifest), control));
        Ok(Some((manifest, control)))
    }
}

// The running jobs among those that wait. When none is running any more, calls in flight are still charged to the waiting
// ones.
fn charged(waiting: Vec<(Arc<JobManifest>, JobControl)>) -> Vec<BudgetOwner> {
    let running = waiting.iter().any(|(_, control)| control.is_running());
    waiting
        .into_iter()
        .filter(|(_, control)| control.is_running() || !running)
        .map(|(job, control)| BudgetOwner {
            budget: control.budget.or(job.options.budget),
            budget_version: control.budget_version,
            job,
        })
        .collect()
}

/// Opens the accounts of a job with the spending from the log.
async fn open_accounts(
    ports: &Ports,
    owner: &BudgetOwner,
    log: &dyn SpendLog,
) -> Result<(), Failure> {
    let began_ms = ports.env.now_ms();
    let measure = match owner.budget.and_then(|budget| budget.nanodollars) {
        Some(_) => SpendMeasure::TokensAndCost,
        None => SpendMeasure::Tokens,
    };
    let mut openings = Vec::new();
    for (account, ..) in owner.account_reservations(SpendAmount::NOTHING)? {
        let opening = ports
            .limiter
            .begin_opening(&account, ports.env.random())
            .await?;
        openings.push((account, opening));
    }
    let total = log.total_spend(&owner.job, measure).await?;
    for (account, opening) in openings {
        let used = if account.ends_with(".money") {
            total.nanodollars.ok_or_else(missing_price)?
        } else {
            total.tokens
        };
        ports.limiter.open_account(&account, opening, used).await?;
    }
    let took_ms = ports.env.now_ms().saturating_sub(began_ms);
    tracing::info!(job = %owner.job.job, tokens = total.tokens, took_ms, "opened the accounts of a job from the call log");
    Ok(())
}

fn account_lost() -> Failure {
    let message = "what the job has spent is being read from the call log";
    Failure::throttled("budget.account_lost", message, RESERVED_RETRY)
}

// The jobs, each once: the parts of a large job wait, and their job pays. Falls back to the job that opened the run when
// the ledger has lost the watchers.
async fn waiting_jobs(ports: &Ports, run: &RunRef) -> Result<BTreeSet<JobId>, Failure> {
    let mut watchers = ports.ledger.watchers(&run.run).await?;
    if watchers.is_empty() {
        let header = RunHeader::load(&ports.blobs, run).await?;
        watchers.extend(header.ok().map(|header| header.opened_by));
    }
    Ok(watchers.iter().map(|watcher| watcher.split().0).collect())
}

fn missing_price() -> Failure {
    Failure::throttled(
        "budget.no_price",
        "a budget in money needs the model's prices",
        EXHAUSTED_RETRY,
    )
    .with_next("set model.prices.input and model.prices.output on every worker")
}

// A lost settlement leaves the reservation in place until its time is over.
// Without it the amount is given back when the reservation expires, and the job spends more than its budget.
async fn settle_later(ports: Ports, account: String, reservation: AccountReservation, used: u64) {
    let settled = with_long_retry(&ports.env, || {
        let now_ms = ports.env.now_ms();
        ports
            .limiter
            .settle_reservation(&account, reservation, used, now_ms)
    });
    log_lost_settlement(&account, settled.await);
}

fn log_lost_settlement(account: &str, result: PortResult<()>) {
    if let Err(error) = result {
        tracing::warn!(account, %error, "cannot settle a reservation; the call counts once the account is rebuilt from the call log");
    }
}
