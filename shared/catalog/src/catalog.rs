//! The current documents of a collection.
//!
//! They come from the newest snapshot and the change records after it, documents without a tree included, so that listing
//! 100,000 documents reads a few objects and a short tail.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use stemma_document::{CatalogEntry, Change, ChangeKind, Collection, DocId, FilingFacts};
use stemma_engine::PortResult;
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;

pub use crate::document::{CatalogDocument, DocumentRecord, DocumentState};
pub use crate::document_set::{DocumentSet, Documents};
use crate::facets::{
    FacetCounts, FacetField, FacetSelector, Scope, ValueCount, normalize_value, path_below,
};
use crate::filter::Filter;
use crate::latest_changes::LatestChanges;
use crate::ordered_documents::OrderedDocuments;
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

/// What lies directly in a folder.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FolderLevel {
    /// Names, each with the number of documents in it and below it.
    pub folders: Vec<(String, usize)>,
    /// By path, then id.
    pub documents: Vec<Arc<CatalogDocument>>,
}

/// A state of a catalog.
#[derive(Debug, Clone)]
pub struct CatalogState(Catalog);

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

    /// A catalog of the documents in `set`. Labels stay as they are, so that they still resolve in the full catalog.
    ///
    /// # Errors
    /// `PortError` if the catalog cannot be read.
    pub fn restricted(&self, set: &DocumentSet) -> PortResult<Self> {
        let documents: PortResult<Vec<_>> = self.list(set).collect();
        Ok(Self::new(documents?))
    }

    /// Number of this state of a catalog in this process: only clones share it. The empty catalog has 0.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.by_path.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All documents, ordered by path, then id. Each may fail with `PortError` if the catalog cannot be read.
    pub fn documents(&self) -> Documents<'_> {
        Documents::new(self.by_path.shared().cloned().map(Ok))
    }

    /// The document with this id; `None` if it is not listed.
    ///
    /// # Errors
    /// `PortError` if the catalog cannot be read.
    pub fn get(&self, doc: DocId) -> PortResult<Option<Arc<CatalogDocument>>> {
        Ok(self.find(doc).cloned())
    }

    /// The last document, by id, at this path; `None` if there is none.
    ///
    /// # Errors
    /// `PortError` if the catalog cannot be read.
    pub fn at_path(&self, path: &str) -> PortResult<Option<Arc<CatalogDocument>>> {
        let is_before = |document: &CatalogDocument| document.version().path.as_str() <= path;
        let last = self.by_path.last_before(&is_before);
        Ok(last.filter(|last| last.version().path == path).cloned())
    }

    /// All documents as a set.
    ///
    /// # Errors
    /// `PortError` if the catalog cannot be read, as for all sets.
    pub fn all(&self) -> PortResult<DocumentSet> {
        self.set_where(|_| true)
    }

    /// The listed ones of these documents.
    ///
    /// # Errors
    /// As [`Catalog::all`].
    pub fn set_of(&self, docs: impl IntoIterator<Item = DocId>) -> PortResult<DocumentSet> {
        let docs = docs.into_iter().filter(|doc| self.find(*doc).is_some());
        Ok(docs.collect())
    }

    /// The documents whose ids begin with one of these eight bytes, as big-endian numbers.
    ///
    /// # Errors
    /// As [`Catalog::all`].
    pub fn set_of_keys(&self, keys: &BTreeSet<u64>) -> PortResult<DocumentSet> {
        self.set_where(|document| {
            let first = document.doc().as_bytes().first_chunk::<8>().copied();
            first.is_some_and(|bytes| keys.contains(&u64::from_be_bytes(bytes)))
        })
    }

    /// The documents that have a tree.
    ///
    /// # Errors
    /// As [`Catalog::all`].
    pub fn with_tree(&self) -> PortResult<DocumentSet> {
        self.set_where(|document| document.entry().is_some())
    }

    /// The documents of a scope.
    ///
    /// # Errors
    /// As [`Catalog::all`].
    pub fn in_scope(&self, scope: &Scope) -> PortResult<DocumentSet> {
        self.set_where(|document| scope.contains(document))
    }

    /// The documents that match a filter.
    ///
    /// # Errors
    /// As [`Catalog::all`].
    pub fn matching(&self, filter: &Filter) -> PortResult<DocumentSet> {
        self.set_where(|document| filter.matches(document))
    }

    /// The values of a facet among the documents of a set.
    ///
    /// # Errors
    /// As [`Catalog::all`].
    pub fn facet_counts(&self, set: &DocumentSet, facet: FacetField) -> PortResult<FacetCounts> {
        let mut without = 0;
        let mut counts: BTreeMap<String, (BTreeMap<String, usize>, BTreeSet<DocId>)> =
            BTreeMap::new();
        for document in self.list(set) {
            let document = document?;
            let values = facet.values(&document);
            without += usize::from(values.is_empty());
            for value in values {
                let normalized = normalize_value(facet, value);
                let (spellings, docs) = counts.entry(normalized).or_default();
                *spellings.entry(value.to_owned()).or_default() += 1;
                docs.insert(document.doc());
            }
        }
        let values = counts.into_iter().map(|(normalized, (spellings, docs))| {
            let spellings = spellings.into_iter();
            let usual = spellings.max_by(|(a, n), (b, m)| n.cmp(m).then(b.cmp(a)));
            ValueCount {
                normalized,
                value: usual.map(|(value, _)| value).unwrap_or_default(),
                documents: docs.len(),
            }
        });
        Ok(FacetCounts {
            values: values.collect(),
            without,
        })
    }

    /// The folders and documents directly in a folder; empty for all.
    ///
    /// # Errors
    /// As [`Catalog::all`].
    pub fn folder_level(&self, folder: &str) -> PortResult<FolderLevel> {
        let mut folders = BTreeMap::<&str, usize>::new();
        let mut documents = Vec::new();
        for document in self.by_path.shared() {
            match path_below(folder, &document.version().path).map(|rest| rest.split_once('/')) {
                Some(Some((inner, _))) => *folders.entry(inner).or_default() += 1,
                Some(None) => documents.push(Arc::clone(document)),
                None => {}
            }
        }
        let folders = folders.into_iter();
        Ok(FolderLevel {
            folders: folders
                .map(|(name, count)| (name.to_owned(), count))
                .collect(),
            documents,
        })
    }

    /// All folders, each with the number of documents in it and below it; by path.
    ///
    /// # Errors
    /// As [`Catalog::all`].
    pub fn folders(&self) -> PortResult<Vec<(String, usize)>> {
        let mut folders = BTreeMap::<&str, usize>::new();
        for document in self.by_path.shared() {
            let path = document.version().path.as_str();
            for (at, _) in path.match_indices('/') {
                *folders.entry(&path[..at]).or_default() += 1;
            }
        }
        let folders = folders.into_iter();
        Ok(folders
            .map(|(path, count)| (path.to_owned(), count))
            .collect())
    }

    /// The documents whose newest run failed, with an earlier tree or without.
    ///
    /// # Errors
    /// As [`Catalog::all`].
    pub fn with_failure(&self) -> PortResult<DocumentSet> {
        self.set_where(|document| document.failure.is_some())
    }

    /// The documents with a selected value.
    pub(crate) fn with_value(
        &self,
        facet: FacetField,
        selector: &FacetSelector,
    ) -> PortResult<DocumentSet> {
        let filters = vec![(facet, selector.clone())];
        self.in_scope(&Scope {
            filters,
            ..Scope::default()
        })
    }

    /// These documents, and all that share a number of their issuer: filings under a former name, too.
    ///
    /// # Errors
    /// As [`Catalog::all`].
    pub fn of_same_issuers(&self, documents: &[Arc<CatalogDocument>]) -> PortResult<DocumentSet> {
        let identity = |document: &CatalogDocument| {
            let facts = document.entry().map(|entry| &entry.facts);
            facts.map(FilingFacts::issuer_identity).unwrap_or_default()
        };
        let numbers: BTreeSet<String> = documents
            .iter()
            .flat_map(|document| identity(document))
            .collect();
        let own: BTreeSet<DocId> = documents.iter().map(|document| document.doc()).collect();
        self.set_where(|document| {
            own.contains(&document.doc())
                || identity(document).iter().any(|it| numbers.contains(it))
        })
    }

    /// Whether a document is in this folder or below it.
    pub(crate) fn has_folder(&self, folder: &str) -> PortResult<bool> {
        let mut documents = self.by_path.shared();
        Ok(documents.any(|document| path_below(folder, &document.version().path).is_some()))
    }

    fn set_where(&self, keep: impl Fn(&CatalogDocument) -> bool) -> PortResult<DocumentSet> {
        let documents = self.by_path.shared().filter(|document| keep(document));
        Ok(documents.map(|document| document.doc()).collect())
    }

    /// The documents of a set, ordered by path, then id.
    pub fn list<'a>(&'a self, set: &'a DocumentSet) -> Documents<'a> {
        self.list_after(set, None)
    }

    /// As [`Catalog::list`], from the document behind this path and id.
    pub fn list_after<'a>(
        &'a self,
        set: &'a DocumentSet,
        after: Option<(&str, DocId)>,
    ) -> Documents<'a> {
        let is_before = |document: &CatalogDocument| {
            after.is_some_and(|after| (document.version().path.as_str(), document.doc()) <= after)
        };
        let documents = self.by_path.starting_at(&is_before);
        let documents = documents.filter(|document| set.contains(document.doc()));
        Documents::new(documents.cloned().map(Ok))
    }

    /// The ids of the documents of a set, in their order.
    ///
    /// # Errors
    /// As [`Catalog::all`].
    pub fn ids(&self, set: &DocumentSet) -> PortResult<Vec<DocId>> {
        Ok(set.docs().collect())
    }

    pub(crate) fn shared_documents(&self) -> impl Iterator<Item = &Arc<CatalogDocument>> {
        self.by_path.shared()
    }

    pub(crate) fn find(&self, doc: DocId) -> Option<&Arc<CatalogDocument>> {
        self.by_id.find(|document| document.doc().cmp(&doc))
    }

    /// This state of the catalog, to compare later ones with.
    pub fn state(&self) -> CatalogState {
        CatalogState(self.clone())
    }

    /// The documents that may differ between an earlier state and this one; `None` if that is not known.
    ///
    /// # Errors
    /// As [`Catalog::all`].
    pub fn changed_since(&self, earlier: &CatalogState) -> PortResult<Option<BTreeSet<DocId>>> {
        let differences = self.by_id.differences(&earlier.0.by_id);
        Ok(Some(differences.map(|document| document.doc()).collect()))
    }

    /// The version of the tree of a document; `None` without a tree.
    ///
    /// # Errors
    /// As [`Catalog::all`].
    pub fn tree_version(&self, doc: DocId) -> PortResult<Option<u64>> {
        let document = self.get(doc)?;
        Ok(document.and_then(|document| Some(document.entry()?.version.seq)))
    }

    /// The documents of a set that have a tree, with its version.
    pub fn tree_versions<'a>(
        &'a self,
        set: &'a DocumentSet,
    ) -> impl Iterator<Item = PortResult<(DocId, u64)>> + 'a {
        let versions = set.docs().map(|doc| Ok((doc, self.tree_version(doc)?)));
        versions.filter_map(|version: PortResult<(DocId, Option<u64>)>| match version {
            Ok((doc, seq)) => seq.map(|seq| Ok((doc, seq))),
            Err(error) => Some(Err(error)),
        })
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
