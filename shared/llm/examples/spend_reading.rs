//! Measures how long it takes to know again what a job has spent, from the names of its call records, with a store that takes
//! its time.
//!
//! `cargo run --release -p stemma-llm --example spend_reading [replies] [milliseconds per listing] [replies a minute]`

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use stemma_engine::jobs::{SpendAmount, SpendMeasure};
use stemma_llm::calls::{CallSum, job_spend};
use stemma_store::blobs::{Blobs, PutOutcome};
use stemma_store::{JobId, PortError, PortResult};

struct Log {
    replies: u64,
    per_minute: u64,
    latency: Duration,
    listings: AtomicU64,
}

const FIRST_MINUTE: u64 = 29_000_000;
const PREFIX: &str = "c/default/calls/";

fn key(minute: u64, number: u64) -> String {
    const ID: &str = "0123456789abcdef0123456789abcdef";
    const JOB: &str = "j-19b76dac3580123456789abcdef";
    format!("{PREFIX}{minute:010}/{ID}-1-{ID}-{number:016x}~2400~900000~{JOB}.json")
}

#[async_trait]
impl Blobs for Log {
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>> {
        self.listings.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.latency).await;
        if prefix != PREFIX {
            return Ok(Vec::new());
        }
        let mut parts = after
            .unwrap_or_default()
            .trim_start_matches(PREFIX)
            .split('/');
        let minute: u64 = parts
            .next()
            .and_then(|minute| minute.parse().ok())
            .unwrap_or(0);
        let number = parts
            .next()
            .and_then(|name| name.split('~').next()?.rsplit('-').next());
        let next = number.map_or(0, |number| u64::from_str_radix(number, 16).unwrap_or(0) + 1);
        let first = minute.saturating_sub(FIRST_MINUTE) * self.per_minute + next;
        let end = (first + limit as u64).min(self.replies).max(first);
        let keys =
            (first..end).map(|n| key(FIRST_MINUTE + n / self.per_minute, n % self.per_minute));
        Ok(keys.collect())
    }
    async fn put(&self, _: &str, _: Bytes) -> PortResult<PutOutcome> {
        Err(not_listed())
    }
    async fn get(&self, _: &str) -> PortResult<Option<Bytes>> {
        Err(not_listed())
    }
    async fn get_range(&self, _: &str, _: Range<u64>) -> PortResult<Option<Bytes>> {
        Err(not_listed())
    }
    async fn size(&self, _: &str) -> PortResult<Option<u64>> {
        Err(not_listed())
    }
    async fn children(&self, _: &str, _: Option<&str>, _: usize) -> PortResult<Vec<String>> {
        Err(not_listed())
    }
    async fn delete(&self, _: &str) -> PortResult<()> {
        Err(not_listed())
    }
    async fn barrier(&self) -> PortResult<()> {
        Err(not_listed())
    }
}

fn not_listed() -> PortError {
    PortError::permanent("blobs", "the log can only be listed")
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse::<u64>().ok());
    let mut argument = |default| arguments.next().unwrap_or(default);
    let log = Log {
        replies: argument(1_000_000),
        latency: Duration::from_millis(argument(20)),
        per_minute: argument(600),
        listings: AtomicU64::new(0),
    };
    let period = (
        FIRST_MINUTE * 60_000,
        (FIRST_MINUTE + log.replies.div_ceil(log.per_minute)) * 60_000,
    );
    let job = JobId("j-19b76dac3580123456789abcdef".into());
    let started = Instant::now();
    let price = |_: &CallSum| SpendAmount::default();
    let measure = SpendMeasure::TokensAndCost;
    let spent = job_spend(&log, "c/default", &job, period, measure, price).await;
    println!(
        "{} replies, {:?} a listing: {:.2} s, {} listings, {spent:?}",
        log.replies,
        log.latency,
        started.elapsed().as_secs_f64(),
        log.listings.load(Ordering::Relaxed),
    );
}
