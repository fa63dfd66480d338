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
/// Burst of the limit: two seconds.
const BURST: usize = LIMIT / 30;
const WORKERS: usize = 4;
const CALLS: usize = 8;
const LATENCY: Duration = Duration::from_millis(50);
/// Filings and their pages: more calls than the limit allows in three minutes, with 22 a filing.
const FILINGS: (u64, u32) = (120, 40);
const MINUTE: Duration = Duration::from_secs(60);
/// Times after the first request: steady rate, kill of two workers, flush of Redis, end.
const STEADY: Duration = Duration::from_secs(10);
const KILLED: Duration = Duration::from_secs(85);
const FLUSHED: Duration = Duration::from_secs(115);
const END: Duration = Duration::from_secs(180);
/// Time limit for the rate to recover.
const MAX_RECOVERY: Duration = Duration::from_secs(10);
/// Window of a rate.
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
    backlog.ensure_calls_remain().await?;
    // A request in flight at the last poll does not count.
    sleep(LATENCY).await;
    let requests = backlog.provider.requests();
    Ok(table(&requests, first, killed, flushed))
}

fn table(
    requests: &[RequestRecord],
    first: Instant,
    killed: Instant,
    flushed: Instant,
) -> MeasurementTable {
    let mut table = MeasurementTable::new(format!(
        "limit: {WORKERS} workers under {LIMIT} requests/min, from the provider's log"
    ));
    table.note(
        "requests",
        format!("{} in {} s", requests.len(), END.as_secs()),
    );
    let before_flush: Vec<_> = requests
        .iter()
        .filter(|request| request.arrived < flushed)
        .cloned()
        .collect();
    let most = peak_in_window(&before_flush, MINUTE);
    table.target("busiest 60 s", most, "<= 630", most <= LIMIT * 105 / 100);
    let used = share(requests, first + STEADY, killed);
    table.target(
        "utilization at steady rate",
        percent(used),
        ">= 95 %",
        used >= 0.95,
    );
    let recovery = recovery_time(requests, killed);
    table.target(
        "recovery after kill -9 of two workers",
        recovery.map_or_else(
            || "never".into(),
            |time| format!("{:.1} s", time.as_secs_f64()),
        ),
        "<= 10 s",
        recovery.is_some_and(|time| time <= MAX_RECOVERY),
    );
    table.note(
        "utilization after recovery",
        percent(share(requests, killed + MAX_RECOVERY, flushed)),
    );
    let peak = peak_in_window(requests, MINUTE);
    let allowed = LIMIT * 105 / 100 + BURST;
    let target = format!("<= 630 and a burst of {BURST}");
    table.target("busiest 60 s with FLUSHALL", peak, &target, peak <= allowed);
    table.note(
        "utilization after FLUSHALL",
        percent(share(requests, flushed, first + END)),
    );
    table
}

/// Utilization of the limit.
fn share(requests: &[RequestRecord], begin: Instant, end: Instant) -> f64 {
    let bound = LIMIT as f64 * end.duration_since(begin).as_secs_f64() / MINUTE.as_secs_f64();
    arrived(requests, begin, end) as f64 / bound
}

/// Time from `killed` until a window of five seconds nearly reaches the limit.
fn recovery_time(requests: &[RequestRecord], killed: Instant) -> Option<Duration> {
    let mut steps = (0..300).map(|tenths| Duration::from_millis(100 * tenths));
    steps.find(|after| share(requests, killed + *after, killed + *after + RATE_WINDOW) >= 0.95)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that arrive at these milliseconds.
    fn requests(first: Instant, times: impl Iterator<Item = u64>) -> Vec<RequestRecord> {
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
        let steady = requests(first, (0..1_800).map(|n| 100 * n));
        assert!(table(&steady, first, killed, flushed).is_met());
        let gone = requests(
            first,
            (0..1_800)
                .map(|n| 100 * n)
                .filter(|ms: &u64| !(85_000..98_000).contains(ms)),
        );
        assert!(recovery_time(&gone, killed).is_some_and(|back| back > MAX_RECOVERY));
        assert!(!table(&gone, first, killed, flushed).is_met());
        let fast = requests(first, (0..1_800).map(|n| 95 * n));
        assert!(
            !table(&fast, first, killed, flushed).is_met(),
            "631 in a minute"
        );
    }
}
