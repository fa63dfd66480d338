//! The job runtime. It has never heard of documents.
//!
//! - A [`stage`] is a struct with one async `run`; its result is an [`artifact`], written once under a key derived from
//!   what the stage reads. A stage whose artifact exists never runs again.
//! - A [`flow`] is ordinary Rust that is replayed ([`replay`]): it asks for outcomes and stops where some are missing.
//! - A coordinator ([`coordinator`]) publishes what flows want; workers ([`executor`]) store, emit, and only then
//!   acknowledge ([`consumer`]).
//! - All of it stands on four ports: [`queue`], [`ledger`], [`blobs`], [`limit`].
//!
//! Checkpoint, idempotency key, cache and unit of retry are the same thing, so a lost message only delays, and a crash
//! or a second run pays for nothing twice. What the engine refuses to do: overwrite an object, acknowledge before the
//! result is stored, or carry text in a message.

pub mod artifact;
pub mod blobs;
pub mod consumer;
pub mod coordinator;
pub mod dead_letter;
pub mod diagnosis;
pub mod env;
pub mod executor;
pub mod failure;
pub mod flow;
pub mod heartbeat;
pub mod jobs;
pub mod key;
mod latency;
pub mod ledger;
pub mod limit;
pub mod message;
mod metrics;
mod outcome;
pub mod port_error;
pub mod ports;
pub mod queue;
pub mod redis_client;
pub mod replay;
pub mod retry;
pub mod round_robin;
mod run;
pub mod s3;
mod schedule;
pub mod secret;
pub mod settings;
pub mod stage;
pub mod tls;
mod trace;

pub use env::Env;
pub use failure::{Failure, FailureKind, FailureRecord};
pub use key::{JobId, Priority, RunHeader, RunId, RunRef, TaskKey, TaskKeyBuilder};
pub use port_error::PortError;
pub use ports::Ports;
pub use run::RunProgress;
pub use secret::Secret;
