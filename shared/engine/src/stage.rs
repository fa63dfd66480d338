//! Stages: a struct that is the input of a task, with one async `run`.

use std::any::type_name;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use stemma_store::artifact;
use stemma_store::env::Millis;
use stemma_store::failure::Failure;
use stemma_store::key::{Priority, RunHeader, RunId, RunRef, TaskKey, TaskKeyBuilder};
use stemma_store::port_error::PortError;

use crate::ports::Ports;
use crate::queue::Lane;

/// A kind of work: the types its stages share.
pub trait Work: Sized + Send + Sync + 'static {
    /// Everything that changes results: prompts, models, thresholds. Frozen under its digest at submission.
    type Settings: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Dependencies of stages other than the ports, e.g. clients. Local to the process, never part of a key.
    type Tools: Send + Sync + 'static;

    /// Where the header and the artifacts of a run are, by its id and by the collection that `scope` names; `None` if no run
    /// has this id. Messages and headers that say anything else are refused.
    fn run_ref(run: &RunId, scope: &str) -> Option<RunRef>;
}

/// A step of the work. [`Stage::identity`] says what it reads; its serialized form says where to find that. The latter
/// travels in the message (at most 4 KiB) and is not part of the key.
#[async_trait]
pub trait Stage: Serialize + DeserializeOwned + Send + Sync + 'static {
    type Work: Work;
    /// The part of the result that the flow needs: counts, digests, titles, spans, verdicts.
    type Outcome: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// A verb; also its name in metrics, logs and keys.
    const NAME: &'static str;
    /// Increased when the same input would give another result.
    const REVISION: u32;
    const LANE: Lane;
    /// Time limit of one attempt.
    const DEADLINE: Duration = Duration::from_secs(600);

    /// Adds everything the result depends on: content digests of what it reads, and the settings it uses.
    fn identity(&self, settings: &<Self::Work as Work>::Settings, identity: &mut TaskKeyBuilder);

    /// Does the work. Called again after any failure; all side effects must go through `task` (I-7).
    ///
    /// # Errors
    /// A [`Failure`] whose kind decides what happens next.
    async fn run(&self, task: &TaskContext<'_, Self::Work>) -> StageResult<Self::Outcome>;

    fn key(&self, settings: &<Self::Work as Work>::Settings) -> TaskKey {
        let mut identity = TaskKey::builder(Self::NAME, Self::REVISION);
        self.identity(settings, &mut identity);
        identity.finish()
    }
}

/// Result of a stage.
pub type StageResult<O> = Result<StageOutput<O>, Failure>;

/// Output of a stage: an outcome for the flow, and blobs for other stages.
pub struct StageOutput<O> {
    /// At most [`artifact::MAX_OUTCOME_BYTES`] as JSON.
    pub outcome: O,
    /// Named blobs stored in the artifact.
    pub blobs: Vec<(&'static str, Bytes)>,
    /// Separate objects by blob key, written create-only together with the artifact: usage records, for example. No
    /// stage reads them.
    pub records: Vec<(String, Bytes)>,
}

impl<O> StageOutput<O> {
    pub fn new(outcome: O, blobs: Vec<(&'static str, Bytes)>) -> Self {
        Self {
            outcome,
            blobs,
            records: Vec::new(),
        }
    }

    /// Adds records: blob keys and contents.
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

/// Context of a running stage.
pub struct TaskContext<'a, W: Work> {
    pub run: &'a RunRef,
    pub key: TaskKey,
    /// Body of the message that brought this task. Publishing it again wakes a task that waits.
    pub message: &'a Bytes,
    pub priority: Priority,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// When the attempt began. The artifact of the task did not exist then.
    pub began_ms: Millis,
    pub settings: &'a W::Settings,
    pub tools: &'a W::Tools,
    pub ports: &'a Ports,
}

impl<W: Work> TaskContext<'_, W> {
    /// Loads the header of the run.
    ///
    /// # Errors
    /// Throttled (not counted) when the store is unavailable, permanent when the header is missing or invalid.
    pub async fn header(&self) -> Result<RunHeader, Failure> {
        let loaded = RunHeader::load(&self.ports.blobs, self.run).await?;
        loaded.map_err(|error| Failure::permanent(error.code(), error.to_string()))
    }

    /// Loads the outcome of another task in the same scope.
    ///
    /// # Errors
    /// As [`Self::blob`].
    pub async fn outcome(&self, key: &TaskKey) -> Result<Bytes, Failure> {
        let outcome = artifact::outcome(&self.ports.blobs, &self.run.scope, key).await;
        outcome.map_err(artifact_failure)?.ok_or_else(|| {
            Failure::input_missing("engine.artifact_missing", format!("no artifact {key}"))
        })
    }

    /// Loads a blob from the artifact of another task in the same scope.
    ///
    /// # Errors
    /// Throttled (not counted) when the store is unavailable, [`FailureKind::InputMissing`] when the blob is missing or
    /// torn, transient when a newer program wrote the artifact.
    ///
    /// [`FailureKind::InputMissing`]: stemma_store::failure::FailureKind::InputMissing
    pub async fn blob(&self, key: &TaskKey, name: &str) -> Result<Bytes, Failure> {
        let blob = artifact::blob(&self.ports.blobs, &self.run.scope, key, name).await;
        blob.map_err(artifact_failure)?.ok_or_else(|| {
            Failure::input_missing(
                "engine.blob_missing",
                format!("no blob `{name}` in artifact {key}"),
            )
        })
    }
}

// Another worker may be able to read the artifact. If none is, the run ends after the usual attempts.
pub(crate) fn artifact_failure(error: PortError) -> Failure {
    if error.is_permanent() {
        Failure::transient("engine.artifact_unreadable", error.message)
            .with_next("upgrade the workers, then run the failed documents again")
    } else {
        error.into()
    }
}

/// The stages that a worker can run.
pub struct StageRegistry<W: Work>(BTreeMap<&'static str, Arc<dyn AnyStage<W>>>);

impl<W: Work> Default for StageRegistry<W> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<W: Work> StageRegistry<W> {
    /// Adds a stage.
    #[must_use]
    pub fn with_stage<S: Stage<Work = W>>(mut self) -> Self {
        self.0
            .insert(S::NAME, Arc::new(TypedStage::<S>(std::marker::PhantomData)));
        self
    }

    /// The stage of this name and revision, if the worker has it.
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

/// A stage with its types erased.
#[async_trait]
pub(crate) trait AnyStage<W: Work>: Send + Sync {
    fn revision(&self) -> u32;
    fn lane(&self) -> Lane;
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

    fn lane(&self) -> Lane {
        S::LANE
    }

    fn deadline(&self) -> Duration {
        S::DEADLINE
    }

    async fn run(
        &self,
        payload: &serde_json::value::RawValue,
        task: &TaskContext<'_, W>,
    ) -> Result<artifact::Artifact, Failure> {
        let stage: S =
            serde_json::from_str(payload.get()).map_err(|error| invalid_payload::<S>(&error))?;
        let output = stage.run(task).await?;
        let outcome =
            serde_json::to_vec(&output.outcome).map_err(|error| invalid_payload::<S>(&error))?;
        Ok(artifact::Artifact::new(&outcome, &output.blobs)?.with_records(output.records))
    }
}

fn invalid_payload<S: Stage>(error: &serde_json::Error) -> Failure {
    let message = format!("{} for {}: {error}", S::NAME, type_name::<S>());
    Failure::permanent("engine.payload_invalid", message)
}
