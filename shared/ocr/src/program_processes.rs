//! What a program uses together with the programs that it starts.
//!
//! Limits of the system are those of one process. Tesseract may be a script that starts others, so their sum is watched, and
//! none is left when it ends.

use stemma_extract::{CpuTime, resident_bytes};

/// The processes of a program that this process started: those of its group that are not older. A process that leaves the
/// group is not seen; it keeps the limits that it inherited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramProcesses {
    group: i32,
    // In ticks since the machine started.
    since: u64,
}

/// CPU time that was used, in seconds, and resident memory.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    pub(crate) bytes: u64,
}

impl ProgramProcesses {
    /// `None` if the process `first` is not there, or where the system does not tell.
    pub(crate) fn new(first: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{first}/stat")).ok()?;
        let Stat { group, start, .. } = Stat::parse(&stat)?;
        let since = start;
        Some(Self { group, since })
    }

    /// The sum of all, with what those used that they waited for. One that ended counts until its parent waits for it: a limit of
    /// the system may have ended it, and the others wait in vain.
    pub(crate) fn usage(self) -> Usage {
        self.members().fold(Usage::default(), |sum, id| {
            let time = CpuTime::for_process(id).unwrap_or_default();
            Usage {
                cpu_seconds: sum.cpu_seconds + (time.own + time.children).as_secs_f64(),
                bytes: sum.bytes + resident_bytes(id).unwrap_or_default(),
            }
        })
    }

    pub(crate) fn kill(self) {
        self.members().for_each(kill);
    }

    fn members(self) -> impl Iterator<Item = u32> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let this = std::process::id();
        entries.filter_map(move |entry| {
            let id: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let stat = Stat::parse(&stat)?;
            let is_member = stat.group == self.group && stat.start >= self.since && id != this;
            is_member.then_some(id)
        })
    }
}

#[cfg(unix)]
fn kill(id: u32) {
    use rustix::process::{Pid, Signal, kill_process};
    if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // One that ended meanwhile is what is wanted.
        let _ = kill_process(id, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill(_: u32) {}

#[derive(Debug, PartialEq)]
struct Stat {
    group: i32,
    start: u64,
}

impl Stat {
    // `17 (name) S 16 …`: the name may itself have spaces and parentheses. Group and start are fields 5 and 22.
    fn parse(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        let group = fields.nth(2)?.parse().ok()?;
        let start = fields.nth(16)?.parse().ok()?;
        Some(Self { group, start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_and_start_are_read_after_any_name() {
        let group = 12;
        let start = 4711;
        let stat = format!("17 (a) b) S 16 12 {}4711 0 0", "9 ".repeat(16));
        assert_eq!(Stat::parse(&stat), Some(Stat { group, start }));
        assert_eq!(Stat::parse("17 (a) S 16 12"), None);
    }
}
