//! What a collection holds now.
//!
//! Change records say what was published and removed; snapshots sum them up, so that a listing of 100,000 documents
//! reads one object and a short tail. Documents without a tree come from their claims and the records of failed runs.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stemma_document::{CatalogEntry, Change, ChangeKind, Collection, DocId, DocumentVersion};
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;
use stemma_engine::{FailureRecord, PortError};

use crate::change_log::ChangeCursor;
use crate::{change_log, display_names, pending, snapshot};

/// Change records read one by one before a new snapshot is worth writing.
const SNAPSHOT_THRESHOLD: usize = 1_000;

/// The state of a document, as far as the store alone can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentState {
    /// Claimed; nothing was made of it yet.
    Queued,
    /// Parts of it were made.
    Running,
    /// Its tree is published.
    Done,
    /// Its tree is published and names what is missing.
    DoneWithGaps,
    /// Its last run ended without a tree, and it has none from before.
    Failed,
    /// The job that asked for it was cancelled before it had a tree.
    Cancelled,
}

impl DocumentState {
    /// All states, in the order work passes through them.
    pub const ALL: [DocumentState; 6] = [
        DocumentState::Queued,
        DocumentState::Running,
        DocumentState::Done,
        DocumentState::DoneWithGaps,
        DocumentState::Failed,
        DocumentState::Cancelled,
    ];

    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            DocumentState::Queued => "queued",
            DocumentState::Running => "running",
            DocumentState::Done => "done",
            DocumentState::DoneWithGaps => "done_with_gaps",
            DocumentState::Failed => "failed",
            DocumentState::Cancelled => "cancelled",
        }
    }
}

/// What is known of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum DocumentRecord {
    /// It has a tree.
    Published(Arc<CatalogEntry>),
    /// It was claimed and has no tree.
    Claimed(Box<DocumentVersion>),
}

/// One document of a catalogue.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogDocument {
    /// What is known of it.
    pub record: DocumentRecord,
    /// Its state.
    pub state: DocumentState,
    /// How its last run failed; with a tree from before, the document is still [`DocumentState::Done`].
    pub failure: Option<Box<FailureRecord>>,
    /// What to print for it: unique in the catalogue, and a locator when pasted back.
    pub label: String,
    /// When the tree that is listed was published, in milliseconds since 1970-01-01 UTC by the clock of who published it; `None`
    /// without a tree, and where no record says.
    pub published_ms: Option<Millis>,
}

impl CatalogDocument {
    /// The version that is listed.
    pub fn version(&self) -> &DocumentVersion {
        match &self.record {
            DocumentRecord::Published(entry) => &entry.version,
            DocumentRecord::Claimed(version) => version,
        }
    }

    /// The document.
    pub fn doc(&self) -> DocId {
        self.version().doc
    }

    /// What a listing shows of its tree; `None` when it has none.
    pub fn entry(&self) -> Option<&CatalogEntry> {
        match &self.record {
            DocumentRecord::Published(entry) => Some(entry),
            DocumentRecord::Claimed(_) => None,
        }
    }

    /// The same, to be kept beyond the catalogue.
    pub fn shared_entry(&self) -> Option<&Arc<CatalogEntry>> {
        match &self.record {
            DocumentRecord::Published(entry) => Some(entry),
            DocumentRecord::Claimed(_) => None,
        }
    }

    /// A document with a tree, not yet labelled.
    pub fn from_published(
        entry: Arc<CatalogEntry>,
        failure: Option<Box<FailureRecord>>,
        published_ms: Option<Millis>,
    ) -> Self {
        let state = if entry.gaps.is_empty() {
            DocumentState::Done
        } else {
            DocumentState::DoneWithGaps
        };
        Self {
            record: DocumentRecord::Published(entry),
            state,
            failure,
            label: String::new(),
            published_ms,
        }
    }
}

/// All current documents of a collection, in order of their paths.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    documents: Vec<CatalogDocument>,
    positions: HashMap<DocId, usize>,
}

impl Catalog {
    /// Reads the newest snapshot and the change records after it, and looks for documents without a tree. Where many
    /// records had to be read one by one it leaves a snapshot for the next reader; a reader without the right to write
    /// does without.
    ///
    /// # Errors
    /// [`PortError`] when the store could not say. A record that cannot be read is left out and logged.
    pub async fn load(blobs: &dyn Blobs, collection: &Collection) -> Result<Self, PortError> {
        let (current, _) = LatestChanges::load(blobs, collection).await?;
        let open = pending::find_pending(blobs, collection, &current).await?;
        Ok(Self::from_changes(&current, &open))
    }

