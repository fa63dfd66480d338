//! Test support for the engine: conformance suites for its ports, fault injection, and simulated schedules.
//!
//! - [`blobs_conformance`], [`ledger_conformance`], [`queue_conformance`], [`limit_conformance`]: what every adapter of
//!   a
//!   port must do; run on the memory adapters and on real servers.
//! - [`fault`]: ports that fail at a chosen call.
//! - [`processes`]: processes that a test suspends.
//! - [`servers`]: servers for tests, named by environment variables.
//! - [`simulation`]: whole jobs under seeded schedules, with crashes.
//! - [`wait`]: waiting for a condition, with a limit.

mod account_conformance;
pub mod blobs_conformance;
pub mod fault;
pub mod ledger_conformance;
pub mod limit_conformance;
pub mod processes;
pub mod queue_conformance;
pub mod servers;
pub mod simulation;
pub mod wait;
