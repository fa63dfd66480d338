//! Budgets as several processes keep them, behind ports that take their time.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stemma_engine::Ports;
use stemma_engine::jobs::{self, BudgetRegistry, JobManifest, JobOptions, PauseReason, SpendLog};
use stemma_engine::ledger::Ledger;
use stemma_engine_testing::fault::{FaultInjector, FaultPlan, FaultRates, Outage};
use stemma_store::blobs::list_all;
use stemma_store::key::{RunId, RunRef};
use stemma_store::port_error::PortResult;
use stemma_store::spend::{CallReservation, JobBudget, SpendAmount, SpendMeasure};
use stemma_store::{Env, JobId, Priority};

const SLOW: FaultRates = FaultRates {
    fail_before: 0,
    fail_after: 0,
    delay: 1_000,
    duplicate: 0,
    lose: 0,
    overtaken: 0,
    max_delay: Duration::from_millis(50),
};

async fn slow_job(seed: u64, options: JobOptions) -> (Ports, JobId, RunRef) {
    job_behind(FaultPlan::random(seed, SLOW), options).await
}

async fn job_behind(plan: FaultPlan, options: JobOptions) -> (Ports, JobId, RunRef) {
    let env = Env::simulated(plan.seed);
    let ports = FaultInjector::new(env.clone(), plan).wrap(&Ports::memory(&env));
    let job = JobId("job".into());
    let draft = JobManifest {
        job: job.clone(),
        collection: "c".into(),
        settings: "s".into(),
        priority: Priority::Bulk,
        entries: 0,
        submitted_ms: env.now_ms(),
        options,
    };
    jobs::submit(&ports, &draft, &[]).await.unwrap();
    let run = RunRef {
        run: RunId("run".into()),
        header: "h".into(),
        scope: "s".into(),
    };
    ports.ledger.add_watcher(&run.run, &job).await.unwrap();
    (ports, job, run)
}

#[tokio::test(start_paused = true)]
async fn processes_that_pause_a_job_together_write_one_record() {
    for seed in 0..20 {
        let (ports, job, run) = slow_job(seed, JobOptions::default()).await;
        let one = BudgetRegistry::default();
        let two = BudgetRegistry::default();
        let owners = one.owners(&ports, &run).await.unwrap();
        let prefix = format!("jobs/{job}/control/");
        for records in [1, 3] {
            let pause = async |registry: &BudgetRegistry| {
                registry
                    .pause(&ports, &owners, PauseReason::Credentials)
                    .await
            };
            let (a, b, c) = tokio::join!(pause(&one), pause(&one), pause(&two));
            assert!(a.is_ok() && b.is_ok() && c.is_ok());
            let written = list_all(&ports.blobs, &prefix).await.unwrap();
            assert_eq!(written.len(), records, "seed {seed}: {written:?}");
            assert!(
                !jobs::load_control(&ports.blobs, &job)
                    .await
                    .unwrap()
                    .is_running()
            );
            ports.env.sleep(Duration::from_secs(5)).await;
            jobs::resume(&ports, &job).await.unwrap();
        }
    }
}

struct NothingSpent;

#[async_trait]
impl SpendLog for NothingSpent {
    async fn total_spend(&self, _: &JobManifest, _: SpendMeasure) -> PortResult<SpendAmount> {
        Ok(tokens(0))
    }
}

fn tokens(tokens: u64) -> SpendAmount {
    SpendAmount {
        nanodollars: None,
        tokens,
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_call_cost_counts_after_an_outage_of_the_limiter() {
    let plan = FaultPlan {
        outages: vec![Outage {
            operations: "limiter.settle",
            during: 0..120_000,
            transient: true,
        }],
        ..FaultPlan::default()
    };
    let options = JobOptions {
        budget: Some(JobBudget {
            nanodollars: None,
            tokens: Some(100),
        }),
        ..JobOptions::default()
    };
    let (ports, _, run) = job_behind(plan, options).await;
    let budgets = BudgetRegistry::default();
    let owners = budgets.owners(&ports, &run).await.unwrap();
    let call = |id| CallReservation {
        id,
        max: tokens(60),
        timeout: Duration::from_secs(60),
    };
    let log = Arc::new(NothingSpent);
    let reserve = async |id| {
        budgets
            .reserve(&ports, &owners, &call(id), log.clone())
            .await
    };
    reserve(1).await.unwrap();
    let is_settled = budgets.settle(&ports, &owners, &call(1), tokens(60)).await;
    assert!(!is_settled);
    // The reservation has expired by then.
    ports.env.sleep(Duration::from_secs(125)).await;
    assert_eq!(reserve(2).await.unwrap_err().code, "budget.reached");
}

// A worker meets the old budget while its owner raises it: before, during, and after the change.
#[tokio::test(start_paused = true)]
async fn a_job_is_not_paused_for_a_budget_that_was_raised() {
    let budget = |tokens| JobBudget {
        nanodollars: None,
        tokens: Some(tokens),
    };
    let mut changed = 0;
    let mut reached = 0;
    for seed in 0..200 {
        let options = JobOptions {
            budget: Some(budget(100)),
            ..JobOptions::default()
        };
        let (ports, job, run) = slow_job(seed, options).await;
        let worker = BudgetRegistry::default();
        let owners = worker.owners(&ports, &run).await.unwrap();
        let call = |id, amount| CallReservation {
            id,
            max: tokens(amount),
            timeout: Duration::from_secs(60),
        };
        let reserve = async |id, amount| {
            let call = call(id, amount);
            let log = Arc::new(NothingSpent);
            let owners = worker.owners(&ports, &run).await?;
            worker.reserve(&ports, &owners, &call, log).await
        };
        reserve(1, 80).await.unwrap();
        worker
            .settle(&ports, &owners, &call(1, 80), tokens(80))
            .await;
        let raise = async {
            ports.env.sleep(Duration::from_millis(seed)).await;
            jobs::set_budget(&ports, &job, budget(500)).await.unwrap();
            jobs::resume(&ports, &job).await.unwrap();
        };
        let (reserved, ()) = tokio::join!(reserve(2, 30), raise);
        let control = jobs::load_control(&ports.blobs, &job).await.unwrap();
        assert!(control.is_running(), "seed {seed}: {control:?}");
        let failure = reserved.unwrap_err();
        if failure.code == "budget.changed" {
            changed += 1;
            reserve(3, 30).await.unwrap();
        } else {
            assert_eq!(failure.code, "budget.reached", "seed {seed}");
            reached += 1;
        }
    }
    assert!(changed > 0 && reached > 0, "{changed} and {reached}");
}
