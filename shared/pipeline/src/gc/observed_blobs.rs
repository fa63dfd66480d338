//! A store for the tests of garbage collection: counts requests, and may die.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use stemma_store::blobs::{Blobs, MemoryBlobs, PutOutcome};
use stemma_store::{PortError, PortResult};

pub(super) struct ObservedBlobs {
    inner: Arc<MemoryBlobs>,
    gets: AtomicUsize,
    lists: AtomicUsize,
    deletes: AtomicUsize,
    writes_left: AtomicUsize,
}

impl ObservedBlobs {
    /// Fails every write and deletion after the first `writes`, like a process that died.
    pub(super) fn new(inner: &Arc<MemoryBlobs>, writes: usize) -> Self {
        Self {
            inner: Arc::clone(inner),
            gets: AtomicUsize::new(0),
            lists: AtomicUsize::new(0),
            deletes: AtomicUsize::new(0),
            writes_left: AtomicUsize::new(writes),
        }
    }

    /// The requests since the last call: reads, listings, deletions.
    pub(super) fn counts(&self) -> [usize; 3] {
        [&self.gets, &self.lists, &self.deletes].map(|count| count.swap(0, Ordering::Relaxed))
    }

    fn write(&self) -> PortResult<()> {
        let order = Ordering::SeqCst;
        match self
            .writes_left
            .fetch_update(order, order, |left| left.checked_sub(1))
        {
            Ok(_) => Ok(()),
            Err(_) => Err(PortError::permanent("blobs.test", "the process died")),
        }
    }
}

#[async_trait]
impl Blobs for ObservedBlobs {
    async fn put(&self, key: &str, bytes: Bytes) -> PortResult<PutOutcome> {
        self.write()?;
        self.inner.put(key, bytes).await
    }
    async fn get(&self, key: &str) -> PortResult<Option<Bytes>> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.inner.get(key).await
    }
    async fn get_range(&self, key: &str, range: Range<u64>) -> PortResult<Option<Bytes>> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.inner.get_range(key, range).await
    }
    async fn size(&self, key: &str) -> PortResult<Option<u64>> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.inner.size(key).await
    }
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.inner.list(prefix, after, limit).await
    }
    async fn children(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.inner.children(prefix, after, limit).await
    }
    async fn delete(&self, key: &str) -> PortResult<()> {
        self.write()?;
        self.deletes.fetch_add(1, Ordering::Relaxed);
        self.inner.delete(key).await
    }
    async fn barrier(&self) -> PortResult<()> {
        self.inner.barrier().await
    }
}