    /// A catalogue of these published documents: for readers that have their own source of entries.
    pub fn from_entries(entries: impl IntoIterator<Item = CatalogEntry>) -> Self {
        let mut current = LatestChanges::default();
        for entry in entries {
            current.apply(Change {
                at_ms: 0,
                kind: ChangeKind::Published(Box::new(entry)),
            });
        }
        Self::from_changes(&current, &pending::PendingDocuments::default())
    }

    /// The catalogue of what is current; entries are shared, not copied.
    pub(crate) fn from_changes(current: &LatestChanges, open: &pending::PendingDocuments) -> Self {
        let published = current.latest.iter().filter_map(|(doc, latest)| {
            let failure = open.failures.get(doc).cloned().map(Box::new);
            latest
                .entry
                .clone()
                .map(|entry| CatalogDocument::from_published(entry, failure, latest.published_ms()))
        });
        let superseded = |document: &&CatalogDocument| {
            current
                .latest
                .get(&document.doc())
                .is_some_and(|latest| latest.entry.is_some())
        };
        let mut documents: Vec<CatalogDocument> = published.collect();
        documents.extend(
            open.documents
                .iter()
                .filter(|document| !superseded(document))
                .cloned(),
        );
        documents.sort_by(|a, b| (&a.version().path, a.doc()).cmp(&(&b.version().path, b.doc())));
        display_names::assign_labels(&mut documents);
        let positions = documents
            .iter()
            .enumerate()
            .map(|(at, document)| (document.doc(), at))
            .collect();
        Self {
            documents,
            positions,
        }
    }

    /// The same with only some of the documents, each under the name it has here.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&CatalogDocument) -> bool) -> Self {
        let documents: Vec<CatalogDocument> = self
            .documents
            .iter()
            .filter(|document| keep(document))
            .cloned()
            .collect();
        let positions = documents
            .iter()
            .enumerate()
            .map(|(at, document)| (document.doc(), at))
            .collect();
        Self {
            documents,
            positions,
        }
    }

    /// The documents in order of their paths, then ids.
    pub fn documents(&self) -> &[CatalogDocument] {
        &self.documents
    }

    /// The document with this id.
    pub fn get(&self, doc: DocId) -> Option<&CatalogDocument> {
        self.documents.get(*self.positions.get(&doc)?)
    }
}

/// What change records come to: the latest state of each document.
#[derive(Debug, Clone, Default)]
pub(crate) struct LatestChanges {
    pub(crate) latest: HashMap<DocId, LatestChange>,
    /// Change records this is the sum of.
    pub(crate) changes: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct LatestChange {
    pub(crate) seq: u64,
    /// `None`: a tombstone.
    pub(crate) entry: Option<Arc<CatalogEntry>>,
    /// When its record was written; 0 where that is not known.
    pub(crate) at_ms: Millis,
}

impl LatestChange {
    fn published_ms(&self) -> Option<Millis> {
        (self.at_ms > 0).then_some(self.at_ms)
    }
}

impl LatestChanges {
    /// Sums up the newest snapshot and the records after it.
    pub(crate) async fn load(
        blobs: &dyn Blobs,
        collection: &Collection,
    ) -> Result<(Self, ChangeCursor), PortError> {
        let (mut current, mut mark) = snapshot::load_latest(blobs, collection).await?;
        let tail = change_log::read_since(blobs, collection, &mark, 0).await?;
        let read = tail.len();
        for (name, change) in tail {
            mark.add(name);
            change.into_iter().for_each(|change| current.apply(change));
        }
        if read > SNAPSHOT_THRESHOLD.max(current.latest.len() / 10) {
            snapshot::write_snapshot(blobs, collection, &current, &mark).await;
        }
        Ok((current, mark))
    }

