//! CPU time of processes and of the machine, from `/proc`.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use anyhow::{Context, Result};

use super::{BenchEnv, MeasurementTable};
use crate::{ServiceFleet, ServiceRole};

/// Ticks of `/proc` per second, on every Linux.
const TICKS: f64 = 100.0;

/// CPU time used so far.
pub(super) struct CpuTimes {
    processes: HashMap<u32, ProcStat>,
    /// Busy ticks and all ticks of all cores.
    machine: (u64, u64),
}

struct ProcStat {
    parent: u32,
    session: u32,
    ticks: u64,
}

impl CpuTimes {
    pub(super) fn now() -> Result<Self> {
        let mut processes = HashMap::new();
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            // The process may have ended meanwhile.
            let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
                continue;
            };
            if let Some(process) = parse_process(&stat) {
                processes.insert(pid, process);
            }
        }
        let stat = fs::read_to_string("/proc/stat")?;
        let machine = parse_machine(&stat).context("/proc/stat is empty")?;
        Ok(Self { processes, machine })
    }

    /// CPU seconds of a process, its descendants and the session it leads.
    fn seconds(&self, root: u32) -> f64 {
        let below = |pid: &u32, process: &ProcStat| {
            let mut at = *pid;
            loop {
                match self.processes.get(&at) {
                    _ if at == root => return true,
                    Some(process) if process.parent != at => at = process.parent,
                    _ => return process.session == root,
                }
            }
        };
        let ticks: u64 = self
            .processes
            .iter()
            .filter(|(pid, process)| below(pid, process))
            .map(|(_, p)| p.ticks)
            .sum();
        ticks as f64 / TICKS
    }
}

/// Parent, session, and CPU time including ended children: the fields after the name in brackets, see proc(5).
fn parse_process(stat: &str) -> Option<ProcStat> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
    let ticks = number(14)? + number(15)? + number(16)? + number(17)?;
    Some(ProcStat {
        parent: u32::try_from(number(4)?).ok()?,
        session: u32::try_from(number(6)?).ok()?,
        ticks,
    })
}

fn parse_machine(stat: &str) -> Option<(u64, u64)> {
    let ticks: Vec<u64> = stat
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .map_while(|word| word.parse().ok())
        .collect();
    let idle = ticks.get(3)? + ticks.get(4)?;
    // The first two fields include guest time.
    let all: u64 = ticks.iter().take(8).sum();
    Some((all - idle, all))
}

/// CPU seconds by kind of process between two samples. A process that started in between counts with all its time.
pub(super) struct CpuUsage {
    seconds: BTreeMap<String, f64>,
    /// Busy share of all cores, including other programs.
    pub(super) machine: f64,
}

impl CpuUsage {
    pub(super) fn between(before: &CpuTimes, after: &CpuTimes, kinds: &[(String, u32)]) -> Self {
        let mut seconds = BTreeMap::new();
        for (kind, pid) in kinds {
            *seconds.entry(kind.clone()).or_default() += after.seconds(*pid) - before.seconds(*pid);
        }
        let busy = after.machine.0 - before.machine.0;
        let all = after.machine.1 - before.machine.1;
        Self {
            seconds,
            machine: busy as f64 / all.max(1) as f64,
        }
    }

    pub(super) fn total(&self) -> f64 {
        self.seconds.values().sum()
    }

    /// Seconds by kind of process.
    pub(super) fn seconds(&self) -> &BTreeMap<String, f64> {
        &self.seconds
    }

    /// A line per kind: seconds, and the share of the total.
    pub(super) fn add_to(&self, table: &mut MeasurementTable, over: &str) {
        let total = self.total();
        table.note(
            &format!("CPU, {over}"),
            format!("{total:.1} s; all cores {:.0} % busy", 100.0 * self.machine),
        );
        for (kind, seconds) in &self.seconds {
            table.note(
                &format!("  {kind}"),
                format!(
                    "{seconds:6.1} s  {:3.0} %",
                    100.0 * seconds / total.max(1e-9)
                ),
            );
        }
    }
}

/// All processes of a measurement: the fleet, started servers, and this process with the provider.
pub(super) fn process_kinds(
    lab: &BenchEnv,
    fleet: &mut ServiceFleet,
) -> Result<Vec<(String, u32)>> {
    let mut kinds: Vec<_> = lab.servers.processes()?;
    for role in [
        ServiceRole::Coordinator,
        ServiceRole::Worker,
        ServiceRole::Assembler,
    ] {
        for name in fleet.running(role) {
            kinds.push((role.command().to_string(), fleet.pid(&name)?));
        }
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_is_parsed_after_the_command_name() {
        let stat = "7 (a b) c) S 3 7 5 0 -1 0 0 0 0 0 10 20 3 4 20 0 1 0 99";
        let process = parse_process(stat).unwrap();
        assert_eq!((process.parent, process.session, process.ticks), (3, 5, 37));
        assert_eq!(
            parse_machine("cpu  10 0 5 80 5 0 0 0 3 0\ncpu0 1\n"),
            Some((15, 100))
        );
    }

    #[test]
    fn own_cpu_time_is_measured() {
        let before = CpuTimes::now().unwrap();
        let mut hash = blake3::hash(b"");
        while CpuTimes::now().unwrap().seconds(std::process::id())
            < before.seconds(std::process::id()) + 0.1
        {
            (0..10_000).for_each(|_| hash = blake3::hash(hash.as_bytes()));
        }
        let kinds = [("own".to_string(), std::process::id())];
        let used = CpuUsage::between(&before, &CpuTimes::now().unwrap(), &kinds);
        assert!(used.total() >= 0.1 && used.machine > 0.0);
    }
}
