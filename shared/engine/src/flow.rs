//! What a kind of work must say to be coordinated: its flow, and how a submitted entry becomes a run.

use async_trait::async_trait;

use crate::env::Env;
use crate::key::RunHeader;
use crate::message::RunOutcome;
use crate::port_error::PortError;
use crate::ports::Ports;
use crate::replay::{FlowStop, Replay};
use crate::stage::Work;

pub use crate::jobs::{JobEntry, JobManifest, JobOptions, MaxFailed};

/// How a flow came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowOutput {
    /// Gaps recorded in the result.
    pub gaps: u32,
}

/// What became of a submitted entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// A run: new, or open since an earlier submission of the same version.
    Run(RunHeader),
    /// Nothing to do.
    Ended(RunOutcome),
}

/// Work that a coordinator can drive.
#[async_trait]
pub trait Flow: Work {
    /// Raised when the flow changes; a coordinator leaves runs of a newer flow alone.
    const REVISION: u32;

    /// The flow: deterministic, reads top to bottom, asks `replay` for outcomes (I-4).
    ///
    /// # Errors
    /// [`FlowStop`] when outcomes are missing or a failure ends the run.
    fn flow(replay: &mut Replay<'_, Self>, run: &RunHeader) -> Result<FlowOutput, FlowStop>;

    /// Claims the version an entry names, create-only, or says that there is nothing to do. Asked again after a crash,
    /// it must give the same run.
    ///
    /// # Errors
    /// [`PortError`] when a port is away: the entry is claimed later.
    async fn claim(
        env: &Env,
        ports: &Ports,
        job: &JobManifest,
        entry: &JobEntry,
    ) -> Result<ClaimOutcome, PortError>;

    /// How a run ended, from the blobs alone; `None` while it has not.
    ///
    /// # Errors
    /// [`PortError`] when a port is away.
    async fn run_outcome(
        env: &Env,
        ports: &Ports,
        run: &RunHeader,
    ) -> Result<Option<RunOutcome>, PortError>;
}
