//! A runtime for durable jobs, independent of what the jobs do.
//!
//! - A [`stage`] is a struct with one async `run`. Its result is an [`artifact`], written once under a key derived from
//!   what the stage reads. A stage whose artifact exists never runs again.
//! - A [`flow`] is ordinary Rust that is replayed ([`replay`]): it reads outcomes and stops where one is missing.
//! - A coordinator ([`coordinator`]) publishes the tasks that flows request. Workers ([`executor`]) store, notify, and
//!   only then acknowledge ([`consumer`]).
//! - Everything runs on four ports: [`queue`], [`ledger`], [`blobs`], [`limit`].
//!
//! The artifact is checkpoint, idempotency key, cache entry and unit of retry at once. A lost message therefore only
//! delays a job, and neither a crash nor a second run pays for the same work twice. The engine never overwrites an
//! object, never acknowledges before a result is stored, and never puts document text into a message.

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
pub mod lane_metrics;
mod latency;
pub mod ledger;
pub mod limit;
pub mod message;
mod message_auth;
mod metrics;
mod outcome;
pub mod port_error;
pub mod port_layer;
pub mod port_monitor;
pub mod port_retry;
pub mod ports;
pub mod queue;
pub mod reached_tasks;
pub mod redis_client;
mod repeated_log;
pub mod replay;
pub mod retry;
pub mod round_robin;
mod run;
mod run_header;
pub mod s3;
mod schedule;
pub mod secret;
pub mod settings;
pub mod stage;
pub mod tls;
mod trace;
pub mod work;
mod zero_counters;

pub use env::Env;
pub use failure::{Failure, FailureKind, FailureRecord};
pub use heartbeat::RunProgress;
pub use key::{JobId, Priority, RunHeader, RunId, RunRef, TaskKey, TaskKeyBuilder};
pub use message_auth::MessageKeys;
pub use port_error::{PortError, PortErrorKind, PortResult};
pub use ports::{Ports, Retrying, RetryingBlobs};
pub use repeated_log::RepeatedLog;
pub use run_header::HeaderError;
pub use secret::Secret;
