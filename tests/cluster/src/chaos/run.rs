//! Helpers shared by cluster and embedded runs.

use std::collections::{BTreeMap, HashMap};
use std::process::Output;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Scenario;
use stemma_sim::Provider;

/// Time limit of a run, and of the wait for requests in flight.
pub(super) const LIMIT: Duration = Duration::from_secs(600);
/// Interval between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Range of the provider's latency.
const LATENCY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(8));

/// Figures of the run without faults.
pub(super) struct Baseline {
    /// Number of requests by digest.
    pub(super) needed: HashMap<blake3::Hash, usize>,
    /// All requests.
    pub(super) tasks: usize,
    pub(super) took: Duration,
    pub(super) trees: BTreeMap<String, Bytes>,
}

/// Settings of both runs: every step uses the model, with `calls` concurrent calls.
pub(super) fn settings(calls: usize) -> Vec<(String, String)> {
    let calls = calls.to_string();
    let settings = [
        ("STEMMA_STRUCTURE", "llm"),
        ("STEMMA_MODEL__NAME", "echo"),
        ("STEMMA_MODEL__API_KEY", "none"),
        ("STEMMA_MODEL__CONCURRENCY", &calls),
        ("STEMMA_LOCAL__CONCURRENCY", "2"),
    ];
    settings
        .into_iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

/// Waits until this many requests are in flight; false on timeout.
pub(super) async fn wait_until_busy<T>(
    provider: &Provider,
    in_flight: usize,
    job: &JoinHandle<T>,
) -> bool {
    let started = Instant::now();
    while provider.in_flight() < in_flight {
        if job.is_finished() || started.elapsed() > LIMIT {
            return false;
        }
        sleep(POLL_INTERVAL).await;
    }
    true
}

/// The latency at which the remaining work lasts until the last fault: `done` faults took `elapsed`, `answered`
/// different requests have been made, and `slots` can be in flight.
pub(super) fn paced_latency(
    scenario: &Scenario,
    baseline: &Baseline,
    done: usize,
    elapsed: Duration,
    answered: usize,
    slots: usize,
) -> Duration {
    let spacing = if done == 0 {
        scenario.fault_interval + 1.0
    } else {
        elapsed.as_secs_f64() / done as f64
    };
    let faults = scenario.requirements.faults.saturating_sub(done);
    let work = baseline.needed.len().saturating_sub(answered);
    let latency = spacing * (faults + 2) as f64 * slots as f64 / work.max(1) as f64;
    Duration::from_secs_f64(latency.clamp(LATENCY.0.as_secs_f64(), LATENCY.1.as_secs_f64()))
}

/// The exit status of a command and the end of its output.
pub(super) fn end_message(output: &Output) -> String {
    let words = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = words.lines().collect();
    format!(
        "{}\n{}",
        output.status,
        lines[lines.len().saturating_sub(10)..].join("\n")
    )
}
