//! Exchange of a shard with its snapshots in the blob store: made from one, or uploaded as one.

use stemma_catalog::catalog::Catalog;
use stemma_store::env::Millis;

use super::ShardIndex;
use crate::index::IndexError;
use crate::index::folder::{IndexGeneration, IndexLock};
use crate::index::snapshot::{SnapshotManifest, SnapshotUpload};

impl ShardIndex {
    // A generation made from a snapshot; `None` if the snapshot is unusable, or `near` was made from it.
    pub(super) async fn fetch_snapshot(
        &self,
        lock: &IndexLock,
        (seq, manifest): &(u64, SnapshotManifest),
        near: Option<&IndexGeneration>,
    ) -> Result<Option<(IndexGeneration, u64)>, IndexError> {
        if near.is_some_and(|near| near.origin() == Some(*seq)) {
            return Ok(None);
        }
        let path = self.folder.next_path(lock)?;
        let fetched = self
            .snapshots
            .fetch(manifest, &path, near.map(|near| near.path.as_path()))
            .await;
        let opened = fetched.and_then(|bytes| {
            let generation = self.folder.open_generation(&path)?;
            generation.set_origin(*seq)?;
            self.folder.activate(lock, &generation)?;
            Ok((generation, bytes))
        });
        if opened.is_err() {
            self.folder.discard(lock, &path);
        }
        match opened {
            Ok((generation, bytes)) => {
                self.publish(generation.clone(), None).await?;
                Ok(Some((generation, bytes)))
            }
            Err(IndexError::Damaged(message)) => {
                tracing::warn!(
                    seq,
                    message,
                    "index snapshot is damaged; indexing documents instead"
                );
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    // A builder starts from the newest snapshot, so that the next one shares its files.
    pub(in crate::index) async fn rebase_on(
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

    // Whether the index is at the commit of a snapshot and has all of `catalog`.
    pub(in crate::index) async fn matches(
        &self,
        newest: &SnapshotManifest,
        catalog: &Catalog,
    ) -> Result<bool, IndexError> {
        let Some(generation) = self.open_generation() else {
            return Ok(false);
        };
        Ok(newest.is_commit_of(&generation)? && self.diff(catalog).await?.is_empty())
    }

    // `None` if another builder was first, or another process writes to the index.
    pub(in crate::index) async fn upload_snapshot(
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
        let counts = (commit.versions.len() as u64, commit.searcher.num_docs());
        let uploaded = self
            .snapshots
            .upload(&generation, base, counts, at_ms)
            .await?;
        if let Some(uploaded) = &uploaded {
            generation.set_origin(uploaded.seq)?;
        }
        Ok(uploaded)
    }
}
