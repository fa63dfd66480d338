//! The job runtime. It has never heard of documents.
//!
//! - A [`stage`] is a struct with one async `run`; its result is an [`artifact`], written once under a key derived from
//!   what the stage reads. A stage whose artifact exists never runs again.
//! - A [`flow`] is ordinary Rust that is replayed ([`replay`]): it asks for outcomes and stops where some are missing.
//! - A coordinator ([`coordinate`]) publishes what flows want; workers ([`perform`]) store, emit, and only then
//!   acknowledge ([`consume`]).
//! - All of it stands on four ports: [`queue`], [`ledger`], [`blobs`], [`limit`].
//!
//! Checkpoint, idempotency key, cache and unit of retry are the same thing, so a lost message only delays, and a crash
//! or a second run pays for nothing twice. What the engine refuses to do: overwrite an object, acknowledge before the
//! result is stored, or carry text in a message.

pub mod admission;
pub mod artifact;
pub mod blobs;
pub mod consume;
pub mod coordinate;
pub mod dead_letter;
pub mod env;
pub mod failure;
pub mod flow;
pub mod jobs;
pub mod key;
pub mod ledger;
pub mod limit;
mod measure;
pub mod message;
pub mod perform;
pub mod port;
pub mod ports;
pub mod presence;
pub mod queue;
pub mod redis_client;
pub mod replay;
mod run;
pub mod s3;
pub mod secret;
pub mod settings;
pub mod stage;
mod trace;
mod waits;
pub mod why;

pub use env::Env;
pub use failure::{Failure, FailureKind, FailureRecord};
pub use key::{Class, Identity, JobId, RunHeader, RunId, RunRef, TaskKey};
pub use port::PortError;
pub use ports::Ports;
pub use run::Progress;
pub use secret::Secret;
