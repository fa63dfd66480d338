//! Stages: a struct that is the task's input, and one async `run`.

use std::any::type_name;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::artifact;
use crate::env::Env;
use crate::failure::Failure;
use crate::key::{Priority, RunHeader, RunRef, TaskKey, TaskKeyBuilder};
use crate::port_error::{PortError, with_retry};
use crate::ports::Ports;
use crate::queue::Lane;

/// The largest outcome in bytes of JSON: it travels through the ledger.
pub const MAX_OUTCOME_BYTES: usize = 64 * 1024;

/// A kind of work: what its stages share. The engine knows nothing else about it.
pub trait Work: Sized + Send + Sync + 'static {
    /// What changes results: prompts, models, thresholds. Frozen at submission under its digest.
    type Settings: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What stages use to touch the world, beside the ports: local, never part of a key.
    type Tools: Send + Sync + 'static;
}

/// A step of the work. The struct is its input: [`Stage::builder`] says what it reads, and its serialized form is the
/// locator: where to fetch that, which travels in the message (at most 4 KiB) and is no part of the key.
#[async_trait]
pub trait Stage: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The work it belongs to.
    type Work: Work;
    /// What the flow reads of the result: counts, digests, titles, spans, verdicts.
    type Outcome: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// A verb; also its metric, log and key name.
    const NAME: &'static str;
    /// Raised when the same input would give another result.
    const REVISION: u32;
    /// Who runs it.
    const LANE: Lane;
    /// How long one attempt may take.
    const DEADLINE: Duration = Duration::from_secs(600);

    /// Writes everything the result depends on: content digests of what it reads, and the settings it uses.
    fn identity(&self, settings: &<Self::Work as Work>::Settings, identity: &mut TaskKeyBuilder);

    /// Does the work. Called again after any failure; must touch the world only through `task` (I-7).
    ///
    /// # Errors
    /// A [`Failure`] of the kind that says what should happen next.
    async fn run(
        &self,
        task: &TaskContext<'_, Self::Work>,
    ) -> Result<StageOutput<Self::Outcome>, Failure>;

    /// The key of this task.
    fn key(&self, settings: &<Self::Work as Work>::Settings) -> TaskKey {
        let mut identity = TaskKey::builder(Self::NAME, Self::REVISION);
        self.identity(settings, &mut identity);
        identity.finish()
    }
}

/// What a stage made: an outcome for the flow, blobs for other stages.
pub struct StageOutput<O> {
    /// At most [`MAX_OUTCOME_BYTES`] as JSON.
    pub outcome: O,
    /// Named blobs beside it.
    pub blobs: Vec<(&'static str, Bytes)>,
    /// Objects of their own under blob keys of their own, written create-only at the same time: what the work cost, never
    /// what another stage reads.
    pub records: Vec<(String, Bytes)>,
}

impl<O> StageOutput<O> {
    /// An outcome with blobs beside it.
    pub fn new(outcome: O, blobs: Vec<(&'static str, Bytes)>) -> Self {
        Self {
            outcome,
            blobs,
            records: Vec::new(),
        }
    }

    /// The same with more records: blob keys and objects.
    #[must_use]
    pub fn with_records(mut self, records: Vec<(String, Bytes)>) -> Self {
        self.records.extend(records);
        self
    }
}

impl<O> From<O> for StageOutput<O> {
    fn from(outcome: O) -> Self {
        Self::new(outcome, Vec::new())
    }
}

/// What a running stage sees of the world.
pub struct TaskContext<'a, W: Work> {
    /// The run it is for.
    pub run: &'a RunRef,
    /// Its key.
    pub key: TaskKey,
    /// Who waits for it.
    pub class: Priority,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The settings of the run.
    pub settings: &'a W::Settings,
    /// The tools of this worker.
    pub tools: &'a W::Tools,
    /// The ports.
    pub ports: &'a Ports,
    /// Time, randomness, spawning.
    pub env: &'a Env,
}

impl<W: Work> TaskContext<'_, W> {
    /// The header of the run.
    ///
    /// # Errors
    /// Throttled (not counted) when the store is away, permanent when the header cannot be read.
    pub async fn header(&self) -> Result<RunHeader, Failure> {
        let bytes = with_retry(self.env, || self.ports.blobs.get(&self.run.header)).await?;
        serde_json::from_slice(&bytes.ok_or_else(|| {
            Failure::permanent(
                "engine.header_missing",
                format!("no run header at {}", self.run.header),
            )
        })?)
        .map_err(|error| {
            Failure::permanent(
                "engine.header_invalid",
                format!("{}: {error}", self.run.header),
            )
        })
    }

