//! A job of very many small documents: what the coordinator keeps in memory, and how many messages a long wait adds.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use stemma_sim::{Behavior, Provider};
use tokio::time::sleep;

use super::broker::Tap;
use super::{Lab, Table, ready, submit};
use crate::Role;

/// The most a coordinator may have resident, in bytes.
const MOST: u64 = 300_000_000;
/// How often a coordinator looks for what is due.
const SWEEP: Duration = Duration::from_secs(5);
/// Files in a folder.
const FOLDER: u64 = 1_000;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Many {
    /// Documents of the job.
    pub documents: u64,
    /// How long the work on them is watched, in seconds.
    pub seconds: u64,
}

impl Default for Many {
    fn default() -> Self {
        Self {
            documents: 100_000,
            seconds: 180,
        }
    }
}

/// Submits the job, and watches the work on it for a time.
///
/// # Errors
/// When the ground gives way.
pub async fn many(lab: &Lab, size: Many) -> Result<Table> {
    let Many { documents, seconds } = size;
    let mut table = Table::new(format!(
        "many: a job of {documents} documents, watched for {seconds} s"
    ));
    let name = lab.name("many");
    let folder = tempfile::tempdir()?;
    write(folder.path(), documents)?;
    let provider = Provider::start(Behavior::default()).await?;
    let mut fleet = lab.fleet(&name, &[("STEMMA_STRUCTURE", "layout")], &[], &provider)?;
    let coordinator = fleet.spawn(Role::Coordinator, &[])?;
    fleet.spawn(Role::Assembler, &[])?;
    fleet.spawn(Role::Worker, &[])?;
    for role in [Role::Coordinator, Role::Assembler, Role::Worker] {
        ready(&mut fleet, role).await?;
    }
    let tap = Tap::on(&lab.broker()?, &name).await?;
    let coordinator = fleet.pid(&coordinator)?;
    let begun = Instant::now();
    submit(&fleet, folder.path()).await?;
    table.note(
        "submitted in",
        format!("{:.0} s", begun.elapsed().as_secs_f64()),
    );
    let begun = Instant::now();
    let over = Duration::from_secs(seconds);
    let mut resident = Vec::new();
    let mut depth = 0;
    let mut wait = Duration::ZERO;
    while begun.elapsed() < over {
        resident.push(resident_bytes(coordinator)?);
        let waiting = tap.depth("cpu.bulk").await?;
        (depth, wait) = (depth.max(waiting), wait.max(tap.seen().oldest(waiting)));
        sleep(Duration::from_secs(1)).await;
    }
    let seen = tap.seen();
    let done = seen.tasks_of("publish.bulk");
    let rate = done as f64 / begun.elapsed().as_secs_f64();
    table.note("documents to publish", format!("{done}, {rate:.0}/s"));
    note_memory(&mut table, &resident);
    table.note("most tasks waiting", depth);
    table.mark(
        "longest wait",
        format!("{:.0} s", wait.as_secs_f64()),
        ">= 10 sweeps of 5 s",
        wait >= 10 * SWEEP,
    );
    let share = seen.again() as f64 / seen.tasks().max(1) as f64;
    table.note(
        "messages of tasks",
        format!(
            "{} tasks, {} again, {} delayed",
            seen.tasks(),
            seen.again(),
            seen.delayed
        ),
    );
    table.mark(
        "published again",
        format!("{:.2} %", 100.0 * share),
        "<= 1 %",
        share <= 0.01,
    );
    let fallen = fleet.ended()?;
    table.mark("processes that ended", fallen.len(), "0", fallen.is_empty());
    Ok(table)
}

/// Documents of one text: that each is a document of its own is in their names.
fn write(root: &Path, documents: u64) -> Result<()> {
    for n in 0..documents {
        let folder = root.join(format!("{:04}", n / FOLDER));
        if n % FOLDER == 0 {
            fs::create_dir(&folder)?;
        }
        fs::write(
            folder.join(format!("{n:07}.md")),
            "# Annual report\n\nNothing happened.\n\n## Outlook\n\nNor will it.\n",
        )?;
    }
    Ok(())
}

fn note_memory(table: &mut Table, resident: &[u64]) {
    let megabytes = |bytes: u64| format!("{:.0} MB", bytes as f64 / 1e6);
    let shown: Vec<_> = [0, 2, 4, 6, 8, 10]
        .into_iter()
        .filter_map(|tenths: usize| {
            resident.get((resident.len() * tenths / 10).min(resident.len().saturating_sub(1)))
        })
        .map(|bytes| megabytes(*bytes))
        .collect();
    table.note("coordinator over time", shown.join(", "));
    let most = resident.iter().copied().max().unwrap_or_default();
    table.mark(
        "coordinator at most",
        megabytes(most),
        "<= 300 MB",
        most <= MOST,
    );
}

/// Resident memory of a process.
fn resident_bytes(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("a process without memory")?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1_024)
}
