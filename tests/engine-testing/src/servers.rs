//! Servers for tests: RabbitMQ, Redis and S3, named by environment variables.

use std::env;

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
