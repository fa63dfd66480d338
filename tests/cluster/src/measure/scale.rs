//! Model calls and tasks per second of one to eight workers, with the CPU time of each process.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::backlog::Backlog;
use super::cpu_time::{CpuTimes, CpuUsage, process_kinds};
use super::{BenchEnv, MeasurementTable};

/// Tasks of a worker at a time, unless fewer are asked for: 64 of eight workers use most of two cores, and then the machine limits
/// them. Tasks that summarize share calls, and each holds its slot for its lease, S3 and confirmations as well, so that fewer
/// calls are in flight. Without `--concurrency` a worker takes eight times as many.
pub const SCALE_TASKS: usize = 8;
const WORKERS: [usize; 4] = [1, 2, 4, 8];
const LATENCY: Duration = Duration::from_millis(300);
/// Filings and their pages: enough calls for each run.
const FILINGS: (u64, u32) = (120, 40);
/// Measured calls per run. The filings have nearly 2,000: short sections are their own summaries.
const COUNTED: usize = 1_000;
/// First calls, excluded because workers are starting.
const SKIPPED: usize = 100;

/// Throughput of one run.
struct Throughput {
    workers: usize,
    calls_per_second: f64,
    /// Calls that summarize several sections answer as many tasks.
    tasks_per_second: f64,
    used: CpuUsage,
}

/// Runs about five minutes.
///
/// # Errors
/// If a server or process fails.
pub async fn scale(lab: &BenchEnv, tasks: usize) -> Result<MeasurementTable> {
    let mut table = MeasurementTable::new(format!(
        "scale: {tasks} tasks at a time per worker, calls of {} ms, {COUNTED} calls",
        LATENCY.as_millis()
    ));
    let mut runs = Vec::new();
    for workers in WORKERS {
        runs.push(run(lab, workers, tasks).await?);
    }
    let [one, .., many] = runs.as_slice() else {
        bail!("nothing was measured");
    };
    for run in &runs {
        table.note(
            &format!("{} workers", run.workers),
            format!(
                "{:.1} calls/s (x {:.2}), {:.1} tasks/s (x {:.2}), {:.1} ms of CPU a call",
                run.calls_per_second,
                run.calls_per_second / one.calls_per_second,
                run.tasks_per_second,
                run.tasks_per_second / one.tasks_per_second,
                1_000.0 * run.used.total() / COUNTED as f64,
            ),
        );
    }
    one.used.add_to(&mut table, "1 worker");
    many.used.add_to(&mut table, "8 workers");
    for (what, ratio) in [
        ("calls", many.calls_per_second / one.calls_per_second),
        ("tasks", many.tasks_per_second / one.tasks_per_second),
    ] {
        table.target(what, format!("x {ratio:.2}"), ">= x 7.5", ratio >= 7.5);
    }
    Ok(table)
}

/// What `workers` workers do with this many tasks at a time each, and the CPU time used.
async fn run(lab: &BenchEnv, workers: usize, tasks_at_once: usize) -> Result<Throughput> {
    let mut backlog =
        Backlog::prepare(lab, &format!("scale-{workers}"), FILINGS, LATENCY, &[], &[]).await?;
    backlog.start_workers(workers, tasks_at_once).await?;
    let kinds = [
        process_kinds(lab, &mut backlog.fleet)?,
        vec![("provider".into(), std::process::id())],
    ]
    .concat();
    let before = CpuTimes::now()?;
    backlog.wait_for_calls(COUNTED).await?;
    backlog.ensure_calls_remain().await?;
    let used = CpuUsage::between(&before, &CpuTimes::now()?, &kinds);
    let mut calls = backlog.provider.requests();
    calls.sort_unstable_by_key(|call| call.arrived);
    let counted = calls
        .get(SKIPPED..COUNTED)
        .context("no calls were counted")?;
    let [first, rest @ ..] = counted else {
        bail!("no calls were counted");
    };
    let last = rest.last().context("one call was counted")?;
    let seconds = last.arrived.duration_since(first.arrived).as_secs_f64();
    let tasks: usize = rest.iter().map(|call| call.sections.max(1)).sum();
    Ok(Throughput {
        workers,
        calls_per_second: rest.len() as f64 / seconds,
        tasks_per_second: tasks as f64 / seconds,
        used,
    })
}
