//! Finds change records and snapshots that newer snapshots replace.

use std::collections::VecDeque;

use stemma_document::{Collection, blob_keys};
use stemma_store::PortResult;
use stemma_store::blobs::{Blobs, list_all};
use stemma_store::env::Millis;

use crate::change_log::{LIST_PAGE, list_keys};
use crate::snapshot;

// Snapshots that stay. The second one is read if the newest is damaged.
const RETAINED_SNAPSHOTS: usize = 2;

/// Keys that no reader needs, page by page: records below all retained snapshots, and older snapshots, both older than the
/// grace period. Readers that have been suspended for longer load the newest snapshot.
pub struct SupersededRecords<'a> {
    blobs: &'a dyn Blobs,
    prefix: String,
    // The first folder of records that stays.
    end: String,
    // Snapshots and parts of them.
    snapshots: Vec<String>,
    // Folders that were listed, and where the next listing begins.
    folders: VecDeque<String>,
    after: Option<String>,
}

impl<'a> SupersededRecords<'a> {
    /// Looks for them as of `now_ms`.
    pub async fn start(
        blobs: &'a dyn Blobs,
        collection: &Collection,
        now_ms: Millis,
        grace_ms: Millis,
    ) -> PortResult<Self> {
        let retained = snapshot::newest_readable(blobs, collection, RETAINED_SNAPSHOTS).await?;
        let floor = retained.iter().map(|snapshot| snapshot.floor).min();
        let floor = floor
            .unwrap_or(0)
            .min(now_ms.saturating_sub(grace_ms) / 60_000);
        let mut snapshots = Vec::new();
        if !retained.is_empty() {
            snapshots = list_all(blobs, &blob_keys::catalog_prefix(collection)).await?;
        }
        // A part may belong to a snapshot that is being written; its manifest follows within the grace period.
        snapshots.retain(|key| {
            let is_old = snapshot::floor_of_key(key).is_some_and(|of_key| of_key < floor);
            is_old && !retained.iter().any(|snapshot| snapshot.contains(key))
        });
        Ok(Self {
            blobs,
            prefix: blob_keys::changes_prefix(collection),
            end: format!("{floor:010}/"),
            snapshots,
            folders: VecDeque::new(),
            after: None,
        })
    }

    /// At least a thousand further keys, if there are so many; `None` after the last.
    pub async fn next_page(&mut self) -> PortResult<Option<Vec<String>>> {
        let mut keys = std::mem::take(&mut self.snapshots);
        while keys.len() < LIST_PAGE {
            if self.folders.is_empty() {
                let after = self.after.as_deref();
                let page = self.blobs.children(&self.prefix, after, LIST_PAGE).await?;
                self.after = page.last().cloned().or(self.after.take());
                self.folders = page.into();
            }
            match self.folders.front() {
                Some(folder) if *folder < self.end => {
                    let folder = format!("{}{folder}", self.prefix);
                    keys.extend(list_keys(self.blobs, folder).await?);
                    self.folders.pop_front();
                }
                _ => break,
            }
        }
        Ok((!keys.is_empty()).then_some(keys))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use stemma_document::{Change, ChangeKind};
    use stemma_store::blobs::MemoryBlobs;

    use super::*;
    use crate::catalog::Catalog;
    use crate::fixtures::{self, entry, failure};
    use crate::watcher::CatalogWatcher;

    const DAY_MS: Millis = 24 * 3_600_000;
    const GRACE_MS: Millis = 7 * DAY_MS;

    async fn put(blobs: &MemoryBlobs, at_ms: Millis, kind: ChangeKind) {
        let key = blob_keys::change_key(&Collection::default(), at_ms, at_ms);
        let json = serde_json::to_vec(&Change { at_ms, kind }).unwrap();
        blobs.put(&key, json.into()).await.unwrap();
    }

    async fn load(blobs: &MemoryBlobs, now_ms: Millis) -> Catalog {
        Catalog::load(blobs, &Collection::default(), now_ms)
            .await
            .unwrap()
    }

    async fn superseded(blobs: &MemoryBlobs, now_ms: Millis) -> Vec<String> {
        let collection = Collection::default();
        let mut pages = SupersededRecords::start(blobs, &collection, now_ms, GRACE_MS)
            .await
            .unwrap();
        let mut keys = Vec::new();
        while let Some(page) = pages.next_page().await.unwrap() {
            keys.extend(page);
        }
        keys
    }

    // D21 of the engine review: nothing bounded the records.
    #[tokio::test]
    async fn records_below_a_snapshot_go_after_their_grace_and_change_nothing() {
        let blobs = MemoryBlobs::default();
        let collection = Collection::default();
        let start = 1_000 * DAY_MS;
        for n in 0..1_100 {
            let kind = ChangeKind::Published(Box::new(entry(&format!("{n:04}"))));
            put(&blobs, start + n * 1_000, kind).await;
        }
        put(&blobs, start, failure(entry("failed").version)).await;
        assert_eq!(
            superseded(&blobs, start + 30 * DAY_MS).await,
            Vec::<String>::new()
        );
        let before = load(&blobs, start + DAY_MS).await;
        let (mut suspended, _) =
            CatalogWatcher::start(None, &blobs, collection.clone(), start + DAY_MS)
                .await
                .unwrap();
        assert_eq!(
            superseded(&blobs, start + 2 * DAY_MS).await,
            Vec::<String>::new()
        );
        for n in 0..1_100 {
            let kind = ChangeKind::Published(Box::new(entry(&format!("later {n:04}"))));
            put(&blobs, start + DAY_MS + n * 1_000, kind).await;
        }
        let now = start + 30 * DAY_MS;
        load(&blobs, now).await;
        // A snapshot that lost a part does not count.
        let lost = format!("{}9999-1-x.json", blob_keys::catalog_prefix(&collection));
        blobs.put(&lost, "{}".into()).await.unwrap();
        let keys = superseded(&blobs, now).await;
        let records: BTreeSet<&String> = keys
            .iter()
            .filter(|key| key.contains("/changes/"))
            .collect();
        assert!((400..=1_101).contains(&records.len()), "{}", records.len());
        for key in &keys {
            blobs.delete(key).await.unwrap();
        }
        let after = load(&blobs, now).await;
        assert_eq!(after.len(), before.len() + 1_100);
        let followed = suspended.full_scan(&blobs, now).await.unwrap().unwrap();
        assert_eq!(fixtures::documents(&followed), fixtures::documents(&after));
        // The older snapshot still says the same with the records behind it.
        blobs.delete(&lost).await.unwrap();
        let manifests = list_all(&blobs, &blob_keys::catalog_prefix(&collection))
            .await
            .unwrap();
        let newest = manifests
            .iter()
            .rfind(|key| key.ends_with(".json"))
            .unwrap();
        blobs.delete(newest).await.unwrap();
        assert_eq!(
            fixtures::documents(&load(&blobs, now).await),
            fixtures::documents(&after)
        );
    }
}
