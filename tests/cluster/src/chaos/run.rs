//! Helpers shared by cluster and embedded runs.

use std::collections::{BTreeMap, HashMap};
use std::process::Output;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::fault_plan::ChaosFault;
use stemma_sim::Provider;

/// Time limit of a run, and of the wait for requests in flight.
pub(super) const LIMIT: Duration = Duration::from_secs(600);
/// Interval between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Range of the provider's latency. The upper bound is well below `model.timeout_seconds`.
const LATENCY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(20));

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

/// Paces the provider so that the work lasts until about the last fault.
pub(super) struct Pace<'a> {
    pub faults: &'a [ChaosFault],
    /// Seconds between two faults.
    pub interval: f64,
    /// Number of different requests.
    pub work: usize,
    /// Requests that can be in flight.
    pub slots: usize,
}

impl Pace<'_> {
    /// Replies that the provider may give before the last fault: what is left keeps all slots busy until then, however fast
    /// the machine is.
    pub(super) fn max_replies(&self) -> usize {
        self.work.saturating_sub(self.reserve())
    }

    // The last documents of a job cannot fill the slots: the faults end while a tenth of the work is left. Of a short job,
    // while it can still fill the slots for the last fault, and once more, because faults come at random intervals.
    fn reserve(&self) -> usize {
        (self.work / 10).max(2 * self.slots)
    }

    /// The latency for the remaining work: `done` faults took `elapsed`, and `answered` different requests were made.
    pub(super) fn latency(&self, done: usize, elapsed: Duration, answered: usize) -> Duration {
        let seconds = |faults: &[ChaosFault]| -> f64 {
            faults
                .iter()
                .map(|fault| fault.period().as_secs_f64())
                .sum()
        };
        let (past, ahead) = self.faults.split_at(done.min(self.faults.len()));
        let between = if done == 0 {
            self.interval + 1.0
        } else {
            (elapsed.as_secs_f64() - seconds(past)).max(0.0) / done as f64
        };
        let remaining = seconds(ahead) + between * (ahead.len() + 2) as f64;
        let work = self.max_replies().saturating_sub(answered).max(1);
        let latency = remaining * self.slots as f64 / work as f64;
        Duration::from_secs_f64(latency.clamp(LATENCY.0.as_secs_f64(), LATENCY.1.as_secs_f64()))
    }
}

/// The exit status of a command and the end of its output.
pub(super) fn end_message(output: &Output) -> String {
    // With --json the error is the last line of the output.
    let printed = String::from_utf8_lossy(&output.stdout);
    let words = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = words.lines().collect();
    format!(
        "{}\n{}\n{}",
        output.status,
        lines[lines.len().saturating_sub(10)..].join("\n"),
        printed.lines().last().unwrap_or_default()
    )
}
