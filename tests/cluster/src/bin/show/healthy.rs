//! A healthy bulk run, polled every second: `why` never reports a stall, progress never shrinks unless more
//! tasks were discovered, and an ETA is shown after a tenth of the job.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;
use stemma_cluster::{ServiceRole, documents};
use stemma_sim::{Behavior, Latency, Provider};
use tokio::time::sleep;

use crate::harness::DemoHarness;

const DOCUMENTS: u64 = 60;
/// Allowed states of a run that makes progress.
const PROGRESS_CAUSES: [&str; 6] = [
    "long",
    "workers_busy",
    "sibling_stage",
    "queued",
    "done",
    "provider_slow",
];
/// Allowed error factor of the estimated time.
const MAX_ETA_ERROR: f64 = 0.3;
const LIMIT: Duration = Duration::from_secs(600);

/// Runs a job on two workers.
pub async fn show(harness: &DemoHarness) -> Result<bool> {
    let latency = Duration::from_millis(300);
    let provider = Provider::start(Behavior {
        latency: Latency {
            median_ms: latency.as_millis() as u64,
            sigma: 0.5,
        },
        ..Behavior::default()
    })
    .await?;
    let mut deployment = harness.deploy(&provider, &[("LOCAL__OPEN_DOCUMENTS", "12")])?;
    let services: [(ServiceRole, &[&str]); 4] = [
        (ServiceRole::Coordinator, &[]),
        (ServiceRole::Worker, &[]),
        (ServiceRole::Worker, &[]),
        (ServiceRole::Assembler, &[]),
    ];
    deployment.start(&services).await?;
    let filings = tempfile::tempdir()?;
    documents::write(filings.path(), DOCUMENTS, 4, 1)?;
    let job = deployment.submit(filings.path(), &[]).await?;
    let started = Instant::now();
    let mut stalls = Vec::new();
    let mut regressions = Vec::new();
    let mut polls = 0;
    let mut most = (0.0, 0);
    let mut first_estimate: Option<(f64, f64)> = None;
    loop {
        let status = deployment.status(&job).await?;
        let elapsed = started.elapsed().as_secs_f64();
        let (done, tasks) = progress(&status);
        if done + 1e-9 < most.0 && tasks <= most.1 {
            regressions.push(format!(
                "{elapsed:.0} s: {:.2} after {:.2} documents of {tasks} tasks",
                done, most.0
            ));
        }
        most = (done.max(most.0), tasks);
        if first_estimate.is_none() && done >= DOCUMENTS as f64 / 10.0 {
            first_estimate = status["eta_seconds"].as_f64().map(|eta| (elapsed, eta));
        }
        if !status["ended_ms"].is_null() {
            break;
        }
        anyhow::ensure!(started.elapsed() < LIMIT, "the job does not end: {status}");
        let (answer, _) = deployment.run_json(&["why", &job, "--json"]).await?;
        let cause = answer["diagnosis"]["cause"]
            .as_str()
            .unwrap_or("nothing")
            .to_string();
        polls += 1;
        if !PROGRESS_CAUSES.contains(&cause.as_str()) {
            stalls.push(format!(
                "{elapsed:.0} s: {cause}: {}",
                answer["diagnosis"]["says"]
            ));
        }
        sleep(Duration::from_secs(1)).await;
    }
    let took = started.elapsed().as_secs_f64();
    let error = first_estimate.map(|(at, eta)| (at + eta) / took - 1.0);
    println!(
        "{DOCUMENTS} documents in {took:.0} s; {polls} calls of `why`, {} reported a stall",
        stalls.len()
    );
    println!(
        "progress shrank {} times without new tasks",
        regressions.len()
    );
    println!(
        "after a tenth: {first_estimate:?} (seconds elapsed, seconds left), error {error:.2?}"
    );
    stalls
        .iter()
        .chain(&regressions)
        .for_each(|line| println!("      {line}"));
    Ok(stalls.is_empty()
        && regressions.is_empty()
        && error.is_some_and(|error| error.abs() <= MAX_ETA_ERROR))
}

/// Completed documents including the completed share of running ones, and the known tasks of running documents.
fn progress(status: &Value) -> (f64, u64) {
    let number = |name: &str| status[name].as_u64().unwrap_or(0);
    let ended: u64 = status["counts"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(_, count)| count.as_u64())
        .sum();
    let tasks = number("tasks_present") + number("tasks_missing");
    let part = if tasks == 0 {
        0.0
    } else {
        number("tasks_present") as f64 / tasks as f64
    };
    (ended as f64 + 0.9 * part * number("open") as f64, tasks)
}
