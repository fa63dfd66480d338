//! One shard of an index, kept up to date with its documents in a catalog.
//!
//! Updates write to one folder under its lock. If another process on this machine holds the lock, its commits are read.

mod snapshots;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stemma_document::DocId;
use stemma_store::PortResult;

use super::commit::{MissingDocuments, ShardCommit};
use super::doc_mapper::DocMapper;
use super::folder::{DocumentVersions, IndexFolder, IndexGeneration, IndexLock};
use super::indexed_versions::IndexedVersions;
use super::open_shards::OpenShards;
use super::shard::ShardId;
use super::snapshot::Snapshots;
use super::sync::{self, BATCH, CatalogDiff, CommitPlan, CommitReport};
use super::{IndexError, run_blocking};
use stemma_catalog::catalog::{Catalog, CatalogState, DocumentSet};
use stemma_catalog::document_store::DocumentStore;

// Fetching a snapshot is cheaper than indexing this many documents.
const FETCH_THRESHOLD: usize = 500;

// What a search reported about a generation.
struct DamageReport {
    generation: PathBuf,
    // Its files could not be read. Otherwise a search panicked, which altered files may cause, or an error in the code.
    is_certain: bool,
}

/// Counts of an update.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// Documents indexed.
    pub indexed: usize,
    /// Their index entries.
    pub entries: u64,
    /// Documents removed.
    pub removed: usize,
    /// Documents whose trees are missing or damaged.
    pub unreadable: usize,
    /// Documents still to index: another process is updating, or the store is unavailable.
    pub missing: usize,
    /// Whether a damaged index was rebuilt.
    pub is_rebuilt: bool,
    /// Bytes fetched from a snapshot.
    pub fetched_bytes: u64,
}

impl SyncReport {
    /// Adds the counts of another shard.
    pub fn add(&mut self, other: &Self) {
        self.indexed += other.indexed;
        self.entries += other.entries;
        self.removed += other.removed;
        self.unreadable += other.unreadable;
        self.missing += other.missing;
        self.is_rebuilt |= other.is_rebuilt;
        self.fetched_bytes += other.fetched_bytes;
    }

    fn add_commit(&mut self, commit: &CommitReport, removed: usize) {
        self.removed += removed;
        self.indexed += commit.indexed.len();
        self.entries += commit.entries;
        self.unreadable += commit.unreadable.len();
        self.missing += commit.unavailable;
    }
}

/// A shard of the index of a collection in this process.
pub struct ShardIndex {
    id: ShardId,
    folder: IndexFolder,
    mapper: Arc<DocMapper>,
    snapshots: Snapshots,
    store: Arc<dyn DocumentStore>,
    open: Arc<OpenShards>,
    // The number of a commit that has all of a catalog, and the state of that: later catalogs differ by a few documents.
    complete: Mutex<Option<(u64, CatalogState)>>,
    // Versions that this process could not read; it does not try them again.
    tried: Mutex<DocumentVersions>,
    write_lock: tokio::sync::Mutex<()>,
    damage: Mutex<Option<DamageReport>>,
    // Number of the last commit whose files were checked and found as they were written.
    intact: Mutex<Option<u64>>,
}

/// Progress callback: number of documents still to index.
pub type OnProgress<'a> = &'a (dyn Fn(usize) + Send + Sync);

impl ShardIndex {
    pub(super) fn new(
        id: ShardId,
        folder: IndexFolder,
        snapshots: Snapshots,
        store: Arc<dyn DocumentStore>,
        mapper: Arc<DocMapper>,
        open: Arc<OpenShards>,
    ) -> Self {
        Self {
            id,
            folder,
            mapper,
            snapshots,
            store,
            open,
            complete: Mutex::default(),
            tried: Mutex::default(),
            write_lock: tokio::sync::Mutex::default(),
            damage: Mutex::default(),
            intact: Mutex::default(),
        }
    }

    pub fn id(&self) -> ShardId {
        self.id
    }

    // The current commit; `None` until `open` finds one.
    fn current_commit(&self) -> Option<Arc<ShardCommit>> {
        self.open.get(self.id).map(|(_, commit)| commit)
    }

