//! Shutdown by signals: the first asks everything to finish, the second exits at once.

use tokio::signal;
use tokio_util::sync::CancellationToken;

/// Exit code of an interrupted process (128 + SIGINT).
pub const INTERRUPTED: u8 = 130;

/// A token that is cancelled by the first SIGINT or SIGTERM; the second exits with [`INTERRUPTED`]. All writes are
/// create-only and atomic, so exiting at once loses only work in progress.
pub fn listen() -> CancellationToken {
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        next_signal().await;
        token.cancel();
        next_signal().await;
        std::process::exit(i32::from(INTERRUPTED));
    });
    stop
}

#[cfg(unix)]
async fn next_signal() {
    let Ok(mut terminate) = signal::unix::signal(signal::unix::SignalKind::terminate()) else {
        drop(signal::ctrl_c().await);
        return;
    };
    tokio::select! {
        _ = signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn next_signal() {
    drop(signal::ctrl_c().await);
}
