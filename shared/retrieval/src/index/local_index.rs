//! The index of one process: what searches read, kept up to date with a catalog, in shards by document.
//!
//! A search reads an [`IndexCommit`], which never changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stemma_document::Collection;
use stemma_store::PortResult;
use stemma_store::blobs::Blobs;
use tokio::sync::{Notify, watch};

use super::IndexError;
use super::commit::{IndexCommit, MissingDocuments};
use super::doc_mapper::DocMapper;
use super::folder::IndexFolder;
use super::open_shards::OpenShards;
use super::shard::ShardCount;
use super::shard_index::ShardIndex;
pub use super::shard_index::{OnProgress, SyncReport};
use super::snapshot::Snapshots;
use stemma_catalog::catalog::Catalog;
use stemma_catalog::document_store::DocumentStore;

/// Where a process stores the indexes of its collections, and in how many shards each.
#[derive(Debug, Clone, Default)]
pub struct IndexSettings {
    pub folder: PathBuf,
    pub shards: ShardCount,
}

impl IndexSettings {
    /// Indexes of one shard below a folder.
    pub fn for_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            shards: ShardCount::default(),
        }
    }
}

/// The index of a collection in this process.
pub struct LocalIndex {
    path: PathBuf,
    shards: Vec<ShardIndex>,
    open: Arc<OpenShards>,
    damage_reported: Notify,
}

impl LocalIndex {
    /// The index of the documents in `store`. Reads nothing yet.
    pub fn new(
        settings: &IndexSettings,
        blobs: &Arc<dyn Blobs>,
        collection: &Collection,
        store: &Arc<dyn DocumentStore>,
        mapper: &Arc<DocMapper>,
    ) -> Self {
        let folder = &settings.folder;
        let open = Arc::new(OpenShards::new(settings.shards, mapper.schema.clone()));
        let shards = settings.shards.shards().map(|shard| {
            ShardIndex::new(
                shard,
                IndexFolder::new(folder, collection, shard, Arc::clone(mapper)),
                Snapshots::new(Arc::clone(blobs), collection, mapper.revision, shard),
                Arc::clone(store),
                Arc::clone(mapper),
                Arc::clone(&open),
            )
        });
        Self {
            shards: shards.collect(),
            path: folder
                .join(collection.as_str())
                .join(format!("r{:08x}", mapper.revision)),
            open,
            damage_reported: Notify::new(),
        }
    }

    /// The folder of what is stored next to the shards.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The shards, in the order of the ids that they have.
    pub fn shards(&self) -> &[ShardIndex] {
        &self.shards
    }

    /// The current commit; `None` until [`LocalIndex::open`] finds one.
    pub fn current_commit(&self) -> Option<Arc<IndexCommit>> {
        self.open.current_commit().map(Arc::new)
    }

    /// Receives the number of each new commit.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.open.subscribe()
    }

    /// Size on disk.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(ShardIndex::bytes).sum()
    }

    /// Names of altered files. Opens the index and checks all of it.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if the files cannot be checked.
    pub async fn corrupt_files(&self) -> Result<Vec<String>, IndexError> {
        let mut files = Vec::new();
        for shard in &self.shards {
            files.extend(shard.corrupt_files().await?);
        }
        Ok(files)
    }

    /// Opens the index on disk, up to date or not. Takes milliseconds.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if a shard cannot be read; the others are open, and [`LocalIndex::sync`] rebuilds it.
    pub async fn open(&self) -> Result<Option<Arc<IndexCommit>>, IndexError> {
        let mut opened = Ok(());
        for shard in &self.shards {
            opened = opened.and(shard.open().await.map(drop));
        }
        opened.map(|()| self.current_commit())
    }

    /// Brings the index up to date with `catalog`. Searches see every commit. `on_progress` is called after each document
    /// with the number of those left. A damaged shard is rebuilt.
    ///
    /// # Errors
    /// [`IndexError`] if the store or the disk fails; commits so far stay. A shard that fails leaves the others as they are.
    pub async fn sync(
        &self,
        catalog: &Catalog,
        on_progress: OnProgress<'_>,
    ) -> Result<SyncReport, IndexError> {
        // What cannot be counted now fails, or is rebuilt, in the update.
        let mut changes = vec![0];
        for later in &self.shards[1..] {
            changes.push(later.count_changes(catalog).await.unwrap_or(0));
        }
        let mut report = SyncReport::default();
        for (at, shard) in self.shards.iter().enumerate() {
            let later: usize = changes[at + 1..].iter().sum();
            report.add(
                &shard
                    .sync(catalog, &|left| on_progress(left + later))
                    .await?,
            );
        }
        Ok(report)
    }

    /// Number of documents that an update would index or remove.
    ///
    /// # Errors
    /// [`IndexError`] if the index or the catalog cannot be read.
    pub async fn count_changes(&self, catalog: &Catalog) -> Result<usize, IndexError> {
        let mut changes = 0;
        for shard in &self.shards {
            changes += shard.count_changes(catalog).await?;
        }
        Ok(changes)
    }

    /// Reports that a search could not read a commit. The next update rebuilds the index, unless it has been replaced. Of
    /// several shards it rebuilds those whose files were altered: the search does not say which one it could not read.
    pub fn report_damage(&self, commit: &IndexCommit) {
        self.report(commit, self.shards.len() == 1);
    }

    /// Reports that a search of a commit failed. The next update checks the files, and rebuilds the index if they were altered.
    pub fn report_failure(&self, commit: &IndexCommit) {
        self.report(commit, false);
    }

    /// Waits for a report of a search that calls for an update.
    pub async fn damage_reported(&self) {
        self.damage_reported.notified().await;
    }

    fn report(&self, commit: &IndexCommit, is_certain: bool) {
        for (shard, commit) in self.shards.iter().zip(&commit.shards) {
            if let Some(commit) = commit {
                shard.report(commit, is_certain);
            }
        }
        self.damage_reported.notify_one();
    }

    /// The documents of `catalog` that a commit does not have in their current version. Walks the documents of each shard whose
    /// commit is not that of the last update.
    ///
    /// # Errors
    /// [`PortError`](stemma_store::PortError) if the catalog cannot be read.
    pub fn missing_documents(
        &self,
        commit: &IndexCommit,
        catalog: &Catalog,
    ) -> PortResult<MissingDocuments> {
        let mut missing = MissingDocuments::default();
        for (shard, commit) in self.shards.iter().zip(&commit.shards) {
            let of_shard = shard.missing_documents(commit.as_deref(), catalog)?;
            missing.not_indexed.extend(of_shard.not_indexed);
            missing.unreadable.extend(of_shard.unreadable);
        }
        Ok(missing)
    }
}
