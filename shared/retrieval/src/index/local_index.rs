//! The index of one process: what searches read, brought up to a catalogue.
//!
//! An update works on the files of one folder, under its lock; a search reads the [`IndexCommit`] of the last commit, which
//! does not change under it. Where another process on this machine has the lock, its commits are read.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use stemma_document::{CatalogEntry, Collection, DocId};
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;
use tantivy::Searcher;
use tokio::sync::watch;

use super::doc_mapper::DocMapper;
use super::folder::{DocumentVersions, IndexFolder, IndexGeneration, IndexLock};
use super::snapshot::{SnapshotManifest, SnapshotUpload, Snapshots};
use super::sync::{self, BATCH, CatalogDiff, CommitReport};
use super::{IndexError, run_blocking};
use stemma_catalog::catalog::Catalog;
use stemma_catalog::document_store::DocumentStore;

/// Documents from which on fetching a snapshot is tried before they are entered one by one.
const FETCH_THRESHOLD: usize = 500;

/// One commit of the index: consistent, and as it is for as long as it is held.
pub struct IndexCommit {
    /// Reads it.
    pub searcher: Searcher,
    versions: Arc<DocumentVersions>,
    /// The number of the commit, in its generation.
    opstamp: u64,
    number: u64,
}

impl IndexCommit {
    /// The version of a document that it holds. A hit in another version than the catalogue lists is stale.
    pub fn version(&self, doc: DocId) -> Option<u64> {
        self.versions.get(&doc).copied()
    }

    /// Its number, in this process: what is entered or removed changes it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Documents in it.
    pub fn documents(&self) -> usize {
        self.versions.len()
    }

    /// Entries in it.
    pub fn entries(&self) -> u64 {
        self.searcher.num_docs()
    }
}

/// How far an update came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// Documents entered.
    pub indexed: usize,
    /// Entries they became.
    pub entries: u64,
    /// Documents removed.
    pub removed: usize,
    /// Documents that cannot be read.
    pub unreadable: usize,
    /// Documents still lacking: another process is at work, or the store is away.
    pub missing: usize,
    /// Whether the index that was there could not be read, and was made again.
    pub is_rebuilt: bool,
    /// Bytes fetched from a snapshot.
    pub fetched_bytes: u64,
}

impl SyncReport {
    fn add(&mut self, entered: &CommitReport, removed: usize) {
        self.removed += removed;
        self.indexed += entered.indexed.len();
        self.entries += entered.entries;
        self.unreadable += entered.unreadable.len();
        self.missing += entered.unavailable;
    }
}

/// The index of a collection in this process.
pub struct LocalIndex {
    folder: IndexFolder,
    mapper: Arc<DocMapper>,
    pub(super) snapshots: Snapshots,
    store: Arc<dyn DocumentStore>,
    open: RwLock<Option<(IndexGeneration, Arc<IndexCommit>)>>,
    /// Versions of documents that could not be read; they are not tried again.
    unreadable: Mutex<HashMap<DocId, u64>>,
    write_lock: tokio::sync::Mutex<()>,
    /// Whether a search could not read it.
    is_corrupt: AtomicBool,
    /// Editions shown so far.
    commit_sender: watch::Sender<u64>,
}

/// Told how many documents are left.
pub type OnProgress<'a> = &'a (dyn Fn(usize) + Send + Sync);

impl LocalIndex {
    /// The index below `cache`, of what `shelf` opens. Reads nothing yet.
    pub fn new(
        cache: &Path,
        blobs: Arc<dyn Blobs>,
        collection: &Collection,
        store: Arc<dyn DocumentStore>,
        mapper: Arc<DocMapper>,
    ) -> Self {
        Self {
            folder: IndexFolder::new(cache, collection, Arc::clone(&mapper)),
            snapshots: Snapshots::new(blobs, collection, mapper.revision),
            mapper,
            store: store,
            open: RwLock::new(None),
            unreadable: Mutex::default(),
            write_lock: tokio::sync::Mutex::default(),
            is_corrupt: AtomicBool::new(false),
            commit_sender: watch::Sender::new(0),
        }
    }

