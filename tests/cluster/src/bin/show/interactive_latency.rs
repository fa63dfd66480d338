//! Latency of an interactive document beside bulk work that uses up the rate limit.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;
use stemma_cluster::duplicate_calls::peak_in_window;
use stemma_cluster::{ServiceRole, documents};
use stemma_filings::{FilingKind, Spec, generate};
use stemma_sim::{Behavior, Provider};
use tokio::time::sleep;

use crate::harness::{DemoHarness, Deployment, TIMEOUT};

const LATENCY: Duration = Duration::from_millis(300);
const PAGES: u32 = 30;
/// How much longer it may take than alone.
const MAX_SLOWDOWN: f64 = 2.0;
const SETTINGS: &[(&str, &str)] = &[
    ("MODEL__REQUESTS_PER_MINUTE", "600"),
    ("MODEL__CONCURRENCY", "12"),
];
const SERVICES: [(ServiceRole, &[&str]); 4] = [
    (ServiceRole::Coordinator, &[]),
    (ServiceRole::Worker, &[]),
    (ServiceRole::Worker, &[]),
    (ServiceRole::Assembler, &[]),
];

/// Times the document alone, then beside bulk.
pub async fn show(harness: &DemoHarness) -> Result<bool> {
    let behavior = Behavior::with_latency(LATENCY);
    let provider = Provider::start(behavior.clone()).await?;
    let mut site = harness.deploy(&provider, SETTINGS)?;
    site.start(&SERVICES).await?;
    let alone = time_interactive(&site).await?;
    let calls = provider.requests().len();
    drop(site);

    let provider = Provider::start(behavior).await?;
    let mut site = harness.deploy(&provider, SETTINGS)?;
    site.start(&SERVICES).await?;
    let bulk = tempfile::tempdir()?;
    documents::write(bulk.path(), 40, 20, 1)?;
    site.submit(bulk.path(), &[]).await?;
    let started = Instant::now();
    // The burst is over when a minute's worth was asked.
    while provider.requests().len() < 300 {
        anyhow::ensure!(
            started.elapsed() < 2 * TIMEOUT,
            "bulk asked {} times only",
            provider.requests().len()
        );
        sleep(Duration::from_millis(100)).await;
    }
    let before = (provider.requests().len(), Instant::now());
    let beside = time_interactive(&site).await?;
    let asks = provider.requests();
    let rate = (asks.len() - before.0) as f64 / before.1.elapsed().as_secs_f64() * 60.0;
    println!(
        "alone {alone:.1?} for {calls} calls; beside bulk {beside:.1?}, {rate:.0} calls a minute of all"
    );
    println!(
        "busiest minute: {} calls",
        peak_in_window(&asks, Duration::from_secs(60))
    );
    Ok(beside.as_secs_f64() <= MAX_SLOWDOWN * alone.as_secs_f64())
}

/// Submits the document as one that someone waits for, and waits.
async fn time_interactive(site: &Deployment) -> Result<Duration> {
    let folder = tempfile::tempdir()?;
    fs::write(
        folder.path().join("waited-for.pdf"),
        generate(&Spec {
            pages: PAGES,
            ..Spec::new(FilingKind::ALL[0], 77)
        })
        .pdf,
    )?;
    let job = site.submit(folder.path(), &["--interactive"]).await?;
    let status = site.wait_for_end(&job, 2 * TIMEOUT).await?;
    let millis = |name: &str| status[name].as_u64().unwrap_or(0);
    anyhow::ensure!(status["counts"]["failed"] == 0, "it failed: {status}");
    Ok(Duration::from_millis(
        millis("ended_ms").saturating_sub(millis("submitted_ms")),
    ))
}
