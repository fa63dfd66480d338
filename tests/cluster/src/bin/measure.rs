//! Measures the cluster on real servers: `measure limit | scale [--tasks N] | rates | costs [--documents N] | many [--documents N] [--seconds N]`.
//!
//! Prints figures with their targets, and fails if a target is missed.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use stemma_cluster::measure::{
    BenchEnv, JobSize, MeasurementTable, SCALE_TASKS, costs, large_job, limit, rates, scale,
};

const USAGE: &str = "usage: measure limit | scale [--tasks N] | rates | costs [--documents N] | many [--documents N] [--seconds N]";

/// Enough that what the fleet does once does not show.
const COSTS_DOCUMENTS: u64 = 200;

fn main() -> ExitCode {
    match tokio::runtime::Runtime::new()
        .context("starting")
        .and_then(|runtime| runtime.block_on(run()))
    {
        Ok(table) => {
            print!("{table}");
            if table.is_met() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("measure: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<MeasurementTable> {
    let mut words = std::env::args().skip(1);
    let what = words.next().context(USAGE)?;
    let mut size = JobSize::default();
    let mut tasks = SCALE_TASKS;
    if what == "costs" {
        size.documents = COSTS_DOCUMENTS;
    }
    while let Some(word) = words.next() {
        let number: u64 = words.next().context(USAGE)?.parse().context(USAGE)?;
        match word.as_str() {
            "--tasks" if what == "scale" => tasks = usize::try_from(number)?.max(1),
            "--documents" if ["many", "costs"].contains(&what.as_str()) => size.documents = number,
            "--seconds" if what == "many" => size.seconds = number,
            _ => bail!(USAGE),
        }
    }
    if !["limit", "scale", "rates", "costs", "many"].contains(&what.as_str()) {
        bail!(USAGE);
    }
    let lab = BenchEnv::open().await?;
    println!("binary: {}", lab.binary());
    match what.as_str() {
        "limit" => limit(&lab).await,
        "scale" => scale(&lab, tasks).await,
        "rates" => rates(&lab).await,
        "costs" => costs(&lab, size.documents).await,
        _ => large_job(&lab, size).await,
    }
}