    /// A blob of another task of the same subject.
    ///
    /// # Errors
    /// Throttled (not counted) when the store is away, permanent when the blob is not there or torn.
    pub async fn blob(&self, key: &TaskKey, name: &str) -> Result<Bytes, Failure> {
        let scope = &self.run.scope;
        let bytes = with_retry(self.env, || {
            artifact::blob(self.ports.blobs.as_ref(), scope, key, name)
        })
        .await?;
        bytes.ok_or_else(|| {
            Failure::permanent(
                "engine.blob_missing",
                format!("no blob `{name}` in artifact {key}"),
            )
        })
    }
}

/// How long a task waits for a port that was away.
const PORT_RETRY_DELAY: Duration = Duration::from_secs(5);

impl From<PortError> for Failure {
    /// A port that is away is no one's attempt: an outage of an hour must not fail a document.
    fn from(error: PortError) -> Self {
        let message = error.to_string();
        if error.transient {
            Failure::throttled("engine.port", message, PORT_RETRY_DELAY)
        } else {
            let next = "see that the store has space and may be written, then run the failed documents again";
            Failure::permanent("engine.port", message).with_next(next)
        }
    }
}

/// The stages a worker can run.
pub struct StageRegistry<W: Work>(BTreeMap<&'static str, Arc<dyn AnyStage<W>>>);

impl<W: Work> Default for StageRegistry<W> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<W: Work> StageRegistry<W> {
    /// The same with one more stage.
    #[must_use]
    pub fn with_stage<S: Stage<Work = W>>(mut self) -> Self {
        self.0
            .insert(S::NAME, Arc::new(TypedStage::<S>(std::marker::PhantomData)));
        self
    }

    /// The stage of this name at this revision, if this worker has it.
    pub(crate) fn get(&self, name: &str, revision: u32) -> Option<&dyn AnyStage<W>> {
        self.0
            .get(name)
            .map(AsRef::as_ref)
            .filter(|stage| stage.revision() == revision)
    }

    /// Name → revision of every stage, for provenance.
    pub fn revisions(&self) -> BTreeMap<String, u32> {
        self.0
            .iter()
            .map(|(name, stage)| ((*name).to_string(), stage.revision()))
            .collect()
    }
}

/// A stage without its types.
#[async_trait]
pub(crate) trait AnyStage<W: Work>: Send + Sync {
    fn revision(&self) -> u32;
    fn deadline(&self) -> Duration;
    async fn run(
        &self,
        payload: &serde_json::value::RawValue,
        task: &TaskContext<'_, W>,
    ) -> Result<artifact::Artifact, Failure>;
}

struct TypedStage<S>(std::marker::PhantomData<fn() -> S>);

#[async_trait]
impl<W: Work, S: Stage<Work = W>> AnyStage<W> for TypedStage<S> {
    fn revision(&self) -> u32 {
        S::REVISION
    }

    fn deadline(&self) -> Duration {
        S::DEADLINE
    }

    async fn run(
        &self,
        payload: &serde_json::value::RawValue,
        task: &TaskContext<'_, W>,
    ) -> Result<artifact::Artifact, Failure> {
        let invalid = |error: serde_json::Error| {
            Failure::permanent(
                "engine.payload_invalid",
                format!("{} for {}: {error}", S::NAME, type_name::<S>()),
            )
        };
        let stage: S = serde_json::from_str(payload.get()).map_err(invalid)?;
        let output = stage.run(task).await?;
        let outcome = serde_json::to_vec(&output.outcome).map_err(invalid)?;
        Ok(artifact::Artifact::new(&outcome, &output.blobs)?.with_records(output.records))
    }
}
