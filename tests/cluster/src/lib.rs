//! Stemma's services as processes over real servers, with everything around them that can fail: for tests of the
//! cluster, which drive the binary as its users do.
//!
//! - [`TestServers`] are RabbitMQ, Redis and S3, started by `tests/services` or named in the environment.
//! - A [`Proxy`] stands before one of them and cuts, delays, refuses or resets.
//! - A [`Provider`](stemma_sim::Provider) plays the models: its replies depend on the request alone. It remembers what
//!   was asked, and [`duplicate_calls`] judges that.
//! - A [`BrokerClient`] is a connection of someone else's to RabbitMQ: of who sends reindex messages and hears events.
//! - A [`ServiceFleet`] is the processes: started, killed, asked to end, watched.
//! - [`chaos`] puts all that together: a run in peace, a run under faults, and what they differ in.
//! - [`measure`] puts it together for figures: limits, scale, rates.
//! - [`documents`] are filings to work on, and [`compare`] says whether two stores hold the same trees.
//!
//! Nothing here knows how Stemma works inside, beyond where a published tree lies.

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
pub use proxy::{FaultCounts, Proxy, ProxyFaults};
pub use servers::{ServerKind, TestServers};
