//! The store: objects, their keys, and what every program needs to read and write them and to call models.
//!
//! - [`blobs`] is the port to object storage, with adapters for folders and for memory. Objects are never overwritten.
//! - [`artifact`], [`failure`] and [`key`] are what runs store, and where.
//! - [`port_error`], [`port_retry`], [`port_layer`] and [`port_monitor`] are shared by all ports, also by those of the
//!   engine.
//! - [`limit`] is the port to the rate limits and accounts that all processes share, with an adapter for memory; [`spend`]
//!   has the amounts, and [`model_status`] what a process reports about its models.
//! - [`minute_window`] counts what happened in the last minute, [`latency`] how long it took in the last minutes.
//! - [`env`](mod@env) is the clock, randomness and spawning; [`work`] the share of a machine that a request may use, and
//!   [`cache`] what requests keep in memory.

pub mod artifact;
pub mod blobs;
pub mod cache;
pub mod env;
pub mod failure;
pub mod key;
pub mod latency;
pub mod limit;
pub mod minute_window;
pub mod model_status;
pub mod port_error;
pub mod port_layer;
pub mod port_monitor;
pub mod port_retry;
mod run_header;
pub mod secret;
pub mod spend;
pub mod time_limit;
pub mod tls;
pub mod work;

pub use env::Env;
pub use failure::{Failure, FailureKind, FailureRecord};
pub use key::{JobId, Priority, RunHeader, RunId, RunRef, TaskKey, TaskKeyBuilder};
pub use port_error::{PortError, PortErrorKind, PortResult};
pub use port_retry::{Retrying, RetryingBlobs};
pub use run_header::HeaderError;
pub use secret::Secret;
