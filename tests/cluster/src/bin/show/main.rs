//! Checks on real servers that take too long for a test: `show stalls [NAME…] | healthy | sigterm | rolling | interactive`.
//!
//! Uses the servers in `STEMMA_TEST_RABBITMQ`, `_REDIS` and `_S3`, or starts new ones. Prints measurements, and fails if one
//! is outside its limit.

mod harness;
mod healthy;
mod interactive_latency;
mod shutdown;
mod stalls;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use harness::DemoHarness;

const USAGE: &str = "usage: show stalls [NAME…] | healthy | sigterm | rolling | interactive";

fn main() -> ExitCode {
    match tokio::runtime::Runtime::new()
        .context("starting")
        .and_then(|runtime| runtime.block_on(run()))
    {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("show: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<bool> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let Some((what, rest)) = words.split_first() else {
        bail!(USAGE)
    };
    let harness = DemoHarness::start().await?;
    match what.as_str() {
        "stalls" => stalls::show(&harness, rest).await,
        "healthy" => healthy::show(&harness).await,
        "sigterm" => shutdown::sigterm(&harness).await,
        "rolling" => shutdown::rolling_restart(&harness).await,
        "interactive" => interactive_latency::show(&harness).await,
        _ => bail!(USAGE),
    }
}
