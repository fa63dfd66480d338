//! A catalogue kept up to date: change records are tailed, not read again.
//!
//! A glance looks at the records of the last minutes only: one listing while nothing happens. A look also finds records
//! of assemblers whose clocks are behind, and what became of documents without a tree, which costs listings in
//! proportion to the collection.

use std::sync::Arc;

use stemma_document::Collection;
use stemma_engine::PortError;
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;

use crate::catalog::{Catalog, LatestChanges};
use crate::change_log::{self, ChangeCursor};
use crate::pending::{self, PendingDocuments};

/// Minutes before this one that a glance still looks at.
const POLL_MINUTES: u64 = 2;

/// What is known of a collection, and up to which records.
pub struct CatalogWatcher {
    collection: Collection,
    latest: Arc<LatestChanges>,
    cursor: ChangeCursor,
    pending: Arc<PendingDocuments>,
}

impl CatalogWatcher {
    /// Reads everything once.
    ///
    /// # Errors
    /// [`PortError`] when the store could not say.
    pub async fn start(
        blobs: &dyn Blobs,
        collection: Collection,
    ) -> Result<(Self, Catalog), PortError> {
        let (current, mark) = LatestChanges::load(blobs, &collection).await?;
        let open = pending::find_pending(blobs, &collection, &current).await?;
        let watcher = Self {
            collection,
            latest: Arc::new(current),
            cursor: mark,
            pending: Arc::new(open),
        };
        let catalog = watcher.build_catalog().await?;
        Ok((watcher, catalog))
    }

    /// The catalogue, where records of the last minutes changed it.
    ///
    /// # Errors
    /// [`PortError`] when the store could not say; nothing is lost by it.
    pub async fn poll(
        &mut self,
        blobs: &dyn Blobs,
        now_ms: Millis,
    ) -> Result<Option<Catalog>, PortError> {
        let from = (now_ms / 60_000).saturating_sub(POLL_MINUTES);
        if self.apply_changes(blobs, from).await? {
            self.build_catalog().await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// The catalogue, where anything changed it.
    ///
    /// # Errors
    /// As [`CatalogWatcher::poll`].
    pub async fn full_scan(&mut self, blobs: &dyn Blobs) -> Result<Option<Catalog>, PortError> {
        let mut changed = self.apply_changes(blobs, 0).await?;
        self.cursor = self.cursor.trimmed();
        let open = pending::find_pending(blobs, &self.collection, &self.latest).await?;
        if *self.pending != open {
            self.pending = Arc::new(open);
            changed = true;
        }
        if changed {
            self.build_catalog().await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// Reads new records; whether there were any.
    async fn apply_changes(&mut self, blobs: &dyn Blobs, from: u64) -> Result<bool, PortError> {
        let tail = change_log::read_since(blobs, &self.collection, &self.cursor, from).await?;
        let changed = !tail.is_empty();
        let current = Arc::make_mut(&mut self.latest);
        for (name, change) in tail {
            self.cursor.add(name);
            change.into_iter().for_each(|change| current.apply(change));
        }
        Ok(changed)
    }

    async fn build_catalog(&self) -> Result<Catalog, PortError> {
        let current = Arc::clone(&self.latest);
        let open = Arc::clone(&self.pending);
        let catalog =
            tokio::task::spawn_blocking(move || Catalog::from_changes(&current, &open)).await;
        catalog.map_err(|error| PortError::permanent("blobs", "list", error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::{Change, ChangeKind, blob_keys};
    use stemma_engine::blobs::MemoryBlobs;

    use super::*;
    use crate::fixtures::entry;

    async fn publish(blobs: &MemoryBlobs, at_ms: u64, path: &str, seq: u64) {
        let mut entry = entry(path);
        entry.version.seq = seq;
        let change = Change {
            at_ms,
            kind: ChangeKind::Published(Box::new(entry)),
        };
        let key = blob_keys::change_key(&Collection::default(), at_ms, at_ms);
        blobs
            .put(&key, serde_json::to_vec(&change).unwrap().into())
            .await
            .unwrap();
    }

    fn listed(catalog: Option<Catalog>) -> Vec<(String, u64)> {
        let catalog = catalog.expect("something changed");
        catalog
            .documents()
            .iter()
            .map(|document: &crate::catalog::CatalogDocument| {
                (document.version().path.clone(), document.version().seq)
            })
            .collect()
    }

    #[tokio::test]
    async fn poll_finds_new_records_and_full_scan_finds_late_ones() {
        let blobs = MemoryBlobs::default();
        let minute = 60_000;
        publish(&blobs, 100 * minute, "a", 1).await;
        let (mut watcher, first) = CatalogWatcher::start(&blobs, Collection::default())
            .await
            .unwrap();
        assert_eq!(listed(Some(first)), [("a".into(), 1)]);
        assert!(watcher.poll(&blobs, 101 * minute).await.unwrap().is_none());
        publish(&blobs, 101 * minute, "a", 2).await;
        publish(&blobs, 101 * minute + 1, "b", 1).await;
        assert_eq!(
            listed(watcher.poll(&blobs, 101 * minute).await.unwrap()),
            [("a".into(), 2), ("b".into(), 1)]
        );
        publish(&blobs, 95 * minute, "late", 1).await;
        assert!(watcher.poll(&blobs, 101 * minute).await.unwrap().is_none());
        assert_eq!(listed(watcher.full_scan(&blobs).await.unwrap()).len(), 3);
        assert!(watcher.full_scan(&blobs).await.unwrap().is_none());
    }
}
