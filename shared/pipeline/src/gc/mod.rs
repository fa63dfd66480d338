//! Garbage collection: finds objects that neither a readable tree nor an open run needs.
//!
//! It retains the last two trees of each document with their text and correction, every claim, all objects of a document
//! whose newest claim has no tree yet, and everything that became superfluous less than seven days ago. That
//! moment comes from change records and job reports, because stores do not tell the age of an object. Model
//! answers stay as long as their document: trees do not record which answers they used, and answers cost
//! money. Ended jobs go as a whole after a time of their own.
//!
//! What is found may be needed again before it is removed: a document is submitted once more, and its run reuses what is
//! there. [`DocumentGarbage::remove`] therefore looks for new claims right before it deletes.

mod documents;
mod failures;
mod jobs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use stemma_document::{Change, ChangeKind, Collection, DocId, blob_keys};
use stemma_engine::PortResult;
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;

pub use documents::DocumentGarbage;
pub use jobs::JobGarbage;

/// How long an object stays after it became superfluous.
pub const GRACE_MS: Millis = 7 * DAY_MS;
/// How long an ended job stays, unless said otherwise: a quarter, for whoever asks what happened to a document.
pub const JOB_RETENTION_DAYS: u64 = 90;
const DAY_MS: Millis = 24 * 3_600_000;
const MAX_CONCURRENT_READS: usize = 32;
const MAX_CONCURRENT_DELETES: usize = 16;

/// An object that can be deleted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GarbageObject {
    pub key: String,
    /// One of `superseded tree`, `superseded text`, `superseded correction`, `removed document`, `superseded failure`, `ended job`.
    pub reason: &'static str,
}

// When each version was published or removed, by version number; `true` means removed.
type DocumentHistory = BTreeMap<u64, (Millis, bool)>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GarbageReport {
    pub documents: Vec<DocumentGarbage>,
    pub jobs: Vec<JobGarbage>,
    /// Failures of runs that a later version superseded.
    pub failures: Vec<GarbageObject>,
    /// When a document of the collection was last removed.
    pub removed_ms: Option<Millis>,
}

impl GarbageReport {
    pub fn objects(&self) -> impl Iterator<Item = &GarbageObject> {
        let documents = self.documents.iter().flat_map(|garbage| &garbage.objects);
        let jobs = self.jobs.iter().flat_map(|garbage| &garbage.objects);
        documents.chain(jobs).chain(&self.failures)
    }
}

/// Finds the garbage of a collection as of `now_ms`. Deletes nothing. Ended jobs stay for `job_retention_ms`.
pub async fn find_garbage(
    blobs: &dyn Blobs,
    collection: &Collection,
    now_ms: Millis,
    job_retention_ms: Millis,
) -> PortResult<GarbageReport> {
    let histories = load_histories(blobs, collection).await?;
    let removals = histories
        .values()
        .flat_map(BTreeMap::values)
        .filter(|(_, removed)| *removed);
    let removed_ms = removals.map(|(at_ms, _)| *at_ms).max();
    let failures = failures::superseded(blobs, &histories, now_ms).await?;
    let documents = stream::iter(histories)
        .map(|(doc, history)| documents::find(blobs, collection, doc, history, now_ms))
        .buffered(MAX_CONCURRENT_READS)
        .try_filter_map(async |garbage| Ok(garbage))
        .try_collect()
        .await?;
    let jobs = jobs::find(blobs, collection, now_ms, job_retention_ms).await?;
    Ok(GarbageReport {
        documents,
        jobs,
        failures,
        removed_ms,
    })
}

/// Deletes objects, many at once.
///
/// # Errors
/// [`stemma_engine::PortError`] of the first deletion that failed.
pub async fn delete_all(
    blobs: &dyn Blobs,
    objects: impl IntoIterator<Item = &GarbageObject>,
) -> PortResult<()> {
    stream::iter(objects)
        .map(|garbage| blobs.delete(&garbage.key))
        .buffer_unordered(MAX_CONCURRENT_DELETES)
        .try_collect()
        .await
}

async fn load_histories(
    blobs: &dyn Blobs,
    collection: &Collection,
) -> PortResult<BTreeMap<DocId, DocumentHistory>> {
    const PAGE: usize = 1_000;
    let prefix = blob_keys::changes_prefix(collection);
    let mut histories: BTreeMap<DocId, DocumentHistory> = BTreeMap::new();
    let mut after: Option<String> = None;
    loop {
        let page = blobs.list(&prefix, after.as_deref(), PAGE).await?;
        let Some(last) = page.last().cloned() else {
            return Ok(histories);
        };
        after = Some(last);
        let mut changes = stream::iter(page)
            .map(async |key: String| blobs.get(&key).await)
            .buffered(MAX_CONCURRENT_READS);
        while let Some(json) = changes.try_next().await? {
            let changes = json.iter().flat_map(|json| Change::decode_record(json));
            for change in changes.flatten() {
                record_change(&mut histories, &change);
            }
        }
    }
}

fn record_change(histories: &mut BTreeMap<DocId, DocumentHistory>, change: &Change) {
    let removed = match change.kind {
        ChangeKind::Published(_) => false,
        ChangeKind::Removed { .. } => true,
        ChangeKind::Claimed(_) | ChangeKind::Failed { .. } => return,
    };
    let (doc, seq) = change.kind.version();
    // A crash between tree and record publishes twice. The later record counts, so that nothing is
    // deleted too early.
    let recorded = histories
        .entry(doc)
        .or_default()
        .entry(seq)
        .or_insert((change.at_ms, removed));
    recorded.0 = recorded.0.max(change.at_ms);
}

fn is_past_grace(at_ms: Millis, now_ms: Millis) -> bool {
    at_ms + GRACE_MS < now_ms
}
