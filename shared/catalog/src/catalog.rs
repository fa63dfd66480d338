//! The current documents of a collection.
//!
//! They come from the newest snapshot and the change records after it, documents without a tree included. They are stored in
//! tables, on disk or in memory, and read when they are asked for: a catalog takes the same memory for any number of them.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use roaring::RoaringBitmap;
use stemma_document::DocId;
use stemma_store::PortResult;

pub use crate::document::{CatalogDocument, DocumentRecord, DocumentState};
pub use crate::document_set::{DocumentSet, Documents};
use crate::store::{CatalogStore, StoreReader};

/// All current documents of a collection, ordered by path, then id. It stays as it is while it is held. Clones share their
/// memory.
#[derive(Debug, Clone)]
pub struct Catalog {
    reader: Arc<StoreReader>,
    // The documents of a restricted catalog.
    only: Option<Arc<RoaringBitmap>>,
    store: u64,
    id: u64,
}

/// A state of a catalog, to compare later ones with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogState {
    store: u64,
    sequence: u64,
}

/// What lies directly in a folder.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FolderLevel {
    /// Names, each with the number of documents in it and below it.
    pub folders: Vec<(String, usize)>,
    /// By path, then id.
    pub documents: Vec<Arc<CatalogDocument>>,
}

impl Catalog {
    /// The present state of a store.
    pub(crate) fn from_store(store: &CatalogStore) -> PortResult<Self> {
        Ok(Self {
            reader: Arc::new(store.reader()?),
            only: None,
            store: store.id(),
            id: next_id(),
        })
    }

    /// A catalog of the documents in `set`. Labels stay as they are, so that they still resolve in the full catalog.
    #[must_use]
    pub fn restricted(&self, set: &DocumentSet) -> Self {
        let numbers = match &self.only {
            Some(only) => &set.numbers & only.as_ref(),
            None => set.numbers.clone(),
        };
        Self {
            reader: Arc::clone(&self.reader),
            only: Some(Arc::new(numbers)),
            store: self.store,
            id: next_id(),
        }
    }

    /// Number of this state of a catalog in this process: only clones share it.
    pub fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn reader(&self) -> &StoreReader {
        &self.reader
    }

    pub fn len(&self) -> usize {
        let len = match &self.only {
            Some(only) => only.len(),
            None => self.reader.state.listed,
        };
        usize::try_from(len).unwrap_or(usize::MAX)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All documents, ordered by path, then id. Each may fail with `PortError` if the catalog cannot be read.
    pub fn documents(&self) -> Documents<'_> {
        match self.all() {
            Ok(all) => Documents::from_set(self, all),
            Err(error) => Documents::failed(self, error),
        }
    }

    /// The document with this id; `None` if it is not listed.
    pub fn get(&self, doc: DocId) -> PortResult<Option<Arc<CatalogDocument>>> {
        match self.reader.number(doc)? {
            Some(number) => self.read(number),
            None => Ok(None),
        }
    }

    // The document of a number, if it is listed here.
    pub(crate) fn read(&self, number: u32) -> PortResult<Option<Arc<CatalogDocument>>> {
        if self
            .only
            .as_ref()
            .is_some_and(|only| !only.contains(number))
        {
            return Ok(None);
        }
        Ok(self.reader.document(number)?.map(Arc::new))
    }

    /// The last document, by id, at this path; `None` if there is none.
    pub fn at_path(&self, path: &str) -> PortResult<Option<Arc<CatalogDocument>>> {
        for number in self.reader.at_path(path)?.into_iter().rev() {
            if let Some(document) = self.read(number)? {
                return Ok(Some(document));
            }
        }
        Ok(None)
    }

    // The listed ones of these numbers.
    pub(crate) fn listed(&self, numbers: RoaringBitmap) -> DocumentSet {
        DocumentSet::new(match &self.only {
            Some(only) => numbers & only.as_ref(),
            None => numbers,
        })
    }

    pub fn all(&self) -> PortResult<DocumentSet> {
        match &self.only {
            Some(only) => Ok(DocumentSet::new(only.as_ref().clone())),
            None => Ok(DocumentSet::new(self.reader.all()?.as_ref().clone())),
        }
    }

