//! Finds claims and failures that have no change record.
//!
//! Programs before snapshots of format 3 recorded publications and removals only. A collection that they wrote is walked
//! once; the next snapshot has what was found.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::{Change, ChangeKind, Collection, DocId, DocumentVersion, blob_keys};
use stemma_store::blobs::{Blobs, list_all};
use stemma_store::{FailureRecord, PortResult, RunHeader};

use crate::change_log::list_children;
use crate::store::StoreReader;

const READS_AT_ONCE: usize = 16;

/// The claims and failed runs that are newer than what `current` says of their documents.
pub(crate) async fn unrecorded_changes(
    blobs: &dyn Blobs,
    collection: &Collection,
    current: &StoreReader,
) -> PortResult<Vec<Change>> {
    let ids = list_children(blobs, &blob_keys::documents_prefix(collection), None).await?;
    let docs: Vec<DocId> = ids
        .iter()
        .filter_map(|id| id.trim_end_matches('/').parse().ok())
        .collect();
    let failed = failed_runs(blobs, current).await?;
    let changes = docs.into_iter().map(|doc| {
        let failed = failed.get(&doc).copied();
        document_changes(blobs, collection, doc, current, failed)
    });
    let changes: Vec<Vec<Change>> = stream::iter(changes)
        .buffered(READS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(changes.into_iter().flatten().collect())
}

// The newest failed run of each document, if it is newer than the finished version.
async fn failed_runs(blobs: &dyn Blobs, current: &StoreReader) -> PortResult<BTreeMap<DocId, u64>> {
    let mut failed = BTreeMap::new();
    for run in list_children(blobs, "runs/", None).await? {
        let Some((doc, seq)) = run.trim_end_matches('/').split_once('-') else {
            continue;
        };
        let (Ok(doc), Ok(seq)) = (doc.parse::<DocId>(), seq.parse::<u64>()) else {
            continue;
        };
        if current.changes(doc)?.finished_seq() < seq {
            let newest = failed.entry(doc).or_insert(seq);
            *newest = seq.max(*newest);
        }
    }
    Ok(failed)
}

// A published document counts as open only if it has a failed run, so that its claims need not be listed.
async fn document_changes(
    blobs: &dyn Blobs,
    collection: &Collection,
    doc: DocId,
    current: &StoreReader,
    failed: Option<u64>,
) -> PortResult<Vec<Change>> {
    let mut changes = Vec::new();
    if let Some(seq) = failed
        && let Some(record) = run_failure(blobs, doc, seq).await?
        && let Some(version) =
            read_claim(blobs, &blob_keys::version_key(collection, doc, seq)).await?
        && let Ok(failure) = serde_json::to_value(&record)
    {
        let version = Box::new(version);
        changes.push(Change {
            at_ms: record.at_ms,
            kind: ChangeKind::Failed { version, failure },
        });
    }
    let known = current.changes(doc)?;
    if known.entry().is_some() {
        return Ok(changes);
    }
    // `None` if it was never claimed, or the newest claim is torn or reserved.
    if let Some(version) = newest_claim(blobs, collection, doc).await?
        && version.seq > known.finished_seq()
    {
        changes.push(Change {
            at_ms: 0,
            kind: ChangeKind::Claimed(Box::new(version)),
        });
    }
    Ok(changes)
}

// `None` if only some tasks of the run failed, not the run itself.
async fn run_failure(blobs: &dyn Blobs, doc: DocId, seq: u64) -> PortResult<Option<FailureRecord>> {
    let key = format!("runs/{doc}-{seq}/failed/document.json");
    Ok(blobs
        .get(&key)
        .await?
        .and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// The newest claimed version of a document.
pub async fn newest_claim(
    blobs: &dyn Blobs,
    collection: &Collection,
    doc: DocId,
) -> PortResult<Option<DocumentVersion>> {
    let keys = list_all(blobs, &blob_keys::versions_prefix(collection, doc)).await?;
    match keys.last() {
        Some(key) => read_claim(blobs, key).await,
        None => Ok(None),
    }
}

async fn read_claim(blobs: &dyn Blobs, key: &str) -> PortResult<Option<DocumentVersion>> {
    let bytes = blobs.get(key).await?;
    // A claim stores the header of its run; the run's input is the document version.
    let header: Option<RunHeader> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Ok(header.and_then(|header| serde_json::from_value(header.input).ok()))
}
