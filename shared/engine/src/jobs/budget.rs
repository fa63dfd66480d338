//! Budgets: what a job may spend on models, in money, in tokens, or both (architecture §4.12).
//!
//! What a call may cost at most is reserved before it and settled after it, on an account that all workers share. A job
//! whose next call would exceed its budget is paused: nothing more of it is opened, what runs is finished. Every running
//! job that waits for a run pays for it, so that none is exceeded by what another asked for. An account that is lost with
//! the shared limits is made anew from what was recorded before anything more is reserved; a call that was under way at
//! that moment is counted when it ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::control::{PauseReason, Standing, pause, standing};
use super::manifest;
use crate::env::{Env, Millis};
use crate::failure::Failure;
use crate::flow::Manifest;
use crate::key::{JobId, RunHeader, RunId, RunRef};
use crate::limit::Reserved;
use crate::port::{PortError, ask};
use crate::ports::Ports;

/// How long it is believed who pays for a run, and where a job stands.
const BELIEVED_MS: Millis = 1_000;
/// Runs and jobs remembered before old ones are forgotten.
const REMEMBERED: usize = 10_000;
/// How long a task is away whose job has no money left, and one that waits for what others have reserved.
const UNTIL_RAISED: Duration = Duration::from_secs(30);
const UNTIL_SETTLED: Duration = Duration::from_secs(5);
/// How often a lost account is made anew for one reservation.
const REOPENED: usize = 3;

/// What a job may spend in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Billionths of a dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nanodollars: Option<u64>,
    /// Tokens, prompt and reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// What was spent, or may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Billionths of a dollar; `None` where no price is known.
    pub nanodollars: Option<u64>,
    /// Tokens, prompt and reply.
    pub tokens: u64,
}

/// The record of what was spent, which outlives every account.
#[async_trait]
pub trait Ledgered: Send + Sync {
    /// What `job` has spent so far.
    ///
    /// # Errors
    /// [`PortError`] when it cannot be read.
    async fn spent(&self, job: &Manifest) -> Result<Amount, PortError>;
}

/// A job that waits for a run.
#[derive(Debug, Clone)]
pub struct Payer {
    /// The job.
    pub job: Arc<Manifest>,
    budget: Option<Budget>,
}

impl Payer {
    /// The accounts that a call of `most` is reserved on: name, limit, amount.
    fn lines(&self, most: Amount) -> Result<Vec<(String, u64, u64)>, Failure> {
        let budget = self.budget.unwrap_or_default();
        let job = &self.job.job;
        let mut lines = Vec::new();
        if let Some(limit) = budget.nanodollars {
            let amount = most.nanodollars.ok_or_else(no_price)?;
            lines.push((format!("{job}.money"), limit, amount));
        }
        if let Some(limit) = budget.tokens {
            lines.push((format!("{job}.tokens"), limit, most.tokens));
        }
        Ok(lines)
    }
}

/// Who pays for a run, and when that was found.
type PaidBy = (Millis, Arc<Vec<Payer>>);
/// A job, where it stands, and when that was found.
type Stands = (Millis, Arc<Manifest>, Standing);

/// Who pays for what, as of a second ago. One per process.
#[derive(Default)]
pub struct Purses {
    payers: Mutex<HashMap<RunId, PaidBy>>,
    jobs: Mutex<HashMap<JobId, Stands>>,
    /// Held while a lost account is made anew: once is enough.
    opening: tokio::sync::Mutex<()>,
}

