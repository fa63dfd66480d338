//! Model calls per second of one and of eight workers, with the CPU time of each process.

use std::time::Duration;

use anyhow::{Context, Result};

use super::backlog::Backlog;
use super::cpu_time::{CpuTimes, CpuUsage, process_kinds};
use super::{BenchEnv, MeasurementTable};

/// Tasks of a worker at a time. A task holds its slot for its lease, S3 and confirmations as well, so that fewer calls are in
/// flight. Without `--concurrency` a worker takes eight times as many.
const TASKS: usize = 8;
const MANY: usize = 8;
const LATENCY: Duration = Duration::from_millis(300);
/// Filings and their pages: enough calls for both runs.
const FILINGS: (u64, u32) = (120, 40);
/// Measured calls per run. The filings have nearly 2,000: short sections are their own summaries.
const COUNTED: usize = 1_000;
/// First calls, excluded because workers are starting.
const SKIPPED: usize = 100;

/// Runs about three minutes.
///
/// # Errors
/// If a server or process fails.
pub async fn scale(lab: &BenchEnv) -> Result<MeasurementTable> {
    let mut table = MeasurementTable::new(format!(
        "scale: {TASKS} tasks at a time per worker, calls of {} ms, {COUNTED} calls",
        LATENCY.as_millis()
    ));
    let (one, used_by_one) = run(lab, 1).await?;
    let (many, used_by_many) = run(lab, MANY).await?;
    for (workers, rate) in [(1, one), (MANY, many)] {
        let possible = (workers * TASKS) as f64 / LATENCY.as_secs_f64();
        let share = 100.0 * rate / possible;
        table.note(
            &format!("{workers} workers"),
            format!("{rate:.1} calls/s, {share:.0} % of {possible:.0}"),
        );
    }
    used_by_one.add_to(&mut table, "1 worker");
    used_by_many.add_to(&mut table, "8 workers");
    let per_call = |used: &CpuUsage| 1_000.0 * used.total() / COUNTED as f64;
    table.note(
        "CPU per call",
        format!(
            "{:.1} ms, {:.1} ms",
            per_call(&used_by_one),
            per_call(&used_by_many)
        ),
    );
    table.target(
        "throughput",
        format!("x {:.2}", many / one),
        ">= x 7.5",
        many / one >= 7.5,
    );
    Ok(table)
}

/// Calls per second of `workers` workers, and the CPU time used.
async fn run(lab: &BenchEnv, workers: usize) -> Result<(f64, CpuUsage)> {
    let mut backlog =
        Backlog::prepare(lab, &format!("scale-{workers}"), FILINGS, LATENCY, &[], &[]).await?;
    backlog.start_workers(workers, TASKS).await?;
    let kinds = [
        process_kinds(lab, &mut backlog.fleet)?,
        vec![("provider".into(), std::process::id())],
    ]
    .concat();
    let before = CpuTimes::now()?;
    backlog.wait_for_calls(COUNTED).await?;
    backlog.ensure_calls_remain().await?;
    let used = CpuUsage::between(&before, &CpuTimes::now()?, &kinds);
    let mut arrived: Vec<_> = backlog
        .provider
        .requests()
        .iter()
        .map(|request| request.arrived)
        .collect();
    arrived.sort_unstable();
    let first = arrived[SKIPPED];
    let last = *arrived.get(COUNTED - 1).context("no calls were counted")?;
    Ok((
        (COUNTED - 1 - SKIPPED) as f64 / last.duration_since(first).as_secs_f64(),
        used,
    ))
}