    pub fn folder(&self) -> &IndexFolder {
        &self.folder
    }

    /// The snapshots in the blob store.
    pub fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// Size on disk.
    pub fn bytes(&self) -> u64 {
        self.open_generation()
            .map_or(0, |generation| generation.bytes())
    }

    /// Names of altered files. Opens the index and checks all of it.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if the files cannot be checked.
    pub async fn corrupt_files(&self) -> Result<Vec<String>, IndexError> {
        self.open().await?;
        let Some(generation) = self.open_generation() else {
            return Ok(Vec::new());
        };
        run_blocking(move || generation.corrupt_files()).await
    }

    /// Opens the index on disk, up to date or not. Takes milliseconds.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if it cannot be read; [`ShardIndex::sync`] rebuilds it.
    pub(super) async fn open(&self) -> Result<Option<Arc<ShardCommit>>, IndexError> {
        let folder = self.folder.clone();
        let Some(generation) = run_blocking(move || folder.open()).await? else {
            return Ok(None);
        };
        self.publish(generation, None).await.map(Some)
    }

    /// Brings the index up to date with `catalog`. Searches see every commit. `on_progress` is called after each document
    /// with the number of those left. A damaged index is rebuilt.
    ///
    /// # Errors
    /// [`IndexError`] if the store or the disk fails; commits so far stay.
    pub async fn sync(
        &self,
        catalog: &Catalog,
        on_progress: OnProgress<'_>,
    ) -> Result<SyncReport, IndexError> {
        let _writing = self.write_lock.lock().await;
        let report = lock(&self.damage).take();
        let damaged = match report {
            Some(report) if self.is_damaged(&report).await => Some(report),
            _ => None,
        };
        let updated = match self.try_sync(catalog, damaged.is_some(), on_progress).await {
            Err(IndexError::Damaged(message)) => {
                let folder = self.folder.path().display();
                tracing::warn!(%folder, error = message, "index is damaged; rebuilding it");
                self.try_sync(catalog, true, on_progress).await
            }
            result => result,
        };
        let updated = updated.map_err(|error| error.in_folder(self.folder.path()));
        let is_rebuilt = updated.as_ref().is_ok_and(|report| report.is_rebuilt);
        if !is_rebuilt && damaged.is_some() {
            *lock(&self.damage) = damaged; // another process writes to the index, or the store failed
        }
        updated
    }

    /// Reports that a search of a commit failed. If that `is_certain` to be damage, the next update rebuilds the shard, unless
    /// it has been replaced. Otherwise the update checks the files, and rebuilds the shard if they were altered.
    pub(super) fn report(&self, commit: &ShardCommit, is_certain: bool) {
        let mut damage = lock(&self.damage);
        let generation = commit.generation.clone();
        let earlier = damage
            .as_ref()
            .is_some_and(|earlier| earlier.generation == generation && earlier.is_certain);
        *damage = Some(DamageReport {
            generation,
            is_certain: is_certain || earlier,
        });
    }

    // A search that began before a rebuild reports a generation that is gone.
    async fn is_damaged(&self, report: &DamageReport) -> bool {
        let (Some(generation), Some(commit)) = (self.open_generation(), self.current_commit())
        else {
            return false;
        };
        if generation.path != report.generation {
            return false;
        }
        if report.is_certain {
            return true;
        }
        if *lock(&self.intact) == Some(commit.number) {
            return false;
        }
        let altered = run_blocking(move || generation.corrupt_files()).await;
        let is_intact = altered.is_ok_and(|files| files.is_empty());
        if is_intact {
            *lock(&self.intact) = Some(commit.number);
        }
        !is_intact
    }

