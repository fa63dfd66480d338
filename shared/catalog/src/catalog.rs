//! The current documents of a collection.
//!
//! They come from the newest snapshot and the change records after it, documents without a tree included, so that listing
//! 100,000 documents reads a few objects and a short tail.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use stemma_document::{CatalogEntry, Change, ChangeKind, Collection, DocId};
use stemma_engine::PortResult;
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;

pub use crate::document::{CatalogDocument, DocumentRecord, DocumentState};
use crate::latest_changes::LatestChanges;
pub use crate::ordered_documents::{Documents, OrderedDocuments};
use crate::started_runs::StartedRuns;
use crate::{display_names, snapshot};

/// All current documents of a collection, ordered by path, then id. Clones, and the catalogs before and after a
/// publication, share their memory.
#[derive(Debug, Clone)]
pub struct Catalog {
    by_path: OrderedDocuments,
    by_id: OrderedDocuments,
    id: u64,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            by_path: OrderedDocuments::from_sorted(&[], by_path),
            by_id: OrderedDocuments::from_sorted(&[], by_id),
            id: 0,
        }
    }
}

impl Catalog {
    /// Loads the newest snapshot and later change records, and looks up which open runs have begun. If the tail of records
    /// was long, it also writes a new snapshot; without write access that step is skipped.
    ///
    /// # Errors
    /// `PortError` if the blob store fails. Unreadable records are skipped and logged.
    pub async fn load(
        blobs: &dyn Blobs,
        collection: &Collection,
        now_ms: Millis,
    ) -> PortResult<Self> {
        let (current, _) = snapshot::load_current(blobs, collection, now_ms).await?;
        let mut started = StartedRuns::default();
        started.refresh(blobs, collection, &current).await?;
        Ok(Self::from_changes(&current, &started))
    }

    /// Builds a catalog of published documents from other sources than change records.
    pub fn from_entries(entries: impl IntoIterator<Item = CatalogEntry>) -> Self {
        let mut current = LatestChanges::default();
        for entry in entries {
            current.apply(Change {
                at_ms: 0,
                kind: ChangeKind::Published(Box::new(entry)),
            });
        }
        Self::from_changes(&current, &StartedRuns::default())
    }

    // Entries are shared with `current`, not copied.
    pub(crate) fn from_changes(current: &LatestChanges, started: &StartedRuns) -> Self {
        let documents = current.latest.iter().filter_map(|(doc, changes)| {
            let open = changes.open.as_ref();
            let has_started = open.is_some_and(|open| started.contains(*doc, open.claim.seq));
            CatalogDocument::from_changes(changes, has_started)
        });
        let mut documents: Vec<CatalogDocument> = documents.collect();
        documents.sort_by(by_path);
        display_names::assign_labels(&mut documents);
        Self::new(documents.into_iter().map(Arc::new).collect())
    }

    // From documents ordered by path.
    fn new(mut documents: Vec<Arc<CatalogDocument>>) -> Self {
        let sorted_by_path = OrderedDocuments::from_sorted(&documents, by_path);
        documents.sort_by_key(|document| document.doc());
        Self {
            by_path: sorted_by_path,
            by_id: OrderedDocuments::from_sorted(&documents, by_id),
            id: next_id(),
        }
    }

    /// A catalog of the documents that satisfy `keep`. Labels stay as they are, so that they still resolve in the full
    /// catalog.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&CatalogDocument) -> bool) -> Self {
        let documents = self.by_path.shared().filter(|document| keep(document));
        Self::new(documents.cloned().collect())
    }

    /// Number of this state of a catalog in this process: only clones share it. The empty catalog has 0.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// All documents, ordered by path, then id.
    pub fn documents(&self) -> &OrderedDocuments {
        &self.by_path
    }

    pub fn get(&self, doc: DocId) -> Option<&CatalogDocument> {
        self.by_id
            .find(|document| document.doc().cmp(&doc))
            .map(Arc::as_ref)
    }

    /// The documents that may differ between an older catalog and this one: those of the blocks that the two do not share.
    pub fn changed_since(&self, older: &Self) -> BTreeSet<DocId> {
        let differences = self.by_id.differences(&older.by_id);
        differences.map(|document| document.doc()).collect()
    }

    // Inserts a document, or replaces the one with its id.
    pub(crate) fn insert(&mut self, document: Arc<CatalogDocument>) {
        self.remove(document.doc());
        self.by_path.insert(Arc::clone(&document));
        self.by_id.insert(document);
    }

    pub(crate) fn remove(&mut self, doc: DocId) -> Option<Arc<CatalogDocument>> {
        let old = Arc::clone(self.by_id.find(|document| document.doc().cmp(&doc))?);
        self.by_path.remove(&old);
        self.by_id.remove(&old);
        Some(old)
    }

    /// Makes this another state than its clones.
    pub(crate) fn renumber(&mut self) {
        self.id = next_id();
    }
}

fn next_id() -> u64 {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    NEXT_ID.fetch_add(1, atomic::Ordering::Relaxed)
}

fn by_path(a: &CatalogDocument, b: &CatalogDocument) -> Ordering {
    (&a.version().path, a.doc()).cmp(&(&b.version().path, b.doc()))
}

fn by_id(a: &CatalogDocument, b: &CatalogDocument) -> Ordering {
    a.doc().cmp(&b.doc())
}

#[cfg(test)]
pub(crate) mod tests {
    use stemma_document::blob_keys;
    use stemma_engine::blobs::{MemoryBlobs, list_all};

    use super::*;
    use crate::fixtures::entry;

    const NOW_MS: Millis = 1_700_000_000_000;

    async fn write_change(blobs: &MemoryBlobs, at_ms: u64, kind: ChangeKind) {
        let key = blob_keys::change_key(&Collection::default(), at_ms, at_ms);
        let json = serde_json::to_vec(&Change { at_ms, kind }).unwrap();
        blobs.put(&key, json.into()).await.unwrap();
    }

    async fn paths(blobs: &MemoryBlobs) -> Vec<String> {
        let catalog = Catalog::load(blobs, &Collection::default(), NOW_MS)
            .await
            .unwrap();
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
        assert_eq!(before.len(), 1_199);
        assert_eq!(before[0], "00001");
        let snapshots = blob_keys::catalog_prefix(&Collection::default());
        let manifests = |key: &&String| key.ends_with(".json");
        let keys = list_all(&blobs, &snapshots).await.unwrap();
        assert_eq!(keys.iter().filter(manifests).count(), 1);
        // Records in the snapshot are no longer needed, and a record of a clock five minutes behind is still found.
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
        let catalog = Catalog::load(&blobs, &Collection::default(), NOW_MS)
            .await
            .unwrap();
        let times: Vec<_> = [0, 1_198, 1_199]
            .map(|at| catalog.documents()[at].published_ms)
            .into();
        assert_eq!(
            times,
            [Some(3_601_000), Some(4_799_000), Some(4_799_000 - 300_001)],
            "times come from the snapshot and from the records"
        );
        let after = paths(&blobs).await;
        assert_eq!(after.len(), 1_200);
        assert_eq!(after.last().unwrap(), "late");
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
        let catalog = Catalog::load(&blobs, &Collection::default(), NOW_MS)
            .await
            .unwrap();
        assert_eq!(catalog.documents()[0].state, DocumentState::DoneWithGaps);
    }
}