    /// The listed ones of these documents.
    pub fn set_of(&self, docs: impl IntoIterator<Item = DocId>) -> PortResult<DocumentSet> {
        let mut numbers = RoaringBitmap::new();
        for doc in docs {
            numbers.extend(self.reader.number(doc)?);
        }
        // Removed documents have a number, too.
        numbers &= self.reader.all()?.as_ref();
        Ok(self.listed(numbers))
    }

    /// The documents whose ids begin with one of these eight bytes, as big-endian numbers.
    pub fn set_of_keys(&self, keys: &BTreeSet<u64>) -> PortResult<DocumentSet> {
        let mut numbers = RoaringBitmap::new();
        for key in keys {
            let from = u128::from(*key) << 64;
            numbers.extend(
                self.reader
                    .numbers_between(from, from | u128::from(u64::MAX))?,
            );
        }
        numbers &= self.reader.all()?.as_ref();
        Ok(self.listed(numbers))
    }

    pub fn with_tree(&self) -> PortResult<DocumentSet> {
        Ok(self.listed(self.reader.with_tree()?.as_ref().clone()))
    }

    /// The documents that have a tree and whose ids, as big-endian numbers, lie in a range.
    pub fn with_tree_between(&self, ids: RangeInclusive<u128>) -> PortResult<DocumentSet> {
        let with_tree = self.with_tree()?;
        if ids == (0..=u128::MAX) {
            return Ok(with_tree);
        }
        let numbers = self.reader.numbers_between(*ids.start(), *ids.end())?;
        let between: RoaringBitmap = numbers.into_iter().collect();
        Ok(DocumentSet::new(with_tree.numbers & between))
    }

    /// The ids of the documents of a set, in their order.
    pub fn ids(&self, set: &DocumentSet) -> PortResult<Vec<DocId>> {
        let mut docs = Vec::with_capacity(set.len());
        for number in &set.numbers {
            docs.extend(self.reader.version(number)?.map(|(doc, _)| doc));
        }
        docs.sort_unstable();
        Ok(docs)
    }

    pub fn state(&self) -> CatalogState {
        CatalogState {
            store: self.store,
            sequence: self.reader.state.sequence,
        }
    }

    /// The documents that changed, or were removed, since an earlier state; `None` if that is not known.
    pub fn changed_since(&self, earlier: &CatalogState) -> PortResult<Option<BTreeSet<DocId>>> {
        if earlier.store != self.store || earlier.sequence > self.reader.state.sequence {
            return Ok(None);
        }
        let changed = self.reader.changed_after(earlier.sequence)?;
        Ok(Some(changed.into_iter().collect()))
    }

    /// The version of the tree of a document; `None` without a tree.
    pub fn tree_version(&self, doc: DocId) -> PortResult<Option<u64>> {
        let Some(number) = self.reader.number(doc)? else {
            return Ok(None);
        };
        if self
            .only
            .as_ref()
            .is_some_and(|only| !only.contains(number))
        {
            return Ok(None);
        }
        let version = self.reader.version(number)?;
        Ok(version.map(|(_, seq)| seq).filter(|seq| *seq > 0))
    }

    /// The documents of a set that have a tree, with its version.
    pub fn tree_versions<'a>(
        &'a self,
        set: &'a DocumentSet,
    ) -> impl Iterator<Item = PortResult<(DocId, u64)>> + 'a {
        let versions = set.numbers.iter().map(|number| self.reader.version(number));
        versions.filter_map(|version| match version {
            Ok(version) => version.filter(|(_, seq)| *seq > 0).map(Ok),
            Err(error) => Some(Err(error)),
        })
    }
}

fn next_id() -> u64 {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    NEXT_ID.fetch_add(1, atomic::Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use stemma_document::{Change, ChangeKind, Collection, blob_keys};
    use stemma_store::blobs::{Blobs, MemoryBlobs, list_all};
    use stemma_store::env::Millis;

    use super::*;
    use crate::fixtures::{self, entry};

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
        let documents = catalog.documents();
        documents
            .map(|document| document.unwrap().version().path.clone())
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
        let documents = fixtures::documents(&catalog);
        let times: Vec<_> = [0, 1_198, 1_199]
            .map(|at| documents[at].published_ms)
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
        assert_eq!(
            fixtures::documents(&catalog)[0].state,
            DocumentState::DoneWithGaps
        );
    }
}