impl Purses {
    /// The jobs that pay for a run: those that wait for it and run.
    ///
    /// # Errors
    /// Throttled, where all of them have used up their budget or wait for a key, or a port is away.
    pub async fn payers(
        &self,
        env: &Env,
        ports: &Ports,
        run: &RunRef,
    ) -> Result<Arc<Vec<Payer>>, Failure> {
        let now = env.now_ms();
        if let Some((read_ms, payers)) = lock(&self.payers).get(&run.run)
            && now < read_ms + BELIEVED_MS
        {
            return Ok(Arc::clone(payers));
        }
        let mut waiting = Vec::new();
        for job in waiting_for(env, ports, run).await? {
            waiting.extend(self.job(env, ports, &job).await?);
        }
        let held = |standing: &Standing| {
            let stops = |reason| matches!(reason, PauseReason::Budget | PauseReason::Credentials);
            standing.paused.is_some_and(|paused| stops(paused.reason))
        };
        let running = waiting.iter().any(|(_, standing)| standing.is_running());
        if !running && waiting.iter().any(|(_, standing)| held(standing)) {
            let message = "every job that waits for this is paused";
            return Err(Failure::throttled("budget.paused", message, UNTIL_RAISED));
        }
        // Where none runs any more, what is under way is finished on their account.
        let pays = waiting
            .into_iter()
            .filter(|(_, standing)| standing.is_running() || !running);
        let payers: Arc<Vec<Payer>> = Arc::new(
            pays.map(|(job, standing): (Arc<Manifest>, Standing)| Payer {
                budget: standing.budget.or(job.terms.budget),
                job,
            })
            .collect(),
        );
        let mut all = lock(&self.payers);
        if all.len() >= REMEMBERED {
            all.retain(|_, (read_ms, _)| now < *read_ms + BELIEVED_MS);
        }
        all.insert(run.run.clone(), (now, Arc::clone(&payers)));
        Ok(payers)
    }

    /// Reserves `most` on every account of `payers`, or on none.
    ///
    /// # Errors
    /// Throttled, where it would exceed a budget: the job is paused then, unless it may fit when what others have reserved is
    /// settled. Nothing is spent that cannot be accounted for: the same where a port is away.
    pub async fn reserve(
        &self,
        env: &Env,
        ports: &Ports,
        payers: &[Payer],
        most: Amount,
        log: &dyn Ledgered,
    ) -> Result<(), Failure> {
        let mut taken = Vec::new();
        for payer in payers {
            for (account, limit, amount) in payer.lines(most)? {
                match self
                    .line(env, ports, payer, (&account, limit, amount), log)
                    .await
                {
                    Ok(()) => taken.push((account, amount)),
                    Err(failure) => {
                        for (account, amount) in taken {
                            said(ports.limiter.spend(&account, amount, 0, env.now_ms()).await);
                        }
                        return Err(failure);
                    }
                }
            }
        }
        Ok(())
    }

    /// Settles what was reserved for a call that came to `used`.
    pub async fn settle(
        &self,
        env: &Env,
        ports: &Ports,
        payers: &[Payer],
        most: Amount,
        used: Amount,
    ) {
        for payer in payers {
            let (Ok(reserved), Ok(spent)) = (payer.lines(most), payer.lines(used)) else {
                continue;
            };
            for ((account, _, reserved), (_, _, used)) in reserved.into_iter().zip(spent) {
                said(
                    ask(env, || {
                        ports.limiter.spend(&account, reserved, used, env.now_ms())
                    })
                    .await,
                );
            }
        }
    }

    /// Pauses the jobs that run.
    ///
    /// # Errors
    /// [`PortError`] when the store is away.
    pub async fn pause(
        &self,
        env: &Env,
        ports: &Ports,
        payers: &[Payer],
        reason: PauseReason,
    ) -> Result<(), PortError> {
        for payer in payers {
            let job = &payer.job.job;
            let stands = ask(env, || standing(ports.blobs.as_ref(), job)).await?;
            if stands.is_running() {
                tracing::warn!(%job, ?reason, "a job is paused");
                pause(env, ports, job, reason).await?;
            }
            lock(&self.jobs).remove(job);
        }
        lock(&self.payers).clear();
        Ok(())
    }

