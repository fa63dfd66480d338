//! Artifacts that only superseded versions used.
//!
//! Trees do not list the artifacts that they were made of. The flow of each version that stays is therefore replayed over
//! what is stored, and tells which artifacts it reads. Where that is not certain, all artifacts of the document stay: a
//! version is open, or of another revision of the flow, or its settings cannot be read.

use std::collections::BTreeSet;

use stemma_document::{DocId, TreeObject, blob_keys};
use stemma_engine::reached_tasks::reached_tasks;
use stemma_store::blobs::list_all;
use stemma_store::key::run_failure_key;
use stemma_store::{PortResult, TaskKey};

use super::GarbageObject;
use super::documents::DocumentSearch;
use super::history::DocumentHistory;
use crate::FilingFlow;
use crate::versions::Claim;

/// Reason to remove artifacts that no remaining version has read.
pub(super) const SUPERSEDED_ARTIFACT: &str = "superseded artifact";

/// The versions of a document that stay.
pub(super) struct RetainedVersions<'a> {
    pub(super) claims: BTreeSet<u64>,
    pub(super) trees: BTreeSet<u64>,
    pub(super) history: &'a DocumentHistory,
}

impl RetainedVersions<'_> {
    // Whether a version without a tree is known to have ended before the newest was claimed, whose failure may be removed.
    fn is_past(&self, seq: u64) -> bool {
        self.history.has_ended(seq) && self.claims.last().is_some_and(|newest| seq < *newest)
    }
}

/// The artifacts that none of these versions has read.
pub(super) async fn find_unused(
    search: DocumentSearch<'_>,
    doc: DocId,
    retained: &RetainedVersions<'_>,
) -> PortResult<Vec<GarbageObject>> {
    let mut used = BTreeSet::new();
    for seq in retained.claims.union(&retained.trees) {
        match artifacts_of(search, doc, *seq, retained).await? {
            Some(artifacts) => used.extend(artifacts),
            None => return Ok(Vec::new()),
        }
    }
    let prefix = format!("{}/a/", blob_keys::document_scope(search.collection, doc));
    let mut keys = list_all(search.blobs, &prefix).await?;
    // Copies of torn artifacts and their marks are named after them.
    keys.retain(|key| {
        let name = key[prefix.len()..].split('.').next();
        let artifact = name.and_then(|name| name.parse::<TaskKey>().ok());
        artifact.is_some_and(|artifact| !used.contains(&artifact))
    });
    let unused = keys
        .into_iter()
        .map(|key| GarbageObject::new(key, SUPERSEDED_ARTIFACT));
    Ok(unused.collect())
}

// What a version has read; `None` if that is not certain, or if it may go on reading.
async fn artifacts_of(
    search: DocumentSearch<'_>,
    doc: DocId,
    seq: u64,
    retained: &RetainedVersions<'_>,
) -> PortResult<Option<BTreeSet<TaskKey>>> {
    let DocumentSearch {
        blobs, collection, ..
    } = search;
    let key = blob_keys::version_key(collection, doc, seq);
    let claim = blobs.get(&key).await?;
    let Some(claim) = claim.and_then(|json| serde_json::from_slice::<Claim>(&json).ok()) else {
        return Ok(None);
    };
    let Some(run) = claim.into_run() else {
        return Ok(Some(BTreeSet::new())); // a tombstone, or an imported tree
    };
    let has_tree = retained.trees.contains(&seq);
    if !has_tree && !retained.is_past(seq) {
        let failure = run_failure_key(&run.at.run);
        if blobs.size(&failure).await?.is_none() {
            return Ok(None);
        }
    }
    let Some(settings) = search.settings.load(blobs, &run.settings).await? else {
        return Ok(None);
    };
    let reached = reached_tasks::<FilingFlow>(blobs, &run, &settings, has_tree).await?;
    match reached {
        Some(reached) if has_tree => with_text(search, doc, seq, reached).await,
        reached => Ok(reached),
    }
}

// Adds the text that the tree names: readers need it whatever the flow says. `None` if the tree cannot be read.
async fn with_text(
    search: DocumentSearch<'_>,
    doc: DocId,
    seq: u64,
    mut reached: BTreeSet<TaskKey>,
) -> PortResult<Option<BTreeSet<TaskKey>>> {
    let key = blob_keys::tree_key(search.collection, doc, seq);
    let tree = search.blobs.get(&key).await?;
    match tree.and_then(|json| serde_json::from_slice(&json).ok()) {
        Some(TreeObject::Published(tree)) => reached.extend(tree.text_artifact.parse::<TaskKey>()),
        Some(TreeObject::Removed) => {}
        None => return Ok(None),
    }
    Ok(Some(reached))
}
