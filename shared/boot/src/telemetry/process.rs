//! What the process uses, under the names that Prometheus' own clients use.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use ::metrics::{counter, gauge};

// Linux reports CPU times to programs in hundredths of a second on all architectures that we build for.
const TICKS_PER_SECOND: u64 = 100;

pub(super) fn record_start() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    gauge!("process_start_time_seconds").set(now.unwrap_or_default().as_secs_f64());
}

pub(super) fn record_usage() {
    if let Some(ticks) = cpu_ticks() {
        // Whole seconds: a counter holds no fractions.
        counter!("process_cpu_seconds_total").absolute(ticks / TICKS_PER_SECOND);
    }
    if let Some(bytes) = resident_bytes() {
        gauge!("process_resident_memory_bytes").set(bytes as f64);
    }
    if let Ok(descriptors) = fs::read_dir("/proc/self/fd") {
        gauge!("process_open_fds").set(descriptors.count() as f64);
    }
    if let Some(most) = max_descriptors() {
        gauge!("process_max_fds").set(most as f64);
    }
}

// The second field, the name of the command, may contain blanks; user and system time are the 14th and 15th.
fn cpu_ticks() -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some(user + system)
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

fn max_descriptors() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_of_this_process_is_read() {
        assert!(cpu_ticks().is_some());
        assert!(resident_bytes().unwrap() > 1_000_000);
        assert!(max_descriptors().unwrap() > 10);
    }
}
