//! Keeps a catalog current by following change records.
//!
//! [`CatalogWatcher::poll`] reads new minutes and the newest ones: two rounds of listings when nothing has changed.
//! [`CatalogWatcher::full_scan`] also finds late records of programs that do not repeat them, and looks up which open runs
//! have begun. Neither walks the documents.

use std::collections::BTreeSet;

use stemma_document::{Collection, DocId};
use stemma_engine::blobs::Blobs;
use stemma_engine::env::Millis;
use stemma_engine::{PortError, PortResult};

use crate::catalog::{Catalog, CatalogDocument};
use crate::catalog_builder::CatalogBuilder;
use crate::change_log::{self, ChangeCursor, Extent};
use crate::latest_changes::LatestChanges;
use crate::snapshot;
use crate::started_runs::StartedRuns;

/// The state of a collection, and the change records it includes.
pub struct CatalogWatcher {
    collection: Collection,
    latest: LatestChanges,
    cursor: ChangeCursor,
    started: StartedRuns,
    builder: CatalogBuilder,
    // Documents that changed since the last catalog; survives a failed read.
    changed: BTreeSet<DocId>,
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
        let (current, cursor) = snapshot::load_current(blobs, &collection, now_ms).await?;
        let mut started = StartedRuns::default();
        started.refresh(blobs, &collection, &current).await?;
        let built = tokio::task::spawn_blocking(move || {
            let catalog = Catalog::from_changes(&current, &started);
            (
                CatalogBuilder::new(catalog.clone()),
                catalog,
                current,
                started,
            )
        });
        let (builder, catalog, latest, started) = built
            .await
            .map_err(|error| PortError::permanent("blobs.list", error.to_string()))?;
        let watcher = Self {
            collection,
            latest,
            cursor,
            started,
            builder,
            changed: BTreeSet::new(),
        };
        Ok((watcher, catalog))
    }

    /// Reads new change records; `None` if nothing changed.
    ///
    /// # Errors
    /// [`PortError`] if the blob store fails. The next poll continues from the same position.
    pub async fn poll(&mut self, blobs: &dyn Blobs) -> PortResult<Option<Catalog>> {
        self.apply_changes(blobs, Extent::New).await?;
        Ok(self.changed_catalog())
    }

    /// Reads all new change records, and looks up which open runs have begun; `None` if nothing changed.
    ///
    /// # Errors
    /// As [`CatalogWatcher::poll`].
    pub async fn full_scan(
        &mut self,
        blobs: &dyn Blobs,
        now_ms: Millis,
    ) -> PortResult<Option<Catalog>> {
        // Records below a newer snapshot may be gone if this process was suspended for days.
        let newest = self.cursor.newest_minute();
        let floor = snapshot::newest_floor(blobs, &self.collection).await?;
        if floor.is_some_and(|floor| floor > newest) {
            let (watcher, catalog) = Self::start(blobs, self.collection.clone(), now_ms).await?;
            *self = watcher;
            return Ok(Some(catalog));
        }
        self.apply_changes(blobs, Extent::All).await?;
        self.cursor = self.cursor.trimmed(now_ms);
        let newly_started = self
            .started
            .refresh(blobs, &self.collection, &self.latest)
            .await?;
        self.changed.extend(newly_started);
        Ok(self.changed_catalog())
    }

    async fn apply_changes(&mut self, blobs: &dyn Blobs, extent: Extent) -> PortResult<()> {
        let current = &mut self.latest;
        let changed = &mut self.changed;
        let apply = |change| changed.extend(current.apply(change));
        change_log::apply_new(blobs, &self.collection, &mut self.cursor, extent, apply).await?;
        Ok(())
    }

    fn changed_catalog(&mut self) -> Option<Catalog> {
        if self.changed.is_empty() {
            return None;
        }
        let changed = std::mem::take(&mut self.changed).into_iter();
        let changes = changed.map(|doc| {
            let changes = self.latest.latest.get(&doc);
            let document = changes.and_then(|changes| {
                let open = changes.open.as_ref();
                let has_started =
                    open.is_some_and(|open| self.started.contains(doc, open.claim.seq));
                CatalogDocument::from_changes(changes, has_started)
            });
            (doc, document)
        });
        Some(self.builder.update(changes.collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use bytes::Bytes;
    use stemma_document::{Change, ChangeKind, blob_keys};
    use stemma_engine::blobs::{MemoryBlobs, PutOutcome};

    use super::*;
    use crate::catalog::DocumentState;
    use crate::fixtures::{self, entry, failure};

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
        let documents = fixtures::documents(&catalog).into_iter();
        documents
            .map(|document| (document.version().path.clone(), document.version().seq))
            .collect()
    }

    #[tokio::test]
    async fn poll_finds_new_records_and_full_scan_finds_late_ones() {
        let blobs = MemoryBlobs::default();
        let minute = 60_000;
        for at in [95, 98, 99, 100] {
            publish(&blobs, at * minute, "a", 1).await;
        }
        let (mut watcher, first) =
            CatalogWatcher::start(&blobs, Collection::default(), 101 * minute)
                .await
                .unwrap();
        assert_eq!(listed(Some(first)), [("a".into(), 1)]);
        assert!(watcher.poll(&blobs).await.unwrap().is_none());
        publish(&blobs, 101 * minute, "a", 2).await;
        publish(&blobs, 101 * minute + 1, "b", 1).await;
        assert_eq!(
            listed(watcher.poll(&blobs).await.unwrap()),
            [("a".into(), 2), ("b".into(), 1)]
        );
        publish(&blobs, 95 * minute + 1, "late", 1).await;
        assert!(watcher.poll(&blobs).await.unwrap().is_none());
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
        assert_eq!(listed(watcher.poll(&blobs).await.unwrap()).len(), 2);
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

    async fn put_change(blobs: &MemoryBlobs, minute: u64, at_ms: u64, kind: ChangeKind) {
        let collection = Collection::default();
        let key = blob_keys::change_key_in(&collection, minute, at_ms, at_ms);
        let json = serde_json::to_vec(&Change { at_ms, kind }).unwrap();
        blobs.put(&key, json.into()).await.unwrap();
    }

    fn states(catalog: Option<Catalog>) -> Vec<(String, DocumentState)> {
        let catalog = catalog.expect("something changed");
        let documents = fixtures::documents(&catalog).into_iter();
        documents
            .map(|document| (document.version().path.clone(), document.state))
            .collect()
    }

    /// Counts listings of documents and runs, which grow with the collection.
    #[derive(Default)]
    struct CountingBlobs {
        inner: MemoryBlobs,
        walks: AtomicUsize,
        calls: AtomicUsize,
    }

    #[async_trait]
    impl Blobs for CountingBlobs {
        async fn put(&self, key: &str, bytes: Bytes) -> PortResult<PutOutcome> {
            self.inner.put(key, bytes).await
        }
        async fn get(&self, key: &str) -> PortResult<Option<Bytes>> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.inner.get(key).await
        }
        async fn get_range(&self, key: &str, range: Range<u64>) -> PortResult<Option<Bytes>> {
            self.inner.get_range(key, range).await
        }
        async fn size(&self, key: &str) -> PortResult<Option<u64>> {
            self.inner.size(key).await
        }
        async fn list(
            &self,
            prefix: &str,
            after: Option<&str>,
            limit: usize,
        ) -> PortResult<Vec<String>> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.inner.list(prefix, after, limit).await
        }
        async fn children(
            &self,
            prefix: &str,
            after: Option<&str>,
            limit: usize,
        ) -> PortResult<Vec<String>> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            if prefix == "runs/" || prefix.ends_with("/d/") {
                self.walks.fetch_add(1, Ordering::Relaxed);
            }
            self.inner.children(prefix, after, limit).await
        }
        async fn delete(&self, key: &str) -> PortResult<()> {
            self.inner.delete(key).await
        }
        async fn barrier(&self) -> PortResult<()> {
            self.inner.barrier().await
        }
    }

    /// D8 of the engine review: every 28 s all documents and all runs were listed, and each document without a tree read.
    #[tokio::test]
    async fn documents_without_a_tree_are_followed_without_a_walk() {
        let blobs = CountingBlobs::default();
        let collection = Collection::default();
        for n in 0..1_100 {
            let version = entry(&format!("failed {n:04}")).version;
            put_change(&blobs.inner, 100, 6_000_000 + n, failure(version)).await;
        }
        let now = 101 * 60_000;
        CatalogWatcher::start(&blobs, collection.clone(), now)
            .await
            .unwrap();
        let walks = blobs.walks.load(Ordering::Relaxed);
        assert_eq!(walks, 2, "once, for what older programs wrote");
        let (mut watcher, _) = CatalogWatcher::start(&blobs, collection.clone(), now)
            .await
            .unwrap();
        let claim = |path: &str| ChangeKind::Claimed(Box::new(entry(path).version));
        put_change(&blobs.inner, 101, 6_060_000, claim("a")).await;
        let queued = states(watcher.poll(&blobs).await.unwrap());
        assert_eq!(queued[0], ("a".into(), DocumentState::Queued));
        let artifact = format!(
            "{}/a/x",
            blob_keys::document_scope(&collection, entry("a").version.doc)
        );
        blobs.inner.put(&artifact, "{}".into()).await.unwrap();
        let running = states(watcher.full_scan(&blobs, now).await.unwrap());
        assert_eq!(running[0], ("a".into(), DocumentState::Running));
        put_change(&blobs.inner, 101, 6_060_001, failure(entry("a").version)).await;
        let failed = states(watcher.poll(&blobs).await.unwrap());
        assert_eq!(failed[0], ("a".into(), DocumentState::Failed));
        assert_eq!(blobs.walks.load(Ordering::Relaxed), walks);
        let before = blobs.calls.load(Ordering::Relaxed);
        assert!(watcher.full_scan(&blobs, now).await.unwrap().is_none());
        let calls = blobs.calls.load(Ordering::Relaxed) - before;
        assert!(
            calls <= 4,
            "{calls} calls for 1,101 documents without a tree"
        );
    }

    /// D26 of the engine review. Records that follow the newest minute, as writers leave them, are found by the next poll,
    /// whatever the clock of the reader says.
    #[tokio::test]
    async fn polls_find_the_records_of_any_clock() {
        let day = 1_440;
        let minute = 1_000_000;
        let published = |path: &str| ChangeKind::Published(Box::new(entry(path)));
        for reader in [minute - day, minute, minute + day] {
            let blobs = MemoryBlobs::default();
            let now = reader * 60_000;
            for n in 0..20 {
                let path = format!("before {n:02}");
                put_change(&blobs, minute - 20 + n, n, published(&path)).await;
            }
            let (mut watcher, _) = CatalogWatcher::start(&blobs, Collection::default(), now)
                .await
                .unwrap();
            watcher.full_scan(&blobs, now).await.unwrap();
            let mut known = 20;
            // A usual clock, one a day ahead, one that follows it, and one that is a minute behind.
            for (at, path) in [(0, "a"), (day, "b"), (day, "c"), (day - 1, "d")] {
                put_change(&blobs, minute + at, known, published(path)).await;
                known += 1;
                let catalog = watcher.poll(&blobs).await.unwrap();
                assert_eq!(
                    states(catalog).len() as u64,
                    known,
                    "{path}, reader at {reader}"
                );
                watcher.full_scan(&blobs, now).await.unwrap();
            }
            let (_, catalog) = CatalogWatcher::start(&blobs, Collection::default(), now)
                .await
                .unwrap();
            assert_eq!(states(Some(catalog)).len() as u64, known);
        }
    }
}
