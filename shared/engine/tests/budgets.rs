//! Budgets as several processes keep them, behind ports that take their time.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use stemma_engine::blobs::list_all;
use stemma_engine::jobs::{self, BudgetRegistry, JobManifest, JobOptions, PauseReason};
use stemma_engine::key::{RunId, RunRef};
use stemma_engine::ledger::Ledger;
use stemma_engine::{Env, JobId, Ports, Priority};
use stemma_engine_testing::fault::{FaultInjector, FaultPlan, FaultRates};

const SLOW: FaultRates = FaultRates {
    fail_before: 0,
    fail_after: 0,
    delay: 1_000,
    duplicate: 0,
    lose: 0,
    overtaken: 0,
    max_delay: Duration::from_millis(50),
};

async fn slow_job(seed: u64) -> (Env, Ports, JobId, RunRef) {
    let env = Env::simulated(seed);
    let plan = FaultPlan::random(seed, SLOW);
    let ports = FaultInjector::new(env.clone(), plan).wrap(&Ports::memory(&env));
    let job = JobId("job".into());
    let draft = JobManifest {
        job: job.clone(),
        collection: "c".into(),
        settings: "s".into(),
        class: Priority::Bulk,
        entries: 0,
        submitted_ms: env.now_ms(),
        terms: JobOptions::default(),
    };
    jobs::submit(&env, &ports, &draft, &[]).await.unwrap();
    let run = RunRef {
        run: RunId("run".into()),
        header: "h".into(),
        scope: "s".into(),
    };
    ports.ledger.add_watcher(&run.run, &job).await.unwrap();
    (env, ports, job, run)
}

#[tokio::test(start_paused = true)]
async fn processes_that_pause_a_job_together_write_one_record() {
    for seed in 0..20 {
        let (env, ports, job, run) = slow_job(seed).await;
        let one = BudgetRegistry::default();
        let two = BudgetRegistry::default();
        let owners = one.owners(&env, &ports, &run).await.unwrap();
        let prefix = format!("jobs/{job}/control/");
        for records in [1, 3] {
            let pause = async |registry: &BudgetRegistry| {
                registry
                    .pause(&env, &ports, &owners, PauseReason::Credentials)
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
            env.sleep(Duration::from_secs(5)).await;
            jobs::resume(&env, &ports, &job).await.unwrap();
        }
    }
}