    async fn try_sync(
        &self,
        catalog: &Catalog,
        rebuild: bool,
        on_progress: OnProgress<'_>,
    ) -> Result<SyncReport, IndexError> {
        let mut report = SyncReport {
            is_rebuilt: rebuild,
            ..SyncReport::default()
        };
        if !rebuild {
            report.missing = self.diff(catalog).await?.len();
            if report.missing == 0 && self.current_commit().is_some() {
                self.set_complete(catalog);
                return Ok(report);
            }
        }
        let Some(lock) = self.folder.lock()? else {
            self.open().await?;
            report.is_rebuilt = false;
            let mut diff = self.diff(catalog).await?;
            // The process that writes has tried them.
            let unreadable = self.known_unreadable(catalog)?;
            diff.add.retain(|(doc, _)| !unreadable.contains_key(doc));
            report.missing = diff.len().max(usize::from(rebuild));
            return Ok(report);
        };
        let generation = self
            .generation_to_write(&lock, &mut report, catalog)
            .await?;
        report.missing = 0;
        self.apply_diff(&generation, catalog, report, on_progress)
            .await
    }

    // The current generation, one made from a snapshot if that saves work, or an empty one.
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
        let no_documents: &[(DocId, u64)] = &[];
        // Removals without additions still need one commit.
        let batches = if add.is_empty() && !remove.is_empty() {
            vec![no_documents]
        } else {
            add.chunks(BATCH).collect()
        };
        for batch in batches {
            let removed = std::mem::take(&mut remove);
            let before = remaining - removed.len();
            let entries: PortResult<Vec<_>> =
                batch.iter().map(|(doc, _)| catalog.get(*doc)).collect();
            let entries = entries?.into_iter().flatten();
            let entries = entries.filter_map(|document| document.shared_entry().cloned());
            let plan = CommitPlan {
                add: &entries.collect::<Vec<_>>(),
                remove: &removed,
                known_unreadable: self.known_unreadable(catalog)?,
                total,
            };
            let commit = sync::apply_diff(
                generation,
                &self.mapper,
                self.store.as_ref(),
                plan,
                &|read| on_progress(before - read),
            )
            .await?;
            self.publish(generation.clone(), Some((&commit, &removed)))
                .await?;
            remaining -= batch.len() + removed.len();
            report.add_commit(&commit, removed.len());
            lock(&self.tried).extend(commit.unreadable);
            on_progress(remaining);
        }
        if report.missing == 0 {
            self.set_complete(catalog);
        }
        Ok(report)
    }

    // The documents that were unreadable for the last commit and are still listed in that version.
    fn known_unreadable(&self, catalog: &Catalog) -> PortResult<DocumentVersions> {
        let mut known = DocumentVersions::new();
        if let Some(commit) = self.current_commit() {
            for (doc, seq) in commit.unreadable.iter() {
                if catalog.tree_version(*doc)? == Some(*seq) {
                    known.insert(*doc, *seq);
                }
            }
        }
        Ok(known)
    }

    // Reopens the generation if another process has committed to it or replaced it.
    async fn current_generation(&self) -> Result<Option<IndexGeneration>, IndexError> {
        if let Some((generation, commit)) = self.open.get(self.id)
            && self.folder.is_current(&generation)
            && generation.opstamp()? == commit.opstamp
        {
            return Ok(Some(generation));
        }
        self.open().await?;
        Ok(self.open_generation())
    }

    pub(super) fn open_generation(&self) -> Option<IndexGeneration> {
        self.open.get(self.id).map(|(generation, _)| generation)
    }

    /// Number of documents that an update would change.
    pub(super) async fn count_changes(&self, catalog: &Catalog) -> Result<usize, IndexError> {
        Ok(self.diff(catalog).await?.len())
    }

    // Compares the catalog with the last commit, which may be one of another process.
    async fn diff(&self, catalog: &Catalog) -> Result<CatalogDiff, IndexError> {
        let Some(commit) = (match self.current_commit() {
            Some(commit) => Some(commit),
            None => self.open().await?,
        }) else {
            let docs = self.documents(catalog)?;
            let difference = CatalogDiff::between(&IndexedVersions::default(), catalog, &docs)?;
            return Ok(self.without_tried(difference));
        };
        let difference = match self.changed_since(&commit, catalog)? {
            Some(changed) => CatalogDiff::for_documents(&commit.versions, catalog, changed)?,
            None => CatalogDiff::between(&commit.versions, catalog, &self.documents(catalog)?)?,
        };
        Ok(self.without_tried(difference))
    }

    // The documents of a catalog that belong to the shard and have a tree.
    fn documents(&self, catalog: &Catalog) -> PortResult<DocumentSet> {
        catalog.with_tree_between(self.id.ids())
    }

    // Its documents that changed since the commit was complete; `None` if it is not known to have been.
    fn changed_since(
        &self,
        commit: &ShardCommit,
        catalog: &Catalog,
    ) -> PortResult<Option<BTreeSet<DocId>>> {
        let complete = *lock(&self.complete);
        match complete.filter(|(number, _)| *number == commit.number) {
            Some((_, state)) => {
                let mut changed = catalog.changed_since(&state)?;
                if let Some(changed) = &mut changed {
                    changed.retain(|doc| self.id.has(*doc));
                }
                Ok(changed)
            }
            None => Ok(None),
        }
    }

    // Remembers that the current commit has all documents of a catalog that can be read.
    fn set_complete(&self, catalog: &Catalog) {
        if let Some(commit) = self.current_commit() {
            *lock(&self.complete) = Some((commit.number, catalog.state()));
        }
    }

    /// The documents of the shard that its commit does not have in their current version. Walks all of them if the commit is
    /// not that of the last update, or there is none.
    pub(super) fn missing_documents(
        &self,
        commit: Option<&ShardCommit>,
        catalog: &Catalog,
    ) -> PortResult<MissingDocuments> {
        let Some(commit) = commit else {
            return Ok(MissingDocuments {
                not_indexed: catalog.ids(&self.documents(catalog)?)?,
                unreadable: Vec::new(),
            });
        };
        match self.changed_since(commit, catalog)? {
            Some(mut changed) => {
                changed.extend(commit.unreadable.keys());
                commit.missing_among(catalog, changed)
            }
            None => commit.missing_in(catalog, &self.documents(catalog)?),
        }
    }

    fn without_tried(&self, mut difference: CatalogDiff) -> CatalogDiff {
        let tried = lock(&self.tried);
        difference
            .add
            .retain(|(doc, seq)| tried.get(doc) != Some(seq));
        difference
    }

    async fn new_generation(&self, lock: &IndexLock) -> Result<IndexGeneration, IndexError> {
        let path = self.folder.next_path(lock)?;
        let created = self.folder.create(&path).and_then(|generation| {
            self.folder.activate(lock, &generation)?;
            Ok(generation)
        });
        if created.is_err() {
            self.folder.discard(lock, &path);
        }
        let generation = created?;
        self.publish(generation.clone(), None).await?;
        Ok(generation)
    }

    // Makes a generation's last commit the current one. `done` is the change since the previous commit, which saves
    // reading all versions again.
    async fn publish(
        &self,
        generation: IndexGeneration,
        change: Option<(&CommitReport, &[DocId])>,
    ) -> Result<Arc<ShardCommit>, IndexError> {
        let before = self.current_commit().filter(|_| change.is_some());
        let opened = generation.clone();
        let (opstamp, searcher, versions, unreadable) = run_blocking(move || {
            // Taken first: a commit made in between has a larger number, and is noticed by the next update.
            let opstamp = opened.opstamp()?;
            let unreadable = opened.unreadable()?;
            let searcher = opened.searcher()?;
            let versions = match before {
                Some(before) => before.versions.clone(),
                None => opened.versions(&searcher)?,
            };
            Ok((opstamp, searcher, versions, unreadable))
        })
        .await?;
        let versions = match change {
            Some((commit, removed)) => versions_after(versions, commit, removed),
            None => versions,
        };
        let commit = ShardCommit {
            searcher,
            versions,
            unreadable: Arc::new(unreadable),
            generation: generation.path.clone(),
            opstamp,
            number: 0, // given as it becomes the current one
        };
        Ok(self.open.publish(self.id, generation, commit))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn versions_after(
    mut versions: IndexedVersions,
    commit: &CommitReport,
    removed: &[DocId],
) -> IndexedVersions {
    for doc in removed
        .iter()
        .chain(commit.unreadable.iter().map(|(doc, _)| doc))
    {
        versions.remove(*doc);
    }
    for (doc, seq) in &commit.indexed {
        versions.insert(*doc, *seq);
    }
    versions
}
