//! A document that someone waits for, beside bulk work that uses up the limit.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;
use stemma_cluster::asked::busiest;
use stemma_cluster::{Role, documents};
use stemma_filings::{Kind, Spec, generate};
use stemma_sim::{Behavior, Provider};
use tokio::time::sleep;

use crate::ground::{Ground, PATIENCE, Site};

const LATENCY: Duration = Duration::from_millis(300);
const PAGES: u32 = 30;
/// How much longer it may take than alone.
const LONGER: f64 = 2.0;
const SETTINGS: &[(&str, &str)] = &[
    ("MODEL__REQUESTS_PER_MINUTE", "600"),
    ("MODEL__CONCURRENCY", "12"),
];
const SERVICES: [(Role, &[&str]); 4] = [
    (Role::Coordinator, &[]),
    (Role::Worker, &[]),
    (Role::Worker, &[]),
    (Role::Assembler, &[]),
];

/// Times the document alone, then beside bulk.
pub async fn show(ground: &Ground) -> Result<bool> {
    let behavior = Behavior::after(LATENCY);
    let provider = Provider::start(behavior.clone()).await?;
    let mut site = ground.site(&provider, SETTINGS)?;
    site.start(&SERVICES).await?;
    let alone = one(&site).await?;
    let calls = provider.asks().len();
    drop(site);

    let provider = Provider::start(behavior).await?;
    let mut site = ground.site(&provider, SETTINGS)?;
    site.start(&SERVICES).await?;
    let bulk = tempfile::tempdir()?;
    documents::write(bulk.path(), 40, 20, 1)?;
    site.submit(bulk.path(), &[]).await?;
    let begun = Instant::now();
    // The burst is over when a minute's worth was asked.
    while provider.asks().len() < 300 {
        anyhow::ensure!(
            begun.elapsed() < 2 * PATIENCE,
            "bulk asked {} times only",
            provider.asks().len()
        );
        sleep(Duration::from_millis(100)).await;
    }
    let before = (provider.asks().len(), Instant::now());
    let beside = one(&site).await?;
    let asks = provider.asks();
    let rate = (asks.len() - before.0) as f64 / before.1.elapsed().as_secs_f64() * 60.0;
    println!(
        "alone {alone:.1?} for {calls} calls; beside bulk {beside:.1?}, {rate:.0} calls a minute of all"
    );
    println!(
        "busiest minute: {} calls",
        busiest(&asks, Duration::from_secs(60))
    );
    Ok(beside.as_secs_f64() <= LONGER * alone.as_secs_f64())
}

/// Submits the document as one that someone waits for, and waits.
async fn one(site: &Site) -> Result<Duration> {
    let folder = tempfile::tempdir()?;
    fs::write(
        folder.path().join("waited-for.pdf"),
        generate(&Spec {
            pages: PAGES,
            ..Spec::of(Kind::ALL[0], 77)
        })
        .pdf,
    )?;
    let job = site.submit(folder.path(), &["--interactive"]).await?;
    let status = site.ended(&job, 2 * PATIENCE).await?;
    let millis = |name: &str| status[name].as_u64().unwrap_or(0);
    anyhow::ensure!(status["counts"]["failed"] == 0, "it failed: {status}");
    Ok(Duration::from_millis(
        millis("ended_ms").saturating_sub(millis("submitted_ms")),
    ))
}
