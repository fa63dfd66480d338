//! Keeps a catalog current by following change records.
//!
//! [`CatalogWatcher::poll`] reads new minutes and the newest ones: two rounds of listings when nothing has changed.
//! [`CatalogWatcher::full_scan`] also finds late records of programs that do not repeat them, and looks up which open runs
//! have begun. Neither walks the documents.

use std::path::Path;

use stemma_document::Collection;
use stemma_store::PortResult;
use stemma_store::blobs::Blobs;
use stemma_store::env::Millis;

use crate::catalog::Catalog;
use crate::change_log::{self, ChangeCursor, Extent};
use crate::started_runs::{self, MAX_LOOKUPS};
use crate::store::{self, CatalogStore, StoreBatch};
use crate::{snapshot, state_walk};

/// The stored catalog of a collection, and the change records that it includes.
pub struct CatalogWatcher {
    collection: Collection,
    store: CatalogStore,
    cursor: ChangeCursor,
    // Whether a document changed since the last catalog; survives a failed read.
    has_changed: bool,
    // Reports of damage in this process that the store is younger than.
    damage_reports: u64,
}

impl CatalogWatcher {
    /// Brings the catalog that is stored in `folder` up to date, or one in memory.
    pub async fn start(
        folder: Option<&Path>,
        blobs: &dyn Blobs,
        collection: Collection,
        now_ms: Millis,
    ) -> PortResult<(Self, Catalog)> {
        let store = match folder {
            Some(folder) => CatalogStore::open(folder)?,
            None => CatalogStore::in_memory()?,
        };
        Self::start_with(store, blobs, collection, now_ms).await
    }

    async fn start_with(
        mut store: CatalogStore,
        blobs: &dyn Blobs,
        collection: Collection,
        now_ms: Millis,
    ) -> PortResult<(Self, Catalog)> {
        let damage_reports = store::damage_reports();
        let state = store.reader()?.state;
        let mut cursor = ChangeCursor {
            floor: state.floor,
            names: store.applied_records()?,
        };
        let mut has_open_runs = true;
        if !state.is_complete || is_behind(blobs, &collection, &cursor).await? {
            if state.sequence > 0 {
                store = store.emptied()?;
            }
            let loaded = snapshot::load(blobs, &collection, &mut store, now_ms).await?;
            cursor = loaded.cursor;
            has_open_runs = loaded.has_open_runs;
        }
        change_log::apply_new(blobs, &collection, &mut cursor, Extent::All, &store).await?;
        if !has_open_runs {
            let reader = store.reader()?;
            let changes = state_walk::unrecorded_changes(blobs, &collection, &reader).await?;
            let batch = StoreBatch {
                changes,
                ..StoreBatch::default()
            };
            change_log::apply_batch(&store, batch).await?;
        }
        cursor = cursor.trimmed(now_ms);
        snapshot::write_if_due(blobs, &collection, &store, &cursor, !has_open_runs).await?;
        let mut watcher = Self {
            collection,
            store,
            cursor,
            has_changed: false,
            damage_reports,
        };
        watcher.look_up_runs(blobs, true).await?;
        watcher.has_changed = false;
        let catalog = Catalog::from_store(&watcher.store)?;
        Ok((watcher, catalog))
    }

    /// Reads new change records; `None` if nothing changed.
    ///
    /// # Errors
    /// [`PortError`](stemma_store::PortError) if the blob store or the disk fails. The next poll continues from the same
    /// position.
    pub async fn poll(&mut self, blobs: &dyn Blobs) -> PortResult<Option<Catalog>> {
        self.apply_changes(blobs, Extent::New).await?;
        self.changed_catalog()
    }

    /// Reads all new change records, and looks up which open runs have begun; `None` if nothing changed. A store that was
    /// found to be damaged is built anew.
    pub async fn full_scan(
        &mut self,
        blobs: &dyn Blobs,
        now_ms: Millis,
    ) -> PortResult<Option<Catalog>> {
        let is_damaged = store::damage_reports() > self.damage_reports;
        if is_damaged || is_behind(blobs, &self.collection, &self.cursor).await? {
            let store = self.store.clone().emptied()?;
            let started = Self::start_with(store, blobs, self.collection.clone(), now_ms).await;
            let (watcher, catalog) = started?;
            *self = watcher;
            return Ok(Some(catalog));
        }
        self.apply_changes(blobs, Extent::All).await?;
        self.cursor = self.cursor.trimmed(now_ms);
        self.look_up_runs(blobs, false).await?;
        self.changed_catalog()
    }

