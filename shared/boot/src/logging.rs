//! Logs go to standard error: readable on a terminal, JSON where someone collects them. Never page text, prompts or
//! keys.

use tracing_subscriber::EnvFilter;

/// Starts logging at `level` (`error` … `trace`), or as `STEMMA_LOG` says (a level, or directives such as
/// `stemma_engine=debug`). `json` writes one object per line.
pub fn start(level: &str, json: bool) {
    let directives = std::env::var("STEMMA_LOG").unwrap_or_else(|_| level.to_string());
    let filter = EnvFilter::try_new(&directives).unwrap_or_else(|_| EnvFilter::new("warn"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    // A second start in one process (tests) keeps the first logger.
    let started = if json { builder.json().try_init() } else { builder.try_init() };
    drop(started);
}
