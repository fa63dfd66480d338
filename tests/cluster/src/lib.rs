//! Runs Stemma's services as processes over real servers, with fault injection. Tests of the cluster use it to
//! drive the binary as users do.
//!
//! - [`TestServers`] are RabbitMQ, Redis and S3, started by `tests/services` or named in the environment.
//! - A [`Proxy`] in front of a server cuts, delays, refuses or resets connections.
//! - A [`Provider`](stemma_sim::Provider) simulates the models. Replies depend on the request alone. It records all
//!   requests, and [`duplicate_calls`] finds repeated ones.
//! - A [`BrokerClient`] is an external connection to RabbitMQ: it sends reindex messages and receives events.
//! - A [`ServiceFleet`] starts, watches, stops and kills the processes.
//! - [`chaos`] compares a run without faults with a run under faults.
//! - [`measure`] measures limits, scaling and rates.
//! - [`documents`] writes filings, and [`compare`] compares the trees of two stores.
//!
//! This crate knows nothing about Stemma's internals except the keys of published trees.

mod broker;
pub mod chaos;
pub mod compare;
pub mod documents;
pub mod duplicate_calls;
pub mod measure;
mod processes;
mod proxy;
mod servers;

pub use broker::{BrokerClient, EventSubscription};
pub use processes::{ServiceFleet, ServiceRole, binary};
pub use proxy::{FaultCounts, Proxy, ProxyFaults, RequestCounts};
pub use servers::{Login, ServerKind, TestServers};
