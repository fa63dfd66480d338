//! A request limit shared by four workers: its utilization, also after two workers are killed and Redis is flushed.
//! All figures come from the provider's log.

use std::time::{Duration, Instant};

use anyhow::Result;
use stemma_sim::RequestRecord;
use tokio::time::{sleep, sleep_until};

use super::backlog::Backlog;
use super::{BenchEnv, MeasurementTable, arrived};
use crate::duplicate_calls::peak_in_window;

/// Requests per minute of all workers.
const LIMIT: usize = 600;
/// What a bucket grants at once: two seconds of it.
const BURST: usize = LIMIT / 30;
const WORKERS: usize = 4;
const CALLS: usize = 8;
const LATENCY: Duration = Duration::from_millis(50);
/// Filings and their pages: more calls than three minutes can make.
const FILINGS: (u64, u32) = (40, 40);
const MINUTE: Duration = Duration::from_secs(60);
/// After the first request: when the flow is steady, when two workers die, when Redis forgets, and the end.
const STEADY: Duration = Duration::from_secs(10);
const KILLED: Duration = Duration::from_secs(85);
const FLUSHED: Duration = Duration::from_secs(115);
const END: Duration = Duration::from_secs(180);
/// In which the rate has to be back.
const MAX_RECOVERY: Duration = Duration::from_secs(10);
/// Over which a rate is looked at.
const RATE_WINDOW: Duration = Duration::from_secs(5);

/// Runs about four minutes.
///
/// # Errors
/// If a server or process fails.
pub async fn limit(lab: &BenchEnv) -> Result<MeasurementTable> {
    let limit = LIMIT.to_string();
    let own = [
        ("STEMMA_MODEL__REQUESTS_PER_MINUTE", limit.as_str()),
        ("STEMMA_MODEL__EXPECTED_WORKERS", "4"),
    ];
    let mut backlog = Backlog::prepare(lab, "limit", FILINGS, LATENCY, &own, &[]).await?;
    let workers = backlog.start_workers(WORKERS, CALLS).await?;
    backlog.wait_for_calls(1).await?;
    let first = backlog.provider.requests()[0].arrived;
    sleep_until((first + KILLED).into()).await;
    let killed = Instant::now();
    for worker in &workers[..WORKERS / 2] {
        backlog.fleet.kill(worker)?;
    }
    sleep_until((first + FLUSHED).into()).await;
    let flushed = Instant::now();
    lab.servers.flush_redis().await?;
    sleep_until((first + END).into()).await;
    // A request under way when the last look is taken is none yet.
    sleep(LATENCY).await;
    let asks = backlog.provider.requests();
    Ok(table(&asks, first, killed, flushed))
}

fn table(
    asks: &[RequestRecord],
    first: Instant,
    killed: Instant,
    flushed: Instant,
) -> MeasurementTable {
    let mut table = MeasurementTable::new(format!(
        "limit: {WORKERS} workers under {LIMIT} requests/min, from the provider's log"
    ));
    table.note("requests", format!("{} in {} s", asks.len(), END.as_secs()));
    let calm: Vec<_> = asks
        .iter()
        .filter(|ask| ask.arrived < flushed)
        .cloned()
        .collect();
    let most = peak_in_window(&calm, MINUTE);
    table.target("busiest 60 s", most, "<= 630", most <= LIMIT * 105 / 100);
    let used = share(asks, first + STEADY, killed);
    table.target("used while steady", percent(used), ">= 95 %", used >= 0.95);
    let back = recovery_time(asks, killed);
    let recovery = back.map_or_else(
        || "never".into(),
        |back| format!("{:.1} s", back.as_secs_f64()),
    );
    table.target(
        "rate back after kill -9 of two",
        recovery,
        "<= 10 s",
        back.is_some_and(|back| back <= MAX_RECOVERY),
    );
    table.note(
        "used after that",
        percent(share(asks, killed + MAX_RECOVERY, flushed)),
    );
    let forgotten = peak_in_window(asks, MINUTE);
    let allowed = LIMIT * 105 / 100 + BURST;
    let mark = format!("<= 630 and a burst of {BURST}");
    table.target(
        "busiest 60 s with FLUSHALL",
        forgotten,
        &mark,
        forgotten <= allowed,
    );
    table.note(
        "used after FLUSHALL",
        percent(share(asks, flushed, first + END)),
    );
    table
}

/// Of what the limit allows in a time.
fn share(asks: &[RequestRecord], begin: Instant, end: Instant) -> f64 {
    let bound = LIMIT as f64 * end.duration_since(begin).as_secs_f64() / MINUTE.as_secs_f64();
    arrived(asks, begin, end) as f64 / bound
}

/// How long after `killed` the next five seconds have nearly what the limit allows.
fn recovery_time(asks: &[RequestRecord], killed: Instant) -> Option<Duration> {
    let mut steps = (0..300).map(|tenths| Duration::from_millis(100 * tenths));
    steps.find(|after| share(asks, killed + *after, killed + *after + RATE_WINDOW) >= 0.95)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests at these milliseconds.
    fn asks(first: Instant, times: impl Iterator<Item = u64>) -> Vec<RequestRecord> {
        times
            .map(|ms| {
                RequestRecord::new(
                    blake3::hash(b""),
                    "worker",
                    first + Duration::from_millis(ms),
                )
            })
            .collect()
    }

    #[test]
    fn slow_recovery_misses_the_target() {
        let first = Instant::now();
        let killed = first + KILLED;
        let flushed = first + FLUSHED;
        let steady = asks(first, (0..1_800).map(|n| 100 * n));
        assert!(table(&steady, first, killed, flushed).is_met());
        let gone = asks(
            first,
            (0..1_800)
                .map(|n| 100 * n)
                .filter(|ms: &u64| !(85_000..98_000).contains(ms)),
        );
        assert!(recovery_time(&gone, killed).is_some_and(|back| back > MAX_RECOVERY));
        assert!(!table(&gone, first, killed, flushed).is_met());
        let fast = asks(first, (0..1_800).map(|n| 95 * n));
        assert!(
            !table(&fast, first, killed, flushed).is_met(),
            "631 in a minute"
        );
    }
}
