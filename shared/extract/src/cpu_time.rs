//! The CPU time and the memory of a process.

use std::time::Duration;

/// CPU time that a process used since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTime {
    /// Time of all its threads.
    pub own: Duration,
    /// Time of the processes that it started and waited for.
    pub children: Duration,
}

impl CpuTime {
    /// `None` where the system does not tell.
    #[cfg(target_os = "linux")]
    pub fn for_process(process: u32) -> Option<Self> {
        // USER_HZ, which the interface fixes whatever the kernel counts in.
        const TICKS_PER_SECOND: u64 = 100;
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name in parentheses may itself have spaces and parentheses. User and system time are fields 14 and 15, those of
        // children 16 and 17.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
        let mut next_two = || Some(times.next()?.ok()? + times.next()?.ok()?);
        let time = |ticks: u64| Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND);
        Some(Self {
            own: time(next_two()?),
            children: time(next_two()?),
        })
    }

    #[cfg(not(target_os = "linux"))]
    pub fn for_process(_process: u32) -> Option<Self> {
        None
    }
}

/// Memory of a process that is not swapped out. `None` where the system does not tell.
#[cfg(target_os = "linux")]
pub fn resident_bytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let resident = status.lines().find_map(|line| {
        let kilobytes = line.strip_prefix("VmRSS:")?;
        kilobytes.trim().strip_suffix(" kB")
    })?;
    Some(resident.parse::<u64>().ok()? * 1_024)
}

#[cfg(not(target_os = "linux"))]
pub fn resident_bytes(_process: u32) -> Option<u64> {
    None
}