    async fn apply_changes(&mut self, blobs: &dyn Blobs, extent: Extent) -> PortResult<()> {
        let collection = &self.collection;
        let cursor = &mut self.cursor;
        self.has_changed |=
            change_log::apply_new(blobs, collection, cursor, extent, &self.store).await?;
        Ok(())
    }

    // Records which open runs have begun, and the position of the cursor, so that they survive a crash.
    async fn look_up_runs(&mut self, blobs: &dyn Blobs, is_complete: bool) -> PortResult<()> {
        let reader = self.store.reader()?;
        let queued = reader.newest_queued(MAX_LOOKUPS)?;
        let started = started_runs::started_runs(blobs, &self.collection, queued).await?;
        if started.is_empty() && !is_complete && reader.is_durable_at(self.cursor.floor) {
            return Ok(());
        }
        let batch = StoreBatch {
            started,
            floor: Some(self.cursor.floor),
            is_complete,
            is_durable: true,
            ..StoreBatch::default()
        };
        self.has_changed |= !change_log::apply_batch(&self.store, batch)
            .await?
            .is_empty();
        Ok(())
    }

    fn changed_catalog(&mut self) -> PortResult<Option<Catalog>> {
        if !self.has_changed {
            return Ok(None);
        }
        let catalog = Catalog::from_store(&self.store)?;
        self.has_changed = false;
        Ok(Some(catalog))
    }
}

impl Catalog {
    /// Loads the catalog into memory, as [`Catalog::load_from`] does without a stored one.
    ///
    /// # Errors
    /// `PortError` if the blob store fails. Unreadable records are skipped and logged.
    pub async fn load(
        blobs: &dyn Blobs,
        collection: &Collection,
        now_ms: Millis,
    ) -> PortResult<Self> {
        let started = CatalogWatcher::start(None, blobs, collection.clone(), now_ms).await?;
        Ok(started.1)
    }

    /// Brings the catalog that is stored in `folder` up to date: with the newest snapshot if there is none, and with the
    /// change records behind it. Looks up which open runs have begun. If the tail of records was long, it also writes a new
    /// snapshot; without write access that step is skipped. In memory if another process has the stored one.
    pub async fn load_from(
        folder: &Path,
        blobs: &dyn Blobs,
        collection: &Collection,
        now_ms: Millis,
    ) -> PortResult<Self> {
        let started =
            CatalogWatcher::start(Some(folder), blobs, collection.clone(), now_ms).await?;
        Ok(started.1)
    }
}

