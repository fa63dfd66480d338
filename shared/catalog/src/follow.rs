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

use crate::catalogue::{Catalogue, Current};
use crate::changes::{self, Mark};
use crate::open::{self, Open};

/// Minutes before this one that a glance still looks at.
const RECENT_MINUTES: u64 = 2;

/// What is known of a collection, and up to which records.
pub struct Follower {
    collection: Collection,
    current: Arc<Current>,
    mark: Mark,
    open: Arc<Open>,
}

impl Follower {
    /// Reads everything once.
    ///
    /// # Errors
    /// [`PortError`] when the store could not say.
    pub async fn begin(
        blobs: &dyn Blobs,
        collection: Collection,
    ) -> Result<(Self, Catalogue), PortError> {
        let (current, mark) = Current::load(blobs, &collection).await?;
        let open = open::find(blobs, &collection, &current).await?;
        let follower = Self {
            collection,
            current: Arc::new(current),
            mark,
            open: Arc::new(open),
        };
        let catalogue = follower.catalogue().await?;
        Ok((follower, catalogue))
    }

    /// The catalogue, where records of the last minutes changed it.
    ///
    /// # Errors
    /// [`PortError`] when the store could not say; nothing is lost by it.
    pub async fn glance(
        &mut self,
        blobs: &dyn Blobs,
        now_ms: Millis,
    ) -> Result<Option<Catalogue>, PortError> {
        let from = (now_ms / 60_000).saturating_sub(RECENT_MINUTES);
        if self.read(blobs, from).await? {
            self.catalogue().await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// The catalogue, where anything changed it.
    ///
    /// # Errors
    /// As [`Follower::glance`].
    pub async fn look(&mut self, blobs: &dyn Blobs) -> Result<Option<Catalogue>, PortError> {
        let mut changed = self.read(blobs, 0).await?;
        self.mark = self.mark.shortened();
        let open = open::find(blobs, &self.collection, &self.current).await?;
        if *self.open != open {
            self.open = Arc::new(open);
            changed = true;
        }
        if changed {
            self.catalogue().await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// Reads new records; whether there were any.
    async fn read(&mut self, blobs: &dyn Blobs, from: u64) -> Result<bool, PortError> {
        let tail = changes::since(blobs, &self.collection, &self.mark, from).await?;
        let changed = !tail.is_empty();
        let current = Arc::make_mut(&mut self.current);
        for (name, change) in tail {
            self.mark.add(name);
            change.into_iter().for_each(|change| current.apply(change));
        }
        Ok(changed)
    }

    async fn catalogue(&self) -> Result<Catalogue, PortError> {
        let current = Arc::clone(&self.current);
        let open = Arc::clone(&self.open);
        let made = tokio::task::spawn_blocking(move || Catalogue::of(&current, &open)).await;
        made.map_err(|error| PortError::lasting("blobs", "list", error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use stemma_document::{Change, ChangeKind, layout};
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
        let key = layout::change_key(&Collection::default(), at_ms, at_ms);
        blobs
            .put(&key, serde_json::to_vec(&change).unwrap().into())
            .await
            .unwrap();
    }

    fn listed(catalogue: Option<Catalogue>) -> Vec<(String, u64)> {
        let catalogue = catalogue.expect("something changed");
        catalogue
            .documents()
            .iter()
            .map(|listed: &crate::catalogue::Listed| {
                (listed.version().path.clone(), listed.version().seq)
            })
            .collect()
    }

    #[tokio::test]
    async fn new_records_show_at_a_glance_and_late_ones_at_a_look() {
        let blobs = MemoryBlobs::default();
        let minute = 60_000;
        publish(&blobs, 100 * minute, "a", 1).await;
        let (mut follower, first) = Follower::begin(&blobs, Collection::default())
            .await
            .unwrap();
        assert_eq!(listed(Some(first)), [("a".into(), 1)]);
        assert!(
            follower
                .glance(&blobs, 101 * minute)
                .await
                .unwrap()
                .is_none()
        );
        publish(&blobs, 101 * minute, "a", 2).await;
        publish(&blobs, 101 * minute + 1, "b", 1).await;
        assert_eq!(
            listed(follower.glance(&blobs, 101 * minute).await.unwrap()),
            [("a".into(), 2), ("b".into(), 1)]
        );
        publish(&blobs, 95 * minute, "late", 1).await;
        assert!(
            follower
                .glance(&blobs, 101 * minute)
                .await
                .unwrap()
                .is_none()
        );
        assert_eq!(listed(follower.look(&blobs).await.unwrap()).len(), 3);
        assert!(follower.look(&blobs).await.unwrap().is_none());
    }
}
