//! Latency of an interactive document during bulk work that uses up the rate limit.

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
/// Allowed slowdown compared with an idle cluster.
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

/// Times the document alone, then during bulk work.
pub async fn show(harness: &DemoHarness) -> Result<bool> {
    let behavior = Behavior::with_latency(LATENCY);
    let provider = Provider::start(behavior.clone()).await?;
    let mut deployment = harness.deploy(&provider, SETTINGS)?;
    deployment.start(&SERVICES).await?;
    let alone = time_interactive(&deployment).await?;
    let calls = provider.requests().len();
    drop(deployment);

    let provider = Provider::start(behavior).await?;
    let mut deployment = harness.deploy(&provider, SETTINGS)?;
    deployment.start(&SERVICES).await?;
    let bulk = tempfile::tempdir()?;
    documents::write(bulk.path(), 40, 20, 1)?;
    deployment.submit(bulk.path(), &[]).await?;
    let started = Instant::now();
    // After the requests of one minute, the burst is used up.
    while provider.requests().len() < 300 {
        anyhow::ensure!(
            started.elapsed() < 2 * TIMEOUT,
            "bulk work made only {} calls",
            provider.requests().len()
        );
        sleep(Duration::from_millis(100)).await;
    }
    let before = (provider.requests().len(), Instant::now());
    let during_bulk = time_interactive(&deployment).await?;
    let requests = provider.requests();
    let rate = (requests.len() - before.0) as f64 / before.1.elapsed().as_secs_f64() * 60.0;
    println!(
        "alone {alone:.1?} for {calls} calls; during bulk {during_bulk:.1?}, {rate:.0} calls per minute in total"
    );
    println!(
        "busiest minute: {} calls",
        peak_in_window(&requests, Duration::from_secs(60))
    );
    Ok(during_bulk.as_secs_f64() <= MAX_SLOWDOWN * alone.as_secs_f64())
}

/// Submits the document with interactive priority and waits for it.
async fn time_interactive(deployment: &Deployment) -> Result<Duration> {
    let folder = tempfile::tempdir()?;
    fs::write(
        folder.path().join("waited-for.pdf"),
        generate(&Spec {
            pages: PAGES,
            ..Spec::new(FilingKind::ALL[0], 77)
        })
        .pdf,
    )?;
    let job = deployment.submit(folder.path(), &["--interactive"]).await?;
    let status = deployment.wait_for_end(&job, 2 * TIMEOUT).await?;
    let millis = |name: &str| status[name].as_u64().unwrap_or(0);
    anyhow::ensure!(
        status["counts"]["failed"] == 0,
        "the document failed: {status}"
    );
    Ok(Duration::from_millis(
        millis("ended_ms").saturating_sub(millis("submitted_ms")),
    ))
}
