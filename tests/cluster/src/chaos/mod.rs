//! Chaos tests: ingest the same documents twice, once without faults and once under faults chosen by a seed. Any
//! difference is a defect.
//!
//! Replies of the model depend on the request alone, so both runs must publish the same bytes. The requests show
//! whether a reply that a process already had was paid for again.

mod cluster;
mod cluster_faults;
mod embedded;
mod fault_plan;
mod report;
mod run;

pub use cluster::run_cluster;
pub use embedded::run_embedded;
pub use fault_plan::{ChaosFault, fault_plan};
pub use report::{ChaosReport, InjectedFault, Requirements};

/// A chaos run.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Chooses the documents, the faults and their order.
    pub seed: u64,
    /// Number of documents.
    pub documents: u64,
    /// Approximate pages per document.
    pub pages: u32,
    /// Approximate seconds between two faults.
    pub fault_interval: f64,
    /// Whether other work keeps every core busy during the faults.
    pub busy: bool,
    /// Concurrent model calls of one worker of a cluster.
    pub calls_per_worker: usize,
    pub requirements: Requirements,
}
