//! Whole tasks through all services, beside what object store and broker can do when nothing else is done.
//!
//! A whole task is a model call of no duration: taken from the broker under a lease, asked, stored with a record of the
//! call, told to the coordinator, which goes on with the flow.

use std::time::Duration;

use anyhow::{Context, Result};

use super::backlog::Backlog;
use super::processor::{Processor, Used, kinds};
use super::{Lab, Table, broker, objects};
use crate::{Proxy, Server};

const WORKERS: usize = 2;
const CALLS: usize = 16;
/// Filings and their pages.
const FILINGS: (u64, u32) = (30, 40);
/// Tasks of the timed run, and of the run in which requests are counted.
const TIMED: usize = 1_500;
const COUNTED: usize = 300;
/// The first tasks, while the workers start.
const SKIPPED: usize = 100;
/// For each bare rate.
const BARE: Duration = Duration::from_secs(5);

/// Runs about two minutes.
///
/// # Errors
/// When the ground gives way.
pub async fn rates(lab: &Lab) -> Result<Table> {
    let mut table = Table::new(format!(
        "rates: {WORKERS} workers, {CALLS} tasks each at a time, replies at once"
    ));
    let before = bare(lab, "before").await?;
    let mut backlog = Backlog::make(lab, "rates", FILINGS, Duration::ZERO, &[], &[]).await?;
    let (rate, used) = timed(lab, &mut backlog).await?;
    drop(backlog);
    let after = bare(lab, "after").await?;
    // The machine may have had more to do at one time than at another.
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
        "bare broker",
        format!(
            "{broker:.0}/s ({:.0} before, {:.0} after)",
            before.1, after.1
        ),
    );
    used.note(&mut table, &format!("{TIMED} tasks"));
    table.note(
        "CPU per task",
        format!("{:.1} ms", 1_000.0 * used.total() / TIMED as f64),
    );
    count(lab, &mut table).await?;
    let share = rate / objects.min(broker);
    table.note("whole tasks", format!("{rate:.0}/s"));
    table.mark(
        "of the lower bare rate",
        format!("{:.0} %", 100.0 * share),
        ">= 60 %",
        share >= 0.6,
    );
    Ok(table)
}

/// Objects and messages per second.
async fn bare(lab: &Lab, when: &str) -> Result<(f64, f64)> {
    let name = lab.name(&format!("bare-{when}"));
    let objects = objects::bare_rate(lab, &name, BARE).await?;
    Ok((
        objects,
        broker::bare_rate(&lab.broker()?, &name, BARE).await?,
    ))
}

/// Tasks per second, and the processor time meanwhile.
async fn timed(lab: &Lab, backlog: &mut Backlog) -> Result<(f64, Used)> {
    backlog.work(WORKERS, CALLS).await?;
    let kinds = [
        kinds(lab, &mut backlog.fleet)?,
        vec![("provider".into(), std::process::id())],
    ]
    .concat();
    let before = Processor::now()?;
    backlog.until_asked(TIMED).await?;
    let used = Used::between(&before, &Processor::now()?, &kinds);
    let mut arrived: Vec<_> = backlog
        .provider
        .asks()
        .iter()
        .map(|ask| ask.arrived)
        .collect();
    arrived.sort_unstable();
    let first = arrived[SKIPPED];
    let last = *arrived.get(TIMED - 1).context("tasks were timed")?;
    Ok((
        (TIMED - 1 - SKIPPED) as f64 / last.duration_since(first).as_secs_f64(),
        used,
    ))
}

/// What a task asks of each server: in a run of its own, because the proxy that counts takes time itself.
async fn count(lab: &Lab, table: &mut Table) -> Result<()> {
    let proxy = Proxy::http(lab.servers.address(Server::S3)?, 1).await?;
    let through = [(Server::S3, proxy.address())];
    let mut backlog = Backlog::make(
        lab,
        "rates-counted",
        (FILINGS.0 / 3, FILINGS.1),
        Duration::ZERO,
        &[],
        &through,
    )
    .await?;
    let requests = proxy.requests();
    let commands = objects::redis_commands(lab).await?;
    let seen = backlog.tap.seen();
    backlog.work(WORKERS, CALLS).await?;
    backlog.until_asked(COUNTED).await?;
    let tasks = backlog.provider.asks().len() as f64;
    let commands = objects::redis_commands(lab).await? - commands;
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
    let messages = |seen: &broker::Seen| seen.messages.values().sum::<usize>();
    let published = messages(&backlog.tap.seen()) - messages(&seen);
    table.note("S3 requests per task", by_method.join(", "));
    table.note(
        "Redis commands per task",
        format!("{:.1}", commands as f64 / tasks),
    );
    table.note(
        "messages per task",
        format!("{:.1}", published as f64 / tasks),
    );
    Ok(())
}
