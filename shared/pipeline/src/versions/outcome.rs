//! How a run ended, derived from blobs alone.

use serde::{Deserialize, Serialize};
use stemma_document::{Collection, DocId, DocumentVersion, Origin, TreeObject, blob_keys};
use stemma_engine::Ports;
use stemma_engine::message::RunOutcome;
use stemma_store::blobs::Blobs;
use stemma_store::key::run_failure_key;
use stemma_store::{Failure, PortError, PortResult, RunHeader, TaskKey, TaskKeyBuilder, artifact};

use super::run_id;

/// Name and revision of the stages that publish and withdraw. They are here because a publication is looked
/// up by the key of its task, without running the flow.
pub(crate) const PUBLISH: (&str, u32) = ("publish", 1);
pub(crate) const WITHDRAW: (&str, u32) = ("withdraw", 1);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PublishOutcome {
    /// Number of gaps in the tree that are warnings.
    pub(crate) gaps: u32,
}

/// The version that a run processes.
///
/// # Errors
/// A permanent failure if the header cannot be read, or its input is of another run.
pub(crate) fn document_version(run: &RunHeader) -> Result<DocumentVersion, Failure> {
    let invalid = |why: &dyn std::fmt::Display| {
        Failure::permanent("engine.header_invalid", format!("{}: {why}", run.at.header))
    };
    let version: DocumentVersion =
        serde_json::from_value(run.input.clone()).map_err(|error| invalid(&error))?;
    if run_id(version.doc, version.seq) != run.at.run {
        return Err(invalid(&"its input is of another run"));
    }
    Ok(version)
}

pub(crate) fn identify_version(identity: &mut TaskKeyBuilder, doc: DocId, seq: u64) {
    identity.bytes(doc.as_bytes()).number(seq);
}

// `None` while the tree (or tombstone) or the change record of the version may be missing.
async fn publish_outcome(
    ports: &Ports,
    scope: &str,
    version: &DocumentVersion,
) -> PortResult<Option<PublishOutcome>> {
    let (name, revision) = match version.origin {
        Origin::Removed => WITHDRAW,
        _ => PUBLISH,
    };
    let mut identity = TaskKey::builder(name, revision);
    identify_version(&mut identity, version.doc, version.seq);
    let key = identity.finish();
    let outcome = artifact::outcome(&ports.blobs, scope, &key).await?;
    Ok(outcome.and_then(|outcome| serde_json::from_slice(&outcome).ok()))
}

/// How a run ended, derived from blobs alone.
pub(crate) async fn run_outcome(ports: &Ports, run: &RunHeader) -> PortResult<Option<RunOutcome>> {
    let version = document_version(run)
        .map_err(|failure| PortError::permanent("blobs.get", failure.message))?;
    if let Some(PublishOutcome { gaps }) = publish_outcome(ports, &run.at.scope, &version).await? {
        return Ok(Some(if gaps == 0 {
            RunOutcome::Done
        } else {
            RunOutcome::DoneWithGaps(gaps)
        }));
    }
    let key = run_failure_key(&run.at.run);
    let Some(json) = ports.blobs.get(&key).await? else {
        return Ok(None);
    };
    serde_json::from_slice(&json)
        .map(|record| Some(RunOutcome::from_record(record)))
        .map_err(|error| {
            PortError::permanent("blobs.get", format!("{key} cannot be read: {error}"))
        })
}

// Such a version can be tried again: the model may answer this time.
pub(super) async fn has_unanswered_gaps(
    ports: &Ports,
    collection: &Collection,
    run: &RunHeader,
) -> PortResult<bool> {
    let Ok(version) = serde_json::from_value::<DocumentVersion>(run.input.clone()) else {
        return Ok(false);
    };
    let key = blob_keys::tree_key(collection, version.doc, version.seq);
    let json = ports.blobs.get(&key).await?;
    Ok(
        match json.and_then(|json| serde_json::from_slice(&json).ok()) {
            Some(TreeObject::Published(published)) => published
                .tree
                .gaps
                .iter()
                .any(|gap| is_unanswered(&gap.code)),
            Some(TreeObject::Removed) | None => false,
        },
    )
}

// Whether the code of a gap says that a model did not answer. `model.method_failed` does not: the model
// answered, and the method was given up.
fn is_unanswered(code: &str) -> bool {
    code.starts_with("model.") && code.ends_with("_failed") && code != "model.method_failed"
}
