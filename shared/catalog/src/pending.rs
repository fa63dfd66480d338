//! Documents without a published tree: queued, running, failed or cancelled.

use std::collections::{BTreeMap, HashMap};

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::{Collection, DocId, DocumentVersion, blob_keys};
use stemma_engine::blobs::{Blobs, list_all};
use stemma_engine::{FailureRecord, PortResult, RunHeader};

use crate::change_log::list_children;
use crate::document::{CatalogDocument, DocumentRecord, DocumentState};
use crate::latest_changes::LatestChanges;

const READS_AT_ONCE: usize = 16;

/// Documents and failures that have no change record yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PendingDocuments {
    pub(crate) documents: Vec<CatalogDocument>,
    // Failure of the newest run, by document with a published tree.
    pub(crate) failures: HashMap<DocId, FailureRecord>,
}

/// Finds claims without a tree, and failed runs newer than the published tree.
pub(crate) async fn find_pending(
    blobs: &dyn Blobs,
    collection: &Collection,
    current: &LatestChanges,
) -> PortResult<PendingDocuments> {
    let ids = list_children(blobs, &blob_keys::documents_prefix(collection), None).await?;
    let docs: Vec<DocId> = ids
        .iter()
        .filter_map(|id| id.trim_end_matches('/').parse().ok())
        .collect();
    let failed = failed_runs(blobs, current).await?;
    let (with_tree, without): (Vec<DocId>, Vec<DocId>) =
        docs.into_iter().partition(|doc| current.is_published(*doc));
    let open = without
        .into_iter()
        .map(|doc| pending_document(blobs, collection, doc, current, failed.get(&doc).copied()));
    let documents = stream::iter(open)
        .buffered(READS_AT_ONCE)
        .try_filter_map(|document| async { Ok(document) });
    let documents = documents.try_collect().await?;
    let mut failures = HashMap::new();
    for doc in with_tree {
        if let Some(&seq) = failed.get(&doc)
            && let Some(record) = run_failure(blobs, doc, seq).await?
        {
            failures.insert(doc, record);
        }
    }
    Ok(PendingDocuments {
        documents,
        failures,
    })
}

// The newest failed run of each document, if it is newer than the published version.
async fn failed_runs(
    blobs: &dyn Blobs,
    current: &LatestChanges,
) -> PortResult<BTreeMap<DocId, u64>> {
    let mut failed = BTreeMap::new();
    for run in list_children(blobs, "runs/", None).await? {
        let Some((doc, seq)) = run.trim_end_matches('/').split_once('-') else {
            continue;
        };
        let (Ok(doc), Ok(seq)) = (doc.parse::<DocId>(), seq.parse::<u64>()) else {
            continue;
        };
        if current
            .latest
            .get(&doc)
            .is_none_or(|latest| latest.seq < seq)
        {
            let newest = failed.entry(doc).or_insert(seq);
            *newest = seq.max(*newest);
        }
    }
    Ok(failed)
}

// `None` if only some tasks of the run failed, not the run itself.
async fn run_failure(blobs: &dyn Blobs, doc: DocId, seq: u64) -> PortResult<Option<FailureRecord>> {
    let key = format!("runs/{doc}-{seq}/failed/document.json");
    Ok(blobs
        .get(&key)
        .await?
        .and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

// `None` if the document was removed since, or never claimed.
async fn pending_document(
    blobs: &dyn Blobs,
    collection: &Collection,
    doc: DocId,
    current: &LatestChanges,
    failed: Option<u64>,
) -> PortResult<Option<CatalogDocument>> {
    let Some(version) = newest_claim(blobs, collection, doc).await? else {
        return Ok(None);
    };
    if current
        .latest
        .get(&doc)
        .is_some_and(|latest| latest.seq >= version.seq)
    {
        return Ok(None);
    }
    let failure = match failed {
        Some(seq) if seq == version.seq => run_failure(blobs, doc, seq).await?,
        _ => None,
    };
    let artifacts = format!("{}/a/", blob_keys::document_scope(collection, doc));
    let state = if let Some(record) = &failure {
        if record.is_cancelled() {
            DocumentState::Cancelled
        } else {
            DocumentState::Failed
        }
    } else if blobs.children(&artifacts, None, 1).await?.is_empty() {
        DocumentState::Queued
    } else {
        DocumentState::Running
    };
    let record = DocumentRecord::Claimed(Box::new(version));
    let failure = failure.map(Box::new);
    Ok(Some(CatalogDocument {
        record,
        state,
        failure,
        label: String::new(),
        published_ms: None,
    }))
}

/// The newest claimed version of a document.
///
/// # Errors
/// `PortError` if the blob store fails.
pub async fn newest_claim(
    blobs: &dyn Blobs,
    collection: &Collection,
    doc: DocId,
) -> PortResult<Option<DocumentVersion>> {
    let keys = list_all(blobs, &blob_keys::versions_prefix(collection, doc)).await?;
    let Some(key) = keys.last() else {
        return Ok(None);
    };
    let bytes = blobs.get(key).await?;
    // A claim stores the header of its run; the run's input is the document version.
    let header: Option<RunHeader> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Ok(header.and_then(|header| serde_json::from_value(header.input).ok()))
}
