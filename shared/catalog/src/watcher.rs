//! Keeps a catalog current by tailing change records.
//!
//! [`CatalogWatcher::poll`] reads the records of the last minutes only: one listing when nothing has changed.
//! [`CatalogWatcher::full_scan`] also finds late records of assemblers with slow clocks, and refreshes documents without a
//! tree. Its listings are proportional to the collection.

use std::sync::Arc;

use stemma_document::Collection;
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;
use stemma_engine::{PortError, PortResult};

use crate::catalog::Catalog;
use crate::change_log::{self, ChangeCursor};
use crate::latest_changes::LatestChanges;
use crate::pending::{self, PendingDocuments};
use crate::snapshot;

// The previous minutes are polled too, for records written around the turn of a minute.
const POLL_MINUTES: u64 = 2;

/// The state of a collection, and the change records it includes.
pub struct CatalogWatcher {
    collection: Collection,
    latest: Arc<LatestChanges>,
    cursor: ChangeCursor,
    pending: Arc<PendingDocuments>,
}

impl CatalogWatcher {
    /// Loads the catalog.
    ///
    /// # Errors
    /// [`PortError`] if the blob store fails.
    pub async fn start(
        blobs: &dyn Blobs,
        collection: Collection,
        now_ms: Millis,
    ) -> PortResult<(Self, Catalog)> {
        let (current, mark) = snapshot::load_current(blobs, &collection, now_ms).await?;
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

    /// Reads recent change records; `None` if nothing changed.
    ///
    /// # Errors
    /// [`PortError`] if the blob store fails. The next poll continues from the same position.
    pub async fn poll(&mut self, blobs: &dyn Blobs, now_ms: Millis) -> PortResult<Option<Catalog>> {
        let from = (now_ms / 60_000).saturating_sub(POLL_MINUTES);
        if self.apply_changes(blobs, from).await? {
            self.build_catalog().await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// Reads all new change records and refreshes documents without a tree; `None` if nothing changed.
    ///
    /// # Errors
    /// As [`CatalogWatcher::poll`].
    pub async fn full_scan(
        &mut self,
        blobs: &dyn Blobs,
        now_ms: Millis,
    ) -> PortResult<Option<Catalog>> {
        let mut changed = self.apply_changes(blobs, 0).await?;
        self.cursor = self.cursor.trimmed(now_ms);
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

    // Returns whether there were new records.
    async fn apply_changes(&mut self, blobs: &dyn Blobs, from: u64) -> PortResult<bool> {
        let tail = change_log::read_since(blobs, &self.collection, &self.cursor, from).await?;
        let changed = !tail.is_empty();
        let current = Arc::make_mut(&mut self.latest);
        for (name, change) in tail {
            self.cursor.add(name);
            change.into_iter().for_each(|change| current.apply(change));
        }
        Ok(changed)
    }

    async fn build_catalog(&self) -> PortResult<Catalog> {
        let current = Arc::clone(&self.latest);
        let open = Arc::clone(&self.pending);
        let catalog =
            tokio::task::spawn_blocking(move || Catalog::from_changes(&current, &open)).await;
        catalog.map_err(|error| PortError::permanent("blobs.list", error.to_string()))
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
        let (mut watcher, first) =
            CatalogWatcher::start(&blobs, Collection::default(), 101 * minute)
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
        let late = watcher.full_scan(&blobs, 101 * minute).await.unwrap();
        assert_eq!(listed(late).len(), 3);
        assert!(
            watcher
                .full_scan(&blobs, 101 * minute)
                .await
                .unwrap()
                .is_none()
        );
    }

    #[tokio::test]
    async fn a_record_from_tomorrow_hides_no_later_record() {
        let blobs = MemoryBlobs::default();
        let minute = 60_000;
        let now = 100 * minute;
        publish(&blobs, now + 1_440 * minute, "tomorrow", 1).await;
        let (mut watcher, _) = CatalogWatcher::start(&blobs, Collection::default(), now)
            .await
            .unwrap();
        assert!(watcher.full_scan(&blobs, now).await.unwrap().is_none());
        publish(&blobs, now, "today", 1).await;
        assert_eq!(listed(watcher.poll(&blobs, now).await.unwrap()).len(), 2);
        // A reader whose clock is a day ahead loads and writes snapshots as well.
        let ahead = now + 1_450 * minute;
        for n in 1..=1_100 {
            publish(&blobs, now + n, &format!("bulk {n}"), 1).await;
        }
        CatalogWatcher::start(&blobs, Collection::default(), ahead)
            .await
            .unwrap();
        publish(&blobs, now + minute, "later", 1).await;
        let (_, catalog) = CatalogWatcher::start(&blobs, Collection::default(), now + minute)
            .await
            .unwrap();
        assert_eq!(listed(Some(catalog)).len(), 1_103);
    }
}
