//! How a process starts and stops: configuration, logging, signals, and the choice of ports.
//!
//! The only room that reads environment variables (I-7). What it refuses to do: guess at a configuration key it does
//! not know, or share a store between two writers.

pub mod backends;
pub mod config;
pub mod health;
pub mod location;
pub mod process_name;
pub mod shutdown;
pub mod store;
pub mod telemetry;
