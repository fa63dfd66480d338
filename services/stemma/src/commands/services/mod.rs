//! `stemma coordinator | worker | assembler | query`: the services of a cluster, any number of each.

mod assembler;
mod coordinator;
mod host;
mod query;
mod serve;
mod worker;

pub use assembler::AssemblerArgs;
pub use coordinator::CoordinatorArgs;
pub use host::serve_health;
pub use query::QueryArgs;
pub use serve::ServeArgs;
pub use worker::WorkerArgs;
pub use {
    assembler::run as assembler, coordinator::run as coordinator, query::run as query,
    serve::run as serve, worker::run as worker,
};

use std::net::SocketAddr;

/// Options of every service.
#[derive(Debug, clap::Args)]
pub struct ServiceArgs {
    /// Address for /livez, /readyz and /metrics; port 0 picks a free port.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,
}
