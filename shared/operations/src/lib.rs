//! Jobs, processes and failures: what they do, why something waits, and how to act on it.
//!
//! [`Operations`] is the one way to all of it: `stemma status`, `why`, `failures` and `job`, the routes under `/v1/jobs`, and the
//! pages for operators print, return and render the same values.
//!
//! ```no_run
//! # async fn example(operations: stemma_operations::Operations) -> Result<(), stemma_operations::OperationsError> {
//! let report = operations.why("nightly-2026-11-21").await?;
//! # Ok(()) }
//! ```
//!
//! It reads records, heartbeats and queues, never a model, and it submits nothing itself.

mod checks;
mod cluster_status;
mod control;
mod error;
mod failures;
mod health;
mod job_list;
mod job_status;
mod operations;
mod recent;
mod retry;
mod stage_funnel;
pub mod text;
mod timeline;
mod why;

pub use checks::{CheckReport, HealthCheck, InstallationChecks};
pub use cluster_status::{ClusterStatus, LaneSummary, ModelSummary, ProcessStatus, StageWork};
pub use control::ControlRequest;
pub use error::OperationsError;
pub use failures::{FailedRun, FailureReasonCount, JobFailures};
pub use health::{HEALTH_TIMEOUT, HealthReport, UnreachablePart};
pub use job_list::{JobList, JobListRequest};
pub use job_status::{JobProblem, JobStatus, Spending};
pub use operations::{Operations, StoreWriter};
pub use retry::{FailureFilter, RetryCandidate};
pub use stage_funnel::{StageFunnel, StageLoad};
pub use stemma_engine::dead_letter::{DeadLetter, ReplayOutcome};
pub use stemma_engine::diagnosis::{Cause, Diagnosis};
pub use stemma_engine::jobs::{JobManifest, PauseReason};
pub use stemma_store::spend::JobBudget;
pub use stemma_store::{JobId, PortError, Priority};
pub use timeline::{RunTimeline, TaskTimeline};
pub use why::WhyReport;
