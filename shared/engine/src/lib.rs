//! A runtime for durable jobs, independent of what the jobs do.
//!
//! - A [`stage`] is a struct with one async `run`. Its result is an [artifact](stemma_store::artifact), written once under a key derived from
//!   what the stage reads. A stage whose artifact exists never runs again.
//! - A [`flow`] is ordinary Rust that is replayed ([`replay`]): it reads outcomes and stops where one is missing.
//! - A coordinator ([`coordinator`]) publishes the tasks that flows request. Workers ([`executor`]) store, notify, and
//!   only then acknowledge ([`consumer`]).
//! - Everything runs on ports: [`queue`], [`ledger`], [`objects`], [limits](stemma_store::limit) and [blobs](stemma_store::blobs).
//!
//! The artifact is checkpoint, idempotency key, cache entry and unit of retry at once. A lost message therefore only
//! delays a job, and neither a crash nor a second run pays for the same work twice. The engine never overwrites an
//! object, never acknowledges before a result is stored, and never puts document text into a message.

pub mod consumer;
pub mod coordinator;
pub mod dead_letter;
pub mod diagnosis;
pub mod executor;
pub mod flow;
pub mod heartbeat;
pub mod jobs;
pub mod lane_metrics;
pub mod ledger;
pub mod message;
mod message_auth;
mod metrics;
pub mod objects;
mod outcome;
mod port_layer;
pub mod ports;
pub mod queue;
pub mod reached_tasks;
mod repeated_log;
pub mod replay;
pub mod retry;
pub mod round_robin;
mod run;
mod schedule;
pub mod settings;
pub mod stage;
mod trace;
mod zero_counters;

pub use heartbeat::RunProgress;
pub use message_auth::MessageKeys;
pub use ports::Ports;
pub use repeated_log::RepeatedLog;
