//! Chaos: the same documents are ingested twice, once in peace and once under faults that a seed has chosen, and
//! whatever differs is a defect.
//!
//! The model's answers depend on what it is asked alone, so both runs must publish the same bytes. What was asked of it
//! tells whether a reply that a process already had was paid for again.

mod cluster;
mod embedded;
mod fault_plan;
mod report;
mod run;

pub use cluster::run_cluster;
pub use embedded::run_embedded;
pub use fault_plan::{ChaosFault, fault_plan};
pub use report::{ChaosReport, InjectedFault, Requirements};

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Chooses the documents, the faults and their order.
    pub seed: u64,
    /// Documents.
    pub documents: u64,
    /// Pages of each, about.
    pub pages: u32,
    /// Seconds between two faults, about.
    pub fault_interval: f64,
    /// What must come of it.
    pub requirements: Requirements,
}
