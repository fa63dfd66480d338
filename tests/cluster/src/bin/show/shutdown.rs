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
/// How long a job may take.
const LIMIT: Duration = Duration::from_secs(400);
/// What a process may take from SIGTERM to its end: its grace, and a little for connections to be closed.
const GRACE: Duration = Duration::from_secs(15);
const ALL: [(ServiceRole, &[&str]); 6] = [
    (ServiceRole::Coordinator, &[]),
    (ServiceRole::Coordinator, &[]),
    (ServiceRole::Worker, &[]),
    (ServiceRole::Worker, &[]),
    (ServiceRole::Assembler, &[]),
    (ServiceRole::Assembler, &[]),
];

/// A job under way on two processes of each role.
struct LoadedCluster {
    provider: Provider,
    site: Deployment,
    job: String,
    _filings: tempfile::TempDir,
}

impl LoadedCluster {
    async fn start(harness: &DemoHarness, documents: u64, latency: Duration) -> Result<Self> {
        let provider = Provider::start(Behavior::with_latency(latency)).await?;
        let mut site = harness.deploy(&provider, &[("MODEL__CONCURRENCY", "6")])?;
        site.start(&ALL).await?;
        let filings = tempfile::tempdir()?;
        documents::write(filings.path(), documents, 8, 1)?;
        let job = site.submit(filings.path(), &[]).await?;
        Ok(Self {
            provider,
            site,
            job,
            _filings: filings,
        })
    }

    async fn wait_until_busy(&self) -> Result<()> {
        let started = Instant::now();
        while self.provider.in_flight() < 6 {
            anyhow::ensure!(started.elapsed() < TIMEOUT, "the load does not come up");
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// How often each request is made when nobody leaves: two documents may have a page in common.
    async fn baseline(
        harness: &DemoHarness,
        documents: u64,
    ) -> Result<HashMap<blake3::Hash, usize>> {
        let load = Self::start(harness, documents, Duration::ZERO).await?;
        load.site.wait_for_end(&load.job, LIMIT).await?;
        Ok(calls_per_digest(&load.provider.requests()))
    }

    /// Waits for the end of the job; whether nothing was lost, and nothing asked more often than in the quiet run.
    async fn finish(
        mut self,
        mut fine: bool,
        needed: &HashMap<blake3::Hash, usize>,
    ) -> Result<bool> {
        let status = self.site.wait_for_end(&self.job, LIMIT).await?;
        let asks = self.provider.requests();
        let summary = CallSummary::from_requests(&asks, &[], needed);
        let unfinished = asks.iter().filter(|ask| ask.delivered.is_none()).count();
        println!("job: {} {}", status["state"], status["counts"]);
        println!(
            "{} requests, {} different, {} in the quiet run; {} asked again that had been answered, {unfinished} cut off",
            summary.requests,
            summary.digests,
            needed.values().sum::<usize>(),
            summary.repeated
        );
        for fallen in self.site.fleet.take_ended()? {
            println!("WRONG {fallen}");
            fine = false;
        }
        let lost = status["counts"]["failed"].as_u64() != Some(0) || status["state"] != "finished";
        Ok(fine && !lost && summary.repeated == 0)
    }
}

/// One process of each role gets SIGTERM under load, one gets it twice.
pub async fn sigterm(harness: &DemoHarness) -> Result<bool> {
    let needed = LoadedCluster::baseline(harness, 16).await?;
    let mut load = LoadedCluster::start(harness, 16, LATENCY).await?;
    let mut fine = true;
    for role in [
        ServiceRole::Worker,
        ServiceRole::Coordinator,
        ServiceRole::Assembler,
    ] {
        load.wait_until_busy().await?;
        let name = load.site.fleet.running(role).remove(0);
        let started = Instant::now();
        let status = load.site.fleet.terminate(&name, GRACE).await?;
        println!("{name}: {status} {:.1?} after SIGTERM", started.elapsed());
        fine &= status.success();
        load.site.start(&[(role, &[])]).await?;
    }
    let fine = double_sigterm(harness).await? && fine;
    load.finish(fine, &needed).await
}

/// A worker whose call takes longer than its grace: the second signal ends it at once.
async fn double_sigterm(harness: &DemoHarness) -> Result<bool> {
    let provider = Provider::start(Behavior::hanging()).await?;
    let mut site = harness.deploy(&provider, &[])?;
    let names = site.start(&[ALL[0], ALL[2]]).await?;
    let filings = tempfile::tempdir()?;
    documents::write(filings.path(), 1, 4, 9)?;
    site.submit(filings.path(), &[]).await?;
    let started = Instant::now();
    while provider.in_flight() == 0 {
        anyhow::ensure!(started.elapsed() < TIMEOUT, "nothing is asked");
        sleep(Duration::from_millis(20)).await;
    }
    let worker = names.last().context("a worker")?;
    site.fleet.signal(worker)?;
    sleep(Duration::from_secs(1)).await;
    let started = Instant::now();
    let status = site.fleet.terminate(worker, GRACE).await?;
    let took = started.elapsed();
    println!("{worker}: {status} {took:.1?} after a second SIGTERM");
    Ok(took < Duration::from_secs(1))
}

/// Every process is ended and replaced, one after the other, while a job runs.
pub async fn rolling_restart(harness: &DemoHarness) -> Result<bool> {
    let needed = LoadedCluster::baseline(harness, 24).await?;
    let mut load = LoadedCluster::start(harness, 24, LATENCY).await?;
    let mut fine = true;
    load.wait_until_busy().await?;
    for role in [
        ServiceRole::Coordinator,
        ServiceRole::Worker,
        ServiceRole::Assembler,
    ] {
        for name in load.site.fleet.running(role) {
            load.site.start(&[(role, &[])]).await?;
            let in_flight = load.provider.in_flight();
            let started = Instant::now();
            let status = load.site.fleet.terminate(&name, GRACE).await?;
            println!(
                "{name}: {status} {:.1?} after SIGTERM, {in_flight} calls in flight",
                started.elapsed()
            );
            fine &= status.success();
        }
    }
    load.finish(fine, &needed).await
}
