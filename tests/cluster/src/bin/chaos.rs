//! One seeded chaos run, and its report: `chaos [--embedded | --loss | --lasting] [--short] [--busy] [--seed N] …`.
//!
//! Starts servers (`tests/services`), ingests generated filings without and then with faults, and fails
//! if documents are missing or different, or model calls were repeated needlessly.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use stemma_cluster::chaos::{
    ChaosFault, ChaosReport, Requirements, Scenario, run_cluster, run_embedded,
};

const USAGE: &str = "usage: chaos [--embedded | --loss | --lasting] [--short] [--busy] [--seed N] [--documents N] [--pages N]";

fn main() -> ExitCode {
    match tokio::runtime::Runtime::new()
        .context("starting")
        .and_then(|runtime| runtime.block_on(run()))
    {
        Ok(report) => {
            println!("{report}");
            if report.unmet_requirements().is_empty() {
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

async fn run() -> Result<ChaosReport> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let has = |name: &str| words.iter().any(|word| word == name);
    let mut scenario = if has("--short") {
        short_scenario()
    } else {
        long_scenario()
    };
    let Requirements { faults, .. } = scenario.requirements;
    if has("--embedded") {
        scenario.requirements = Requirements {
            kinds: ChaosFault::EMBEDDED,
            min_per_kind: faults,
            ..scenario.requirements
        };
    } else if has("--loss") {
        // Restarting a broker takes longer.
        scenario.fault_interval = 10.0;
        scenario.requirements = Requirements {
            kinds: ChaosFault::LOSS,
            faults: 2,
            min_per_kind: 2,
            ..scenario.requirements
        };
    } else if has("--lasting") {
        // Each takes 20 to 60 s, so pauses need not be long, and the work has to last for ten minutes: with fewer calls at
        // once it needs fewer documents.
        scenario.fault_interval = 10.0;
        scenario.calls_per_worker = 2;
        scenario.requirements = Requirements {
            kinds: ChaosFault::LASTING,
            faults: ChaosFault::LASTING.len(),
            min_per_kind: 1,
            in_flight: 5,
            ..scenario.requirements
        };
    }
    scenario.busy = has("--busy");
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
            "--embedded" | "--loss" | "--lasting" | "--short" | "--busy" => {}
            "--seed" => scenario.seed = number()?,
            "--documents" => scenario.documents = number()?,
            "--pages" => scenario.pages = u32::try_from(number()?)?,
            _ => bail!(USAGE),
        }
    }
    if scenario.requirements.kinds == ChaosFault::EMBEDDED {
        run_embedded(&scenario).await
    } else {
        run_cluster(&scenario).await
    }
}

/// Requirements: at least 150 faults, each kind five times, with 50 tasks in flight, over 5,000 model tasks.
fn long_scenario() -> Scenario {
    let demand = Requirements {
        kinds: ChaosFault::CLUSTER,
        faults: 150,
        min_per_kind: 5,
        in_flight: 50,
        tasks: 5_000,
        max_repeated: 0,
    };
    Scenario {
        seed: 1,
        documents: 600,
        pages: 28,
        fault_interval: 1.0,
        busy: false,
        calls_per_worker: 24,
        requirements: demand,
    }
}

/// Runs for at most three minutes.
fn short_scenario() -> Scenario {
    let demand = Requirements {
        kinds: ChaosFault::CLUSTER,
        faults: 12,
        min_per_kind: 1,
        in_flight: 50,
        tasks: 300,
        max_repeated: 24,
    };
    Scenario {
        documents: 40,
        pages: 16,
        fault_interval: 0.5,
        requirements: demand,
        ..long_scenario()
    }
}
