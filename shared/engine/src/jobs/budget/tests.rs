//! Tests of budgets.

use stemma_store::env::Env;
use stemma_store::key::Priority;
use stemma_store::limit::MemoryLimiter;

use super::*;
use crate::jobs::{JobOptions, JobStart, JobWriter, resume, set_budget};

/// A spend log with a fixed total.
struct FixedSpend(Mutex<u64>);

#[async_trait]
impl SpendLog for FixedSpend {
    async fn total_spend(&self, _: &JobManifest, _: SpendMeasure) -> PortResult<SpendAmount> {
        Ok(SpendAmount {
            nanodollars: None,
            tokens: *self.0.lock(),
        })
    }
}

const CALL: SpendAmount = SpendAmount {
    nanodollars: None,
    tokens: 30,
};

fn call(id: u64) -> CallReservation {
    CallReservation {
        id,
        max: CALL,
        timeout: Duration::from_secs(60),
    }
}

async fn setup(tokens: u64) -> (Ports, RunRef) {
    let env = Env::simulated(1);
    let ports = Ports::memory(&env);
    let budget = Some(JobBudget {
        nanodollars: None,
        tokens: Some(tokens),
    });
    let draft = JobManifest {
        job: JobId("job".into()),
        collection: "c".into(),
        settings: "s".into(),
        priority: Priority::Bulk,
        entries: 0,
        submitted_ms: 0,
        options: JobOptions {
            budget,
            ..JobOptions::default()
        },
    };
    let JobStart::New(submitting) = JobWriter::start(&ports, draft).await.unwrap() else {
        panic!("known")
    };
    submitting.finish(&ports).await.unwrap();
    let run = RunRef {
        run: RunId("run".into()),
        header: "h".into(),
        scope: "s".into(),
    };
    ports
        .ledger
        .add_watcher(&run.run, &JobId("job".into()))
        .await
        .unwrap();
    (ports, run)
}

#[tokio::test(start_paused = true)]
async fn parts_of_a_large_job_are_charged_to_the_job_once() {
    let (ports, _) = setup(100).await;
    let run = RunRef {
        run: RunId("divided".into()),
        header: "h".into(),
        scope: "s".into(),
    };
    let job = JobId("job".into());
    for part in 0..2 {
        let part = job.part(part);
        ports.ledger.add_watcher(&run.run, &part).await.unwrap();
    }
    let budgets = BudgetRegistry::default();
    let owners = budgets.owners(&ports, &run).await.unwrap();
    let owners: Vec<&JobId> = owners.iter().map(|owner| &owner.job.job).collect();
    assert_eq!(owners, [&job]);
}

#[tokio::test(start_paused = true)]
async fn exhausted_budget_pauses_job_until_raised() {
    let (ports, run) = setup(100).await;
    let budgets = BudgetRegistry::default();
    let log = Arc::new(FixedSpend(Mutex::new(0)));
    for n in 0..5 {
        let payers = budgets.owners(&ports, &run).await.unwrap();
        let reserved = budgets
            .reserve(&ports, &payers, &call(n), log.clone())
            .await;
        assert_eq!(
            reserved.is_ok(),
            n < 4,
            "{n}: 20 used each, and 30 reserved: {reserved:?}"
        );
        if reserved.is_ok() {
            budgets
                .settle(
                    &ports,
                    &payers,
                    &call(n),
                    SpendAmount { tokens: 20, ..CALL },
                )
                .await;
            *log.0.lock() += 20;
        }
    }
    let job = JobId("job".into());
    let control = load_control(&ports.blobs, &job).await.unwrap();
    assert_eq!(
        control.paused.map(|paused| paused.reason),
        Some(PauseReason::Budget)
    );
    assert_eq!(
        budgets.owners(&ports, &run).await.unwrap_err().code,
        "budget.paused"
    );

    // The budget is raised, and another worker starts with empty limits: the spending is still known.
    let lost = Ports {
        limiter: Arc::new(MemoryLimiter::default()),
        ..ports.clone()
    };
    set_budget(
        &lost,
        &job,
        JobBudget {
            nanodollars: None,
            tokens: Some(120),
        },
    )
    .await
    .unwrap();
    resume(&lost, &job).await.unwrap();
    let budgets = BudgetRegistry::default();
    let payers = budgets.owners(&lost, &run).await.unwrap();
    budgets
        .reserve(&lost, &payers, &call(10), log.clone())
        .await
        .unwrap();
    let failure = budgets
        .reserve(&lost, &payers, &call(11), log.clone())
        .await
        .unwrap_err();
    assert_eq!(
        failure.code, "budget.reserved",
        "80 spent, 30 reserved of 120"
    );
}

#[tokio::test(start_paused = true)]
async fn money_budget_without_price_is_refused() {
    let (ports, run) = setup(100).await;
    set_budget(
        &ports,
        &JobId("job".into()),
        JobBudget {
            nanodollars: Some(5),
            tokens: None,
        },
    )
    .await
    .unwrap();
    let budgets = BudgetRegistry::default();
    let payers = budgets.owners(&ports, &run).await.unwrap();
    let failure = budgets
        .reserve(
            &ports,
            &payers,
            &call(1),
            Arc::new(FixedSpend(Mutex::new(0))),
        )
        .await
        .unwrap_err();
    assert_eq!(failure.code, "budget.no_price");
}

