//! Startup and shutdown of a process: configuration, telemetry, signals, and the choice of ports.
//!
//! The only crate that reads environment variables (I-7). It rejects unknown configuration keys, and never opens a
//! folder store for two writers.

pub mod backends;
pub mod config;
pub mod config_file;
pub mod connections;
pub mod health;
mod http_server;
pub mod location;
pub mod process_name;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod trust;
mod write_timeout;
