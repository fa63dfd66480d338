//! Chaos: the same documents are ingested twice, once in peace and once under faults that a seed has chosen, and
//! whatever differs is a defect.
//!
//! The model's answers depend on what it is asked alone, so both runs must publish the same bytes. What was asked of it
//! tells whether a reply that a process already had was paid for again.

mod cluster;
mod embedded;
mod plan;
mod report;
mod run;

pub use cluster::cluster;
pub use embedded::embedded;
pub use plan::{Fault, plan};
pub use report::{Demand, Done, Report};

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
    pub pace: f64,
    /// What must come of it.
    pub demand: Demand,
}
