//! Waiting for a condition, with a limit.

use std::time::{Duration, Instant};

// On a machine that does much else.
const LIMIT: Duration = Duration::from_secs(120);
const STEP: Duration = Duration::from_millis(5);

/// Waits until `holds` is true, and blocks the thread meanwhile.
///
/// # Panics
/// With `what` if it does not hold within two minutes.
pub fn block_until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        std::thread::sleep(STEP);
    }
}

/// Waits until `holds` is true.
///
/// # Panics
/// With `what` if it does not hold within two minutes.
pub async fn wait_until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !holds().await {
        assert!(since.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        tokio::time::sleep(STEP).await;
    }
}
