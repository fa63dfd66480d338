//! One seeded chaos run, and its report: `chaos [--embedded | --loss] [--short] [--seed N] [--documents N] [--pages N]`.
//!
//! It starts servers of its own (`tests/services`), ingests generated filings in peace and then under faults, and fails
//! unless nothing was lost, nothing is different and nothing was paid for twice without need.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use stemma_cluster::chaos::{Demand, Fault, Report, Scenario, cluster, embedded};

const USAGE: &str =
    "usage: chaos [--embedded | --loss] [--short] [--seed N] [--documents N] [--pages N]";

fn main() -> ExitCode {
    match tokio::runtime::Runtime::new()
        .context("starting")
        .and_then(|runtime| runtime.block_on(run()))
    {
        Ok(report) => {
            println!("{report}");
            if report.complaints().is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("chaos: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<Report> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let has = |name: &str| words.iter().any(|word| word == name);
    let mut scenario = if has("--short") { short() } else { long() };
    let Demand { faults, .. } = scenario.demand;
    if has("--embedded") {
        scenario.demand = Demand {
            kinds: Fault::EMBEDDED,
            each: faults,
            ..scenario.demand
        };
    } else if has("--loss") {
        // A broker needs its time to start.
        scenario.pace = 10.0;
        scenario.demand = Demand {
            kinds: Fault::LOSS,
            faults: 2,
            each: 2,
            ..scenario.demand
        };
    }
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64> {
            words
                .next()
                .with_context(|| format!("{word} needs a number"))?
                .parse()
                .context(USAGE)
        };
        match word.as_str() {
            "--embedded" | "--loss" | "--short" => {}
            "--seed" => scenario.seed = number()?,
            "--documents" => scenario.documents = number()?,
            "--pages" => scenario.pages = u32::try_from(number()?)?,
            _ => bail!(USAGE),
        }
    }
    if scenario.demand.kinds == Fault::EMBEDDED {
        embedded(&scenario).await
    } else {
        cluster(&scenario).await
    }
}

/// What has to be shown: at least 100 faults, each kind five times, with 50 tasks in flight, over 5,000 model tasks.
fn long() -> Scenario {
    let demand = Demand {
        kinds: Fault::CLUSTER,
        faults: 100,
        each: 5,
        in_flight: 50,
        tasks: 5_000,
        again: 0,
    };
    Scenario {
        seed: 1,
        documents: 60,
        pages: 28,
        pace: 1.0,
        demand,
    }
}

/// Three minutes at most.
fn short() -> Scenario {
    let demand = Demand {
        kinds: Fault::CLUSTER,
        faults: 12,
        each: 1,
        in_flight: 50,
        tasks: 300,
        again: 24,
    };
    Scenario {
        documents: 12,
        pages: 16,
        pace: 0.5,
        demand,
        ..long()
    }
}
