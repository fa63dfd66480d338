//! Throughput of complete tasks, compared with an idle object store and broker.
//!
//! A complete task is a model call without latency: received from the broker, leased, sent to the model, stored with its call
//! record, and reported to the coordinator, which continues the flow.

use std::time::Duration;

use anyhow::{Context, Result};

use super::backlog::Backlog;
use super::cpu_time::{CpuTimes, CpuUsage, process_kinds};
use super::{BenchEnv, MeasurementTable, broker, objects};
use crate::{Proxy, ServerKind};

const WORKERS: usize = 2;
const CALLS: usize = 16;
/// Filings and their pages.
const FILINGS: (u64, u32) = (30, 40);
/// Tasks of the timed run, and of the run in which requests are counted.
const TIMED: usize = 1_500;
const COUNTED: usize = 300;
/// First tasks, excluded because workers are starting.
const SKIPPED: usize = 100;
/// Duration of each throughput measurement.
const BARE_PERIOD: Duration = Duration::from_secs(5);

/// Runs about two minutes.
///
/// # Errors
/// If a server or process fails.
pub async fn rates(lab: &BenchEnv) -> Result<MeasurementTable> {
    let mut table = MeasurementTable::new(format!(
        "rates: {WORKERS} workers, {CALLS} tasks each at a time, replies at once"
    ));
    let before = bare(lab, "before").await?;
    let mut backlog = Backlog::prepare(lab, "rates", FILINGS, Duration::ZERO, &[], &[]).await?;
    let (rate, used) = timed(lab, &mut backlog).await?;
    drop(backlog);
    let after = bare(lab, "after").await?;
    // The load of the machine varies.
    let objects = (before.0 + after.0) / 2.0;
    let broker = (before.1 + after.1) / 2.0;
    table.note(
        "bare S3 PUT",
        format!(
            "{objects:.0}/s ({:.0} before, {:.0} after)",
            before.0, after.0
        ),
    );
    table.note(
        "broker alone",
        format!(
            "{broker:.0}/s ({:.0} before, {:.0} after)",
            before.1, after.1
        ),
    );
    used.add_to(&mut table, &format!("{TIMED} tasks"));
    table.note(
        "CPU per task",
        format!("{:.1} ms", 1_000.0 * used.total() / TIMED as f64),
    );
    count(lab, &mut table).await?;
    let share = rate / objects.min(broker);
    table.note("complete tasks", format!("{rate:.0}/s"));
    table.target(
        "of the lower of both rates",
        format!("{:.0} %", 100.0 * share),
        ">= 60 %",
        share >= 0.6,
    );
    Ok(table)
}

/// Objects and messages per second.
async fn bare(lab: &BenchEnv, when: &str) -> Result<(f64, f64)> {
    let name = lab.name(&format!("bare-{when}"));
    let objects = objects::bare_rate(lab, &name, BARE_PERIOD).await?;
    Ok((
        objects,
        broker::bare_rate(&lab.broker()?, &name, BARE_PERIOD).await?,
    ))
}

/// Tasks per second, and the CPU time used.
async fn timed(lab: &BenchEnv, backlog: &mut Backlog) -> Result<(f64, CpuUsage)> {
    backlog.start_workers(WORKERS, CALLS).await?;
    let kinds = [
        process_kinds(lab, &mut backlog.fleet)?,
        vec![("provider".into(), std::process::id())],
    ]
    .concat();
    let before = CpuTimes::now()?;
    backlog.wait_for_calls(TIMED).await?;
    let used = CpuUsage::between(&before, &CpuTimes::now()?, &kinds);
    let mut arrived: Vec<_> = backlog
        .provider
        .requests()
        .iter()
        .map(|request| request.arrived)
        .collect();
    arrived.sort_unstable();
    let first = arrived[SKIPPED];
    let last = *arrived.get(TIMED - 1).context("no tasks were timed")?;
    Ok((
        (TIMED - 1 - SKIPPED) as f64 / last.duration_since(first).as_secs_f64(),
        used,
    ))
}

/// Requests per task to each server, in a separate run because the counting proxy takes time.
async fn count(lab: &BenchEnv, table: &mut MeasurementTable) -> Result<()> {
    let proxy = Proxy::http(lab.servers.address(ServerKind::S3)?, 1).await?;
    let through = [(ServerKind::S3, proxy.address())];
    let mut backlog = Backlog::prepare(
        lab,
        "rates-counted",
        (FILINGS.0 / 3, FILINGS.1),
        Duration::ZERO,
        &[],
        &through,
    )
    .await?;
    let requests = proxy.requests();
    let commands = objects::redis_calls(lab).await?;
    let messages_before = backlog.tap.snapshot();
    backlog.start_workers(WORKERS, CALLS).await?;
    backlog.wait_for_calls(COUNTED).await?;
    let tasks = backlog.provider.requests().len() as f64;
    let commands = objects::redis_calls(lab).await? - commands;
    let after = proxy.requests();
    let by_method: Vec<_> = after
        .iter()
        .map(|(method, count)| {
            (
                method,
                count - requests.get(method).copied().unwrap_or_default(),
            )
        })
        .map(|(method, count)| format!("{method} {:.1}", count as f64 / tasks))
        .collect();
    let published = backlog.tap.snapshot().published() - messages_before.published();
    table.note("S3 requests per task", by_method.join(", "));
    table.note(
        "Redis commands per task",
        format!("{:.1}", commands.commands as f64 / tasks),
    );
    table.note(
        "messages per task",
        format!("{:.1}", published as f64 / tasks),
    );
    Ok(())
}
