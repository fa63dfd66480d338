//! Graceful shutdown: SIGTERM under load, and a rolling restart.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use stemma_cluster::duplicate_calls::{CallSummary, calls_per_digest};
use stemma_cluster::{ServiceRole, documents};
use stemma_sim::{Behavior, Provider};
use tokio::time::sleep;

use crate::harness::{DemoHarness, Deployment, TIMEOUT};

const LATENCY: Duration = Duration::from_millis(300);
/// Time limit of a job.
const LIMIT: Duration = Duration::from_secs(400);
/// Time limit from SIGTERM to exit: the grace period, and some time to close connections.
const GRACE: Duration = Duration::from_secs(15);
const ALL: [(ServiceRole, &[&str]); 6] = [
    (ServiceRole::Coordinator, &[]),
    (ServiceRole::Coordinator, &[]),
    (ServiceRole::Worker, &[]),
    (ServiceRole::Worker, &[]),
    (ServiceRole::Assembler, &[]),
    (ServiceRole::Assembler, &[]),
];

/// A running job on two processes of each role.
struct LoadedCluster {
    provider: Provider,
    deployment: Deployment,
    job: String,
    _filings: tempfile::TempDir,
}

impl LoadedCluster {
    async fn start(harness: &DemoHarness, documents: u64, latency: Duration) -> Result<Self> {
        let provider = Provider::start(Behavior::with_latency(latency)).await?;
        let mut deployment = harness.deploy(&provider, &[("MODEL__CONCURRENCY", "6")])?;
        deployment.start(&ALL).await?;
        let filings = tempfile::tempdir()?;
        documents::write(filings.path(), documents, 8, 1)?;
        let job = deployment.submit(filings.path(), &[]).await?;
        Ok(Self {
            provider,
            deployment,
            job,
            _filings: filings,
        })
    }

    async fn wait_until_busy(&self) -> Result<()> {
        let started = Instant::now();
        while self.provider.in_flight() < 6 {
            anyhow::ensure!(
                started.elapsed() < TIMEOUT,
                "the load did not start in time"
            );
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Requests by digest in a run without shutdowns. Two documents may share a page.
    async fn baseline(
        harness: &DemoHarness,
        documents: u64,
    ) -> Result<HashMap<blake3::Hash, usize>> {
        let load = Self::start(harness, documents, Duration::ZERO).await?;
        load.deployment.wait_for_end(&load.job, LIMIT).await?;
        Ok(calls_per_digest(&load.provider.requests()))
    }

    /// Waits for the end of the job. Returns whether no tree is missing and no request was repeated.
    async fn finish(
        mut self,
        mut passed: bool,
        needed: &HashMap<blake3::Hash, usize>,
    ) -> Result<bool> {
        let status = self.deployment.wait_for_end(&self.job, LIMIT).await?;
        let requests = self.provider.requests();
        let summary = CallSummary::from_requests(&requests, &[], needed);
        let unfinished = requests
            .iter()
            .filter(|request| request.delivered.is_none())
            .count();
        println!("job: {} {}", status["state"], status["counts"]);
        println!(
            "{} requests, {} distinct, {} in a run without shutdowns; {} delivered replies were requested again, {unfinished} unfinished",
            summary.requests,
            summary.digests,
            needed.values().sum::<usize>(),
            summary.repeated
        );
        for crashed in self.deployment.fleet.take_ended()? {
            println!("WRONG {crashed}");
            passed = false;
        }
        let lost = status["counts"]["failed"].as_u64() != Some(0) || status["state"] != "finished";
        Ok(passed && !lost && summary.repeated == 0)
    }
}

/// One process of each role gets SIGTERM under load; one worker gets it twice.
pub async fn sigterm(harness: &DemoHarness) -> Result<bool> {
    let needed = LoadedCluster::baseline(harness, 16).await?;
    let mut load = LoadedCluster::start(harness, 16, LATENCY).await?;
    let mut passed = true;
    for role in [
        ServiceRole::Worker,
        ServiceRole::Coordinator,
        ServiceRole::Assembler,
    ] {
        load.wait_until_busy().await?;
        let name = load.deployment.fleet.running(role).remove(0);
        let started = Instant::now();
        let status = load.deployment.fleet.terminate(&name, GRACE).await?;
        println!("{name}: {status} {:.1?} after SIGTERM", started.elapsed());
        passed &= status.success();
        load.deployment.start(&[(role, &[])]).await?;
    }
    let passed = double_sigterm(harness).await? && passed;
    load.finish(passed, &needed).await
}

/// A worker whose call takes longer than its grace period: the second signal ends it at once.
async fn double_sigterm(harness: &DemoHarness) -> Result<bool> {
    let provider = Provider::start(Behavior::hanging()).await?;
    let mut deployment = harness.deploy(&provider, &[])?;
    let names = deployment.start(&[ALL[0], ALL[2]]).await?;
    let filings = tempfile::tempdir()?;
    documents::write(filings.path(), 1, 4, 9)?;
    deployment.submit(filings.path(), &[]).await?;
    let started = Instant::now();
    while provider.in_flight() == 0 {
        anyhow::ensure!(started.elapsed() < TIMEOUT, "no model call was made");
        sleep(Duration::from_millis(20)).await;
    }
    let worker = names.last().context("a worker")?;
    deployment.fleet.signal(worker)?;
    sleep(Duration::from_secs(1)).await;
    let started = Instant::now();
    let status = deployment.fleet.terminate(worker, GRACE).await?;
    let took = started.elapsed();
    println!("{worker}: {status} {took:.1?} after a second SIGTERM");
    Ok(took < Duration::from_secs(1))
}

/// Replaces every process, one after the other, while a job runs.
pub async fn rolling_restart(harness: &DemoHarness) -> Result<bool> {
    let needed = LoadedCluster::baseline(harness, 24).await?;
    let mut load = LoadedCluster::start(harness, 24, LATENCY).await?;
    let mut passed = true;
    load.wait_until_busy().await?;
    for role in [
        ServiceRole::Coordinator,
        ServiceRole::Worker,
        ServiceRole::Assembler,
    ] {
        for name in load.deployment.fleet.running(role) {
            load.deployment.start(&[(role, &[])]).await?;
            let in_flight = load.provider.in_flight();
            let started = Instant::now();
            let status = load.deployment.fleet.terminate(&name, GRACE).await?;
            println!(
                "{name}: {status} {:.1?} after SIGTERM, {in_flight} calls in flight",
                started.elapsed()
            );
            passed &= status.success();
        }
    }
    load.finish(passed, &needed).await
}