#[tokio::test(start_paused = true)]
async fn calls_that_never_settle_give_back_their_reservations() {
    let (ports, run) = setup(100).await;
    let budgets = BudgetRegistry::default();
    let log = Arc::new(FixedSpend(Mutex::new(0)));
    let payers = budgets.owners(&ports, &run).await.unwrap();
    for id in 0..3 {
        // Its worker is killed during the call.
        budgets
            .reserve(&ports, &payers, &call(id), log.clone())
            .await
            .unwrap();
    }
    let waits = budgets
        .reserve(&ports, &payers, &call(3), log.clone())
        .await
        .unwrap_err();
    assert_eq!(waits.code, "budget.reserved");
    ports.env.sleep(Duration::from_secs(3_600)).await;
    for id in 4..7 {
        budgets
            .reserve(&ports, &payers, &call(id), log.clone())
            .await
            .unwrap();
    }
    let control = load_control(&ports.blobs, &JobId("job".into()))
        .await
        .unwrap();
    assert!(control.is_running(), "nothing was spent: {control:?}");
}

#[tokio::test(start_paused = true)]
async fn settlement_after_a_loss_keeps_the_reservations_of_others() {
    let (ports, run) = setup(100).await;
    let budgets = BudgetRegistry::default();
    let log = Arc::new(FixedSpend(Mutex::new(0)));
    let payers = budgets.owners(&ports, &run).await.unwrap();
    budgets
        .reserve(&ports, &payers, &call(1), log.clone())
        .await
        .unwrap();
    // The limiter loses everything while the first call is in flight.
    let lost = Ports {
        limiter: Arc::new(MemoryLimiter::default()),
        ..ports
    };
    for id in 2..5 {
        budgets
            .reserve(&lost, &payers, &call(id), log.clone())
            .await
            .unwrap();
    }
    let used = SpendAmount { tokens: 10, ..CALL };
    budgets.settle(&lost, &payers, &call(1), used).await;
    let failure = budgets
        .reserve(&lost, &payers, &call(5), log.clone())
        .await
        .unwrap_err();
    assert_eq!(
        failure.code, "budget.reserved",
        "10 are spent, and three calls still hold 90"
    );
}

/// A spend log that takes ten minutes to read, and counts how often it is read.
struct SlowSpend(Env, Mutex<u32>);

#[async_trait]
impl SpendLog for SlowSpend {
    async fn total_spend(&self, _: &JobManifest, _: SpendMeasure) -> PortResult<SpendAmount> {
        *self.1.lock() += 1;
        self.0.sleep(Duration::from_secs(600)).await;
        Ok(SpendAmount {
            nanodollars: None,
            tokens: 40,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn lost_account_is_rebuilt_while_tasks_wait_for_it() {
    let (ports, run) = setup(100).await;
    let budgets = BudgetRegistry::default();
    let log = Arc::new(SlowSpend(ports.env.clone(), Mutex::new(0)));
    let payers = budgets.owners(&ports, &run).await.unwrap();
    let start_ms = ports.env.now_ms();
    for id in 0..8 {
        let failure = budgets
            .reserve(&ports, &payers, &call(id), log.clone())
            .await
            .unwrap_err();
        assert_eq!(failure.code, "budget.account_lost");
    }
    let waited_ms = ports.env.now_ms() - start_ms;
    assert!(waited_ms <= 8 * 2_000, "{waited_ms} ms for eight tasks");
    ports.env.sleep(Duration::from_secs(600)).await;
    for id in 8..10 {
        budgets
            .reserve(&ports, &payers, &call(id), log.clone())
            .await
            .unwrap();
    }
    assert_eq!(*log.1.lock(), 1, "the log is read once");
}

/// A spend log: calls for 90 tokens end while it is read for the first time, and then the limiter loses everything.
struct LossDuringRead {
    limiter: Arc<MemoryLimiter>,
    reads: Mutex<u32>,
}

#[async_trait]
impl SpendLog for LossDuringRead {
    async fn total_spend(&self, _: &JobManifest, _: SpendMeasure) -> PortResult<SpendAmount> {
        let mut reads = self.reads.lock();
        *reads += 1;
        let tokens = if *reads == 1 { 0 } else { 90 };
        if *reads == 1 {
            self.limiter.flush();
        }
        Ok(SpendAmount {
            nanodollars: None,
            tokens,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn account_lost_while_the_log_is_read_is_rebuilt_from_a_new_reading() {
    let (ports, run) = setup(100).await;
    let budgets = BudgetRegistry::default();
    let limiter = Arc::new(MemoryLimiter::default());
    let ports = Ports {
        limiter: limiter.clone(),
        ..ports
    };
    let log = Arc::new(LossDuringRead {
        limiter,
        reads: Mutex::new(0),
    });
    let payers = budgets.owners(&ports, &run).await.unwrap();
    let failure = budgets
        .reserve(&ports, &payers, &call(1), log.clone())
        .await
        .unwrap_err();
    assert_eq!(failure.code, "budget.reached", "90 of 100 are spent");
    assert_eq!(*log.reads.lock(), 2);
}
