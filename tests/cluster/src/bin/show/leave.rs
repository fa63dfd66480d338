//! Leaving in good order: SIGTERM under load, and everything started anew one after the other.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use stemma_cluster::asked::{Asked, counts};
use stemma_cluster::{Role, documents};
use stemma_sim::{Behavior, Provider};
use tokio::time::sleep;

use crate::ground::{Ground, PATIENCE, Site};

const LATENCY: Duration = Duration::from_millis(300);
/// How long a job may take.
const LIMIT: Duration = Duration::from_secs(400);
/// What a process may take from SIGTERM to its end: its grace, and a little for connections to be closed.
const GRACE: Duration = Duration::from_secs(15);
const ALL: [(Role, &[&str]); 6] = [
    (Role::Coordinator, &[]),
    (Role::Coordinator, &[]),
    (Role::Worker, &[]),
    (Role::Worker, &[]),
    (Role::Assembler, &[]),
    (Role::Assembler, &[]),
];

/// A job under way on two processes of each role.
struct Load {
    provider: Provider,
    site: Site,
    job: String,
    _filings: tempfile::TempDir,
}

impl Load {
    async fn begin(ground: &Ground, documents: u64, latency: Duration) -> Result<Self> {
        let provider = Provider::start(Behavior::after(latency)).await?;
        let mut site = ground.site(&provider, &[("MODEL__CONCURRENCY", "6")])?;
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

    async fn busy(&self) -> Result<()> {
        let begun = Instant::now();
        while self.provider.in_flight() < 6 {
            anyhow::ensure!(begun.elapsed() < PATIENCE, "the load does not come up");
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// How often each request is made when nobody leaves: two documents may have a page in common.
    async fn quiet(ground: &Ground, documents: u64) -> Result<HashMap<blake3::Hash, usize>> {
        let load = Self::begin(ground, documents, Duration::ZERO).await?;
        load.site.ended(&load.job, LIMIT).await?;
        Ok(counts(&load.provider.asks()))
    }

    /// Waits for the end of the job; whether nothing was lost, and nothing asked more often than in the quiet run.
    async fn judge(
        mut self,
        mut fine: bool,
        needed: &HashMap<blake3::Hash, usize>,
    ) -> Result<bool> {
        let status = self.site.ended(&self.job, LIMIT).await?;
        let asks = self.provider.asks();
        let asked = Asked::judge(&asks, &[], needed);
        let unfinished = asks.iter().filter(|ask| ask.delivered.is_none()).count();
        println!("job: {} {}", status["state"], status["counts"]);
        println!(
            "{} requests, {} different, {} in the quiet run; {} asked again that had been answered, {unfinished} cut off",
            asked.requests,
            asked.digests,
            needed.values().sum::<usize>(),
            asked.again
        );
        for fallen in self.site.fleet.ended()? {
            println!("WRONG {fallen}");
            fine = false;
        }
        let lost = status["counts"]["failed"].as_u64() != Some(0) || status["state"] != "finished";
        Ok(fine && !lost && asked.again == 0)
    }
}

/// One process of each role gets SIGTERM under load, one gets it twice.
pub async fn sigterm(ground: &Ground) -> Result<bool> {
    let needed = Load::quiet(ground, 16).await?;
    let mut load = Load::begin(ground, 16, LATENCY).await?;
    let mut fine = true;
    for role in [Role::Worker, Role::Coordinator, Role::Assembler] {
        load.busy().await?;
        let name = load.site.fleet.running(role).remove(0);
        let begun = Instant::now();
        let status = load.site.fleet.terminate(&name, GRACE).await?;
        println!("{name}: {status} {:.1?} after SIGTERM", begun.elapsed());
        fine &= status.success();
        load.site.start(&[(role, &[])]).await?;
    }
    let fine = twice(ground).await? && fine;
    load.judge(fine, &needed).await
}

/// A worker whose call takes longer than its grace: the second signal ends it at once.
async fn twice(ground: &Ground) -> Result<bool> {
    let provider = Provider::start(Behavior::hanging()).await?;
    let mut site = ground.site(&provider, &[])?;
    let names = site.start(&[ALL[0], ALL[2]]).await?;
    let filings = tempfile::tempdir()?;
    documents::write(filings.path(), 1, 4, 9)?;
    site.submit(filings.path(), &[]).await?;
    let begun = Instant::now();
    while provider.in_flight() == 0 {
        anyhow::ensure!(begun.elapsed() < PATIENCE, "nothing is asked");
        sleep(Duration::from_millis(20)).await;
    }
    let worker = names.last().context("a worker")?;
    site.fleet.signal(worker)?;
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    let status = site.fleet.terminate(worker, GRACE).await?;
    let took = begun.elapsed();
    println!("{worker}: {status} {took:.1?} after a second SIGTERM");
    Ok(took < Duration::from_secs(1))
}

/// Every process is ended and replaced, one after the other, while a job runs.
pub async fn rolling(ground: &Ground) -> Result<bool> {
    let needed = Load::quiet(ground, 24).await?;
    let mut load = Load::begin(ground, 24, LATENCY).await?;
    let mut fine = true;
    load.busy().await?;
    for role in [Role::Coordinator, Role::Worker, Role::Assembler] {
        for name in load.site.fleet.running(role) {
            load.site.start(&[(role, &[])]).await?;
            let in_flight = load.provider.in_flight();
            let begun = Instant::now();
            let status = load.site.fleet.terminate(&name, GRACE).await?;
            println!(
                "{name}: {status} {:.1?} after SIGTERM, {in_flight} calls in flight",
                begun.elapsed()
            );
            fine &= status.success();
        }
    }
    load.judge(fine, &needed).await
}