    async fn line(
        &self,
        env: &Env,
        ports: &Ports,
        payer: &Payer,
        (account, limit, amount): (&str, u64, u64),
        log: &dyn Ledgered,
    ) -> Result<(), Failure> {
        for _ in 0..REOPENED {
            match ports
                .limiter
                .reserve(account, limit, amount, env.now_ms())
                .await?
            {
                Reserved::Granted => return Ok(()),
                Reserved::Unknown => self.reopen(env, ports, payer, log).await?,
                Reserved::Refused { later: true } => {
                    let message = "what is left of the budget is reserved by calls under way";
                    return Err(Failure::throttled(
                        "budget.reserved",
                        message,
                        UNTIL_SETTLED,
                    ));
                }
                Reserved::Refused { later: false } => {
                    self.pause(env, ports, std::slice::from_ref(payer), PauseReason::Budget)
                        .await?;
                    let message =
                        format!("the next call would exceed the budget of {}", payer.job.job);
                    return Err(Failure::throttled("budget.reached", message, UNTIL_RAISED)
                        .with_next(format!("stemma job resume {} --budget MORE", payer.job.job)));
                }
            }
        }
        Err(Failure::throttled(
            "budget.account_lost",
            "the account of the job is lost again and again",
            UNTIL_SETTLED,
        ))
    }

    /// Opens the accounts of a job with what the log says it has spent.
    async fn reopen(
        &self,
        env: &Env,
        ports: &Ports,
        payer: &Payer,
        log: &dyn Ledgered,
    ) -> Result<(), Failure> {
        let _one = self.opening.lock().await;
        let Amount {
            nanodollars,
            tokens,
        } = log.spent(&payer.job).await?;
        let money = nanodollars.ok_or_else(no_price);
        for (account, ..) in payer.lines(Amount {
            nanodollars: Some(0),
            tokens: 0,
        })? {
            let spent = if account.ends_with(".money") {
                money.clone()?
            } else {
                tokens
            };
            ports
                .limiter
                .open_account(&account, spent, env.now_ms())
                .await?;
        }
        Ok(())
    }

    /// A job and where it stands; `None` where there is no such job.
    async fn job(
        &self,
        env: &Env,
        ports: &Ports,
        job: &JobId,
    ) -> Result<Option<(Arc<Manifest>, Standing)>, Failure> {
        let now = env.now_ms();
        let known = lock(&self.jobs).get(job).cloned();
        let known = match known {
            Some((read_ms, manifest, standing)) if now < read_ms + BELIEVED_MS => {
                return Ok(Some((manifest, standing)));
            }
            Some((_, manifest, _)) => Some(manifest),
            None => ask(env, || manifest(ports.blobs.as_ref(), job))
                .await?
                .map(Arc::new),
        };
        let Some(manifest) = known else {
            return Ok(None);
        };
        let standing = ask(env, || standing(ports.blobs.as_ref(), job)).await?;
        let mut jobs = lock(&self.jobs);
        if jobs.len() >= REMEMBERED {
            jobs.clear();
        }
        jobs.insert(job.clone(), (now, Arc::clone(&manifest), standing));
        Ok(Some((manifest, standing)))
    }
}

/// The jobs that wait for a run; the one that opened it where the ledger knows of none.
async fn waiting_for(env: &Env, ports: &Ports, run: &RunRef) -> Result<Vec<JobId>, Failure> {
    let watchers = ask(env, || ports.ledger.watchers(&run.run)).await?;
    if !watchers.is_empty() {
        return Ok(watchers);
    }
    let header = ask(env, || ports.blobs.get(&run.header)).await?;
    let header = header.and_then(|json| serde_json::from_slice::<RunHeader>(&json).ok());
    Ok(header.map(|header| header.opened_by).into_iter().collect())
}

fn no_price() -> Failure {
    Failure::throttled(
        "budget.no_price",
        "a budget in money needs the model's prices",
        UNTIL_RAISED,
    )
    .with_next("set model.prices.input and model.prices.output on every worker")
}