// Whether records behind the cursor may be gone, because the process was down for days.
async fn is_behind(
    blobs: &dyn Blobs,
    collection: &Collection,
    cursor: &ChangeCursor,
) -> PortResult<bool> {
    let newest = cursor.newest_minute();
    let floor = snapshot::newest_floor(blobs, collection).await?;
    Ok(floor.is_some_and(|floor| floor > newest))
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use bytes::Bytes;
    use stemma_document::{Change, ChangeKind, blob_keys};
    use stemma_store::blobs::{MemoryBlobs, PutOutcome};

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
            CatalogWatcher::start(None, &blobs, Collection::default(), 101 * minute)
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
        let (mut watcher, _) = CatalogWatcher::start(None, &blobs, Collection::default(), now)
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
        CatalogWatcher::start(None, &blobs, Collection::default(), ahead)
            .await
            .unwrap();
        publish(&blobs, now + minute, "later", 1).await;
        let (_, catalog) = CatalogWatcher::start(None, &blobs, Collection::default(), now + minute)
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
        CatalogWatcher::start(None, &blobs, collection.clone(), now)
            .await
            .unwrap();
        let walks = blobs.walks.load(Ordering::Relaxed);
        assert_eq!(walks, 2, "once, for what older programs wrote");
        let (mut watcher, _) = CatalogWatcher::start(None, &blobs, collection.clone(), now)
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
            let (mut watcher, _) = CatalogWatcher::start(None, &blobs, Collection::default(), now)
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
            let (_, catalog) = CatalogWatcher::start(None, &blobs, Collection::default(), now)
                .await
                .unwrap();
            assert_eq!(states(Some(catalog)).len() as u64, known);
        }
    }

    async fn start_in(folder: &Path, blobs: &MemoryBlobs) -> (CatalogWatcher, Catalog) {
        let now = 101 * 60_000;
        CatalogWatcher::start(Some(folder), blobs, Collection::default(), now)
            .await
            .unwrap()
    }

    fn store_file(folder: &Path) -> std::path::PathBuf {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(paths.len(), 1, "{paths:?}");
        paths.remove(0)
    }

    #[tokio::test]
    async fn a_stored_catalog_is_continued_after_a_crash() {
        let blobs = MemoryBlobs::default();
        let folder = tempfile::tempdir().unwrap();
        for n in 0..40 {
            publish(&blobs, 6_000_000 + n, &format!("{n:02}"), 1).await;
        }
        let (mut watcher, first) = start_in(folder.path(), &blobs).await;
        assert_eq!(first.len(), 40);
        publish(&blobs, 6_000_100, "later", 1).await;
        publish(&blobs, 6_000_101, "00", 2).await;
        let expected = watcher.poll(&blobs).await.unwrap().unwrap();
        // What is on the disk while the store is open is what a crash leaves.
        let crashed = tempfile::tempdir().unwrap();
        let file = store_file(folder.path());
        std::fs::copy(&file, crashed.path().join(file.file_name().unwrap())).unwrap();
        let (_, again) = start_in(crashed.path(), &blobs).await;
        assert_eq!(fixtures::documents(&again), fixtures::documents(&expected));
        // A second process has its catalog in memory, and writes no file.
        let (_, second) = start_in(folder.path(), &blobs).await;
        assert_eq!(fixtures::documents(&second), fixtures::documents(&expected));
        drop((watcher, first, expected, second));
        let (_, reopened) = start_in(folder.path(), &blobs).await;
        assert_eq!(fixtures::documents(&reopened), fixtures::documents(&again));
    }

    #[tokio::test]
    async fn an_interrupted_first_load_begins_again() {
        let blobs = MemoryBlobs::default();
        let folder = tempfile::tempdir().unwrap();
        for n in 0..10 {
            publish(&blobs, 6_000_000 + n, &format!("{n:02}"), 1).await;
        }
        let store = CatalogStore::open(folder.path()).unwrap();
        let kind = ChangeKind::Published(Box::new(entry("never recorded")));
        let batch = StoreBatch {
            changes: vec![Change { at_ms: 1, kind }],
            is_durable: true,
            ..StoreBatch::default()
        };
        store.apply(batch).unwrap();
        drop(store);
        let (_, catalog) = start_in(folder.path(), &blobs).await;
        assert_eq!(catalog.len(), 10);
        assert!(catalog.resolve("never recorded").is_err());
    }

    #[tokio::test]
    async fn stores_that_cannot_be_read_are_built_anew() {
        let blobs = MemoryBlobs::default();
        let folder = tempfile::tempdir().unwrap();
        publish(&blobs, 6_000_000, "a", 1).await;
        std::fs::write(folder.path().join("catalog-0.redb"), "another format").unwrap();
        drop(start_in(folder.path(), &blobs).await);
        let file = store_file(folder.path());
        std::fs::write(&file, "not a store").unwrap();
        let (mut watcher, catalog) = start_in(folder.path(), &blobs).await;
        assert_eq!(catalog.len(), 1);
        // Damage that a reader finds is mended by the next full scan.
        drop(catalog);
        let _ = store::damaged("a page is torn");
        let rebuilt = watcher.full_scan(&blobs, 6_060_000).await.unwrap();
        assert_eq!(rebuilt.map(|catalog| catalog.len()), Some(1));
    }
}
