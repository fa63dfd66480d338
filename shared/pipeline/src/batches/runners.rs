//! Runs the batches of all models, and charges them to jobs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use stemma_engine::Ports;
use stemma_engine::jobs::{BudgetOwner, PauseReason};
use stemma_llm::prices::CallBudget;
use stemma_store::spend::{CallReservation, SpendAmount};
use stemma_store::{Failure, JobId, RunRef};
use tokio_util::sync::CancellationToken;

use super::{BatchPayer, BatchRunner, BatchSettings};
use crate::WorkerDeps;
use crate::llm::TaskCallLog;

/// Runs the batches of all models of a worker until `stop`; a step that has begun may take `grace` more. `process` is the
/// name in leases.
pub async fn run_batches(
    ports: &Ports,
    deps: &Arc<WorkerDeps>,
    settings: BatchSettings,
    process: &str,
    stop: &CancellationToken,
    grace: Duration,
) {
    let payer = Arc::new(JobPayer {
        ports: ports.clone(),
        deps: Arc::clone(deps),
    });
    let runners = deps.models.values().map(|client| {
        let runner = BatchRunner {
            ports: ports.clone(),
            client: Arc::clone(client),
            payer: Arc::<JobPayer>::clone(&payer),
            settings,
            process: process.into(),
        };
        runner.run(stop.clone(), grace)
    });
    join_all(runners).await;
}

// Charges batches to the jobs that wait for their runs.
struct JobPayer {
    ports: Ports,
    deps: Arc<WorkerDeps>,
}

impl JobPayer {
    // What was spent is charged even if the jobs are paused by now.
    async fn payers(&self, run: &RunRef) -> Result<Vec<BudgetOwner>, Failure> {
        let budgets = &self.deps.budgets;
        budgets.payers(&self.ports, run).await
    }
}

#[async_trait]
impl BatchPayer for JobPayer {
    async fn reserve(&self, run: &RunRef, request: &CallReservation) -> Result<(), Failure> {
        let log = TaskCallLog::for_run(&self.ports, &self.deps, run);
        log.reserve(request).await
    }

    async fn settle(&self, run: &RunRef, request: &CallReservation, used: SpendAmount) {
        let payers = match self.payers(run).await {
            Ok(payers) => payers,
            // The reservation expires, and an account that is opened again counts the call from the log.
            Err(failure) => {
                tracing::warn!(run = %run.run, %failure, "cannot charge a batch to its jobs");
                return;
            }
        };
        let budgets = &self.deps.budgets;
        budgets.settle(&self.ports, &payers, request, used).await;
    }

    async fn jobs(&self, run: &RunRef) -> Result<Vec<JobId>, Failure> {
        let payers = self.payers(run).await?;
        Ok(payers.iter().map(|payer| payer.job.job.clone()).collect())
    }

    async fn pause(&self, run: &RunRef) {
        let reason = PauseReason::Credentials;
        let budgets = &self.deps.budgets;
        let paused = async {
            let payers = self.payers(run).await?;
            let paused = budgets.pause(&self.ports, &payers, reason).await;
            paused.map_err(Failure::from)
        };
        if let Err(failure) = paused.await {
            tracing::warn!(run = %run.run, %failure, "cannot pause jobs whose batches are refused");
        }
    }
}
