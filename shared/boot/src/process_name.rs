//! Names of processes.

use std::sync::OnceLock;

use stemma_store::Env;

// Drawn once: a process has one name, whoever asks.
static RANDOM: OnceLock<u64> = OnceLock::new();

/// A process name for leases, heartbeats and connections: service, host, process id and a random part. In containers
/// host and process id are the same after a restart, so the random part keeps names unique.
pub fn process_name(service: &str, env: &Env) -> String {
    let host = rustix::system::uname();
    let host: String = host
        .nodename()
        .to_string_lossy()
        .chars()
        .map(|c: char| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') {
                c
            } else {
                '-'
            }
        })
        .take(60)
        .collect();
    format!(
        "{service}-{host}-{}-{:04x}",
        std::process::id(),
        RANDOM.get_or_init(|| env.random()) & 0xffff
    )
}
