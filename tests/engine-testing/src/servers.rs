//! Servers for tests: RabbitMQ, Redis and S3, named by environment variables, and ports for those that a test starts.

use std::env;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The server that `variable` names; `None` if the run is limited to embedded adapters.
///
/// A test that needs a server must not pass by returning early, so a missing server is an error unless
/// `STEMMA_TEST_EMBEDDED_ONLY=1` says that it is intended.
///
/// # Panics
/// When `variable` is not set and `STEMMA_TEST_EMBEDDED_ONLY` is not `1`.
#[expect(clippy::panic, reason = "fails the calling test")]
pub fn server_from_env(variable: &str) -> Option<String> {
    match env::var(variable) {
        Ok(server) => Some(server),
        Err(_) if env::var("STEMMA_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") => {
            println!("skipped: {variable} is not set (STEMMA_TEST_EMBEDDED_ONLY=1)");
            None
        }
        Err(_) => panic!(
            "set {variable} or run tests/run; STEMMA_TEST_EMBEDDED_ONLY=1 skips tests that need a server"
        ),
    }
}

/// A free port of the loopback address, below the range of outgoing connections: none of them takes it before its user listens,
/// or while its user restarts. No port is returned twice.
///
/// # Panics
/// When no port is free.
#[expect(clippy::expect_used, reason = "fails the calling test")]
pub fn free_port() -> u16 {
    const FIRST: usize = 20_000;
    const COUNT: usize = 12_000;
    static GIVEN: AtomicUsize = AtomicUsize::new(0);
    let begin = std::process::id() as usize * 131;
    let next = || (FIRST + (begin + GIVEN.fetch_add(1, Ordering::Relaxed)) % COUNT) as u16;
    let mut tried = (0..COUNT).map(|_| next());
    let free = tried.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.expect("a free port")
}
