//! Processes that a test suspends.

use std::fs;

use crate::wait::block_until;

/// Waits until every thread of a process that was sent SIGSTOP has stopped: from then on it answers nothing. A thread that is
/// running when the signal is sent stops only when its processor next enters the kernel.
///
/// # Panics
/// When the process still runs after two minutes, or has ended.
pub fn wait_until_stopped(pid: u32) {
    block_until("the process stops", || is_stopped(pid));
}

/// The processes of a process group.
pub fn members_of_group(group: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        stat_fields(&format!("/proc/{pid}/stat"))
            .is_some_and(|fields| fields.get(2) == Some(&group.to_string()))
    })
    .collect()
}

#[expect(clippy::panic, reason = "fails the calling test")]
fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        panic!("process {pid} has ended");
    };
    threads.flatten().all(|thread| {
        let fields = stat_fields(&thread.path().join("stat").to_string_lossy());
        // Neither does a thread answer that is gone by now, or a zombie.
        fields.is_none_or(|fields| {
            fields
                .first()
                .is_some_and(|state| state == "T" || state == "Z")
        })
    })
}

/// The fields of proc_pid_stat(5) from the third on: state, parent, process group, and so on.
fn stat_fields(path: &str) -> Option<Vec<String>> {
    let stat = fs::read_to_string(path).ok()?;
    let (_, fields) = stat.rsplit_once(')')?; // a name may hold spaces and brackets
    Some(fields.split_whitespace().map(str::to_string).collect())
}
