//! What a kind of work must say to be coordinated: its flow, and how a submitted entry becomes a run.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::env::Env;
use crate::key::RunHeader;
use crate::message::Ending;
use crate::port::PortError;
use crate::ports::Ports;
use crate::replay::{Replay, Stop};
use crate::stage::Work;

/// One thing a job asks for: opaque to the engine but for its size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEntry {
    /// Estimated work, in tokens or any one unit: fairness between collections is measured in it.
    pub weight: u64,
    /// What the work's [`Flow::claim`] reads.
    pub input: serde_json::Value,
}

/// What a job asks for, and under which settings. Written once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The job's name.
    pub job: crate::key::JobId,
    /// The tenant.
    pub collection: String,
    /// Digest of the settings.
    pub settings: String,
    /// Who waits.
    pub class: crate::key::Class,
    /// Number of entries; they lie in chunks under `jobs/{job}/entries/`.
    pub entries: u64,
    /// When it was submitted.
    pub submitted_ms: crate::env::Millis,
}

/// How a flow came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finish {
    /// Gaps recorded in the result.
    pub gaps: u32,
}

/// What became of a submitted entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// A run: new, or open since an earlier submission of the same version.
    Run(RunHeader),
    /// Nothing to do.
    Ended(Ending),
}

/// Work that a coordinator can drive.
#[async_trait]
pub trait Flow: Work {
    /// Raised when the flow changes; a coordinator leaves runs of a newer flow alone.
    const REVISION: u32;

    /// The flow: deterministic, reads top to bottom, asks `replay` for outcomes (I-4).
    ///
    /// # Errors
    /// [`Stop`] when outcomes are missing or a failure ends the run.
    fn flow(replay: &mut Replay<'_, Self>, run: &RunHeader) -> Result<Finish, Stop>;

    /// Claims the version an entry names, create-only, or says that there is nothing to do. Asked again after a crash,
    /// it must give the same run.
    ///
    /// # Errors
    /// [`PortError`] when a port is away: the entry is claimed later.
    async fn claim(env: &Env, ports: &Ports, job: &Manifest, entry: &JobEntry) -> Result<Claim, PortError>;

    /// How a run ended, from the blobs alone; `None` while it has not.
    ///
    /// # Errors
    /// [`PortError`] when a port is away.
    async fn ending(env: &Env, ports: &Ports, run: &RunHeader) -> Result<Option<Ending>, PortError>;
}
