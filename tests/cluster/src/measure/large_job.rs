//! A job of very many small documents: memory of the coordinator, and messages that a long wait adds.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use stemma_sim::{Behavior, Provider};
use tokio::time::sleep;

use super::broker::MessageTap;
use super::{BenchEnv, MeasurementTable, ready, submit};
use crate::ServiceRole;

/// Highest allowed resident memory of a coordinator, in bytes.
const MAX_RESIDENT_BYTES: u64 = 300_000_000;
/// Poll interval of a coordinator.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);
/// Files in a folder.
const FILES_PER_FOLDER: u64 = 1_000;

/// Size of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct JobSize {
    /// Documents of the job.
    pub documents: u64,
    /// Observed time in seconds.
    pub seconds: u64,
}

impl Default for JobSize {
    fn default() -> Self {
        Self {
            documents: 100_000,
            seconds: 180,
        }
    }
}

/// Submits the job and observes it for `seconds`.
///
/// # Errors
/// If a server or process fails.
pub async fn large_job(lab: &BenchEnv, size: JobSize) -> Result<MeasurementTable> {
    let JobSize { documents, seconds } = size;
    let mut table = MeasurementTable::new(format!(
        "many: a job of {documents} documents, observed for {seconds} s"
    ));
    let name = lab.name("many");
    let folder = tempfile::tempdir()?;
    write(folder.path(), documents)?;
    let provider = Provider::start(Behavior::default()).await?;
    let mut fleet = lab.fleet(&name, &[("STEMMA_STRUCTURE", "layout")], &[], &provider)?;
    let coordinator = fleet.spawn(ServiceRole::Coordinator, &[])?;
    fleet.spawn(ServiceRole::Assembler, &[])?;
    fleet.spawn(ServiceRole::Worker, &[])?;
    for role in [
        ServiceRole::Coordinator,
        ServiceRole::Assembler,
        ServiceRole::Worker,
    ] {
        ready(&mut fleet, role).await?;
    }
    let tap = MessageTap::connect(&lab.broker()?, &name).await?;
    let coordinator = fleet.pid(&coordinator)?;
    let started = Instant::now();
    submit(&fleet, folder.path()).await?;
    table.note(
        "submitted in",
        format!("{:.0} s", started.elapsed().as_secs_f64()),
    );
    let started = Instant::now();
    let over = Duration::from_secs(seconds);
    let mut resident = Vec::new();
    let mut depth = 0;
    let mut wait = Duration::ZERO;
    while started.elapsed() < over {
        resident.push(resident_bytes(coordinator)?);
        let waiting = tap.depth("cpu.bulk").await?;
        (depth, wait) = (depth.max(waiting), wait.max(tap.snapshot().oldest(waiting)));
        sleep(Duration::from_secs(1)).await;
    }
    let published = tap.snapshot();
    let done = published.tasks_of("publish.bulk");
    let rate = done as f64 / started.elapsed().as_secs_f64();
    table.note("documents to publish", format!("{done}, {rate:.0}/s"));
    note_memory(&mut table, &resident);
    table.note("most tasks waiting", depth);
    table.target(
        "longest wait",
        format!("{:.0} s", wait.as_secs_f64()),
        ">= 10 sweeps of 5 s",
        wait >= 10 * SWEEP_INTERVAL,
    );
    let share = published.republished() as f64 / published.tasks().max(1) as f64;
    table.note(
        "task messages",
        format!(
            "{} tasks, {} again, {} delayed",
            published.tasks(),
            published.republished(),
            published.delayed
        ),
    );
    table.target(
        "republished tasks",
        format!("{:.2} %", 100.0 * share),
        "<= 1 %",
        share <= 0.01,
    );
    let crashed = fleet.take_ended()?;
    table.target("crashed processes", crashed.len(), "0", crashed.is_empty());
    Ok(table)
}

/// Documents with the same text and different names.
fn write(root: &Path, documents: u64) -> Result<()> {
    for n in 0..documents {
        let folder = root.join(format!("{:04}", n / FILES_PER_FOLDER));
        if n % FILES_PER_FOLDER == 0 {
            fs::create_dir(&folder)?;
        }
        fs::write(
            folder.join(format!("{n:07}.md")),
            "# Annual report\n\nNothing happened.\n\n## Outlook\n\nNor will it.\n",
        )?;
    }
    Ok(())
}

fn note_memory(table: &mut MeasurementTable, resident: &[u64]) {
    let megabytes = |bytes: u64| format!("{:.0} MB", bytes as f64 / 1e6);
    let samples: Vec<_> = [0, 2, 4, 6, 8, 10]
        .into_iter()
        .filter_map(|tenths: usize| {
            resident.get((resident.len() * tenths / 10).min(resident.len().saturating_sub(1)))
        })
        .map(|bytes| megabytes(*bytes))
        .collect();
    table.note("coordinator over time", samples.join(", "));
    let most = resident.iter().copied().max().unwrap_or_default();
    table.target(
        "coordinator peak",
        megabytes(most),
        "<= 300 MB",
        most <= MAX_RESIDENT_BYTES,
    );
}

/// Resident memory of a process.
fn resident_bytes(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS in /proc/PID/status")?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1_024)
}
