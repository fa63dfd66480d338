//! The trait of coordinated work: its flow, and how an entry becomes a run.

use async_trait::async_trait;
use stemma_store::failure::FailureRecord;
use stemma_store::key::RunHeader;
use stemma_store::port_error::PortResult;

use crate::message::RunOutcome;
use crate::ports::Ports;
use crate::replay::{FlowStop, Replay};
use crate::stage::Work;

pub use crate::jobs::{JobEntry, JobManifest, JobOptions, MaxFailed};

/// Result of a finished flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowOutput {
    /// Number of gaps recorded in the result.
    pub gaps: u32,
}

/// Result of claiming an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// A run: new, or still open from an earlier submission of the same version.
    Run(RunHeader),
    /// The open run of an older version: the entry is claimed again when it has ended.
    After(RunHeader),
    /// Nothing to do.
    Ended(RunOutcome),
}

/// A state of a run without a result.
#[derive(Debug, Clone)]
pub enum RunState {
    /// It was claimed and is open.
    Claimed,
    /// It failed or was cancelled.
    Failed(Box<FailureRecord>),
}

/// A run and a state to record of it.
#[derive(Debug, Clone)]
pub struct RunRecord {
    pub run: RunHeader,
    pub state: RunState,
}

/// Work that a coordinator can drive.
#[async_trait]
pub trait Flow: Work {
    /// Increased when the flow changes; coordinators leave runs of a newer revision alone.
    const REVISION: u32;

    /// The flow: deterministic code that reads outcomes from `replay` (I-4).
    ///
    /// # Errors
    /// [`FlowStop`] when outcomes are missing or a failure ends the run.
    fn flow(replay: &mut Replay<'_, Self>, run: &RunHeader) -> Result<FlowOutput, FlowStop>;

    /// Claims the version that an entry names, create-only. Must return the same run when called again after a crash.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when a port is unavailable; the entry is claimed again later.
    async fn claim(ports: &Ports, job: &JobManifest, entry: &JobEntry) -> PortResult<ClaimOutcome>;

    /// How a run ended, from the blobs alone; `None` while it is open.
    async fn run_outcome(ports: &Ports, run: &RunHeader) -> PortResult<Option<RunOutcome>>;

    /// Records states for those who list the work; by default, no one does. A claim is recorded after it is stored and a
    /// failure before, again whenever that is repeated, so that a crash loses no record. Coordinators record many at once.
    ///
    /// # Errors
    /// [`stemma_store::PortError`] when a port is unavailable; the states are recorded again later.
    async fn record_states(_ports: &Ports, _records: &[RunRecord]) -> PortResult<()> {
        Ok(())
    }
}