    /// Takes over a change; the highest version number wins, in whatever order records arrive.
    pub(crate) fn apply(&mut self, change: Change) {
        self.changes += 1;
        let at_ms = change.at_ms;
        let (doc, latest) = match change.kind {
            ChangeKind::Published(entry) => (
                entry.version.doc,
                LatestChange {
                    seq: entry.version.seq,
                    entry: Some(Arc::from(entry)),
                    at_ms,
                },
            ),
            ChangeKind::Removed { doc, seq } => (
                doc,
                LatestChange {
                    seq,
                    entry: None,
                    at_ms,
                },
            ),
        };
        match self.latest.get(&doc) {
            Some(known) if known.seq >= latest.seq => {}
            _ => {
                self.latest.insert(doc, latest);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use stemma_document::blob_keys;
    use stemma_engine::blobs::{MemoryBlobs, list_all};

    use super::*;
    use crate::fixtures::entry;

    async fn write_change(blobs: &MemoryBlobs, at_ms: u64, kind: ChangeKind) {
        let key = blob_keys::change_key(&Collection::default(), at_ms, at_ms);
        let json = serde_json::to_vec(&Change { at_ms, kind }).unwrap();
        blobs.put(&key, json.into()).await.unwrap();
    }

    async fn paths(blobs: &MemoryBlobs) -> Vec<String> {
        let catalog = Catalog::load(blobs, &Collection::default()).await.unwrap();
        catalog
            .documents()
            .iter()
            .map(|document| document.version().path.clone())
            .collect()
    }

    #[tokio::test]
    async fn snapshot_equals_its_records_and_late_records_apply() {
        let blobs = MemoryBlobs::default();
        let removed = entry("00000");
        for n in 0..1_200u64 {
            write_change(
                &blobs,
                3_600_000 + n * 1_000,
                ChangeKind::Published(Box::new(entry(&format!("{n:05}")))),
            )
            .await;
        }
        write_change(
            &blobs,
            3_500_000,
            ChangeKind::Removed {
                doc: removed.version.doc,
                seq: 2,
            },
        )
        .await;
        let before = paths(&blobs).await;
        assert_eq!((before.len(), before[0].as_str()), (1_199, "00001"));
        let snapshots = blob_keys::catalog_prefix(&Collection::default());
        assert_eq!(list_all(&blobs, &snapshots).await.unwrap().len(), 1);
        // The old records are not needed any more, and one whose clock was five minutes behind is still seen.
        blobs
            .delete(&blob_keys::change_key(
                &Collection::default(),
                3_600_000,
                3_600_000,
            ))
            .await
            .unwrap();
        write_change(
            &blobs,
            4_799_000 - 300_001,
            ChangeKind::Published(Box::new(entry("late"))),
        )
        .await;
        let catalog = Catalog::load(&blobs, &Collection::default()).await.unwrap();
        let times: Vec<_> = [0, 1_198, 1_199]
            .map(|at| catalog.documents()[at].published_ms)
            .into();
        assert_eq!(
            times,
            [Some(3_601_000), Some(4_799_000), Some(4_799_000 - 300_001)],
            "of snapshot and records"
        );
        let after = paths(&blobs).await;
        assert_eq!(
            (after.len(), after.last().unwrap().as_str()),
            (1_200, "late")
        );
        assert_eq!(after[..1_199], before);
    }

    #[tokio::test]
    async fn damaged_snapshots_and_records_are_skipped() {
        let blobs = MemoryBlobs::default();
        write_change(&blobs, 60_000, ChangeKind::Published(Box::new(entry("a")))).await;
        let snapshot = format!(
            "{}9999999999-000000000009-00000000.zst",
            blob_keys::catalog_prefix(&Collection::default())
        );
        blobs
            .put(&snapshot, bytes::Bytes::from_static(b"torn"))
            .await
            .unwrap();
        let key = blob_keys::change_key(&Collection::default(), 60_001, 1);
        blobs
            .put(&key, bytes::Bytes::from_static(b"{"))
            .await
            .unwrap();
        assert_eq!(paths(&blobs).await, ["a"]);
    }

    #[tokio::test]
    async fn highest_version_wins_in_any_order() {
        let blobs = MemoryBlobs::default();
        let mut second = entry("a");
        second.version.seq = 2;
        second.gaps = vec!["pdf.no_text".into()];
        write_change(&blobs, 60_000, ChangeKind::Published(Box::new(second))).await;
        write_change(&blobs, 120_000, ChangeKind::Published(Box::new(entry("a")))).await;
        let catalog = Catalog::load(&blobs, &Collection::default()).await.unwrap();
        assert_eq!(catalog.documents()[0].state, DocumentState::DoneWithGaps);
    }
}