    /// The last commit this process knows; `None` before [`LocalIndex::open`] found one.
    pub fn current_commit(&self) -> Option<Arc<IndexCommit>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(|(_, commit)| Arc::clone(commit))
    }

    /// Hears of editions.
    pub fn commit_sender(&self) -> watch::Receiver<u64> {
        self.commit_sender.subscribe()
    }

    /// Where it lies.
    pub fn folder(&self) -> &IndexFolder {
        &self.folder
    }

    /// Its snapshots in the store.
    pub fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.open_generation()
            .map_or(0, |generation| generation.bytes())
    }

    /// Names of files that were altered since they were written; opens the index and reads all of it.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] when that cannot be told.
    pub async fn corrupt_files(&self) -> Result<Vec<String>, IndexError> {
        self.open().await?;
        let Some(generation) = self.open_generation() else {
            return Ok(Vec::new());
        };
        run_blocking(move || generation.corrupt_files()).await
    }

    /// Opens what lies in the folder, without looking whether it is up to date: milliseconds.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] when it cannot be read; [`LocalIndex::sync`] makes it again.
    pub async fn open(&self) -> Result<Option<Arc<IndexCommit>>, IndexError> {
        let folder = self.folder.clone();
        let Some(generation) = run_blocking(move || folder.open()).await? else {
            return Ok(None);
        };
        self.publish(generation, None).await.map(Some)
    }

    /// Enters what `catalog` has and the index has not; `heard` is told after each commit how many documents are left.
    /// Every commit is shown to searches. A damaged index is made again.
    ///
    /// # Errors
    /// [`IndexError`] when the store or the disk could not; what was committed stays.
    pub async fn sync(
        &self,
        catalog: &Catalog,
        on_progress: OnProgress<'_>,
    ) -> Result<SyncReport, IndexError> {
        let _writing = self.write_lock.lock().await;
        let is_corrupt = self.is_corrupt.swap(false, Ordering::Relaxed);
        match self.try_sync(catalog, is_corrupt, on_progress).await {
            Err(IndexError::Damaged(message)) => {
                tracing::warn!(message, "the index cannot be read and is made again");
                self.try_sync(catalog, true, on_progress).await
            }
            done => done,
        }
    }

    /// Says that a search could not read the index: the next update makes it again.
    pub fn mark_corrupt(&self) {
        self.is_corrupt.store(true, Ordering::Relaxed);
    }

    async fn try_sync(
        &self,
        catalog: &Catalog,
        remake: bool,
        on_progress: OnProgress<'_>,
    ) -> Result<SyncReport, IndexError> {
        let mut report = SyncReport {
            is_rebuilt: remake,
            ..SyncReport::default()
        };
        if !remake {
            report.missing = self.diff(catalog).await?.len();
            if report.missing == 0 && self.current_commit().is_some() {
                return Ok(report);
            }
        }
        let Some(lock) = self.folder.lock()? else {
            self.open().await?;
            report.missing = self.diff(catalog).await?.len();
            return Ok(report);
        };
        let generation = self
            .generation_to_write(&lock, &mut report, catalog)
            .await?;
        report.missing = 0;
        self.apply_diff(&generation, catalog, report, on_progress)
            .await
    }

    /// The generation that is there, one made of a snapshot where that saves work, or an empty one.
    async fn generation_to_write(
        &self,
        lock: &IndexLock,
        report: &mut SyncReport,
        catalog: &Catalog,
    ) -> Result<IndexGeneration, IndexError> {
        let current = if report.is_rebuilt {
            None
        } else {
            self.current_generation().await?
        };
        if let Some(current) = &current
            && self.diff(catalog).await?.add.len() < FETCH_THRESHOLD
        {
            return Ok(current.clone());
        }
        if let Some(newest) = self.snapshots.newest().await?
            && let Some((generation, bytes)) =
                self.fetch_snapshot(lock, &newest, current.as_ref()).await?
        {
            report.fetched_bytes = bytes;
            return Ok(generation);
        }
        match current {
            Some(current) => Ok(current),
            None => self.new_generation(lock).await,
        }
    }

    async fn apply_diff(
        &self,
        generation: &IndexGeneration,
        catalog: &Catalog,
        mut report: SyncReport,
        on_progress: OnProgress<'_>,
    ) -> Result<SyncReport, IndexError> {
        let CatalogDiff { add, mut remove } = self.diff(catalog).await?;
        let total = add.len() + remove.len();
        let mut remaining = total;
        let alone: &[Arc<CatalogEntry>] = &[];
        let batches = if add.is_empty() && !remove.is_empty() {
            vec![alone]
        } else {
            add.chunks(BATCH).collect()
        };
        for batch in batches {
            let removed = std::mem::take(&mut remove);
            let entered = sync::apply_diff(
                generation,
                &self.mapper,
                self.store.as_ref(),
                batch,
                &removed,
                total,
            )
            .await?;
            self.publish(generation.clone(), Some((&entered, &removed)))
                .await?;
            remaining -= batch.len() + removed.len();
            report.add(&entered, removed.len());
            self.unreadable
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(entered.unreadable);
            on_progress(remaining);
        }
        Ok(report)
    }

    /// The generation that is there, as it is now: another process may have written to it, or replaced it.
    async fn current_generation(&self) -> Result<Option<IndexGeneration>, IndexError> {
        let open = self
            .open
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some((generation, commit)) = open
            && self.folder.is_current(&generation)
            && generation.opstamp()? == commit.opstamp
        {
            return Ok(Some(generation));
        }
        self.open().await?;
        Ok(self.open_generation())
    }

    /// The generation that is read.
    pub(super) fn open_generation(&self) -> Option<IndexGeneration> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(|(generation, _)| generation.clone())
    }

    /// What the last commit lacks, also one of another process.
    async fn diff(&self, catalog: &Catalog) -> Result<CatalogDiff, IndexError> {
        let Some(commit) = (match self.current_commit() {
            Some(commit) => Some(commit),
            None => self.open().await?,
        }) else {
            return Ok(
                self.without_unreadable(CatalogDiff::between(&DocumentVersions::new(), catalog))
            );
        };
        Ok(self.without_unreadable(CatalogDiff::between(&commit.versions, catalog)))
    }

    /// Without what could not be read before.
    fn without_unreadable(&self, mut difference: CatalogDiff) -> CatalogDiff {
        let unreadable = self
            .unreadable
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_unreadable = |entry: &Arc<CatalogEntry>| {
            unreadable.get(&entry.version.doc) == Some(&entry.version.seq)
        };
        difference.add.retain(|entry| !is_unreadable(entry));
        difference
    }

    /// A generation made of a snapshot; `None` when it cannot be used, or `near` was made of it.
    async fn fetch_snapshot(
        &self,
        lock: &IndexLock,
        (seq, manifest): &(u64, SnapshotManifest),
        near: Option<&IndexGeneration>,
    ) -> Result<Option<(IndexGeneration, u64)>, IndexError> {
        if near.is_some_and(|near| near.origin() == Some(*seq)) {
            return Ok(None);
        }
        let room = self.folder.next_path(lock)?;
        let fetched = self
            .snapshots
            .fetch(manifest, &room, near.map(|near| near.path.as_path()))
            .await;
        let opened =
            fetched.and_then(|bytes| Ok((IndexGeneration::open(&room, &self.mapper)?, bytes)));
        match opened {
            Ok((generation, bytes)) => {
                generation.set_origin(*seq)?;
                self.folder.activate(lock, &generation)?;
                self.publish(generation.clone(), None).await?;
                Ok(Some((generation, bytes)))
            }
            Err(IndexError::Damaged(message)) => {
                tracing::warn!(
                    seq,
                    message,
                    "the snapshot cannot be used; documents are read instead"
                );
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// For a builder: what is built goes on from the newest snapshot, so that both share their files.
    pub(super) async fn rebase_on(
        &self,
        newest: &(u64, SnapshotManifest),
    ) -> Result<(), IndexError> {
        let _writing = self.write_lock.lock().await;
        let Some(lock) = self.folder.lock()? else {
            return Ok(());
        };
        let current = self.current_generation().await.unwrap_or_default();
        self.fetch_snapshot(&lock, newest, current.as_ref())
            .await
            .map(drop)
    }

    /// Whether the index is at the commit of a snapshot, and lacks nothing of `catalog`.
    pub(super) async fn matches(
        &self,
        newest: &SnapshotManifest,
        catalog: &Catalog,
    ) -> Result<bool, IndexError> {
        let Some(generation) = self.open_generation() else {
            return Ok(false);
        };
        Ok(newest.is_commit_of(&generation)? && self.diff(catalog).await?.is_empty())
    }

    /// Leaves a snapshot after `base`; `None` when another was first, or another process writes to the index.
    pub(super) async fn upload_snapshot(
        &self,
        base: Option<&(u64, SnapshotManifest)>,
        at_ms: Millis,
    ) -> Result<Option<SnapshotUpload>, IndexError> {
        let _writing = self.write_lock.lock().await;
        let Some(_lock) = self.folder.lock()? else {
            return Ok(None);
        };
        let (Some(generation), Some(commit)) =
            (self.current_generation().await?, self.current_commit())
        else {
            return Ok(None);
        };
        let counts = (commit.documents() as u64, commit.entries());
        let uploaded = self
            .snapshots
            .upload(&generation, base, counts, at_ms)
            .await?;
        if let Some(uploaded) = &uploaded {
            generation.set_origin(uploaded.seq)?;
        }
        Ok(uploaded)
    }

    /// An empty generation.
    async fn new_generation(&self, lock: &IndexLock) -> Result<IndexGeneration, IndexError> {
        let room = self.folder.next_path(lock)?;
        let generation = self.folder.create(&room)?;
        self.folder.activate(lock, &generation)?;
        self.publish(generation.clone(), None).await?;
        Ok(generation)
    }

    /// Takes the next edition from `open_generation`; with what was done to the one before, or reading what it holds.
    async fn publish(
        &self,
        generation: IndexGeneration,
        done: Option<(&CommitReport, &[DocId])>,
    ) -> Result<Arc<IndexCommit>, IndexError> {
        let before = self.current_commit().filter(|_| done.is_some());
        let opened = generation.clone();
        let (commit, searcher, versions) = run_blocking(move || {
            let commit = opened.opstamp()?; // one that comes in between is noticed by its number
            let searcher = opened.searcher()?;
            let versions = match before {
                Some(before) => DocumentVersions::clone(&before.versions),
                None => opened.versions(&searcher)?,
            };
            Ok((commit, searcher, versions))
        })
        .await?;
        let versions = match done {
            Some((entered, removed)) => versions_after(versions, entered, removed),
            None => versions,
        };
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((current, index_commit)) = open.as_ref()
            && current.path == generation.path
            && index_commit.opstamp > commit
        {
            return Ok(Arc::clone(index_commit)); // shown while this one was read
        }
        let number = *self.commit_sender.borrow() + 1;
        let index_commit = Arc::new(IndexCommit {
            searcher,
            versions: Arc::new(versions),
            opstamp: commit,
            number,
        });
        *open = Some((generation, Arc::clone(&index_commit)));
        self.commit_sender.send_replace(number);
        Ok(index_commit)
    }
}

/// What is held after an update.
fn versions_after(
    mut versions: DocumentVersions,
    entered: &CommitReport,
    removed: &[DocId],
) -> DocumentVersions {
    for doc in removed
        .iter()
        .chain(entered.unreadable.iter().map(|(doc, _)| doc))
    {
        versions.remove(doc);
    }
    versions.extend(entered.indexed.iter().copied());
    versions
}