/// A settlement that is lost leaves the reservation standing: too much counts as spent, never too little.
fn said(result: Result<(), PortError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "a settlement is lost; the reservation stands");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Terms;
    use crate::jobs::{Begun, Submitting, allow, resume};
    use crate::key::Class;

    /// What the log says was spent.
    struct Spent(Mutex<u64>);

    #[async_trait]
    impl Ledgered for Spent {
        async fn spent(&self, _: &Manifest) -> Result<Amount, PortError> {
            Ok(Amount {
                nanodollars: None,
                tokens: *lock(&self.0),
            })
        }
    }

    const CALL: Amount = Amount {
        nanodollars: None,
        tokens: 30,
    };

    async fn world(tokens: u64) -> (Env, Ports, RunRef) {
        let env = Env::simulated(1);
        let ports = Ports::memory();
        let budget = Some(Budget {
            nanodollars: None,
            tokens: Some(tokens),
        });
        let draft = Manifest {
            job: JobId("job".into()),
            collection: "c".into(),
            settings: "s".into(),
            class: Class::Bulk,
            entries: 0,
            submitted_ms: 0,
            terms: Terms {
                budget,
                ..Terms::default()
            },
        };
        let Begun::New(submitting) = Submitting::begin(&env, &ports, draft).await.unwrap() else {
            panic!("known")
        };
        submitting.finish(&env, &ports).await.unwrap();
        let run = RunRef {
            run: RunId("run".into()),
            header: "h".into(),
            scope: "s".into(),
        };
        ports
            .ledger
            .watch(&run.run, &JobId("job".into()))
            .await
            .unwrap();
        (env, ports, run)
    }

    #[tokio::test(start_paused = true)]
    async fn a_budget_is_never_exceeded_and_goes_on_when_it_is_raised() {
        let (env, ports, run) = world(100).await;
        let purses = Purses::default();
        let log = Spent(Mutex::new(0));
        for n in 0..5 {
            let payers = purses.payers(&env, &ports, &run).await.unwrap();
            let reserved = purses.reserve(&env, &ports, &payers, CALL, &log).await;
            assert_eq!(
                reserved.is_ok(),
                n < 4,
                "{n}: 20 used each, and 30 reserved: {reserved:?}"
            );
            if reserved.is_ok() {
                purses
                    .settle(&env, &ports, &payers, CALL, Amount { tokens: 20, ..CALL })
                    .await;
                *lock(&log.0) += 20;
            }
        }
        let job = JobId("job".into());
        let stands = standing(ports.blobs.as_ref(), &job).await.unwrap();
        assert_eq!(
            stands.paused.map(|paused| paused.reason),
            Some(PauseReason::Budget)
        );
        assert_eq!(
            purses.payers(&env, &ports, &run).await.unwrap_err().code,
            "budget.paused"
        );

        // Raised, on another worker, with the shared limits lost: what was spent is known all the same.
        let lost = Ports {
            limiter: Arc::new(crate::limit::MemoryLimiter::default()),
            ..ports.clone()
        };
        allow(
            &env,
            &lost,
            &job,
            Budget {
                nanodollars: None,
                tokens: Some(120),
            },
        )
        .await
        .unwrap();
        resume(&env, &lost, &job).await.unwrap();
        let purses = Purses::default();
        let payers = purses.payers(&env, &lost, &run).await.unwrap();
        purses
            .reserve(&env, &lost, &payers, CALL, &log)
            .await
            .unwrap();
        let failure = purses
            .reserve(&env, &lost, &payers, CALL, &log)
            .await
            .unwrap_err();
        assert_eq!(
            failure.code, "budget.reserved",
            "80 spent, 30 reserved of 120"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn money_needs_a_price() {
        let (env, ports, run) = world(100).await;
        allow(
            &env,
            &ports,
            &JobId("job".into()),
            Budget {
                nanodollars: Some(5),
                tokens: None,
            },
        )
        .await
        .unwrap();
        let purses = Purses::default();
        let payers = purses.payers(&env, &ports, &run).await.unwrap();
        let failure = purses
            .reserve(&env, &ports, &payers, CALL, &Spent(Mutex::new(0)))
            .await
            .unwrap_err();
        assert_eq!(failure.code, "budget.no_price");
    }
}
